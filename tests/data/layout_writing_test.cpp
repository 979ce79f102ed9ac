// Weights written as code words and scales: read back by find_encoded and read_rows, which share only the
// table of layouts with the writing, and held to dequantize_blocks; a few layouts byte by byte.
#include "temporary_folder.hpp"

#include "check.hpp"

#include <halfulp/data/layout_writing.hpp>
#include <halfulp/data/model_tensors.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

namespace layout_writing_test {

using namespace halfulp;

/// Values of several magnitudes, a row of zeros among them.
std::vector<float> weights(std::uint64_t count, std::uint64_t columns, std::uint64_t seed) {
  check::Random random{seed};
  std::vector<float> values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
    values[i] = i / columns == 1 ? 0.0f : static_cast<float>(x * std::exp2(static_cast<double>(i / columns % 7)));
  }
  return values;
}

/// A weight in a layout, as a file.
struct Written {
  EncodedWeight weight;
  std::vector<float> values;  ///< as dequantize_blocks has them
  std::string header, data;

  Written(std::string_view writer, const std::string& name, const std::vector<std::uint64_t>& shape,
          const std::string& format, const std::vector<float>& from, std::uint64_t rows_at_once)
      : weight(writer, name, shape, parse_block_format(format), bf16) {
    const BlockFormat f = parse_block_format(format);
    const std::uint64_t rows = shape[shape.size() - 2], columns = shape.back(),
                        matrices = shape.size() == 3 ? shape[0] : 1;
    BlockOptions options;
    float amax = 0;
    for (const float x : from) amax = std::max(amax, std::fabs(x));
    if (!f.element.is_affine() && (f.tensor_scale || (f.rows == 0 && f.columns == 0))) options.amax = amax;
    float tensor_scale = 1;
    std::vector<EncodedWeight::Piece> pieces;
    for (std::uint64_t m = 0; m < matrices; ++m)
      for (std::uint64_t row = 0; row < rows; row += rows_at_once) {
        const std::uint64_t some = std::min(rows_at_once, rows - row), first = m * rows + row;
        const BlockArray array = quantize_blocks(f, {}, std::span(from).subspan(first * columns, some * columns), some,
                                                 columns, options);
        std::vector<float> back(some * columns);
        dequantize_blocks(array, back);
        values.insert(values.end(), back.begin(), back.end());
        tensor_scale = array.tensor_scale;
        for (auto& piece : weight.pieces(array, first)) pieces.push_back(std::move(piece));
      }
    for (auto& piece : weight.rest(tensor_scale, amax)) pieces.push_back(std::move(piece));
    std::map<std::string, std::string> metadata;
    if (!weight.metadata().empty()) metadata[name] = weight.metadata();
    header = safetensors_header(weight.parts(), metadata);
    for (const StoredTensor& part : weight.parts()) data.append(part.bytes, '\x55');  // which pieces must all overwrite
    for (const EncodedWeight::Piece& piece : pieces)
      std::memcpy(data.data() + weight.parts()[piece.part].offset - header.size() + piece.offset, piece.bytes.data(),
                  piece.bytes.size());
  }
  void save(const std::string& path) const { std::ofstream(path, std::ios::binary) << header << data; }
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

struct Case {
  const char *writer, *formats;
  std::vector<std::uint64_t> shape;
  const char* layout;
};

TEST(LayoutWriting, EveryLayoutReadsBack) {
  const std::vector<Case> cases{
      {"compressed-tensors",
       "e4m3-tensor e5m2-tensor e4m3-row e4m3/row/bf16 fp8-128x128 e4m3/1x64/bf16",
       {160, 256},
       "compressed-tensors float-quantized"},
      {"compressed-tensors", "e4m3-tensor e4m3-row e4m3/32x32/fp32", {3, 40, 64}, "compressed-tensors float-quantized"},
      {"compressed-tensors",
       "int8 int8full/1x64/bf16 int8affine/row/fp32 int8affine/1x32/fp16 int8/tensor/fp32",
       {24, 128},
       "compressed-tensors int-quantized"},
      {"compressed-tensors",
       "int4full/1x32/bf16 int4/row/fp32 int4affine/1x32/bf16 int3full/1x32/fp32 int5affine/row/bf16 "
       "int6affine/1x64/fp32 "
       "int7full/row/fp32 int2/1x64/fp32 int4/tensor/fp32",
       {37, 192},
       "compressed-tensors pack-quantized"},
      {"compressed-tensors", "nvfp4", {24, 64}, "compressed-tensors nvfp4-pack-quantized"},
      {"compressed-tensors", "mxfp4 mxfp4/rceil", {24, 64}, "compressed-tensors mxfp4-pack-quantized"},
      {"compressed-tensors", "mxfp6e2m3", {24, 64}, "compressed-tensors mxfp6-pack-quantized"},
      {"compressed-tensors", "mxfp8e4m3 mxfp8e5m2", {24, 64}, "compressed-tensors mxfp8-quantized, ModelOpt MXFP8"},
      {"modelopt", "e4m3-tensor e4m3-row fp8-128x128 e5m2-row", {160, 256}, "ModelOpt FP8"},
      {"modelopt", "int8 int8/tensor/fp32", {24, 64}, "ModelOpt INT8"},
      {"modelopt", "fp8-128x128 e4m3-tensor", {128, 128}, "ModelOpt FP8"},
      {"modelopt", "e4m3-row fp8-128x128", {1, 64}, "ModelOpt FP8"},
      {"compressed-tensors", "e4m3-row fp8-128x128 e4m3/1x64/bf16", {1, 64}, "compressed-tensors float-quantized"},
      {"compressed-tensors", "e4m3-row e4m3-tensor", {7, 1}, "compressed-tensors float-quantized"},
      {"torchao", "e4m3-row e4m3-tensor", {1, 1}, "torchao Float8Tensor"},
      {"deepseek", "fp8-128x128 e4m3-row", {1, 7}, "DeepSeek-V3 FP8"},
      {"modelopt", "nvfp4", {24, 64}, "ModelOpt NVFP4"},
      {"modelopt", "nvfp4", {3, 24, 64}, "ModelOpt NVFP4"},
      {"modelopt", "e2m1/1x32/e4m3/tensor-scale", {24, 64}, "ModelOpt W4A8_NVFP4_FP8"},
      {"modelopt", "mxfp4", {24, 64}, "ModelOpt MXFP4"},
      {"torchao", "e4m3-tensor e4m3-row fp8-128x128 e5m2-row", {160, 256}, "torchao Float8Tensor"},
      {"torchao", "int8 int8/tensor/fp32 int8affine/row/fp32 int8full/1x32/fp32", {24, 64}, "torchao Int8Tensor"},
      {"torchao",
       "int4full/1x32/bf16 int4affine/1x32/fp32 int2/row/fp32",
       {24, 64},
       "torchao IntxUnpackedToInt8Tensor"},
      {"torchao", "nvfp4 e2m1/1x16/e4m3", {24, 64}, "torchao NVFP4Tensor"},
      {"torchao", "mxfp8e4m3 mxfp8e5m2", {24, 64}, "torchao MXTensor FP8"},
      {"torchao", "mxfp6e2m3", {24, 64}, "torchao MXTensor FP6 E2M3"},
      {"torchao", "mxfp6e3m2", {24, 64}, "torchao MXTensor FP6 E3M2"},
      {"torchao", "mxfp4", {2, 24, 64}, "torchao MXTensor FP4"},
      {"mlx", "mxfp4", {24, 64}, "MLX mxfp4"},
      {"mlx", "mxfp8e4m3", {24, 64}, "MLX mxfp8"},
      {"mlx", "e2m1/1x16/e4m3", {24, 64}, "MLX nvfp4"},
      {"mlx", "nvfp4", {2, 24, 64}, "MLX nvfp4"},
      {"deepseek", "fp8-128x128 e4m3-row e4m3-tensor mxfp8e4m3 e5m2/64x64/e8m0", {160, 256}, "DeepSeek-V3 FP8"},
      {"deepseek", "e4m3/32x64/fp32", {3, 40, 100}, "DeepSeek-V3 FP8"},
      {"gpt-oss", "mxfp4", {3, 24, 64}, "gpt-oss MXFP4"},
  };
  const tests::TemporaryFolder folder;
  std::size_t compared = 0;
  for (const Case& c : cases)
    for (const std::string& format : words_of(c.formats)) {
      SCOPED_TRACE(std::string(c.writer) + " " + format);
      const std::uint64_t count = *elements_of(c.shape), columns = c.shape.back();
      const BlockFormat f = parse_block_format(format);
      const std::uint64_t at_once = f.element.is_affine() && f.rows == 0 ? 1000 : std::max<std::uint64_t>(f.rows, 8);
      const Written written(c.writer, "model.layers.0.mlp.up_proj.weight", c.shape, format, weights(count, columns, 7),
                            at_once);
      EXPECT_EQ(written.weight.layout().name, c.layout);
      written.save(folder / "x.safetensors");
      const ModelTensors model(folder / "x.safetensors");
      ASSERT_EQ(model.tensors().size(), 1u);
      ASSERT_TRUE(model.others().empty());
      const ModelTensor& back = model.tensors()[0];
      EXPECT_EQ(back.name, "model.layers.0.mlp.up_proj.weight");
      EXPECT_EQ(back.shape, c.shape);
      ASSERT_TRUE(back.encoded);
      EXPECT_EQ(back.encoded->layout->name, c.layout);
      std::vector<float> values(count);
      back.read(0, values);
      const bool divides = back.encoded->layout->tensor_scale.use == TensorScale::divide && f.tensor_scale;
      for (std::uint64_t i = 0; i < count; ++i) {
        ++compared;
        // The inverse of the tensor's scale, rounded, and the quotient by it, rounded: at most 1.5 ulp apart each.
        if (divides) ASSERT_NEAR(values[i], written.values[i], std::fabs(written.values[i]) * 0x1p-22f) << i;
        else
          ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i] + 0), std::bit_cast<std::uint32_t>(written.values[i] + 0))
              << i;
      }
    }
  EXPECT_GT(compared, 300'000u);
}

