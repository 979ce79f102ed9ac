// Every experiment at a small size gives the same `results` with one thread and then with two, and byte for byte those
// committed as tests/golden/NAME.json. gcc and clang, any CPU and any thread count must reproduce them. The
// configurations are tests/golden/NAME.config.json. After a change that is meant to change results:
//   HALFULP_REFRESH_GOLDEN=1 build/release/tests/report_tests reproducibility; git diff tests/golden
#include <halfulp/support/json.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/report/schema.hpp>

#include <gtest/gtest.h>

#include <halfulp_test_paths.hpp>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace halfulp {
namespace reproducibility_test {

std::string golden(const std::string& name) { return std::string(HALFULP_GOLDEN) + "/" + name; }

/// The style of columns: one sentence per column, units from one list, counts in the unit that they count.
void expect_one_style(const Json& results) {
  const std::set<std::string> units{"",       "1",       "ulp",       "binade", "bit",   "rad", "logit",
                                    "term",   "token",   "id",        "value",  "step",  "run", "conversion",
                                    "output", "example", "nat",       "update", "claim", "dB",  "byte",
                                    "GB",     "GiB",     "parameter", "rank",   "pixel"};
  for (const auto& [name, table] : results.items())
    for (const Json& column : table["columns"]) {
      const std::string where = name + "." + column["name"].get<std::string>(), sentence = column["description"];
      EXPECT_TRUE(units.count(column["unit"])) << where << " has the unit " << column["unit"];
      ASSERT_FALSE(sentence.empty()) << where;
      EXPECT_TRUE(std::isupper(static_cast<unsigned char>(sentence.front()))) << where << ": " << sentence;
      EXPECT_EQ(sentence.back(), '.') << where << ": " << sentence;
    }
}

class Reproducibility : public ::testing::TestWithParam<Experiment> {
 protected:
  Json report(int threads) const {
    const Experiment& experiment = GetParam();
    Config config(experiment.parameters());
    config.set(read_json(golden(std::string(experiment.name) + ".config.json")));
    for (const Parameter& parameter : experiment.parameters())
      if (parameter.name == "data") config.set("data=" + golden("images"));
    RunOptions options;
    options.threads = threads;
    return run_experiment(experiment, config, options).to_json();
  }
};

/// The place where two texts begin to differ, for a short message.
std::string first_difference(const std::string& a, const std::string& b) {
  std::istringstream lines[2]{std::istringstream(a), std::istringstream(b)};
  std::string first, second;
  for (int number = 1;; ++number) {
    const bool more = static_cast<bool>(std::getline(lines[0], first)),
               others = static_cast<bool>(std::getline(lines[1], second));
    if (!more && !others) return "none";
    if (more != others || first != second) return "line " + std::to_string(number) + ":\n" + first + "\n" + second;
  }
}

TEST_P(Reproducibility, results_are_the_same_bytes_everywhere) {
  const Json report_of_one = report(1);
  const std::string one = pretty(report_of_one["results"]), two = pretty(report(2)["results"]);
  EXPECT_TRUE(one == two) << first_difference(one, two);
  if (std::getenv("HALFULP_EXHAUSTIVE")) {  // twice on one thread, too
    const std::string again = pretty(report(1)["results"]);
    EXPECT_TRUE(one == again) << first_difference(one, again);
  }
  EXPECT_EQ(report_of_one["status"], "pass");
  for (const std::string& error : report_errors(report_of_one)) ADD_FAILURE() << error;
  expect_one_style(report_of_one["results"]);

  const std::string path = golden(std::string(GetParam().name) + ".json");
  if (std::getenv("HALFULP_REFRESH_GOLDEN")) {
    write_file(path, one);
    GTEST_SKIP() << path << " was written anew";
  }
  std::ostringstream committed;
  committed << std::ifstream(path).rdbuf();
  EXPECT_TRUE(one == committed.str()) << path << ", " << first_difference(committed.str(), one);
}

INSTANTIATE_TEST_SUITE_P(Experiments, Reproducibility, ::testing::ValuesIn(experiments().begin(), experiments().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace reproducibility_test
}  // namespace halfulp
