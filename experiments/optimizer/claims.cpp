#include <halfulp/experiments/optimizer/optimizer.hpp>

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

/// A variant whose accuracy is said to be another's, within that one's spread.
struct AsGood {
  const char *variant, *than, *statement, *source;
};
constexpr AsGood as_good[] = {
    {"fp16-master", "fp32", "FP16 weights of FP32 master weights train as well as FP32.",
     "Micikevicius et al. 2018, Mixed Precision Training, section 3.1"},
    {"bf16-states", "fp32", "BF16 moments train as well as FP32 ones.", "DeepSeek-V3 (2024), section 3.3.3"},
    {"e4m3-states", "fp32", "8-bit moments, E4M3 in blocks of 256, train as well as FP32 ones.",
     "Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization, section 3 (there: dynamic tree numbers in "
     "blocks of 2048)"},
    {"e5m2-states", "fp32", "8-bit moments, E5M2 in blocks of 256, train as well as FP32 ones.",
     "Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization, section 3 (there: dynamic tree numbers in "
     "blocks of 2048)"},
};
/// A variant that is said to be worse than another.
constexpr AsGood worse[] = {
    {"fp16-alone", "fp16-master", "Without master weights FP16 ones train worse.",
     "Micikevicius et al. 2018, Mixed Precision Training, section 3.1: 80 % relative"},
    {"bf16-alone", "bf16-master", "Without master weights BF16 ones train worse.",
     "Kalamkar et al. 2019, A Study of BFLOAT16 for Deep Learning Training; Zamirai et al. 2021, section 3"},
    {"second-int8", "fp32", "Second moments in steps of equal size (INT8 blocks) train worse than FP32 ones.",
     "Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization, section 4: linear quantization is unstable"},
};

void claim_arithmetic(Report& report) {
  const char* const half = "derived: a number of at most half the smallest subnormal, 2^-25, rounds to zero";
  report.claim(
      exactly("fp16-eps-1e-8", "Adam's usual eps, 1e-8, is 0 in FP16.", half, 0.0, rounded(fp16, 1e-8), "oracle"));
  // The least float that is not rounded to zero, by halving the interval of codes: rounding is monotonic.
  std::uint32_t zero = 0, kept = std::bit_cast<std::uint32_t>(1.0f);
  while (kept - zero > 1) {
    const std::uint32_t middle = zero + (kept - zero) / 2;
    (rounded(fp16, static_cast<double>(std::bit_cast<float>(middle))) == 0 ? zero : kept) = middle;
  }
  report.claim(exactly("fp16-largest-lost-eps", "The largest eps (an FP32 number) that FP16 makes 0 is 2^-25.", half,
                       std::ldexp(1.0, -25), static_cast<double>(std::bit_cast<float>(zero)), "oracle"));
  report.claim(exactly("bf16-beta2", "Beta2 0.999 is 1 in BF16: 1 - beta2 is 0, and second moments take nothing in.",
                       "derived: below 1 BF16's numbers are 2^-8 apart, and 0.001 < 2^-9", 1.0, rounded(bf16, 0.999),
                       "oracle"));
  report.claim(exactly("fp16-beta2", "In FP16 beta2 0.999 is 1023/1024.",
                       "derived: below 1 FP16's numbers are 2^-11 apart; 0.999 2^11 = 2045.95", 1023.0 / 1024.0,
                       rounded(fp16, 0.999), "oracle"));
  const char* const decay =
      "derived: half the gap below w is at least w 2^-9 in BF16, and at w = 2^e the tie goes to the even w";
  const DecayOfCodes at = decay_in_bf16(1, std::ldexp(1.0, -9)),
                     above = decay_in_bf16(1, std::ldexp(1.0, -9) + std::ldexp(1.0, -20));
  report.claim(exactly("bf16-decay-limit", "A decay of lr wd = 2^-9 changes none of BF16's finite numbers.", decay, 0,
                       at.changed, "oracle"));
  report.claim(at_least("bf16-decay-above", "One just above 2^-9 changes every normal power of two but the least.",
                        decay, 2 * 253, static_cast<double>(above.changed), "oracle"));
}

using Get = std::function<const VariantOutcome&(const char*)>;

