#include <halfulp/commands/witness.hpp>

#include <halfulp/support/spelling.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/commands/lines.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/commands/profiles.hpp>
#include <halfulp/commands/rational.hpp>
#include <halfulp/report/report.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace halfulp::cli {
namespace {

using witness::CastSubject;
using witness::DotSubject;
using witness::Found;
using witness::OperationSubject;
using witness::Subject;
using witness::UnitSubject;
using Codes = std::vector<std::uint64_t>;

std::string operand_name(const witness::OperandShape& shape, std::size_t i, std::size_t operands) {
  const std::size_t vector = operands - shape.fixed.size();
  if (!shape.repeated.empty() && i > vector) return i == vector + 1 ? "scale of a" : "scale of b";
  if (i >= vector)
    return std::string(1, static_cast<char>('a' + (shape.repeated.empty() ? i : shape.repeated.size() + i - vector)));
  return fmt::format("{}[{}]", static_cast<char>('a' + i % shape.repeated.size()), i / shape.repeated.size());
}

bool all_finite(const witness::OperandShape& shape, const Codes& x) {
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!shape.format(i, x.size()).is_finite(x[i])) return false;
  return true;
}

/// What the operands give before any rounding; none where there is no such number.
std::optional<Rational> exactly(const Subject& subject, const Codes& x) {
  if (!all_finite(subject.shape, x)) return std::nullopt;
  const auto value = [&](std::size_t i) { return exact_value(subject.shape.format(i, x.size()), x[i]); };
  if (!subject.shape.repeated.empty()) {  // terms, each the product of its operands, and what is added to them
    const std::size_t each = subject.shape.repeated.size(), terms = subject.shape.terms(x.size());
    Rational sum = 0;
    for (std::size_t t = 0; t < terms; ++t) {
      Rational term = value(t * each);
      for (std::size_t i = 1; i < each; ++i) term *= value(t * each + i);
      sum += term;
    }
    const auto* unit = std::get_if<UnitSubject>(&subject.what);
    if (unit && unit->unit->scaled()) sum *= abs(value(x.size() - 2) * value(x.size() - 1));
    return unit ? sum + value(terms * each) : sum;
  }
  if (std::holds_alternative<CastSubject>(subject.what)) return value(0);
  switch (std::get<OperationSubject>(subject.what).operation) {
    case Operation::add: return value(0) + value(1);
    case Operation::sub: return value(0) - value(1);
    case Operation::mul: return value(0) * value(1);
    case Operation::div: return value(1).is_zero() ? std::nullopt : std::optional<Rational>(value(0) / value(1));
    case Operation::rcp: return value(0).is_zero() ? std::nullopt : std::optional<Rational>(1 / value(0));
    case Operation::fma: return value(0) * value(1) + value(2);
    case Operation::convert: return value(0);
    default: return std::nullopt;
  }
}

std::string formula(const Subject& subject) {
  if (const auto* operation = std::get_if<OperationSubject>(&subject.what))
    return std::string(info(operation->operation).summary);
  if (const auto* dot = std::get_if<DotSubject>(&subject.what)) return dot->products ? "sum of products" : "sum";
  const auto* unit = std::get_if<UnitSubject>(&subject.what);
  if (!unit) return "a";
  return unit->unit->scaled() ? "sum of products, scaled, and c" : "sum of products and c";
}

/// "= 3/2 * 2^-4" is no help where the decimal is short.
std::string exact_text(const Rational& x) {
  const std::string decimal = decimal_text(x, 24);
  int e = 0;
  return is_power_of_two(x, e) ? fmt::format("{} = 2^{}", decimal, e) : decimal;
}

/// The values of the result's format on both sides, and how far away they are.
std::string between(const FloatFormat& f, const Rational& x) {
  const bool negative = x < 0;
  const Rational size = abs(x);
  std::uint64_t low = 0, high = f.max_finite() + 1;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (exact_value(f, middle) <= size ? low : high) = middle;
  }
  if (negative && !f.is_signed) return "negative";
  const auto text = [&](std::uint64_t magnitude) { return code_and_value(f, f.with_sign(magnitude, negative)); };
  if (exact_value(f, low) == size) return "is " + text(low);
  if (low == f.max_finite()) return "beyond the largest, " + text(low);
  const Rational step = exact_value(f, low + 1) - exact_value(f, low), part = (size - exact_value(f, low)) / step;
  return fmt::format("between {} and {}, {} of the way{}", text(low), text(low + 1), decimal_text(part, 6),
                     part == Rational(1, 2) ? " (a tie)" : "");
}

