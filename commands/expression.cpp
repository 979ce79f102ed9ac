#include <halfulp/commands/expression.hpp>

#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace halfulp::cli {
namespace {

using boost::multiprecision::cpp_int;
constexpr std::size_t longest = 1000;
constexpr int deepest = 100;
/// Bits of powers: what a user can mean lies far within.
constexpr int most_bits = 16'000;

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// How tightly an operator binds what stands around it.
enum class Binding : std::uint8_t { none, sum, product, sign, power };

/// Top-down operator precedence (Pratt 1973, Top Down Operator Precedence).
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    if (text.size() > longest)
      throw std::invalid_argument(
          fmt::format("an expression of {} characters; accepted: at most {}", text.size(), longest));
  }

  Expression whole() {
    Expression all = expression(Binding::none);
    skip_blanks();
    if (at_ != text_.size())
      refuse(peek() == ')' ? "an operator or the end; no '(' is open" : "an operator or the end");
    return all;
  }

 private:
  /// "at character 7, ')': accepted: ...".
  [[noreturn]] void refuse(std::string_view accepted) const {
    std::size_t end = at_ + 1;  // of the character, which may have several bytes
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xc0) == 0x80) ++end;
    const std::string here = at_ < text_.size() ? fmt::format("'{}'", shown(text_.substr(at_, end - at_))) : "the end";
    throw std::invalid_argument(fmt::format("'{}', character {}, {}; accepted: {}{}", shown(text_), at_ + 1, here,
                                            accepted, decimal_hint(at_)));
  }
  /// "; decimals have a point: 0.1" where a comma stands between two digits, else nothing.
  std::string decimal_hint(std::size_t comma) const {
    if (comma == 0 || comma + 1 >= text_.size() || text_[comma] != ',' || !is_digit(text_[comma - 1]) ||
        !is_digit(text_[comma + 1]))
      return {};
    std::size_t begin = comma, end = comma + 1;
    while (begin > 0 && is_digit(text_[begin - 1])) --begin;
    while (end < text_.size() && is_digit(text_[end])) ++end;
    return fmt::format("; decimals have a point: {}", shown(fmt::format("{}.{}", text_.substr(begin, comma - begin),
                                                                        text_.substr(comma + 1, end - comma - 1))));
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  /// What stands from `begin` to here.
  std::string written(std::size_t begin) const {
    const std::string_view all = text_.substr(begin, at_ - begin);
    return std::string(all.substr(0, all.find_last_not_of(" \t") + 1));
  }

  Expression expression(Binding around) {
    if (++depth_ > deepest) refuse(fmt::format("at most {} nested parentheses and signs", deepest));
    skip_blanks();
    const std::size_t begin = at_;
    Expression left = operand();
    for (;;) {
      const char c = peek();
      const bool power = c == '^' || (c == '*' && at_ + 1 < text_.size() && text_[at_ + 1] == '*');
      const Binding binding = power                  ? Binding::power
                              : c == '*' || c == '/' ? Binding::product
                              : c == '+' || c == '-' ? Binding::sum
                                                     : Binding::none;
      if (binding <= around) break;
      at_ += power && c == '*' ? 2 : 1;
      if (power) {
        left = raised(left, begin);
        if (peek() == '^' || text_.substr(at_).starts_with("**"))
          refuse("parentheses where powers follow each other, such as (2^2)^3");
        continue;
      }
      Expression right = expression(binding);
      const Operation operation = c == '*'   ? Operation::mul
                                  : c == '/' ? Operation::div
                                  : c == '+' ? Operation::add
                                             : Operation::sub;
      left = {Expression::Kind::operation, written(begin), {}, 0, operation, {std::move(left), std::move(right)}};
    }
    --depth_;
    return left;
  }

  /// base ^ [sign] digits: a number.
  Expression raised(const Expression& base, std::size_t begin) {
    const bool parenthesis = take('(');
    skip_blanks();
    const std::size_t first = at_;
    if (peek() == '-' || peek() == '+') ++at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    const std::string_view digits = text_.substr(first, at_ - first);
    int exponent = 0;
    const char* const from = digits.data() + (digits.starts_with('+') ? 1 : 0);
    const auto [end, error] = std::from_chars(from, digits.data() + digits.size(), exponent);
    if (error == std::errc::result_out_of_range) exponent = 1'000'000'000;  // refused below like any large one
    const bool whole = error != std::errc::invalid_argument && end == digits.data() + digits.size();
    if (!whole || (at_ < text_.size() && (text_[at_] == '.' || is_letter(text_[at_])))) {
      at_ = first;
      refuse("a whole number behind ^, such as 2^-25");
    }
    if (parenthesis && !take(')')) refuse("')'");
    if (!base.value) {
      at_ = begin;
      refuse("^ on numbers only, such as 2^-25; x * x multiplies");
    }
    if (base.value->is_zero() && exponent < 0) {
      at_ = begin;
      refuse("another base than 0 of a negative power");
    }
    const auto bits = [](const cpp_int& n) { return n.is_zero() ? 0u : msb(abs(n)) + 1; };
    const auto size = static_cast<double>(std::max(bits(numerator(*base.value)), bits(denominator(*base.value))));
    const bool unit = abs(*base.value) == 1 || base.value->is_zero();
    if (!unit && size * std::abs(static_cast<double>(exponent)) > 2.0 * most_bits) {
      at_ = first;
      refuse(fmt::format("powers from 2^-{0} to 2^{0}", most_bits));
    }
    const auto magnitude = static_cast<unsigned>(unit ? exponent & 1 : std::abs(exponent));
    const cpp_int n = pow(numerator(*base.value), magnitude), d = pow(denominator(*base.value), magnitude);
    const Rational value = exponent == 0 ? Rational(1) : exponent < 0 ? Rational(d) / Rational(n) : Rational(n, d);
    return {Expression::Kind::number, written(begin), value, 0, {}, {}};
  }

  Expression operand() {
    skip_blanks();
    const std::size_t begin = at_;
    const char c = peek();
    if (c == '(') {
      ++at_;
      Expression inner = expression(Binding::none);
      if (!take(')')) refuse("an operator or ')'");
      return inner;
    }
    if (c == '-' || c == '+') {
      ++at_;
      const char next = peek();
      Expression of = expression(Binding::sign);
      if (c == '+') return of;
      return negated(std::move(of), begin, is_digit(next) || next == '.');
    }
    if (is_digit(c) || c == '.') return number();
    if (is_letter(c)) return function();
    refuse("a number, a function or '('");
  }

  /// `bare`: no parenthesis and no other sign stands between the sign and what it belongs to.
  Expression negated(Expression of, std::size_t begin, bool bare) {
    // The sign of a number belongs to it; that of 0 is kept by negating what 0 becomes.
    if (bare && of.kind == Expression::Kind::number && of.value && !of.value->is_zero()) {
      of.value = Rational(-*of.value);
      of.text = written(begin);
      return of;
    }
    return {Expression::Kind::negation, written(begin), {}, 0, {}, {std::move(of)}};
  }

  Expression number() {
    const std::size_t begin = at_;
    const bool hexadecimal = text_.substr(at_).starts_with("0x") || text_.substr(at_).starts_with("0X");
    const char exponent = hexadecimal ? 'p' : 'e';
    while (at_ < text_.size()) {
      const char c = lowered(text_[at_]);
      const bool of_exponent = (c == '+' || c == '-') && at_ > begin && lowered(text_[at_ - 1]) == exponent &&
                               at_ + 1 < text_.size() && is_digit(text_[at_ + 1]);
      if (!is_digit(c) && !is_letter(c) && c != '.' && !of_exponent) break;
      ++at_;
    }
    const std::string word = written(begin);
    if (hexadecimal && word.find_first_of(".pP") == word.npos) {
      std::uint64_t code = 0;
      const auto [end, error] = std::from_chars(word.data() + 2, word.data() + word.size(), code, 16);
      if (error == std::errc::result_out_of_range && end == word.data() + word.size())
        throw std::invalid_argument(fmt::format(
            "'{}' is wider than 64 bits, and so than any format; accepted: the code word of a format", shown(word)));
      if (word.size() == 2 || error != std::errc{} || end != word.data() + word.size())
        throw std::invalid_argument(
            fmt::format("'{}' is not a code word; accepted: 0x and hexadecimal digits, or a "
                        "number such as 0x1.8p-3",
                        shown(word)));
      return {Expression::Kind::code_word, word, {}, code, {}, {}};
    }
    return {Expression::Kind::number, word, literal_value(read_literal(word), word), 0, {}, {}};
  }

  Expression function() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string word = written(begin), name = lowered(word);
    if (name == "inf" || name == "infinity" || name == "nan") return {Expression::Kind::number, word, {}, 0, {}, {}};
    std::vector<std::string> names{"abs", "sum"};
    const OperationInfo* found = nullptr;
    for (const OperationInfo& row : operations) {
      if (row.result != ResultKind::format) continue;
      names.emplace_back(row.python);
      if (row.python == name) found = &row;
    }
    const bool absolute = name == "abs", sum = name == "sum";
    if (!found && !absolute && !sum) {
      if (peek() == '(') throw std::invalid_argument(unknown_name("function", word, std::move(names)));
      throw std::invalid_argument(
          fmt::format("'{}', character {}, '{}': there are no variables; accepted: numbers such as 0.1, code words "
                      "such as 0x3C00, functions such as sqrt(2)",
                      shown(text_), begin + 1, shown(word)));
    }
    const std::size_t arity = absolute ? 1 : sum ? 2 : static_cast<std::size_t>(found->arity);
    if (!take('(')) refuse(fmt::format("'(' behind {}", word));
    Expression call{absolute ? Expression::Kind::absolute
                    : sum    ? Expression::Kind::sum
                             : Expression::Kind::operation,
                    {},
                    {},
                    0,
                    found ? found->operation : Operation::add,
                    {}};
    std::string hint;  // a decimal comma makes two operands of one
    do {
      call.operands.push_back(expression(Binding::none));
      if (hint.empty()) hint = decimal_hint(at_);
    } while (take(','));
    if (call.operands.size() != arity)
      throw std::invalid_argument(fmt::format("{} of {} operand{}; accepted: {}{}", word, call.operands.size(),
                                              call.operands.size() == 1 ? "" : "s", arity, hint));
    if (!take(')')) refuse("',' or ')'");
    if (sum) {
      call.count = terms(call.operands[1]);
      call.operands.pop_back();
    }
    call.text = written(begin);
    return call;
  }

  /// How many terms a sum has.
  std::uint64_t terms(const Expression& written) {
    const auto& value = written.value;
    const std::string accepted = fmt::format("a whole number from 1 to {}", most_terms);
    if (written.kind != Expression::Kind::number || !value || denominator(*value) != 1 || *value < 1 ||
        *value > most_terms)
      throw std::invalid_argument(
          fmt::format("sum of '{}' terms; accepted: {}, as in sum(0.1, 1000)", shown(written.text), accepted));
    const auto count = static_cast<std::uint64_t>(numerator(*value));
    terms_ += count;
    if (terms_ > most_terms)
      throw std::invalid_argument(fmt::format("sums of more than {0} terms; accepted: {0} in all", most_terms));
    return count;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::uint64_t terms_ = 0;
  int depth_ = 0;
};

