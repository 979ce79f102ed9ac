// Philox4x32-10 (Salmon et al. 2011) on vectors: the words of random.hpp, element after element.
#if defined(HALFULP_ARRAY_PHILOX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_ARRAY_PHILOX_INL
#undef HALFULP_ARRAY_PHILOX_INL
#else
#define HALFULP_ARRAY_PHILOX_INL
#endif

#include <halfulp/emulation/random.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Vectors of blocks at a time: a single one would wait for its own multiplications. AVX-512 has registers for four.
inline constexpr std::size_t philox_vectors = HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86 ? 4 : 2;

/// words[i] = word i mod 4 of block (first_block + i / 4) mod 2^62 (indices of words wrap at 2^64), for the blocks of
/// key `seed` and stream `stream`. count: a multiple of philox_step(); at most 128 words on any CPU we know.
inline HWY_ATTR std::size_t philox_step() { return 4 * philox_vectors * hn::Lanes(hn::ScalableTag<std::uint64_t>{}); }

#if HWY_TARGET != HWY_SCALAR
/// The lower halves of two lanes as one.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V pair(D d, V lower, V upper) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  (void)d;
  return V{_mm512_mask_shuffle_epi32(lower.raw, 0xaaaa, upper.raw, _MM_PERM_CCAA)};
