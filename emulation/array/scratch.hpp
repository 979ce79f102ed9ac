// Memory that a thread keeps for its next call.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfulp::array {

/// What `make()` gave for the last key that this thread came with here: for short arrays, to check what is asked for
/// and to plan it takes longer than the work. It stays until this thread comes with another key, which it may do while
/// it waits for others: what they share has to be a copy.
template <class Make, class... Key>
const auto& remembered(const Make& make, const Key&... key) {
  struct Last {
    std::tuple<Key...> key;
    std::invoke_result_t<Make> value;
  };
  static thread_local std::optional<Last> last;
  if (!last || last->key != std::tie(key...)) last = Last{{key...}, make()};
  return last->value;
}

/// Blocks of memory that the destructor of Scratch gave back to this thread.
class KeptBlocks {
 public:
  struct Block {
    hwy::AlignedFreeUniquePtr<std::byte[]> data;
    std::size_t size = 0;  ///< in bytes
  };
  static Block take(std::size_t size) {
    std::vector<Block>& kept = blocks();
    for (auto block = kept.begin(); block != kept.end(); ++block)
      if (block->size >= size && block->size / 4 <= size + 4096) {
        Block found = std::move(*block);
        kept.erase(block);
        return found;
      }
    return {hwy::AllocateAligned<std::byte>(size + 1), size};
  }
  static void give(Block block) {
    if (block.data && block.size <= most_kept && blocks().size() < most_blocks) blocks().push_back(std::move(block));
  }

 private:
  static constexpr std::size_t most_kept = std::size_t{1} << 22;  ///< bytes of a block
  static constexpr std::size_t most_blocks = 8;                   ///< that a thread keeps
  static std::vector<Block>& blocks() {
    static thread_local std::vector<Block> kept;
    return kept;
  }
};

/// Aligned numbers, uninitialised. A thread keeps their memory for its next product, because fresh pages would cost as
/// much time as a small product.
template <class T>
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(std::size_t size) : block_(KeptBlocks::take(size * sizeof(T))) {}
  ~Scratch() { KeptBlocks::give(std::move(block_)); }
  Scratch(Scratch&&) = default;
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  T* data() { return reinterpret_cast<T*>(block_.data.get()); }
  const T* data() const { return reinterpret_cast<const T*>(block_.data.get()); }

 private:
  KeptBlocks::Block block_;
};

}  // namespace halfulp::array
