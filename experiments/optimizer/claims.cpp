#include <halfulp/experiments/optimizer/optimizer.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/training/update.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace halfulp::trainings {
namespace {

double rounded(const FloatFormat& f, double x) { return f.value(encode(f, {}, x).code); }

/// A variant that is said to train as well as another; `broken` is the one that it repairs, if any.
struct AsGood {
  const char *variant, *than, *statement;
  Citation source;
  const char* broken = nullptr;
};
const Citation master{publications::fp16_updates, "Micikevicius et al. 2018, Mixed Precision Training, section 3.1"},
    repairs{publications::pure_bf16, "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5"};
const AsGood as_good[] = {
    {"fp16-master",
     "small-steps",
     "FP16 weights of FP32 master weights train as well as FP32 (learning rate 1e-5).",
     {publications::fp16_updates, "Micikevicius et al. 2018, Mixed Precision Training, section 3.1"},
     "fp16-alone"},
    {"bf16-master", "small-steps", "BF16 weights of FP32 master weights train as well as FP32 (learning rate 1e-5).",
     master, "bf16-alone"},
    {"bf16-kahan", "small-steps", "BF16 weights with Kahan summation train as well as FP32 (learning rate 1e-5).",
     repairs, "bf16-alone"},
    {"bf16-stochastic", "small-steps",
     "BF16 weights rounded stochastically train as well as FP32 (learning rate 1e-5).", repairs, "bf16-alone"},
    {"sgd-bf16-master", "sgd-small-steps",
     "BF16 weights of FP32 master weights train as well as FP32 (SGD, learning rate 0.01).", master, "sgd-bf16-alone"},
    {"sgd-bf16-kahan", "sgd-small-steps",
     "BF16 weights with Kahan summation train as well as FP32 (SGD, learning rate 0.01).", repairs, "sgd-bf16-alone"},
    {"sgd-bf16-stochastic", "sgd-small-steps",
     "BF16 weights rounded stochastically train as well as FP32 (SGD, learning rate 0.01).", repairs, "sgd-bf16-alone"},
    {"bf16-states",
     "fp32",
     "BF16 moments train as well as FP32 ones.",
     {publications::optimizer_states, "DeepSeek-V3 (2024), section 3.3.3"}},
    {"e4m3-states",
     "fp32",
     "8-bit moments, E4M3 in blocks of 256, train as well as FP32 ones.",
     {publications::optimizer_states,
      "Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization, section 3 (there: dynamic tree numbers in "
      "blocks of 2048)"}},
    {"e5m2-states",
     "fp32",
     "8-bit moments, E5M2 in blocks of 256, train as well as FP32 ones.",
     {publications::optimizer_states,
      "Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization, section 3 (there: dynamic tree numbers in "
      "blocks of 2048)"}},
};
/// A variant that is said to be worse than another.
const AsGood worse[] = {
    {"fp16-alone",
     "fp16-master",
     "Without master weights FP16 ones train worse (learning rate 1e-5).",
     {publications::fp16_updates, "Micikevicius et al. 2018, Mixed Precision Training, section 3.1: 80 % relative"}},
    {"bf16-alone",
     "bf16-master",
     "Without master weights BF16 ones train worse (learning rate 1e-5).",
     {publications::bf16_without_scaling,
      "Kalamkar et al. 2019, A Study of BFLOAT16 for Deep Learning Training; Zamirai et al. 2021, section 3"}},
    {"sgd-bf16-alone",
     "sgd-bf16-master",
     "Without master weights BF16 ones train worse (SGD, learning rate 0.01).",
     {publications::pure_bf16,
      "Zamirai et al. 2021, Revisiting BFloat16 Training, section 3: nearest rounding cancels small updates"}},
    {"second-int8",
     "fp32",
     "Second moments in steps of equal size (INT8 blocks) train worse than FP32 ones.",
     {publications::optimizer_states,
      "Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization, section 4: linear quantization is "
      "unstable"}},
};

void claim_arithmetic(Report& report) {
  const Citation half{publications::adam_constants,
                      "derived: a number of at most half the smallest subnormal, 2^-25, rounds to zero"};
  report.claim({"fp16-eps-1e-8", "Adam's usual eps, 1e-8, is 0 in FP16.", half},
               exactly(0.0, rounded(fp16, 1e-8), "oracle"));
  // The least float that is not rounded to zero, by halving the interval of codes: rounding is monotonic.
  std::uint32_t zero = 0, kept = std::bit_cast<std::uint32_t>(1.0f);
  while (kept - zero > 1) {
    const std::uint32_t middle = zero + (kept - zero) / 2;
    (rounded(fp16, static_cast<double>(std::bit_cast<float>(middle))) == 0 ? zero : kept) = middle;
  }
  report.claim({"fp16-largest-lost-eps", "The largest eps (an FP32 number) that FP16 makes 0 is 2^-25.", half},
               exactly(std::ldexp(1.0, -25), static_cast<double>(std::bit_cast<float>(zero)), "oracle"));
  report.claim({"bf16-beta2",
                "Beta2 0.999 is 1 in BF16: 1 - beta2 is 0, and second moments take nothing in.",
                {publications::adam_constants, "derived: below 1 BF16's numbers are 2^-8 apart, and 0.001 < 2^-9"}},
               exactly(1.0, rounded(bf16, 0.999), "oracle"));
  report.claim(
      {"fp16-beta2",
       "In FP16 beta2 0.999 is 1023/1024.",
       {publications::adam_constants, "derived: below 1 FP16's numbers are 2^-11 apart; 0.999 2^11 = 2045.95"}},
      exactly(1023.0 / 1024.0, rounded(fp16, 0.999), "oracle"));
  const Citation decay{
      publications::adam_constants,
      "derived: half the gap below w is at least w 2^-9 in BF16, and at w = 2^e the tie goes to the even w"};
  const DecayOfCodes at = decay_in_bf16(1, std::ldexp(1.0, -9)),
                     above = decay_in_bf16(1, std::ldexp(1.0, -9) + std::ldexp(1.0, -20));
  report.claim({"bf16-decay-limit", "A decay of lr wd = 2^-9 changes none of BF16's finite numbers.", decay},
               exactly(0, at.changed, "oracle"));
  report.claim({"bf16-decay-above", "One just above 2^-9 changes every normal power of two but the least.", decay},
               at_least(2 * 253, static_cast<double>(above.changed), "oracle"));
}

using Get = std::function<const VariantOutcome&(const char*)>;

void claim_eps(const std::string& id, const std::string& of, const Get& get, Report& report) {
  std::uint64_t first = 0;
  const auto& records = get("fp16-eps-1e-8").records;
  for (const auto* const record : records) first += record->diverged && *record->diverged == 0;
  report.claim({id,
                "Pure FP16 with eps 1e-8 fails in its first step: it divides by zero" + of + ".",
                {publications::adam_constants, "derived: g^2 (1 - beta2) below 2^-25 and eps are both 0"}},
               exactly(records.size(), first, "oracle"));
}

void claim_beta2(const std::string& id, const std::string& of, const Get& get, Report& report) {
  const std::string statement =
      "With beta2 rounded to BF16 every second moment that a gradient wants to raise stays 0, in the first steps" + of +
      ".";
  const Citation source{publications::adam_constants, "derived: v = 1 v + 0 g^2"};
  std::uint64_t gradients = 0, zero = 0;
  for (const auto* const record : get("bf16-rounded").records) {
    const training::CurvePoint& point = record->curve.front();
    if (record->first_infinite || record->first_nan || record->diverged) continue;  // 0 times Inf is no zero
    for (const auto& u : point.updates)
      gradients += u.sum.elements - u.sum.zero_gradients, zero += u.sum.second_underflowed;
  }
  report.claim({id, statement, source},
               gradients == 0 ? skipped("every training met Inf or NaN") : exactly(gradients, zero, "oracle"));
}

void claim_decay(const std::string& network, const std::string& of, double lr, const Get& get, Report& report) {
  const std::string statement = "Decay 0.1 changes no bit of pure BF16's training" + of + ".";
  const Citation source{publications::adam_constants, "derived: w (1 - lr wd) rounds to w for lr wd up to 2^-9"};
  if (lr * 0.1 > std::ldexp(1.0, -9)) {
    report.claim({network + "-bf16-decay", statement, source},
                 skipped(fmt::format("the learning rate {} times 0.1 is above 2^-9", lr)));
  } else {
    const VariantOutcome &none = get("bf16-decay-0"), &decay = get("bf16-decay-0.1");
    std::uint64_t same = 0;
    for (std::size_t i = 0; i < none.records.size(); ++i) {
      const auto &a = none.records[i]->curve, &b = decay.records[i]->curve;
      bool equal = a.size() == b.size();
      const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
      for (std::size_t p = 0; p < std::min(a.size(), b.size()); ++p)
        equal &= bits(a[p].loss) == bits(b[p].loss) && bits(a[p].gradient_norm) == bits(b[p].gradient_norm);
      same += equal && bits(none.weight_norms[i]) == bits(decay.weight_norms[i]);
    }
    report.claim({network + "-bf16-decay", statement, source}, exactly(none.records.size(), same, "oracle"));
  }
  const struct {
    const char *id, *with, *without, *statement;
    Citation source;
  } shrinking[] = {{"fp32",
                    "fp32-decay-0.1",
                    "fp32",
                    "FP32 weights shrink by a decay of 0.1",
                    {publications::adam_constants, "Loshchilov & Hutter 2019, Decoupled Weight Decay Regularization"}},
                   {"kahan",
                    "kahan-decay-0.1",
                    "bf16-decay-0.1",
                    "Kahan summation brings the decay back",
                    {publications::pure_bf16, "Zamirai et al. 2021, Revisiting BFloat16 Training, section 4"}},
                   {"master",
                    "master-decay-0.1",
                    "bf16-decay-0.1",
                    "Master weights bring the decay back",
                    {publications::fp16_updates, "Micikevicius et al. 2018, Mixed Precision Training, section 3.1"}}};
  for (const auto& row : shrinking) {
    report.claim(
        {network + "-" + row.id + "-decay-norm", row.statement + of + "; norms of the first seed.", row.source},
        at_most(get(row.without).weight_norms.front(), get(row.with).weight_norms.front(),
                may_differ("norms of weights at the end; other roundings, or too few steps for lr wd to add up")));
  }
}

void claim_embedding(const std::string& network, const std::string& of, const Get& get, Report& report) {
  const Citation source{publications::loss_spikes,
                        "Zeng et al. 2022, GLM-130B, section 3.3: embedding gradient shrink 0.1"};
  for (const std::string name : {"amp-fp16", "bf16"}) {
    const VariantOutcome &plain = get(name.c_str()), &shrunk = get((name + "-shrink").c_str());
    const auto spikes = [](const VariantOutcome& o) { return static_cast<double>(o.norm_spikes + o.loss_spikes); };
    const std::string id = network + "-" + name + "-shrink";
    report.claim(
        {id, fmt::format("{}: shrinking the embedding's gradient gives fewer spikes{}.", name, of), source},
        spikes(plain) == 0
            ? skipped("nothing to repair: no loss and no norm spikes without it")
            : at_most(spikes(plain) - 1, spikes(shrunk),
                      may_differ("Adam divides a constant factor out again, except for eps and for what the norm is "
                                 "compared with")));
  }
}

void claim_abnormal(const std::string& network, const std::string& of, const Get& get, Report& report) {
  const Citation source{publications::loss_spikes,
                        "Chowdhery et al. 2022, PaLM, section 5.1: batches around a spike are left out"};
  const VariantOutcome &planted = get("planted"), &left_out = get("planted-skip"), &none = get("skip");
  const auto seeds = static_cast<double>(planted.spread.count());
  report.claim({network + "-skips-one", "The planted step is left out, and no other" + of + ".", source},
               within(seeds, 0, static_cast<double>(left_out.abnormal),
                      may_differ("the table `curves` says in which intervals steps were left out")));
  report.claim({network + "-skips-none", "Where nothing is planted nothing is left out" + of + ".", source},
               at_most(0, static_cast<double>(none.abnormal),
                       may_differ("gradients of this run have norms of 10 times their running mean by themselves")));
  const std::string helps = "An abnormal step that is left out costs less than one that is taken" + of + ".";
  const Standing harm = standing(planted.spread, none.spread, Measure::loss),
                 left = standing(left_out.spread, planted.spread, Measure::loss);
  report.claim(
      {network + "-skip-helps", helps, source},
      !harm.above() && !planted.spread.failed()
          ? skipped(fmt::format("nothing to repair: taking the step changes the test loss by {:+.4f} +- {:.4f}",
                                harm.difference, harm.doubt))
          : at_most(-1e-7, left.difference + left.doubt,
                    may_differ("test losses; Adam bounds the step itself, and what stays is a second moment "
                               "that is too large")));
}

}  // namespace

