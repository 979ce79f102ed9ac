#include <halfulp/experiments/underflow/underflow.hpp>
#include <halfulp/experiments/publications.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace halfulp::underflow {
namespace {

constexpr const char* weights_id = "published-share-below-2-24";
constexpr const char* weights_statement = "About 5 % of the weight gradients of a speech model lie below 2^-24.";
const Citation weights_source{publications::fp16_gradients,
                              "Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.1"};
constexpr const char* activations_id = "published-activation-gradients";
constexpr const char* activations_statement = "67 % of the activation gradients of a Multibox SSD network are zero.";
const Citation activations_source{publications::fp16_gradients,
                                  "Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.2"};
constexpr double printed = 0.005;  ///< both are whole percents

std::uint64_t below_2_24(const InputSummary& in) {
  std::uint64_t below = 0;
  for (const auto& [binade, n] : in.binades)
    if (binade < -24) below += n;
  return below;
}

/// `part` of `of` gradients, of which the folder holds some or none.
struct Share {
  std::uint64_t part, of;
  std::string what;  ///< the part in words
  std::string none;  ///< why there is nothing to compare, if `of` is 0
};

/// A folder's share beside a published one.
void claim_share(const char* id, const char* statement, const Citation& source, double expected, const Share& share,
                 const std::string& about, Run& run) {
  if (share.of == 0)
    return run.report.claim({id, statement, source}, skipped("needs that network's gradients; " + share.none));
  const double measured = static_cast<double>(share.part) / static_cast<double>(share.of);
  run.report.claim({id, statement, source}, within(expected, printed, measured,
                                                   may_differ(fmt::format("another network{}: {} of {} {}",
                                                                          about.empty() ? "" : " (" + about + ")",
                                                                          share.part, share.of, share.what))));
}

}  // namespace

void claim_published_shares(const SweepResult* input, Run& run) {
  std::string reason = "needs that network's gradients: synthetic ones have whatever share their parameters say";
  if (input && input->input.finite_nonzero() == 0)
    reason = "needs that network's gradients; the input file holds no finite non-zero ones";
  else if (input) {
    const double share = static_cast<double>(below_2_24(input->input)) /
                         static_cast<double>(input->input.finite_nonzero());
    reason = fmt::format("needs that network's gradients; in the input file the share is {:.3g} %", 100 * share);
  }
  run.report.claim({weights_id, weights_statement, weights_source}, skipped(reason));
  run.report.claim({activations_id, activations_statement, activations_source},
                   skipped("needs that network's gradients"));
}

void claim_published_shares(const FolderShares& folder, Run& run) {
  const auto none = [&](bool there, const char* nothing_to_count, const char* no_tensor) -> std::string {
    if (!folder.listed) return "the folder has no gradients.json, which says what its gradients are of";
    return there ? nothing_to_count : no_tensor;
  };
  const InputSummary weights = folder.weights.value_or(InputSummary{}),
                     activations = folder.activations.value_or(InputSummary{});
  claim_share(weights_id, weights_statement, weights_source, 0.05,
              {below_2_24(weights), weights.finite_nonzero(), "finite non-zero weight gradients lie below 2^-24",
               none(folder.weights.has_value(), "no weight gradient of the folder is finite and non-zero",
                    "the folder holds no weight gradients")},
              folder.about, run);
  claim_share(
      activations_id, activations_statement, activations_source, 0.67,
      {activations.zero, activations.zero + activations.finite_nonzero(), "finite activation gradients are zero",
       none(folder.activations.has_value(), "no activation gradient of the folder is finite",
            "the folder holds no activation gradients")},
      folder.about, run);
}

namespace {

const Citation micikevicius_scaling{publications::fp16_gradients,
                                    "Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.2"};
const Citation fp8_paper{
    publications::fp8_formats,
    "Micikevicius et al., FP8 Formats for Deep Learning, arXiv 2209.05433, tables 1 and 2; OCP OFP8 1.0"};
const Citation ieee754{publications::ieee_binary16, "IEEE 754-2019, section 3.6, binary16"};
const Citation mx{publications::mx_elements, "OCP Microscaling Formats (MX) 1.0, sections 5.3 and 5.4"};
const Citation overflow_rule{publications::ieee_binary16,
                             "derived: rounding to nearest even, IEEE 754-2019, sections 4.3.1 and 7.4"};
const Citation fp8_rule{publications::fp8_formats, "derived: rounding to nearest even, OCP OFP8 1.0"};
const Citation adam{publications::adam_constants,
                    "derived: rounding to nearest even; Kingma & Ba, Adam, ICLR 2015: epsilon = 1e-8, beta2 = 0.999"};
const Citation grad_scaler{
    publications::grad_scaler,
    "derived: 2^16 2^-16; PyTorch documentation, torch.amp.GradScaler: init_scale 65536, backoff_factor 0.5"};

/// The smallest positive double for which `holds`, which from there on must stay true; Infinity if there is none.
template <class F>
double smallest_double(F&& holds) {
  std::uint64_t low = 0, high = fp64.infinity();  // positive doubles are ordered as their codes
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (holds(std::bit_cast<double>(middle)) ? high : low) = middle;
  }
  return std::bit_cast<double>(high);
}