void claim_eps(const std::string& id, const std::string& of, const Get& get, Report& report) {
  std::uint64_t first = 0;
  const auto& records = get("fp16-eps-1e-8").records;
  for (const auto* const record : records) first += record->diverged && *record->diverged == 0;
  report.claim(exactly(id, "Pure FP16 with eps 1e-8 fails in its first step: it divides by zero" + of + ".",
                       "derived: g^2 (1 - beta2) below 2^-25 and eps are both 0", records.size(), first, "oracle"));
}

void claim_beta2(const std::string& id, const std::string& of, const Get& get, Report& report) {
  const std::string statement = "With beta2 rounded to BF16 every second moment stays 0" + of + ".";
  const char* const source = "derived: v = 1 v + 0 g^2";
  std::uint64_t gradients = 0, zero = 0;
  for (const auto* const record : get("bf16-rounded").records) {
    const training::CurvePoint& point = record->curve.front();
    if (record->first_infinite || record->first_nan || record->diverged) continue;  // 0 times Inf is no zero
    for (const auto& u : point.updates)
      gradients += u.sum.elements - u.sum.zero_gradients, zero += u.sum.second_underflowed;
  }
  if (gradients == 0) report.claim(skipped(id, statement, source, "every training met Inf or NaN"));
  else report.claim(exactly(id, statement, source, gradients, zero, "oracle"));
}

void claim_decay(const std::string& network, const std::string& of, double lr, const Get& get, Report& report) {
  const std::string statement = "Decay 0.1 changes no bit of pure BF16's training" + of + ".",
                    source = "derived: w (1 - lr wd) rounds to w for lr wd up to 2^-9";
  if (lr * 0.1 > std::ldexp(1.0, -9)) {
    report.claim(skipped(network + "-bf16-decay", statement, source,
                         fmt::format("the learning rate {} times 0.1 is above 2^-9", lr)));
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
    report.claim(exactly(network + "-bf16-decay", statement, source, none.records.size(), same, "oracle"));
  }
  const struct {
    const char *id, *with, *without, *statement, *source;
  } shrinking[] = {{"fp32", "fp32-decay-0.1", "fp32", "FP32 weights shrink by a decay of 0.1",
                    "Loshchilov & Hutter 2019, Decoupled Weight Decay Regularization"},
                   {"kahan", "kahan-decay-0.1", "bf16-decay-0.1", "Kahan summation brings the decay back",
                    "Zamirai et al. 2021, Revisiting BFloat16 Training, section 4"},
                   {"master", "master-decay-0.1", "bf16-decay-0.1", "Master weights bring the decay back",
                    "Micikevicius et al. 2018, Mixed Precision Training, section 3.1"}};
  for (const auto& row : shrinking) {
    Claim claim = at_most(network + "-" + row.id + "-decay-norm", row.statement + of + ".", row.source,
                          get(row.without).weight_norms.front(), get(row.with).weight_norms.front(), "published",
                          Verdict::differs);
    if (claim.verdict == Verdict::differs)
      claim.reason = "norms of weights at the end; other roundings, or too few steps for lr wd to add up";
    report.claim(std::move(claim));
  }
}

void claim_embedding(const std::string& network, const std::string& of, const Get& get, Report& report) {
  const char* const source = "Zeng et al. 2022, GLM-130B, section 3.3: embedding gradient shrink 0.1";
  for (const std::string name : {"amp-fp16", "bf16"}) {
    const VariantOutcome &plain = get(name.c_str()), &shrunk = get((name + "-shrink").c_str());
    const auto spikes = [](const VariantOutcome& o) { return static_cast<double>(o.norm_spikes + o.loss_spikes); };
    Claim claim = at_most(network + "-" + name + "-shrink",
                          fmt::format("{}: shrinking the embedding's gradient gives no more spikes{}.", name, of),
                          source, spikes(plain), spikes(shrunk), "published", Verdict::differs);
    if (claim.verdict == Verdict::differs)
      claim.reason = "Adam divides a constant factor out again, but for eps and for what the norm is compared with";
    report.claim(std::move(claim));
  }
}

