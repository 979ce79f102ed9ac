// Element-wise operations on code words: compute() of emulation/array/array.hpp on NumPy's memory.
#include "module.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/operation.hpp>

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
  const std::span<Flags> raised = flags ? write<Flags>(*flags) : std::span<Flags>();
  with_words(out.dtype(), [&]<class Code>(Code) {
    const auto results = write<Code>(out);
    const nb::gil_scoped_release released;
    compute(task, operands[0], operands[1], operands[2], results, RandomStream{seed, 0, 0}, raised, stop_if_asked);
  });
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
  m.def("operations", &table, nb::sig("def operations() -> list[tuple[str, str, int, bool]]"),
        "Every operation: Python's function, the name that elementwise() takes, how many operands, whether it answers "
        "true or false.");
}

}  // namespace halfulp::python
