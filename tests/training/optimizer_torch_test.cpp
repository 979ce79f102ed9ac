// Optimizers against torch.optim on the same gradients: tests/golden/optimizers.json, made by
// tests/peers/torch_optimizers.py.
#include "check.hpp"
#include "peers.hpp"

#include <halfulp/training/checkpoint.hpp>
#include <halfulp/data/elementary.hpp>
#include <halfulp/training/optimizer.hpp>
#include <halfulp/support/json.hpp>

#include <halfulp_test_paths.hpp>

#include <bit>
#include <cmath>

namespace optimizer_torch_test {

using namespace halfulp;
using namespace halfulp::training;

std::vector<float> from_words(const Json& json) {
  const std::string text = json.get<std::string>();
  std::vector<float> values;
  for (std::size_t i = 0; i < text.size(); i += 8)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(text.substr(i, 8), nullptr, 16))));
  return values;
}

/// The largest difference of two tensors in codes. NaN equals NaN, and both zeros are equal: where lerp's weight is 1,
/// torch's vector code and the scalar code after it give zeros of different signs.
double distance(std::span<const float> a, std::span<const float> b) {
  const auto place = [](float x) {
    const auto word = std::bit_cast<std::int32_t>(x);
    return std::int64_t{word < 0 ? -(word & 0x7fff'ffff) : word};
  };
  double most = a.size() == b.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    most = std::isnan(a[i]) != std::isnan(b[i])
               ? HUGE_VAL
               : std::max(most, std::abs(static_cast<double>(place(a[i]) - place(b[i]))));
  }
  return most;
}

OptimizerSettings settings_of(const Json& c) {
  OptimizerSettings s;
  s.kind = parse_optimizer(c["kind"].get<std::string>());
  if (s.kind == OptimizerKind::adamw) s.weight_decay = 0.01;  // torch's default
  for (const auto& [name, value] : c["settings"].items()) {
    if (name == "lr") s.lr = value;
    else if (name == "momentum") s.momentum = value;
    else if (name == "nesterov") s.nesterov = value;
    else if (name == "weight_decay") s.weight_decay = value;
    else if (name == "eps") s.eps = value;
    else if (name == "betas") s.beta1 = value[0], s.beta2 = value[1];
    else ADD_FAILURE() << "a setting " << name;
  }
  return s;
}

struct Counts {
  std::size_t cases = 0, steps = 0, weights = 0;
  double mkl = 0;  ///< the largest distance where square roots are MKL's
};

void replay(const Json& c, Counts& counts) {
  const std::string format = c["format"],
                    what = c["kind"].get<std::string>() + " " + format + " " + c["settings"].dump();
  const std::vector<float> first = from_words(c["weights"]);
  TrainedParameter<float> p("w", ParameterKind::weight, {first.size()});
  std::copy(first.begin(), first.end(), p.value.values().begin());
  const FloatFormat f = parse_format(format);
  UpdatePrecision precision;
  if (format != "fp32") {
    precision.weights.format = precision.first.format = precision.second.format = f;
    precision.arithmetic = Stage{f};
  }
  Optimizer optimizer({&p}, settings_of(c), precision);
  EXPECT_EQ(distance(p.value.values(), first), 0) << what << ": rounded again";
  double worst = 0;
  for (const Json& step : c["steps"]) {
    optimizer.set_lr(step[0]);
    p.has_gradient = !step[1].is_null();
    if (p.has_gradient) {
      const std::vector<float> g = from_words(step[1]);
      std::copy(g.begin(), g.end(), p.gradient.values().begin());
    }
    optimizer.step();
    ++counts.steps;
    counts.weights += first.size();
    const double d = distance(p.value.values(), from_words(step[2]));
    if (c["sqrt"] == "ieee") { ASSERT_EQ(d, 0) << what << ", step " << optimizer.steps(); }
    worst = std::max(worst, d);
  }
  counts.mkl = std::max(counts.mkl, worst);
  ++counts.cases;
  Checkpoint kept;
  optimizer.save(kept);
  EXPECT_EQ(kept.arrays().size(), c.contains("first") + c.contains("second")) << what;
  for (const char* const name : {"first", "second"}) {
    if (!c.contains(name)) continue;
    std::vector<float> ours(first.size());
    kept.take(std::string("optimizer.w.") + name, std::span<float>(ours));
    EXPECT_EQ(distance(ours, from_words(c[name])), 0) << what << ": " << name;
  }
}

Counts replay(const std::string& path) {
  const Json document = read_json(path);
  Counts counts;
  for (const Json& c : document["cases"]) replay(c, counts);
  std::printf("torch %s: %zu cases, %zu steps, %zu weights; with MKL's square roots up to %g ulp\n",
              document["torch"].get<std::string>().c_str(), counts.cases, counts.steps, counts.weights, counts.mkl);
  return counts;
}

TEST(TorchOptimizers, CommittedSteps) {
  const Counts counts = replay(HALFULP_GOLDEN "/optimizers.json");
  EXPECT_EQ(counts.cases, 52u);
  EXPECT_GT(counts.weights, 10'000u);
  // Updates are off by an ulp or two of their own, which is many ulps of the weight where weight and update nearly
  // cancel.
  EXPECT_LE(counts.mkl, 64);
}

TEST(TorchOptimizers, PowersArePythons) {
  const Json golden = read_json(HALFULP_GOLDEN "/optimizers.json");
  for (const Json& power : golden["powers"])
    EXPECT_EQ(deterministic_power(power[0].get<double>(), power[1].get<std::uint64_t>()),
              std::strtod(power[2].get<std::string>().c_str(), nullptr))
        << power;
}

TEST(TorchOptimizers, Live) {
  if (!check::exhaustive()) GTEST_SKIP() << "asks torch in the exhaustive run alone";
  const auto peer = halfulp::tests::peer_python({"numpy", "torch"});
  if (!peer.trouble.empty()) GTEST_SKIP() << "no torch: " << peer.trouble;
  const std::string path = ::testing::TempDir() + "optimizers_live.json";
  const auto made = halfulp::tests::run_program(
      {peer.python, HALFULP_PEERS_SCRIPTS "/torch_optimizers.py", "--out", path, "--random", "400", "--seed", "1000"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_GT(replay(path).cases, 400u);
}

}  // namespace optimizer_torch_test
