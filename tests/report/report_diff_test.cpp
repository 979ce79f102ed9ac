// What differs between two reports: code words first, then numbers, rows paired by name.
#include "toy_report.hpp"

#include <halfulp/report/difference.hpp>

namespace halfulp {
namespace {

using namespace toy;

/// The toy's report with one more measured column.
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

  Json alike = first, other;  // nothing tells rows apart: the place does
  for (Json& row : alike["results"]["sums"]["rows"]) row = alike["results"]["sums"]["rows"][0];
  other = alike;
  other["results"]["sums"]["rows"][5][3] = 0.75;
  EXPECT_NE(diff_reports(alike, other).text.find("  row 5, error: 0.5 | 0.75"), std::string::npos)
      << diff_reports(alike, other).text;
}

}  // namespace
}  // namespace halfulp
