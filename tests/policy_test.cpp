// Precision policies as data: the named ones, what they say of every operator, and every mistake refused in one line.
#include "check.hpp"

#include <halfulp/experiments/training/layers/cross_entropy.hpp>
#include <halfulp/experiments/training/networks.hpp>
#include <halfulp/experiments/training/operand_model.hpp>
#include <halfulp/experiments/training/policy.hpp>

#include <map>
#include <set>

#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace halfulp;
using namespace halfulp::training;

namespace {

Json json_of(const std::string& text) { return parse_json(text, "test"); }

/// The one line with which a policy is refused; "accepted" if it is not.
std::string refusal(const Json& json) {
  try {
    parse_policy(json, "mine.json");
    return "accepted";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}
std::string text_refusal(const std::string& text) { return refusal(json_of(text)); }
/// Of a policy with these members.
std::string refusal_of(const std::string& members) { return text_refusal(R"({"name": "mine", )" + members + "}"); }
/// Of a policy with one rule for linear.
std::string rule_refusal(const std::string& members) { return refusal_of(R"("rules": [{"operators": "linear", )" + members + "}]"); }
Policy policy_of(const std::string& members) { return parse_policy(json_of(R"({"name": "mine", )" + members + "}"), "mine.json"); }

FloatFormat plain(const Storage& s) { return s.plain() ? *s.plain() : throw std::logic_error(text_of(s)); }

/// Which sites a network has, by running it.
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
  for (const char* const name : {"fp32", "O0", "O1", "O2", "O3", "amp-fp16", "amp-bf16", "mixed_float16", "mixed_bfloat16", "pure-fp16", "pure-bf16", "bf16-sr",
                                 "bf16-kahan", "strict-fp16", "strict-bf16", "fp8-hybrid", "fp8-deepseek", "mxfp8", "mxfp4", "nvfp4"})
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
          const ProductModel model = operand_model(p.accumulate[static_cast<std::size_t>(which)], p.operand(roles.a), p.operand(roles.b), policy.name);
          EXPECT_EQ(product_refusal(model), "");
          EXPECT_TRUE(holds(fp32, format_of_result(model))) << policy.name << ' ' << name_of(kind);
        }
      }
  }
}

/// What papers and programs say of them, value by value.
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
  for (const char* const without : {"fp32", "O0", "O3", "amp-bf16", "mixed_bfloat16", "pure-fp16", "pure-bf16", "fp8-hybrid", "mxfp8"})
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
  EXPECT_EQ(plain(find_policy("fp8-hybrid").at(Kind::attention_scores, "block1.attention").operand(Role::activation)), bf16);
  const OperatorPrecision deepseek = find_policy("fp8-deepseek").at(Kind::linear, "fc1");
  EXPECT_EQ(text_of(deepseek.operand(Role::weight)), "fp8-128x128");
  EXPECT_EQ(text_of(deepseek.operand(Role::activation)), "fp8-1x128");
  EXPECT_EQ(deepseek.accumulate[1], "hopper.wgmma.e4m3.fp32");
  EXPECT_TRUE(deepseek.result(Role::gradient_of_weight).keeps_floats());
  EXPECT_EQ(plain(find_policy("fp8-deepseek").update.first), bf16);
  EXPECT_EQ(find_policy("nvfp4").at(Kind::linear, "fc1").operand(Role::gradient_of_activation).rounding.mode, RoundingMode::stochastic);
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
      EXPECT_TRUE(same(again.at(static_cast<OperatorKind>(kind), "fc1"), policy.at(static_cast<OperatorKind>(kind), "fc1"))) << policy.name;
  }
  for (const char* const text : {R"("bf16")", R"({"format": "bf16", "rounding": "stochastic", "random_bits": 8})", R"({"format": "e4m3", "overflow": "saturate", "flush_outputs": true})",
                                 R"("mxfp4")", R"({"format": "e4m3-tensor", "delayed": {"length": 3, "choice": "most_recent", "margin": -2}})"}) {
    const Storage s = parse_storage(json_of(text), "s");
    EXPECT_EQ(parse_storage(to_json(s), "s"), s) << text;
  }
  EXPECT_EQ(to_json(parse_storage("bf16", "s")), Json("bf16"));
}

/// The members that an experiment varies show in the identity, titles do not.
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
  // Of another kind of scaling nothing stays.
  const Policy fixed = policy_of(R"("base": "amp-fp16", "loss_scaling": {"kind": "static", "scale": 128})");
  EXPECT_FALSE(fixed.loss_scaling->dynamic);
  EXPECT_EQ(fixed.loss_scaling->initial_scale, 128);
  EXPECT_EQ(policy_of(R"("base": "fp32", "rules": [{"operators": "all", "results": "bf16"}])").rules.size(), 1u);
  const Policy whole = parse_policy(fixed.json, "again");
  EXPECT_EQ(whole.identity(), fixed.identity());
}

