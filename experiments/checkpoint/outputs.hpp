// The errors of layers' outputs, where the user has saved the layers' inputs: y = x W^T with weights, or inputs and
// weights, in a format, and products as a product model or a matrix unit computes them.
#pragma once

#include <halfulp/experiments/checkpoint/entries.hpp>
#include <halfulp/report/experiment.hpp>

#include <vector>

namespace halfulp::checkpoint {

/// The parameters activations and product.
std::vector<Parameter> output_parameters();

/// Throws std::invalid_argument in one line for what parse_product_model refuses.
void check_outputs(const Config& config);

/// The table `outputs` and its claim, if activations are given. Throws std::invalid_argument in one line for inputs
/// that belong to no tensor of the entries, or do not fit it.
void report_outputs(const Config& config, Run& run, const Entries& entries);

}  // namespace halfulp::checkpoint
