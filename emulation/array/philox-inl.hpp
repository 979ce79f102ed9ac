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
inline constexpr std::size_t philox_vectors = HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86 ? 6 : 2;

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

/// The words of a stream, so many at a time that the multiplications of blocks need not wait for each other.
class PhiloxStream {
#if HWY_TARGET == HWY_SCALAR  // no vectors at all
 public:
  PhiloxStream(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  static constexpr std::size_t most_words = 4;
  static std::size_t step() { return 4; }
  void operator()(std::uint64_t block, std::uint32_t* words) {
    std::ranges::copy(philox(seed_, stream_, block & last_block), words);
  }

 private:
  static constexpr std::uint64_t last_block = ~std::uint64_t{0} >> 2;
  std::uint64_t seed_, stream_;
#else
  static constexpr hn::ScalableTag<std::uint64_t> d{};
  static constexpr hn::Repartition<std::uint32_t, hn::ScalableTag<std::uint64_t>> d32{};
  using V = hn::Vec<hn::ScalableTag<std::uint64_t>>;

 public:
  HWY_INLINE HWY_ATTR PhiloxStream(std::uint64_t seed, std::uint64_t stream) : stream_(stream) {
    for (std::uint32_t round = 0; round < 10; ++round) {
      hn::Store(hn::Set(d, static_cast<std::uint32_t>(seed) + round * 0x9E37'79B9u), d, keys_[round][0]);
      hn::Store(hn::Set(d, static_cast<std::uint32_t>(seed >> 32) + round * 0xBB67'AE85u), d, keys_[round][1]);
    }
    // Lanes 0 1 2 3 ... compute blocks 0 n/2 1 n/2+1 ...: interleaving pairs then leaves the blocks in order.
    const std::size_t lanes = hn::Lanes(d);
    for (std::size_t lane = 0; lane < lanes; ++lane) lanes_[lane] = lane / 2 + (lane % 2) * (lanes / 2);
    share(0);
  }

  /// Words of a call.
  static constexpr std::size_t most_words = 4 * philox_vectors * HWY_MAX_BYTES / 8;
  static HWY_INLINE HWY_ATTR std::size_t step() { return 4 * philox_vectors * hn::Lanes(d); }

  /// words[i] = word i mod 4 of block (block + i / 4) mod 2^62 (indices of words wrap at 2^64), for i below step().
  HWY_INLINE HWY_ATTR void operator()(std::uint64_t block, std::uint32_t* words) {
    const std::size_t lanes = hn::Lanes(d);
    const std::uint64_t last = block + philox_vectors * lanes - 1;
    const bool common = block >> 32 == last >> 32 && last <= last_block;
    if (HWY_UNLIKELY(common && block >> 32 != upper_)) share(block >> 32);
    Blocks a = start(block, common), b = start(block + lanes, common);
    if constexpr (philox_vectors == 6) {
      Blocks c = start(block + 2 * lanes, common), e = start(block + 3 * lanes, common);
      Blocks f = start(block + 4 * lanes, common), g = start(block + 5 * lanes, common);
#pragma GCC unroll 8  // a loop would copy the words that rounds exchange
      for (int round = 2; round < 10; ++round)
        mix(a, round), mix(b, round), mix(c, round), mix(e, round), mix(f, round), mix(g, round);
      finish(c, words + 8 * lanes);
      finish(e, words + 12 * lanes);
      finish(f, words + 16 * lanes);
      finish(g, words + 20 * lanes);
    } else {
#pragma GCC unroll 8
      for (int round = 2; round < 10; ++round) mix(a, round), mix(b, round);
    }
    finish(a, words);
    finish(b, words + 4 * lanes);
  }

 private:
  static constexpr std::uint64_t last_block = ~std::uint64_t{0} >> 2;
  /// One block a lane; of each counter word the upper half of the lane is rubbish that nothing looks at.
  struct Blocks {
    V c0, c1, c2, c3;
  };

  static HWY_INLINE HWY_ATTR V times(V v, std::uint64_t factor) {
    return hn::MulEven(hn::BitCast(d32, v), hn::BitCast(d32, hn::Set(d, factor)));
  }
  /// A shuffle, of which x86 has more units than of shifts.
  static HWY_INLINE HWY_ATTR V upper(V product) { return hn::BitCast(d, hn::DupOdd(hn::BitCast(d32, product))); }

  /// The product comes last: what is at hand need not wait for it.
  static HWY_INLINE HWY_ATTR V with_key(V product, V word, const std::uint64_t* key) {
#if HWY_TARGET == HWY_AVX2 && HWY_COMPILER_GCC_ACTUAL  // gcc changes the order
    V first = hn::Xor(word, hn::Load(d, key));
    asm("" : "+x"(first.raw));
    return hn::Xor(product, first);
#else
    return hn::Xor3(product, word, hn::Load(d, key));
#endif
  }
  HWY_INLINE HWY_ATTR void mix(Blocks& b, int round) const {
    const V p0 = times(b.c0, 0xD251'1F53u), p1 = times(b.c2, 0xCD9E'8D57u);
    b = {with_key(upper(p1), b.c1, keys_[round][0]), p1, with_key(upper(p0), b.c3, keys_[round][1]), p0};
  }

  /// Blocks whose counters differ only in the lowest word share one product in each of the first two rounds.
  void share(std::uint64_t upper_word) {
    upper_ = upper_word;
    const std::uint64_t product1 = (stream_ & 0xffff'ffffu) * 0xCD9E'8D57u;
    const std::uint64_t word0 = (product1 >> 32) ^ upper_word ^ keys_[0][0][0],
                        product0 = (word0 & 0xffff'ffffu) * 0xD251'1F53u;
    after1_ = (stream_ >> 32) ^ keys_[0][1][0];
    after2_[0] = product1 ^ keys_[1][0][0], after2_[1] = (product0 >> 32) ^ keys_[1][1][0], after2_[2] = product0;
  }
  /// Two rounds done.
  HWY_INLINE HWY_ATTR Blocks start(std::uint64_t block, bool common) const {
    V index = hn::Add(hn::Set(d, block), hn::Load(d, lanes_));
    if (HWY_UNLIKELY(!common)) {
      index = hn::And(index, hn::Set(d, last_block));
      Blocks b{index, hn::ShiftRight<32>(index), hn::Set(d, stream_), hn::Set(d, stream_ >> 32)};
      mix(b, 0), mix(b, 1);
      return b;
    }
    const V p0 = times(index, 0xD251'1F53u), p1 = times(hn::Xor(upper(p0), hn::Set(d, after1_)), 0xCD9E'8D57u);
    return {hn::Xor(upper(p1), hn::Set(d, after2_[0])), p1, hn::Xor(p0, hn::Set(d, after2_[1])),
            hn::Set(d, after2_[2])};
  }
  static HWY_INLINE HWY_ATTR void finish(const Blocks& b, std::uint32_t* to) {
    const V w01 = pair(d, b.c0, b.c1), w23 = pair(d, b.c2, b.c3);
    auto* const pairs = reinterpret_cast<std::uint64_t*>(to);
    hn::StoreU(hn::InterleaveLower(d, w01, w23), d, pairs);
    hn::StoreU(hn::InterleaveUpper(d, w01, w23), d, pairs + hn::Lanes(d));
  }

  HWY_ALIGN std::uint64_t keys_[10][2][HWY_MAX_BYTES / 8];
  HWY_ALIGN std::uint64_t lanes_[HWY_MAX_BYTES / 8];
  std::uint64_t stream_, upper_, after1_, after2_[3];
#endif
};

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
