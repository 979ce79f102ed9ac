#include <halfulp/experiments/optimizer/optimizer.hpp>

#include <halfulp/training/runs/tables.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <string>

namespace halfulp::trainings {
namespace {

constexpr std::string_view bf16_master = R"({"weights": {"storage": "bf16", "master": true}})",
                           bf16_alone = R"({"weights": {"storage": "bf16"}})",
                           bf16_kahan = R"({"weights": {"storage": "bf16", "kahan": true}})",
                           bf16_stochastic =
                               R"({"weights": {"storage": {"format": "bf16", "rounding": "stochastic"}}})";
constexpr double small_lr = 1e-5,  ///< Adam's updates are about as large: far below half a unit of most weights
    small_sgd_lr = 0.01;           ///< SGD's are this times the gradient

// The group spikes: a network of seconds, at learning rates that it only just bears, or does not. Adam moves every
// weight by about 0.1 in each step, half the usual size of a weight; SGD's step is longer than the curvature allows.
#define HALFULP_SMALL "width=32 depth=1 batch=4 steps=300 "
#define HALFULP_FAST HALFULP_SMALL "lr=0.1"
#define HALFULP_SGD HALFULP_SMALL "lr=2.5 warmup=60"
constexpr std::string_view small_and_fast = HALFULP_FAST, small_and_fast_clipped = HALFULP_FAST " clip_norm=0.5",
                           small_and_fast_clipped_embedding = HALFULP_FAST " clip_norm=0.1 clip=embedding",
                           small_and_sgd = HALFULP_SGD, small_and_sgd_clipped = HALFULP_SGD " clip_norm=0.5",
                           small_and_sgd_clipped_embedding = HALFULP_SGD " clip_norm=0.1 clip=embedding";
#undef HALFULP_SMALL
#undef HALFULP_FAST
#undef HALFULP_SGD

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
  {"betas", "bf16-rounded-0.99", "pure BF16; the same with beta2 0.99, which BF16 holds to within 0.2 %", "pure-bf16", R"({"optimizer": {"rounded_constants": true}})", 1e-8, 0.99},

  {"master", "small-steps", "FP32 with the learning rate 1e-5: the reference of this group", "fp32", "{}", -1, -1, -1, -1, -1, false, small_lr, "small-steps"},
  {"master", "fp16-master", "FP16 weights of FP32 master weights, dynamic loss scaling (apex O2), learning rate 1e-5", "O2", "{}", -1, -1, -1, -1, -1, false, small_lr, "small-steps"},
  {"master", "fp16-alone", "the same without master weights", "O2", R"({"weights": {"master": false}})", -1, -1, -1, -1, -1, false, small_lr, "small-steps"},
  {"master", "bf16-master", "BF16 weights of FP32 master weights, learning rate 1e-5", "mixed_bfloat16", bf16_master, -1, -1, -1, -1, -1, false, small_lr, "small-steps"},
  {"master", "bf16-alone", "the same without master weights", "mixed_bfloat16", bf16_alone, -1, -1, -1, -1, -1, false, small_lr, "small-steps"},

  {"master", "bf16-kahan", "the same with Kahan summation of updates", "mixed_bfloat16", bf16_kahan, -1, -1, -1, -1, -1, false, small_lr, "small-steps"},
  {"master", "bf16-stochastic", "the same with updates rounded stochastically", "mixed_bfloat16", bf16_stochastic, -1, -1, -1, -1, -1, false, small_lr, "small-steps"},
  {.group = "master", .name = "sgd-small-steps", .what = "SGD in FP32, learning rate 0.01: the reference of those below", .base = "fp32", .lr = small_sgd_lr, .reference = "sgd-small-steps", .sgd = true},
  {.group = "master", .name = "sgd-bf16-alone", .what = "the same with BF16 weights, rounded to nearest", .base = "fp32", .changes = bf16_alone, .lr = small_sgd_lr, .reference = "sgd-small-steps", .sgd = true},
  {.group = "master", .name = "sgd-bf16-master", .what = "BF16 weights of FP32 master weights", .base = "fp32", .changes = bf16_master, .lr = small_sgd_lr, .reference = "sgd-small-steps", .sgd = true},
  {.group = "master", .name = "sgd-bf16-kahan", .what = "BF16 weights with Kahan summation of updates", .base = "fp32", .changes = bf16_kahan, .lr = small_sgd_lr, .reference = "sgd-small-steps", .sgd = true},
  {.group = "master", .name = "sgd-bf16-stochastic", .what = "BF16 weights whose updates are rounded stochastically", .base = "fp32", .changes = bf16_stochastic, .lr = small_sgd_lr, .reference = "sgd-small-steps", .sgd = true},