/// floor(x).
cpp_int floor_of(const Rational& x) {
  cpp_int quotient, rest;
  divide_qr(numerator(x), denominator(x), quotient, rest);
  return rest < 0 ? cpp_int(quotient - 1) : quotient;
}

/// The nearest integer, of two the even one.
Rational nearest_integer(const Rational& x) {
  const cpp_int floor = floor_of(x);
  const Rational rest = x - floor;
  const bool up = rest > Rational(1, 2) || (rest == Rational(1, 2) && bit_test(abs(floor), 0));
  return Rational(up ? cpp_int(floor + 1) : floor);
}

/// The square root if it is rational.
std::optional<Rational> rational_root(const Rational& x) {
  const cpp_int n = sqrt(numerator(x)), d = sqrt(denominator(x));
  if (n * n != numerator(x) || d * d != denominator(x)) return std::nullopt;
  return Rational(n, d);
}

Known product(const Known& a, const Known& b) {
  return known(a.value * b.value, abs(a.value) * b.doubt + abs(b.value) * a.doubt + a.doubt * b.doubt);
}

std::optional<Known> inverse(const Known& x) {
  const Rational least = abs(x.value) - x.doubt;
  if (least <= 0) return std::nullopt;
  return known(Rational(1 / x.value), x.doubt / (least * least));
}

}  // namespace

