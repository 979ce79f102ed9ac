#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/block/lanes.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/block/lanes.hpp>
#include <halfulp/emulation/block/blocks-inl.hpp>

#include <algorithm>
#include <bit>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace halfulp::block::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE std::int32_t magnitude(const float* x) { return std::bit_cast<std::int32_t>(*x) & 0x7fff'ffff; }

#if HWY_TARGET != HWY_SCALAR
/// In each 128 bits, lanes of D's width alternate between those of a and of b; each is the larger of two.
template <class D>
HWY_INLINE hn::Vec<Ints> larger_of_pairs(D d, hn::Vec<Ints> a, hn::Vec<Ints> b) {
  const auto x = hn::BitCast(d, a), y = hn::BitCast(d, b);
  return hn::Max(hn::BitCast(Ints(), hn::InterleaveLower(d, x, y)), hn::BitCast(Ints(), hn::InterleaveUpper(d, x, y)));
}
template <class F>
HWY_INLINE hn::Vec<Ints> largest_of_four(std::size_t i, const F& v) {
  constexpr hn::RepartitionToWide<Ints> wide;
  return larger_of_pairs(wide, larger_of_pairs(Ints(), v(i), v(i + 1)), larger_of_pairs(Ints(), v(i + 2), v(i + 3)));
}
/// Lane i of the result is the largest lane of v(i). To find that of one vector takes nearly as many steps.
template <class F>
HWY_INLINE hn::Vec<Ints> largest_of_each(const F& v) {
#if HWY_MAX_BYTES == 16
  return largest_of_four(0, v);
#elif HWY_MAX_BYTES == 32
  const auto x = largest_of_four(0, v), y = largest_of_four(4, v);
  return hn::Max(hn::ConcatLowerLower(Ints(), y, x), hn::ConcatUpperUpper(Ints(), y, x));
#else
  const auto pairs = [](hn::Vec<Ints> x, hn::Vec<Ints> y) HWY_ATTR {
    return hn::Vec<Ints>{
        _mm512_max_epi32(_mm512_shuffle_i32x4(x.raw, y.raw, 0x88), _mm512_shuffle_i32x4(x.raw, y.raw, 0xdd))};
  };
  return pairs(pairs(largest_of_four(0, v), largest_of_four(4, v)),
               pairs(largest_of_four(8, v), largest_of_four(12, v)));
#endif
}
#endif

HWY_ATTR void magnitudes_of(const float* in, std::size_t block, std::size_t count, std::uint32_t* out) {
  constexpr Floats d;
  constexpr Ints di;
  const std::size_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(di, 0x7fff'ffff);
  const auto load = [&](const float* from) HWY_ATTR { return hn::And(hn::BitCast(di, hn::LoadU(d, from)), mask); };
  const auto raise = [&](std::uint32_t* to, hn::Vec<Ints> v) HWY_ATTR {
    constexpr hn::RebindToUnsigned<Ints> du;
    hn::StoreU(hn::BitCast(du, hn::Max(hn::BitCast(di, hn::LoadU(du, to)), v)), du, to);
  };
  if (block == 1) {
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) raise(out + i, load(in + i));
    for (; i < count; ++i) out[i] = std::max(out[i], static_cast<std::uint32_t>(magnitude(in + i)));
    return;
  }
#if HWY_TARGET != HWY_SCALAR
  with_vectors(block, [&]<std::size_t n>() HWY_ATTR {
    if constexpr (n > 0) {
      for (; count >= lanes * block; in += lanes * block, count -= lanes * block, out += lanes) {
        const auto largest = [&](std::size_t i) HWY_ATTR {
          auto most = load(in + i * block);
#pragma GCC unroll 8
          for (std::size_t k = 1; k < n; ++k) most = hn::Max(most, load(in + i * block + k * lanes));
          return most;
        };
        raise(out, largest_of_each(largest));
      }
    }
  });
#endif
  each_block(block, count, [&](std::size_t begin, std::size_t size, std::size_t index) HWY_ATTR {
    const float* x = in + begin;
    auto m0 = hn::Zero(di), m1 = hn::Zero(di);
    std::size_t i = 0;
    for (; i + 2 * lanes <= size; i += 2 * lanes) {
      m0 = hn::Max(m0, load(x + i));
      m1 = hn::Max(m1, load(x + i + lanes));
    }
    if (i + lanes <= size) {
      m0 = hn::Max(m0, load(x + i));
      i += lanes;
    }
    std::int32_t most = hn::GetLane(hn::MaxOfLanes(di, hn::Max(m0, m1)));
    for (; i < size; ++i) most = std::max(most, magnitude(x + i));
    out[index] = std::max(out[index], static_cast<std::uint32_t>(most));
  });
}

HWY_ATTR void extremes_of(const float* in, std::size_t block, std::size_t count, float* low, float* high) {
  constexpr Floats d;
  const std::size_t lanes = hn::Lanes(d);
  each_block(block, count, [&](std::size_t begin, std::size_t size, std::size_t index) HWY_ATTR {
    const float* x = in + begin;
    auto least = hn::Set(d, low[index]), most = hn::Set(d, high[index]);
    std::size_t i = 0;
    for (; i + lanes <= size; i += lanes) {
      const auto v = hn::LoadU(d, x + i);
      least = hn::Min(least, v);
      most = hn::Max(most, v);
    }
    float a = hn::GetLane(hn::MinOfLanes(d, least)), b = hn::GetLane(hn::MaxOfLanes(d, most));
    for (; i < size; ++i) a = std::min(a, x[i]), b = std::max(b, x[i]);
    low[index] = a, high[index] = b;
  });
}

