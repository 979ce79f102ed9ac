// A checkpoint as a new file, some of its tensors rounded: written piece by piece, then read back.
#pragma once

#include <halfulp/data/model_tensors.hpp>
#include <halfulp/experiments/losses.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::checkpoint {

/// A tensor that is rounded, and what became of it.
struct Rewritten {
  const ModelTensor* tensor = nullptr;
  const ChosenFormat* format = nullptr;
  // Filled by write_checkpoint:
  Loss loss = {};                         ///< from the tensor's values to those that are written
  std::string stored_as = {};             ///< a dtype, or the name of a layout
  const StorageLayout* layout = nullptr;  ///< of code words and scales
  std::uint64_t bytes = 0;                ///< of all that is written for it
  std::uint64_t rounded_again = 0;        ///< values that the dtype does not hold as the format made them
  std::uint64_t misread = 0;              ///< values in pieces that read back otherwise
};

/// What is written, and how.
struct Destination {
  std::string path;                    ///< a .safetensors file
  std::string_view writer;             ///< of a layout (layout_writers()); empty: values in a dtype
  const ElementType* dtype = nullptr;  ///< of values; nullptr: each tensor's own, BF16 where that has less than 8 bits
  Rounding rounding;                   ///< of elements; block formats use only its mode
  std::uint64_t seed = 0;              ///< of stochastic rounding; its stream is the tensor's number in the model
};

/// What was written besides.
struct Copies {
  std::uint64_t tensors = 0, bytes = 0;
  std::uint64_t differing = 0;  ///< bytes in pieces that read back otherwise
  std::uint64_t file = 0;       ///< bytes of the file
  bool placed = false;          ///< the file is in its place: everything reads back as it was meant
};

/// Writes the checkpoint with these tensors rounded, and every other tensor and the metadata as they are. What was
/// written is read back and compared before the file takes its place; if anything differs, no file is left. Values of
/// dtypes are rounded to them to nearest even. `done(share)` is called from any thread, with the share of the work that
/// was done since its last call.
///
/// Throws std::invalid_argument in one line: a tensor that no layout of the writer holds, two tensors that would have
/// one name, what cannot be written or read; Interrupted. No file is left then.
Copies write_checkpoint(const ModelTensors& model, std::vector<Rewritten>& tensors, const Destination& to,
                        const std::function<void(double share)>& done);

}  // namespace halfulp::checkpoint
