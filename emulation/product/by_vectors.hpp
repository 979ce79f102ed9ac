// Products of matrices whose model has a plan, by tiles on all threads.
#pragma once

#include <optional>
#include <limits>
#include <bit>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/product/plan.hpp>

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace halfulp::products {

/// gemm (emulation/product/product.hpp) of operands that were checked, k > 0.
/// Instantiated for code words with D of std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, and for floats with
/// D of float.
template <class Words, class D>
void gemm_by_vectors(const DotModel& model, const Plan& plan, const MatrixOperands<Words>& x, std::span<D> d,
                     std::uint64_t first_stream);

// Memory for a while, which a thread keeps for its next product: fresh pages would take as long as a small product.

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
  static constexpr std::size_t most_kept = std::size_t{1} << 20,
                               most_blocks = 6;  ///< floats of a block; blocks of a thread
  static std::vector<Block>& blocks() {
    static thread_local std::vector<Block> kept;
    return kept;
  }
  Block block_;
};

}  // namespace halfulp::products

// Outputs by the scalar definition, one at a time, from operands of either kind.

namespace halfulp::products {

inline std::uint64_t code_of(const FloatFormat& f, float value) {
  if (value != value) return f.canonical_nan();
  return convert(fp32, f, {}, std::bit_cast<std::uint32_t>(value)).code;
}
inline float value_of(const FloatFormat& f, std::uint64_t code) {
  return f.is_nan(code) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(f.value(code));
}

/// The code word of an element, whichever way operands come.
inline std::uint64_t word(const CodeWords& x, const FloatFormat&, std::size_t i) { return x[i]; }
inline std::uint64_t word(std::span<const float> x, const FloatFormat& f, std::size_t i) { return code_of(f, x[i]); }

/// One output as a code word.
template <class Words>
class Scalar {
 public:
  Scalar(const DotModel& model, const MatrixOperands<Words>& x, std::uint64_t first_stream)
      : model_(model), x_(x), first_stream_(first_stream), dots_(model), a_(x.k), b_(x.k) {}

  std::uint64_t operator()(std::size_t i, std::size_t j) {
    if (row_ != i)
      for (std::size_t k = 0; k < x_.k; ++k) a_[k] = word(x_.a, model_.input, x_.place_a()(i, k));
    row_ = i;
    for (std::size_t k = 0; k < x_.k; ++k) b_[k] = word(x_.b, model_.second(), x_.place_b()(k, j));
    std::optional<std::uint64_t> c;
    if (x_.c.size() != 0) c = word(x_.c, model_.result(), x_.place_c()(i, j));
    return dots_(a_, b_, c, first_stream_ + i * x_.n + j);
  }

 private:
  const DotModel& model_;
  const MatrixOperands<Words>& x_;
  std::uint64_t first_stream_;
  PlainDots dots_;
  std::vector<std::uint64_t> a_, b_;
  std::size_t row_ = static_cast<std::size_t>(-1);
};

}  // namespace halfulp::products