/// The share of a distribution's gradients that vanish in a format to nearest even under a loss scale, of those that
/// are finite and not zero in FP32, where they come from and are scaled. FP32's rounding is the machine's own: float.
double vanishing_share(const Distribution& distribution, const NearestEvenLimits& limits, int scale) {
  const auto below = [&](auto&& holds) { return distribution.probability_below(smallest_double(holds)); };
  const double factor = FloatFormat::power_of_two(scale);
  const double lost = below([](double x) { return static_cast<float>(x) != 0; });
  const double representable = below([](double x) { return std::isinf(static_cast<float>(x)); });
  const double zero = below([&](double x) {
    return static_cast<float>(x) != 0 &&
           limits.classify(static_cast<float>(static_cast<float>(x) * factor)) != RangeClass::zero;
  });
  return (zero - lost) / (representable - lost);
}

}  // namespace

BestScale best_scale(const std::vector<const SweepCase*>& cases) {
  BestScale result;
  const SweepCase* best = nullptr;
  for (const SweepCase* c : cases) {
    const RangeTally& t = c->gradient;
    if (t[RangeClass::overflow] != 0 || t.total() == 0) continue;
    result.highest = c->scale;
    if (!best || t[RangeClass::zero] < best->gradient[RangeClass::zero] ||
        (t[RangeClass::zero] == best->gradient[RangeClass::zero] &&
         t[RangeClass::subnormal] < best->gradient[RangeClass::subnormal]))
      best = c;
  }
  if (!best) return result;
  result.best = result.lowest_equal = result.highest_equal = best->scale;
  for (const SweepCase* c : cases) {
    if (c->gradient[RangeClass::overflow] != 0 || c->gradient[RangeClass::zero] != best->gradient[RangeClass::zero])
      continue;
    result.lowest_equal = std::min(result.lowest_equal, c->scale);
    result.highest_equal = std::max(result.highest_equal, c->scale);
  }
  return result;
}

void report_limits(const std::vector<FormatChoice>& formats, Run& run) {
  Table& table = run.report.table(
      "limits", "Where each format ends, rounding to nearest even",
      {
          {"format", "", "Format whose limits these are."},
          {"min_subnormal", "1", "Smallest positive value."},
          {"min_normal", "1", "Smallest value with full precision."},
          {"max_finite", "1", "Largest finite value."},
          {"largest_zero", "1", "Largest number that becomes 0, by bisection of the conversion."},
          {"smallest_overflow", "1", "Smallest number beyond the range, by bisection of the conversion."},
          {"overflow_result", "1", "What that number becomes."},
      });
  Json expected_zero = Json::object(), measured_zero = expected_zero, expected_overflow = expected_zero,
       measured_overflow = expected_zero;
  Table& line = run.report.table("number_line", "The numbers that small formats have, from 0 on",
                                 {{"format", "", "A format of at most 8 bits."},
                                  {"place", "", "Of the number among those that are not negative, from 0."},
                                  {"value", "1", "A number that it has, with its code."}});
  for (const FormatChoice& choice : formats) {
    const FloatFormat& f = choice.format;
    for (std::uint64_t code = 0; f.storage_bits() <= 8 && code <= f.max_finite(); ++code)
      line.row({choice.name, code, emulated(f, code)});
    Arithmetic narrow(f, {}, &run.trace);
    const double above_zero = smallest_double([&](double x) { return !f.is_zero(narrow.encode(x)); });
    const double largest_zero = std::nextafter(above_zero, 0);
    const double overflow = smallest_double([&](double x) { return (encode(f, {}, x).flags & flag::overflow) != 0; });
    const NearestEvenLimits limits(f);
    table.row({choice.name, emulated(f, f.min_positive()), emulated(f, f.min_normal()), emulated(f, f.max_finite()),
               number(largest_zero), number(overflow), emulated(f, narrow.encode(overflow))});
    expected_zero[choice.name] = number(limits.largest_zero());
    measured_zero[choice.name] = number(largest_zero);
    expected_overflow[choice.name] = number(limits.smallest_overflow());
    measured_overflow[choice.name] = number(overflow);
  }
  run.report.claim({"zero-threshold",
                    "A number vanishes where it is at most half the smallest subnormal: the tie goes to 0, "
                    "whose code is even.",
                    {publications::ieee_binary16, "derived: round to nearest even, IEEE 754-2019, section 4.3.1"}},
                   exactly(expected_zero, measured_zero, "oracle"));
  run.report.claim({"overflow-threshold",
                    "A number overflows where the result, rounded as if the exponent had no top, "
                    "exceeds the largest finite value.",
                    {publications::ieee_binary16, "derived: IEEE 754-2019, section 7.4"}},
                   exactly(expected_overflow, measured_overflow, "oracle"));
}