Known known(Rational value, Rational doubt) {
  if (doubt.is_zero()) return {std::move(value), std::move(doubt)};
  if (abs(value) <= doubt) return {Rational(0), std::move(doubt)};
  const Rational shorter = rounded_to(value, 60);
  if (abs(Rational(shorter - value)) <= abs(value) * Rational(1, boost::multiprecision::pow(cpp_int(10), 90)))
    return {shorter, doubt + abs(Rational(shorter - value))};
  return {std::move(value), std::move(doubt)};
}

std::string with_typed_signs(std::string_view text) {
  constexpr std::pair<std::string_view, char> signs[] = {
      {"\u2212", '-'}, {"\u00d7", '*'}, {"\u00f7", '/'}, {"\u00b7", '*'}, {"\u22c5", '*'}};
  std::string typed;
  for (std::size_t i = 0; i < text.size();) {
    const auto sign = std::find_if(std::begin(signs), std::end(signs),
                                   [&](const auto& row) { return text.substr(i).starts_with(row.first); });
    typed += sign == std::end(signs) ? text[i] : sign->second;
    i += sign == std::end(signs) ? 1 : sign->first.size();
  }
  return typed;
}

Expression parse_expression(std::string_view text) {
  const std::string typed = with_typed_signs(text);
  return Parser(typed).whole();
}

