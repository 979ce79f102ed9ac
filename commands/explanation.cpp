#include <halfulp/commands/explanation.hpp>
#include <halfulp/commands/expression.hpp>

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/report.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/core.h>

#include <charconv>
#include <numeric>
#include <stdexcept>

namespace halfulp::cli {

bool is_code_word(std::string_view text) {
  return text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') &&
         text.find_first_of(".pP") == text.npos;
}

namespace {

using boost::multiprecision::cpp_int;

std::uint64_t read_code(const FloatFormat& f, std::string_view text) {
  std::uint64_t code = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), code, 16);
  if ((error != std::errc{} && error != std::errc::result_out_of_range) || end != text.data() + text.size())
    throw std::invalid_argument(
        fmt::format("'{}' is not a code word; accepted: 0x and {} hexadecimal digits", shown(text), f.hex_digits()));
  if (error != std::errc{} || code > f.code_mask())
    throw std::invalid_argument(
        fmt::format("'{}' is wider than the {} bits of {}; accepted: 0x and {} hexadecimal digits", shown(text),
                    f.storage_bits(), format_name(f), f.hex_digits()));
  return code;
}

/// -0x3C00: with the sign it would be a whole number, without a code word.
void refuse_signed_code_word(std::string_view text) {
  if (text.size() > 1 && (text[0] == '-' || text[0] == '+') && is_code_word(text.substr(1)))
    throw std::invalid_argument(
        fmt::format("'{}' is a code word with a sign; accepted: the code word of the negative number, or a number such "
                    "as {}p0",
                    shown(text), shown(text)));
}

/// A number to explain; a word that is not a number may be a code word whose prefix was forgotten.
Literal read_number(std::string_view text) {
  try {
    return read_literal(text);
  } catch (const std::invalid_argument& error) {
    if (text.size() > 60) throw;
    const bool hexadecimal = !text.empty() && text.size() <= 16 &&
                             text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
    throw std::invalid_argument(
        fmt::format("{}, or a code word with its prefix such as 0x{}", error.what(), hexadecimal ? text : "3C00"));
  }
}

/// Finite codes in the order of their values: index 0 is zero (or the smallest value), negative ones lie below.
struct NumberLine {
  FloatFormat f;
  std::int64_t last() const { return static_cast<std::int64_t>(f.max_finite()); }
  std::int64_t first() const { return f.is_signed ? -last() : 0; }
  std::uint64_t code(std::int64_t index) const {
    return index < 0 ? f.with_sign(static_cast<std::uint64_t>(-index), true) : static_cast<std::uint64_t>(index);
  }
  Rational value(std::int64_t index) const { return exact_value(f, code(index)); }

  /// The largest index whose value is at most x; first() - 1 if there is none.
  std::int64_t floor(const Rational& x) const {
    std::int64_t low = first() - 1, high = last();
    while (low < high) {
      const std::int64_t middle = std::midpoint(high, low);  // rounds towards high
      if (value(middle) <= x) low = middle;
      else high = middle - 1;
    }
    return low;
  }
  /// The neighbour at an index. One step beyond either end it has only a value; further out, and below unsigned
  /// formats, there is none.
  std::optional<Neighbour> at(std::int64_t index) const {
    if (index >= first() && index <= last()) return Neighbour{code(index), value(index)};
    const Rational beyond = value(last()) + power_of_two(f.exponent(f.max_finite()));
    if (index == last() + 1) return Neighbour{std::nullopt, beyond};
    if (index == first() - 1 && f.is_signed) return Neighbour{std::nullopt, Rational(-beyond)};
    return std::nullopt;
  }
};

/// Adds what one mode gives. `convert(rounding, random)` rounds the asked value.
template <class Convert>
void add_outcomes(Explanation& e, RoundingMode mode, Convert&& convert) {
  Rounding rounding = e.rounding;
  rounding.mode = mode;
  // The result changes at few places as the random number grows: find each by bisection and count what lies between.
  const std::uint64_t count = mode == RoundingMode::stochastic ? std::uint64_t{1} << rounding.random_bits : 1;
  for (std::uint64_t begin = 0; begin < count;) {
    const Rounded result = convert(rounding, begin);
    std::uint64_t same = begin, other = count;  // the same result at `same`, another at `other`
    if (convert(rounding, count - 1) == result) same = count - 1;
    while (other - same > 1) {
      const std::uint64_t middle = same + (other - same) / 2;
      (convert(rounding, middle) == result ? same : other) = middle;
    }
    ModeOutcome outcome{mode, result, Rational(other - begin, count), std::nullopt, {}};
    if (e.value && e.format.is_finite(result.code)) outcome.error = exact_value(e.format, result.code) - *e.value;
    e.outcomes.push_back(std::move(outcome));
    begin = other;
  }
}