std::string bytes_of(const Written& w, std::size_t part) {
  const StoredTensor& t = w.weight.parts()[part];
  return w.data.substr(t.offset - w.header.size(), t.bytes);
}

TEST(LayoutWriting, BytesByHand) {
  // compressed-tensors 0.20, pack_quantized/helpers.py: -8, -7, 0, 7, 1, 2, 3, 4 are the word 0xcba9f810.
  const Written words("compressed-tensors", "a.weight", {1, 8}, "int4full/row/fp32", {-8, -7, 0, 7, 1, 2, 3, 4}, 1);
  ASSERT_EQ(words.weight.parts()[0].name, "a.weight_packed");
  const std::string scale = bytes_of(words, 1);
  float s = 0;
  std::memcpy(&s, scale.data(), 4);
  EXPECT_EQ(s, 8 / 7.5f) << "the scale of full range";
  EXPECT_EQ(bytes_of(words, 2), std::string({1, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0})) << "weight_shape";
  const Written exact("compressed-tensors", "a.weight", {2, 8}, "int4/row/fp32",
                      {-7, -6, 0, 7, 1, 2, 3, 4, 7, 6, 0, -7, -1, -2, -3, -4}, 1);
  EXPECT_EQ(bytes_of(exact, 0), std::string("\x21\xf8\xa9\xcb\xef\x18\x67\x45", 8))
      << "code words plus 8, the first lowest";
  // Two FP4 in a byte, the first in its low half: 0.5 is 1, -6 is 15.
  std::vector<float> row(32, 0.0f);
  row[0] = 0.5f, row[1] = -6.0f;
  const Written fp4("mlx", "a.weight", {1, 32}, "mxfp4", row, 1);
  EXPECT_EQ(bytes_of(fp4, 0).substr(0, 2), std::string("\xf1\0", 2));
  EXPECT_EQ(bytes_of(fp4, 1), "\x7f") << "a scale of 1";
  // torchao keeps an integer's sign in all of its byte.
  const Written ints("torchao", "a.weight", {1, 8}, "int4/row/fp32", {-7, 7, 0, 0, 0, 0, 0, -1}, 1);
  EXPECT_EQ(bytes_of(ints, 0), std::string("\xf9\x07\0\0\0\0\0\xff", 8));
}