  {"states", "bf16-states", "FP32 except for both moments, which are in BF16", "fp32", R"({"optimizer": {"state": "bf16"}})"},
  {"states", "fp16-states", "FP32 except for both moments, which are in FP16", "fp32", R"({"optimizer": {"state": "fp16"}})"},
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

  {.group = "spikes", .name = "fast-fp32", .what = "FP32; Adam, learning rate 0.1", .base = "fp32", .reference = "fast-fp32", .set = small_and_fast},
  {.group = "spikes", .name = "fast-bf16", .what = "pure BF16; Adam, learning rate 0.1", .base = "pure-bf16", .reference = "fast-fp32", .set = small_and_fast},
  {.group = "spikes", .name = "fast-fp16", .what = "FP16 weights of FP32 master weights, dynamic loss scaling (apex O2); Adam, learning rate 0.1", .base = "O2", .reference = "fast-fp32", .set = small_and_fast},
  {.group = "spikes", .name = "fast-beta2-0.95", .what = "pure BF16; Adam, learning rate 0.1, beta2 0.95", .base = "pure-bf16", .beta2 = 0.95, .reference = "fast-fp32", .set = small_and_fast},
  {.group = "spikes", .name = "fast-shrink", .what = "pure BF16, the embedding's gradient times 0.1", .base = "pure-bf16", .shrink = 0.1, .reference = "fast-fp32", .set = small_and_fast},
  {.group = "spikes", .name = "fast-clip", .what = "pure BF16, gradients clipped to the norm 0.5", .base = "pure-bf16", .reference = "fast-fp32", .set = small_and_fast_clipped},
  {.group = "spikes", .name = "fast-clip-embedding", .what = "pure BF16, the embedding's gradient clipped to the norm 0.1", .base = "pure-bf16", .reference = "fast-fp32", .set = small_and_fast_clipped_embedding},
  {.group = "spikes", .name = "fast-skip", .what = "pure BF16, steps of 4 times the usual norm left out", .base = "pure-bf16", .skip = 4, .reference = "fast-fp32", .set = small_and_fast},
  {.group = "spikes", .name = "sgd-fp32", .what = "FP32; SGD, learning rate 2.5", .base = "fp32", .reference = "sgd-fp32", .sgd = true, .set = small_and_sgd},
  {.group = "spikes", .name = "sgd-bf16", .what = "pure BF16; SGD, learning rate 2.5", .base = "pure-bf16", .reference = "sgd-fp32", .sgd = true, .set = small_and_sgd},
  {.group = "spikes", .name = "sgd-fp16", .what = "FP16 weights of FP32 master weights, dynamic loss scaling (apex O2); SGD, learning rate 2.5", .base = "O2", .reference = "sgd-fp32", .sgd = true, .set = small_and_sgd},
  {.group = "spikes", .name = "sgd-shrink", .what = "pure BF16, the embedding's gradient times 0.1", .base = "pure-bf16", .shrink = 0.1, .reference = "sgd-fp32", .sgd = true, .set = small_and_sgd},
  {.group = "spikes", .name = "sgd-clip", .what = "pure BF16, gradients clipped to the norm 0.5", .base = "pure-bf16", .reference = "sgd-fp32", .sgd = true, .set = small_and_sgd_clipped},
  {.group = "spikes", .name = "sgd-clip-embedding", .what = "pure BF16, the embedding's gradient clipped to the norm 0.1", .base = "pure-bf16", .reference = "sgd-fp32", .sgd = true, .set = small_and_sgd_clipped_embedding},
  {.group = "spikes", .name = "sgd-skip", .what = "pure BF16, steps of 4 times the usual norm left out", .base = "pure-bf16", .skip = 4, .reference = "sgd-fp32", .sgd = true, .set = small_and_sgd},
};
// clang-format on

/// Of the group batch: the end of the variant's name, its policy, and what it is.
struct BatchPolicy {
  std::string_view name, base, changes, what;
};
constexpr BatchPolicy batch_policies[] = {{"fp32", "fp32", "{}", "FP32"},
                                          {"amp", "amp-fp16", R"({"loss_scaling": null})", "autocast to FP16"},
                                          {"scaled", "amp-fp16", "{}", "autocast to FP16, dynamic loss scaling"},
                                          {"bf16", "pure-bf16", "{}", "pure BF16"}};
constexpr int images_seen = 12288;  ///< three batches of the largest size

/// The configuration with what a variant sets.
Config with_settings(const Config& config, const OptimizerVariant& v) {
  Config own = config;
  const Json given = config.to_json();
  for (std::size_t begin = 0; begin < v.set.size();) {
    const std::size_t end = std::min(v.set.find(' ', begin), v.set.size());
    const std::string assignment(v.set.substr(begin, end - begin));
    const Json& now = given[assignment.substr(0, assignment.find('='))];
    if (!now.is_number() || now == 0) own.set(assignment);
    begin = end + 1;
  }
  return own;
}

}  // namespace

