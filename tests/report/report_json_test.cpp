// Reports as JSON: mutilations that the schema or the contradictions between their parts give away, and the differences
// of two reports, code words first, then numbers, rows paired by name.
#include "toy_report.hpp"

#include <halfulp/report/difference.hpp>

#include <functional>

namespace halfulp {
namespace report_json_test {

using namespace toy;

TEST(Schema, accepts_a_report_and_catches_each_mutilation) {
  const Broken broken;
  const Absent absent;
  const Json report = toy_report({&broken, &absent});
  ASSERT_EQ(joined(toy_errors(report)), "");
  const std::vector<std::pair<const char*, std::function<void(Json&)>>> mutilations{
      {"no schema_version", [](Json& r) { r.erase("schema_version"); }},
      {"other schema_version", [](Json& r) { r["schema_version"] = 3; }},
      {"no finding", [](Json& r) { r.erase("finding"); }},
      {"a finding in version 1", [](Json& r) { r["schema_version"] = 1; }},
      {"an empty finding", [](Json& r) { r["finding"] = ""; }},
      {"a finding that the tables do not give", [](Json& r) { r["finding"] = "1 + 1/2 is 1.6."; }},
      {"no finding where the tables give one", [](Json& r) { r["finding"] = nullptr; }},
      {"no config", [](Json& r) { r.erase("config"); }},
      {"no environment", [](Json& r) { r.erase("environment"); }},
      {"no date", [](Json& r) { r["environment"].erase("date"); }},
      {"wrong date", [](Json& r) { r["environment"]["date"] = "yesterday"; }},
      {"unknown member", [](Json& r) { r["extra"] = 1; }},
      {"null in config", [](Json& r) { r["config"]["count"] = nullptr; }},
      {"claims no array", [](Json& r) { r["claims"] = Json::object(); }},
      {"claim twice", [](Json& r) { r["claims"].push_back(r["claims"][0]); }},
      {"wrong verdict", [](Json& r) { r["claims"][0]["verdict"] = "maybe"; }},
      {"skipped without reason", [](Json& r) { r["claims"][1]["reason"] = nullptr; }},
      {"differs without reason", [](Json& r) { r["claims"][0]["verdict"] = "differs"; }},
      {"wrong independence", [](Json& r) { r["claims"][0]["independence"] = "me"; }},
      {"pass without independence", [](Json& r) { r["claims"][0]["independence"] = nullptr; }},
      {"failing claim, status unchanged", [](Json& r) { r["status"] = "pass"; }},
      {"row too short", [](Json& r) { r["results"]["sums"]["rows"][3].erase(0); }},
      {"nested cell", [](Json& r) { r["results"]["sums"]["rows"][3][0] = Json::array({1}); }},
      {"code without value", [](Json& r) { r["results"]["sums"]["rows"][3][2].erase("value"); }},
      {"code not hexadecimal", [](Json& r) { r["results"]["sums"]["rows"][3][2]["code"] = "3c00"; }},
      {"no columns", [](Json& r) { r["results"]["sums"].erase("columns"); }},
      {"column without unit", [](Json& r) { r["results"]["sums"]["columns"][0].erase("unit"); }},
      {"negative count", [](Json& r) { r["comparisons"][0]["compared"] = -1; }},
      {"more differ than were compared", [](Json& r) { r["comparisons"][0]["compared"] = 1; }},
      {"classes that do not add up", [](Json& r) { r["comparisons"][0]["classes"].begin().value() = 1; }},
      {"skipped without why", [](Json& r) { r["comparisons"].back()["skipped"] = ""; }},
      {"no NaN rule", [](Json& r) { r["comparisons"][0].erase("nan_rule"); }},
      {"not an object", [](Json& r) { r = Json::array(); }},
      {"unknown experiment", [](Json& r) { r["experiment"] = "toi"; }},
      {"empty config", [](Json& r) { r["config"] = Json::object(); }},
      {"parameter missing", [](Json& r) { r["config"].erase("count"); }},
      {"unknown parameter", [](Json& r) { r["config"]["counts"] = 3; }},
      {"value the parameter refuses", [](Json& r) { r["config"]["count"] = 1001; }},
      {"format without rows", [](Json& r) { r["config"]["formats"].push_back("e5m2"); }},
      {"rows of a format deleted",
       [](Json& r) {
         auto& rows = r["results"]["sums"]["rows"];
         rows.erase(rows.begin() + 50, rows.end());
       }},
      {"pass, but not as expected", [](Json& r) { r["claims"][0]["measured"] = 2.5; }},
      {"fail, but as expected", [](Json& r) { r["claims"][0]["verdict"] = r["status"] = "fail"; }},
      {"pass beyond the tolerance",
       [](Json& r) { r["claims"][0].update({{"tolerance", "absolute 0.25"}, {"measured", 2.5}}); }},
      {"more than at most", [](Json& r) { r["claims"][0].update({{"tolerance", "at most"}, {"measured", 2.5}}); }},
      {"less than at least", [](Json& r) { r["claims"][0].update({{"tolerance", "at least"}, {"measured", 1.5}}); }},
      {"NaN near something",
       [](Json& r) { r["claims"][0].update({{"tolerance", "absolute 1"}, {"measured", "NaN"}}); }},
      {"unknown tolerance", [](Json& r) { r["claims"][0]["tolerance"] = "roughly"; }},
      {"tolerance without a number", [](Json& r) { r["claims"][0]["tolerance"] = "absolute one"; }},
      {"measured nan", [](Json& r) { r["claims"][0].update({{"expected", "nan"}, {"measured", "nan"}}); }},
      {"value of another code word", [](Json& r) { r["results"]["sums"]["rows"][3][2]["value"] = 1.5; }},
      {"code word of another format", [](Json& r) { r["results"]["sums"]["rows"][3][0] = "bf16"; }},
      {"code word too wide", [](Json& r) { r["results"]["sums"]["rows"][3][2]["code"] = "0x13d00"; }},
      {"code word no format has",
       [](Json& r) { r["results"]["sums"]["rows"][3] = {"-", 4, {{"code", "0x3d00"}, {"value", 7}}}; }},
      {"cell nan", [](Json& r) { r["results"]["sums"]["rows"][3][1] = "nan"; }},
      {"cell -inf", [](Json& r) { r["results"]["sums"]["rows"][3][1] = "-inf"; }},
      {"differences without witness", [](Json& r) { r["comparisons"][0]["witnesses"] = Json::array(); }},
      {"witness that agrees",
       [](Json& r) {
         auto& w = r["comparisons"][0]["witnesses"][0];
         w["device"] = w["emulated"];
       }},
      {"witness of another value", [](Json& r) { r["comparisons"][0]["witnesses"][0]["operands"][0]["value"] = 77; }},
      {"witness with one operand", [](Json& r) { r["comparisons"][0]["witnesses"][0]["operands"].erase(0); }},
      {"unknown operation", [](Json& r) { r["comparisons"][0]["operation"] = "ad"; }},
  };
  for (const auto& [what, mutilate] : mutilations) {
    Json broken_report = report;
    mutilate(broken_report);
    EXPECT_FALSE(toy_errors(broken_report).empty()) << what;
  }
  for (const auto& [field, value] : report["claims"][0].items()) {
    Json broken_report = report;
    broken_report["claims"][0].erase(field);
    const std::string errors = joined(toy_errors(broken_report));
    EXPECT_NE(errors.find("/claims/0"), std::string::npos) << field << "\n" << errors;
    EXPECT_NE(errors.find("'" + field + "'"), std::string::npos) << field << "\n" << errors;
  }
}

/// "/" and "~" have a meaning in JSON pointers.
TEST(Schema, NamesMayHaveAnyLetters) {
  for (const char* name : {"a~b", "a/b", "", "~1"}) {
    Json report = toy_report({&emulated_device()});
    report["results"][name] = {{"title", 3}};
    report["config"][name] = Json::array({Json::object()});
    EXPECT_NE(joined(toy_errors(report)), "") << name;
  }
}

TEST(Schema, TextsMayBeNamedAsNumbersAre) {
  Json report = toy_report({&emulated_device()});
  Json& sums = report["results"]["sums"];
  sums["columns"].push_back({{"name", "tensor"}, {"unit", ""}, {"description", "a name"}});
  for (Json& row : sums["rows"]) row.push_back("inf");
  EXPECT_EQ(joined(toy_errors(report)), "");
  sums["rows"][1].back() = 3;
  EXPECT_NE(joined(toy_errors(report)).find("\"inf\"; accepted: \"NaN\""), std::string::npos)
      << "of a column of numbers";
}

/// What a claim's verdict asks for is said in one line, and nothing of what other verdicts ask for.
TEST(Schema, blames_only_what_is_wrong_in_a_claim) {
  const Json report = toy_report({&emulated_device()});
  const auto errors = [&](std::size_t claim, const char* field, const Json& value) {
    Json changed = report;
    changed["claims"][claim][field] = value;
    return joined(toy_errors(changed));
  };
  const std::size_t passed = 0, skipped = 1;
  ASSERT_EQ(report["claims"][passed]["verdict"], "pass");
  ASSERT_EQ(report["claims"][skipped]["verdict"], "skipped");
  EXPECT_EQ(errors(passed, "reason", "because"),
            "/claims/0/reason: Value type not permitted by 'type' constraint; accepted: null\n");
  EXPECT_EQ(errors(passed, "independence", nullptr),
            "/claims/0/independence: Value type not permitted by 'type' constraint; accepted: one of oracle, silicon, "
            "recorded, third-party, published\n");
  EXPECT_EQ(errors(passed, "verdict", "maybe"),
            "/claims/0/verdict: Failed to match against any enum values; accepted: one of pass, fail, differs, "
            "skipped\n");
  EXPECT_EQ(errors(skipped, "measured", 3),
            "/claims/1/measured: Value type not permitted by 'type' constraint; accepted: null\n");
  EXPECT_EQ(errors(skipped, "reason", nullptr),
            "/claims/1/reason: Value type not permitted by 'type' constraint; accepted: string\n");
  EXPECT_EQ(errors(passed, "verdict", "differs"),
            "/claims/0/reason: Value type not permitted by 'type' constraint; accepted: string\n");
}

/// Comparisons are of two kinds: errors are those of the kind that it is.
TEST(Schema, blames_only_what_is_wrong_in_a_comparison) {
  const Broken broken;
  const Absent absent;
  Json one = toy_report({&broken, &absent}), other = one;
  one["comparisons"][0]["compared"] = "many";
  EXPECT_EQ(joined(toy_errors(one)),
            "/comparisons/0/compared: Value type not permitted by 'type' constraint; accepted: integer\n");
  other["comparisons"].back()["skipped"] = Json();
  const std::string errors = joined(toy_errors(other)),
                    where = fmt::format("/comparisons/{}/skipped: ", other["comparisons"].size() - 1);
  EXPECT_TRUE(errors.starts_with(where) && errors.find("accepted: string") != errors.npos) << errors;
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
  other = toy_report({&broken, &absent});
  const std::string item = fmt::format("/comparisons/{}: ", other["comparisons"].size() - 1);
  other["comparisons"].back().erase("tasks");
  EXPECT_EQ(joined(toy_errors(other)), item + "Missing required property 'tasks'\n");
  for (const Json& no_object : {Json(5), Json(), Json("a"), Json::array()}) {
    other["comparisons"].back() = no_object;
    EXPECT_EQ(joined(toy_errors(other)), item + "Value type not permitted by 'type' constraint\n") << no_object;
  }
}

TEST(Schema, accepts_what_is_right_in_another_way) {
  const Json report = toy_report();
  const std::vector<std::pair<const char*, std::function<void(Json&)>>> variations{
      {"version 1, which had no finding",
       [](Json& r) {
         r["schema_version"] = 1;
         r.erase("finding");
       }},
      {"Infinity in a cell", [](Json& r) { r["results"]["sums"]["rows"][3][1] = "-Infinity"; }},
      {"NaN in a cell", [](Json& r) { r["results"]["sums"]["rows"][3][1] = "NaN"; }},
      {"words that only begin like one", [](Json& r) { r["results"]["sums"]["rows"][3][1] = "info"; }},
      {"a NaN's code word", [](Json& r) { r["results"]["sums"]["rows"][3][2] = emulated(fp16, 0x7e00); }},
      {"a code word of a format that a word of the row names",
       [](Json& r) { r["results"]["sums"]["rows"][3] = {"e5m2", "fp32-master", emulated(fp32, 0x3a03126f)}; }},
      {"a code word in a row without format", [](Json& r) { r["results"]["sums"]["rows"][3][0] = "-"; }},
      {"at the tolerance", [](Json& r) { r["claims"][0].update({{"tolerance", "absolute 0.5"}, {"measured", 2.5}}); }},
      {"the same infinity",
       [](Json& r) {
         r["claims"][0].update({{"tolerance", "absolute 1"}, {"expected", "Infinity"}, {"measured", "Infinity"}});
       }},
      {"another version's parameters",
       [](Json& r) {
         r["environment"]["version"] = "9.9.9";
         r["config"].erase("count");
       }},
  };
  for (const auto& [what, vary] : variations) {
    Json other = report;
    vary(other);
    EXPECT_EQ(joined(toy_errors(other)), "") << what;
  }
}

/// The toy's report with another measured column.
Json measured_report() {
  Json report = toy_report();
  Json& table = report["results"]["sums"];
  table["columns"].push_back({{"name", "error"}, {"unit", "ulp"}, {"description", "measured"}});
  for (Json& row : table["rows"]) row.push_back(0.5);
  return report;
}

TEST(Diff, finds_code_words_first_then_numbers_and_ignores_the_environment) {
  const Json first = measured_report();
  Json second = first;
  second["environment"]["date"] = "2000-01-01T00:00:00Z";
  second["comparisons"] = Json::array();
  EXPECT_FALSE(diff_reports(first, second).results_differ);
  second["results"]["sums"]["rows"][7][3] = 0.75;
  second["results"]["sums"]["rows"][9][2] = emulated(fp16, 0x3c01);
  second["config"]["count"] = 51;
  const ReportDiff diff = diff_reports(first, second);
  EXPECT_TRUE(diff.results_differ);
  const auto config = diff.text.find("config count: 50 | 51"), code = diff.text.find("row 9 (fp16 10), sum: "),
             number = diff.text.find("row 7 (fp16 8), error: 0.5 | 0.75, by 0.25");
  ASSERT_NE(config, std::string::npos) << diff.text;
  ASSERT_NE(code, std::string::npos) << diff.text;
  ASSERT_NE(number, std::string::npos) << diff.text;
  EXPECT_LT(config, code);
  EXPECT_LT(code, number);
  EXPECT_NE(diff.text.find("table sums: 1 code words differ"), std::string::npos) << diff.text;

  Json shorter = first;
  shorter["results"]["sums"]["rows"].erase(99);
  EXPECT_TRUE(diff_reports(first, shorter).results_differ);
  Json verdict = first;
  verdict["claims"][0]["measured"] = 3;
  EXPECT_NE(diff_reports(first, verdict).text.find("claim one-and-one: measured 2.0 | 3"), std::string::npos);
  Json fewer = first;
  fewer["claims"].erase(1);
  EXPECT_NE(diff_reports(first, fewer).text.find("claim other: only in the first report\n"), std::string::npos);
  EXPECT_NE(diff_reports(fewer, first).text.find("claim other: only in the second report\n"), std::string::npos);
  Json other = first;
  other["experiment"] = "other";
  EXPECT_THROW((void)diff_reports(first, other), std::invalid_argument);
}

TEST(Diff, pairs_rows_by_name_not_by_place) {
  const Json first = measured_report();
  Json more = first;
  auto& rows = more["results"]["sums"]["rows"];
  rows.insert(rows.begin() + 10, Json{"fp16", 1000, emulated(fp16, 0x3c01), 0.5});
  rows[90][3] = 0.75;
  const std::string inserted = diff_reports(first, more).text;
  EXPECT_NE(inserted.find("table sums: 1 row only in the second report\n  row 10 (fp16 1000)\n"), std::string::npos)
      << inserted;
  EXPECT_NE(inserted.find("table sums: 1 other cells differ\n  row 89 (bf16 40), error: 0.5 | 0.75"), std::string::npos)
      << inserted;
  EXPECT_EQ(inserted.find("code words differ"), std::string::npos) << inserted;
  EXPECT_NE(diff_reports(more, first).text.find("1 row only in the first report"), std::string::npos);

  Json swapped = first;
  std::swap(swapped["results"]["sums"]["rows"][3], swapped["results"]["sums"]["rows"][4]);
  EXPECT_EQ(diff_reports(first, swapped).text, "table sums: rows in another order\nresults differ\n");

  Json alike = first, other;  // nothing but their place tells rows apart
  for (Json& row : alike["results"]["sums"]["rows"]) row = alike["results"]["sums"]["rows"][0];
  other = alike;
  other["results"]["sums"]["rows"][5][3] = 0.75;
  EXPECT_NE(diff_reports(alike, other).text.find("  row 5, error: 0.5 | 0.75"), std::string::npos)
      << diff_reports(alike, other).text;
}

}  // namespace report_json_test
}  // namespace halfulp
