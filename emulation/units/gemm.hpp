// Whole matrices as a matrix unit multiplies them.
#pragma once

#include <halfulp/emulation/units/unit.hpp>

#include <concepts>

namespace halfulp {

/// Code words of 1, 2, 4 or 8 bytes, not owned.
class CodeWords {
 public:
  CodeWords() = default;
  template <std::unsigned_integral T>
  CodeWords(std::span<const T> words) : data_(words.data()), size_(words.size()), bytes_(sizeof(T)) {}
  template <std::unsigned_integral T>
  CodeWords(std::span<T> words) : CodeWords(std::span<const T>(words)) {}
  std::size_t size() const { return size_; }
  int bytes() const { return bytes_; }
  /// f(pointer to the first word, as its own type).
  template <class F>
  decltype(auto) visit(F&& f) const {
    switch (bytes_) {
      case 1: return f(static_cast<const std::uint8_t*>(data_));
      case 2: return f(static_cast<const std::uint16_t*>(data_));
      case 4: return f(static_cast<const std::uint32_t*>(data_));
      default: return f(static_cast<const std::uint64_t*>(data_));
    }
  }
  std::uint64_t operator[](std::size_t i) const {
    return visit([i](const auto* p) { return std::uint64_t{p[i]}; });
  }

 private:
  const void* data_ = nullptr;
  std::size_t size_ = 0;
  int bytes_ = 8;
};

/// Matrices in row-major order: A m x k, B k x n, C m x n, and, for a unit with scales, one scale for `scale_block` products
/// (the last block may be shorter): scale_a m x blocks, scale_b blocks x n. Words are the unit's own: see word_bits().
struct GemmOperands {
  std::size_t m = 0, n = 0, k = 0;
  CodeWords a, b, c, scale_a = {}, scale_b = {};
};

/// d = A B + C, m x n words of unit.accumulator: every output is mma() of its row and column, bit for bit, on any number of
/// threads and with any instruction set. Fused sums that truncate run on vectors. Throws std::invalid_argument, before it
/// writes anything, for sizes that do not fit, words wider than the unit's or types too
/// narrow for them, an empty k, and a unit that refusal() refuses.
void mma_gemm(const MatrixUnit& unit, const GemmOperands& operands, std::span<std::uint16_t> d);
void mma_gemm(const MatrixUnit& unit, const GemmOperands& operands, std::span<std::uint32_t> d);
void mma_gemm(const MatrixUnit& unit, const GemmOperands& operands, std::span<std::uint64_t> d);

/// Whether mma_gemm runs a unit on vectors, and the instruction set it would use.
bool has_vector_body(const MatrixUnit& unit);

}  // namespace halfulp
