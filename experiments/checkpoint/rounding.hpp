// A tensor of a checkpoint in a format, part by part: the format's values, whatever its blocks share.
#pragma once

#include <halfulp/data/model_tensors.hpp>
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/experiments/checkpoint/parts.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace halfulp::checkpoint {

/// What one part of a tensor became. Memory is kept from part to part.
struct RoundedPart {
  PartValues before;
  std::vector<float> after;
  std::vector<double> after_exactly;  ///< of fp64 in plain formats: what `after` is as floats
  BlockGrid grid;                     ///< of the blocks, or one block
  std::vector<ElementRun> runs;       ///< what each block can hold; values have the scales already
  std::vector<ValueRange> ranges;     ///< the same, exactly; of fp64
  BlockArray array;                   ///< of block formats
};

/// Adds what became of a part.
void add_losses(Loss& loss, const RoundedPart& part);

class TensorRounding {
 public:
  /// The tensor and the format outlive this. `stream` is that of stochastic rounding; its bits go by the elements'
  /// places in the tensor. Block formats use only the mode of `rounding`.
  TensorRounding(const ModelTensor& tensor, const AnyFormat& format, const Rounding& rounding,
                 RandomStream random = {});

  const ModelTensor& tensor() const { return tensor_; }
  const MatrixView& view() const { return view_; }
  /// Parts of which each can be rounded for itself. Only an affine format with one zero point for all needs all values
  /// at once.
  const std::vector<Part>& parts() const { return parts_; }
  /// Finds the largest magnitude of all, where every block depends on it, on all threads. To be called first.
  void prepare();
  /// That magnitude.
  float amax() const { return amax_; }
  /// Reads a part and rounds it. Any number of threads may call it.
  void round(const Part& part, RoundedPart& out) const;
  /// Makes the values of a part what readers of a layout compute (scale_as_read): where the tensor has a scale, they
  /// may differ in their last bit.
  void read_as(const StorageLayout& layout, RoundedPart& part) const;
  /// The first of a part's rows, counted over all matrices.
  std::uint64_t first_row(const Part& part) const { return part.matrix * view_.rows + part.row; }

 private:
  const BlockFormat* block() const { return std::get_if<BlockFormat>(&format_); }

  const ModelTensor& tensor_;
  const AnyFormat& format_;
  Rounding rounding_;
  RandomStream random_;
  MatrixView view_;
  std::vector<Part> parts_;
  float amax_ = 0;
  std::optional<float> shared_;
};

}  // namespace halfulp::checkpoint
