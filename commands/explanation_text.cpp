#include <halfulp/commands/explanation.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/core.h>

#include <algorithm>

namespace halfulp::cli {
namespace {

constexpr std::size_t long_number = 62;  ///< characters of a number that still fit after a label

std::string repeated(std::string_view text, std::size_t count) {
  std::string result;
  for (; count > 0; --count) result += text;
  return result;
}

std::string centred(const std::string& text, std::size_t width) {
  const std::size_t size = display_width(text), left = (width - std::min(width, size)) / 2;
  return repeated(" ", left) + text + repeated(" ", width - std::min(width, left + size));
}

std::string signed_text(const std::string& number) { return number == "0" || number[0] == '-' ? number : "+" + number; }

/// " = 1/640" where that is short and says more than the decimal, else nothing.
std::string fraction(const Rational& x) {
  int e = 0;
  if (is_power_of_two(x, e)) return e < 0 || e > 9 ? fmt::format(" = 2^{}", e) : "";
  const std::string text = x.str();
  return text.find('/') != text.npos && text.size() <= 20 ? " = " + text : "";
}

std::string abbreviated(const std::string& text, std::size_t limit) {
  return text.size() <= limit ? text : text.substr(0, limit - 3) + "...";
}

class Drawing {
 public:
  Drawing(const Explanation& e, const Style& style) : e_(e), f_(e.format), style_(style) {}

  std::string text() {
    title();
    boxes();
    meaning();
    if (e_.value && !e_.is_kept()) asked();
    if (e_.value) neighbours();
    modes();
    return std::move(out_);
  }

 private:
  std::string_view times() const { return style_.unicode ? "\u00d7" : "*"; }
  std::string code(std::uint64_t code) const { return print_code(f_, code); }
  std::string in_ulp(const Rational& x) const { return signed_text(ulps_text(x / e_.ulp, 4)); }
  void labelled(std::string_view label, const std::string& text) { out_ += fmt::format("  {:<9}  {}\n", label, text); }
  void continued(const std::string& text) { out_ += fmt::format("           = {}\n", text); }

  void title() {
    const std::string head = abbreviated(e_.asked, 40) + " in " + format_name(f_), tail = "(" + format_title(f_) + ")";
    out_ += fmt::format("{}{}{}\n\n", style_.painted(head, Paint::heading), head.size() + tail.size() < 80 ? " " : "\n",
                        tail);
  }

  /// The code word's fields, each in its box.
  void boxes() {
    struct Field {
      std::string name;
      int bits;
      Paint paint;
    };
    const Field fields[] = {{"sign", f_.is_signed ? 1 : 0, Paint::sign},
                            {"exponent", f_.exponent_bits, Paint::exponent},
                            {"fraction", f_.fraction_bits, Paint::fraction}};
    std::string names = "   ", top = "  ", middle = "  ", bottom = "  ";
    const std::string_view dash = style_.unicode ? "\u2500" : "-", bar = style_.unicode ? "\u2502" : "|";
    int left = f_.storage_bits();
    bool first = true;
    for (const Field& field : fields) {
      if (field.bits == 0) continue;
      std::string bits;
      for (int i = 0; i < field.bits; ++i) bits += (e_.code >> --left) & 1 ? '1' : '0';
      const std::size_t width = std::max(field.name.size(), bits.size()) + 2;
      names += centred(style_.painted(field.name, field.paint), width) + " ";
      top += std::string(style_.unicode ? (first ? "\u250c" : "\u252c") : "+") + repeated(dash, width);
      middle += std::string(bar) + centred(style_.painted(bits, field.paint), width);
      bottom += std::string(style_.unicode ? (first ? "\u2514" : "\u2534") : "+") + repeated(dash, width);
      first = false;
    }
    names.erase(names.find_last_not_of(' ') + 1);
    out_ += names + "\n" + top + (style_.unicode ? "\u2510" : "+") + "\n" + middle + std::string(bar) + "\n" + bottom +
            (style_.unicode ? "\u2518" : "+") + "\n\n";
  }

