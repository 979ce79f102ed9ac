// `halfulp formats` and `halfulp backends`, as a user runs them.
#include "command.hpp"

#include <halfulp/emulation/operation.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <sstream>

namespace formats_command_test {

using namespace halfulp;
using halfulp::tests::run_halfulp;
using RunOutcome = halfulp::tests::Outcome;
using Json = nlohmann::json;

TEST(FormatsCommand, JsonHasEveryFormat) {
  const auto all = nlohmann::json::parse(run_halfulp({"formats", "--json"}).out);
  ASSERT_EQ(all.size(), catalogue().size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]["name"], catalogue()[i].name);
    EXPECT_EQ(all[i]["max"]["value"], catalogue()[i].format.value(catalogue()[i].format.max_finite()));
  }
}

TEST(FormatsCommand, ListsAndDescribesBlockFormats) {
  const Json all = Json::parse(run_halfulp({"formats", "--blocks", "--json"}).out);
  EXPECT_EQ(all.size(), block_catalogue().size());
  for (const Json& j : all) {
    const BlockFormat f = parse_block_format(j["name"].get<std::string>());
    EXPECT_EQ(parse_block_format(j["description"].get<std::string>()), f);
    EXPECT_NE(j["citation"], "");
    EXPECT_EQ(Json::parse(run_halfulp({"formats", j["name"].get<std::string>(), "--json"}).out), j);
  }
  const std::string mxfp4 = run_halfulp({"formats", "MXFP4"}).out;
  for (const char* fact : {"4.25 with the scale", "2^(floor(log2 amax) - 2)", "largest 6", "OCP Microscaling"})
    EXPECT_NE(mxfp4.find(fact), std::string::npos) << mxfp4;
  EXPECT_NE(run_halfulp({"formats", "e4m3/1x64/e8m0/rceil"}).out.find("no less than amax / 448"), std::string::npos);
  const std::string table = run_halfulp({"formats", "--blocks"}).out;
  for (const NamedBlockFormat& row : block_catalogue())
    EXPECT_NE(table.find(std::string(row.name) + " "), std::string::npos);
  EXPECT_EQ(run_halfulp({"formats", "mxfp5"}).status, 2);
}

/// One screen: every backend and operation, with cells that count what --json lists.
TEST(BackendsCommand, MatrixFitsAScreen) {
  const RunOutcome text = run_halfulp({"backends"});
  EXPECT_EQ(text.status, 0) << text.err;
  const auto json = nlohmann::json::parse(run_halfulp({"backends", "--json"}).out);
  std::istringstream lines(text.out);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80u) << line;
    all.push_back(line);
  }
  EXPECT_LE(all.size(), 24u) << text.out;
  for (const auto& backend : json)
    EXPECT_NE(text.out.find(backend["name"].get<std::string>() + ": "), std::string::npos);
  for (const OperationInfo& row : operations) {
    const auto line = std::find_if(all.begin(), all.end(), [&](const std::string& l) {
      return l.starts_with("  ") && (l + " ").find(" " + std::string(row.name) + " ") != std::string::npos;
    });
    ASSERT_NE(line, all.end()) << row.name << "\n" << text.out;
    std::set<std::string> tasks;
    for (const auto& entry : json[0]["supports"])
      if (entry["operation"] == row.name)
        for (const auto& type : entry["types"]) tasks.insert(type);
    EXPECT_NE(line->find(std::to_string(tasks.size()) + " x 7"), std::string::npos) << *line;
  }
}

TEST(BackendsCommand, NamesEveryBackendAndWhyNot) {
  const RunOutcome text = run_halfulp({"backends", "--routes"});
  const auto json = nlohmann::json::parse(run_halfulp({"backends", "--json"}).out);
  EXPECT_EQ(text.status, 0);
  ASSERT_FALSE(json.empty());
  EXPECT_EQ(json[0]["name"], "emulated");
  for (const auto& backend : json) {
    EXPECT_NE(text.out.find(backend["name"].get<std::string>() + ": "), std::string::npos);
    if (backend["available"]) {
      EXPECT_FALSE(backend["supports"].empty());
    } else {
      EXPECT_FALSE(backend["reason"].get<std::string>().empty());
      EXPECT_NE(text.out.find("not here"), std::string::npos);
    }
    for (const auto& row : backend["refuses"]) EXPECT_FALSE(row["reason"].get<std::string>().empty());
  }
}

}  // namespace formats_command_test
