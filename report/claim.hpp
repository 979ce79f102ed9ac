// A claim: what is said and by whom, what was expected and measured, and how that came out.
#pragma once

#include <halfulp/support/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace halfulp {

/// `part` of `whole` as a number, null if there is no whole.
Json share(std::uint64_t part, std::uint64_t whole);
/// Text or null: empty text says nothing.
Json or_null(const std::string& text);
/// A number or null: NaN says nothing.
Json or_null(double value);
/// What an optional holds, or null.
template <class T>
Json or_null(const std::optional<T>& value) {
  if (!value) return {};
  if constexpr (std::is_floating_point_v<T>) return number(*value);
  else return *value;
}

/// pass and fail: the claim follows from the format or the model. differs: a published figure that did not come out.
enum class Verdict : std::uint8_t { pass, fail, differs, skipped };
inline constexpr std::array<std::string_view, 4> verdict_names{"pass", "fail", "differs", "skipped"};
constexpr std::string_view name_of(Verdict verdict) { return verdict_names[static_cast<std::size_t>(verdict)]; }

/// How many claims came out in which way.
class VerdictCounts {
 public:
  void add(Verdict verdict) { ++counts_[static_cast<std::size_t>(verdict)]; }
  std::size_t operator[](Verdict verdict) const { return counts_[static_cast<std::size_t>(verdict)]; }
  std::size_t all() const { return measured() + (*this)[Verdict::skipped]; }
  /// All but the skipped ones.
  std::size_t measured() const;
  /// One fail makes all fail; else one difference makes them differ. Skipped if nothing was measured.
  Verdict overall() const;

 private:
  std::array<std::size_t, verdict_names.size()> counts_{};
};

/// Something published that experiments repeat: a line of the experiment `reproduce`.
struct Publication {
  std::string_view name;    ///< short, for tables
  std::string_view source;  ///< citation
  std::string_view set_up;  ///< what was computed, and what is said to come out
};

/// Who says so: paper and section, specification, issue; "derived: ..." if it follows from the format.
struct Citation {
  std::string text;
  const Publication* publication = nullptr;  ///< what the claim helps to repeat, if anything

  Citation(const char* words) : text(words) {}
  Citation(std::string words) : text(std::move(words)) {}
  Citation(const Publication& repeated, std::string words) : text(std::move(words)), publication(&repeated) {}
  /// Whether others have published it: it is neither derived nor measured by this project.
  bool is_published() const { return independence() == "published"; }
  /// Of a figure that it has: "oracle" if derived, "recorded" if this project measured it before, else "published".
  std::string independence() const {
    if (text.starts_with("derived")) return "oracle";
    return text.starts_with("this project") ? "recorded" : "published";
  }
};

/// What is claimed.
struct Assertion {
  std::string id;         ///< kebab-case, unique in the report
  std::string statement;  ///< one sentence that a student understands
  Citation source;
};

/// Where expected values may come from, other than from the code under test.
inline constexpr std::array<std::string_view, 5> independences{"oracle", "silicon", "recorded", "third-party",
                                                               "published"};

/// Where the expected value comes from, and what a miss means.
struct Basis {
  std::string independence;         ///< one of `independences`
  Verdict on_miss = Verdict::fail;  ///< fail, differs, or skipped where a miss decides nothing
  std::string reason = {};          ///< why a miss is not a failure; empty: the two numbers say it

  Basis(const char* from) : independence(from) {}
  Basis(std::string from, Verdict miss, std::string why)
      : independence(std::move(from)), on_miss(miss), reason(std::move(why)) {}
};
/// The basis of a published figure that need not come out here. `why` is the reason given if it does not.
Basis may_differ(std::string why = {});

/// How a claim came out.
struct Judgement {
  Json expected;
  std::string tolerance;  ///< "exact", "absolute 1e-3", "at most", ...
  Json measured;
  Verdict verdict = Verdict::fail;
  std::string reason;        ///< of skipped and differs
  std::string independence;  ///< empty if skipped
};

/// measured == expected.
Judgement exactly(Json expected, Json measured, Basis basis);
/// |measured - expected| <= tolerance.
Judgement within(double expected, double tolerance, double measured, Basis basis);
/// measured <= expected; `at_least` is its mirror.
Judgement at_most(double expected, double measured, Basis basis);
Judgement at_least(double expected, double measured, Basis basis);
/// This configuration does not test the claim ("formats does not contain bf16").
Judgement skipped(std::string reason);

struct Claim : Assertion, Judgement {};
Json to_json(const Claim& claim);
/// The same counts from the claims of a report that satisfies the schema.
VerdictCounts verdicts_of(const Json& claims);
/// Throws std::logic_error for a claim that says too little: no source, skipped or differing without a reason, an
/// unknown independence.
void check(const Claim& claim);

/// Letters in lower case and digits, one hyphen for whatever is between them: "O2" is "o2", "mixed_float16" is
/// "mixed-float16".
std::string kebab_case(std::string_view name);

// When a measured value is the expected one: claims are judged by this rule, and `halfulp validate` reads them by it.

/// Whether `measured` is what was `expected`, by a claim's tolerance: "exact" (equal), "absolute X" (at most X away, or
/// equal), "at most" (measured <= expected), "at least". A NaN is at no distance from anything. Nothing where the
/// tolerance is none of these or asks for numbers that are not there.
std::optional<bool> satisfied(const Json& expected, std::string_view tolerance, const Json& measured);

}  // namespace halfulp