  /// The code word and its value in every notation.
  void meaning() {
    const std::string mode = e_.unanimous() ? "" : fmt::format(", by {}", name_of(e_.rounding.mode));
    labelled("code",
             fmt::format("{}, {}{}", style_.painted(code(e_.code), Paint::heading), class_name(f_, e_.code), mode));
    if (!f_.is_finite(e_.code)) return labelled("value", print(f_, e_.code));
    const Rational value = exact_value(f_, e_.code);
    if (!value.is_zero()) {
      const std::uint64_t field = f_.magnitude(e_.code) >> f_.fraction_bits;
      const bool hidden = !f_.has_zero || field != 0;
      std::string formula = f_.is_signed ? fmt::format("(-1)^{} {} ", f_.sign(e_.code) ? 1 : 0, times()) : "";
      formula += fmt::format("2^({} - {})", hidden ? field : 1, f_.bias);
      if (f_.fraction_bits > 0)
        formula += fmt::format(" {} ({} + {}/{})", times(), hidden ? 1 : 0, e_.code & f_.fraction_mask(),
                               f_.fraction_mask() + 1);
      labelled("value", formula);
      const std::uint64_t significand = f_.significand(e_.code);
      const int zeros = std::countr_zero(significand);
      continued(fmt::format("{}{} {} 2^{}", f_.sign(e_.code) ? "-" : "", significand >> zeros, times(),
                            f_.exponent(e_.code) + zeros));
      const std::string digits = print_exact(f_, e_.code);
      continued(digits.size() <= long_number ? digits : decimal_text(value, 40));
    } else {
      labelled("value", print(f_, e_.code));
    }
    labelled("shortest", print(f_, e_.code));
    labelled("hex-float", print_hex(f_, e_.code));
  }

  void asked() {
    out_ += '\n';
    const std::string asked = abbreviated(e_.asked, 40), same = fraction(*e_.value);
    labelled("asked", asked + (same == " = " + asked ? " = " + decimal_text(*e_.value, 8) : same));
    if (f_.is_signed || e_.below) digits();
    else
      labelled("range",
               fmt::format("below {}, the smallest value", code(f_.min_positive())));  // no digit of it is kept
    const auto error = e_.error();
    if (!error) return labelled("error", f_.is_infinite(e_.code) ? "infinite" : "not a number");
    labelled("error",
             fmt::format("{}{} = {} ulp", signed_text(decimal_text(*error, 8)), fraction(*error), in_ulp(*error)));
    if (e_.value->is_zero()) return;
    const Rational relative = abs(Rational(*error / *e_.value));
    labelled("relative", decimal_text(relative, 8) + fraction(relative));
  }

  /// Which digits of the asked value are kept, and which are not.
  void digits() {
    const int binade = e_.value->is_zero() ? f_.emin() : std::max(binary_exponent(*e_.value), f_.emin());
    const bool wide = f_.fraction_bits > 24;
    labelled("binary",
             fmt::format("{}{}{}{} 2^{}  (kept|dropped)", *e_.value < 0 ? "-" : "",
                         binary_text(*e_.value, binade, f_.fraction_bits, std::clamp(30 - f_.fraction_bits, 4, 16)),
                         wide ? "\n             " : " ", times(), binade));
  }

  void neighbours() {
    std::vector<std::vector<std::string>> rows;
    const auto add = [&](const char* name, const std::optional<Neighbour>& x) {
      if (!x) return;
      const std::string digits = x->code ? print_exact(f_, *x->code) : decimal_text(x->value, 40);
      rows.push_back({name, x->code ? code(*x->code) : "-", digits.size() <= 40 ? digits : decimal_text(x->value, 20),
                      in_ulp(x->value - *e_.value) + " ulp" + (x->code ? "" : ", beyond the largest finite value")});
    };
    add("below", e_.below);
    if (!e_.exact && e_.below && e_.above) {
      const Rational middle = (e_.below->value + e_.above->value) / 2;
      rows.push_back({"midpoint", "", decimal_text(middle, 20), in_ulp(middle - *e_.value) + " ulp"});
    }
    add("above", e_.above);
    out_ += '\n' + aligned(rows, 2);
    if (e_.below && e_.above) number_line();
    else out_ += '\n';
    labelled("1 ulp", decimal_text(e_.ulp, 12) + fraction(e_.ulp));
  }

