// The parts of `swamping`: where w + u gives w again, what it does to training, and what repairs it.
#pragma once

#include <halfulp/report/experiment.hpp>

#include <vector>

namespace halfulp::swamping {

/// Whether w + u rounds to w, from the definition of the rounding mode: u is compared with the gap between w and its
/// neighbour on u's side, in doubles, without any arithmetic of the emulation. w is finite, u is not 0.
/// Precondition: the mode is not stochastic.
bool swamped_by_definition(const FloatFormat& format, RoundingMode mode, std::uint64_t w, double u);

/// The formats of the configuration; std::invalid_argument for those in which 1 and 2 are not normal numbers.
std::vector<FormatChoice> formats_around_one(const Config& config);

/// Tables and claims: the largest lost update of every format, rounding, weight and direction.
void report_thresholds(const Config& config, Run& run);
/// One step and N steps over a sweep of ratios, and over random weights and gradients; separate and fused.
void report_ratios(const Config& config, Run& run);
void report_population(const Config& config, Run& run);
/// FP32 master weights, Kahan compensation, stochastic rounding and its random bits.
void report_repairs(const Config& config, Run& run);
void report_random_bits(const Config& config, Run& run);
/// Training a least-squares model: Zamirai et al.'s smallest example.
void report_least_squares(const Config& config, Run& run);

}  // namespace halfulp::swamping