#else
  return hn::Or(hn::And(lower, hn::Set(d, 0xffff'ffffu)), hn::ShiftLeft<32>(upper));
#endif
}
#endif

inline HWY_ATTR void philox_words(std::uint64_t seed, std::uint64_t stream, std::uint64_t first_block,
                                  std::uint32_t* words, std::size_t count) {
  constexpr std::uint64_t last_block = ~std::uint64_t{0} >> 2;
#if HWY_TARGET == HWY_SCALAR  // no vectors at all
  for (std::size_t i = 0; i < count; i += 4)
    std::ranges::copy(philox(seed, stream, (first_block + i / 4) & last_block), words + i);
#else
  const hn::ScalableTag<std::uint64_t> d;
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  const std::size_t lanes = hn::Lanes(d);
  const auto m0 = hn::BitCast(d32, hn::Set(d, 0xD251'1F53u)), m1 = hn::BitCast(d32, hn::Set(d, 0xCD9E'8D57u));
  HWY_ALIGN std::uint64_t keys[10][2][HWY_MAX_BYTES / 8];
  for (std::uint32_t round = 0; round < 10; ++round) {
    hn::Store(hn::Set(d, static_cast<std::uint32_t>(seed) + round * 0x9E37'79B9u), d, keys[round][0]);
    hn::Store(hn::Set(d, static_cast<std::uint32_t>(seed >> 32) + round * 0xBB67'AE85u), d, keys[round][1]);
  }
  // One block a lane; of each counter word the upper half of the lane is rubbish that nothing looks at.
  struct Blocks {
    hn::Vec<decltype(d)> c0, c1, c2, c3;
  };
  // Lanes 0 1 2 3 ... compute blocks 0 n/2 1 n/2+1 ...: interleaving pairs then leaves the blocks in order.
  HWY_ALIGN std::uint64_t lane_blocks[HWY_MAX_BYTES / 8];
  for (std::size_t lane = 0; lane < lanes; ++lane) lane_blocks[lane] = lane / 2 + (lane % 2) * (lanes / 2);
  const auto lane = hn::Load(d, lane_blocks);
  // A shuffle, of which x86 has more units than of shifts.
  const auto upper = [&](hn::Vec<decltype(d)> product)
                         HWY_ATTR { return hn::BitCast(d, hn::DupOdd(hn::BitCast(d32, product))); };
  const auto mix = [&](Blocks& b, int round) HWY_ATTR {
    const auto p0 = hn::MulEven(hn::BitCast(d32, b.c0), m0), p1 = hn::MulEven(hn::BitCast(d32, b.c2), m1);
    b.c0 = hn::Xor3(upper(p1), b.c1, hn::Load(d, keys[round][0]));
    b.c2 = hn::Xor3(upper(p0), b.c3, hn::Load(d, keys[round][1]));
    b.c1 = p1;
    b.c3 = p0;
  };
  // Blocks whose counters differ only in the lowest word share one product in each of the first two rounds.
  const std::uint64_t last = first_block + count / 4 - 1;
  const bool common = first_block >> 32 == last >> 32 && last <= last_block;
  const auto high = [](std::uint64_t product) { return product >> 32; };
  const std::uint64_t product1 = (stream & 0xffff'ffffu) * 0xCD9E'8D57u;
  const std::uint64_t word0 = high(product1) ^ high(first_block) ^ keys[0][0][0],
                      product0 = (word0 & 0xffff'ffffu) * 0xD251'1F53u;
  const auto after1 = hn::Set(d, high(stream) ^ keys[0][1][0]);
  const auto after2_0 = hn::Set(d, product1 ^ keys[1][0][0]), after2_2 = hn::Set(d, high(product0) ^ keys[1][1][0]),
             after2_3 = hn::Set(d, product0);
  const auto start = [&](std::uint64_t block) HWY_ATTR {  // two rounds done
    const auto index = hn::And(hn::Add(hn::Set(d, block), lane), hn::Set(d, last_block));
    if (HWY_UNLIKELY(!common)) {
      Blocks b{index, hn::ShiftRight<32>(index), hn::Set(d, stream), hn::Set(d, stream >> 32)};
      mix(b, 0), mix(b, 1);
      return b;
    }
    const auto p0 = hn::MulEven(hn::BitCast(d32, index), m0);
    const auto p1 = hn::MulEven(hn::BitCast(d32, hn::Xor(upper(p0), after1)), m1);
    return Blocks{hn::Xor(upper(p1), after2_0), p1, hn::Xor(p0, after2_2), after2_3};
  };
  const auto finish = [&](const Blocks& b, std::uint32_t* to) HWY_ATTR {
    const auto w01 = pair(d, b.c0, b.c1), w23 = pair(d, b.c2, b.c3);
    auto* const pairs = reinterpret_cast<std::uint64_t*>(to);
    hn::StoreU(hn::InterleaveLower(d, w01, w23), d, pairs);
    hn::StoreU(hn::InterleaveUpper(d, w01, w23), d, pairs + lanes);
  };
  for (std::size_t i = 0; i < count; i += 4 * philox_vectors * lanes) {
    const std::uint64_t block = first_block + i / 4;
    Blocks a = start(block), b = start(block + lanes);
    if constexpr (philox_vectors == 4) {
      Blocks c = start(block + 2 * lanes), e = start(block + 3 * lanes);
#pragma GCC unroll 8  // a loop would copy the words that rounds exchange
      for (int round = 2; round < 10; ++round) mix(a, round), mix(b, round), mix(c, round), mix(e, round);
      finish(c, words + i + 8 * lanes);
      finish(e, words + i + 12 * lanes);
    } else {
#pragma GCC unroll 8
      for (int round = 2; round < 10; ++round) mix(a, round), mix(b, round);
    }
    finish(a, words + i);
    finish(b, words + i + 4 * lanes);
  }
#endif
}

/// stream_words() of kernels.hpp. Vectors of streams, two or four at a time, as above.
inline HWY_ATTR void words_of_streams(std::uint64_t seed, std::uint64_t first_stream, std::uint64_t block,
                                      std::size_t count, std::uint32_t* words) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<std::uint64_t> d;
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  const hn::Rebind<std::uint32_t, decltype(d)> halves;
  const std::size_t lanes = hn::Lanes(d);
  const auto m0 = hn::BitCast(d32, hn::Set(d, 0xD251'1F53u)), m1 = hn::BitCast(d32, hn::Set(d, 0xCD9E'8D57u));
  struct Blocks {
    hn::Vec<decltype(d)> c0, c1, c2, c3;
  };
  const auto upper = [&](hn::Vec<decltype(d)> product)
                         HWY_ATTR { return hn::BitCast(d, hn::DupOdd(hn::BitCast(d32, product))); };
  const auto mix = [&](Blocks& b, hn::Vec<decltype(d)> key0, hn::Vec<decltype(d)> key1) HWY_ATTR {
    const auto p0 = hn::MulEven(hn::BitCast(d32, b.c0), m0), p1 = hn::MulEven(hn::BitCast(d32, b.c2), m1);
    b = {hn::Xor3(upper(p1), b.c1, key0), p1, hn::Xor3(upper(p0), b.c3, key1), p0};
  };
  const auto start = [&](std::size_t at) HWY_ATTR {
    const auto stream = hn::Add(hn::Set(d, first_stream + at), hn::Iota(d, 0));
    return Blocks{hn::Set(d, block), hn::Set(d, block >> 32), stream, hn::ShiftRight<32>(stream)};
  };
  const auto finish = [&](const Blocks& b, std::size_t at) HWY_ATTR {
    const hn::Vec<decltype(d)> c[] = {b.c0, b.c1, b.c2, b.c3};
    for (std::size_t w = 0; w < 4; ++w) hn::StoreU(hn::TruncateTo(halves, c[w]), halves, words + w * count + at);
  };
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    Blocks a = start(i), b = start(i + lanes);
    for (std::uint32_t round = 0; round < 10; ++round) {
      const auto key0 = hn::Set(d, static_cast<std::uint32_t>(seed) + round * 0x9E37'79B9u),
                 key1 = hn::Set(d, static_cast<std::uint32_t>(seed >> 32) + round * 0xBB67'AE85u);
      mix(a, key0, key1), mix(b, key0, key1);
    }
    finish(a, i), finish(b, i + lanes);
  }
#endif
  for (; i < count; ++i) {
    const auto last = philox(seed, first_stream + i, block);
    for (std::size_t w = 0; w < 4; ++w) words[w * count + i] = last[w];
  }
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
