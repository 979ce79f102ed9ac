// Operations by name: what the command line, backends and tests iterate over.
#pragma once

#include <halfulp/emulation/arithmetic.hpp>
#include <halfulp/emulation/comparison.hpp>
#include <halfulp/emulation/conversion.hpp>

#include <array>
#include <string>
#include <string_view>
#include <variant>

namespace halfulp {

/// What can be computed by name; `operations` says what each is.
enum class Operation : std::uint8_t {
  add,
  sub,
  mul,
  div,
  rem,
  sqrt,
  fma,
  round_to_integral,
  min,
  max,
  eq,
  lt,
  le,
  convert,
  rcp,
  rsqrt,
  exp
};

/// What an operation's result is a code word of.
enum class ResultKind : std::uint8_t { format, truth, target };

/// One operation.
struct OperationInfo {
  Operation operation;       ///< which one
  std::string_view name;     ///< as on the command line
  int arity;                 ///< how many operands
  ResultKind result;         ///< what the result is a code word of
  std::string_view summary;  ///< a few words
};

// clang-format off
/// Every operation, in the order of the enumeration.
inline constexpr std::array<OperationInfo, 17> operations{{
  {Operation::add,               "add",               2, ResultKind::format, "a + b"},
  {Operation::sub,               "sub",               2, ResultKind::format, "a - b"},
  {Operation::mul,               "mul",               2, ResultKind::format, "a * b"},
  {Operation::div,               "div",               2, ResultKind::format, "a / b"},
  {Operation::rem,               "rem",               2, ResultKind::format, "a - b * nearest-even(a / b)"},
  {Operation::sqrt,              "sqrt",              1, ResultKind::format, "square root"},
  {Operation::fma,               "fma",               3, ResultKind::format, "a * b + c, rounded once"},
  {Operation::round_to_integral, "round-to-integral", 1, ResultKind::format, "nearest integral value by the rounding mode"},
  {Operation::min,               "min",               2, ResultKind::format, "IEEE 754-2019 minimumNumber"},
  {Operation::max,               "max",               2, ResultKind::format, "IEEE 754-2019 maximumNumber"},
  {Operation::eq,                "eq",                2, ResultKind::truth,  "a = b, quiet"},
  {Operation::lt,                "lt",                2, ResultKind::truth,  "a < b, signalling"},
  {Operation::le,                "le",                2, ResultKind::truth,  "a <= b, signalling"},
  {Operation::convert,           "convert",           1, ResultKind::target, "the same value in another format or integer type"},
  {Operation::rcp,               "rcp",               1, ResultKind::format, "1 / a"},
  {Operation::rsqrt,             "rsqrt",             1, ResultKind::format, "1 / square root of a"},
  {Operation::exp,               "exp",               1, ResultKind::format, "e to the power of a"},
}};
// clang-format on

constexpr const OperationInfo& info(Operation operation) {
  return operations[static_cast<std::size_t>(operation)];
}  ///< The row of an operation.

/// The operation of that name. Throws std::invalid_argument naming the nearest ones.
Operation parse_operation(std::string_view name);

/// A format or an integer type: an end of a conversion.
using NumberType = std::variant<FloatFormat, IntegerType>;

/// "fp16", "e5m3", "i32"... Throws std::invalid_argument with one line.
NumberType parse_number_type(std::string_view name);
std::string number_type_name(const NumberType& type);  ///< The name that parse_number_type reads back.
/// Bits and hexadecimal digits of its code words.
int storage_bits(const NumberType& type);
inline int hex_digits(const NumberType& type) {
  return (storage_bits(type) + 3) / 4;
}  ///< Hexadecimal digits of its code words.

/// One operation with everything that decides its result besides operands: the unit of `eval`, of backends, of
/// comparisons.
struct Task {
  Operation operation = Operation::add;  ///< what is computed
  NumberType from = FloatFormat{};       ///< of the operands; a FloatFormat except in conversions
  NumberType to = FloatFormat{};         ///< of the result; equal to `from` except in conversions
  Rounding rounding;                     ///< and how it is rounded

  /// The type of result code words; comparisons give truth values of one hexadecimal digit.
  int result_hex_digits() const { return info(operation).result == ResultKind::truth ? 1 : hex_digits(to); }
  /// "add fp16 nearest-even", "convert fp32 to fp16 toward-zero".
  std::string description() const;
};

/// Why a task is refused (a descriptor with a defect, E8M0 arithmetic, integer operands outside conversions,
/// random_bits out of range), in one line; empty if it is fine.
std::string refusal(const Task& task);

/// An operation of `arithmetic.hpp`, `recommended.hpp` or `conversion.hpp` on code words of one run-time format.
/// Preconditions: f.has_zero; not Operation::convert.
Rounded evaluate(Operation operation, const FloatFormat& f, const Rounding& rounding, std::uint64_t a,
                 std::uint64_t b = 0, std::uint64_t c = 0, std::uint64_t random = 0);

/// Any task, conversions included. Precondition: refusal(task) is empty.
Rounded evaluate(const Task& task, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0, std::uint64_t random = 0);

}  // namespace halfulp
