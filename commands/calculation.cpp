#include <halfulp/commands/calculation.hpp>

#include <halfulp/commands/explanation.hpp>
#include <halfulp/emulation/comparison.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/report.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace halfulp::cli {
namespace {

/// A result minus what is right, where both are finite.
std::optional<Known> difference(const FloatFormat& f, std::uint64_t code, const std::optional<Known>& exactly) {
  if (!exactly || !f.is_finite(code)) return std::nullopt;
  return Known{exact_value(f, code) - exactly->value, exactly->doubt};
}

class Calculator {
 public:
  Calculator(Calculation& into, std::uint64_t seed) : into_(into), seed_(seed) {}

  std::uint64_t code(const Expression& e) {
    const FloatFormat& f = into_.format;
    if (into_.rounding.mode != RoundingMode::stochastic)
      for (const CalculationStep& step : into_.steps)
        if (step.text == e.text) return step.result.code;
    switch (e.kind) {
      case Expression::Kind::code_word:
        if (e.code > f.code_mask())
          throw std::invalid_argument(
              fmt::format("'{}' is wider than the {} bits of {}; accepted: 0x and {} hexadecimal digits, or another "
                          "--format",
                          shown(e.text), f.storage_bits(), format_name(f), f.hex_digits()));
        return e.code;
      case Expression::Kind::number:
        return e.value ? step(e.text, round_exact(f, into_.rounding, *e.value, random()), Known{*e.value})
                       : step(e.text, parse(f, into_.rounding, e.text, random()), std::nullopt);
      case Expression::Kind::negation: return f.is_signed ? with_sign(e, [](bool sign) { return !sign; }) : negated(e);
      case Expression::Kind::absolute: return with_sign(e, [](bool) { return false; });
      case Expression::Kind::sum: return added_up(e);
      case Expression::Kind::operation: break;
    }
    std::array<std::uint64_t, 3> codes{};
    std::vector<Known> exact;
    for (std::size_t i = 0; i < e.operands.size(); ++i) {
      codes[i] = code(e.operands[i]);
      if (f.is_finite(codes[i])) exact.push_back({exact_value(f, codes[i])});
    }
    const Rounded result = evaluate(e.operation, f, into_.rounding, codes[0], codes[1], codes[2], random());
    return step(e.text, result,
                exact.size() == e.operands.size() ? exact_result(e.operation, exact, irrational_result) : std::nullopt);
  }

 private:
  std::uint64_t random() { return rounding_bits(seed_, 0, drawn_++); }
  /// The operand with another sign, where it has one: some formats have no -0 and a NaN in its place.
  template <class Sign>
  std::uint64_t with_sign(const Expression& e, Sign&& sign) {
    const FloatFormat& f = into_.format;
    const std::uint64_t x = code(e.operands[0]);
    if (f.is_nan(x)) return x;
    return f.is_zero(x) ? f.zero(sign(f.sign(x))) : f.with_sign(f.magnitude(x), sign(f.sign(x)));
  }
  /// x + x + ..., each sum rounded. Of many steps the first ones are kept, the first that changes nothing, after which
  /// none does unless rounding is stochastic, and the last ones.
  std::uint64_t added_up(const Expression& e) {
    constexpr std::uint64_t few = 8;
    const FloatFormat& f = into_.format;
    const std::uint64_t x = code(e.operands[0]);
    std::uint64_t sum = x, kept = 1;
    const auto keep = [&](std::uint64_t terms, const Rounded& next, bool changes_nothing = false) {
      if (const std::uint64_t left_out = terms - kept - 1; left_out > 0)
        into_.steps.push_back(
            {fmt::format("... {} {}", left_out, changes_nothing ? "the same" : "more"), {}, {}, left_out});
      kept = terms;
      const bool finite = f.is_finite(sum) && f.is_finite(x);
      step(terms == e.count ? e.text : fmt::format("sum({}, {})", e.operands[0].text, terms), next,
           finite ? std::optional(Known{exact_value(f, sum) + exact_value(f, x)}) : std::nullopt);
    };
    for (std::uint64_t terms = 2; terms <= e.count; ++terms) {
      const Rounded next = evaluate(Operation::add, f, into_.rounding, sum, x, 0, random());
      into_.result.flags |= next.flags;
      const bool settled = next.code == sum && into_.rounding.mode != RoundingMode::stochastic;
      if (settled || e.count <= few || terms <= 3 || terms + 1 >= e.count) keep(terms, next);
      if (settled && terms < e.count) keep(e.count, next, true);
      if (settled) break;
      sum = next.code;
    }
    return sum;
  }
  std::uint64_t step(std::string text, const Rounded& result, const std::optional<Known>& exactly) {
    into_.steps.push_back({std::move(text), result, difference(into_.format, result.code, exactly)});
    into_.result.flags |= result.flags;
    return result.code;
  }
  /// In a format without signs: 0 minus it, which only 0 bears.
  std::uint64_t negated(const Expression& e) {
    const std::uint64_t operand = code(e.operands[0]);
    const Rounded result = evaluate(Operation::sub, into_.format, into_.rounding, 0, operand, 0, random());
    return step(e.text, result, std::nullopt);
  }

