#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/block/steps.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/block/blocks-inl.hpp>
#include <halfulp/emulation/block/steps.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

HWY_BEFORE_NAMESPACE();
namespace halfulp::block::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::RebindToUnsigned<Ints>;

/// A vector of which the first `left` lanes are there, or all. Not by masks: where the CPU has none, Highway's
/// functions go to memory beyond them.
template <class D, class T>
HWY_INLINE hn::Vec<D> load(D d, const T* from, std::size_t left) {
  if (left >= hn::Lanes(d)) return hn::LoadU(d, from);
  HWY_ALIGN T some[hn::MaxLanes(d)] = {};
  std::memcpy(some, from, left * sizeof(T));
  return hn::Load(d, some);
}
template <class D, class T>
HWY_INLINE void store(hn::Vec<D> v, D d, T* to, std::size_t left) {
  if (left >= hn::Lanes(d)) return hn::StoreU(v, d, to);
  HWY_ALIGN T some[hn::MaxLanes(d)];
  hn::Store(v, d, some);
  std::memcpy(to, some, left * sizeof(T));
}
HWY_INLINE hn::Vec<Ints> load_magnitudes(const std::uint32_t* from, std::size_t left) {
  return hn::BitCast(Ints(), load(Words(), from, left));
}
HWY_INLINE hn::Mask<Ints> are_nan(hn::Vec<Ints> magnitudes) {
  return hn::Gt(magnitudes, hn::Set(Ints(), 0x7f80'0000));  // beyond infinity
}

/// Scales that are powers of two: 2^k, of which `values` get 2^k and `factors` 2^-k.
template <ScaleRule rule>
HWY_ATTR void powers(const BlockFormat& f, const std::uint32_t* magnitudes, std::size_t count, std::uint32_t* scales,
                     float* factors, float* values) {
  constexpr Floats d;
  constexpr Ints di;
  const auto set = [](int value) HWY_ATTR { return hn::Set(Ints(), value); };
  const auto as_float = [](hn::Vec<Ints> bits) HWY_ATTR { return hn::BitCast(Floats(), bits); };
  const int least = f.scale.emin(), first = f.scale.has_zero ? 1 : 0, half = 1 << (22 - f.element.top_fraction_bits());
  const auto target = hn::Set(d, static_cast<float>(f.element.target()));
  const auto nan_code = set(static_cast<int>(f.scale.canonical_nan()));
  const auto nan_value = hn::Set(d, scale_value(f.scale, static_cast<std::uint32_t>(f.scale.canonical_nan())));
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const std::size_t left = count - i;
    auto bits = load_magnitudes(magnitudes + i, left);
    const auto nan = are_nan(bits);
    if constexpr (rule == ScaleRule::rceil) bits = hn::BitCast(di, hn::Div(as_float(bits), target));
    if constexpr (rule == ScaleRule::even) bits = hn::Add(bits, set(half));  // of a NaN it may reach the sign
    const auto fraction = hn::And(bits, set(0x7f'ffff));
    auto k = hn::Sub(hn::BitCast(di, hn::ShiftRight<23>(hn::BitCast(Words(), bits))), set(127));
    const auto above = [&](hn::Vec<Ints> limit) HWY_ATTR { return hn::VecFromMask(di, hn::Gt(fraction, limit)); };
    if constexpr (rule == ScaleRule::ceil) k = hn::Sub(k, above(hn::Zero(di)));
    if constexpr (rule == ScaleRule::rceil)
      k = hn::Sub(k, above(hn::IfThenElseZero(hn::Eq(k, set(-127)), set(0x40'0000))));
    else k = hn::Sub(k, set(f.element.emax()));
    k = hn::Min(hn::Max(k, set(least)), set(f.scale.emax()));
    const auto code = hn::ShiftLeftSame(hn::Add(k, set(first - least)), f.scale.fraction_bits);
    store(hn::BitCast(Words(), hn::IfThenElse(nan, nan_code, code)), Words(), scales + i, left);
    // 2^-127 is subnormal.
    const auto up = hn::IfThenElse(hn::Lt(k, set(-126)), set(0x40'0000), hn::ShiftLeft<23>(hn::Add(k, set(127))));
    const auto down = hn::IfThenElse(hn::Gt(k, set(126)), set(0x40'0000), hn::ShiftLeft<23>(hn::Sub(set(127), k)));
    const auto nan_here = hn::RebindMask(d, nan);
    store(hn::IfThenElse(nan_here, nan_value, as_float(up)), d, values + i, left);
    store(hn::IfThenElse(nan_here, nan_value, as_float(down)), d, factors + i, left);
  }
}

HWY_ATTR void powers_of_two(const BlockFormat& f, const std::uint32_t* magnitudes, std::size_t count,
                            std::uint32_t* scales, float* factors, float* values) {
  switch (f.rule) {
    case ScaleRule::amax: break;
    case ScaleRule::floor: return powers<ScaleRule::floor>(f, magnitudes, count, scales, factors, values);
    case ScaleRule::ceil: return powers<ScaleRule::ceil>(f, magnitudes, count, scales, factors, values);
    case ScaleRule::even: return powers<ScaleRule::even>(f, magnitudes, count, scales, factors, values);
    case ScaleRule::rceil: return powers<ScaleRule::rceil>(f, magnitudes, count, scales, factors, values);
  }
}

/// values = magnitude / target / tensor: scales before they are rounded. Most formats have no scale of the tensor, and
/// to divide by 1 would take as long again.
HWY_ATTR void quotients_of(const std::uint32_t* magnitudes, std::size_t count, float target, float tensor,
                           float* values) {
  constexpr Floats d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const std::size_t left = count - i;
    auto value = hn::Div(hn::BitCast(d, load_magnitudes(magnitudes + i, left)), hn::Set(d, target));
    if (tensor != 1) value = hn::Div(value, hn::Set(d, tensor));
    store(value, d, values + i, left);
  }
}

/// Rounded scales are at least `least`, and NaN where magnitudes are.
HWY_ATTR void limit_codes(const std::uint32_t* magnitudes, std::size_t count, std::uint32_t least, std::uint32_t nan,
                          std::uint32_t* codes) {
  constexpr Words d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const std::size_t left = count - i;
    const auto is_nan = hn::RebindMask(d, are_nan(load_magnitudes(magnitudes + i, left)));
    const auto limited = hn::Max(load(d, codes + i, left), hn::Set(d, least));
    store(hn::IfThenElse(is_nan, hn::Set(d, nan), limited), d, codes + i, left);
  }
}

/// From scales s: values = s * tensor; factors = 1 / tensor / s, at most the largest float, or where elements are
/// divided the values, too.
HWY_ATTR void there_and_back(const float* scales, std::size_t count, float tensor, bool divides, float* factors,
                             float* values) {
  constexpr Floats d;
  const auto inverse = hn::Set(d, 1.0f / tensor), most = hn::Set(d, std::numeric_limits<float>::max());
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const std::size_t left = count - i;
    const auto s = load(d, scales + i, left), value = hn::Mul(s, hn::Set(d, tensor));
    auto factor = value;
    if (!divides) {
      const auto quotient = hn::Div(inverse, s);
      factor = hn::IfThenElse(hn::Gt(quotient, most), most, quotient);  // a NaN stays
    }
    store(factor, d, factors + i, left);
    store(value, d, values + i, left);
  }
}

}  // namespace halfulp::block::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::block {

HWY_EXPORT(powers_of_two);
HWY_EXPORT(quotients_of);
HWY_EXPORT(limit_codes);
HWY_EXPORT(there_and_back);

namespace {

void resize(Steps& steps, std::size_t count, bool affine) {
  steps.scales.resize(count);
  steps.factors.resize(count);
  steps.values.resize(count);
  steps.zeros.resize(affine ? count : 0);
}

void put(Steps& steps, std::size_t i, const BlockStep& step) {
  steps.scales[i] = step.scale;
  steps.factors[i] = step.factor;
  steps.values[i] = step.value;
  steps.divides = step.divides;
  if (!steps.zeros.empty()) steps.zeros[i] = step.zero;
}

/// Whether powers_of_two is correct. It reads the exponent field only, except for rceil. For subnormal magnitudes the
/// other rules must therefore clamp the exponent, which requires an emax of at least 0 (floor) or 1 (ceil, even).
bool by_exponent_field(const BlockFormat& f) {
  return f.rule == ScaleRule::rceil || f.element.emax() >= (f.rule == ScaleRule::floor ? 0 : 1);
}

/// Scales that are quotients rounded to the scale's format.
void quotients(const BlockFormat& f, std::span<const std::uint32_t> magnitudes, float given, Steps& steps) {
  const float tensor = f.tensor_scale ? given : 1;
  const std::size_t count = magnitudes.size();
  HWY_DYNAMIC_DISPATCH(quotients_of)
  (magnitudes.data(), count, static_cast<float>(f.element.target()), tensor, steps.values.data());
  const bool floats = f.scale == fp32;  // nothing to round
  Rounding nearest;
  nearest.overflow = Overflow::saturate;
  if (floats)
    for (std::size_t i = 0; i < count; ++i) steps.scales[i] = bits_of(bounded(steps.values[i]));
  else encode<float, std::uint32_t>(f.scale, nearest, steps.values, steps.scales);
  HWY_DYNAMIC_DISPATCH(limit_codes)
  (magnitudes.data(), count, static_cast<std::uint32_t>(f.scale.min_normal()),
   static_cast<std::uint32_t>(f.scale.canonical_nan()), steps.scales.data());
  if (floats)
    for (std::size_t i = 0; i < count; ++i) steps.factors[i] = std::bit_cast<float>(steps.scales[i]);
  else decode<std::uint32_t>(f.scale, steps.scales, steps.factors);
  steps.divides = f.use == ScaleUse::divide;
  float* const factors = steps.factors.data();
  HWY_DYNAMIC_DISPATCH(there_and_back)(factors, count, tensor, steps.divides, factors, steps.values.data());
}

}  // namespace

void find_steps(const BlockFormat& f, std::span<const std::uint32_t> magnitudes, float tensor, Steps& steps) {
  resize(steps, magnitudes.size(), false);
  if (f.rule == ScaleRule::amax && f.use != ScaleUse::multiplier) return quotients(f, magnitudes, tensor, steps);
  if (f.rule != ScaleRule::amax && by_exponent_field(f)) {
    steps.divides = false;
    HWY_DYNAMIC_DISPATCH(powers_of_two)
    (f, magnitudes.data(), magnitudes.size(), steps.scales.data(), steps.factors.data(), steps.values.data());
    return;
  }
  for (std::size_t i = 0; i < magnitudes.size(); ++i)
    put(steps, i, block_step(f, std::bit_cast<float>(magnitudes[i]), tensor));
}

void find_affine_steps(const BlockFormat& f, std::span<const std::uint32_t> magnitudes, std::span<const float> low,
                       std::span<const float> high, Steps& steps) {
  resize(steps, magnitudes.size(), true);
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    const bool is_nan = magnitudes[i] > std::uint32_t{0x7f80'0000};
    const float nan = std::numeric_limits<float>::quiet_NaN();
    put(steps, i, affine_step(f, is_nan ? nan : low[i], is_nan ? nan : high[i]));
  }
}

}  // namespace halfulp::block
#endif
