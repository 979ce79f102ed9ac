// What the reports of checkpoints share: parameters, choices by names, progress with the time left.
#pragma once

#include <halfulp/data/model_tensors.hpp>
#include <halfulp/report/experiment.hpp>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::checkpoint {

/// The parameter of that name, which takes what TensorFiles takes.
Parameter checkpoint_parameter(const char* name = "checkpoint");
/// Its value. Throws std::invalid_argument in one line where it is empty.
std::string checkpoint_path(const Config& config, const char* name = "checkpoint");

/// Throws std::invalid_argument in one line, for a glob that matches no tensor: a typing error that nobody would see.
[[noreturn]] void refuse_unmatched(std::string_view parameter, const std::string& glob, const ModelTensors& model);

/// The globs of a parameter, separated by commas; none if it is empty.
class NameGlobs {
 public:
  /// Throws std::invalid_argument in one line for what name_list and refuse_unmatched refuse.
  NameGlobs(const Config& config, std::string_view parameter, const ModelTensors& model);
  bool match(std::string_view name) const;

 private:
  std::vector<std::string> globs_;
};

/// Of a tensor stored as F64 the first of some elements that is too large for fp32 or would become 0: values are read
/// as fp32. None where all are fine, or the tensor is stored otherwise.
std::optional<double> beyond_fp32(const ModelTensor& tensor, std::uint64_t first, std::uint64_t count);

/// A run's progress, reported by any thread.
class TimedProgress {
 public:
  explicit TimedProgress(Run& run) : run_(run) {}
  /// That this share of all work is done, besides what was before.
  void advance(double share);

 private:
  Run& run_;
  std::mutex adding_, showing_;
  double done_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The table `layouts`: how often each is there, in the order of the first.
void report_layouts(Run& run, const std::vector<const StorageLayout*>& layouts);

}  // namespace halfulp::checkpoint