void claim_abnormal(const std::string& network, const std::string& of, const Get& get, Report& report) {
  const char* const source = "Chowdhery et al. 2022, PaLM, section 5.1: batches around a spike are left out";
  const VariantOutcome &planted = get("planted"), &left_out = get("planted-skip"), &none = get("skip");
  const auto seeds = static_cast<double>(planted.spread.count);
  Claim one = within(network + "-skips-one", "The planted step is left out, and no other" + of + ".", source, seeds, 0,
                     static_cast<double>(left_out.abnormal), "published", Verdict::differs);
  if (one.verdict == Verdict::differs) one.reason = "the table `curves` says in which intervals steps were left out";
  report.claim(std::move(one));
  Claim normal = at_most(network + "-skips-none", "Where nothing is planted nothing is left out" + of + ".", source, 0,
                         static_cast<double>(none.abnormal), "published", Verdict::differs);
  if (normal.verdict == Verdict::differs)
    normal.reason = "gradients of this run have norms of 10 times their running mean by themselves";
  report.claim(std::move(normal));
  Claim better = at_most(network + "-skip-helps",
                         "An abnormal step that is left out costs no more than one that is taken" + of + ".", source,
                         planted.spread.mean_loss(), left_out.spread.mean_loss(), "published", Verdict::differs);
  if (better.verdict == Verdict::differs)
    better.reason = "test losses; Adam bounds the step itself, and what stays is a second moment that is too large";
  report.claim(std::move(better));
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
    const bool text = network == "transformer" || network == "lstm";
    const std::string of = fmt::format(" ({}, {} seeds)", network, config.integer("seeds"));
    const Get get = [&](const char* variant) -> const VariantOutcome& { return outcomes.at({network, variant}); };
    const auto absent = [&](const char* variant) { return !outcomes.contains({network, variant}); };
    const auto reason = [&](const std::string& group) {
      return data.missing(network).empty() ? "groups does not name " + group : data.missing(network);
    };
    const auto skip = [&](const std::string& id, const std::string& statement, const std::string& source,
                          const std::string& group) {
      report.claim(skipped(network + "-" + id, statement + of + ".", source, reason(group)));
    };
    if (text) {
      if (absent("bf16"))
        skip("embedding", "Shrinking the embedding's gradient gives no more spikes",
             "Zeng et al. 2022, GLM-130B, section 3.3", "embedding");
      else claim_embedding(network, of, get, report);
      if (absent("planted"))
        skip("abnormal", "An abnormal step that is left out costs less than one that is taken",
             "Chowdhery et al. 2022, PaLM, section 5.1", "abnormal");
      else claim_abnormal(network, of, get, report);
      continue;
    }
    if (absent("fp16-eps-1e-8"))
      skip("eps-1e-8", "Pure FP16 with eps 1e-8 fails in its first step",
           "derived: g^2 (1 - beta2) below 2^-25 and eps are both 0", "eps");
    else claim_eps(network + "-eps-1e-8", of, get, report);
    if (absent("bf16-rounded"))
      skip("bf16-beta2", "With beta2 rounded to BF16 every second moment stays 0", "derived: v = 1 v + 0 g^2", "betas");
    else claim_beta2(network + "-bf16-beta2", of, get, report);
    if (absent("bf16-decay-0"))
      skip("bf16-decay", "Decay 0.1 changes no bit of pure BF16's training",
           "derived: w (1 - lr wd) rounds to w for lr wd up to 2^-9", "decay");
    else claim_decay(network, of, settings(config, network, 1, data, 1).optimizer.lr, get, report);
    const auto claim_row = [&](const AsGood& row, bool is_worse) {
      const std::string id = fmt::format("{}-{}-{}", network, row.variant, is_worse ? "worse" : "as-good"),
                        statement = row.statement + of;
      if (absent(row.variant) || absent(row.than)) {
        std::string group;
        for (const OptimizerVariant& v : optimizer_variants())
          if (v.name == row.variant) group = v.group;
        report.claim(skipped(id, statement, row.source, reason(group)));
        return;
      }
      const Spread &variant = get(row.variant).spread, &than = get(row.than).spread;
      const Standing s = standing(variant, than);
      Claim claim = is_worse
                        ? at_most(id, statement, row.source, -s.doubt, s.difference, "published", Verdict::differs)
                        : at_least(id, statement, row.source, -s.doubt, s.difference, "published", Verdict::differs);
      if (claim.verdict == Verdict::differs)
        claim.reason = fmt::format("accuracy {:.4f}, of {} {:.4f}; differences below {:.4f} are within doubt",
                                   variant.mean(), row.than, than.mean(), s.doubt);
      report.claim(std::move(claim));
    };
    for (const AsGood& row : as_good) claim_row(row, false);
    for (const AsGood& row : worse) claim_row(row, true);
  }
}

}  // namespace halfulp::trainings