TEST(LayoutWriting, WhatNoLayoutHolds) {
  const auto why = [](const char* writer, const char* name, std::vector<std::uint64_t> shape, const char* format) {
    try {
      EncodedWeight(writer, name, shape, parse_block_format(format), bf16);
    } catch (const std::invalid_argument& error) { return std::string(error.what()); }
    return std::string("nothing");
  };
  EXPECT_NE(why("gguf", "a.weight", {8, 64}, "mxfp4").find("unknown layout 'gguf'"), std::string::npos);
  EXPECT_EQ(why("gpt-oss", "a", {8, 64}, "int8"),
            "tensor 'a' [8, 64] as int8: gpt-oss has no layout of such elements; it has gpt-oss MXFP4");
  const auto wants = [&](const char* words, const char* writer, const char* name, std::vector<std::uint64_t> shape,
                         const char* format) {
    const std::string text = why(writer, name, std::move(shape), format);
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  wants("wants a name that ends in weight", "modelopt", "a.kernel", {8, 64}, "mxfp4");
  wants("wants a name of two parts", "torchao", "weight", {8, 64}, "mxfp4");
  wants("wants two axes", "compressed-tensors", "a.weight", {4, 4, 3, 32}, "mxfp4");
  wants("wants two axes", "compressed-tensors", "a.weight", {2, 8, 64}, "int4/row/fp32");
  wants("wants whole blocks", "modelopt", "a.weight", {8, 60}, "mxfp4");
  wants("wants whole blocks", "mlx", "a.weight", {8, 16}, "mxfp4");
  wants("wants whole blocks", "torchao", "a.weight", {8, 1}, "nvfp4");
  wants("wants a tensor scale", "modelopt", "a.weight", {8, 64}, "e2m1/1x16/e4m3");
  wants("wants no tensor scale but of experts", "mlx", "a.weight", {8, 64}, "nvfp4");
  wants("wants blocks of 1x32", "torchao", "a.weight", {8, 64}, "e2m1/1x64/e8m0");
  wants("wants at least one value", "torchao", "a.weight", {0, 64}, "mxfp4");
  wants("wants blocks whose sides are powers of two", "deepseek", "a.weight", {300, 64}, "e4m3/100x32/fp32");
  wants("wants blocks that are no columns", "deepseek", "a.weight", {300, 64}, "e4m3/column/fp32");
  wants("wants two axes, or one scale for all", "modelopt", "a.weight", {3, 8, 64}, "e4m3-row");
}

}  // namespace layout_writing_test
