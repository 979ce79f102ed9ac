// What a training keeps between two runs: arrays by name, and JSON. The file is complete, or it is not there.
//
// A framed file (support/files.hpp) with the magic "halfulpC": u64 bytes of the JSON text; the JSON text {"identity":
// ..., "state": ..., "arrays": [{"name", "type": "float32" | "float64", "count"}]}; the arrays one after the other,
// little-endian.
#pragma once

#include <halfulp/support/json.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace halfulp::training {

struct CheckpointArray {
  std::string name;
  std::variant<std::vector<float>, std::vector<double>> values;
};

class Checkpoint {
 public:
  /// The identity is what distinguishes a run (policy, network, data, seed, ...): only a run with an equal one reads
  /// the file. The state is what a run needs besides arrays to go on: step, record, the loss scaler's state. Neither
  /// holds NaN or Inf (see number() in json.hpp), nor NUL bytes in text.
  Json identity, state;

  /// Throws std::logic_error for a name that is already there.
  void add(std::string name, std::span<const float> values);
  void add(std::string name, std::span<const double> values);
  /// Fills `values` with the array of that name, bit for bit. Throws std::invalid_argument in one line if no array has
  /// this name, type and length.
  void take(std::string_view name, std::span<float> values) const;
  void take(std::string_view name, std::span<double> values) const;

  const std::vector<CheckpointArray>& arrays() const { return arrays_; }
  /// Of `state`, for errors: "run.ckpt: state".
  std::string place() const { return (source_.empty() ? "checkpoint" : source_) + ": state"; }

  /// The content of the file.
  std::string bytes() const;
  /// Throws std::invalid_argument in one line that begins with `name`: the file is truncated or
  /// corrupted, has another version, or is not a checkpoint.
  static Checkpoint from_bytes(std::string_view file, const std::string& name);

 private:
  template <class T>
  void add_values(std::string name, std::span<const T> values);
  template <class T>
  void take_values(std::string_view name, std::span<T> values) const;

  std::vector<CheckpointArray> arrays_;
  std::string source_;  ///< the file's name, for errors
};

/// Writes a temporary file beside `path` and renames it when it is complete (write_file). Throws std::invalid_argument
/// in one line.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

/// Reads at most 4 GiB. Throws std::invalid_argument in one line for what from_bytes refuses, and for a checkpoint of
/// another identity; the line names the first member that differs.
Checkpoint read_checkpoint(const std::string& path, const Json& identity);

}  // namespace halfulp::training
