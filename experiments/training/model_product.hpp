// Products of matrices by a product model, as layers ask for them: with a bias, several of one size at once.
#pragma once

#include <halfulp/emulation/products.hpp>

namespace halfulp::training {

/// D = A B + C as the model computes it (gemm, emulation/products.hpp); then the bias, a row of n or none, is added to every row of
/// D, one addition in fp32 each. A NaN is float's canonical one.
/// `count` products of one size may be asked for at once: their A, B, C and D lie one after the other without gaps (precondition),
/// and product i draws its random bits from the streams after first_stream + i m n.
/// D may be the memory of C, placed alike. The same bits on any number of threads. Throws what gemm throws.
void multiply(const ProductModel& model, const FloatOperands& x, std::span<const float> bias, std::span<float> d, std::size_t count = 1,
    std::uint64_t first_stream = 0);

/// The same in double, for finite differences: the order of the model "fp32", one product after the other, k ascending, every product
/// and every sum rounded; then C, then the bias.
void multiply(const MatrixOperands<std::span<const double>>& x, std::span<const double> bias, std::span<double> d, std::size_t count = 1);

}  // namespace halfulp::training
