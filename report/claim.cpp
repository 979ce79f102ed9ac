#include <halfulp/report/claim.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace halfulp {
namespace {

/// A number in a sentence: shortest digits that read back.
std::string text(double value) { return fmt::format("{}", value); }
std::string in_words(const Json& number) {
  return number.is_number() ? text(number.get<double>()) : number.get<std::string>();
}

/// The one place where a verdict is decided.
Judgement judged(Json expected, std::string tolerance, Json measured, Basis basis) {
  const auto holds = satisfied(expected, tolerance, measured);
  if (!holds) throw std::logic_error(fmt::format("a claim's tolerance '{}' does not apply", tolerance));
  if (!*holds && basis.on_miss == Verdict::skipped) return skipped(std::move(basis.reason));
  Judgement made{std::move(expected),
                 std::move(tolerance),
                 std::move(measured),
                 *holds ? Verdict::pass : basis.on_miss,
                 {},
                 std::move(basis.independence)};
  if (made.verdict == Verdict::differs)
    made.reason = basis.reason.empty() ? fmt::format("measured {} where the source has {}", in_words(made.measured),
                                                     in_words(made.expected))
                                       : std::move(basis.reason);
  return made;
}

}  // namespace

Json share(std::uint64_t part, std::uint64_t whole) {
  return whole ? number(static_cast<double>(part) / static_cast<double>(whole)) : Json();
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json or_null(double value) { return std::isnan(value) ? Json() : number(value); }

std::size_t VerdictCounts::measured() const {
  return (*this)[Verdict::pass] + (*this)[Verdict::fail] + (*this)[Verdict::differs];
}

Verdict VerdictCounts::overall() const {
  for (const Verdict verdict : {Verdict::fail, Verdict::differs, Verdict::pass})
    if ((*this)[verdict]) return verdict;
  return Verdict::skipped;
}

Basis may_differ(std::string why) { return {"published", Verdict::differs, std::move(why)}; }

Judgement exactly(Json expected, Json measured, Basis basis) {
  return judged(std::move(expected), "exact", std::move(measured), std::move(basis));
}

Judgement within(double expected, double tolerance, double measured, Basis basis) {
  return judged(number(expected), "absolute " + text(tolerance), number(measured), std::move(basis));
}

Judgement at_most(double expected, double measured, Basis basis) {
  return judged(number(expected), "at most", number(measured), std::move(basis));
}

Judgement at_least(double expected, double measured, Basis basis) {
  return judged(number(expected), "at least", number(measured), std::move(basis));
}

Judgement skipped(std::string reason) { return {{}, "", {}, Verdict::skipped, std::move(reason), ""}; }

Json to_json(const Claim& claim) {
  Json json = Json::object();
  json["id"] = claim.id;
  json["statement"] = claim.statement;
  json["source"] = claim.source.text;
  json["expected"] = claim.expected;
  json["tolerance"] = or_null(claim.tolerance);
  json["measured"] = claim.measured;
  json["verdict"] = name_of(claim.verdict);
  json["reason"] = or_null(claim.reason);
  json["independence"] = or_null(claim.independence);
  return json;
}

VerdictCounts verdicts_of(const Json& claims) {
  VerdictCounts counts;
  for (const Json& claim : claims) {
    const auto at = std::find(verdict_names.begin(), verdict_names.end(), claim.at("verdict").get<std::string_view>());
    counts.add(static_cast<Verdict>(at - verdict_names.begin()));
  }
  return counts;
}

void check(const Claim& claim) {
  const auto refuse = [&](std::string_view what) {
    throw std::logic_error(fmt::format("claim '{}': {}", claim.id, what));
  };
  if (claim.id.empty() || claim.statement.empty() || claim.source.text.empty())
    refuse("id, statement and source must be there");
  const bool excused = claim.verdict == Verdict::skipped || claim.verdict == Verdict::differs;
  if (excused == claim.reason.empty()) refuse("a reason belongs to skipped and differs, and to nothing else");
  if (claim.verdict != Verdict::skipped &&
      std::find(independences.begin(), independences.end(), claim.independence) == independences.end())
    refuse("unknown independence '" + claim.independence + "'");
}

std::string kebab_case(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z', kept = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (kept) text += upper ? static_cast<char>(c - 'A' + 'a') : c;
    else if (!text.empty() && text.back() != '-') text += '-';
  }
  while (!text.empty() && text.back() == '-') text.pop_back();
  return text;
}

std::optional<bool> satisfied(const Json& expected, std::string_view tolerance, const Json& measured) {
  if (tolerance == "exact") return measured == expected;
  const auto wanted = number_of(expected), found = number_of(measured);
  if (!wanted || !found) return std::nullopt;
  if (tolerance == "at most") return *found <= *wanted;
  if (tolerance == "at least") return *found >= *wanted;
  constexpr std::string_view prefix = "absolute ";
  if (!tolerance.starts_with(prefix)) return std::nullopt;
  tolerance.remove_prefix(prefix.size());
  double distance = 0;
  const auto [end, error] = std::from_chars(tolerance.data(), tolerance.data() + tolerance.size(), distance);
  if (error != std::errc{} || end != tolerance.data() + tolerance.size()) return std::nullopt;
  return *found == *wanted || std::fabs(*found - *wanted) <= distance;
}

}  // namespace halfulp
