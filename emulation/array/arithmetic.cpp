// Element-wise operations on values in a carrier, so that one more rounding gives the format's result.
//
// Let p be the format's precision. Products are exact in the carrier where it has 2p bits. Quotients and square roots of
// p-bit numbers are never closer to a (p + 1)-bit number than 2^-(2p + 1) of it, unless equal: rounded to nearest with
// 2p + 2 bits they stand on the side of every value and midpoint where they belong (Figueroa 1995). Sums rounded to
// nearest do so for nearest-even alone; the others are rounded to odd (Boldo & Melquiond 2008), made of the sum and
// its exact error (Knuth's TwoSum).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/arithmetic.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/array/narrow-inl.hpp>

#include <algorithm>
#include <cstring>
#include <stdexcept>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// a + b; an exactly zero sum of different signs is -0 where asked for (toward-negative).
template <Sums sums, class D, class V = hn::Vec<D>>
HWY_INLINE V add_in(D d, V a, V b) {
  const V sum = hn::Add(a, b);
  if constexpr (sums == Sums::nearest) return sum;
  const hn::RebindToSigned<D> di;
  const V b_part = hn::Sub(sum, a);
  const V error = hn::Add(hn::Sub(a, hn::Sub(sum, b_part)), hn::Sub(b, b_part));
  // Truncated, then odd if anything was lost. (The error of an infinite sum is NaN: nothing lost.)
  const auto lost = hn::RebindMask(di, hn::Or(hn::Lt(error, hn::Zero(d)), hn::Gt(error, hn::Zero(d))));
  const auto opposed = hn::Lt(hn::BitCast(di, hn::Xor(error, sum)), hn::Zero(di));
  auto bits = sub_one_if(di, hn::And(lost, opposed), hn::BitCast(di, sum));
  bits = hn::Or(bits, hn::IfThenElseZero(lost, hn::Set(di, 1)));
  if constexpr (sums == Sums::odd_negative_zero) {
    const auto zero = hn::RebindMask(di, hn::Eq(sum, hn::Zero(d)));
    const auto sign = hn::And(hn::BitCast(di, hn::Or(a, b)), hn::BitCast(di, hn::SignBit(d)));
    bits = hn::Or(bits, hn::IfThenElseZero(zero, sign));
  }
  return hn::BitCast(d, bits);
}

template <Operation op, Sums sums, class D, class V = hn::Vec<D>>
HWY_INLINE V apply(D d, V a, V b, V c) {
  if constexpr (op == Operation::add) return add_in<sums>(d, a, b);
  else if constexpr (op == Operation::sub) return add_in<sums>(d, a, hn::Neg(b));
  else if constexpr (op == Operation::mul) return hn::Mul(a, b);
  else if constexpr (op == Operation::div) return hn::Div(a, b);
  else if constexpr (op == Operation::sqrt) return hn::Sqrt(a);
  else return add_in<sums>(d, hn::Mul(a, b), c);
}

/// Calls f with a tag of the operation and the rounding of its sums.
template <class F>
HWY_INLINE void with_operation(Operation op, Sums sums, F f) {
  const auto with_sums = [&]<Operation o>(std::integral_constant<Operation, o> tag) HWY_ATTR {
    switch (sums) {
      case Sums::nearest: return f(tag, std::integral_constant<Sums, Sums::nearest>{});
      case Sums::odd: return f(tag, std::integral_constant<Sums, Sums::odd>{});
      case Sums::odd_negative_zero: return f(tag, std::integral_constant<Sums, Sums::odd_negative_zero>{});
    }
  };
  using enum Operation;
  switch (op) {
    case add: return with_sums(std::integral_constant<Operation, add>{});
    case sub: return with_sums(std::integral_constant<Operation, sub>{});
    case fma: return with_sums(std::integral_constant<Operation, fma>{});
    case mul: return f(std::integral_constant<Operation, mul>{}, std::integral_constant<Sums, Sums::nearest>{});
    case div: return f(std::integral_constant<Operation, div>{}, std::integral_constant<Sums, Sums::nearest>{});
    case sqrt: return f(std::integral_constant<Operation, sqrt>{}, std::integral_constant<Sums, Sums::nearest>{});
    default: throw std::logic_error("array arithmetic: add, sub, mul, div, sqrt, fma");
  }
}

