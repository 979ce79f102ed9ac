// What a training keeps of itself between two runs: arrays by name and JSON, in one file that is there whole or not at
// all.
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
  /// What makes a run the one it is (policy, network, data, seed, ...): only a run with an equal identity reads the
  /// file. And what it needs to go on besides arrays: step, counters of random streams, the loss scaler's state.
  /// Neither holds NaN or Inf (see number() in report.hpp), nor NUL bytes in text.
  Json identity, state;

  /// Throws std::logic_error for a name that is there.
  void add(std::string name, std::span<const float> values);
  void add(std::string name, std::span<const double> values);
  /// Fills `values` with the array of that name, bit for bit. Throws std::invalid_argument in one line if there is none
  /// of this type and length.
  void take(std::string_view name, std::span<float> values) const;
  void take(std::string_view name, std::span<double> values) const;

  const std::vector<CheckpointArray>& arrays() const { return arrays_; }
  /// Of `state`, for errors: "run.ckpt: state".
  std::string place() const { return (source_.empty() ? "checkpoint" : source_) + ": state"; }

  /// The content of the file.
  std::string bytes() const;
  /// Throws std::invalid_argument in one line that begins with `name`: truncated, corrupted, of another version, no
  /// checkpoint.
  static Checkpoint from_bytes(std::string_view file, const std::string& name);

 private:
  template <class T>
  void add_values(std::string name, std::span<const T> values);
  template <class T>
  void take_values(std::string_view name, std::span<T> values) const;

  std::vector<CheckpointArray> arrays_;
  std::string source_;  ///< the file's name, for errors
};

/// Into a temporary file beside it, renamed into place once it is complete (write_file). Throws std::invalid_argument
/// in one line.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

/// The checkpoint of that path, at most 4 GiB. Throws std::invalid_argument in one line: what from_bytes refuses, and a
/// checkpoint of another identity, with the first member that differs.
Checkpoint read_checkpoint(const std::string& path, const Json& identity);

}  // namespace halfulp::training