  Calculation& into_;
  std::uint64_t seed_, drawn_ = 0;
};

/// Whether an error is no more than the digits that are known of what is right.
bool is_unknown(const Known& error) { return !error.is_exact() && abs(error.value) <= error.doubt; }

/// "-2.4e-05", "exact", "" where there is none.
std::string error_text(const std::optional<Known>& error) {
  if (!error) return "";
  if (is_unknown(*error)) return "below " + rounded(error->doubt, 1);
  return error->value.is_zero() ? "exact" : rounded(error->value, 3);
}

/// The same of a whole calculation: what came out right by luck is not called exact.
std::string error_text(const Calculation& whole) {
  return whole.errors_cancel() ? "cancelled" : error_text(whole.error());
}

/// The error in units in the last place around what is right.
std::string in_ulp(const FloatFormat& f, const std::optional<Known>& error, std::uint64_t code) {
  if (!error || error->value.is_zero() || is_unknown(*error)) return "";
  return ulps_text(Rational(error->value / ulp_at(f, Rational(exact_value(f, code) - error->value))), 3);
}

/// A number in full where that is short, else the fewest digits that make it out among the format's numbers.
std::string value_text(const FloatFormat& f, std::uint64_t code) {
  constexpr int readable = 13;
  if (!f.is_finite(code) || f.is_zero(code)) return print(f, code);
  const std::string all = decimal_text(exact_value(f, code), readable);
  return all.find("...") == all.npos ? all : print(f, code);
}

std::vector<std::string> cells(const FloatFormat& f, std::string label, const Rounded& result, std::string error,
                               std::string ulps) {
  const Flags raised = result.flags & static_cast<Flags>(~flag::inexact);
  return {std::move(label), value_text(f, result.code),      print_code(f, result.code), std::move(error),
          std::move(ulps),  raised ? flag_names(raised) : ""};
}

/// What steps are called in a column of some width: their text, cut at its end; where that makes two alike, cut in its
/// middle; where that does too, behind their number.
std::vector<std::string> labels(const std::vector<CalculationStep>& steps) {
  constexpr std::size_t width = 26, head = 10;
  std::vector<std::string> all;
  for (const CalculationStep& step : steps) all.push_back(cut(step.text, width));
  const auto relabel = [&](auto&& label) {
    const std::vector<std::string> before = all;
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = 0; j < all.size(); ++j)
        if (before[i] == before[j] && steps[i].text != steps[j].text && steps[i].text.size() > width)
          all[i] = label(steps[i].text, i);
  };
  relabel([&](const std::string& text, std::size_t) {
    return text.substr(0, head) + "..." + text.substr(text.size() - (width - head - 3));
  });
  relabel([&](const std::string& text, std::size_t i) { return cut(fmt::format("({}) {}", i + 1, text), width); });
  return all;
}

/// The rows in columns; those of which nothing but the heading is there vanish.
std::string table(std::vector<std::vector<std::string>> rows) {
  for (std::size_t column = 1; column < rows[0].size(); ++column)
    if (std::all_of(rows.begin() + 1, rows.end(), [&](const auto& row) { return row[column].empty(); }))
      rows[0][column].clear();
  return aligned(rows, 2);
}

std::vector<std::string> heading(const char* first, const char* error) {
  return {first, "result", "code", error, "in ulp", "raised"};
}

}  // namespace

