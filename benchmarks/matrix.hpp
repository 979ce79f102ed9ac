// Products of matrices by matrix units and by product models, next to a plain FP32 product of the same size.
#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <functional>

namespace halfulp::bench {

/// Registers the rows "mma" of the table: n = 512, or 256 in a quick run.
void register_matrices(bool quick);
/// Registers the rows "product": n = 256, and also 1024 unless the run is quick.
void register_products(bool quick);

/// Times a product of n x n matrices; multiply-adds count as elements.
void time_products(benchmark::State& state, std::size_t n, const std::function<void()>& multiply);
/// Registers the limit of both, Eigen's FP32 product, once for each n.
void add_product_limit(std::size_t n);

}  // namespace halfulp::bench
