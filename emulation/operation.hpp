// The table of operations. The command line, arrays, devices, Python and tests take theirs from it.
#pragma once

#include <halfulp/emulation/arithmetic.hpp>
#include <halfulp/emulation/comparison.hpp>
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/emulation/elementary.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <variant>

namespace halfulp {

// clang-format off
/// Every operation:
/// OPERATION(enumerator and Python function, name, operands, result, arrays, definition, instruction, no instruction, summary)
///
///   result          a ResultKind
///   arrays          whether emulation/array has kernels for it
///   definition      the exact result of code words a, b, c of format f, rounded once to format `to` by r and `random`, in
///                   integers U
///   instruction     the stem of x86's name for it, or empty, and then `no instruction` says why
///   summary         a few words
#define HALFULP_OPERATIONS(OPERATION)                                                                                  \
  OPERATION(add, "add", 2, format, true, add<U>(f, r, a, b, random), "ADD", "", "a + b")                               \
  OPERATION(sub, "sub", 2, format, true, sub<U>(f, r, a, b, random), "SUB", "", "a - b")                               \
  OPERATION(mul, "mul", 2, format, true, mul<U>(f, r, a, b, random), "MUL", "", "a * b")                               \
  OPERATION(div, "div", 2, format, true, div<U>(f, r, a, b, random), "DIV", "", "a / b")                               \
  OPERATION(rem, "rem", 2, format, false, rem<U>(f, r, a, b, random), "",                                              \
            "no SSE or AVX instruction computes the IEEE remainder", "a - b * nearest-even(a / b)")                    \
  OPERATION(sqrt, "sqrt", 1, format, true, sqrt<U>(f, r, a, random), "SQRT", "", "square root")                        \
  OPERATION(fma, "fma", 3, format, true, fma<U>(f, r, a, b, c, random), "VFMADD231", "", "a * b + c, rounded once")    \
  OPERATION(round_to_integral, "round-to-integral", 1, format, false, round_to_integral(f, r, a, random), "ROUND",     \
            "", "nearest integral value by the rounding mode")                                                         \
  OPERATION(min, "min", 2, format, false, min(f, r, a, b), "",                                                         \
            "MINPS and MAXPS are not minimumNumber and maximumNumber", "IEEE 754-2019 minimumNumber")                  \
  OPERATION(max, "max", 2, format, false, max(f, r, a, b), "",                                                         \
            "MINPS and MAXPS are not minimumNumber and maximumNumber", "IEEE 754-2019 maximumNumber")                  \
  OPERATION(eq, "eq", 2, truth, false, eq(f, r, a, b), "UCOMI", "", "a = b, quiet")                                    \
  OPERATION(lt, "lt", 2, truth, false, lt(f, r, a, b), "COMI", "", "a < b, signalling")                                \
  OPERATION(le, "le", 2, truth, false, le(f, r, a, b), "COMI", "", "a <= b, signalling")                               \
  OPERATION(convert, "convert", 1, target, false, convert(f, to, r, a, random), "CVT",                                 \
            "", "the same value in another format or integer type")                                                    \
  OPERATION(rcp, "rcp", 1, format, false, rcp<U>(f, r, a, random), "",                                                 \
            "RCPPS is an estimate within 1.5 * 2^-12, not rounded; div with 1 on the left is the same operation",      \
            "1 / a")                                                                                                   \
  OPERATION(rsqrt, "rsqrt", 1, format, false, rsqrt(f, r, a, random), "",                                              \
            "RSQRTPS is an estimate within 1.5 * 2^-12, not rounded", "1 / square root of a")                          \
  OPERATION(exp, "exp", 1, format, false, exp(f, r, a, random), "",                                                    \
            "no SSE or AVX instruction computes e^a", "e to the power of a")                                           \
  OPERATION(log2, "log2", 1, format, false, log2(f, r, a, random), "",                                                 \
            "no SSE or AVX instruction computes a logarithm", "logarithm to base 2")
// clang-format on

/// What can be computed by name; `operations` says what each is.
enum class Operation : std::uint8_t {
#define HALFULP_ROW(operation, ...) operation,
  HALFULP_OPERATIONS(HALFULP_ROW)
#undef HALFULP_ROW
};

/// What an operation's result is a code word of.
enum class ResultKind : std::uint8_t { format, truth, target };

/// One operation.
struct OperationInfo {
  Operation operation;           ///< which one
  std::string_view name;         ///< as on the command line
  std::string_view python;       ///< Python's function
  int arity;                     ///< how many operands
  ResultKind result;             ///< what the result is a code word of
  bool arrays;                   ///< whether there are vector kernels for some formats and roundings
  std::string_view x86;          ///< how names of x86's instructions begin; empty: none rounds as IEEE 754 says
  std::string_view without_x86;  ///< why not
  std::string_view summary;      ///< a few words
};

/// Every operation, in the order of the enumeration.
inline constexpr auto operations = std::to_array<OperationInfo>({
#define HALFULP_ROW(operation, name, arity, result, arrays, definition, x86, without_x86, summary) \
  {Operation::operation, name, #operation, arity, ResultKind::result, arrays, x86, without_x86, summary},
    HALFULP_OPERATIONS(HALFULP_ROW)
#undef HALFULP_ROW
});

constexpr const OperationInfo& info(Operation operation) {
  return operations[static_cast<std::size_t>(operation)];
}  ///< The row of an operation.

/// The operations that arrays have kernels for.
inline constexpr auto array_operations = [] {
  std::array<Operation, static_cast<std::size_t>(std::ranges::count_if(operations, &OperationInfo::arrays))> all{};
  std::size_t count = 0;
  for (const OperationInfo& row : operations)
    if (row.arrays) all[count++] = row.operation;
  return all;
}();

/// What an operation is: Definition<operation>::of<U>(f, to, r, a, b, c, random), as the table says.
template <Operation>
struct Definition;
#define HALFULP_ROW(operation, name, arity, result, arrays, definition, ...)                                         \
  template <>                                                                                                        \
  struct Definition<Operation::operation> {                                                                          \
    template <class U>                                                                                               \
    static constexpr Rounded of(const FloatFormat& f, [[maybe_unused]] const FloatFormat& to, const Rounding& r,     \
                                std::uint64_t a, [[maybe_unused]] std::uint64_t b, [[maybe_unused]] std::uint64_t c, \
                                [[maybe_unused]] std::uint64_t random) {                                             \
      return definition;                                                                                             \
    }                                                                                                                \
  };
HALFULP_OPERATIONS(HALFULP_ROW)
#undef HALFULP_ROW

/// f(std::integral_constant<Operation, operation>) for an operation known at run time only.
template <class F>
constexpr decltype(auto) with_operation(Operation operation, F&& f) {
  switch (operation) {
#define HALFULP_ROW(operation, ...) \
  case Operation::operation: return f(std::integral_constant<Operation, Operation::operation>{});
    HALFULP_OPERATIONS(HALFULP_ROW)
#undef HALFULP_ROW
  }
  __builtin_unreachable();
}

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

/// An operation on code words of one format. Precondition: f.has_zero.
Rounded evaluate(Operation operation, const FloatFormat& f, const Rounding& rounding, std::uint64_t a,
                 std::uint64_t b = 0, std::uint64_t c = 0, std::uint64_t random = 0);

/// Any task, conversions included. Precondition: refusal(task) is empty.
Rounded evaluate(const Task& task, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0, std::uint64_t random = 0);

}  // namespace halfulp