TEST(Policies, RefuseInOneLine) {
  const auto begins = [](const std::string& got, const std::string& want) {
    EXPECT_TRUE(got.starts_with(want)) << got << "\nwanted: " << want;
    EXPECT_EQ(got.find('\n'), std::string::npos) << got;
  };
  begins(text_refusal("[]"), "mine.json is []; accepted: an object with name, rules");
  begins(text_refusal("7"), "mine.json is 7; accepted: an object");
  begins(text_refusal("{}"), "mine.json: name is missing");
  begins(text_refusal(R"({"name": 7})"), "mine.json.name is 7; accepted: text in quotes");
  for (const char* const name : {"", "../x", "a/b", ".hidden", "a b", "a\\nb", "\\u00e4"}) begins(text_refusal(R"({"name": ")" + std::string(name) + R"("})"), "mine.json.name is ");
  begins(refusal_of(R"("titel": "x")"), "mine.json: unknown member 'titel'; did you mean title? accepted: ");
  begins(refusal_of(R"("title": ["x"])"), "mine.json.title is [\"x\"]; accepted: text in quotes");
  begins(refusal_of(R"("base": "amp-fp17")"), "mine.json.base: unknown policy 'amp-fp17'; did you mean amp-fp16? accepted: fp32, O0");
  begins(refusal_of(R"("base": "mine")"), "mine.json.base: unknown policy 'mine'");
  begins(refusal_of(R"("base": 1)"), "mine.json.base is 1; accepted: text");
  begins(refusal_of(R"("rules": {})"), "mine.json.rules is {}; accepted: a list of objects");
  begins(refusal_of(R"("base": "pure-bf16", "rules": "x")"), "mine.json.rules is \"x\"; accepted: a list");
  begins(refusal_of(R"("rules": [1])"), "mine.json.rules[0] is 1; accepted: an object");
  begins(refusal_of(R"("rules": [{}])"), "mine.json.rules[0]: operators is missing");
  begins(refusal_of(R"("rules": [{"operators": "lineer"}])"), "mine.json.rules[0].operators: unknown operator 'lineer'; did you mean linear? accepted: linear, conv2d");
  begins(refusal_of(R"("rules": [{"operators": []}])"), "mine.json.rules[0].operators is []; accepted: a name or a list");
  begins(refusal_of(R"("rules": [{"operators": ["linear", 3]}])"), "mine.json.rules[0].operators holds 3; accepted: names");
  begins(rule_refusal(R"("layers": {"a": 1})"), "mine.json.rules[0].layers is {\"a\":1}; accepted");
  begins(rule_refusal(R"("layers": "a*b*")"), "mine.json.rules[0].layers: 'a*b*' has more than one '*'");
  begins(rule_refusal(R"("operand": "fp16")"), "mine.json.rules[0]: unknown member 'operand'; did you mean operands?");
  begins(rule_refusal(R"("operands": "fp17")"), "mine.json.rules[0].operands: unknown format 'fp17'");
  begins(rule_refusal(R"("operands": ["fp16"])"), "mine.json.rules[0].operands is [\"fp16\"]; accepted: a format's name, or an object");
  begins(rule_refusal(R"("operands": {"wieght": "fp16"})"), "mine.json.rules[0].operands: unknown role 'wieght'; did you mean weight?");
  begins(rule_refusal(R"("operands": {"communication": "fp16"})"), "mine.json.rules[0].operands: 'communication' is not among these; ");
  begins(rule_refusal(R"("operands": {"weight": {"format": "fp16", "rounding": "up"}})"), "mine.json.rules[0].operands.weight: unknown rounding 'up'");
  begins(rule_refusal(R"("operands": {"weight": {"format": "fp16", "random_bits": 1e300}})"), "mine.json.rules[0].operands.weight.random_bits is ");
  begins(rule_refusal(R"("operands": {"weight": {"format": "fp16", "random_bits": 18446744073709551615}})"), "mine.json.rules[0].operands.weight.random_bits is 18446744073709551615; accepted: an integer");
  begins(rule_refusal(R"("operands": {"format": 16})"), "mine.json.rules[0].operands.format is 16; accepted: text");
  for (const char* const format : {"fp64", "e8m0"}) begins(rule_refusal(R"("operands": ")" + std::string(format) + '"'), "mine.json.rules[0].operands: ");
  begins(rule_refusal(R"("results": "mxfp8e4m3")"), "mine.json.rules[0].results: activation in mxfp8");
  begins(rule_refusal(R"("results": {"gradient-of-weight": "nvfp4"})"), "mine.json.rules[0].results: gradient-of-weight in nvfp4");
  EXPECT_EQ(rule_refusal(R"("results": {"communication": "nvfp4"})"), "accepted");
  begins(rule_refusal(R"("accumulate": 32)"), "mine.json.rules[0].accumulate is 32; accepted: a product model in quotes");
  begins(rule_refusal(R"("accumulate": {"backward": "fp32"})"), "mine.json.rules[0].accumulate: unknown product 'backward'; accepted: forward, to-input, to-weight");
  begins(rule_refusal(R"("accumulate": "acc=fp17")"), "mine.json: linear, product forward: ");
  begins(rule_refusal(R"("accumulate": {"to-weight": "in=fp16"})"), "mine.json: linear, product to-weight: ");
  begins(rule_refusal(R"("accumulate": "acc=fp64")"), "mine.json: linear, product forward: ");
  EXPECT_EQ(rule_refusal(R"("accumulate": "acc=fp64,out=fp32")"), "accepted");
  begins(rule_refusal(R"("accumulate": "hopper.wgmma.e4m3.fp32")"), "mine.json: linear, product forward: hopper.wgmma.e4m3.fp32 takes e4m3 and e4m3, operands are fp32 and fp32");
  begins(rule_refusal(R"("accumulate": "hopper.wgmma.e4m4.fp32")"), "mine.json: linear, product forward: ");
  begins(refusal_of(R"("rules": [{"operators": "linear", "layers": "fc9.*", "accumulate": "hopper.wgmma.e4m3.fp32"}])"), "mine.json: linear, product forward: ");
  begins(rule_refusal(R"("inside": "mxfp4")"), "mine.json.rules[0].inside: only a format's name");
  begins(rule_refusal(R"("inside": {"format": "fp16", "rounding": "stochastic"})"), "mine.json.rules[0].inside: only a format's name");
  const std::string delayed = R"({"format": "e4m3-tensor", "delayed": {}})";
  EXPECT_EQ(rule_refusal(R"("operands": )" + delayed), "accepted");
  begins(rule_refusal(R"("operands": {"format": "mxfp8e4m3", "delayed": {}})"), "mine.json.rules[0].operands.delayed: delayed scaling is for block formats with one scale a tensor");
  begins(rule_refusal(R"("operands": {"format": "fp16", "delayed": {}})"), "mine.json.rules[0].operands.delayed: ");
  begins(rule_refusal(R"("operands": {"format": "e4m3-tensor", "delayed": {"length": 0}})"), "mine.json.rules[0].operands.delayed.length is 0; accepted: an integer from 1");
  begins(rule_refusal(R"("operands": {"format": "e4m3-tensor", "delayed": {"length": 1.5}})"), "mine.json.rules[0].operands.delayed.length is 1.5; accepted: an integer");
  begins(rule_refusal(R"("operands": {"format": "e4m3-tensor", "delayed": {"choice": "mean"}})"), "mine.json.rules[0].operands.delayed: unknown choice 'mean'");
  begins(rule_refusal(R"("operands": {"format": "e4m3-tensor", "delayed": true})"), "mine.json.rules[0].operands.delayed is true; accepted: an object");
  for (const char* const kind : {"attention-scores", "attention-values", "lstm-cell"})
    begins(refusal_of(R"("rules": [{"operators": ")" + std::string(kind) + R"(", "operands": )" + delayed + "}]"), "mine.json: " + std::string(kind) + ": delayed scaling is for linear and conv2d");
  begins(refusal_of(R"("weights": "fp16")"), "mine.json.weights is \"fp16\"; accepted: an object");
  begins(refusal_of(R"("weights": {"master": "yes"})"), "mine.json.weights.master is \"yes\"; accepted: true or false");
  begins(refusal_of(R"("weights": {"storage": )" + delayed + "}"), "mine.json.weights.storage: delayed scaling is for operands");
  begins(refusal_of(R"("weights": {"storage": "bf16", "kahan": true, "master": true})"), "mine.json.weights: Kahan summation and fp32 master weights exclude");
  begins(refusal_of(R"("optimizer": {"state": )" + delayed + "}"), "mine.json.optimizer: delayed scaling is for operands");
  begins(refusal_of(R"("optimizer": {"arithmetic": "mxfp8e4m3"})"), "mine.json.optimizer.arithmetic: a block format has no arithmetic");
  begins(refusal_of(R"("optimizer": {"third": "fp16"})"), "mine.json.optimizer: unknown member 'third'");
  begins(refusal_of(R"("loss_scaling": true)"), "mine.json.loss_scaling is true; accepted: null, or an object");
  begins(refusal_of(R"("loss_scaling": {})"), "mine.json.loss_scaling: kind is missing");
  begins(refusal_of(R"("loss_scaling": {"kind": "Dynamic"})"), "mine.json.loss_scaling: unknown kind 'Dynamic'");
  begins(refusal_of(R"("loss_scaling": {"kind": "static", "interval": 3})"), "mine.json.loss_scaling: unknown member 'interval'");
  begins(refusal_of(R"("loss_scaling": {"kind": "dynamic", "growth": 0.5})"), "mine.json.loss_scaling: ");
  begins(refusal_of(R"("loss_scaling": {"kind": "dynamic", "scale": 1e300})"), "mine.json.loss_scaling: ");
  begins(refusal_of(R"("loss_scaling": {"kind": "dynamic", "interval": 0})"), "mine.json.loss_scaling.interval is 0; accepted: an integer from 1");
  begins(refusal_of(R"("loss_scaling": {"kind": "static", "scale": "big"})"), "mine.json.loss_scaling.scale is \"big\"; accepted: a number");
}

TEST(Policies, AreFoundByNameAndByFile) {
  EXPECT_EQ(find_policy("mxfp8").name, "mxfp8");
  const auto refused = [](const std::string& name) -> std::string {
    try {
      find_policy(name);
      return "accepted";
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  EXPECT_TRUE(refused("amp-fp61").starts_with("unknown policy 'amp-fp61'; did you mean amp-fp16? accepted: fp32")) << refused("amp-fp61");
  EXPECT_TRUE(refused("").ends_with("; or a file that ends in .json")) << refused("");
  EXPECT_TRUE(refused("/no/such/policy.json").starts_with("cannot read /no/such/policy.json: ")) << refused("/no/such/policy.json");
  const std::string path = ::testing::TempDir() + "halfulp-policy-" + std::to_string(::getpid()) + ".json";
  const auto write = [&](const std::string& text) { std::ofstream(path, std::ios::binary) << text; };
  write(find_policy("fp8-hybrid").json.dump(2));
  EXPECT_EQ(find_policy(path).identity(), find_policy("fp8-hybrid").identity());
  write("{\"name\": ");
  EXPECT_TRUE(refused(path).starts_with(path + ": not JSON at line 1")) << refused(path);
  write(std::string(100000, '['));
  EXPECT_EQ(refused(path), path + ": nested deeper than 64 levels");
  write(R"({"name": "a", "name": "b"})");
  EXPECT_NE(refused(path).find("is there twice"), std::string::npos);
  write(std::string("{\"name\": \"a\xff\"}"));
  EXPECT_TRUE(refused(path).starts_with(path + ": not JSON")) << refused(path);
  write(R"({"name": "a", "loss_scaling": {"kind": "static", "scale": 1e999}})");
  EXPECT_TRUE(refused(path).starts_with(path + ": a number")) << refused(path);
  std::filesystem::remove(path);
}

/// All places of a JSON value, itself first.
void places(Json& json, std::vector<Json*>& all) {
  all.push_back(&json);
  if (json.is_structured())
    for (Json& inside : json) places(inside, all);
}

/// Named policies with one to three places changed: read, or refused in one line.
TEST(Policies, MutationsAreReadOrRefusedInOneLine) {
  check::Random random{7};
  Json all = Json::array();
  for (const Policy& policy : policies()) {
    all.push_back(policy.json);
    all.push_back({{"name", "mine"}, {"base", policy.name}, {"rules", {{{"operators", {"linear"}}, {"operands", {{"weight", "e4m3"}}}}}}, {"weights", {{"kahan", true}}}});
  }
  const std::vector<Json> values{nullptr, true, 0, -1, 1.5, 1e300, 18446744073709551615u, -9223372036854775807 - 1, "", "fp16", "e4m3-tensor", "mxfp4", "int8-32", "all", "linear",
                                 "acc=fp64", "hopper.wgmma.e4m3.fp32", "e4m3", std::string(300, 'x'), "a\nb", Json::array(), Json::object(), Json::array({"linear", 1}), Json{{"format", "fp8-1x128"}},
                                 Json{{"format", "e4m3-tensor"}, {"delayed", Json::object()}}, Json{{"weight", "mxfp8e4m3"}}, Json{{"operators", "all"}}, "0x10", "in=fp16,acc=fp16,order=blocked:0"};
  int accepted = 0, refused = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    Json policy = all[random() % all.size()];
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      std::vector<Json*> where;
      places(policy, where);
      Json& at = *where[random() % where.size()];
      if (at.is_object() && random() % 2) at[role_names[random() % role_names.size()]] = values[random() % values.size()];
      else if (at.is_structured() && !at.empty() && random() % 2) at.erase(at.begin());
      else if (at.is_string() && random() % 2) at = at.get<std::string>() + "x";
      else at = values[random() % values.size()];
    }
    const std::string why = refusal(policy);
    (why == "accepted" ? accepted : refused)++;
    EXPECT_EQ(why.find('\n'), std::string::npos) << why;
    if (why != "accepted") { EXPECT_TRUE(why.starts_with("mine.json")) << why; }
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 500);
}

}  // namespace
