// Weights as code words and scales, in the layouts that published readers know: the other direction of layouts.hpp,
// which reads them back.
//
// Not written: what has an offset instead of a zero point (torchao's Int4Tensor, MLX's affine weights), rows that share
// bytes or come transposed (ModelOpt's INT4 AWQ), swizzled scales.
#pragma once

#include <halfulp/data/layouts.hpp>
#include <halfulp/emulation/block/block.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// Whose layouts can be written, as on the command line: "compressed-tensors", "modelopt", "torchao", "mlx",
/// "deepseek", "gpt-oss".
std::span<const std::string_view> layout_writers();

/// A block's scale as readers of a layout compute it in fp32, from its value and the scale of the whole tensor, which
/// is for magnitudes up to `amax`. A layout may keep the inverse of that scale, or `amax` itself, so that the last bit
/// differs from of_block * tensor_scale.
float scale_as_read(const StorageLayout& layout, float of_block, float tensor_scale, float amax);

/// A weight that is to be written: its tensors, and where in them everything goes. Its values are rows of the last
/// axis, counted over all matrices.
class EncodedWeight {
 public:
  /// The first layout of a writer that holds the format. `original`: what the weight was before, which torchao keeps.
  /// Throws std::invalid_argument in one line, which names the tensor, where no layout of the writer holds weights of
  /// this format, shape or name.
  EncodedWeight(std::string_view writer, const std::string& name, const std::vector<std::uint64_t>& shape,
                const BlockFormat& format, const FloatFormat& original);

  const StorageLayout& layout() const { return *layout_; }
  /// Code words, scales, then what else there is. Offsets are not set: safetensors_header does that.
  std::vector<StoredTensor>& parts() { return parts_; }
  const std::vector<StoredTensor>& parts() const { return parts_; }
  /// What torchao's metadata say of the weight, as JSON; else empty.
  std::string metadata() const;

  /// Some bytes of one of the parts, from the part's byte `offset` on.
  struct Piece {
    std::size_t part;
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };
  /// The bytes of whole rows of blocks from row `first` on: code words and scales. Zero points too, but of those that
  /// several rows share bytes for: these are kept until `rest`. Any number of threads may call it, for rows apart.
  std::vector<Piece> pieces(const BlockArray& rows, std::uint64_t first);
  /// What belongs to the whole weight. `tensor_scale` as BlockArray has it, `amax` the largest magnitude it is for.
  std::vector<Piece> rest(float tensor_scale, float amax) const;

 private:
  std::string misfit(std::string_view writer, const StorageLayout& layout);
  bool set_names(const StorageLayout& layout, const std::string& name);
  void add(std::string_view suffix, const ElementType& type, std::vector<std::uint64_t> shape);
  std::vector<std::uint64_t> scales_shape() const;
  std::vector<std::byte> packed_row(std::span<const std::uint8_t> codes) const;

  std::string name_, stem_;
  PartNames names_;
  std::vector<std::uint64_t> shape_;
  BlockFormat format_;
  FloatFormat original_;
  const StorageLayout* layout_ = nullptr;
  const ElementType *code_type_ = nullptr, *scale_type_ = nullptr;
  std::vector<StoredTensor> parts_;
  std::uint64_t matrices_ = 1, rows_ = 0, columns_ = 0, row_bytes_ = 0;
  std::uint64_t block_rows_ = 1, block_columns_ = 1, grid_rows_ = 1, grid_columns_ = 1;
  std::size_t tensor_scale_part_ = 0, zeros_part_ = 0, shape_part_ = 0;  ///< 0: there is none
  std::vector<std::uint8_t> zeros_;                                      ///< code words of all, where rows share bytes
};

}  // namespace halfulp