DecayOfCodes decay_in_bf16(double lr, double weight_decay) {
  training::OptimizerSettings settings;
  settings.kind = training::OptimizerKind::adamw;
  settings.lr = lr, settings.weight_decay = weight_decay;
  training::UpdatePrecision precision;
  precision.arithmetic = Stage{bf16};
  DecayOfCodes result;
  result.factor = training::numbers_of(settings, precision, 1).shrink;
  for (std::uint64_t code = 0; code < (std::uint64_t{1} << 16); ++code) {
    const auto w = static_cast<float>(bf16.value(code));
    if (!std::isfinite(w)) continue;
    const float product = w * result.factor;  // computed in fp32, as operations on BF16 tensors are
    ++result.codes;
    result.changed += rounded(bf16, static_cast<double>(product)) != static_cast<double>(w);
  }
  return result;
}

void claim_optimizer(const Config& config, const Data& data, const VariantOutcomes& outcomes, Report& report) {
  claim_arithmetic(report);
  for (const std::string& network : config.choices("networks")) {
    const std::string of = fmt::format(" ({}, {} seeds)", network, config.integer("seeds"));
    const Get get = [&](const char* variant) -> const VariantOutcome& { return outcomes.at({network, variant}); };
    const auto absent = [&](const char* variant) { return !outcomes.contains({network, variant}); };
    const auto reason = [&](const std::string& group) {
      return data.missing(network).empty() ? "groups does not name " + group : data.missing(network);
    };
    const auto skip = [&](const std::string& id, const std::string& statement, const Citation& source,
                          const std::string& group) {
      report.claim({network + "-" + id, statement + of + ".", source}, skipped(reason(group)));
    };
    if (is_text(network)) {
      if (absent("bf16"))
        skip("embedding", "Shrinking the embedding's gradient gives no more spikes",
             {publications::loss_spikes, "Zeng et al. 2022, GLM-130B, section 3.3"}, "embedding");
      else claim_embedding(network, of, get, report);
      if (absent("planted"))
        skip("abnormal", "An abnormal step that is left out costs less than one that is taken",
             {publications::loss_spikes, "Chowdhery et al. 2022, PaLM, section 5.1"}, "abnormal");
      else claim_abnormal(network, of, get, report);
      if (absent("fast-bf16"))
        skip("instability", "Clipping repairs a learning rate that is too large",
             "Pascanu, Mikolov & Bengio 2013, section 3.2", "spikes");
      else claim_instability(network, of, outcomes, report);
      continue;
    }
    if (absent("fp16-eps-1e-8"))
      skip("eps-1e-8", "Pure FP16 with eps 1e-8 fails in its first step",
           {publications::adam_constants, "derived: g^2 (1 - beta2) below 2^-25 and eps are both 0"}, "eps");
    else claim_eps(network + "-eps-1e-8", of, get, report);
    if (absent("bf16-rounded"))
      skip("bf16-beta2", "With beta2 rounded to BF16 every second moment stays 0",
           {publications::adam_constants, "derived: v = 1 v + 0 g^2"}, "betas");
    else claim_beta2(network + "-bf16-beta2", of, get, report);
    if (absent("bf16-decay-0"))
      skip("bf16-decay", "Decay 0.1 changes no bit of pure BF16's training",
           {publications::adam_constants, "derived: w (1 - lr wd) rounds to w for lr wd up to 2^-9"}, "decay");
    else claim_decay(network, of, settings(config, network, 1, data, 1).optimizer.lr, get, report);
    if (absent("batch-16-amp"))
      skip("batch", "Larger batches lose more gradients in FP16", "derived: the loss is a mean over the batch",
           "batch");
    else claim_batches(network, of, outcomes, report);
    const auto claim_row = [&](const AsGood& row, bool is_worse) {
      const std::string id = fmt::format("{}-{}-{}", network, row.variant, is_worse ? "worse" : "as-good"),
                        statement = row.statement + of;
      if (absent(row.variant) || absent(row.than)) {  // a group runs as a whole: with it `broken` too
        std::string group;
        for (const OptimizerVariant& v : optimizer_variants())
          if (v.name == row.variant) group = v.group;
        report.claim({id, statement, row.source}, skipped(reason(group)));
        return;
      }
      const Spread &variant = get(row.variant).spread, &than = get(row.than).spread;
      const double margin = config.real("margin");
      report.claim({id, statement, row.source},
                   is_worse     ? judge_worse(variant, than, margin, row.than)
                   : row.broken ? judge_repair(variant, get(row.broken).spread, than, margin, row.than)
                                : judge_as_good(variant, than, margin, config.real("loss_margin"), row.than));
    };
    for (const AsGood& row : as_good) claim_row(row, false);
    for (const AsGood& row : worse) claim_row(row, true);
  }
}

}  // namespace halfulp::trainings
