// Whatever a user asks of an experiment, they get a report that satisfies the schema and in which nothing fails that
// follows from formats, or one line that says what is accepted. Small configurations, varied at random: a few of each
// experiment, thirty in the exhaustive run.
#include <halfulp/emulation/random.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/report/schema.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>

#include "check.hpp"

#include <gtest/gtest.h>

#include <halfulp_test_paths.hpp>

#include <algorithm>
#include <cmath>

namespace random_configurations_test {

using namespace halfulp;

/// Random numbers of one trial.
class Dice {
 public:
  explicit Dice(std::uint64_t trial) : trial_(trial) {}
  std::uint64_t below(std::uint64_t count) { return random_word(20, trial_, next_++) % count; }
  /// Some of them, at least one, in their order.
  template <class T>
  std::vector<T> some(const std::vector<T>& all) {
    std::vector<T> chosen;
    for (const T& one : all)
      if (below(2) == 0) chosen.push_back(one);
    if (chosen.empty()) chosen.push_back(all[below(all.size())]);
    return chosen;
  }

 private:
  std::uint64_t trial_, next_ = 0;
};

const std::vector<std::string> formats{"fp16", "bf16", "tf32", "fp32",     "e4m3",
                                       "e5m2", "e3m2", "e2m1", "e4m3fnuz", "e3m0b3fnuz"};
const std::vector<std::string> policies{"fp32", "O2", "O3", "amp-fp16", "pure-bf16", "bf16-sr", "fp8-hybrid", "mxfp4"};

std::vector<std::string> strings_of(const Json& list) {
  std::vector<std::string> all;
  for (const Json& one : list) all.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  return all;
}

/// Another value of a parameter, no larger than the small one that it has.
Json varied(const Parameter& p, const Json& now, Dice& dice) {
  switch (p.type) {
    case ParameterType::formats: return dice.some(formats);
    case ParameterType::roundings: {
      std::vector<std::string> modes;
      for (const auto& row : rounding_modes) modes.emplace_back(row.name);
      return dice.some(modes);
    }
    case ParameterType::choices:
      if (p.name != "experiments") return dice.some(p.accepted);
      // Of reproduce: each takes as long as it does at its defaults.
      if (check::exhaustive()) return std::vector{p.accepted[dice.below(p.accepted.size())]};
      return dice.some(strings_of(now));
    case ParameterType::choice: return p.accepted[dice.below(p.accepted.size())];
    case ParameterType::boolean: return dice.below(2) == 0;
    case ParameterType::integers:
    case ParameterType::reals: {
      std::vector<Json> all;
      for (const Json& one : now) all.push_back(one);
      return dice.some(all);
    }
    case ParameterType::integer: {
      const auto least = static_cast<std::int64_t>(std::max(p.minimum, -9.0)), value = now.get<std::int64_t>();
      return value <= least
                 ? value
                 : least + static_cast<std::int64_t>(dice.below(static_cast<std::uint64_t>(value - least) + 1));
    }
    case ParameterType::real: return dice.below(2) == 0 && std::isfinite(p.minimum) ? Json(p.minimum) : now;
    case ParameterType::text: return p.name == "policies" ? Json(dice.some(policies)) : now;
    case ParameterType::path: break;
  }
  return now;
}

class RandomConfigurations : public ::testing::TestWithParam<Experiment> {};

TEST_P(RandomConfigurations, GiveAReportOrOneLine) {
  const Experiment& experiment = GetParam();
  const std::string golden = std::string(HALFULP_GOLDEN) + "/";
  const std::uint64_t trials = check::exhaustive() ? 30 : 3;
  std::uint64_t reports = 0;
  for (std::uint64_t trial = 0; trial < trials; ++trial) {
    Dice dice(trial);
    Config config(experiment.parameters());
    Json asked = Json::object();
    try {
      config.set(read_json(golden + std::string(experiment.name) + ".config.json"));
      const Json small = config.to_json();
      for (const Parameter& p : experiment.parameters()) {
        if (p.name == "data") config.set("data=" + golden + "images");
        if (p.type == ParameterType::path || p.name == "preset" || dice.below(3) != 0) continue;
        Json value = varied(p, small.at(p.name), dice);
        if (p.type == ParameterType::text && value.is_array()) {
          std::string list;
          for (const std::string& name : strings_of(value)) list += (list.empty() ? "" : ",") + name;
          value = list;
        }
        asked[p.name] = value;
      }
      config.set(asked);
      RunOptions options;
      options.threads = 2;
      const Json report = run_experiment(experiment, config, options).to_json();
      ++reports;
      for (const std::string& error : report_errors(report)) ADD_FAILURE() << asked << ": " << error;
      for (const Json& claim : report["claims"])
        EXPECT_NE(claim["verdict"], "fail")
            << asked << ": " << claim["id"] << ", expected " << claim["expected"] << ", measured " << claim["measured"];
    } catch (const std::invalid_argument& refusal) {
      const std::string line = refusal.what();
      EXPECT_FALSE(line.empty()) << asked;
      EXPECT_EQ(line.find('\n'), std::string::npos) << asked << ": " << line;
    }
  }
  EXPECT_GT(reports, 0u) << "every configuration was refused";
}

INSTANTIATE_TEST_SUITE_P(Experiments, RandomConfigurations,
                         ::testing::ValuesIn(experiments().begin(), experiments().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace random_configurations_test
