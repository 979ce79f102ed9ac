// The pieces of the experiment "scaling".
#pragma once

#include <halfulp/data/quantized_tensor.hpp>
#include <halfulp/experiments/losses.hpp>
#include <halfulp/report/experiment.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace halfulp::scaling {

/// A tensor that is quantized, and what the tables call it.
struct TensorSample {
  std::string name;
  FileTensor tensor;
  bool ours = true;      ///< drawn here, not read from a file
  bool outlier = false;  ///< its first column is far larger than the others
};

struct ScalingSettings {
  std::vector<ChosenFormat> formats;
  std::vector<double> outliers;        ///< ascending
  std::vector<FormatChoice> elements;  ///< of the table `rules`
  Rounding rounding;                   ///< of elements
  std::uint64_t seed = 0;
};

/// A matrix of samples, by rows, as quantize_tensor takes it.
FileTensor as_tensor(std::size_t rows, std::size_t columns, std::vector<double> values);

/// Table `granularity`: every sample in every format.
void report_granularity(const ScalingSettings& s, const std::vector<TensorSample>& samples, Run& run);

/// Tables `outliers` and `outlier_seeds`, and the claims on them: one channel far larger than the others.
void report_outliers(const ScalingSettings& s, Run& run);

/// Table `rules` and the claims on it: how a power of two follows from a block.
void report_rules(const ScalingSettings& s, const std::vector<TensorSample>& samples, Run& run);

/// Parameters of delayed scaling, tables `delayed` and `delayed_course`, and the claims on them. Throws
/// std::invalid_argument in one line for formats with more than one scale a tensor and for sequences that leave fp32.
std::vector<Parameter> delayed_parameters();
void report_delayed(const Config& config, const ScalingSettings& s, Run& run);

/// Table `tensors`: the gradients of a folder. Throws what read_gradients refuses, and for tensors that are empty or
/// too large.
void report_folder(const std::string& folder, const ScalingSettings& s, Run& run);

/// The most elements of one file.
inline constexpr std::uint64_t largest_file = std::uint64_t{1} << 24;

}  // namespace halfulp::scaling