void report_constants(Run& run) {
  const auto rounded = [&](const FloatFormat& f, double x, Overflow overflow = Overflow::ieee) {
    Rounding rounding;
    rounding.overflow = overflow;
    return number(f.value(Arithmetic(f, rounding, &run.trace).encode(x)));
  };
  // What a source prints, and what follows from it by arithmetic.
  const auto published = [&](std::string id, std::string statement, const Citation& source, double expected,
                             Json measured) {
    run.report.claim({std::move(id), std::move(statement), source},
                     exactly(number(expected), std::move(measured), "published"));
  };
  const auto derived = [&](std::string id, std::string statement, const Citation& source, double expected,
                           Json measured) {
    run.report.claim({std::move(id), std::move(statement), source},
                     exactly(number(expected), std::move(measured), "oracle"));
  };
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  published("fp16-max", "65504 is the largest fp16 number.", ieee754, 65504, number(fp16.value(fp16.max_finite())));
  derived("fp16-below-65520", "What lies just below 65520 still rounds to 65504 in fp16.", overflow_rule, 65504,
          rounded(fp16, std::nextafter(65520.0, 0)));
  derived("fp16-65520", "65520 overflows to Infinity in fp16.", overflow_rule, infinity, rounded(fp16, 65520));
  published("fp16-min-subnormal", "The smallest positive fp16 number is 2^-24.", ieee754, 0x1p-24,
            number(fp16.value(fp16.min_positive())));
  published("e4m3-max", "The largest E4M3 number is 448.", fp8_paper, 448, number(e4m3.value(e4m3.max_finite())));
  published("e4m3-min-normal", "The smallest normal E4M3 number is 2^-6.", fp8_paper, 0x1p-6,
            number(e4m3.value(e4m3.min_normal())));
  published("e4m3-min-subnormal", "The smallest positive E4M3 number is 2^-9.", fp8_paper, 0x1p-9,
            number(e4m3.value(e4m3.min_positive())));
  derived("e4m3-464", "464 is a tie and goes to the even code: 448.", fp8_rule, 448, rounded(e4m3, 464));
  derived("e4m3-above-464", "Above 464 E4M3, which has no Infinity, gives NaN.", fp8_rule, nan,
          rounded(e4m3, std::nextafter(464.0, 1e3)));
  derived("e4m3-above-464-saturated", "Above 464 saturating E4M3 gives 448.", fp8_rule, 448,
          rounded(e4m3, std::nextafter(464.0, 1e3), Overflow::saturate));
  published("e5m2-max", "The largest E5M2 number is 57344.", fp8_paper, 57344, number(e5m2.value(e5m2.max_finite())));
  published("e5m2-min-normal", "The smallest normal E5M2 number is 2^-14.", fp8_paper, 0x1p-14,
            number(e5m2.value(e5m2.min_normal())));
  published("e5m2-min-subnormal", "The smallest positive E5M2 number is 2^-16.", fp8_paper, 0x1p-16,
            number(e5m2.value(e5m2.min_positive())));
  derived("e5m2-61440", "61440 overflows to Infinity in E5M2.", fp8_rule, infinity, rounded(e5m2, 61440));

  // The largest number is what saturation gives; blocks of a scale and 32 elements are the MX formats'.
  const auto largest = [&](const FloatFormat& f) { return rounded(f, 0x1p200, Overflow::saturate); };
  published("mx-e2m1-max", "The largest E2M1 number, of MXFP4, is 6.", mx, 6, largest(e2m1));
  published("mx-e3m2-max", "The largest E3M2 number, of MXFP6, is 28.", mx, 28, largest(e3m2));
  published("mx-e2m3-max", "The largest E2M3 number, of MXFP6, is 7.5.", mx, 7.5, largest(e2m3));
  published("mx-e8m0-max", "The largest scale of MX formats, in E8M0, is 2^127.", mx, 0x1p127, largest(e8m0));

  // The paper's own example: a scale of 8 brings [2^-27, 2^-24) back.
  Arithmetic wide(fp32, {}, &run.trace), half(fp16, {}, &run.trace);
  const std::uint64_t scaled = wide.mul(wide.encode(0x1p-27), wide.encode(8));
  run.report.claim(
      {"scale-8-restores",
       "A gradient of 2^-27 is 0 in fp16; times a loss scale of 8 it is 2^-24, the smallest fp16 number.",
       micikevicius_scaling},
      exactly(Json::array({0.0, 0x1p-24}),
              Json::array({rounded(fp16, 0x1p-27), number(half.value(half.convert_from(fp32, scaled)))}), "published"));

  Table& table = run.report.table(
      "adam_constants", "Adam's constants in each format",
      {
          {"format", "", "Format they are rounded to."},
          {"epsilon", "1", "Epsilon, 1e-8, added to the root of the second moment so that nothing is divided by 0."},
          {"beta2", "1", "Decay of the second moment, 0.999."},
          {"one_minus_beta2", "1", "Weight of the newest squared gradient: 1 - beta2 computed in the format."},
      });
  for (const NamedFormat& named : catalogue()) {
    const FloatFormat& f = named.format;
    if (!f.has_zero || f.storage_bits() > 32) continue;
    Arithmetic in(f, {}, &run.trace);
    const std::uint64_t beta2 = in.encode(0.999);
    table.row({std::string(named.name), emulated(f, in.encode(1e-8)), emulated(f, beta2),
               emulated(f, in.sub(in.encode(1), beta2))});
  }
  derived("adam-epsilon-fp16", "Adam's epsilon, 1e-8, is 0 in fp16.", adam, 0, rounded(fp16, 1e-8));
  derived("adam-epsilon-2-25", "An epsilon of 2^-25 is still 0 in fp16: it lies halfway and the tie goes to 0.", adam,
          0, rounded(fp16, 0x1p-25));
  derived("adam-epsilon-survives", "An epsilon just above 2^-25 survives in fp16, as 2^-24.", adam, 0x1p-24,
          rounded(fp16, std::nextafter(0x1p-25, 1)));
  derived("adam-beta2-bf16", "Adam's beta2, 0.999, is 1 in bf16.", adam, 1, rounded(bf16, 0.999));
  Arithmetic brain(bf16, {}, &run.trace);
  derived("adam-one-minus-beta2-bf16", "So 1 - beta2 is 0 in bf16: no gradient ever enters the second moment.", adam, 0,
          number(brain.value(brain.sub(brain.encode(1), brain.encode(0.999)))));

  std::uint64_t scale = wide.encode(65536);
  for (int i = 0; i < 16; ++i) scale = wide.mul(scale, wide.encode(0.5));
  derived("grad-scaler-16-overflows",
          "After 16 overflows in a row the GradScaler's 65536 has halved its way to 1: no loss scaling is left.",
          grad_scaler, 1, number(wide.value(scale)));
}