bool is_compound(const Expression& expression) {
  return !expression.operands.empty() || expression.text.find('^') != std::string::npos ||
         expression.text.find("**") != std::string::npos;
}

std::optional<Known> exact_result(Operation operation, const std::vector<Known>& x, IrrationalResult irrational) {
  const Rational& a = x[0].value;
  const Rational& da = x[0].doubt;
  const auto of_two = [](Rational value, Rational doubt) -> std::optional<Known> {
    return known(std::move(value), std::move(doubt));
  };
  const auto otherwise = [&] { return irrational ? irrational(operation, x[0]) : std::nullopt; };
  switch (operation) {
    case Operation::add: return of_two(a + x[1].value, da + x[1].doubt);
    case Operation::sub: return of_two(a - x[1].value, da + x[1].doubt);
    case Operation::mul: return product(x[0], x[1]);
    case Operation::div: {
      const std::optional<Known> reciprocal = inverse(x[1]);
      if (!reciprocal) return std::nullopt;
      return product(x[0], *reciprocal);
    }
    case Operation::rem: {
      const std::optional<Known> quotient = exact_result(Operation::div, x, irrational);
      if (!quotient) return std::nullopt;
      const Rational n = nearest_integer(quotient->value);
      if (!quotient->is_exact() && abs(Rational(quotient->value - n)) + quotient->doubt >= Rational(1, 2))
        return std::nullopt;  // either of two integers may be the nearest
      return of_two(a - x[1].value * n, da + abs(n) * x[1].doubt);
    }
    case Operation::fma: {
      const Known p = product(x[0], x[1]);
      return of_two(p.value + x[2].value, p.doubt + x[2].doubt);
    }
    case Operation::min: return a <= x[1].value ? x[0] : x[1];
    case Operation::max: return a >= x[1].value ? x[0] : x[1];
    case Operation::rcp: return inverse(x[0]);
    case Operation::sqrt:
      if (a < da || (a.is_zero() && !x[0].is_exact())) return std::nullopt;
      if (const auto root = rational_root(a); root && x[0].is_exact()) return Known{*root};
      return otherwise();
    case Operation::rsqrt:
      if (a <= da) return std::nullopt;
      if (const auto root = rational_root(a); root && x[0].is_exact()) return Known{Rational(1 / *root)};
      return otherwise();
    case Operation::exp:
      if (a.is_zero() && x[0].is_exact()) return Known{Rational(1)};
      return abs(a) > most_bits ? std::nullopt : otherwise();
    case Operation::log2: {
      int e = 0;
      if (a <= da) return std::nullopt;
      if (is_power_of_two(a, e) && x[0].is_exact()) return Known{Rational(e)};
      return otherwise();
    }
    // Which integer is nearest depends on the rounding mode: it is no function of exact numbers.
    default: return std::nullopt;
  }
}

std::optional<Known> value_of(const Expression& expression, IrrationalResult irrational) {
  if (expression.kind == Expression::Kind::number)
    return expression.value ? std::optional(Known{*expression.value}) : std::nullopt;
  if (expression.kind == Expression::Kind::code_word) return std::nullopt;
  std::vector<Known> operands;
  for (const Expression& operand : expression.operands) {
    const std::optional<Known> value = value_of(operand, irrational);
    if (!value) return std::nullopt;
    operands.push_back(*value);
  }
  if (expression.kind == Expression::Kind::negation) return Known{-operands[0].value, operands[0].doubt};
  if (expression.kind == Expression::Kind::absolute) return Known{abs(operands[0].value), operands[0].doubt};
  if (expression.kind == Expression::Kind::sum) return product(operands[0], Known{Rational(expression.count)});
  return exact_result(expression.operation, operands, irrational);
}

std::optional<Rational> expression_value(std::string_view text) {
  if (text.find_first_of("+-*/^(", 1) == text.npos) return std::nullopt;
  const Expression expression = parse_expression(text);
  if (!is_compound(expression)) return std::nullopt;
  if (const auto value = value_of(expression, nullptr)) return value->value;
  throw std::invalid_argument(fmt::format(
      "'{}' is no rational number; accepted: numbers, + - * / ^ and parentheses (halfulp calc has functions "
      "and rounds each step)",
      shown(text)));
}

}  // namespace halfulp::cli
