// Weights that a checkpoint stores as code words and scales in several tensors, in the layouts that published writers
// use: compressed-tensors, NVIDIA ModelOpt, torchao, MLX, DeepSeek-V3 and transformers' fine-grained FP8, gpt-oss.
//
// A layout is a row of one table (layouts()). Names, dtypes and shapes of tensors decide which one a weight has;
// torchao says it in the header's metadata, and MLX leaves bits and group size to config.json beside the file. Where
// blocks have several rows and the last ones may be cut short, shapes allow several sizes of blocks: the power of two
// is meant.
//
// Every value is, in fp32 operations that round to nearest even, in this order:
//
//   t = tensor scale (/ 2688 in MLX)            s = scale, or scale * t, or scale / t (compressed-tensors)
//   value = (code - zero point) * s             or, where the layout has an offset instead: (code * s) + offset
//
// Scales and offsets of 16 bits are exact in fp32, and those of 64 bits are rounded to it first. Writers that compute
// in the model's 16-bit type round the results of these operations to that type besides. An E8M0 scale of 255 is NaN,
// as in OCP MX 1.0; compressed-tensors and MLX make it infinity.
//
// What a writer multiplies activations with (input_scale, pre_quant_scale, act_pre_scale) is no part of a weight, and
// weights that a writer rotated (compressed-tensors' transform_config) stay so.
#pragma once

#include <halfulp/data/tensor_files.hpp>
#include <halfulp/formats/block_format.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// How tensors of one weight are called: suffixes of a common stem. One that begins with a letter stands behind a '.'
/// or is the whole name. Empty: there is no such part, but empty `codes` are the stem itself.
struct PartNames {
  std::string_view codes, scales, tensor_scale = {}, zeros = {};
};

/// Where the code words of a row of values are.
enum class Packing : std::uint8_t {
  dense,   ///< a stream of bits along the row, which begins with the lowest bit of its first byte
  bytes,   ///< one in the low bits of each byte
  groups,  ///< dense in groups of 16 bytes, which have an axis of their own: gpt-oss
  words,  ///< dense in rows of 32-bit words, of integers plus 2^(bits-1); compressed-tensors' releases before 0.20 have
          ///< none that lies in two words. `weight_shape` says how many there are
  affine,  ///< dense, of as many bits as MLX's config.json or the shapes say
  rows,    ///< two rows share a row of bytes, the even one in the low nibbles
  opaque,  ///< as some kernel wants them: the layout is known, and refused
};

/// Which shapes the tensor of scales has. Axes before the last two, of experts, are those of the values.
enum class ScaleShape : std::uint8_t {
  any,         ///< that of `matrix` or of `vector`
  matrix,      ///< [blocks down, blocks across] or [1]
  vector,      ///< [], [rows], or [blocks down, 1, blocks across, 1]; of experts any
  transposed,  ///< [blocks across, rows]
};

/// What torchao calls code words: those of the parameter "m._weight" are "m._weight_qdata".
inline constexpr std::string_view torchao_codes = "_qdata";
/// Dtypes of scales that are floats.
inline constexpr std::string_view any_float = "F32 BF16 F16 F64";
/// Elements that are floats, or integers with all their values.
constexpr BlockElement floats(const FloatFormat& f) { return {f, 0, 0, IntegerRange::symmetric}; }
constexpr BlockElement ints(int bits) { return {{}, bits, 0, IntegerRange::full}; }

/// How code words are stored.
struct CodeForm {
  std::string_view types;            ///< dtypes, separated by blanks
  Packing packing = Packing::dense;  ///< where they are
  BlockElement element = {};         ///< what they are; without bits: what their dtype, or the packing, says
};

/// How scales are stored.
struct ScaleForm {
  std::string_view types;                         ///< dtypes, separated by blanks
  ScaleShape shape = ScaleShape::any;             ///< of the tensor
  std::size_t block_rows = 0, block_columns = 0;  ///< values that share one; 0: as the shapes say
  FloatFormat bytes = {};                         ///< what those of the dtype U8 are
};

/// What a scale of the whole tensor does.
struct TensorScale {
  enum Use : std::uint8_t { none, multiply, divide } use = none;
  bool required = true;
  float over = 1;  ///< it is divided by this first
};

/// What the part `zeros` does.
enum class ZeroUse : std::uint8_t {
  none,
  subtract,  ///< integers, subtracted from code words; where the part is absent they are 0
  add,       ///< floats, added to scaled code words; the part must be there
};

