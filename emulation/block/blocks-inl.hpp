// Loops over blocks of floats. Included once for each instruction set (Highway, foreach_target.h).
#if defined(HALFULP_BLOCK_BLOCKS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_BLOCK_BLOCKS_INL
#undef HALFULP_BLOCK_BLOCKS_INL
#else
#define HALFULP_BLOCK_BLOCKS_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace halfulp::block::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Ints = hn::ScalableTag<std::int32_t>;  // of magnitudes, none of which is negative, and of exponents

/// f(begin, size, i) for each block i.
template <class F>
HWY_INLINE void each_block(std::size_t block, std::size_t count, F f) {
  for (std::size_t i = 0, begin = 0; begin < count; ++i, begin += block) f(begin, std::min(block, count - begin), i);
}

/// f<n>() for blocks of n whole vectors: a few n that the compiler knows, and 0 for any other block.
template <class F>
HWY_INLINE void with_vectors(std::size_t block, F f) {
  const std::size_t lanes = hn::Lanes(Floats());
  if (block == lanes) f.template operator()<1>();
  else if (block == 2 * lanes) f.template operator()<2>();
  else if (block == 4 * lanes) f.template operator()<4>();
  else if (block == 8 * lanes) f.template operator()<8>();
  else f.template operator()<0>();
}

}  // namespace halfulp::block::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
