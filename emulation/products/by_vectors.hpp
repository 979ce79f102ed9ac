// Products of matrices whose model has a plan, by tiles on all threads.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/products/plan.hpp>

#include <cstdint>
#include <span>

namespace halfulp::products {

/// gemm (emulation/products.hpp) of operands that were checked, k > 0.
/// Instantiated for code words with D of std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, and for floats with D of float.
template <class Words, class D>
void gemm_by_vectors(const DotModel& model, const Plan& plan, const MatrixOperands<Words>& x, std::span<D> d, std::uint64_t first_stream);

}  // namespace halfulp::products
