// Running sums in fp16 by the CPU's own instructions (AVX512-FP16): twice as many lanes as of fp32, and fp16 needs no
// rounding after them. Formats of 8 bits are rounded in these lanes as in those of fp32 (rounder-inl.hpp).
#pragma once

#include <halfulp/emulation/product/kernels.hpp>

#include <cstddef>
#include <cstdint>

namespace halfulp::products {

/// 32 bits hold two halves: those of rows 2 r and 2 r + 1, or a column's twice.
inline constexpr std::size_t half_rows = panel_rows / 2, half_columns = panel_columns;

/// `depth` components of a panel of rows, or of columns, as halves. Precondition: fp16 holds the values.
void halve_rows(const float* panel, std::size_t depth, std::uint32_t* to);
void halve_columns(const float* panel, std::size_t depth, std::uint32_t* to);

/// The same as run_tile and add_tiles, for rules whose carrier is half; of a and b components of half_rows and
/// half_columns. Zero results have the right sign if the ways are fused, plain or linear. Preconditions: theirs, and
/// runs_in_halves(rule). add_half_tiles: rule.sum.way is plain.
void run_half_tile(const StepRule& rule, std::size_t count, const std::uint32_t* a, std::size_t a_step,
                   const std::uint32_t* b, std::size_t b_step, float* out);
void add_half_tiles(const float* x, const float* y, float* out);

/// Whether there is a kernel for a rule's ways and its compensation, where array::has_half_lanes().
bool runs_in_halves(const StepRule& rule);

}  // namespace halfulp::products
