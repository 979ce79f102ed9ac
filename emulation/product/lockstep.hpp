// Products of matrices by their definition, hundreds of outputs in step: for models without a plan for vectors.
#pragma once

#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/matrix.hpp>

#include <cstdint>
#include <span>

namespace halfulp::products {

/// gemm (emulation/product/product.hpp), every operation of the model done for up to 512 outputs at once by array
/// kernels. Instantiated as gemm_by_vectors. Preconditions: the operands were checked; k > 0; formats of the model
/// have at most 32 bits (`goes_in_step`).
template <class Words, class D>
void gemm_in_step(const DotModel& model, const MatrixOperands<Words>& x, std::span<D> d, std::uint64_t first_stream);

/// Whether that is possible, and worth its preparations for m x n outputs of k products.
bool goes_in_step(const DotModel& model, std::size_t m, std::size_t n, std::size_t k);

}  // namespace halfulp::products