/// Where the asked value lies among the format's: unit, neighbours. Precondition: e.value.
void place(Explanation& e) {
  e.ulp = ulp_at(e.format, *e.value);
  const NumberLine line{e.format};
  const std::int64_t floor = line.floor(*e.value);
  e.exact = floor >= line.first() && line.value(floor) == *e.value;
  e.below = line.at(e.exact ? floor - 1 : floor);
  e.above = line.at(floor + 1);
  // A step beyond either end counts as a neighbour only if it reaches the value.
  if (e.below && *e.value <= e.below->value) e.below.reset();
  if (e.above && *e.value >= e.above->value) e.above.reset();
}

}  // namespace

bool Explanation::unanimous() const {
  for (const ModeOutcome& outcome : outcomes)
    if (outcome.result != outcomes.front().result) return false;
  return true;
}

bool Explanation::is_kept() const { return exact && exact_value(format, code) == *value; }

std::optional<Rational> Explanation::error() const {
  if (!value || !format.is_finite(code)) return std::nullopt;
  return Rational(exact_value(format, code) - *value);
}

Explanation explain(const FloatFormat& format, const Rounding& rounding, std::string_view asked, std::uint64_t random) {
  const std::string text = with_typed_signs(asked);
  Explanation e;
  e.format = format;
  e.rounding = rounding;
  e.asked = text;
  e.by_code = is_code_word(text);
  bool by_value = false;
  refuse_signed_code_word(text);
  if (e.by_code) {
    e.code = read_code(format, text);
    e.is_nan = format.is_nan(e.code);
    if (format.is_finite(e.code)) e.value = exact_value(format, e.code);
  } else if (e.value = expression_value(text); e.value) {
    by_value = true;
    e.code = round_exact(format, rounding, *e.value, random).code;
  } else {
    const Literal number = read_number(text);
    e.is_nan = number.kind == Kind::nan;
    if (number.kind == Kind::zero || number.kind == Kind::finite) e.value = literal_value(number, text);
    e.code = parse(format, rounding, text, random).code;
  }
  for (const auto& row : rounding_modes)
    add_outcomes(e, row.value, [&](const Rounding& r, std::uint64_t bits) {
      return e.by_code  ? convert(format, format, r, e.code, bits)
             : by_value ? round_exact(format, r, *e.value, bits)
                        : parse(format, r, text, bits);
    });
  if (e.value) place(e);
  for (ModeOutcome& outcome : e.outcomes) outcome.reason = e.reason(outcome);
  return e;
}

std::string_view class_name(const FloatFormat& f, std::uint64_t code) {
  if (f.is_signaling(code)) return "signalling NaN";
  if (f.is_nan(code)) return "NaN";
  if (f.is_infinite(code)) return "infinity";
  if (f.is_zero(code)) return "zero";
  return f.is_subnormal(code) ? "subnormal" : "normal";
}

std::string flag_names(Flags flags) {
  constexpr std::pair<Flags, std::string_view> names[] = {{flag::invalid, "invalid"},
                                                          {flag::divide_by_zero, "divide-by-zero"},
                                                          {flag::overflow, "overflow"},
                                                          {flag::underflow, "underflow"},
                                                          {flag::inexact, "inexact"}};
  std::string text;
  for (const auto& [bit, name] : names)
    if (flags & bit) text += (text.empty() ? "" : " ") + std::string(name);
  return text.empty() ? "none" : text;
}

std::string format_title(const FloatFormat& f) {
  if (const NamedFormat* row = find_named(f)) return std::string(row->title);
  constexpr std::string_view tops[] = {"IEEE-like", "no infinity, NaN all ones", "no infinity, NaN at -0", "P3109-like",
                                       "finite only"};
  return fmt::format("{} exponent bits, {} fraction bits, bias {}, {}", f.exponent_bits, f.fraction_bits, f.bias,
                     tops[static_cast<std::size_t>(f.nonfinite)]);
}

// Why each rounding mode gives what it gives: by the place of the asked value between its neighbours, not by the
// rounding kernel.

