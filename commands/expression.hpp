// Arithmetic as people write it: numbers, + - * / ^, parentheses, the functions of `halfulp eval`, and sums.
#pragma once

#include <halfulp/commands/rational.hpp>
#include <halfulp/emulation/operation.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::cli {

/// A number, or an operation and its operands.
struct Expression {
  enum class Kind : std::uint8_t { number, code_word, operation, negation, absolute, sum };
  Kind kind = Kind::number;
  std::string text;                      ///< as written, without outer parentheses
  std::optional<Rational> value;         ///< of a finite number, exactly: 0.1, 2^-25
  std::uint64_t code = 0;                ///< of a code word such as 0x3C00
  Operation operation = Operation::add;  ///< one whose result is of its operands' format
  std::vector<Expression> operands;
  std::uint64_t count = 0;  ///< of a sum: how many times its operand is added up
};

/// The most terms of an expression's sums, all together: each is added up one by one.
inline constexpr std::uint64_t most_terms = 1'000'000;

/// Text with the signs that are typeset, U+2212, U+00D7, U+00F7, U+00B7 and U+22C5, as - * / * *.
std::string with_typed_signs(std::string_view text);

/// Reads an expression. By falling precedence: ^ (also **; of numbers by whole numbers), signs, * and /, + and -. A
/// sign before a number belongs to it. A hexadecimal word without point and exponent is a code word of whatever format
/// the expression is computed in. sum(x, n) is x + x + ..., n terms, from left to right. Typeset signs are taken too.
/// Throws std::invalid_argument in one line that says what is accepted where.
Expression parse_expression(std::string_view text);

/// The value of an expression such as 1/3, 2^-25 or (1 + 2^-11) * 3; nothing for a number alone, such as 0.5, which
/// parse() reads. Throws std::invalid_argument in one line for an expression without a rational
/// value, and what parse_expression throws.
std::optional<Rational> expression_value(std::string_view text);

/// Whether text is more than one number or code word: it has an operator or a function.
bool is_compound(const Expression& expression);

/// A value without any rounding: exactly `value` if `doubt` is zero, else within `doubt` of it.
struct Known {
  Rational value, doubt = 0;
  bool is_exact() const { return doubt.is_zero(); }
};

/// An inexact value as the number of at most 60 digits that it agrees with in 90, if there is one: 2, not
/// 1.99...9 with a hundred digits.
Known known(Rational value, Rational doubt);

/// A function of a number, where it is not rational: irrational_result, or nullptr where only rational values are
/// wanted.
using IrrationalResult = std::optional<Known> (*)(Operation operation, const Known& x);
/// sqrt, rsqrt, exp and log2 to 100 decimal digits and more. Precondition: x lies in the operation's domain.
std::optional<Known> irrational_result(Operation operation, const Known& x);

/// The value of an expression, or none for code words, what is not finite, and what is neither rational nor known by
/// `irrational`. Where so many digits are those of a number with at most 60, as in sqrt(2) * sqrt(2), that number is
/// taken.
std::optional<Known> value_of(const Expression& expression, IrrationalResult irrational);

/// What an operation gives of such operands, likewise.
std::optional<Known> exact_result(Operation operation, const std::vector<Known>& operands, IrrationalResult irrational);

}  // namespace halfulp::cli
