#include <halfulp/experiments/trainings/optimizer_variants.hpp>

#include <string>

namespace halfulp::trainings {
namespace {

constexpr std::string_view bf16_master = R"({"weights": {"storage": "bf16", "master": true}})", bf16_alone = R"({"weights": {"storage": "bf16"}})";

// clang-format off
constexpr OptimizerVariant rows[] = {
  {"", "fp32", "the reference: weights, states and arithmetic in FP32", "fp32"},

  {"eps", "fp16-eps-1e-8", "pure FP16; eps 1e-8, which is 0 in FP16", "pure-fp16", "{}", 1e-8},
  {"eps", "fp16-eps-1e-6", "pure FP16; eps 1e-6", "pure-fp16", "{}", 1e-6},
  {"eps", "fp16-eps-1e-4", "pure FP16; eps 1e-4", "pure-fp16", "{}", 1e-4},
  {"eps", "fp16-eps-1e-3", "pure FP16; eps 1e-3", "pure-fp16", "{}", 1e-3},
  {"eps", "fp32-eps-1e-3", "FP32; eps 1e-3: what such an eps costs by itself", "fp32", "{}", 1e-3},

  {"betas", "fp16-rounded", "pure FP16; beta1, beta2, eps 1e-4 and 1 - beta rounded to FP16: beta2 1023/1024", "pure-fp16", R"({"optimizer": {"rounded_constants": true}})", 1e-4, 0.999},
  {"betas", "bf16-float", "pure BF16; betas and eps stay FP32 numbers", "pure-bf16", "{}", 1e-8, 0.999},
  {"betas", "bf16-rounded", "pure BF16; betas, eps and 1 - beta rounded to BF16: beta2 0.999 is 1", "pure-bf16", R"({"optimizer": {"rounded_constants": true}})", 1e-8, 0.999},
  {"betas", "bf16-rounded-0.99", "pure BF16; the same with beta2 0.99, which BF16 has but for 0.2 %", "pure-bf16", R"({"optimizer": {"rounded_constants": true}})", 1e-8, 0.99},

  {"master", "fp16-master", "FP16 weights of FP32 master weights, dynamic loss scaling (apex O2)", "O2"},
  {"master", "fp16-alone", "the same without master weights", "O2", R"({"weights": {"master": false}})"},
  {"master", "bf16-master", "BF16 weights of FP32 master weights", "mixed_bfloat16", bf16_master},
  {"master", "bf16-alone", "the same without master weights", "mixed_bfloat16", bf16_alone},

  {"states", "bf16-states", "FP32 but for both moments in BF16", "fp32", R"({"optimizer": {"state": "bf16"}})"},
  {"states", "fp16-states", "FP32 but for both moments in FP16", "fp32", R"({"optimizer": {"state": "fp16"}})"},
  {"states", "e4m3-states", "both moments in E4M3, an FP32 scale for 256 of a row", "fp32", R"({"optimizer": {"state": "e4m3/1x256/fp32"}})"},
  {"states", "e5m2-states", "both moments in E5M2, an FP32 scale for 256 of a row", "fp32", R"({"optimizer": {"state": "e5m2/1x256/fp32"}})"},
  {"states", "int8-states", "both moments in INT8, an FP32 scale for 256 of a row: steps of equal size", "fp32", R"({"optimizer": {"state": "int8/1x256/fp32"}})"},
  {"states", "e5m2-plain", "both moments in E5M2 without a scale", "fp32", R"({"optimizer": {"state": "e5m2"}})"},
  {"states", "first-int8", "the first moment alone in INT8 blocks", "fp32", R"({"optimizer": {"first": "int8/1x256/fp32"}})"},
  {"states", "second-int8", "the second moment alone in INT8 blocks", "fp32", R"({"optimizer": {"second": "int8/1x256/fp32"}})"},
  {"states", "second-e4m3", "the second moment alone in E4M3 blocks", "fp32", R"({"optimizer": {"second": "e4m3/1x256/fp32"}})"},

  {"decay", "fp32-decay-0.1", "AdamW in FP32, weight decay 0.1 (without it AdamW is Adam, the reference)", "fp32", "{}", -1, -1, 0.1},
  {"decay", "bf16-decay-0", "AdamW in pure BF16 without weight decay", "pure-bf16", "{}", -1, -1, 0},
  {"decay", "bf16-decay-0.1", "AdamW in pure BF16, weight decay 0.1: w (1 - lr 0.1) rounds to w", "pure-bf16", "{}", -1, -1, 0.1},
  {"decay", "kahan-decay-0.1", "AdamW in BF16 with Kahan summation, weight decay 0.1 as a part of the update", "bf16-kahan", "{}", -1, -1, 0.1},
  {"decay", "master-decay-0.1", "AdamW on FP32 master weights of BF16 ones, weight decay 0.1", "mixed_bfloat16", bf16_master, -1, -1, 0.1},

  {"embedding", "amp-fp16", "autocast to FP16, dynamic loss scaling", "amp-fp16"},
  {"embedding", "amp-fp16-shrink", "the same, the embedding's gradient times 0.1", "amp-fp16", "{}", -1, -1, -1, 0.1},
  {"embedding", "bf16", "pure BF16", "pure-bf16"},
  {"embedding", "bf16-shrink", "the same, the embedding's gradient times 0.1", "pure-bf16", "{}", -1, -1, -1, 0.1},

  {"abnormal", "planted", "FP32; all gradients of one step times 1000, as a broken sum over ranks would make them", "fp32", "{}", -1, -1, -1, -1, 0, true},
  {"abnormal", "planted-skip", "the same; steps of 10 times the usual norm are left out", "fp32", "{}", -1, -1, -1, -1, 10, true},
  {"abnormal", "skip", "FP32, nothing planted; steps of 10 times the usual norm are left out", "fp32", "{}", -1, -1, -1, -1, 10},
};
// clang-format on

}  // namespace

bool is_of_text(const OptimizerVariant& variant) { return variant.group == "embedding" || variant.group == "abnormal"; }

std::span<const OptimizerVariant> optimizer_variants() { return rows; }

training::Policy policy_of(const OptimizerVariant& variant) {
  Json json = Json::parse(variant.changes);
  json["name"] = variant.name;
  json["title"] = variant.what;
  json["source"] = "experiment optimizer";
  json["base"] = variant.base;
  return training::parse_policy(json, std::string(variant.name));
}

}  // namespace halfulp::trainings
