// Element-wise operations on code words: compute() of emulation/array/array.hpp on NumPy's memory.
#include "module.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <memory>

namespace halfulp::python {
namespace {

constexpr const char* operand_names[] = {"a", "b", "c"};

Task checked(Task task) {
  if (const std::string why = refusal(task); !why.empty()) throw std::invalid_argument(why);
  return task;
}

Task task_of(const std::string& operation, const std::string& from, const std::string& to, const Rounding& rounding) {
  Task task;
  task.operation = parse_operation(operation);
  task.from = parse_number_type(from);
  task.to = task.operation == Operation::convert ? parse_number_type(to) : task.from;
  task.rounding = rounding;
  return checked(task);
}

void require_operand(const Task& task, int k, bool given) {
  const OperationInfo& operation = info(task.operation);
  if (given != (k < operation.arity))
    throw std::invalid_argument(std::string(operation.name) + " takes " + std::to_string(operation.arity) +
                                " operands");
}

std::uint64_t mask_of(const NumberType& type) {
  const int bits = storage_bits(type);
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

void elementwise(const std::string& operation, const std::string& from, const std::string& to, const Rounding& rounding,
                 const In& a, const std::optional<In>& b, const std::optional<In>& c, const Out& out,
                 const std::optional<Out>& flags, std::uint64_t seed) {
  const Task task = task_of(operation, from, to, rounding);
  const std::optional<In> given[] = {a, b, c};
  std::array<CodeWords, 3> operands;
  for (int k = 0; k < 3; ++k) {
    const auto& x = given[k];
    require_operand(task, k, x.has_value());
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
  const std::span<Flags> raised = flags ? write<Flags>(*flags) : std::span<Flags>();
  with_words(out.dtype(), [&]<class Code>(Code) {
    const auto results = write<Code>(out);
    const nb::gil_scoped_release released;
    compute(task, operands[0], operands[1], operands[2], results, RandomStream{seed, 0, 0}, raised, stop_if_asked);
  });
}

/// The same on values, of which those that the format does not hold are first rounded to it, to nearest even.
template <class Code>
void compute_values(const Task& task, const std::array<std::optional<In>, 3>& operands, std::span<float> out,
                    const RandomStream& random) {
  constexpr std::size_t block = 4096, part = std::size_t{1} << 18;
  const auto& f = std::get<FloatFormat>(task.from);
  const auto compute_piece = [&](std::size_t begin, std::size_t end) {
    const std::size_t longest = std::min(block, end - begin);
    const auto words = std::make_unique_for_overwrite<Code[]>(4 * longest);  // Python's threads may have small stacks
    for (; begin < end; begin += block) {
      const std::size_t size = std::min(block, end - begin);
      std::array<CodeWords, 3> given;
      for (std::size_t k = 0; k < 3; ++k) {
        if (!operands[k]) continue;
        const std::span<Code> to(&words[k * longest], size);
        with_type<float, double>(operands[k]->dtype(), [&]<class T>(T) {
          encode(f, Rounding{}, read<T>(*operands[k]).subspan(begin, size), to);
        });
        given[k] = std::span<const Code>(to);
      }
      const std::span<Code> result(&words[3 * longest], size);
      compute(task, given[0], given[1], given[2], result, random.from(begin));
      decode(f, std::span<const Code>(result), out.subspan(begin, size));
    }
  };
  if (out.empty()) return;
  if (out.size() <= 2 * block) return compute_piece(0, out.size());
  for (std::size_t first = 0; first < out.size(); first += part) {
    tbb::parallel_for(tbb::blocked_range<std::size_t>(first, std::min(first + part, out.size()), 2 * block),
                      [&](const auto& piece) { compute_piece(piece.begin(), piece.end()); });
    stop_if_asked();
  }
}

void elementwise_values(const std::string& operation, const FloatFormat& f, const Rounding& rounding, const In& a,
                        const std::optional<In>& b, const std::optional<In>& c, const Out& out, std::uint64_t seed) {
  const Task task = checked({parse_operation(operation), f, f, rounding});
  const std::array<std::optional<In>, 3> operands = {a, b, c};
  for (int k = 0; k < 3; ++k) {
    const auto& x = operands[static_cast<std::size_t>(k)];
    require_operand(task, k, x.has_value());
    if (x && x->size() != out.size())
      throw std::invalid_argument(std::string(operand_names[k]) + ": operands and out differ in size");
  }
  if (info(task.operation).result == ResultKind::truth) throw std::invalid_argument(operation + ": true or false");
  const auto results = write<float>(out);
  const nb::gil_scoped_release released;
  const RandomStream random{seed, 0, 0};
  switch (f.storage_bytes()) {
    case 1: return compute_values<std::uint8_t>(task, operands, results, random);
    case 2: return compute_values<std::uint16_t>(task, operands, results, random);
    case 4: return compute_values<std::uint32_t>(task, operands, results, random);
    default: throw std::invalid_argument(format_name(f) + ": accepted: formats of at most 32 bits");
  }
}

/// Every operation: its name, how many operands it takes, whether it answers true or false.
nb::list table() {
  nb::list rows;
  for (const OperationInfo& row : operations)
    rows.append(
        nb::make_tuple(std::string(row.python), std::string(row.name), row.arity, row.result == ResultKind::truth));
  return rows;
}

}  // namespace

void add_operations(nb::module_& m) {
  m.def("elementwise", &elementwise, nb::arg("operation"), nb::arg("format"), nb::arg("to"), nb::arg("rounding"),
        nb::arg("a"), nb::arg("b").none(), nb::arg("c").none(), nb::arg("out"), nb::arg("flags").none(),
        nb::arg("seed"),
        "out[i] = operation(a[i], b[i], c[i]) on code words, and the IEEE flags of each as TestFloat's bits.");
  m.def("elementwise_values", &elementwise_values, nb::arg("operation"), nb::arg("format"), nb::arg("rounding"),
        nb::arg("a"), nb::arg("b").none(), nb::arg("c").none(), nb::arg("out"), nb::arg("seed"),
        "out[i], of float32 = the value of the operation on values, float32 or float64, which are rounded to the "
        "format first, to nearest even.");
  m.def("operations", &table, nb::sig("def operations() -> list[tuple[str, str, int, bool]]"),
        "Every operation: Python's function, the name that elementwise() takes, how many operands, whether it answers "
        "true or false.");
}

}  // namespace halfulp::python