bool is_of_text(const OptimizerVariant& variant) {
  return variant.group == "embedding" || variant.group == "abnormal" || variant.group == "spikes";
}

std::span<const OptimizerVariant> optimizer_variants() {
  // The group batch: each size under four policies, for as many images in all.
  static const auto all = [] {
    static std::deque<std::string> texts;  // names and settings stay where they are
    const auto kept = [](std::string text) -> std::string_view { return texts.emplace_back(std::move(text)); };
    std::vector<OptimizerVariant> variants(std::begin(rows), std::end(rows));
    for (const int size : batch_sizes)
      for (const auto& [policy, base, changes, what] : batch_policies) {
        OptimizerVariant& v = variants.emplace_back();
        v.group = "batch", v.name = kept(fmt::format("batch-{}-{}", size, policy)), v.base = base, v.changes = changes;
        v.what = kept(fmt::format("{} images a step, {}", size, what));
        v.set = kept(fmt::format("width=64 batch={} steps={}", size, images_seen / size));
        v.reference = kept(fmt::format("batch-{}-fp32", size));
      }
    return variants;
  }();
  return all;
}

training::Policy policy_of(const OptimizerVariant& variant) {
  Json json = Json::parse(variant.changes);
  json["name"] = variant.name;
  json["title"] = variant.what;
  json["source"] = "experiment optimizer";
  json["base"] = variant.base;
  return training::parse_policy(json, std::string(variant.name));
}

}  // namespace halfulp::trainings

// optimizer: what 16 and 8 bits do to Adam: its eps and betas, weights with and without a master copy, moments, decay;
// abnormal gradients.

