// Results on their way to memory past the caches, where they are too many to stay there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace halfulp::array {

/// Elements of a block that waits in the first-level cache for its next step: a multiple of the random words that are
/// made at a time, whatever the vectors.
inline constexpr std::size_t block_size = 768;
/// Where blocks begin, in bytes: a vector that lies in two lines takes twice as long.
inline constexpr std::size_t cache_line = 64;

/// Whether results are written past the caches: if they and their operands, so many bytes, are as large as what a core
/// can keep there, the first ones leave the cache before anybody can read them. An ordinary store would first read the
/// line that it overwrites, a third of all traffic.
bool leaves_caches(std::size_t bytes);

/// Elements before the first place that is a vector's, where `lanes` elements make a vector.
template <class T>
std::size_t before_vector(std::size_t lanes, const T* to) {
  return (lanes - reinterpret_cast<std::uintptr_t>(to) / sizeof(T) % lanes) % lanes;
}

/// Copies to memory past the caches, any alignment. wait_for_streams() before another thread may look.
void stream(const void* from, void* to, std::size_t bytes);
void wait_for_streams();

/// Asks for elements of an operand that are needed after those from `from` on: the CPU's own prefetchers stop where a
/// page ends. 16 KiB are what an Intel Xeon of family 6, model 207, needs; less or much more helped less.
template <class T>
void fetch_ahead(const T* from, std::size_t count) {
  constexpr std::size_t ahead = std::size_t{16} << 10;
  const auto begin = reinterpret_cast<std::uintptr_t>(from) + ahead;  // it may be beyond the end, where nothing happens
  for (std::size_t i = 0; i < count * sizeof(T); i += cache_line)
    __builtin_prefetch(reinterpret_cast<const void*>(begin + i), 0, 2);  // NOLINT(performance-no-int-to-ptr)
}

/// Calls compute(begin, size, to) for the elements of an array, by blocks; `to` is where their results go: a block that
/// is then streamed to `out`. Blocks end where cache lines of `out` do. For results that kernels do not stream
/// themselves.
template <class Out, class F>
void through_streams(Out* out, std::size_t count, const F& compute) {
  constexpr std::size_t block = 2 * block_size;
  alignas(cache_line) std::remove_const_t<Out> results[block];
  const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(out) % cache_line / sizeof(Out);
  std::size_t end = misplaced == 0 ? block : block - misplaced;  // of the first block
  static_assert(block * sizeof(Out) % cache_line == 0);
  for (std::size_t i = 0; i < count; end = i + block) {
    const std::size_t size = std::min(end, count) - i;
    compute(i, size, results);
    stream(results, out + i, size * sizeof(Out));
    i += size;
  }
}

}  // namespace halfulp::array