std::optional<Known> Calculation::error() const { return difference(format, result.code, exactly); }

bool Calculation::errors_cancel() const {
  const std::optional<Known> last = error();
  return last && last->is_exact() && last->value.is_zero() && (result.flags & flag::inexact) != 0;
}

namespace {

/// The operation that is computed first, if there is one.
std::optional<Operation> first_operation(const Expression& e) {
  for (const Expression& operand : e.operands)
    if (const auto first = first_operation(operand)) return first;
  if (e.kind == Expression::Kind::operation) return e.operation;
  if (e.kind == Expression::Kind::negation) return Operation::sub;
  return e.kind == Expression::Kind::sum ? std::optional(Operation::add) : std::nullopt;
}

}  // namespace

Calculation calculate(const Expression& expression, const FloatFormat& format, const Rounding& rounding,
                      std::uint64_t seed) {
  // Numbers alone need no arithmetic, which some formats do not have.
  const Operation without = expression.operands.empty() ? Operation::convert : Operation::add;
  const Task task{first_operation(expression).value_or(without), format, format, rounding};
  if (const std::string why = refusal(task); !why.empty()) throw std::invalid_argument(why);
  Calculation result{format, rounding, {}, {}, value_of(expression, irrational_result)};
  result.result.code = Calculator(result, seed).code(expression);
  return result;
}

std::string calculation_text(const Expression& expression, const std::vector<Calculation>& calculations, bool trace) {
  const std::optional<Known>& exactly = calculations.front().exactly;
  std::string text = cut(expression.text, 60);
  if (exactly) {
    const std::string value = decimal_text(exactly->value, 17);
    text += " is " + value + (exactly->is_exact() || value.find("...") != value.npos ? "" : " to 100 digits");
  }
  text += "\n";
  std::vector<std::vector<std::string>> all{heading("format", "error")};
  for (const Calculation& one : calculations) {
    const FloatFormat& f = one.format;
    all.push_back(cells(f, format_name(f), one.result, error_text(one), in_ulp(f, one.error(), one.result.code)));
  }
  text += "\n" + table(std::move(all));
  if (std::ranges::any_of(calculations, &Calculation::errors_cancel))
    text += wrapped("cancelled: right, though steps were rounded; their errors cancel or are lost", 2);
  if (calculations.size() > 1 && !trace) return text;
  for (const Calculation& one : calculations) {
    if (one.steps.size() < 2) continue;
    std::vector<std::vector<std::string>> rows{heading("step by step in", "its error")};
    rows.front().front() += " " + format_name(one.format);
    const std::vector<std::string> names = labels(one.steps);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const CalculationStep& step = one.steps[i];
      if (step.left_out) rows.push_back({names[i], "", "", "", "", ""});
      else
        rows.push_back(cells(one.format, names[i], step.result, error_text(step.error),
                             in_ulp(one.format, step.error, step.result.code)));
    }
    text += "\n" + table(std::move(rows));
  }
  return text;
}

nlohmann::ordered_json to_json(const Expression& expression, const std::vector<Calculation>& calculations) {
  const auto real = [](const std::optional<Known>& x) {
    return x ? number(static_cast<double>(x->value)) : Json(nullptr);
  };
  const std::optional<Known>& exactly = calculations.front().exactly;
  Json json{{"expression", expression.text},
            {"exactly", real(exactly)},
            {"rounding", name_of(calculations.front().rounding.mode)}};
  if (exactly && !exactly->is_exact()) json["within"] = number(static_cast<double>(exactly->doubt));
  json["formats"] = Json::array();
  for (const Calculation& one : calculations) {
    Json row{{"format", format_name(one.format)},
             {"result", emulated(one.format, one.result.code)},
             {"error", real(one.error())},
             {"flags", flag_names(one.result.flags)}};
    row["steps"] = Json::array();
    for (const CalculationStep& step : one.steps) {
      if (step.left_out) row["steps"].push_back({{"left_out", step.left_out}});
      else
        row["steps"].push_back({{"step", step.text},
                                {"result", emulated(one.format, step.result.code)},
                                {"error", real(step.error)},
                                {"flags", flag_names(step.result.flags)}});
    }
    json["formats"].push_back(std::move(row));
  }
  return json;
}

}  // namespace halfulp::cli