/// Blocks are padded to whole vectors.
HWY_ATTR void combine_in_float(Operation op, Sums sums, const float* a, const float* b, const float* c, float* out, std::size_t count) {
  const hn::ScalableTag<float> d;
  with_operation(op, sums, [&]<Operation o, Sums s>(std::integral_constant<Operation, o>, std::integral_constant<Sums, s>) HWY_ATTR {
    for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
      const auto x = hn::LoadU(d, a + i), y = info(o).arity > 1 ? hn::LoadU(d, b + i) : x, z = info(o).arity > 2 ? hn::LoadU(d, c + i) : x;
      hn::StoreU(apply<o, s>(d, x, y, z), d, out + i);
    }
  });
}

HWY_ATTR void combine_in_double(Operation op, Sums sums, const float* a, const float* b, const float* c, double* out, std::size_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  with_operation(op, sums, [&]<Operation o, Sums s>(std::integral_constant<Operation, o>, std::integral_constant<Sums, s>) HWY_ATTR {
    const auto load = [&](const float* from) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(half, from)); };
    for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
      const auto x = load(a + i), y = info(o).arity > 1 ? load(b + i) : x, z = info(o).arity > 2 ? load(c + i) : x;
      hn::StoreU(apply<o, s>(d, x, y, z), d, out + i);
    }
  });
}

// --- fp16 where the CPU converts it -----------------------------------------------------------------------------------

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
inline constexpr bool has_f16c = true;

template <RoundingMode mode>
inline constexpr int f16c_mode = mode == RoundingMode::nearest_even ? _MM_FROUND_TO_NEAREST_INT
    : mode == RoundingMode::toward_zero ? _MM_FROUND_TO_ZERO
    : mode == RoundingMode::toward_positive ? _MM_FROUND_TO_POS_INF : _MM_FROUND_TO_NEG_INF;
template <RoundingMode mode>
inline constexpr bool in_f16c = mode == RoundingMode::nearest_even || mode == RoundingMode::toward_zero ||
                                mode == RoundingMode::toward_positive || mode == RoundingMode::toward_negative;

/// Floats to fp16, NaN made canonical. Modes that VCVTPS2PH lacks round to fp16 values first, as floats.
template <RoundingMode mode, bool as_ieee, class D, class V = hn::Vec<D>>
HWY_INLINE auto to_half(D d, const NarrowPlan<std::uint32_t>& plan, V value) {
  const hn::RebindToUnsigned<D> du;
  constexpr bool direct = in_f16c<mode> && as_ieee;
  if constexpr (direct) {
    value = hn::IfThenElse(hn::Eq(value, value), value, hn::BitCast(d, hn::Set(du, plan.values.nan)));
  } else {
    value = hn::BitCast(d, Narrow<float, mode, false, false, Domain::values>(plan)(hn::BitCast(du, value), hn::Zero(du)));
  }
#if HWY_TARGET <= HWY_AVX3
  return hn::Vec256<std::uint16_t>{_mm512_maskz_cvtps_ph(0xffff, value.raw, (direct ? f16c_mode<mode> : 0) | _MM_FROUND_NO_EXC)};
#else
  return hn::Vec128<std::uint16_t>{_mm256_cvtps_ph(value.raw, direct ? f16c_mode<mode> : 0)};
#endif
}

