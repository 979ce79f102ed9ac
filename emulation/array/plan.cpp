#include <halfulp/emulation/array/plan.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/emulation/conversion.hpp>

#include <algorithm>
#include <cstdlib>

namespace halfulp::array {
namespace {

/// Whether the kernels' arithmetic works for magnitudes of a format in a carrier.
bool fits(const FloatFormat& f, const FloatFormat& carrier) {
  if (!f.is_signed || !f.has_zero || f.fraction_bits < 1 || f.exponent_bits < 1) return false;
  if (f.fraction_bits >= carrier.fraction_bits || f.max_finite() < f.min_normal()) return false;
  if (f.emin() == carrier.emin()) return f.emax() <= carrier.emax();
  // The aligner and the magnitude stay in one binade: two dropped bits at least.
  if (f.fraction_bits + 2 > carrier.fraction_bits) return false;
  // 2^emin times 2^-(fraction_bits + 2) is normal, and so is C = 2^(e + tail) for every e up to emax + 1.
  return f.emin() - f.fraction_bits - 2 >= carrier.emin() &&
         f.emax() + 2 + carrier.fraction_bits - f.fraction_bits <= carrier.emax();
}

/// The smallest magnitude for which `below` is false; `below` is true up to it and false from it on.
template <class Bits, class F>
Bits first_not(Bits low, Bits high, F below) {
  while (low < high) {
    const Bits middle = low + (high - low) / 2;
    if (below(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

}  // namespace

template <class T>
typename Carrier<T>::Bits least_not_tiny(const FloatFormat& f, const Rounding& rounding, bool negative) {
  using Bits = typename Carrier<T>::Bits;
  constexpr FloatFormat carrier = Carrier<T>::format;
  Rounding flushing = rounding;
  flushing.flush_inputs = false, flushing.flush_outputs = true;
  const Bits sign = static_cast<Bits>(carrier.with_sign(0, negative)),
             least_normal = static_cast<Bits>(f.emin() + carrier.bias) << carrier.fraction_bits;
  return first_not<Bits>(1, least_normal, [&](Bits magnitude) {
    return (convert(carrier, f, flushing, sign | magnitude).flags & flag::underflow) != 0;
  });
}
template std::uint32_t least_not_tiny<float>(const FloatFormat&, const Rounding&, bool);

namespace {

template <class T>
std::optional<NarrowPlan<typename Carrier<T>::Bits>> make_plan(const FloatFormat& f, const Rounding& rounding,
                                                               Source source) {
  using Bits = typename Carrier<T>::Bits;
  constexpr FloatFormat carrier = Carrier<T>::format;
  if (!fits(f, carrier)) return std::nullopt;
  if (keeps_payload(rounding.nan) && f.nonfinite == NonFinite::ieee) return std::nullopt;
  if (keeps_payload(rounding.nan) && f.nonfinite == NonFinite::nan_all_ones) return std::nullopt;
  if (rounding.mode == RoundingMode::stochastic &&
      (rounding.flush_outputs || rounding.variant != StochasticVariant::truncate))
    return std::nullopt;

  // The kernel counts subnormal carriers as zero: all their bits must lie more than 32 places below the last kept one.
  const bool exact_fractions = f.emin() == carrier.emin() || f.emin() - f.fraction_bits - 33 > carrier.emin();
  if (rounding.mode == RoundingMode::stochastic && !exact_fractions) return std::nullopt;

  NarrowPlan<Bits> plan{};
  plan.mode = rounding.mode;
  plan.random_bits = rounding.random_bits;
  plan.linear = f.emin() == carrier.emin();
  plan.saturates = rounding.overflow == Overflow::saturate;
  const bool plain_floats = sizeof(Bits) == 4 && !plan.saturates && !rounding.flush_inputs && !rounding.flush_outputs;
  plan.upper_half = plain_floats && f == bf16;
  plan.converter = plain_floats && f == fp16 &&
                   (rounding.mode == RoundingMode::nearest_even || rounding.mode == RoundingMode::toward_zero ||
                    rounding.mode == RoundingMode::toward_positive || rounding.mode == RoundingMode::toward_negative);
  plan.unsigned_zero = !f.has_negative_zero();
  plan.tail = carrier.fraction_bits - f.fraction_bits;
  const auto field = [&](int exponent) { return static_cast<Bits>(exponent + carrier.bias) << carrier.fraction_bits; };
  plan.emin = field(f.emin());
  plan.align = static_cast<Bits>(plan.tail) << carrier.fraction_bits;
  plan.code_offset = plan.linear ? 0 : static_cast<Bits>(f.emin() + carrier.bias) << f.fraction_bits;
  plan.align_codes = plan.align + ((0 - plan.code_offset) & static_cast<Bits>(f.code_mask()));
  plan.sign_shift = carrier.storage_bits() - f.storage_bits();
  plan.code_magnitude = static_cast<Bits>(f.magnitude_mask());
  const int scale = -14 - f.emin();  // to the smallest normal exponent of fp16
  plan.half_unused = 8 - f.storage_bits(), plan.half_missing = 5 - f.exponent_bits;
  plan.half_tail = 10 - f.fraction_bits;
  plan.halves = plan.half_unused >= 0 && plan.half_missing >= 0 && plan.half_tail >= 1 && std::abs(scale) < 64 &&
                (f.max_finite() << plan.half_tail) < 0x7c00;
  plan.half_scale = plan.halves ? static_cast<float>(FloatFormat::power_of_two(scale)) : 0;

  // What the scalar functions make of Inf and NaN, and where they begin to overflow, in both domains.
  Rounding plain = rounding;
  plain.flush_inputs = plain.flush_outputs = false;
  const auto value_of = [&](std::uint64_t code) {
    return f.is_nan(code) ? static_cast<Bits>(fresh_nan(carrier, rounding))
                          : static_cast<Bits>(convert(f, carrier, {}, code).code);
  };
  const std::uint64_t nan = f.has_nan() ? fresh_nan(f, rounding) : invalid(f, rounding).code;
  plan.values.nan = value_of(nan);
  plan.codes.nan = static_cast<Bits>(nan);
  for (const bool negative : {false, true}) {
    const std::uint64_t infinity = source == Source::arithmetic
                                       ? infinite(f, rounding, negative).code
                                       : convert(carrier, f, plain, carrier.infinity(negative)).code;
    const std::uint64_t over = overflowed(f, rounding, negative).code;
    plan.codes.infinite[negative] = static_cast<Bits>(infinity);
    plan.values.infinite[negative] = value_of(infinity);
    plan.codes.over[negative] = static_cast<Bits>(over);
    plan.values.over[negative] = value_of(over);

    // Overflow begins one unit above the largest value, half a unit, or just above it: what the mode adds decides.
    const auto max = static_cast<Bits>(convert(f, carrier, {}, f.max_finite()).code);
    const bool odd = (f.max_finite() & 1) != 0;
    const Bits unit = Bits{1} << plan.tail;
    plan.over_from[negative] = max + unit - addend<Bits>(rounding, negative, odd, max, plan.tail, 0);
    if (rounding.flush_inputs) plan.zero_below[negative] = static_cast<Bits>(carrier.min_normal());
    plan.tiny_below[negative] = least_not_tiny<T>(f, rounding, negative);
    if (rounding.flush_outputs)
      plan.zero_below[negative] = std::max(plan.zero_below[negative], plan.tiny_below[negative]);
  }
  plan.flushes = rounding.flush_inputs || rounding.flush_outputs;
  plan.special_from = std::min(plan.over_from[0], plan.over_from[1]);
  plan.codes.max = static_cast<Bits>(f.max_finite());
  plan.values.max = value_of(f.max_finite());
  if (rounding.mode == RoundingMode::stochastic) plan.special_from = plan.values.max + 1;  // it may be rounded up
  return plan;
}

}  // namespace

template <class T>
std::optional<NarrowPlan<typename Carrier<T>::Bits>> narrow_plan(const FloatFormat& f, const Rounding& rounding,
                                                                 Source source) {
  // The limits are searched for. Where arrays are short that takes longer than rounding them (a third of the time of
  // calibrating weights row by row), so a thread searches only when the format changes.
  struct Latest {
    FloatFormat format;
    Rounding rounding;
    Source source;
    std::optional<NarrowPlan<typename Carrier<T>::Bits>> plan;
  };
  thread_local std::optional<Latest> latest;
  if (!latest || latest->format != f || latest->rounding != rounding || latest->source != source)
    latest = Latest{f, rounding, source, make_plan<T>(f, rounding, source)};
  return latest->plan;
}

template std::optional<NarrowPlan<std::uint32_t>> narrow_plan<float>(const FloatFormat&, const Rounding&, Source);
template std::optional<NarrowPlan<std::uint64_t>> narrow_plan<double>(const FloatFormat&, const Rounding&, Source);

bool short_float(const FloatFormat& f) {
  constexpr FloatFormat carrier = Carrier<float>::format;
  FloatFormat whole = f;
  whole.fraction_bits = carrier.fraction_bits;
  return whole == carrier && f.fraction_bits >= 1 && 2 * f.precision() + 2 <= carrier.precision();
}

std::optional<WidenPlan> widen_plan(const FloatFormat& f, bool flush_inputs) {
  constexpr FloatFormat carrier = Carrier<float>::format;
  if (!f.is_signed || !f.has_zero || f.fraction_bits < 1 || f.exponent_bits < 1 || f.storage_bits() > 32)
    return std::nullopt;
  if (f.fraction_bits > carrier.fraction_bits || f.max_finite() < f.min_normal() || f.emax() > carrier.emax())
    return std::nullopt;
  if (f.emin() != carrier.emin() && f.emin() - f.fraction_bits < carrier.emin()) return std::nullopt;
  if (flush_inputs && !f.has_negative_zero()) return std::nullopt;  // a flushed subnormal has no sign there
  WidenPlan plan{};
  plan.linear = f.emin() == carrier.emin();
  plan.flushes = flush_inputs;
  plan.nan_negative_zero = f.nonfinite == NonFinite::nan_negative_zero || f.nonfinite == NonFinite::p3109;
  plan.tail = carrier.fraction_bits - f.fraction_bits;
  plan.magnitude_mask = static_cast<std::uint32_t>(f.magnitude_mask());
  plan.max_finite = static_cast<std::uint32_t>(f.max_finite());
  plan.min_normal = static_cast<std::uint32_t>(f.min_normal());
  plan.infinite = f.has_infinity() ? plan.max_finite + 1 : 0;
  plan.emin = static_cast<std::uint32_t>(f.emin() + carrier.bias) << carrier.fraction_bits;
  plan.sign_shift = 32 - f.storage_bits();
  // The same fields in fp16, whose own infinities and NaN no finite code word may meet.
  const int scale = 15 - f.bias;
  plan.half_shift = 10 - f.fraction_bits;
  plan.halves = !flush_inputs && f.storage_bits() <= 16 && plan.half_shift >= 0 && std::abs(scale) < 64 &&
                (f.max_finite() << plan.half_shift) < 0x7c00;
  plan.half_sign_shift = 16 - f.storage_bits();
  plan.half_scale = plan.halves ? static_cast<float>(FloatFormat::power_of_two(scale)) : 0;
  return plan;
}

}  // namespace halfulp::array
