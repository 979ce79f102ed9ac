// Wrong policies: each mistake gives one line that names its place and what is accepted. So does every mutation.
#include "check.hpp"

#include <halfulp/training/policy.hpp>

#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace policy_refusals_test {

using namespace halfulp;
using namespace halfulp::training;

Json json_of(const std::string& text) { return parse_json(text, "test"); }

/// The line that refuses a policy; "accepted" if none does.
std::string refusal(const Json& json) {
  try {
    parse_policy(json, "mine.json");
    return "accepted";
  } catch (const std::invalid_argument& error) { return error.what(); }
}
std::string text_refusal(const std::string& text) { return refusal(json_of(text)); }
/// The line for a policy with these members.
std::string refusal_of(const std::string& members) { return text_refusal(R"({"name": "mine", )" + members + "}"); }
/// The line for a policy with one rule for linear.
std::string rule_refusal(const std::string& members) {
  return refusal_of(R"("rules": [{"operators": "linear", )" + members + "}]");
}

TEST(Policies, RefuseInOneLine) {
  const auto begins = [](const std::string& got, const std::string& want) {
    EXPECT_TRUE(got.starts_with(want)) << got << "\nwanted: " << want;
    EXPECT_EQ(got.find('\n'), std::string::npos) << got;
  };
  begins(text_refusal("[]"), "mine.json is []; accepted: an object with name, base, rules");
  begins(text_refusal("7"), "mine.json is 7; accepted: an object");
  begins(text_refusal("{}"), "mine.json: name is missing");
  begins(text_refusal(R"({"name": 7})"), "mine.json.name is 7; accepted: text in quotes");
  for (const char* const name : {"", "../x", "a/b", ".hidden", "a b", "a\\nb", "\\u00e4"})
    begins(text_refusal(R"({"name": ")" + std::string(name) + R"("})"), "mine.json.name is ");
  begins(refusal_of(R"("titel": "x")"), "mine.json: unknown member 'titel'; did you mean title? accepted: ");
  begins(refusal_of(R"("bse": "fp32")"), "mine.json: unknown member 'bse'; did you mean base? accepted: base, ");
  begins(refusal_of(R"("title": ["x"])"), "mine.json.title is [\"x\"]; accepted: text in quotes");
  begins(refusal_of(R"("base": "amp-fp17")"),
         "mine.json.base: unknown policy 'amp-fp17'; did you mean amp-fp16? accepted: fp32, O0");
  begins(refusal_of(R"("base": "mine")"), "mine.json.base: unknown policy 'mine'");
  begins(refusal_of(R"("base": 1)"), "mine.json.base is 1; accepted: text");
  begins(refusal_of(R"("rules": {})"), "mine.json.rules is {}; accepted: a list of objects");
  begins(refusal_of(R"("base": "pure-bf16", "rules": "x")"), "mine.json.rules is \"x\"; accepted: a list");
  begins(refusal_of(R"("rules": [1])"), "mine.json.rules[0] is 1; accepted: an object");
  begins(refusal_of(R"("rules": [{}])"), "mine.json.rules[0]: operators is missing");
  begins(refusal_of(R"("rules": [{"operators": "lineer"}])"),
         "mine.json.rules[0].operators: unknown operator 'lineer'; did you mean linear? accepted: linear, conv2d");
  begins(refusal_of(R"("rules": [{"operators": []}])"),
         "mine.json.rules[0].operators is []; accepted: a name or a list");
  begins(refusal_of(R"("rules": [{"operators": ["linear", 3]}])"),
         "mine.json.rules[0].operators holds 3; accepted: names");
  begins(rule_refusal(R"("layers": {"a": 1})"), "mine.json.rules[0].layers is {\"a\":1}; accepted");
  begins(rule_refusal(R"("layers": "a*b*")"), "mine.json.rules[0].layers: 'a*b*' has more than one '*'");
  begins(rule_refusal(R"("operand": "fp16")"), "mine.json.rules[0]: unknown member 'operand'; did you mean operands?");
  begins(rule_refusal(R"("operands": "fp17")"), "mine.json.rules[0].operands: unknown format 'fp17'");
  begins(rule_refusal(R"("operands": ["fp16"])"),
         "mine.json.rules[0].operands is [\"fp16\"]; accepted: a format's name, or an object");
  begins(rule_refusal(R"("operands": {"wieght": "fp16"})"),
         "mine.json.rules[0].operands: unknown role 'wieght'; did you mean weight?");
  begins(rule_refusal(R"("operands": {"communication": "fp16"})"),
         "mine.json.rules[0].operands: unknown role 'communication'; ");
  begins(rule_refusal(R"("operands": {"weight": {"format": "fp16", "rounding": "up"}})"),
         "mine.json.rules[0].operands.weight: unknown rounding 'up'");
  begins(rule_refusal(R"("operands": {"weight": {"format": "fp16", "random_bits": 1e300}})"),
         "mine.json.rules[0].operands.weight.random_bits is ");
  begins(rule_refusal(R"("operands": {"weight": {"format": "fp16", "random_bits": 18446744073709551615}})"),
         "mine.json.rules[0].operands.weight.random_bits is 18446744073709551615; accepted: an integer");
  begins(rule_refusal(R"("operands": {"format": 16})"), "mine.json.rules[0].operands.format is 16; accepted: text");
  for (const char* const format : {"fp64", "e8m0"})
    begins(rule_refusal(R"("operands": ")" + std::string(format) + '"'), "mine.json.rules[0].operands: ");
  begins(rule_refusal(R"("results": "mxfp8e4m3")"), "mine.json.rules[0].results: activation in mxfp8");
  begins(rule_refusal(R"("results": {"gradient-of-weight": "nvfp4"})"),
         "mine.json.rules[0].results: gradient-of-weight in nvfp4");
  EXPECT_EQ(rule_refusal(R"("results": {"communication": "nvfp4"})"), "accepted");
  begins(rule_refusal(R"("accumulate": 32)"),
         "mine.json.rules[0].accumulate is 32; accepted: a product model in quotes");
  begins(rule_refusal(R"("accumulate": {"backward": "fp32"})"),
         "mine.json.rules[0].accumulate: unknown product 'backward'; accepted: forward, to-input, to-weight");
  begins(rule_refusal(R"("accumulate": "acc=fp17")"), "mine.json: linear, product forward: ");
  begins(rule_refusal(R"("accumulate": {"to-weight": "in=fp16"})"), "mine.json: linear, product to-weight: ");
  begins(rule_refusal(R"("accumulate": "acc=fp64")"), "mine.json: linear, product forward: ");
  EXPECT_EQ(rule_refusal(R"("accumulate": "acc=fp64,out=fp32")"), "accepted");
  begins(rule_refusal(R"("accumulate": "hopper.wgmma.e4m3.fp32")"),
         "mine.json: linear, product forward: hopper.wgmma.e4m3.fp32 takes e4m3 and e4m3, operands are fp32 and fp32");
  begins(rule_refusal(R"("accumulate": "hopper.wgmma.e4m4.fp32")"), "mine.json: linear, product forward: ");
  begins(refusal_of(R"("rules": [{"operators": "linear", "layers": "fc9.*", "accumulate": "hopper.wgmma.e4m3.fp32"}])"),
         "mine.json: linear, product forward: ");
  begins(rule_refusal(R"("inside": "mxfp4")"), "mine.json.rules[0].inside: only a format's name");
  begins(rule_refusal(R"("inside": {"format": "fp16", "rounding": "stochastic"})"),
         "mine.json.rules[0].inside: only a format's name");
  const std::string delayed = R"({"format": "e4m3-tensor", "delayed": {}})";
  EXPECT_EQ(rule_refusal(R"("operands": )" + delayed), "accepted");
  begins(rule_refusal(R"("operands": {"format": "mxfp8e4m3", "delayed": {}})"),
         "mine.json.rules[0].operands.delayed: delayed scaling is for block formats with one scale a tensor");
  begins(rule_refusal(R"("operands": {"format": "fp16", "delayed": {}})"), "mine.json.rules[0].operands.delayed: ");
  begins(rule_refusal(R"("operands": {"format": "e4m3-tensor", "delayed": {"length": 0}})"),
         "mine.json.rules[0].operands.delayed.length is 0; accepted: an integer from 1");
  begins(rule_refusal(R"("operands": {"format": "e4m3-tensor", "delayed": {"length": 1.5}})"),
         "mine.json.rules[0].operands.delayed.length is 1.5; accepted: an integer");
  begins(rule_refusal(R"("operands": {"format": "e4m3-tensor", "delayed": {"choice": "mean"}})"),
         "mine.json.rules[0].operands.delayed: unknown choice 'mean'");
  begins(rule_refusal(R"("operands": {"format": "e4m3-tensor", "delayed": true})"),
         "mine.json.rules[0].operands.delayed is true; accepted: an object");
  for (const char* const kind : {"attention-scores", "attention-values", "lstm-cell"})
    begins(refusal_of(R"("rules": [{"operators": ")" + std::string(kind) + R"(", "operands": )" + delayed + "}]"),
           "mine.json: " + std::string(kind) + ": delayed scaling is for linear and conv2d");
  begins(refusal_of(R"("weights": "fp16")"), "mine.json.weights is \"fp16\"; accepted: an object");
  begins(refusal_of(R"("weights": {"master": "yes"})"), "mine.json.weights.master is \"yes\"; accepted: true or false");
  begins(refusal_of(R"("weights": {"storage": )" + delayed + "}"),
         "mine.json.weights.storage: delayed scaling is for operands");
  begins(refusal_of(R"("weights": {"storage": "bf16", "kahan": true, "master": true})"),
         "mine.json.weights: Kahan summation and fp32 master weights exclude");
  begins(refusal_of(R"("optimizer": {"state": )" + delayed + "}"),
         "mine.json.optimizer: delayed scaling is for operands");
  begins(refusal_of(R"("optimizer": {"arithmetic": "mxfp8e4m3"})"),
         "mine.json.optimizer.arithmetic: a block format has no arithmetic");
  begins(refusal_of(R"("optimizer": {"third": "fp16"})"), "mine.json.optimizer: unknown member 'third'");
  begins(refusal_of(R"("loss_scaling": true)"), "mine.json.loss_scaling is true; accepted: null, or an object");
  begins(refusal_of(R"("loss_scaling": {})"), "mine.json.loss_scaling: kind is missing");
  begins(refusal_of(R"("loss_scaling": {"kind": "Dynamic"})"), "mine.json.loss_scaling: unknown kind 'Dynamic'");
  begins(refusal_of(R"("loss_scaling": {"kind": "static", "interval": 3})"),
         "mine.json.loss_scaling: unknown member 'interval'");
  begins(refusal_of(R"("loss_scaling": {"kind": "dynamic", "growth": 0.5})"), "mine.json.loss_scaling: ");
  begins(refusal_of(R"("loss_scaling": {"kind": "dynamic", "scale": 1e300})"), "mine.json.loss_scaling: ");
  begins(refusal_of(R"("loss_scaling": {"kind": "dynamic", "interval": 0})"),
         "mine.json.loss_scaling.interval is 0; accepted: an integer from 1");
  begins(refusal_of(R"("loss_scaling": {"kind": "static", "scale": "big"})"),
         "mine.json.loss_scaling.scale is \"big\"; accepted: a number");
}

TEST(Policies, AreFoundByNameAndByFile) {
  EXPECT_EQ(find_policy("mxfp8").name, "mxfp8");
  const auto refused = [](const std::string& name) -> std::string {
    try {
      find_policy(name);
      return "accepted";
    } catch (const std::invalid_argument& error) { return error.what(); }
  };
  EXPECT_TRUE(refused("amp-fp61").starts_with("unknown policy 'amp-fp61'; did you mean amp-fp16? accepted: fp32"))
      << refused("amp-fp61");
  EXPECT_TRUE(refused("").ends_with("; or a file that ends in .json")) << refused("");
  EXPECT_TRUE(refused("/no/such/policy.json").starts_with("cannot read /no/such/policy.json: "))
      << refused("/no/such/policy.json");
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

/// Named policies with one to three changes are read, or refused in one line.
TEST(Policies, MutationsAreReadOrRefusedInOneLine) {
  check::Random random{7};
  Json all = Json::array();
  for (const Policy& policy : policies()) {
    all.push_back(policy.json);
    all.push_back({{"name", "mine"},
                   {"base", policy.name},
                   {"rules", {{{"operators", {"linear"}}, {"operands", {{"weight", "e4m3"}}}}}},
                   {"weights", {{"kahan", true}}}});
  }
  const std::vector<Json> values{nullptr,
                                 true,
                                 0,
                                 -1,
                                 1.5,
                                 1e300,
                                 18446744073709551615u,
                                 -9223372036854775807 - 1,
                                 "",
                                 "fp16",
                                 "e4m3-tensor",
                                 "mxfp4",
                                 "int8-32",
                                 "all",
                                 "linear",
                                 "acc=fp64",
                                 "hopper.wgmma.e4m3.fp32",
                                 "e4m3",
                                 std::string(300, 'x'),
                                 "a\nb",
                                 Json::array(),
                                 Json::object(),
                                 Json::array({"linear", 1}),
                                 Json{{"format", "fp8-1x128"}},
                                 Json{{"format", "e4m3-tensor"}, {"delayed", Json::object()}},
                                 Json{{"weight", "mxfp8e4m3"}},
                                 Json{{"operators", "all"}},
                                 "0x10",
                                 "in=fp16,acc=fp16,order=blocked:0"};
  int accepted = 0, refused = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    Json policy = all[random() % all.size()];
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      std::vector<Json*> where;
      places(policy, where);
      Json& at = *where[random() % where.size()];
      if (at.is_object() && random() % 2)
        at[role_names[random() % role_names.size()]] = values[random() % values.size()];
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

}  // namespace policy_refusals_test
