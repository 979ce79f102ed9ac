// A matrix kernel on the host: every thread of a warp(group) gathers its registers as the kernels in cuda/device do, an
// instruction that knows only the documentation's layout multiplies by the model of the unit, every thread stores.
#pragma once

#include <halfulp/cuda/kernels.hpp>

namespace halfulp::cuda {

/// Kernels::matrix of rehearsals. Pointers are to host memory; it is done when it returns. For tests, every
/// `leaves_out`-th result is not written; 0: all are.
void rehearse_matrix(std::size_t row, const MatrixArgs& args, std::size_t leaves_out = 0);

}  // namespace halfulp::cuda