void claim_sweep(const GradientSource& source, const SweepResult& result, RoundingMode mode, Run& run) {
  const auto id = [&](std::string_view what) { return fmt::format("{}-{}", source.name, what); };
  const bool nearest = mode == RoundingMode::nearest_even;
  const std::string nothing = "there is no finite non-zero gradient";
  const std::string not_nearest = "the loss scale was swept under " + std::string(name_of(mode)) + ", not nearest-even";

  // Every value on the side of the thresholds where the definition puts it.
  std::uint64_t checked = 0, mispredicted = 0;
  for (const SweepCase& c : result.cases)
    if (c.mode == RoundingMode::nearest_even) {
      checked += c.gradient.total();
      mispredicted += c.gradient.mispredicted;
    }
  const std::string every =
      source.name +
      ": every gradient vanishes, becomes subnormal or overflows exactly where a comparison of its scaled value with "
      "the format's thresholds says so.";
  const char* to_nearest = "derived: round to nearest even, IEEE 754-2019, section 4.3.1";
  if (!nearest) run.report.claim({id("every-fate"), every, to_nearest}, skipped(not_nearest));
  else if (checked == 0) run.report.claim({id("every-fate"), every, to_nearest}, skipped(nothing));
  else
    run.report.claim({id("every-fate"), every + fmt::format(" ({} conversions.)", checked), to_nearest},
                     exactly(0, mispredicted, "oracle"));

  // The largest scale without overflow: only the largest gradient decides.
  Json expected = Json::object(), measured = Json::object();
  std::vector<std::string> names;
  for (const SweepCase& c : result.cases)
    if (std::find(names.begin(), names.end(), c.format.name) == names.end()) names.push_back(c.format.name);
  double worst = 0;
  bool compared = false;
  for (const std::string& name : names) {
    std::vector<const SweepCase*> cases;
    for (const SweepCase& c : result.cases)
      if (c.format.name == name && c.mode == mode) cases.push_back(&c);
    const NearestEvenLimits limits(cases.front()->format.format);
    std::optional<int> predicted;
    for (const SweepCase* c : cases) {
      const double scale = FloatFormat::power_of_two(c->scale);
      if (limits.classify(result.input.largest * scale) != RangeClass::overflow) predicted = c->scale;
      if (!source.distribution || c->gradient.total() == 0) continue;
      const double p = vanishing_share(*source.distribution, limits, c->scale);
      compared = true;
      const auto n = static_cast<double>(c->gradient.total());
      // One more count than the binomial's standard error, for shares so small that it is no normal variable.
      worst = std::max(worst,
                       std::fabs(c->gradient.fraction(RangeClass::zero) - p) / (std::sqrt(p * (1 - p) / n) + 1 / n));
    }
    const BestScale best = best_scale(cases);
    expected[name] = or_null(predicted);
    measured[name] = or_null(best.highest);
  }
  const std::string highest =
      source.name +
      ": the largest loss scale 2^k of the sweep without overflow is decided by the largest gradient alone.";
  const char* definition = "derived: 2^k max|g| below the format's overflow threshold";
  if (!nearest) run.report.claim({id("highest-scale"), highest, definition}, skipped(not_nearest));
  else if (result.input.finite_nonzero() == 0)
    run.report.claim({id("highest-scale"), highest, definition}, skipped(nothing));
  else run.report.claim({id("highest-scale"), highest, definition}, exactly(expected, measured, "oracle"));

  const std::string closed =
      source.name +
      ": the share of gradients that vanish, of those that are not already zero or infinite in FP32, is the "
      "probability of "
      "|g| below half the smallest subnormal: largest deviation over all formats and scales, in standard errors.";
  const char* probability = "derived: the distribution function in closed form; binomial standard error";
  const std::string unknown = "the gradients are the user's own: no distribution is known" +
                              (result.input.zero != 0 && !source.zeros.empty() ? "; " + source.zeros : "");
  if (!source.distribution) run.report.claim({id("zero-share"), closed, probability}, skipped(unknown));
  else if (!nearest) run.report.claim({id("zero-share"), closed, probability}, skipped(not_nearest));
  else if (!compared) run.report.claim({id("zero-share"), closed, probability}, skipped(nothing));
  else run.report.claim({id("zero-share"), closed, probability}, at_most(6, worst, "oracle"));

  if (source.distribution && nearest && source.distribution->shape == Shape::log_uniform)
    for (const SweepCase& c : result.cases) {
      if (c.mode != mode || c.scale != 0 || c.format.format != fp16) continue;
      // Binades are equally full, so the share is a ratio of lengths.
      const Distribution& d = *source.distribution;
      const double p = std::clamp((-25 - d.log2_low) / (d.log2_high - d.log2_low), 0.0, 1.0);
      run.report.claim(
          {id("fp16-zero-share"),
           fmt::format("Of magnitudes spread evenly over the binades {} to {}, those below 2^-25 vanish in fp16.",
                       fmt::format("2^{}", d.log2_low), fmt::format("2^{}", d.log2_high)),
           "derived: (-25 - low) / (high - low); tolerance 5 binomial standard errors"},
          within(p, 5 * std::sqrt(p * (1 - p) / static_cast<double>(std::max<std::uint64_t>(1, c.gradient.total()))),
                 c.gradient.fraction(RangeClass::zero), "oracle"));
    }
}

}  // namespace halfulp::underflow
