// Operands as the vector kernels read them: floats, the vectors of a panel side by side.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/product/kernels.hpp>

#include <hwy/aligned_allocator.h>

#include <utility>
#include <vector>

namespace halfulp::products {

/// Aligned floats, uninitialised. A thread keeps their memory for its next product, because fresh pages would cost as
/// much time as a small product.
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
  static constexpr std::size_t most_kept = std::size_t{1} << 20;  ///< floats of a block
  static constexpr std::size_t most_blocks = 6;                   ///< that a thread keeps
  static std::vector<Block>& blocks() {
    static thread_local std::vector<Block> kept;
    return kept;
  }
  Block block_;
};

/// Vectors (rows of A, columns of B) side by side: component p of vector v lies at [v / width * width * depth + p *
/// width
/// + v % width]. Missing vectors of the last panel are zeros.
struct Panels {
  std::size_t width = 0, depth = 0;
  Scratch values;
  std::vector<MagnitudeRange> extents;  ///< of each panel

  const float* panel(std::size_t index) const { return values.data() + index * width * depth; }
};

/// How an operand lies in memory: `lines` of `length` elements, `leading` apart. A line is a vector, or one component
/// of all vectors.
struct Lines {
  std::size_t lines, length, leading;
  bool are_vectors;
};

/// Makes panels of panel_rows (rows of A) or panel_columns (columns of B), from code words or from values.
Panels pack(const CodeWords& words, const FloatFormat& f, const Lines& lines, std::size_t width);
Panels pack(std::span<const float> values, const FloatFormat& f, const Lines& lines, std::size_t width);

}  // namespace halfulp::products
