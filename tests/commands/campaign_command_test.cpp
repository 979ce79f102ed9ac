// `halfulp campaign` as a user meets it: specifications, what is kept and read, the report, errors.
#include "command.hpp"
#include "temporary_folder.hpp"

#include <halfulp/report/campaign.hpp>
#include <halfulp/support/json.hpp>

#include <gtest/gtest.h>

#include <halfulp_test_paths.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace campaign_command_test {

using namespace halfulp;
using halfulp::tests::Outcome;
using halfulp::tests::Program;
using Words = std::vector<std::string>;

Json small() {
  return Json::parse(R"({
    "experiment": "training",
    "settings": {"networks": ["mlp"], "steps": 4, "seeds": 2, "train_examples": 64, "test_examples": 64, "batch": 16,
                 "learning_rates": [0.001], "weight_formats": "bf16"},
    "grid": {"policies": ["amp-bf16", "bf16-sr"], "lr": [0.001, 0.01]},
    "exclude": [{"policies": "amp-bf16", "lr": 0.01}]})");
}

Campaign campaign(const Json& json) { return campaign_of(json, usual_points, "sweep.json"); }
std::string refused(const Json& json, std::uint64_t most = usual_points) {
  try {
    campaign_of(json, most, "sweep.json");
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << json.dump();
  return {};
}

TEST(Campaign, HasEveryCombinationButTheExcluded) {
  Json json = small();
  json["exclude"].push_back({{"policies", "amp-bf16"}, {"lr", 0.01}});  // twice, in either order
  json["exclude"].insert(json["exclude"].begin(), Json{{"lr", 0.5}});
  json["grid"]["lr"].push_back(0.5);
  const Campaign made = campaign(json);
  EXPECT_EQ(made.experiment->name, "training");
  EXPECT_EQ(made.axes, (std::vector<std::string>{"policies", "lr"}));
  ASSERT_EQ(made.points.size(), 3u);
  EXPECT_EQ(made.points[0].values, (std::vector<Json>{"amp-bf16", 0.001}));
  EXPECT_EQ(made.points[1].values, (std::vector<Json>{"bf16-sr", 0.001}));
  EXPECT_EQ(made.points[2].values, (std::vector<Json>{"bf16-sr", 0.01}));
  for (const CampaignPoint& point : made.points) EXPECT_EQ(point.config.integer("steps"), 4);
  EXPECT_EQ(made.points[2].config.real("lr"), 0.01);
}

TEST(Campaign, TakesAListOfGridsAndASinglePoint) {
  Json json = small();
  json["grid"] = Json::parse(R"([{"lr": [0.1, 0.2]}, {"momentum": [0.5]}])");
  json.erase("exclude");
  const Campaign made = campaign(json);
  ASSERT_EQ(made.points.size(), 3u);
  EXPECT_EQ(made.points[0].values, (std::vector<Json>{0.1, 0.0}));  // momentum has its default
  EXPECT_EQ(made.points[2].values, (std::vector<Json>{0.0, 0.5}));
  json.erase("grid");
  EXPECT_EQ(campaign(json).points.size(), 1u);
  EXPECT_TRUE(campaign(json).axes.empty());
}

TEST(Campaign, RefusesWhatItCannotBe) {
  const auto with = [](const std::string& pointer, const Json& value) {
    Json json = small();
    json[Json::json_pointer(pointer)] = value;
    return refused(json);
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_TRUE(text.starts_with("sweep.json: ")) << text;
  };
  has(with("/experiment", "trainig"), "did you mean training");
  has(with("/experiment", 3), "\"experiment\" is 3; accepted: the name of one");
  has(with("/experiment", Json()), "\"experiment\" is missing");
  has(with("/grids", 1), "did you mean grid");
  has(with("/grid/policys", Json::array({"fp32"})), "policys");
  has(with("/grid", Json::parse(R"([{"lr": [0.1]}, {"s": [1]}])")), "grid: unknown parameter 's'");
  has(with("/grid/lr", 0.1), "accepted: a list of values");
  has(with("/grid/lr", Json::array()), "accepted: a list of values");
  has(with("/grid/lr", Json::parse("[0.1, 0.1]")), "twice");
  has(with("/grid/lr", Json::parse("[0.001, \"x\"]")), "lr");
  has(with("/settings", 3), "settings");
  has(with("/settings/steps", -4), "steps");
  has(with("/settings/lr", 0.1), "settings: lr is in the grid; accepted: in one of them");
  has(with("/exclude/0/lr", 0.5), "is no point of the grid");
  has(with("/exclude/0", Json::object()), "is every point");
  has(with("/exclude/0", Json{{"steps", 4}}), "steps");
  has(with("/tables", "summary"), "tables: ");
  has(with("/tables", Json::array()), "accepted: a list of tables");
  has(with("/tables", Json::array({"runs", "runs"})), "each once");
  has(refused(Json::array()), "no JSON object");
  Json all = small();
  all["exclude"] = Json::parse(R"([{"policies": "amp-bf16"}, {"policies": "bf16-sr"}])");
  has(refused(all), "every point is excluded");
}

TEST(Campaign, RefusesABillionPointsBeforeItMakesThem) {
  Json json = small();
  json.erase("exclude");
  for (const char* axis : {"lr", "momentum", "weight_decay"}) {
    json["grid"][axis] = Json::array();
    for (int i = 0; i < 1000; ++i) json["grid"][axis].push_back(i * 1e-4);
  }
  EXPECT_NE(refused(json).find("2000000000 points; accepted: at most 10000"), std::string::npos);
  json["grid"] = Json::object();
  for (const char* axis : {"lr", "momentum", "weight_decay", "eps", "clip_norm", "dropout", "margin"}) {
    json["grid"][axis] = Json::array();
    for (int i = 0; i < 1000; ++i) json["grid"][axis].push_back(i * 1e-4);
  }
  EXPECT_NE(refused(json).find("18446744073709551615 points"), std::string::npos);  // more than 64 bits count
}

class CampaignCommand : public ::testing::Test {
 protected:
  Outcome command(Words more, const std::string& store = "store") const {
    Words all{HALFULP_COMMAND, "campaign", folder.path() / "sweep.json", "--store", folder.path() / store, "--quiet"};
    all.insert(all.end(), more.begin(), more.end());
    return Program(all).wait();
  }
  void write(const Json& json) const { std::ofstream(folder.path() / "sweep.json") << json; }
  /// What a report says, without where and when.
  Json report(const std::string& store) const {
    const Outcome made = command({"--out", "-"}, store);
    EXPECT_EQ(made.status, 0) << made.err;
    Json json = Json::parse(made.out);
    json.erase("environment");
    return json;
  }
  halfulp::tests::TemporaryFolder folder;
};

TEST_F(CampaignCommand, ComputesReadsAndGrows) {
  write(small());
  const Json cold = report("store");
  EXPECT_EQ(report("store"), cold);
  EXPECT_EQ(Json::parse(command({"--list", "--json"}).out)["missing"].size(), 0u);

  const Json& points = cold["results"]["points"];
  EXPECT_EQ(points["columns"][1]["name"], "policies");
  EXPECT_EQ(points["columns"][2]["name"], "lr");
  ASSERT_EQ(points["rows"].size(), 3u);
  EXPECT_EQ(points["rows"][1][1], "bf16-sr");
  EXPECT_EQ(points["rows"][2][2], 0.01);
  EXPECT_EQ(cold["finding"], "3 points, none fails");

  // The rows of a point equal those of a run of the experiment with its settings.
  Words alone{HALFULP_COMMAND, "run", "training", "--backend", "emulated", "--quiet", "--out", "-"};
  Json config = small()["settings"];
  config["policies"] = "bf16-sr", config["lr"] = 0.01;
  std::ofstream(folder.path() / "config.json") << config;
  alone.insert(alone.end(), {"--config", folder.path() / "config.json"});
  const Json one = Json::parse(Program(alone).wait().out)["results"];
  for (const auto& [name, table] : one.items()) {
    ASSERT_TRUE(cold["results"].contains(name)) << name;
    Json rows = Json::array();
    for (const Json& row : cold["results"][name]["rows"])
      if (row[0] == 2) rows.push_back(Json(Json::array_t(row.begin() + 3, row.end())));
    EXPECT_EQ(rows, table["rows"]) << name;
  }

  Json larger = small();
  larger["settings"]["seeds"] = 3;
  write(larger);
  const Json list = Json::parse(command({"--list", "--json"}).out);
  EXPECT_EQ(list["there"], 2 * list["missing"].size());  // of three seeds the third is missing
  for (const Json& trial : list["missing"]) EXPECT_TRUE(trial["label"].get<std::string>().ends_with("-3")) << trial;
  EXPECT_EQ(list["points"].size(), 3u);
}

TEST_F(CampaignCommand, JoinsTheTablesThatAreAskedFor) {
  Json json = small();
  write(json);
  const Json all = report("store")["results"];
  json["tables"] = {"summary"};
  write(json);
  const Json results = report("store")["results"];
  ASSERT_EQ(results.size(), 3u) << "points, point_claims, summary";
  for (const auto& [name, table] : results.items()) EXPECT_EQ(table, all[name]) << name;

  json["tables"] = {"sumary"};
  write(json);
  const std::string other = folder.path() / "other.json";
  const Outcome refused = command({"--out", other});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("sweep.json: tables: unknown table 'sumary'; did you mean summary"), std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("of the first of 3 points"), std::string::npos) << "said while hours can still be saved";
  EXPECT_FALSE(std::filesystem::exists(other));
}

