// Products of matrices tile by tile: by vectors where the model has a plan, by the scalar definition elsewhere.
#pragma once

#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/product/plan.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace halfulp::products {

/// gemm (emulation/product/product.hpp) by vectors. Preconditions: the operands were checked; k > 0.
/// Instantiated for code words with D of std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, and for floats with
/// D of float.
template <class Words, class D>
void gemm_by_vectors(const DotModel& model, const Plan& plan, const MatrixOperands<Words>& x, std::span<D> d,
                     std::uint64_t first_stream);

// Outputs by the scalar definition, one at a time, from code words or floats.

inline std::uint64_t code_of(const FloatFormat& f, float value) {
  if (value != value) return f.canonical_nan();
  return convert(fp32, f, {}, std::bit_cast<std::uint32_t>(value)).code;
}
inline float value_of(const FloatFormat& f, std::uint64_t code) {
  return f.is_nan(code) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(f.value(code));
}

/// The code word of an element of either kind of operand.
inline std::uint64_t word(const CodeWords& x, const FloatFormat&, std::size_t i) { return x[i]; }
inline std::uint64_t word(std::span<const float> x, const FloatFormat& f, std::size_t i) { return code_of(f, x[i]); }

/// Computes one output as a code word.
template <class Words>
class ScalarOutputs {
 public:
  ScalarOutputs(const DotModel& model, const MatrixOperands<Words>& x, std::uint64_t first_stream)
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
