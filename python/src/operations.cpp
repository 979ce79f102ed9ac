// Element-wise operations on code words: vectors where emulation/array/array.hpp has them, else the scalar functions on
// all cores.
#include "module.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <array>

namespace halfulp::python {
namespace {

constexpr const char* operand_names[] = {"a", "b", "c"};

Task task_of(const std::string& operation, const std::string& from, const std::string& to, const Rounding& rounding) {
  Task task;
  task.operation = parse_operation(operation);
  task.from = parse_number_type(from);
  task.to = task.operation == Operation::convert ? parse_number_type(to) : task.from;
  task.rounding = rounding;
  if (const std::string why = refusal(task); !why.empty()) throw std::invalid_argument(why);
  return task;
}

std::uint64_t mask_of(const NumberType& type) {
  const int bits = storage_bits(type);
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

bool has_array_body(Operation operation) {
  switch (operation) {
    case Operation::add:
    case Operation::sub:
    case Operation::mul:
    case Operation::div:
    case Operation::sqrt:
    case Operation::fma: return true;
    default: return false;
  }
}

void one_by_one(const Task& task, const std::array<CodeWords, 3>& operands, const Out& out,
                const std::optional<Out>& flags, std::uint64_t seed) {
  std::uint8_t* const raised = flags ? write<std::uint8_t>(*flags).data() : nullptr;
  with_words(out.dtype(), [&]<class Code>(Code) {
    const auto results = write<Code>(out);
    const nb::gil_scoped_release released;
    const auto compute = [&](const auto& piece) {
      for (std::size_t i = piece.begin(); i < piece.end(); ++i) {
        const auto word = [&](int k) {
          return operands[static_cast<std::size_t>(k)].size() ? operands[static_cast<std::size_t>(k)][i] : 0;
        };
        const std::uint64_t random = task.rounding.mode == RoundingMode::stochastic ? rounding_bits(seed, 0, i) : 0;
        const Rounded r = evaluate(task, word(0), word(1), word(2), random);
        results[i] = static_cast<Code>(r.code);
        if (raised) raised[i] = r.flags;
      }
    };
    // Parts of less than a second at the slowest (exp of fp64), with a look at Ctrl-C behind each.
    constexpr std::size_t part = std::size_t{1} << 16;
    for (std::size_t first = 0; first < results.size(); first += part) {
      tbb::parallel_for(tbb::blocked_range<std::size_t>(first, std::min(first + part, results.size()), 1024), compute);
      stop_if_asked();
    }
  });
}

void elementwise(const std::string& operation, const std::string& from, const std::string& to, const Rounding& rounding,
                 const In& a, const std::optional<In>& b, const std::optional<In>& c, const Out& out,
                 const std::optional<Out>& flags, std::uint64_t seed) {
  const Task task = task_of(operation, from, to, rounding);
  const std::optional<In> given[] = {a, b, c};
  std::array<CodeWords, 3> operands;
  for (int k = 0; k < 3; ++k) {
    const auto& x = given[k];
    if (x.has_value() != (k < info(task.operation).arity))
      throw std::invalid_argument(operation + " takes " + std::to_string(info(task.operation).arity) + " operands");
    if (!x) continue;
    if (x->size() != out.size() || x->dtype() != a.dtype())
      throw std::invalid_argument(std::string(operand_names[k]) + ": operands and out differ in size or type");
    with_words(x->dtype(),
               [&]<class Code>(Code) { check_codes(operand_names[k], read<Code>(*x), mask_of(task.from), from); });
    operands[static_cast<std::size_t>(k)] = words(x);
  }
  if (flags && flags->size() != out.size()) throw std::invalid_argument("flags: of another size than out");
  const int result_bits = info(task.operation).result == ResultKind::truth ? 1 : storage_bits(task.to);
  if (static_cast<int>(out.itemsize()) * 8 < result_bits) throw nb::type_error("out: its words are too narrow");
  const bool wide = a.dtype() == nb::dtype<std::uint64_t>();
  if (flags || wide || !has_array_body(task.operation) || out.dtype() != a.dtype())
    return one_by_one(task, operands, out, flags, seed);
  with_type<std::uint8_t, std::uint16_t, std::uint32_t>(out.dtype(), [&]<class Code>(Code) {
    const auto span = [](const std::optional<In>& x) { return x ? read<Code>(*x) : std::span<const Code>(); };
    const auto x = span(a), y = span(b), z = span(c);
    const auto results = write<Code>(out);
    const nb::gil_scoped_release released;
    apply(task.operation, std::get<FloatFormat>(task.from), rounding, x, y, z, results, RandomStream{seed, 0, 0});
  });
}

}  // namespace

void add_operations(nb::module_& m) {
  m.def("elementwise", &elementwise, nb::arg("operation"), nb::arg("format"), nb::arg("to"), nb::arg("rounding"),
        nb::arg("a"), nb::arg("b").none(), nb::arg("c").none(), nb::arg("out"), nb::arg("flags").none(),
        nb::arg("seed"),
        "out[i] = operation(a[i], b[i], c[i]) on code words, and the IEEE flags of each as TestFloat's bits.");
}

}  // namespace halfulp::python
