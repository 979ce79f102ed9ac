// What is in the tensors of a checkpoint, and what each format would keep of them: read in pieces, on all cores.
#pragma once

#include <halfulp/data/model_tensors.hpp>
#include <halfulp/experiments/checkpoint/parts.hpp>
#include <halfulp/experiments/losses.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace halfulp::checkpoint {

/// The numbers of a tensor.
struct Facts {
  std::uint64_t zeros = 0, nan = 0, infinite = 0;
  double amax = 0;                              ///< the largest finite magnitude
  double squares = 0;                           ///< sum of the squares of what is finite
  std::map<int, std::uint64_t> exponents = {};  ///< how many have which floor(log2 |x|), of what is finite and not 0
  std::uint64_t columns = 0;                    ///< columns that were looked at: 0 where the tensor has only one row
  std::uint64_t outlier_columns = 0;  ///< whose largest magnitude is `outliers` times the median column's, or more
};

/// What became of a tensor in a format.
struct Kept {
  Loss loss;
  std::uint64_t bytes = 0;  ///< code words packed, scales, zero points and the tensor's scale
  double bits = 0;          ///< of an element, its share of these included
};

/// A tensor and each candidate, in their order.
struct Survey {
  const ModelTensor* tensor = nullptr;
  Facts facts;
  std::vector<Kept> kept;
};

/// Bytes that a tensor takes in a format, and bits of an element.
Kept size_in(const AnyFormat& format, const MatrixView& view);

/// Looks at one tensor. Rounding is to nearest even; of fp64 plain formats round the doubles themselves, block formats
/// floats that are rounded to odd (ModelTensor::read). Elements of blocks saturate, plain formats overflow by
/// `overflow`. `done(elements)` is called with how many elements were done since its last call, from any thread. Throws
/// what TensorFiles::read throws, and Interrupted.
///
/// Tensors of at most 16 bits an element are looked at by code word: the loss in a format whose scale is that of the
/// whole tensor follows from how often each code word occurs.
Survey survey(const ModelTensor& tensor, const std::vector<ChosenFormat>& candidates, Overflow overflow,
              double outliers, const std::function<void(std::uint64_t)>& done);

}  // namespace halfulp::checkpoint
