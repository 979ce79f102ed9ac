#include <halfulp/emulation/operation.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/spelling.hpp>

#include <array>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace halfulp {
namespace {

constexpr std::array<Named<IntegerType>, 4> integer_types{{{"i32", i32}, {"i64", i64}, {"u32", u32}, {"u64", u64}}};

template <class U>
Rounded evaluate_in(Operation operation, const FloatFormat& f, const FloatFormat& to, const Rounding& r,
                    std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t random) {
  return with_operation(operation, [&]<Operation op>(std::integral_constant<Operation, op>) {
    return Definition<op>::template of<U>(f, to, r, a, b, c, random);
  });
}

}  // namespace

namespace {

/// What IEEE 754, Berkeley TestFloat and C call them.
constexpr auto other_names = std::to_array<Synonym>({{"muladd", "fma"},
                                                     {"fusedmultiplyadd", "fma"},
                                                     {"mad", "fma"},
                                                     {"roundtoint", "round-to-integral"},
                                                     {"rint", "round-to-integral"},
                                                     {"nearbyint", "round-to-integral"},
                                                     {"cvt", "convert"},
                                                     {"remainder", "rem"},
                                                     {"squareroot", "sqrt"},
                                                     {"minimumnumber", "min"},
                                                     {"maximumnumber", "max"}});

}  // namespace

Operation parse_operation(std::string_view name) {
  std::vector<std::string> names;
  for (const OperationInfo& row : operations) {
    if (row.name == name) return row.operation;
    names.emplace_back(row.name);
  }
  throw std::invalid_argument(unknown_name("operation", name, names, names.size(), name_for(other_names, name)));
}

NumberType parse_number_type(std::string_view name) {
  for (const auto& row : integer_types)
    if (row.name == name) return row.value;
  return parse_format(name);
}

std::string number_type_name(const NumberType& type) {
  if (const auto* integer = std::get_if<IntegerType>(&type)) return std::string(name_in(integer_types, *integer));
  return format_name(std::get<FloatFormat>(type));
}

int storage_bits(const NumberType& type) {
  if (const auto* integer = std::get_if<IntegerType>(&type)) return integer->bits;
  return std::get<FloatFormat>(type).storage_bits();
}

std::string Task::description() const {
  std::string text = std::string(info(operation).name) + " " + number_type_name(from);
  if (operation == Operation::convert) text += " to " + number_type_name(to);
  return text + " " + std::string(name_of(rounding.mode));
}

std::string refusal(const Task& task) {
  if (task.rounding.random_bits < 1 || task.rounding.random_bits > max_random_bits)
    return "random bits must be 1 to " + std::to_string(max_random_bits) + ", not " +
           std::to_string(task.rounding.random_bits);
  for (const NumberType* type : {&task.from, &task.to})
    if (const auto* f = std::get_if<FloatFormat>(type))
      if (const std::string why = defect(*f); !why.empty())
        return "a descriptor with exponent_bits = " + std::to_string(f->exponent_bits) +
               ", fraction_bits = " + std::to_string(f->fraction_bits) + ", bias = " + std::to_string(f->bias) + " " +
               why;
  const auto* from = std::get_if<FloatFormat>(&task.from);
  if (task.operation == Operation::convert) {
    if (!from && std::holds_alternative<IntegerType>(task.to))
      return "convert needs a floating-point format on one side, not " + number_type_name(task.from) + " to " +
             number_type_name(task.to);
    return {};
  }
  if (!from) return std::string(info(task.operation).name) + " works on floating-point formats; integers only convert";
  if (!from->has_zero)
    return format_name(*from) + " holds scales: it has conversions only, no " + std::string(info(task.operation).name);
  return {};
}

Rounded evaluate(Operation operation, const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b,
                 std::uint64_t c, std::uint64_t random) {
  return f.precision() <= 24 ? evaluate_in<std::uint64_t>(operation, f, f, rounding, a, b, c, random)
                             : evaluate_in<uint128>(operation, f, f, rounding, a, b, c, random);
}

Rounded evaluate(const Task& task, std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t random) {
  if (task.operation != Operation::convert)
    return evaluate(task.operation, std::get<FloatFormat>(task.from), task.rounding, a, b, c, random);
  const auto* from = std::get_if<FloatFormat>(&task.from);
  const auto* to = std::get_if<FloatFormat>(&task.to);
  if (!from) return from_integer(std::get<IntegerType>(task.from), *to, task.rounding, a, random);
  if (!to) return to_integer(*from, std::get<IntegerType>(task.to), task.rounding, a, random);
  return convert(*from, *to, task.rounding, a, random);
}

}  // namespace halfulp
