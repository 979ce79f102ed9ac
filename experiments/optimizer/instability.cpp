// Trainings that only just bear their learning rate, and batches of several sizes.
#include <halfulp/experiments/optimizer/optimizer.hpp>
#include <halfulp/experiments/publications.hpp>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

namespace halfulp::trainings {
namespace {

/// Whether the loss ever was Inf or NaN, or a weight.
std::uint64_t diverged(const VariantOutcome& o) {
  std::uint64_t count = 0;
  for (const auto* const record : o.records)
    count += record->diverged.has_value() || !std::isfinite(record->final.loss);
  return count;
}

/// Mean steps from a spike of the gradient's norm to the next spike of the loss that has one before it, where no loss
/// spiked in between; nothing if no loss did.
std::optional<double> lead(const VariantOutcome& o) {
  double sum = 0;
  std::size_t count = 0;
  for (const auto* const record : o.records) {
    std::optional<std::uint64_t> norm;  // the first one since the last spike of the loss
    for (const training::Spike& spike : record->spikes) {
      if (!spike.of_loss && !norm) norm = spike.step;
      if (!spike.of_loss) continue;
      if (norm) sum += static_cast<double>(spike.step - *norm), ++count;
      norm.reset();
    }
  }
  if (count == 0) return {};
  return sum / static_cast<double>(count);
}

double last_loss(const VariantOutcome& o) {
  double sum = 0;
  for (const auto* const record : o.records) sum += record->curve.back().loss;
  return sum / static_cast<double>(o.records.size());
}

/// Norm of the embedding's update in the first counted steps, of the first seed.
double embedding_update(const VariantOutcome& o) {
  for (const auto& u : o.records.front()->curve.front().updates)
    if (u.name.find("embedding") != std::string::npos) return u.sum.update_norm;
  return 0;
}

std::uint64_t spikes(const VariantOutcome& o) { return o.norm_spikes + o.loss_spikes; }

std::uint64_t steps_of(const VariantOutcome& o) {
  std::uint64_t steps = 0;
  for (const auto* const record : o.records) steps += record->curve.back().step;
  return steps;
}

}  // namespace

std::vector<Column> instability_columns() {
  return {
      {"network", "", "Network."},
      {"variant", "", "Variant; table summary says what it is."},
      {"norm_spikes", "step", "Steps with a gradient norm far above the usual, over all seeds."},
      {"loss_spikes", "step", "Steps with a loss far above the usual, over all seeds."},
      {"lead", "step",
       "Steps from the first spike of the norm since the loss spiked last to the next spike of the loss, mean; null "
       "if the loss never followed."},
      {"left_out", "step", "Steps left out for an abnormal norm, over all seeds."},
      {"diverged", "run", "Trainings that ended with a weight or a test loss of Inf or NaN."},
      {"last_loss", "nat", "Loss of the last interval, mean over seeds."},
      {"test_loss", "nat", "Test loss of those that did not fail; NaN if all did."},
      {"embedding_update", "1", "Norm of the embedding's update in the first counted steps, of the first seed."}};
}

void report_instability(const std::string& network, const VariantOutcomes& outcomes, Table& table) {
  for (const OptimizerVariant& v : optimizer_variants()) {
    if (v.group != "spikes") continue;
    const VariantOutcome& o = outcomes.at({network, std::string(v.name)});
    table.row({network, v.name, o.norm_spikes, o.loss_spikes, or_null(lead(o)), o.abnormal, diverged(o),
               number(last_loss(o)), number(o.spread.mean_loss()), number(embedding_update(o))});
  }
}

void claim_instability(const std::string& network, const std::string& of, const VariantOutcomes& outcomes,
                       Report& report) {
  const auto get = [&](const std::string& variant) -> const VariantOutcome& { return outcomes.at({network, variant}); };
  const Citation glm{publications::loss_spikes,
                     "Zeng et al. 2022, GLM-130B, section 3.3: embedding gradient shrink 0.1"},
      clipping = "Pascanu, Mikolov & Bengio 2013, On the Difficulty of Training Recurrent Neural Networks, section 3.2",
      palm{publications::loss_spikes, "Chowdhery et al. 2022, PaLM, section 5.1: batches around a spike are left out"};
  const double adam = embedding_update(get("fast-shrink")) / embedding_update(get("fast-bf16")),
               sgd = embedding_update(get("sgd-shrink")) / embedding_update(get("sgd-bf16"));
  const std::string parted = "trainings that begin alike part ways until the interval ends",
                    none = "the embedding has no finite update";
  report.claim(
      {network + "-adam-cancels-shrink",
       "Under Adam an embedding's gradient times 0.1 gives updates of the same size, within a fifth" + of + ".",
       "derived: Adam divides m by the root of v, and 0.1 cancels but for eps"},
      std::isfinite(adam) ? within(1, 0.2, adam, may_differ(parted)) : skipped(none));
  report.claim({network + "-sgd-keeps-shrink",
                "Under SGD it gives updates of less than a third: a tenth in the first step" + of + ".",
                "derived: SGD's update is the gradient times the learning rate"},
               std::isfinite(sgd) ? at_most(1.0 / 3, sgd, may_differ(parted)) : skipped(none));
  for (const char* const variant : {"fast-fp32", "fast-bf16", "fast-fp16", "sgd-fp32", "sgd-bf16", "sgd-fp16"}) {
    const std::optional<double> steps = lead(get(variant));
    report.claim({fmt::format("{}-{}-norm-leads", network, variant),
                  fmt::format("The gradient's norm spikes before the loss does, by a step or more on average ({}){}.",
                              variant, of),
                  {publications::loss_spikes,
                   "Zeng et al. 2022, GLM-130B, section 3.3: a collapse lags behind a spike of the gradient norm by a "
                   "few steps"}},
                 steps ? at_least(1, *steps, may_differ("here both spike in the same step, mostly"))
                       : skipped("no spike of the norm was followed by one of the loss"));
  }
  const VariantOutcome &slow = get("fast-bf16"), &quick = get("fast-beta2-0.95");
  report.claim(
      {network + "-fast-beta2",
       "Adam, rate 0.1: a beta2 of 0.95 at least halves the number of spikes, and no training diverges" + of + ".",
       "Wortsman et al. 2023, Stable and low-precision training for large-scale vision-language models, "
       "section 3: spikes where second moments are out of date"},
      spikes(slow) == 0     ? skipped("nothing to repair: no spikes without it")
      : diverged(quick) > 0 ? exactly(0, diverged(quick), may_differ("trainings that diverged"))
                            : at_most(static_cast<double>(spikes(slow)) / 2, static_cast<double>(spikes(quick)),
                                      may_differ(fmt::format("{} spikes with 0.999", spikes(slow)))));
  for (const std::string kind : {"fast", "sgd"}) {
    const VariantOutcome& plain = get(kind + "-bf16");
    const std::uint64_t bad = spikes(plain);
    const struct {
      const char *name, *statement;
      const Citation& source;
    } repairs[] = {
        {"shrink", "shrinking the embedding's gradient at least halves the number of spikes", glm},
        {"clip", "clipping all gradients at least halves the number of spikes", clipping},
        {"clip-embedding", "clipping the embedding's gradient alone at least halves the number of spikes", glm},
        {"skip", "leaving out steps with spikes at least halves their number", palm}};
    for (const auto& row : repairs) {
      const VariantOutcome& repaired = get(kind + "-" + row.name);
      report.claim({fmt::format("{}-{}-{}", network, kind, row.name),
                    fmt::format("{}: {}, and no training diverges{}.",
                                kind == "sgd" ? "SGD, learning rate 2.5" : "Adam, rate 0.1", row.statement, of),
                    row.source},
                   bad == 0 ? skipped("nothing to repair: no spikes without it")
                   : diverged(repaired) > 0
                       ? exactly(0, diverged(repaired), may_differ("trainings that diverged"))
                       : at_most(static_cast<double>(bad) / 2, static_cast<double>(spikes(repaired)),
                                 may_differ(fmt::format(
                                     "{} spikes of norms and losses without it; {} of {} steps were left out{}", bad,
                                     repaired.abnormal, steps_of(repaired),
                                     repaired.abnormal > steps_of(repaired) / 10
                                         ? ": a network that does not move keeps the norm that was too large"
                                         : ""))));
    }
  }
}

std::vector<Column> batches_columns() {
  return {
      {"network", "", "Network."},
      {"batch", "example", "Examples a step."},
      {"policy", "", "Precision: fp32; amp: autocast to FP16; scaled: the same with loss scaling; bf16: pure BF16."},
      {"steps", "step", "Steps: all trainings see as many examples."},
      {"gradient_norm", "1",
       "Norm of the gradient, mean over the steps of the first interval, of which large batches have fewer, and over "
       "seeds."},
      {"gradients_underflowed", "1",
       "Share of gradients, of weights and activations, that became zero when they were rounded, of the first seed."},
      {"swamped", "1", "Share of updates that left their weight as it was, of the first seed."},
      {"accuracy", "1", "Test accuracy, mean over seeds."}};
}

void report_batches(const std::string& network, const VariantOutcomes& outcomes, Table& table) {
  for (const OptimizerVariant& v : optimizer_variants()) {
    if (v.group != "batch") continue;
    const VariantOutcome& o = outcomes.at({network, std::string(v.name)});
    const Evidence evidence = evidence_of(*o.records.front());
    double norm = 0;
    for (const auto* const record : o.records)
      norm += record->curve.front().gradient_norm / static_cast<double>(o.records.size());
    const std::size_t size = v.name.find('-') + 1, policy = v.name.rfind('-');
    table.row({network, std::stoi(std::string(v.name.substr(size, policy - size))), v.name.substr(policy + 1),
               o.records.front()->curve.back().step, number(norm), number(evidence.gradients_underflowed),
               number(evidence.swamped), number(o.spread.mean())});
  }
}

void claim_batches(const std::string& network, const std::string& of, const VariantOutcomes& outcomes, Report& report) {
  const auto get = [&](int size, const char* policy) -> const VariantOutcome& {
    return outcomes.at({network, fmt::format("batch-{}-{}", size, policy)});
  };
  const auto mean = [&](int size, const char* policy, auto&& of_record) {
    const auto& records = get(size, policy).records;
    double sum = 0;
    for (const auto* const record : records) sum += of_record(*record);
    return sum / static_cast<double>(records.size());
  };
  const auto lost = [&](int size, const char* policy) {
    return mean(size, policy, [](const training::TrainingRecord& r) { return evidence_of(r).gradients_underflowed; });
  };
  const auto sizes = std::to_array(batch_sizes);
  const Citation activations =
      "derived: the loss is a mean over the batch, so that the gradients of its activations are "
      "divided by the batch's size";
  const double most = lost(sizes.back(), "amp"), least = lost(sizes.front(), "amp");
  report.claim(
      {network + "-batch-underflow",
       "Without loss scaling FP16 loses more gradients to underflow in the largest batch than in the smallest" + of +
           ".",
       activations},
      std::max(most, least) < 0.01
          ? skipped(fmt::format("no effect: {:.4f} of the gradients underflow in the smallest batch, {:.4f} in "
                                "the largest",
                                least, most))
          : at_least(least + 1e-7, most, may_differ("few steps, and other steps than those of the small batch")));
  report.claim({network + "-batch-scaling",
                "Loss scaling brings back nine tenths of what the largest batch loses" + of + ".",
                {publications::fp16_gradients, "Micikevicius et al. 2018, Mixed Precision Training, section 3.2"}},
               lost(sizes.back(), "amp") < 0.01
                   ? skipped("nothing to repair: less than one in a hundred gradients underflows without it")
                   : at_most(lost(sizes.back(), "amp") / 10, lost(sizes.back(), "scaled"), may_differ()));
}

}  // namespace halfulp::trainings