  /// Both neighbours, the midpoint, and where between them the asked value lies.
  void number_line() {
    constexpr std::size_t length = 65;
    const Rational gap = e_.above->value - e_.below->value;
    const Rational place = (*e_.value - e_.below->value) / gap * static_cast<int>(length - 1);
    auto at = static_cast<std::size_t>(
        boost::multiprecision::cpp_int((numerator(place) * 2 + denominator(place)) / (denominator(place) * 2)));
    at = std::clamp<std::size_t>(at, 1, length - 2);
    const std::size_t middle = length / 2;
    if (!e_.exact && at == middle) {  // only the midpoint gets the tick
      if (place < static_cast<int>(middle)) --at;
      if (place > static_cast<int>(middle)) ++at;
    }
    const std::string name = e_.is_kept() ? code(e_.code) : abbreviated(e_.asked, 30);
    const auto end = [&](const Neighbour& x) { return x.code ? code(*x.code) : std::string("overflow"); };
    const std::string left = end(*e_.below), right = end(*e_.above);
    std::string labels = left + repeated(" ", length - left.size() - right.size()) + right;
    if (!e_.exact) labels.replace(middle - 4, 8, "midpoint");
    std::string line;
    for (std::size_t i = 0; i < length; ++i) {
      if (i == at) line += style_.painted(style_.unicode ? "\u25cf" : "*", Paint::marker);
      else if (i == 0) line += style_.unicode ? "\u251c" : "|";
      else if (i == length - 1) line += style_.unicode ? "\u2524" : "|";
      else if (i == middle && !e_.exact) line += style_.unicode ? "\u253c" : "+";
      else line += style_.unicode ? "\u2500" : "-";
    }
    const std::size_t begin = at - std::min(at, name.size() / 2);
    out_ += fmt::format("\n  {}\n  {}\n  {}{}\n\n", labels, line,
                        repeated(" ", std::min(begin, length - std::min(length, name.size()))),
                        style_.painted(name, Paint::heading));
  }

  /// Exact where that is short; else some digits: the neighbours above are exact.
  std::string value_text(std::uint64_t code) const {
    const std::string exact = print_exact(f_, code);
    return exact.size() <= 9 || !f_.is_finite(code) ? exact
                                                    : rounded(exact_value(f_, code), f_.storage_bits() > 16 ? 4 : 5);
  }

  void modes() {
    out_ += '\n';
    const bool wide = f_.storage_bits() > 32;  // no room for a column that the neighbours have, too
    std::vector<std::vector<std::string>> rows{{"rounding", "code", "value", wide ? "" : "in ulp", "flags", "why"}};
    const bool unanimous = e_.unanimous();
    for (const ModeOutcome& outcome : e_.outcomes) {
      const Rounded& result = outcome.result;
      std::string error;
      if (outcome.error) {
        const Rational ulps = *outcome.error / e_.ulp;
        error = signed_text(abs(ulps) > 100000 ? rounded(ulps, 1) : ulps_text(ulps, 1000 * abs(ulps) < 1 ? 1 : 3));
      } else if (e_.value) {
        error = f_.is_infinite(result.code) ? "inf" : "-";
      }
      rows.push_back({unanimous ? "every mode" : std::string(name_of(outcome.mode)), code(result.code),
                      value_text(result.code), wide ? "" : error, flag_names(result.flags), outcome.reason});
      if (unanimous) break;
    }
    for (std::string& name : rows.front()) name = style_.painted(name, Paint::heading);
    out_ += aligned(rows, 2);
    if (!unanimous) probabilities();
  }

  void probabilities() {
    const int bits = e_.rounding.random_bits;
    const StochasticVariant variant = e_.rounding.variant;
    out_ += fmt::format(
        "\n  stochastic rounding with {} random bits{} gives\n", bits,
        variant == StochasticVariant{} ? "" : fmt::format(" ({})", name_in(stochastic_variants, variant)));
    for (const ModeOutcome& outcome : e_.outcomes) {
      if (outcome.mode != RoundingMode::stochastic) continue;
      const Rational count = outcome.probability * power_of_two(bits);
      out_ += fmt::format("  {} with probability {}/2^{} = {}\n", code(outcome.result.code), count.str(), bits,
                          decimal_text(outcome.probability, 6));
    }
  }

  const Explanation& e_;
  const FloatFormat& f_;
  Style style_;
  std::string out_;
};

}  // namespace

std::string render(const Explanation& explanation, const Style& style) { return Drawing(explanation, style).text(); }

}  // namespace halfulp::cli
