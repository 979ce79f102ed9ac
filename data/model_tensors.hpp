// The tensors of a checkpoint as numbers, whether they are stored as floats or as code words with scales.
#pragma once

#include <halfulp/data/layouts.hpp>
#include <halfulp/data/tensor_files.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace halfulp {

/// A tensor of numbers. What it points to belongs to the ModelTensors that has it.
struct ModelTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::uint64_t count = 0;                 ///< numbers
  std::uint64_t bytes = 0;                 ///< of all that is stored for it
  const StoredTensor* plain = nullptr;     ///< of floats
  const EncodedTensor* encoded = nullptr;  ///< of code words and scales
  const TensorFiles* files = nullptr;

  /// How it is stored: "BF16", or the block format of its layout, "nvfp4".
  std::string stored_as() const { return plain ? std::string(plain->type->name) : encoded->format; }
  /// The format of a number; nullptr where scales make more of them.
  const FloatFormat* format() const { return plain ? &*plain->type->format : nullptr; }
  /// Whether floats do not hold its numbers: they are fp64.
  bool is_wide() const { return plain && plain->type->bits == 64; }
  /// `values` = numbers from `first` on, as TensorFiles::read and read_rows give them. Of an encoded tensor these are
  /// whole rows of the last axis. Those of fp64 are rounded by `doubles`: to odd, so that they may be rounded again
  /// (narrow_doubles).
  void read(std::uint64_t first, std::span<float> values, RoundingMode doubles = RoundingMode::to_odd) const;
  /// The same exactly. Precondition: is_wide().
  void read(std::uint64_t first, std::span<double> values) const;
};

class ModelTensors {
 public:
  /// Throws what TensorFiles and find_encoded throw, and for a name that two tensors would have.
  explicit ModelTensors(const std::string& path);
  ModelTensors(const ModelTensors&) = delete;
  ModelTensors& operator=(const ModelTensors&) = delete;

  const TensorFiles& files() const { return files_; }
  /// In the order of the files.
  const std::vector<ModelTensor>& tensors() const { return tensors_; }
  /// What is no tensor of floats and no part of an encoded one: integers, truth values.
  const std::vector<const StoredTensor*>& others() const { return others_; }

 private:
  TensorFiles files_;
  std::vector<EncodedTensor> encoded_;
  std::vector<ModelTensor> tensors_;
  std::vector<const StoredTensor*> others_;
};

}  // namespace halfulp
