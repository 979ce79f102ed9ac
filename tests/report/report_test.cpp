// Claims, reports, their text, and the run that makes them.
#include "toy_report.hpp"

#include <halfulp/support/json.hpp>

#include <cmath>
#include <limits>
#include <map>

namespace halfulp {
namespace report_test {

using namespace toy;

constexpr double infinity = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

Verdict within_one(double measured) { return within(10, 1, measured, "oracle").verdict; }

TEST(Claims, hold_at_the_tolerance_and_fail_just_beyond) {
  EXPECT_EQ(within_one(11), Verdict::pass);
  EXPECT_EQ(within_one(9), Verdict::pass);
  EXPECT_EQ(within_one(std::nextafter(11, 12)), Verdict::fail);
  EXPECT_EQ(within_one(std::nextafter(9, 8)), Verdict::fail);
  EXPECT_EQ(within_one(not_a_number), Verdict::fail);
  EXPECT_EQ(within(infinity, 1, infinity, "oracle").verdict, Verdict::pass);
  EXPECT_EQ(within(infinity, 1, 1e308, "oracle").verdict, Verdict::fail);

  EXPECT_EQ(at_most(10, 10, "oracle").verdict, Verdict::pass);
  EXPECT_EQ(at_most(10, std::nextafter(10, 11), "oracle").verdict, Verdict::fail);
  EXPECT_EQ(at_most(10, not_a_number, "oracle").verdict, Verdict::fail);
  EXPECT_EQ(at_least(10, 10, "oracle").verdict, Verdict::pass);
  EXPECT_EQ(at_least(10, std::nextafter(10, 9), "oracle").verdict, Verdict::fail);
  EXPECT_EQ(at_least(10, not_a_number, "oracle").verdict, Verdict::fail);

  EXPECT_EQ(exactly(7.0859375, 7.0859375, "oracle").verdict, Verdict::pass);
  EXPECT_EQ(exactly(513, 512, "oracle").verdict, Verdict::fail);
  EXPECT_EQ(exactly("0x7bff", "0x7c00", "oracle").verdict, Verdict::fail);
}

TEST(Claims, a_published_figure_that_is_missed_differs_with_a_reason) {
  const Judgement claim = within(10, 1, 12.5, may_differ());
  EXPECT_EQ(claim.verdict, Verdict::differs);
  EXPECT_NE(claim.reason.find("12.5"), std::string::npos);
  EXPECT_EQ(claim.independence, "published");
  EXPECT_TRUE(within(10, 1, 10, may_differ()).reason.empty());
  EXPECT_EQ(within(10, 1, 12.5, may_differ("another network")).reason, "another network");
  EXPECT_TRUE(within(10, 1, 10, may_differ("another network")).reason.empty());
}

TEST(Claims, a_miss_that_decides_nothing_is_skipped) {
  const Basis doubtful{"published", Verdict::skipped, "within doubt"};
  EXPECT_EQ(at_most(1, 1, doubtful).verdict, Verdict::pass);
  const Judgement missed = at_most(1, 2, doubtful);
  EXPECT_EQ(missed.verdict, Verdict::skipped);
  EXPECT_EQ(missed.reason, "within doubt");
  EXPECT_TRUE(missed.measured.is_null() && missed.tolerance.empty() && missed.independence.empty());
}

TEST(Claims, an_unmet_condition_skips_without_measuring) {
  Report report("toy", "t", Config({}));
  bool asked = false;
  const auto judge = [&] {
    asked = true;
    return exactly(1, 1, "oracle");
  };
  report.claim({"unmet", "b", "c"}, "no such format", judge);
  EXPECT_FALSE(asked);
  EXPECT_EQ(report.claims().back().reason, "no such format");
  report.claim({"met", "b", "c"}, "", judge);
  EXPECT_TRUE(asked);
  EXPECT_EQ(report.claims().back().verdict, Verdict::pass);
}

TEST(Claims, are_counted_as_the_worst_of_them) {
  VerdictCounts counts;
  EXPECT_EQ(counts.overall(), Verdict::skipped);
  for (const Verdict verdict : {Verdict::skipped, Verdict::pass, Verdict::differs, Verdict::fail}) {
    counts.add(verdict);
    EXPECT_EQ(counts.overall(), verdict);
  }
  EXPECT_EQ(counts.measured(), 3u);
  EXPECT_EQ(counts.all(), 4u);
  EXPECT_EQ(
      verdicts_of(Json::parse(R"([{"verdict": "pass"}, {"verdict": "fail"}, {"verdict": "pass"}])"))[Verdict::pass],
      2u);
}

TEST(Claims, have_names_in_lower_case_with_hyphens) {
  EXPECT_EQ(kebab_case("O2"), "o2");
  EXPECT_EQ(kebab_case("mixed_float16"), "mixed-float16");
  EXPECT_EQ(kebab_case("FP8, E4M3 and E5M2!"), "fp8-e4m3-and-e5m2");
}

TEST(Cells, are_null_where_there_is_nothing) {
  EXPECT_EQ(share(1, 4), 0.25);
  EXPECT_TRUE(share(0, 0).is_null() && or_null("").is_null() && or_null(not_a_number).is_null());
  EXPECT_TRUE(or_null(std::optional<int>()).is_null());
  EXPECT_EQ(or_null(std::optional<double>(infinity)), "Infinity");
  EXPECT_EQ(or_null(std::optional<int>(0)), 0);
}

TEST(Report, refuses_claims_that_say_too_little) {
  const auto refused = [](Assertion what, Judgement made) {
    Report report("toy", "t", Config({}));
    EXPECT_THROW(report.claim(std::move(what), std::move(made)), std::logic_error);
  };
  refused({"", "b", "c"}, exactly(1, 1, "oracle"));
  refused({"a", "", "c"}, exactly(1, 1, "oracle"));
  refused({"a", "b", ""}, exactly(1, 1, "oracle"));
  refused({"a", "b", "c"}, exactly(1, 1, "trust me"));
  refused({"a", "b", "c"}, skipped(""));
  Report report("toy", "t", Config({}));
  report.claim({"a", "b", "c"}, exactly(1, 1, "oracle"));
  EXPECT_THROW(report.claim({"a", "b", "c"}, exactly(1, 1, "oracle")), std::logic_error);
  report.table("t", "t", {{"x", "1", "x"}, {"y", "1", "y"}});
  EXPECT_THROW(report.table("t", "t", {}), std::logic_error);
  EXPECT_THROW(Table("t", "t", {{"x", "1", "x"}}).row({1, 2}), std::logic_error);
}

TEST(Report, status_is_fail_if_a_claim_fails_or_a_comparison_differs) {
  Report report("toy", "t", Config({}));
  EXPECT_EQ(report.status(), "pass");
  report.claim({"p", "b", "c"}, within(1, 0, 2, may_differ()));
  report.claim({"s", "b", "c"}, skipped("why"));
  EXPECT_EQ(report.status(), "pass");
  Report failing = report;
  failing.claim({"a", "b", "c"}, exactly(1, 2, "oracle"));
  EXPECT_EQ(failing.status(), "fail");
  TaskComparison comparison;
  comparison.compared = 3;
  comparison.differing = 1;
  report.comparison(comparison);
  EXPECT_EQ(report.status(), "fail");
}

TEST(Report, values_without_json_become_words) {
  EXPECT_EQ(number(not_a_number), "NaN");
  EXPECT_EQ(number(-infinity), "-Infinity");
  EXPECT_EQ(emulated(fp16, 0x7bff).dump(), R"({"code":"0x7bff","value":65504.0})");
  EXPECT_EQ(emulated(fp16, 0x7c00).dump(), R"({"code":"0x7c00","value":"Infinity"})");
  EXPECT_EQ(emulated(e2m1, 0x7).dump(), R"({"code":"0x7","value":6.0})");
}

TEST(Runner, replays_the_trace_and_shows_every_difference) {
  const Broken broken;
  const Absent absent;
  const Json report = toy_report({&emulated_device(), &broken, &absent});
  EXPECT_EQ(joined(toy_errors(report)), "");
  EXPECT_EQ(report["status"], "fail");
  std::uint64_t differing = 0, compared = 0;
  std::map<std::string, std::size_t> skipped_tasks;
  for (const Json& comparison : report["comparisons"]) {
    EXPECT_NE(comparison["backend"], "emulated");
    if (comparison["skipped"].is_null()) {
      EXPECT_EQ(comparison["operation"], "add");
      EXPECT_FALSE(comparison["witnesses"].empty());
      compared += comparison["compared"].get<std::uint64_t>();
      differing += comparison["differing"].get<std::uint64_t>();
    } else {
      skipped_tasks[comparison["backend"].get<std::string>() + ": " + comparison["skipped"].get<std::string>()] +=
          comparison["tasks"].size();
    }
  }
  EXPECT_EQ(compared, 100u);
  EXPECT_EQ(differing, 100u);
  EXPECT_EQ(skipped_tasks, (std::map<std::string, std::size_t>{{"absent: no such device", 4},
                                                               {"broken: does not convert to bf16", 1},
                                                               {"broken: does not convert to fp16", 1}}));
}

TEST(Runner, the_number_of_threads_never_shows) {
  const Json one = toy_report({}, 1), two = toy_report({}, 2), eight = toy_report({}, 8);
  EXPECT_EQ(one["environment"]["threads"], 1);
  EXPECT_EQ(two["environment"]["threads"], 2);
  EXPECT_EQ(pretty(one["results"]), pretty(two["results"]));
  EXPECT_EQ(pretty(one["results"]), pretty(eight["results"]));
}

TEST(Runner, backends_by_name) {
  EXPECT_EQ(choose_backends(std::nullopt).size(), devices().size());
  EXPECT_EQ(choose_backends("emulated"), std::vector<const Device*>{&emulated_device()});
  for (const char* bad : {"", "x68", "emulated,", "emulated,emulated"})
    EXPECT_THROW((void)choose_backends(bad), std::invalid_argument) << bad;
}

TEST(JsonText, rows_take_a_line_and_text_reads_back) {
  const Json report = toy_report();
  const std::string text = pretty(report);
  EXPECT_EQ(parse_json(text, "text"), report);
  EXPECT_NE(text.find("\n        [\"fp16\", 1, {\"code\": \"0x4000\", \"value\": 2.0}],\n"), std::string::npos)
      << text.substr(0, 3000);
  EXPECT_NE(text.find("\n    \"count\": 50\n"), std::string::npos);
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace report_test
}  // namespace halfulp