namespace {

/// Of an infinity or a NaN.
std::string non_finite_reason(const Explanation& e, const Rounded& result) {
  if (e.is_nan) return e.format.is_nan(result.code) ? "NaN" : "no NaN";
  if (e.format.is_infinite(result.code)) return "infinite";
  if (result.flags & flag::invalid) return "no negatives";
  return e.rounding.overflow == Overflow::saturate ? "saturates" : "no infinity";
}

/// A directed mode: only the direction decides.
std::string direction(const Explanation& e, RoundingMode mode) {
  if (mode == RoundingMode::toward_positive) return "+inf is up";
  if (mode == RoundingMode::toward_negative) return "-inf is down";
  return *e.value > 0 ? "0 is down" : "0 is up";
}

bool is_directed(RoundingMode mode) {
  return mode == RoundingMode::toward_zero || mode == RoundingMode::toward_positive ||
         mode == RoundingMode::toward_negative;
}

/// Whether a mode takes a value beyond the largest finite one toward it.
bool goes_inward(const Explanation& e, RoundingMode mode) {
  return mode == RoundingMode::toward_zero ||
         mode == (*e.value > 0 ? RoundingMode::toward_negative : RoundingMode::toward_positive);
}

std::string nearest(const Explanation& e, const ModeOutcome& outcome) {
  if (!e.below || !e.above) return "beyond max";
  // Beyond the largest value there is a neighbour to be near to, as if exponents went on, which the format does not
  // have.
  if (*e.value - e.below->value != e.above->value - *e.value)
    return e.format.is_finite(outcome.result.code) ? "nearer" : "beyond max";
  if (!e.format.is_finite(outcome.result.code)) {
    const std::string largest = decimal_text(*e.value > 0 ? e.below->value : e.above->value, 6);
    return "tie, beyond " + (largest.size() <= 5 ? largest : "max");
  }
  const RoundingMode mode = outcome.mode;
  return mode == RoundingMode::nearest_even   ? "tie: even"
         : mode == RoundingMode::nearest_away ? "tie: away"
                                              : "tie: to 0";
}

}  // namespace

std::string Explanation::reason(const ModeOutcome& outcome) const {
  const auto& [code, flags] = outcome.result;
  if (!value) return non_finite_reason(*this, outcome.result);
  if (flags & flag::invalid) return "no negatives";
  if (outcome.error && outcome.error->is_zero()) return "exact";
  if (format.has_zero && format.is_zero(code) && (rounding.flush_outputs || (by_code && rounding.flush_inputs)))
    return "flushed";
  if (!below && !format.is_signed) return "smallest";  // what lies below the smallest value of a format without zero
  if (outcome.mode == RoundingMode::stochastic) return "p = " + rounded(outcome.probability, 3);
  if ((flags & flag::overflow) && format.is_finite(code) && !goes_inward(*this, outcome.mode)) {
    if (rounding.overflow == Overflow::saturate) return "saturates";
    return outcome.mode == RoundingMode::to_odd && (format.has_infinity() || format.has_nan()) ? "stays finite"
                                                                                               : "beyond max";
  }
  if (is_directed(outcome.mode)) return direction(*this, outcome.mode);
  return outcome.mode == RoundingMode::to_odd ? "odd last bit" : nearest(*this, outcome);
}

namespace {

Json neighbour(const FloatFormat& f, const std::optional<Neighbour>& x) {
  if (!x) return nullptr;
  if (x->code) return emulated(f, *x->code);
  return {{"code", nullptr}, {"value", static_cast<double>(x->value)}};
}

Json rational(const std::optional<Rational>& x) { return x ? Json(fraction_text(*x)) : Json(nullptr); }

}  // namespace

Json to_json(const Explanation& e) {
  const FloatFormat& f = e.format;
  Json json{{"asked", e.asked},
            {"exactly", rational(e.value)},
            {"format", format_name(f)},
            {"rounding", name_of(e.rounding.mode)},
            {"result", emulated(f, e.code)},
            {"class", class_name(f, e.code)},
            {"exact_decimal", print_exact(f, e.code)},
            {"shortest_decimal", print(f, e.code)},
            {"hex_float", print_hex(f, e.code)},
            {"is_exact", e.is_kept()},
            {"error", rational(e.error())},
            {"ulp", e.value ? Json(fraction_text(e.ulp)) : Json(nullptr)},
            {"below", neighbour(f, e.below)},
            {"above", neighbour(f, e.above)}};
  for (const ModeOutcome& outcome : e.outcomes) {
    Json row{{"rounding", name_of(outcome.mode)}};
    row.update(emulated(f, outcome.result.code));
    row["error"] = rational(outcome.error);
    row["error_in_ulp"] = outcome.error ? number(static_cast<double>(Rational(*outcome.error / e.ulp))) : Json(nullptr);
    row["flags"] = flag_names(outcome.result.flags);
    row["reason"] = outcome.reason;
    row["probability"] = fraction_text(outcome.probability);
    json["modes"].push_back(std::move(row));
  }
  return json;
}

}  // namespace halfulp::cli
