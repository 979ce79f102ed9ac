// Elements are scaled, rounded and scaled back: by passes over arrays, or all at once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/block/scaling.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/sweep-inl.hpp>
#include <halfulp/emulation/block/blocks-inl.hpp>
#include <halfulp/emulation/block/lanes.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace halfulp::block::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The larger and the smaller of two; a NaN in v stays.
HWY_INLINE hn::Vec<Floats> limited(hn::Vec<Floats> v, hn::Vec<Floats> least, hn::Vec<Floats> most) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE4
  return hn::Max(least, hn::Min(most, v));  // the second operand where one is NaN
#else
  return hn::IfThenElse(hn::Gt(v, most), most, hn::IfThenElse(hn::Lt(v, least), least, v));
#endif
}

template <bool divides, bool limits>
HWY_ATTR void scaled_by(const float* in, std::size_t block, std::size_t count, const float* factors, float limit,
                        float* out) {
  constexpr Floats d;
  const std::size_t lanes = hn::Lanes(d);
  const auto most = hn::Set(d, limit), least = hn::Set(d, -limit);
  const auto apply = [=](auto v, auto f) HWY_ATTR {
    auto q = v;
    if constexpr (divides) q = hn::Div(v, f);
    else q = hn::Mul(v, f);
    if constexpr (limits) return limited(q, least, most);
    else return q;
  };
  const auto one = [&](float v, float f) {
    const float q = divides ? v / f : v * f;
    return q > limit ? limit : q < -limit ? -limit : q;
  };
  if (block == 1) {
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(apply(hn::LoadU(d, in + i), hn::LoadU(d, factors + i)), d, out + i);
    for (; i < count; ++i) out[i] = one(in[i], factors[i]);
    return;
  }
  with_vectors(block, [&]<std::size_t n>() HWY_ATTR {
    if constexpr (n > 0) {
      const auto own = apply;  // copies, which clang keeps in registers; it leaves what is captured in memory
      const float *from = in, *factor = factors, *const end = in + count / block * block;
      float* to = out;
      for (; from != end; from += n * lanes, to += n * lanes) {
        const auto f = hn::Set(d, *factor++);
#pragma GCC unroll 8
        for (std::size_t k = 0; k < n; ++k) hn::StoreU(own(hn::LoadU(d, from + k * lanes), f), d, to + k * lanes);
      }
      in = from, out = to, factors = factor, count %= block;
    }
  });
  each_block(block, count, [&](std::size_t begin, std::size_t size, std::size_t index) HWY_ATTR {
    const auto f = hn::Set(d, factors[index]);
    std::size_t i = 0;
    for (; i + lanes <= size; i += lanes) hn::StoreU(apply(hn::LoadU(d, in + begin + i), f), d, out + begin + i);
    for (; i < size; ++i) out[begin + i] = one(in[begin + i], factors[index]);
  });
}

HWY_ATTR void scaled_any(const float* in, std::size_t block, std::size_t count, const float* factors, bool divides,
                         float limit, float* out) {
  if (divides) return scaled_by<true, true>(in, block, count, factors, limit, out);
  if (limit < std::numeric_limits<float>::infinity())
    return scaled_by<false, true>(in, block, count, factors, limit, out);
  scaled_by<false, false>(in, block, count, factors, limit, out);
}

HWY_ATTR void limit_to(float* x, std::size_t count, float low, float high) {
  constexpr Floats d;
  const std::size_t lanes = hn::Lanes(d);
  const auto least = hn::Set(d, low), most = hn::Set(d, high);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(limited(hn::Add(hn::LoadU(d, x + i), hn::Zero(d)), least, most), d, x + i);
  for (; i < count; ++i) {
    const float v = x[i] + 0.0f;
    x[i] = v < low ? low : v > high ? high : v;
  }
}

/// All at once, to nearest even. Out: values, or code words of up to 8 bits.
template <bool divides, bool integers, class Out>
class InOnePass {
  static constexpr bool values = std::is_same_v<Out, float>;
  using Sweep =
      array::HWY_NAMESPACE::Sweep<float, Out, RoundingMode::nearest_even, array::HWY_NAMESPACE::Cut::by_adder, false,
                                  values ? array::HWY_NAMESPACE::Domain::values : array::HWY_NAMESPACE::Domain::codes>;
  using Narrow = typename Sweep::N;
  using Words = typename Sweep::VU;
  static_assert(Narrow::environment == array::HWY_NAMESPACE::to_nearest, "as multiplications need it");

 public:
  /// Element i is in block i >> shift; a vector is in one block.
  static HWY_ATTR void all(const array::NarrowPlan<std::uint32_t>& plan, const Scaling& scaling, const float* in,
                           int shift, std::size_t count, Out* out) {
    const auto own = plan;  // any() does not see it: its vectors stay in registers
    const Scaling s = scaling;
    const Narrow round(own);
    const std::size_t lanes = hn::Lanes(d);
    const auto four = [&](std::size_t i) HALFULP_ATTR_INLINE {
      const auto at = [=](std::size_t k) HWY_ATTR { return i + k * lanes; };
      const auto scaled = [&](std::size_t k)
                              HALFULP_ATTR_INLINE { return before(s, hn::LoadU(d, in + at(k)), at(k) >> shift); };
      const Words x[4] = {scaled(0), scaled(1), scaled(2), scaled(3)}, none = hn::Zero(du);
      // What is limited does not overflow: only NaN is special.
      const auto value = [&](std::size_t k) HALFULP_ATTR_INLINE { return hn::BitCast(d, x[k]); };
      if (HWY_UNLIKELY(array::HWY_NAMESPACE::any_nan(d, value(0), value(1), value(2), value(3)))) return false;
      if constexpr (values) {
        const auto put = [&](std::size_t k) HALFULP_ATTR_INLINE {
          hn::StoreU(after(s, round.regular(x[k], none), at(k) >> shift), d, out + at(k));
        };
        put(0), put(1), put(2), put(3);
      } else {
        Sweep::put(round, x, {none, none, none, none}, out + i);
      }
      return true;
    };
    array::HWY_NAMESPACE::in_runs(count, 4 * lanes, four, [&](std::size_t i, std::size_t size) HWY_ATTR {
      any(plan, scaling, in, shift, i, i + size, out);
    });
  }