/// Why a profile's rule gives what it gives.
std::string reason(const CastSubject& cast, std::uint64_t code) {
  const CastRule& rule = *cast.rule;
  const FloatFormat& from = cast.from;
  if (from.is_nan(code)) return "NaN";
  if (from.is_infinite(code)) return "an infinity";
  if (from.is_zero(code)) return "a zero";
  if (rule.flush_inputs && from.is_subnormal(code)) return "a subnormal operand counts as zero";
  const Rounded rounded = convert(from, rule.to, {.mode = rule.mode}, code);
  const std::uint64_t result = apply(rule, from, code);
  if (rule.overflow_above != 0 && std::abs(from.value(code)) > rule.overflow_above)
    return "overflow: larger than the largest number";
  if (from.sign(code) && !rule.to.is_signed)
    return rule.ignore_sign ? "the sign is not looked at" : "negative, and the format has no sign";
  if (rounded.flags & flag::overflow) return "overflow";
  if (rounded.code != result)
    return rule.through_fp32 & source_bit(from) ? "rounded to fp32, then " + std::string(name_of(rule.mode))
                                                : "an exception of this profile";
  return "rounded " + std::string(name_of(rule.mode));
}

std::string steps(const Subject& subject, const Codes& x) {
  const std::uint64_t result = subject.evaluate(x);
  if (const auto* cast = std::get_if<CastSubject>(&subject.what))
    return code_and_value(subject.result, result) + "  by " + reason(*cast, x[0]);
  if (const auto* operation = std::get_if<OperationSubject>(&subject.what)) {
    const Rounding& r = operation->rounding;
    std::string how = std::string(name_of(r.mode)) + (r.overflow == Overflow::saturate ? ", saturating" : "") +
                      (r.flush_inputs ? ", subnormal operands as zero" : "") +
                      (r.flush_outputs ? ", tiny results as zero" : "");
    return code_and_value(subject.result, result) + "  rounded " + how;
  }
  return code_and_value(subject.result, result);
}

/// What a vector's sum is after each term, as if it ended there.
std::string running(const Subject& a, const Subject& b, const Codes& x) {
  const std::size_t each = a.shape.repeated.size(), terms = a.shape.terms(x.size());
  std::vector<std::vector<std::string>> rows{{"terms", "exactly", a.name, b.name}};
  for (std::size_t t = 1; t <= terms; ++t) {
    Codes part(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(t * each));
    part.insert(part.end(), x.end() - static_cast<std::ptrdiff_t>(a.shape.fixed.size()), x.end());
    const auto exact = exactly(a, part);
    rows.push_back({std::to_string(t), exact ? decimal_text(*exact, 12) : "-",
                    code_and_value(a.result, a.evaluate(part)), code_and_value(b.result, b.evaluate(part))});
  }
  return aligned(rows, 2);
}

std::string searched(const Subject& a, const Found& found, const witness::Options& options) {
  std::string text = fmt::format("{} cases looked at", fmt::group_digits(found.looked_at));
  if (options.any_nan) text += ", NaN equal to NaN";
  if (options.any_zero) text += ", -0 equal to +0";
  if (std::holds_alternative<CastSubject>(a.what) && found.exhaustive)
    return text + ": all of them" + (found.operands ? ", the one with the fewest bits, nearest to 1" : "");
  if (found.exhaustive)
    return text + (found.operands ? ": all that are smaller, none of which differs" : ": all of them");
  text += fmt::format(": guided, seed {}", options.seed);
  if (!a.shape.repeated.empty())
    text += fmt::format(", vectors of up to {} term{}", found.longest, found.longest == 1 ? "" : "s");
  if (found.operands) text += fmt::format("; {} more to make it smaller", fmt::group_digits(found.shrunk));
  return text;
}

/// A path as a shell reads it.
std::string quoted(const std::string& path) {
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? "'\\''" : std::string(1, c);
  return path.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-") == path.npos
             ? path
             : text + "'";
}

}  // namespace