/// One row of the table: how a writer stores weights in one of its formats.
struct StorageLayout {
  std::string_view name;               ///< "compressed-tensors nvfp4-pack-quantized"
  std::string_view citation;           ///< the project, and the file that defines it
  std::array<PartNames, 2> names;      ///< of its parts; the second may be unused
  CodeForm codes;                      ///< the code words
  ScaleForm scales = {};               ///< the scales
  TensorScale tensor_scale = {};       ///< the scale of the whole tensor
  ZeroUse zeros = ZeroUse::none;       ///< zero points or offsets
  std::string_view type = {};          ///< torchao's class of the tensor, as the metadata have it
  std::string_view element_type = {};  ///< torchao's elem_dtype, where it tells layouts of one class apart
};

/// All layouts. Of two that fit, the first is taken.
std::span<const StorageLayout> layouts();

/// Whether one of some words, separated by blanks, is `word`: dtypes of a CodeForm or a ScaleForm.
bool has_word(std::string_view words, std::string_view word);

/// Scales in the order that cuBLAS wants lie in tiles of so many rows and columns.
inline constexpr std::size_t swizzled_rows = 128, swizzled_columns = 4,
                             swizzled_tile = swizzled_rows * swizzled_columns;

/// n / by, rounded up.
constexpr std::uint64_t ceil_div(std::uint64_t n, std::uint64_t by) { return n / by + (n % by != 0); }

/// How the values of an encoded tensor follow from its parts. Pointers are null where there is no such part.
struct Decoding {
  const StoredTensor* codes = nullptr;         ///< the code words
  const StoredTensor* scales = nullptr;        ///< a grid of scales
  const StoredTensor* tensor_scale = nullptr;  ///< one, or one of each matrix
  const StoredTensor* zeros = nullptr;         ///< a grid like that of the scales
  const StoredTensor* groups = nullptr;        ///< of each column which column of the grid is its own (weight_g_idx)
  std::uint64_t rows = 0, columns = 0;         ///< of a matrix of values
  BlockElement element = {};                   ///< what a code word is
  bool offset_binary = false;   ///< integers are stored plus 2^(bits-1), and zero points of the dtype I32 too
  std::uint64_t row_bytes = 0;  ///< of a row of stored code words
  std::uint64_t step = 0;       ///< bits from a code word to the next
  std::uint64_t in_word = 0;    ///< code words of each 32-bit word, whose last bits are unused; 0: no bits are
  std::uint64_t rows_in_byte =
      1;  ///< rows of values that share a row of stored code words, in this many parts of bytes
  std::uint64_t block_rows = 0, block_columns = 0;  ///< values that share a scale
  std::uint64_t grid_rows = 0, grid_columns = 0;    ///< scales of a matrix
  bool one_grid = true;                             ///< all matrices have the same scales
  bool swizzled = false;                            ///< scales are in the order that cuBLAS wants: tiles of 128 x 4
  bool transposed = false;                          ///< scales and offsets are stored by columns of the grid
  FloatFormat scale_format = {};                    ///< of a scale
  TensorScale tensor_scale_use = {};
  ZeroUse zero_use = ZeroUse::none;
};

/// A weight whose values are code words and scales in other tensors.
struct EncodedTensor {
  std::string name;                       ///< of the weight itself: "model.layers.0.self_attn.q_proj.weight"
  const StorageLayout* layout = nullptr;  ///< how it is stored
  std::string format;                     ///< "nvfp4", "e4m3/128x128/fp32", "int4full/1x128/bf16": what
                                          ///< parse_block_format accepts; "uint4/1x64/bf16/offset" where the layout has
                                          ///< offsets, for which there is no block format
  std::vector<std::uint64_t> shape;       ///< of the values
  std::uint64_t count = 0;                ///< values
  std::uint64_t bytes = 0;                ///< of all its parts
  std::vector<const StoredTensor*> parts;  ///< code words, scales, then what else there is; `files` has them
  Decoding decoding;
};

/// Every encoded tensor, in the order of their code words. Tensors that are parts of none are plain. Throws
/// std::invalid_argument in one line that names file and tensor where names and dtype of the code words are those of a
/// layout, and the tensor would be decoded wrongly or in one of two ways: shapes that do not fit, a missing tensor
/// scale, a layout of Packing::opaque, scales that may be swizzled, MLX's bits without config.json. (Scales without
/// code words, or code words without scales, are plain tensors.)
std::vector<EncodedTensor> find_encoded(const TensorFiles& files);

/// `values` = rows `first` to `first + rows` - 1 of the tensor seen as rows of its last axis, in fp32 as this header
/// says. It reads only code words and scales of these rows. Any number of threads may call it. Throws what
/// TensorFiles::read throws, and std::invalid_argument for a weight_g_idx that names no group.
void read_rows(const TensorFiles& files, const EncodedTensor& tensor, std::uint64_t first, std::uint64_t rows,
               std::span<float> values);

}  // namespace halfulp
