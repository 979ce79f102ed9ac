// Products of matrices by matrix units and by product models, next to a plain FP32 product of the same size.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/formats/format.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <variant>
#include <vector>

namespace halfulp::bench {

/// Code words as a user has them: of the fewest bytes that hold them.
using Words = std::variant<std::vector<std::uint8_t>, std::vector<std::uint16_t>, std::vector<std::uint32_t>>;
/// `count` normally distributed numbers, rounded to a format; tf32's as matrix units take them.
Words normal_words(const FloatFormat& f, std::size_t count, std::mt19937_64& bits);
/// All of them, as an operand.
inline CodeWords view(const Words& words) {
  return std::visit([](const auto& w) { return CodeWords(std::span(w)); }, words);
}
/// The first ones, for scalar definitions.
inline std::vector<std::uint64_t> first(const Words& words, std::ptrdiff_t count) {
  return std::visit([&](const auto& w) { return std::vector<std::uint64_t>(w.begin(), w.begin() + count); }, words);
}

/// Registers the rows "mma" of the table: n = 512, or 256 in a quick run.
void register_matrices(bool quick);
/// Registers the rows "product": n = 256, and also 1024 unless the run is quick.
void register_products(bool quick);

/// Times a product of n x n matrices; multiply-adds count as elements.
void time_products(benchmark::State& state, std::size_t n, const std::function<void()>& multiply);
/// Registers the limit of both, Eigen's FP32 product, once for each n.
void add_product_limit(std::size_t n);

}  // namespace halfulp::bench