 private:
  static constexpr Floats d{};
  static constexpr hn::RebindToUnsigned<Floats> du{};

  static HWY_INLINE Words before(const Scaling& s, hn::Vec<Floats> v, std::size_t block) {
    const auto factor = hn::Set(d, s.factors[block]);
    if constexpr (divides) v = hn::Div(v, factor);
    else v = hn::Mul(v, factor);
    return hn::BitCast(du, limited(v, hn::Set(d, -s.limit), hn::Set(d, s.limit)));
  }
  static HWY_INLINE hn::Vec<Floats> after(const Scaling& s, Words rounded, std::size_t block) {
    auto v = hn::BitCast(d, rounded);
    if constexpr (integers) v = limited(hn::Add(v, hn::Zero(d)), hn::Set(d, s.least), hn::Set(d, s.most));
    return hn::Mul(v, hn::Set(d, s.values[block]));
  }

  /// Any elements, from a vector's first one on.
  static HWY_NOINLINE HWY_ATTR void any(const array::NarrowPlan<std::uint32_t>& plan, const Scaling& s, const float* in,
                                        int shift, std::size_t begin, std::size_t end, Out* out) {
    const Narrow round(plan);
    HWY_ALIGN float from[HWY_MAX_BYTES / sizeof(float)] = {};
    HWY_ALIGN Out to[HWY_MAX_BYTES / sizeof(float)];
    for (std::size_t i = begin; i < end; i += hn::Lanes(d)) {
      const std::size_t size = std::min(hn::Lanes(d), end - i), block = i >> shift;
      std::copy_n(in + i, size, from);
      const Words rounded = round(before(s, hn::Load(d, from), block), hn::Zero(du));
      if constexpr (values) hn::Store(after(s, rounded, block), d, to);
      else array::HWY_NAMESPACE::store_codes(du, rounded, to);
      std::copy_n(to, size, out + i);
    }
  }
};

/// Whether a vector lies in one block, and a shift finds it: that shift, else -1.
HWY_ATTR int shift_of(std::size_t block, std::size_t count) {
  if (count <= block) return std::numeric_limits<std::size_t>::digits - 1;
  return std::has_single_bit(block) && block >= hn::Lanes(Floats()) ? std::countr_zero(block) : -1;
}

HWY_ATTR bool values_in_one_pass(const array::NarrowPlan<std::uint32_t>& plan, const Scaling& s, const float* in,
                                 std::size_t block, std::size_t count, float* out) {
  const int shift = shift_of(block, count);
  if (shift < 0) return false;
  if (s.integers)
    s.divides ? InOnePass<true, true, float>::all(plan, s, in, shift, count, out)
              : InOnePass<false, true, float>::all(plan, s, in, shift, count, out);
  else
    s.divides ? InOnePass<true, false, float>::all(plan, s, in, shift, count, out)
              : InOnePass<false, false, float>::all(plan, s, in, shift, count, out);
  return true;
}
HWY_ATTR bool codes_in_one_pass(const array::NarrowPlan<std::uint32_t>& plan, const Scaling& s, const float* in,
                                std::size_t block, std::size_t count, std::uint8_t* out) {
  const int shift = shift_of(block, count);
  if (shift < 0) return false;
  s.divides ? InOnePass<true, false, std::uint8_t>::all(plan, s, in, shift, count, out)
            : InOnePass<false, false, std::uint8_t>::all(plan, s, in, shift, count, out);
  return true;
}

}  // namespace halfulp::block::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::block {

HWY_EXPORT(scaled_any);
HWY_EXPORT(limit_to);
HWY_EXPORT(values_in_one_pass);
HWY_EXPORT(codes_in_one_pass);

void scaled(const float* in, std::size_t block, std::size_t count, const float* factors, bool divides, float limit,
            float* out) {
  HWY_DYNAMIC_DISPATCH(scaled_any)(in, block, count, factors, divides, limit, out);
}
void limit(float* x, std::size_t count, float low, float high) { HWY_DYNAMIC_DISPATCH(limit_to)(x, count, low, high); }

bool has_one_pass(const array::NarrowPlan<std::uint32_t>& plan) {
  return plan.mode == RoundingMode::nearest_even && !plan.linear && !plan.flushes && !plan.unsigned_zero;
}
bool round_in_one_pass(const array::NarrowPlan<std::uint32_t>& plan, const Scaling& s, const float* in,
                       std::size_t block, std::size_t count, float* out) {
  return HWY_DYNAMIC_DISPATCH(values_in_one_pass)(plan, s, in, block, count, out);
}
bool round_in_one_pass(const array::NarrowPlan<std::uint32_t>& plan, const Scaling& s, const float* in,
                       std::size_t block, std::size_t count, std::uint8_t* out) {
  return HWY_DYNAMIC_DISPATCH(codes_in_one_pass)(plan, s, in, block, count, out);
}

}  // namespace halfulp::block
#endif