namespace halfulp {
namespace {

using namespace trainings;

std::vector<Parameter> parameters() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<Parameter> all = trainings::parameters({"mlp,transformer", "fp32", "3"});
  // Variants say under which policy; and they are about Adam.
  std::erase_if(all, [](const Parameter& p) { return p.name == "policies"; });
  std::string groups;
  std::vector<std::string> accepted{};
  for (const std::string_view group : optimizer_groups) {
    groups += (groups.empty() ? "" : ",") + std::string(group);
    accepted.emplace_back(group);
  }
  for (Parameter& p : all) {
    if (p.name == "optimizer") p.accepted = {"adam", "adamw"};
    if (p.name == "networks")
      p.help =
          "what is trained: of images for eps, betas, master, states, decay and batch, of text for embedding, "
          "abnormal and spikes";
    if (p.name == "context") p.default_value = "32";
    if (p.name == "seeds") p.help = "trainings of each variant, with seeds seed, seed + 1, ...";
  }
  all.insert(all.end(), {accuracy_margin(), loss_margin()});
  all.insert(all.begin() + 2,
             {"groups", ParameterType::choices, groups, "what is varied", -infinity, infinity, accepted});
  return all;
}

void change(training::TrainerSettings& s, const OptimizerVariant& v) {
  if (v.eps >= 0) s.optimizer.eps = v.eps;
  if (v.beta2 >= 0) s.optimizer.beta2 = v.beta2;
  if (v.decay >= 0) s.optimizer.kind = training::OptimizerKind::adamw, s.optimizer.weight_decay = v.decay;
  if (v.shrink >= 0) s.embedding_shrink = v.shrink;
  if (v.skip >= 0) s.skip_abnormal = v.skip;
  if (v.lr >= 0) s.optimizer.lr = v.lr;
  if (v.sgd) s.optimizer.kind = training::OptimizerKind::sgd;
}

void plant(training::Trainer& trainer) {
  trainer.after_backward = [](training::Trainer& t) {
    if (t.steps() != planted_step(t.settings().steps)) return;
    for (auto* const p : t.parameters())
      if (p->has_gradient)
        for (float& g : p->gradient.values()) g *= planted_factor;
  };
}

/// The norm of all weights in the last step that was counted.
double weight_norm(const training::TrainingRecord& record) {
  double sum = 0;
  if (const auto* const updates = last_updates(record))
    for (const auto& u : *updates) sum += u.sum.weight_norm * u.sum.weight_norm;
  return std::sqrt(sum);
}

void run_optimizer(const Config& config, Run& run) {
  const std::vector<std::string> networks = config.choices("networks"), groups = config.choices("groups");
  for (const std::string& group : groups)
    if (std::none_of(optimizer_variants().begin(), optimizer_variants().end(), [&](const OptimizerVariant& v) {
          return v.group == group && std::any_of(networks.begin(), networks.end(), [&](const std::string& network) {
                   return is_of_text(v) == is_text(network);
                 });
        }))
      throw std::invalid_argument(fmt::format("groups: {} is shown by none of the networks {}; accepted: with {}",
                                              group, fmt::join(networks, ", "),
                                              is_text(networks.front()) ? "mlp or cnn" : "transformer or lstm"));
  const Data data(config, networks);
  data.report(run.report);
  Table& summary = run.report.table(
      "summary", "Each variant against FP32, means over seeds",
      {{"group", "", "What is varied; empty for the reference."},
       {"network", "", "Network."},
       {"variant", "", "Variant."},
       {"what", "", "What it is."},
       {"accuracy", "1", "Test accuracy; a failed training counts as 0."},
       {"to_fp32", "1",
        "This minus that of FP32, mean over seeds and test examples; in the group master FP32 has its learning rate "
        "too."},
       {"doubt", "1", "Half the width of the 95 % confidence interval of that difference, by seeds and by examples."},
       {"verdict", "",
        "Failed; within if to_fp32 - doubt is at least -margin; below if to_fp32 is negative beyond doubt; else cannot "
        "tell."},
       {"test_loss", "nat", "Test loss of those that did not fail; NaN if all did."},
       {"loss_to_fp32", "nat", "This minus that of FP32; NaN if one failed."},
       {"loss_doubt", "nat", "Half the width of its 95 % confidence interval."},
       {"loss_verdict", "",
        "The same verdict of losses, which are above where accuracies are below, and where they are ten times as large "
        "in every seed."},
       {"swamped", "1", "Share of updates that left their weight as it was, of the first seed."},
       {"second_underflowed", "1",
        "Share of Adam's second moments that are zero though the gradient is not, of the first seed."},
       {"zero_denominators", "value", "Numbers whose update is divided by zero, of the first seed."},
       {"weight_norm", "1", "Norm of all weights in the last step, of the first seed."},
       {"norm_spikes", "step", "Steps with a gradient norm far above the usual, over all seeds."},
       {"loss_spikes", "step", "Steps with a loss far above the usual, over all seeds."},
       {"abnormal", "step", "Steps left out for an abnormal norm, over all seeds."},
       {"failed_at", "step", "The first step of all seeds that made a parameter Inf or NaN; null if none did."},
       {"why", "", "What the microscope saw of a failure or loss; empty if there was none."}});
  Table& policies_table = run.report.table(
      "policies", "The variants' policies",
      {{"variant", "", "Variant."},
       {"json", "", "Its precision policy: saved as a file it can be changed and run by `training`."}});
  const auto asked = [&](std::string_view group) {
    return std::find(groups.begin(), groups.end(), group) != groups.end();
  };
  Table* const instability = asked("spikes")
                                 ? &run.report.table("instability",
                                                     "Learning rates that are too large, and what repairs them",
                                                     instability_columns())
                                 : nullptr;
  Table* const batches = asked("batch") ? &run.report.table("batches", "Batches of several sizes, means over seeds",
                                                            batches_columns())
                                        : nullptr;
  Tables tables(run.report, "variant", "Variant.");

  std::vector<const OptimizerVariant*> variants{};
  for (const OptimizerVariant& v : optimizer_variants())
    if (v.group.empty() || asked(v.group)) variants.push_back(&v);
  std::vector<training::Policy> policies{};
  for (const OptimizerVariant* const v : variants) {
    policies.push_back(policy_of(*v));
    policies_table.row({v->name, policies.back().json.dump()});
  }
  const auto seeds = static_cast<std::size_t>(config.integer("seeds"));
  std::vector<Job> jobs{};
  std::vector<const OptimizerVariant*> variant_of{};
  for (const std::string& network : networks) {
    if (!data.missing(network).empty()) continue;
    for (std::size_t v = 0; v < variants.size(); ++v) {
      if (!variants[v]->group.empty() && is_of_text(*variants[v]) != is_text(network)) continue;
      const Config own = with_settings(config, *variants[v]);
      const auto examples = data.examples(own, network);
      for (std::size_t i = 0; i < seeds; ++i) {
        Job job = make_job(own, network, policies[v], policies[v].name,
                           static_cast<std::uint64_t>(config.integer("seed")) + i, data, *examples);
        change(job.settings, *variants[v]);
        if (variants[v]->planted)
          job.start = {{"planted", {planted_step(job.settings.steps), planted_factor}}}, job.attend = plant;
        jobs.push_back(std::move(job));
        variant_of.push_back(variants[v]);
      }
    }
  }
  if (run.only_operands) return record_operands(jobs, data, config, run);
  const std::vector<training::TrainingRecord> records = train(jobs, data, config, run);

  VariantOutcomes outcomes;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    tables.add(jobs[i], records[i], i % seeds == 0);
    VariantOutcome& o = outcomes[{jobs[i].settings.network, jobs[i].variant}];
    o.spread.add(records[i]);
    for (const training::Spike& spike : records[i].spikes) ++(spike.of_loss ? o.loss_spikes : o.norm_spikes);
    for (const training::CurvePoint& point : records[i].curve) o.abnormal += point.abnormal;
    if (records[i].diverged)
      o.failed_at = std::min(o.failed_at.value_or(*records[i].diverged + 1), *records[i].diverged + 1);
    o.weight_norms.push_back(weight_norm(records[i]));
    o.records.push_back(&records[i]);
  }
  for (std::size_t first = 0; first < jobs.size(); first += seeds) {
    const Job& job = jobs[first];
    const VariantOutcome& o = outcomes.at({job.settings.network, job.variant});
    const Spread& fp32 = outcomes.at({job.settings.network, std::string(variant_of[first]->reference)}).spread;
    const Standing to_fp32 = standing(o.spread, fp32), loss = standing(o.spread, fp32, Measure::loss);
    const Evidence evidence = evidence_of(records[first]);
    std::size_t worst = first;
    for (std::size_t i = first; i < first + seeds; ++i)
      if (records[i].final.accuracy < records[worst].final.accuracy) worst = i;
    const bool worse = o.spread.failed() || to_fp32.below();
    const OptimizerVariant& variant = *variant_of[first];
    std::string why = diagnose(records[worst], worse, variant.base != "fp32" || variant.changes != "{}").why;
    if (worse && variant_of[first]->planted)
      why = fmt::format("second moments keep the square of the gradient planted in step {}: updates stay small",
                        planted_step(job.settings.steps) + 1);
    summary.row({variant_of[first]->group,
                 job.settings.network,
                 job.variant,
                 variant_of[first]->what,
                 number(o.spread.mean()),
                 number(to_fp32.difference),
                 number(to_fp32.doubt),
                 verdict(o.spread, fp32, config.real("margin")),
                 number(o.spread.mean_loss()),
                 number(loss.difference),
                 number(loss.doubt),
                 verdict(o.spread, fp32, config.real("loss_margin"), Measure::loss),
                 number(evidence.swamped),
                 number(evidence.second_underflowed),
                 evidence.zero_denominators,
                 number(o.weight_norms.front()),
                 o.norm_spikes,
                 o.loss_spikes,
                 o.abnormal,
                 or_null(o.failed_at),
                 why});
  }
  for (const std::string& network : networks) {
    if (!data.missing(network).empty()) continue;
    if (instability && is_text(network)) report_instability(network, outcomes, *instability);
    if (batches && !is_text(network)) report_batches(network, outcomes, *batches);
  }
  claim_optimizer(config, data, outcomes, run.report);
}

}  // namespace

namespace {

/// How variants come out, and the worst of those that end.
std::string optimizer_finding(const ReportTables& tables) {
  const std::string verdicts = verdicts_finding(tables, "group", "");
  const auto below = tables.rows("summary", {{"verdict", "below"}});
  const TableRow* const worst = smallest(below, "to_fp32");
  if (verdicts.empty() || !worst) return {};
  return fmt::format("{}; {} ends {} points below fp32.", verdicts, worst->text("variant"),
                     in_words(-100 * worst->number("to_fp32")));
}

}  // namespace

Experiment optimizer_experiment() {
  return {"optimizer",
          "Adam in 16 and 8 bits",
          "What do 16 and 8 bits do to Adam?",
          parameters,
          run_optimizer,
          optimizer_finding,
          {"summary", {"network", "variant", "accuracy", "to_fp32", "second_underflowed", "failed_at"}}};
}

}  // namespace halfulp
