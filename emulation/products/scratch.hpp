// Memory for a while, which a thread keeps for its next product: fresh pages would take as long as a small product.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace halfulp::products {

class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(std::size_t size) {
    std::vector<Block>& kept = blocks();
    for (auto block = kept.begin(); block != kept.end(); ++block)
      if (block->size >= size && block->size / 4 <= size + 1024) {
        block_ = std::move(*block);
        kept.erase(block);
        return;
      }
    block_ = {hwy::AllocateAligned<float>(size + 1), size};
  }
  ~Scratch() {
    if (!block_.data || block_.size > most_kept || blocks().size() == most_blocks) return;
    blocks().push_back(std::move(block_));
  }
  Scratch(Scratch&&) = default;
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  float* data() { return block_.data.get(); }
  const float* data() const { return block_.data.get(); }

 private:
  struct Block {
    hwy::AlignedFreeUniquePtr<float[]> data;
    std::size_t size = 0;
  };
  static constexpr std::size_t most_kept = std::size_t{1} << 20, most_blocks = 6;  ///< floats of a block; blocks of a thread
  static std::vector<Block>& blocks() {
    static thread_local std::vector<Block> kept;
    return kept;
  }
  Block block_;
};

}  // namespace halfulp::products
