// Precision policies as data: the named ones, what they say about every operator, patterns of layers, bases.
#include "check.hpp"

#include <halfulp/training/layers/losses.hpp>
#include <halfulp/training/networks.hpp>
#include <halfulp/training/operand.hpp>
#include <halfulp/training/policy.hpp>

#include <set>

namespace policy_test {

using namespace halfulp;
using namespace halfulp::training;

Json json_of(const std::string& text) { return parse_json(text, "test"); }

Policy policy_of(const std::string& members) {
  return parse_policy(json_of(R"({"name": "mine", )" + members + "}"), "mine.json");
}

FloatFormat plain(const Storage& s) { return s.plain() ? *s.plain() : throw std::logic_error(text_of(s)); }

/// The sites of a network, found by running it.
class Recorder : public Numerics<float> {
 public:
  using Numerics<float>::product;
  void product(const Site& site, Product, const Operands& x, std::span<const float> bias, std::span<float> d) override {
    note(site);
    fp32_.product(site, Product::forward, x, bias, d);
  }
  void cast(const Site& site, Role, std::span<float>) override { note(site); }
  std::set<std::pair<OperatorKind, std::string>> sites;

 private:
  void note(const Site& site) { sites.emplace(site.kind, std::string(site.name)); }
  Fp32Numerics fp32_;
};

std::set<std::pair<OperatorKind, std::string>> sites_of(std::string_view network) {
  NetworkOptions small;
  small.width = 8, small.depth = 1, small.heads = 2, small.dropout = 0.25;
  const bool text = network == "transformer" || network == "lstm";
  if (text) small.inputs = 7;
  const auto net = make_network<float>(network, small);
  Recorder recorder;
  Pass<float> pass{recorder, true, 1, 0};
  CrossEntropy<float> loss("loss");
  Tensor<float> x(text ? Extents{2, 3} : Extents{2, 784});
  const Tensor<float>& logits = net->forward(pass, x);
  const std::vector<int> labels(logits.rows(), 1);
  loss.forward(pass, logits, labels);
  net->backward(pass, loss.backward(pass, 1.0f));
  return recorder.sites;
}

TEST(Policies, AreAllThere) {
  std::set<std::string> names;
  for (const Policy& policy : policies()) {
    EXPECT_TRUE(names.insert(policy.name).second) << policy.name;
    EXPECT_FALSE(policy.title.empty() || policy.source.empty()) << policy.name;
  }
  for (const char* const name : {"fp32",
                                 "O0",
                                 "O1",
                                 "O2",
                                 "O3",
                                 "amp-fp16",
                                 "amp-bf16",
                                 "mixed_float16",
                                 "mixed_bfloat16",
                                 "pure-fp16",
                                 "pure-bf16",
                                 "bf16-sr",
                                 "bf16-kahan",
                                 "strict-fp16",
                                 "strict-bf16",
                                 "fp8-hybrid",
                                 "fp8-deepseek",
                                 "mxfp8",
                                 "mxfp4",
                                 "nvfp4"})
    EXPECT_EQ(names.count(name), 1u) << name;
  EXPECT_EQ(policies().front().name, "fp32");
}

TEST(Policies, ResolveForEveryOperatorOfEveryNetwork) {
  for (const NetworkInfo& info : networks()) {
    const auto sites = sites_of(info.name);
    EXPECT_GT(sites.size(), 4u);
    for (const Policy& policy : policies())
      for (const auto& [kind, name] : sites) {
        const OperatorPrecision p = policy.at(kind, name);
        if (!multiplies(kind)) continue;
        for (const Product which : {Product::forward, Product::to_input, Product::to_weight}) {
          const ProductRoles roles = roles_of(kind, which);
          const ProductModel model = operand_model(p.accumulate[static_cast<std::size_t>(which)], p.operand(roles.a),
                                                   p.operand(roles.b), policy.name);
          EXPECT_EQ(product_refusal(model), "");
          EXPECT_TRUE(holds(fp32, format_of_result(model))) << policy.name << ' ' << name_of(kind);
        }
      }
  }
}

/// The values that papers and programs give for them.
TEST(Policies, SayWhatTheirSourcesSay) {
  const FloatFormat fp16 = parse_format("fp16"), bf16 = parse_format("bf16");
  using Kind = OperatorKind;
  for (const auto& [name, narrow] : {std::pair{"amp-fp16", fp16}, {"amp-bf16", bf16}, {"O1", fp16}}) {
    const Policy p = find_policy(name);
    const OperatorPrecision linear = p.at(Kind::linear, "fc1"), norm = p.at(Kind::layer_norm, "norm");
    for (const Storage& s : linear.operands) EXPECT_EQ(plain(s), narrow) << name;
    EXPECT_EQ(plain(linear.result(Role::activation)), narrow);
    EXPECT_EQ(plain(linear.result(Role::gradient_of_weight)), narrow);
    EXPECT_TRUE(linear.result(Role::communication).keeps_floats());
    EXPECT_TRUE(norm.result(Role::activation).keeps_floats()) << "autocast computes layer_norm in float32";
    EXPECT_TRUE(p.at(Kind::cross_entropy, "loss").result(Role::activation).keeps_floats());
    EXPECT_EQ(plain(p.at(Kind::cross_entropy, "loss").result(Role::gradient_of_activation)), narrow);
    EXPECT_EQ(p.update, UpdatePrecision{}) << name;
  }
  const LossScalerSettings scaler = *find_policy("amp-fp16").loss_scaling;
  EXPECT_EQ(scaler.initial_scale, 65536);
  EXPECT_EQ(scaler.growth_interval, 2000);
  EXPECT_TRUE(scaler.dynamic && scaler.skip);
  EXPECT_EQ(find_policy("mixed_float16").loss_scaling->initial_scale, 32768);
  for (const char* const without :
       {"fp32", "O0", "O3", "amp-bf16", "mixed_bfloat16", "pure-fp16", "pure-bf16", "fp8-hybrid", "mxfp8"})
    EXPECT_FALSE(find_policy(without).loss_scaling) << without;
  EXPECT_TRUE(find_policy("O2").update.master_weights);
  EXPECT_EQ(plain(find_policy("O2").update.weights), fp16);
  EXPECT_EQ(plain(find_policy("O2").update.first), fp32);
  EXPECT_FALSE(find_policy("O3").update.master_weights);
  EXPECT_EQ(plain(find_policy("O3").update.weights), fp16);
  EXPECT_EQ(plain(find_policy("O3").update.second), fp16);
  EXPECT_EQ(find_policy("bf16-sr").update.weights.rounding.mode, RoundingMode::stochastic);
  EXPECT_EQ(plain(find_policy("bf16-sr").update.first), bf16);
  EXPECT_TRUE(find_policy("bf16-kahan").update.kahan);
  const OperatorPrecision hybrid = find_policy("fp8-hybrid").at(Kind::conv2d, "conv1");
  EXPECT_EQ(text_of(hybrid.operand(Role::weight)), "e4m3/tensor/fp32/amax/multiplier delayed");
  EXPECT_EQ(text_of(hybrid.operand(Role::gradient_of_activation)), "e5m2/tensor/fp32/amax/multiplier delayed");
  EXPECT_EQ(hybrid.operand(Role::activation).delayed->length, 1024u);
  EXPECT_EQ(plain(find_policy("fp8-hybrid").at(Kind::attention_scores, "block1.attention").operand(Role::activation)),
            bf16);
  const OperatorPrecision deepseek = find_policy("fp8-deepseek").at(Kind::linear, "fc1");
  EXPECT_EQ(text_of(deepseek.operand(Role::weight)), "fp8-128x128");
  EXPECT_EQ(text_of(deepseek.operand(Role::activation)), "fp8-1x128");
  EXPECT_EQ(deepseek.accumulate[1], "hopper.wgmma.e4m3.fp32");
  EXPECT_TRUE(deepseek.result(Role::gradient_of_weight).keeps_floats());
  EXPECT_EQ(plain(find_policy("fp8-deepseek").update.first), bf16);
  EXPECT_EQ(find_policy("nvfp4").at(Kind::linear, "fc1").operand(Role::gradient_of_activation).rounding.mode,
            RoundingMode::stochastic);
  EXPECT_EQ(find_policy("strict-fp16").at(Kind::softmax, "x").inside, fp16);
  EXPECT_FALSE(find_policy("pure-fp16").at(Kind::softmax, "x").inside);
}

bool same(const OperatorPrecision& a, const OperatorPrecision& b) {
  return a.operands == b.operands && a.results == b.results && a.accumulate == b.accumulate && a.inside == b.inside;
}

TEST(Policies, ReadBackAsTheyWere) {
  for (const Policy& policy : policies()) {
    const Policy again = parse_policy(parse_json(policy.json.dump(), "again"), "again");
    EXPECT_EQ(again.json, policy.json);
    EXPECT_EQ(again.identity(), policy.identity());
    EXPECT_EQ(again.update, policy.update);
    EXPECT_EQ(again.title, policy.title);
    ASSERT_EQ(again.loss_scaling.has_value(), policy.loss_scaling.has_value());
    for (std::size_t kind = 0; kind < operator_names.size(); ++kind)
      EXPECT_TRUE(
          same(again.at(static_cast<OperatorKind>(kind), "fc1"), policy.at(static_cast<OperatorKind>(kind), "fc1")))
          << policy.name;
  }
  for (const char* const text :
       {R"("bf16")", R"({"format": "bf16", "rounding": "stochastic", "random_bits": 8})",
        R"({"format": "e4m3", "overflow": "saturate", "flush_outputs": true})", R"("mxfp4")",
        R"({"format": "e4m3-tensor", "delayed": {"length": 3, "choice": "most_recent", "margin": -2}})"}) {
    const Storage s = parse_storage(json_of(text), "s");
    EXPECT_EQ(parse_storage(to_json(s), "s"), s) << text;
  }
  EXPECT_EQ(to_json(parse_storage("bf16", "s")), Json("bf16"));
}

/// The identity shows the members that an experiment varies, but not titles.
TEST(Policies, IdentityIsWhatATrainingDependsOn) {
  const Policy original = find_policy("amp-fp16");
  std::set<std::string> seen{original.identity().dump()};
  const auto differs = [&](auto&& change) {
    Policy p = original;
    change(p);
    return seen.insert(p.identity().dump()).second;
  };
  EXPECT_FALSE(differs([](Policy& p) { p.title = "other"; }));
  EXPECT_TRUE(differs([](Policy& p) { p.loss_scaling->initial_scale = 1; }));
  EXPECT_TRUE(differs([](Policy& p) { p.loss_scaling->growth_interval = 1; }));
  EXPECT_TRUE(differs([](Policy& p) { p.loss_scaling->skip = false; }));
  EXPECT_TRUE(differs([](Policy& p) { p.loss_scaling.reset(); }));
  EXPECT_TRUE(differs([](Policy& p) { p.update.second.format = parse_format("bf16"); }));
  EXPECT_TRUE(differs([](Policy& p) { p.update.kahan = true; }));
  EXPECT_TRUE(differs([](Policy& p) { p.update.master_weights = true; }));
  EXPECT_TRUE(differs([](Policy& p) { p.update.rounded_constants = true; }));
  EXPECT_TRUE(differs([](Policy& p) { p.update.arithmetic = Stage{parse_format("bf16"), {}}; }));
  EXPECT_TRUE(differs([](Policy& p) { p.rules.pop_back(); }));
  EXPECT_TRUE(differs([](Policy& p) { p.rules[0].layers = {"fc1"}; }));
}

TEST(Policies, LayersArePatterns) {
  const Policy p = policy_of(R"("rules": [
    {"operators": "linear", "operands": "bf16"},
    {"operators": ["linear", "gelu"], "layers": ["fc1", "block2.*"], "operands": "fp16"},
    {"operators": "linear", "layers": "*.qkv", "operands": {"weight": "e4m3"}},
    {"operators": "linear", "layers": "a*c", "operands": {"activation": "tf32"}}])");
  const auto operands = [&](std::string_view layer, OperatorKind kind = OperatorKind::linear) {
    const OperatorPrecision at = p.at(kind, layer);
    return text_of(at.operand(Role::weight)) + " " + text_of(at.operand(Role::activation));
  };
  EXPECT_EQ(operands("fc"), "bf16 bf16");
  EXPECT_EQ(operands("fc1"), "fp16 fp16");
  EXPECT_EQ(operands("fc1.weight"), "fp16 fp16");
  EXPECT_EQ(operands("fc12"), "bf16 bf16");
  EXPECT_EQ(operands("xfc1"), "bf16 bf16");
  EXPECT_EQ(operands("block2.fc1"), "fp16 fp16");
  EXPECT_EQ(operands("block2"), "bf16 bf16");
  EXPECT_EQ(operands("block2.attention.qkv"), "e4m3 fp16");
  EXPECT_EQ(operands("block1.attention.qkv"), "e4m3 bf16");
  EXPECT_EQ(operands("ac"), "bf16 tf32");
  EXPECT_EQ(operands("abc"), "bf16 tf32");
  EXPECT_EQ(operands("a"), "bf16 bf16");
  EXPECT_EQ(operands("block2.fc1", OperatorKind::gelu), "fp16 fp16");
  EXPECT_EQ(operands("fc", OperatorKind::gelu), "fp32 fp32");
}

