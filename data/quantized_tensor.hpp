// A tensor in a format, plain or of blocks, and what was lost: `halfulp quantize`, and the experiment `scaling`.
#pragma once

#include <halfulp/emulation/block/block.hpp>
#include <halfulp/data/loss.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace halfulp {

/// A tensor in C order.
struct FileTensor {
  FloatFormat format;  ///< of the file: fp16, fp32 or fp64
  std::vector<std::uint64_t> shape;
  std::vector<double> values;
};

/// A .npy file, whole; a NaN keeps its sign and payload. Throws std::invalid_argument in one line that names it.
FileTensor read_tensor(const std::string& path);

using AnyFormat = std::variant<FloatFormat, BlockFormat>;

/// A format or block format by name; the error names the nearest of both.
AnyFormat parse_any_format(const std::string& name);

/// Of a matrix by rows: Frobenius norm of what quantization changed over that of the values, in one column and in all
/// others. Values that are not finite afterwards are left out; NaN where none is left.
struct ColumnLoss {
  double others = 0, column = 0;
  double others_zeroed = 0;  ///< share of the others' values that became zero
};
ColumnLoss column_loss(std::span<const double> before, std::span<const double> after, std::size_t columns,
                       std::size_t column);

struct Quantized {
  std::vector<double> values;
  Loss loss;
  // Of block formats:
  std::vector<std::uint8_t> codes;  ///< shape of the tensor
  std::vector<std::uint32_t> scales;
  std::vector<std::uint64_t> scales_shape;
  std::vector<std::int16_t> zeros;
  std::optional<float> tensor_scale;
  double bits_per_element = 0;  ///< scales included
};

/// Blocks 1 x N run along `axis` (negative ones count from the end), R x C ones in the last two; every matrix of the
/// last two axes has blocks of its own. Values go through fp32 into block formats. Throws std::invalid_argument for an
/// axis that is not there, and one given to formats whose blocks do not run along one. Values are rounded in place,
/// part by part: a tensor that is moved in takes no more memory than before, but for its code words and scales.
Quantized quantize_tensor(FileTensor tensor, const AnyFormat& format, const Rounding& rounding, std::uint64_t seed,
                          std::optional<int> axis);

}  // namespace halfulp