TestVector test_vector(const Subject& subject, const Codes& x) {
  TestVector vector;
  const auto word = [&](std::uint64_t code, const FloatFormat& f) {
    append_hex_word(vector.line, code, f.storage_bits());
  };
  if (const auto* operation = std::get_if<OperationSubject>(&subject.what)) {
    for (const std::uint64_t code : x) word(code, operation->format), vector.line += ' ';
    const Rounding& r = operation->rounding;
    const Rounded result = operation->operation == Operation::convert
                               ? convert(operation->format, operation->to, r, x[0])
                               : evaluate(operation->operation, operation->format, r, x[0], x.size() > 1 ? x[1] : 0,
                                          x.size() > 2 ? x[2] : 0);
    word(result.code, subject.result);
    vector.line += fmt::format(" {:02X}", result.flags);
    vector.command = fmt::format(
        "halfulp eval {} --format {}{} --round {}{}{}{}{} --check", info(operation->operation).name,
        format_name(operation->format),
        operation->operation == Operation::convert ? " --to " + format_name(operation->to) : "", name_of(r.mode),
        r.overflow == Overflow::saturate ? " --overflow saturate" : "", r.flush_inputs ? " --flush-inputs" : "",
        r.flush_outputs ? " --flush-outputs" : "", r.tininess == Tininess::before ? " --tininess before" : "");
  } else if (const auto* of_unit = std::get_if<UnitSubject>(&subject.what)) {
    const MatrixUnit& unit = *of_unit->unit;
    const std::size_t pairs = x.size() - subject.shape.fixed.size();
    for (std::size_t side = 0; side < 2; ++side) {
      const FloatFormat& f = side == 0 ? unit.a : unit.b;
      for (std::size_t i = side; i < pairs; i += 2)
        append_hex_word(vector.line, code_word(f, x[i]), word_bits(f)), vector.line += ' ';
      vector.line += "| ";
    }
    word(x[pairs], subject.result);
    const std::size_t terms = pairs / 2, block = static_cast<std::size_t>(unit.scale_block);
    for (std::size_t scale = pairs + 1; scale < x.size(); ++scale) {
      vector.line += " |";
      for (std::size_t first = 0; first < terms; first += block) vector.line += ' ', word(x[scale], unit.scale);
    }
    vector.line += " | ";
    word(subject.evaluate(x), subject.result);
    // The table's units are subjects by their names, units of files by the files' paths.
    vector.command = fmt::format("halfulp mma --unit{} {} --check", subject.name == unit.name ? "" : "-file",
                                 quoted(subject.name));
  } else if (const auto* dot = std::get_if<DotSubject>(
                 &subject.what)) {  // no command reads these: A | B | sum, or the terms | sum
    const std::size_t each = subject.shape.repeated.size();
    for (std::size_t side = 0; side < each; ++side) {
      for (std::size_t i = side; i < x.size(); i += each) word(x[i], subject.shape.repeated[side]), vector.line += ' ';
      vector.line += "| ";
    }
    word(subject.evaluate(x), subject.result);
    vector.command = (dot->products ? "dot product by " : "sum by ") + product_model_name(dot->model);
  }
  return vector;
}

std::string witness_text(const Subject& a, const Subject& b, const witness::Options& options, const Found& found) {
  std::string text = fmt::format("{} and {}\n  {}\n", a.name, b.name, searched(a, found, options));
  if (!found.operands)
    return text +
           (found.exhaustive ? "\nno difference found\n" : "\nno difference found; there may be one elsewhere\n");
  const Codes& x = *found.operands;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < x.size(); ++i)
    rows.push_back({operand_name(a.shape, i, x.size()), code_and_value(a.shape.format(i, x.size()), x[i]),
                    print_hex(a.shape.format(i, x.size()), x[i])});
  text += "\n" + aligned(rows, 2);
  if (const auto exact = exactly(a, x)) {
    rows = {{"exactly", formula(a) + " = " + exact_text(*exact)}, {"", between(a.result, *exact)}};
    if (rows[1][1].empty()) rows.pop_back();
    text += "\n" + aligned(rows, 2);
  }
  if (!a.shape.repeated.empty() && a.shape.terms(x.size()) > 1) text += "\n" + running(a, b, x);
  rows = {{a.name, steps(a, x)}, {b.name, steps(b, x)}};
  text += "\n" + aligned(rows, 2);
  for (const Subject* subject : {&a, &b}) {
    const TestVector vector = test_vector(*subject, x);
    if (vector.line.empty()) continue;
    if (subject == &a) text += "\n";
    text += std::holds_alternative<DotSubject>(subject->what)
                ? fmt::format("  {}\n    {}\n", vector.command, vector.line)
                : fmt::format("  echo '{}' | {}\n", vector.line, vector.command);
  }
  return text;
}

nlohmann::ordered_json to_json(const Subject& a, const Subject& b, const witness::Options& options,
                               const Found& found) {
  nlohmann::ordered_json json{{"a", a.name},
                              {"b", b.name},
                              {"exhaustive", found.exhaustive},
                              {"looked_at", found.looked_at},
                              {"shrunk", found.shrunk},
                              {"seed", options.seed},
                              {"any_nan", options.any_nan},
                              {"any_zero", options.any_zero},
                              {"longest", found.longest}};
  json["witness"] = nullptr;
  if (!found.operands) return json;
  const Codes& x = *found.operands;
  nlohmann::ordered_json operands = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < x.size(); ++i) {
    nlohmann::ordered_json row{{"name", operand_name(a.shape, i, x.size())}};
    row.update(emulated(a.shape.format(i, x.size()), x[i]));
    operands.push_back(std::move(row));
  }
  json["witness"] = {{"operands", std::move(operands)}};
  if (const auto exact = exactly(a, x)) json["witness"]["exactly"] = exact->str();
  for (const auto& [key, subject] : {std::pair("a", &a), std::pair("b", &b)}) {
    json["witness"][key] = emulated(subject->result, subject->evaluate(x));
    const TestVector vector = test_vector(*subject, x);
    if (!vector.line.empty())
      json["witness"][key]["test_vector"] = vector.line, json["witness"][key]["command"] = vector.command;
  }
  return json;
}

}  // namespace halfulp::cli
