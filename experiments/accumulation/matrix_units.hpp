// Dot products on matrix units, a part of the experiment "accumulation".
#pragma once

#include <halfulp/experiments/experiment.hpp>

namespace halfulp::accumulation {

/// Parameters `units`, `unit_file` and `unit_lengths`. `promote_every` and `seed` are the experiment's.
std::vector<Parameter> matrix_unit_parameters();

/// Throws std::invalid_argument, in one line, for units that are not there and files that describe none.
void check_matrix_units(const Config& config);

/// Table `matrix_units` and the claims on it. Sources: DeepSeek-V3, section 3.3.2; the rules of emulation/units.
void matrix_units_report(const Config& config, Run& run);

}  // namespace halfulp::accumulation