TEST_F(CampaignCommand, EstimatesFromTrialsThatItKeeps) {
  write(small());
  const std::size_t all = Json::parse(command({"--list", "--json"}).out)["missing"].size();
  ASSERT_GT(all, 16u);
  const Outcome outcome = command({"--dry-run", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json estimate = Json::parse(outcome.out);
  EXPECT_EQ(estimate["points"], 3);
  const std::size_t timed = estimate["timed"];
  EXPECT_GE(timed, 8u);
  EXPECT_LE(timed, 32u);
  EXPECT_EQ(estimate["there"], timed);
  EXPECT_EQ(estimate["missing"], all - timed);
  EXPECT_GT(estimate["seconds"].get<double>(), 0);
  EXPECT_EQ(Json::parse(command({"--list", "--json"}).out)["there"], timed);
  (void)command({"--out", "-"});
  EXPECT_EQ(command({"--dry-run"}).out,
            "3 points, " + std::to_string(all) + " trials: " + std::to_string(all) + " are there, 0 missing\n");
}

TEST_F(CampaignCommand, ReportsAreValidAndHaveAPage) {
  write(small());
  const std::string file = folder.path() / "report.json";
  ASSERT_EQ(command({"--out", file}).status, 0);
  EXPECT_EQ(Program({HALFULP_COMMAND, "validate", file}).wait().status, 0);
  EXPECT_NE(Program({HALFULP_COMMAND, "show", file, "points"}).wait().out.find("bf16-sr"), std::string::npos);
}

TEST_F(CampaignCommand, RunsTheSpecificationOfAReportAgain) {
  write(small());
  const std::string file = folder.path() / "report.json";
  ASSERT_EQ(command({"--out", file}).status, 0);
  const Json first = Json::parse(std::ifstream(file));
  std::filesystem::rename(file, folder.path() / "sweep.json");
  EXPECT_EQ(report("store")["results"], first["results"]);
}

TEST_F(CampaignCommand, SaysWhichPointIsRefusedBeforeItComputes) {
  Json json = small();
  json["grid"]["policies"] = {"bf16-sr", "nosuch"};
  json.erase("exclude");
  write(json);
  const Outcome outcome = command({"--out", "-"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("sweep.json: point 2, policies=nosuch, lr=0.001: "), std::string::npos) << outcome.err;
  EXPECT_EQ(command({"--list", "--json"}).out, "");
  write(small());
  EXPECT_EQ(Json::parse(command({"--list", "--json"}).out)["there"], 0);
}

TEST_F(CampaignCommand, OfAnExperimentWithoutTrialsComputesEveryPoint) {
  write(Json::parse(R"({"experiment": "memory", "grid": {"batch": [1, 2], "optimizer": ["adamw", "sgd"]}})"));
  EXPECT_EQ(command({"--list"}).out, "4 points; memory has no trials: each run computes all\n");
  const Json made = report("store");
  EXPECT_EQ(made["results"]["points"]["rows"].size(), 4u);
  EXPECT_EQ(made["results"]["bytes"]["title"], "bytes, of every point");  // the experiment's names one setting
  EXPECT_TRUE(made["results"].contains("point_claims"));
}

TEST_F(CampaignCommand, RefusesInOneLine) {
  write(small());
  const auto says = [](const Outcome& outcome, const std::string& words) {
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  says(command({"--list", "--dry-run"}), "one of the two");
  says(command({"--list", "--out", "x.json"}), "--out belongs");
  says(command({"--json"}), "--json belongs");
  says(command({"--out", folder.path() / "sweep.json"}), "is the specification");
  std::filesystem::remove_all(folder.path() / "store");
  says(command({"--max-points", "2"}), "4 points; accepted: at most 2");
  std::ofstream(folder.path() / "sweep.json") << "{";
  says(command({"--list"}), "sweep.json");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "store"));
}

}  // namespace campaign_command_test