template <RoundingMode mode, bool as_ieee>
HWY_ATTR void half_in_mode(Operation op, Sums sums, const NarrowPlan<std::uint32_t>& plan, const std::uint16_t* a, const std::uint16_t* b,
                           const std::uint16_t* c, std::uint16_t* out, std::size_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d);
  with_operation(op, sums, [&]<Operation o, Sums s>(std::integral_constant<Operation, o>, std::integral_constant<Sums, s>) HWY_ATTR {
    const auto load = [&](const std::uint16_t* from) HWY_ATTR { return hn::PromoteTo(d, hn::BitCast(half, hn::LoadU(d16, from))); };
    const auto step = [&](const std::uint16_t* x, const std::uint16_t* y, const std::uint16_t* z, std::uint16_t* to) HWY_ATTR {
      const auto v = load(x);
      hn::StoreU(to_half<mode, as_ieee>(d, plan, apply<o, s>(d, v, info(o).arity > 1 ? load(y) : v, info(o).arity > 2 ? load(z) : v)), d16, to);
    };
    for (std::size_t i = 0; i < count; i += lanes) step(a + i, b + (info(o).arity > 1 ? i : 0), c + (info(o).arity > 2 ? i : 0), out + i);
  });
}

template <bool as_ieee>
HWY_ATTR void half_any(Operation op, Sums sums, const NarrowPlan<std::uint32_t>& plan, const std::uint16_t* a, const std::uint16_t* b,
                       const std::uint16_t* c, std::uint16_t* out, std::size_t count) {
  using enum RoundingMode;
  switch (plan.mode) {
    case nearest_even: return half_in_mode<nearest_even, as_ieee>(op, sums, plan, a, b, c, out, count);
    case nearest_away: return half_in_mode<nearest_away, as_ieee>(op, sums, plan, a, b, c, out, count);
    case nearest_to_zero: return half_in_mode<nearest_to_zero, as_ieee>(op, sums, plan, a, b, c, out, count);
    case toward_zero: return half_in_mode<toward_zero, as_ieee>(op, sums, plan, a, b, c, out, count);
    case toward_positive: return half_in_mode<toward_positive, as_ieee>(op, sums, plan, a, b, c, out, count);
    case toward_negative: return half_in_mode<toward_negative, as_ieee>(op, sums, plan, a, b, c, out, count);
    case to_odd: return half_in_mode<to_odd, as_ieee>(op, sums, plan, a, b, c, out, count);
    case stochastic: break;
  }
  throw std::logic_error("array arithmetic: stochastic rounding goes through double");
}
#else
inline constexpr bool has_f16c = false;
#endif

HWY_ATTR bool combine_halves(Operation op, Sums sums, bool as_ieee, const NarrowPlan<std::uint32_t>& plan, const std::uint16_t* a,
                             const std::uint16_t* b, const std::uint16_t* c, std::uint16_t* out, std::size_t count) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if (as_ieee) half_any<true>(op, sums, plan, a, b, c, out, count);
  else half_any<false>(op, sums, plan, a, b, c, out, count);
#else
  (void)op, (void)sums, (void)as_ieee, (void)plan, (void)a, (void)b, (void)c, (void)out, (void)count;
#endif
  return has_f16c;
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(combine_in_float);
HWY_EXPORT(combine_in_double);
HWY_EXPORT(combine_halves);

void combine_lanes(Operation op, Sums sums, const float* a, const float* b, const float* c, float* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(combine_in_float)(op, sums, a, b, c, out, count);
}
void combine_lanes(Operation op, Sums sums, const float* a, const float* b, const float* c, double* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(combine_in_double)(op, sums, a, b, c, out, count);
}
bool combine_half_lanes(Operation op, Sums sums, bool saturates, const NarrowPlan<std::uint32_t>& plan, const std::uint16_t* a,
                        const std::uint16_t* b, const std::uint16_t* c, std::uint16_t* out, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(combine_halves)(op, sums, !saturates, plan, a, b, c, out, count);
}

}  // namespace halfulp::array
#endif
