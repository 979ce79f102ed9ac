// Sentences about tables: rows by their cells, numbers in words, and every experiment's finding of its golden report.
#include <halfulp/report/experiment.hpp>
#include <halfulp/report/report.hpp>

#include <gtest/gtest.h>

#include <halfulp_test_paths.hpp>

#include <cmath>
#include <limits>
#include <map>
#include <string>

namespace halfulp {
namespace {

TEST(Finding, numbers_in_words) {
  const std::pair<double, const char*> numbers[] = {{0, "0"},
                                                    {-0.0, "0"},
                                                    {1, "1"},
                                                    {4096, "4096"},
                                                    {131072, "131072"},
                                                    {0.0312, "0.031"},
                                                    {1.25, "1.2"},
                                                    {99.5, "100"},
                                                    {-32.4, "-32"},
                                                    {1e-5, "1e-5"},
                                                    {1.26e-7, "1.3e-7"},
                                                    {1.5e7, "1.5e7"},
                                                    {2.5e12, "2.5e12"},
                                                    {0.00018, "0.00018"},
                                                    {0.9, "0.9"},
                                                    {std::nan(""), "nan"}};
  for (const auto& [value, text] : numbers) EXPECT_EQ(in_words(value), text);
  EXPECT_EQ(in_words(1024, 6), "1024");
  EXPECT_EQ(in_words(0.123456789, 6), "0.123457");
}

/// Nothing but all is 100 %, nothing but none 0 %.
TEST(Finding, shares_in_percent) {
  const std::pair<double, const char*> shares[] = {{0, "0 %"},           {1, "100 %"},        {0.5, "50 %"},
                                                   {0.0308, "3.1 %"},    {0.9998, "99.98 %"}, {0.99999, "99.999 %"},
                                                   {5.7e-8, "5.7e-6 %"}, {2.125, "212 %"}};
  for (const auto& [share, text] : shares) EXPECT_EQ(percent(share), text);
}

TEST(Finding, rows_by_their_cells) {
  Table table("t", "T", {{"format", "", "f"}, {"n", "1", "n"}, {"error", "1", "e"}});
  table.row({"fp16", 1, 0.5});
  table.row({"bf16", 1, number(std::numeric_limits<double>::quiet_NaN())});
  table.row({"bf16", 2, number(std::numeric_limits<double>::infinity())});
  table.row({"bf16", 3, emulated(fp16, 0x3c00)});
  const Json results{{"t", table.to_json()}};
  const ReportTables tables(results);
  EXPECT_EQ(tables.rows("t").size(), 4u);
  EXPECT_EQ(tables.rows("t", {{"format", "bf16"}}).size(), 3u);
  EXPECT_EQ(tables.rows("t", {{"format", "bf16"}, {"n", 1}}).size(), 1u);
  EXPECT_TRUE(tables.rows("t", {{"format", "e4m3"}}).empty());
  EXPECT_TRUE(tables.rows("other").empty());
  const auto rows = tables.rows("t");
  EXPECT_EQ(rows[0].text("format"), "fp16");
  EXPECT_EQ(rows[0].text("n"), "");
  EXPECT_TRUE(std::isnan(rows[0].number("format")));
  EXPECT_TRUE(rows[0]["column"].is_null());
  EXPECT_EQ(rows[3].number("error"), 1);
  EXPECT_EQ(rows[2].whole("n"), "2");
  EXPECT_EQ(largest(rows, "error"), &rows[2]);
  EXPECT_EQ(smallest(rows, "error"), &rows[0]);
  EXPECT_EQ(largest(rows, "format"), nullptr);
}

/// Calls `change` on every cell of the results.
template <class Change>
Json changed(Json results, Change&& change) {
  for (auto& [name, table] : results.items())
    for (Json& row : table["rows"])
      for (Json& cell : row) change(cell);
  return results;
}

/// What the tables of the golden reports say, read by eye. Two of them are too small to say anything.
const std::map<std::string, std::string> expected{
    {"underflow", "fp16 loses 3.1 % of these gradients to zero; a loss scale of 2^16 saves all."},
    {"conversions", "fp32>bf16>e4m3 changes 3.1 % of the normal results of fp32>e4m3, the most of 4 chains."},
    {"swamping", "256 updates leave a weight in fp16 at 1, not 1.025; repairs end within 3.5 % of the way."},
    {"position_ids", "bf16 has only 769 ids for 4096 tokens: from token 257 on, tokens share ids."},
    {"accumulation", "1024 terms added one by one in bf16 have an error of 50 %; the best order (blocked) has 0.17 %."},
    {"recurrent", "An LSTM cell in bf16 counts to 128 of 256; with an fp32 state to 256."},
    {"collectives", "256 ranks in fp16: a ring has an error of 0.17 %, a tree 0.06 %, fp32 0.016 %."},
    {"attribution", "A product in e4m3-tensor has an error of 2.7 %: inputs 2.7 %, sums 4.2e-6 %."},
    {"scaling", "Next to outliers, the other values have an error of 338 % in int8-affine and of 0.23 % in bf16."},
    {"training", "3 of 10 match fp32, 2 fail, 5 undecided; at lr 0.001 e4m3 weights lose 18 ± 5 points, repaired 14."},
    {"loss_scaling", ""},
    {"grad_scaler", "Clipping before unscale_ shrinks a step to 0.0015 %; clipping after it leaves 100 %."},
    {"finetune", ""},
    {"optimizer", "46 of 77 match fp32, 1 fails, 20 undecided; fp16-eps-1e-6 ends 30 points below fp32."},
    {"recommendation", "mlp trains with 38 % of fp32's bytes at no cost; O1 takes 87 %."},
    {"operators", "In fp16 9 of 71 operators need fp32, in bf16 14, in e4m3 14."},
    {"quantization", "mlp falls from 33 % to 23 % in 2 bits; further training in them gives 27 %."},
    {"memory", "A parameter of gpt2 takes 10 bytes under bf16-kahan and 17 under nvfp4."},
    {"reproduce", "Of 30 published figures 30 can be tested here, of which 29 came out."},
};

/// In one line of a terminal or little more; and what is found in results of any kind throws nothing.
TEST(Finding, every_experiment_has_a_short_one) {
  for (const Experiment& experiment : experiments()) {
    const std::string name(experiment.name);
    SCOPED_TRACE(name);
    EXPECT_LE(experiment.question.size(), 64u);  // `halfulp list` fits 80 columns
    EXPECT_TRUE(experiment.question.ends_with("?"));
    const Json results = read_json(std::string(HALFULP_GOLDEN) + "/" + name + ".json");
    const std::string finding = finding_of(experiment, results);
    EXPECT_EQ(finding, expected.at(name));
    EXPECT_LE(finding.size(), 100u);
    EXPECT_EQ(finding_of(experiment, Json::object()), "");
    for (const Json& other : {Json(), Json("NaN"), Json(true), Json(-1), Json(Json::object())})
      EXPECT_NO_THROW(finding_of(experiment, changed(results, [&](Json& cell) {
                                   if (cell.is_number()) cell = other;
                                 })));
    EXPECT_NO_THROW(finding_of(experiment, changed(results, [](Json& cell) { cell = "word"; })));
    Json bare = results;
    for (auto& [table, content] : bare.items()) content["rows"] = Json::array();
    EXPECT_NO_THROW(finding_of(experiment, bare));
  }
}

/// The golden report of an experiment, with other cells in a column of a table.
std::string finding_with(const std::string& name, const std::string& table, const std::string& column,
                         const Json& cell) {
  Json results = read_json(std::string(HALFULP_GOLDEN) + "/" + name + ".json");
  Json& content = results[table];
  for (std::size_t i = 0; i < content["columns"].size(); ++i)
    if (content["columns"][i]["name"] == column)
      for (Json& row : content["rows"]) row[i] = cell;
  return finding_of(find_experiment(name), results);
}

TEST(Finding, position_ids_have_one_where_all_overflow_and_in_every_mode) {
  EXPECT_TRUE(finding_with("position_ids", "collisions", "overflowed", 3).ends_with("tokens share ids."));
  const std::string upward = finding_with("position_ids", "collisions", "rounding", "toward-positive");
  EXPECT_NE(upward.find(" toward-positive has only "), std::string::npos) << upward;
}

TEST(Finding, one_policy_or_scale_that_changes_nothing) {
  EXPECT_EQ(finding_with("memory", "bytes_per_parameter", "total", 16),
            "A parameter of gpt2 takes 16 bytes under every policy.");
  const std::string none = finding_with("underflow", "best_scale", "zero_at_best", 1);
  EXPECT_TRUE(none.ends_with(" saves none.")) << none;
}

TEST(Finding, weights_that_differ_are_told_apart_and_one_step_is_no_steps) {
  const std::string near = finding_with("swamping", "repairs", "exact", 1.000012);
  EXPECT_NE(near.find("at 1, not 1.00001;"), std::string::npos) << near;
  EXPECT_EQ(finding_with("swamping", "repairs", "exact", 1), "");
  EXPECT_TRUE(finding_with("swamping", "repairs", "steps", 1).starts_with("1 update leaves a weight"));
}

}  // namespace
}  // namespace halfulp