TEST(Policies, HaveTheirBasesMembers) {
  const Policy kahan = policy_of(R"("base": "pure-bf16", "weights": {"kahan": true}, "optimizer": {"second": "fp32"},
    "rules": [{"operators": "linear", "layers": "fc1", "results": {"activation": "fp32"}}])");
  EXPECT_EQ(kahan.name, "mine");
  EXPECT_TRUE(kahan.update.kahan);
  EXPECT_EQ(text_of(kahan.update.weights), "bf16");
  EXPECT_EQ(text_of(kahan.update.first) + text_of(kahan.update.second), "bf16fp32");
  EXPECT_TRUE(kahan.update.arithmetic);
  EXPECT_EQ(text_of(kahan.at(OperatorKind::linear, "fc1").result(Role::activation)), "fp32");
  EXPECT_EQ(text_of(kahan.at(OperatorKind::linear, "fc1").result(Role::gradient_of_weight)), "bf16");
  EXPECT_EQ(text_of(kahan.at(OperatorKind::linear, "fc2").result(Role::activation)), "bf16");
  EXPECT_FALSE(kahan.json.contains("base"));
  const Policy later = policy_of(R"("base": "amp-fp16", "loss_scaling": {"interval": 10})");
  EXPECT_EQ(later.loss_scaling->growth_interval, 10);
  EXPECT_EQ(later.loss_scaling->initial_scale, 65536);
  EXPECT_FALSE(policy_of(R"("base": "amp-fp16", "loss_scaling": null)").loss_scaling);
  // Another kind of scaling keeps nothing.
  const Policy fixed = policy_of(R"("base": "amp-fp16", "loss_scaling": {"kind": "static", "scale": 128})");
  EXPECT_FALSE(fixed.loss_scaling->dynamic);
  EXPECT_EQ(fixed.loss_scaling->initial_scale, 128);
  EXPECT_EQ(policy_of(R"("base": "fp32", "rules": [{"operators": "all", "results": "bf16"}])").rules.size(), 1u);
  const Policy whole = parse_policy(fixed.json, "again");
  EXPECT_EQ(whole.identity(), fixed.identity());
}

}  // namespace policy_test