HWY_ATTR void to_affine_codes(const std::uint16_t* in, std::size_t count, int sign, int zero, int least, int most,
                              int bits, std::uint8_t* out) {
  constexpr hn::ScalableTag<std::int16_t> d;
  constexpr hn::RebindToUnsigned<decltype(d)> du;
  constexpr hn::Rebind<std::uint8_t, decltype(d)> d8;
  const std::size_t lanes = hn::Lanes(d);
  const auto set = [=](int value) HWY_ATTR { return hn::Set(d, static_cast<std::int16_t>(value)); };
  const int mask = (1 << bits) - 1;
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto code = hn::BitCast(d, hn::LoadU(du, in + i)), magnitude = hn::And(code, set(sign - 1));
    const auto value = hn::IfThenElse(hn::TestBit(code, set(sign)), hn::Neg(magnitude), magnitude);
    const auto limited = hn::Min(hn::Max(hn::Add(value, set(zero)), set(least)), set(most));
    hn::StoreU(hn::TruncateTo(d8, hn::BitCast(du, hn::And(limited, set(mask)))), d8, out + i);
  }
  for (; i < count; ++i) {
    const int magnitude = in[i] & (sign - 1), value = (in[i] & sign ? -magnitude : magnitude) + zero;
    out[i] = static_cast<std::uint8_t>(std::clamp(value, least, most) & mask);
  }
}

HWY_ATTR void to_twos_complement(std::uint8_t* codes, std::size_t count, int bits) {
  constexpr hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto sign_bit = static_cast<std::uint8_t>(1u << (bits - 1)), mask = static_cast<std::uint8_t>(sign_bit * 2 - 1);
  const auto sign = hn::Set(d, sign_bit), all = hn::Set(d, mask);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto code = hn::LoadU(d, codes + i), magnitude = hn::AndNot(sign, code);
    const auto negated = hn::And(hn::Sub(hn::Zero(d), magnitude), all);
    hn::StoreU(hn::IfThenElse(hn::TestBit(code, sign), negated, magnitude), d, codes + i);
  }
  for (; i < count; ++i) {
    const unsigned magnitude = codes[i] & (sign_bit - 1u);
    codes[i] = static_cast<std::uint8_t>((codes[i] & sign_bit ? 0 - magnitude : magnitude) & mask);
  }
}

template <std::size_t R>
HWY_INLINE void sums_of_rows(const double* a, std::size_t a_step, std::size_t count, const double* b, std::size_t n,
                             double* sums) {
  constexpr hn::ScalableTag<double> d;
  constexpr std::size_t together = hn::MaxLanes(d) == 8 ? 4 : 2;  // 32 registers, or 16
  const std::size_t lanes = hn::Lanes(d);
  std::size_t j = 0;
  for (; j + together * lanes <= n; j += together * lanes) {
    hn::Vec<decltype(d)> sum[R][together];
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t v = 0; v < together; ++v) sum[r][v] = hn::Zero(d);
    for (std::size_t k = 0; k < count; ++k)
      for (std::size_t v = 0; v < together; ++v) {
        const auto column = hn::LoadU(d, b + k * n + j + v * lanes);
        for (std::size_t r = 0; r < R; ++r) sum[r][v] = hn::MulAdd(hn::Set(d, a[r * a_step + k]), column, sum[r][v]);
      }
    for (std::size_t r = 0; r < R; ++r)
      for (std::size_t v = 0; v < together; ++v) hn::StoreU(sum[r][v], d, sums + r * n + j + v * lanes);
  }
  for (; j < n; ++j)
    for (std::size_t r = 0; r < R; ++r) {
      double sum = 0;
      for (std::size_t k = 0; k < count; ++k) sum += a[r * a_step + k] * b[k * n + j];
      sums[r * n + j] = sum;
    }
}
HWY_ATTR void sums_of(const double* a, std::size_t rows, std::size_t a_step, std::size_t count, const double* b,
                      std::size_t n, double* sums) {
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4) sums_of_rows<4>(a + r * a_step, a_step, count, b, n, sums + r * n);
  for (; r < rows; ++r) sums_of_rows<1>(a + r * a_step, a_step, count, b, n, sums + r * n);
}

}  // namespace halfulp::block::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::block {

HWY_EXPORT(magnitudes_of);
HWY_EXPORT(extremes_of);
HWY_EXPORT(to_affine_codes);
HWY_EXPORT(to_twos_complement);
HWY_EXPORT(sums_of);

void magnitudes(const float* in, std::size_t block, std::size_t count, std::uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(magnitudes_of)(in, block, count, out);
}
void extremes(const float* in, std::size_t block, std::size_t count, float* low, float* high) {
  HWY_DYNAMIC_DISPATCH(extremes_of)(in, block, count, low, high);
}
void twos_complement(std::uint8_t* codes, std::size_t count, int bits) {
  HWY_DYNAMIC_DISPATCH(to_twos_complement)(codes, count, bits);
}
void affine_codes(const std::uint16_t* in, std::size_t count, int sign, int zero, int least, int most, int bits,
                  std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(to_affine_codes)(in, count, sign, zero, least, most, bits, out);
}
void sums_of_products(const double* a, std::size_t rows, std::size_t a_step, std::size_t count, const double* b,
                      std::size_t n, double* sums) {
  HWY_DYNAMIC_DISPATCH(sums_of)(a, rows, a_step, count, b, n, sums);
}

}  // namespace halfulp::block
#endif
