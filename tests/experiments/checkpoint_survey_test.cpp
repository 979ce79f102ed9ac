// What `halfulp inspect` says of a tensor, held to quantize_tensor, which rounds and counts element by element.
#include "temporary_folder.hpp"

#include "check.hpp"

#include <halfulp/experiments/checkpoint/checkpoint.hpp>
#include <halfulp/experiments/checkpoint/names.hpp>
#include <halfulp/experiments/checkpoint/survey.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/support/work.hpp>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

namespace checkpoint_survey_test {

using namespace halfulp;
using namespace halfulp::checkpoint;

/// A checkpoint of one tensor "x" with these code words.
class OneTensor {
 public:
  OneTensor(const FloatFormat& format, std::vector<std::uint64_t> shape, const std::vector<std::uint64_t>& codes)
      : format_(format), codes_(codes) {
    const auto size = static_cast<std::size_t>(format.storage_bytes());
    std::string data;
    for (const std::uint64_t code : codes)
      for (std::size_t b = 0; b < size; ++b) data += static_cast<char>(code >> (8 * b) & 255);
    std::vector<StoredTensor> tensors{
        {"x", &element_type_of(format), std::move(shape), codes.size(), 0, data.size(), 0}};
    const std::string path = folder_ / "x.safetensors";
    std::ofstream(path, std::ios::binary) << safetensors_header(tensors, {}) << data;
    model_.emplace(path);
  }
  const ModelTensor& tensor() const { return model_->tensors()[0]; }
  /// As quantize_tensor takes it.
  FileTensor values() const {
    FileTensor t{format_, tensor().shape, {}};
    for (const std::uint64_t code : codes_) t.values.push_back(format_.value(code));
    return t;
  }

 private:
  tests::TemporaryFolder folder_;
  FloatFormat format_;
  std::vector<std::uint64_t> codes_;
  std::optional<ModelTensors> model_;
};

std::uint64_t product(const std::vector<std::uint64_t>& shape) {
  std::uint64_t all = 1;
  for (const std::uint64_t n : shape) all *= n;
  return all;
}

/// Weights as a network has them: normal numbers around 0.02 with a few larger ones, in some format.
std::vector<std::uint64_t> weights(const FloatFormat& f, std::uint64_t count, std::uint64_t seed) {
  check::Random random{seed};
  std::vector<std::uint64_t> codes(count);
  for (std::uint64_t& code : codes) {
    double x = 0;
    for (int i = 0; i < 4; ++i) x += static_cast<double>(random() >> 11) * 0x1p-53 - 0.5;
    if (random() % 100 == 0) x *= 50;
    if (random() % 50 == 0) x = 0;
    code = convert(fp64, f, {}, std::bit_cast<std::uint64_t>(x * 0.03)).code;
  }
  return codes;
}

std::vector<ChosenFormat> all_formats() {
  std::string names =
      "fp16,bf16,e4m3,e5m2,e2m1,tf32,e8m9ieee,mxfp4/rceil,e4m3/4x8/fp32,e4m3/column/fp32,int3/2x16/bf16,"
      "e2m1/8x16/e4m3/amax/tensor-scale";
  for (const NamedBlockFormat& row : block_catalogue()) names += "," + std::string(row.name);
  return chosen_formats(names, "formats");
}

void expect_same(const std::string& what, const Loss& got, const Loss& want) {
  EXPECT_EQ(got.elements, want.elements) << what;
  EXPECT_EQ(got.saturated, want.saturated) << what;
  EXPECT_EQ(got.to_zero, want.to_zero) << what;
  EXPECT_EQ(got.nan_before, want.nan_before) << what;
  EXPECT_EQ(got.nan_after, want.nan_after) << what;
  EXPECT_EQ(got.infinite_before, want.infinite_before) << what;
  EXPECT_EQ(got.infinite_after, want.infinite_after) << what;
  EXPECT_EQ(got.became_infinite, want.became_infinite) << what;
  EXPECT_EQ(got.became_nan, want.became_nan) << what;
  EXPECT_EQ(got.compared, want.compared) << what;
  EXPECT_EQ(got.largest_error, want.largest_error) << what;
  const double e = want.relative_error();
  const double rounding = std::max(1e-12, static_cast<double>(want.elements) * 0x1p-53);  // of another order of sums
  if (std::isfinite(e)) EXPECT_NEAR(got.relative_error(), e, rounding * e) << what;
  else EXPECT_EQ(got.relative_error(), e) << what;
}

/// Every format of a tensor, in both ways.
void compare(const OneTensor& one, const std::vector<ChosenFormat>& formats, const std::string& what) {
  const FileTensor values = one.values();
  for (const Overflow overflow : {Overflow::saturate, Overflow::ieee}) {
    std::atomic<std::uint64_t> done = 0;
    const Survey s = survey(one.tensor(), formats, overflow, 4, [&](std::uint64_t n) { done += n; });
    EXPECT_EQ(done, 2 * one.tensor().count) << what;
    ASSERT_EQ(s.kept.size(), formats.size());
    Rounding rounding;
    rounding.overflow = overflow;
    for (std::size_t f = 0; f < formats.size(); ++f) {
      const Quantized want = quantize_tensor(values, formats[f].format, rounding, 1, {});
      const std::string of = what + " in " + formats[f].name;
      expect_same(of, s.kept[f].loss, want.loss);
      const double bytes = want.bits_per_element * static_cast<double>(one.tensor().count) / 8;
      EXPECT_GE(static_cast<double>(s.kept[f].bytes), bytes - 1e-6 * bytes) << of;
      EXPECT_LT(static_cast<double>(s.kept[f].bytes), bytes + 3) << of;  // code words, scales, zero points: whole bytes
    }
  }
}

TEST(CheckpointSurvey, EveryFormatOfEveryType) {
  const auto formats = all_formats();
  for (const FloatFormat& type : {fp32, bf16, fp16, e4m3, e5m2})
    for (const std::vector<std::uint64_t>& shape :
         std::vector<std::vector<std::uint64_t>>{{}, {1}, {77}, {5, 37}, {64, 96}, {3, 40, 24}, {150, 256}})
      compare(OneTensor(type, shape, weights(type, product(shape), 7 + shape.size())), formats,
              format_name(type) + " of " + std::to_string(product(shape)));
}

/// Doubles are rounded once, whatever the other formats are, and compared as they are.
TEST(CheckpointSurvey, Doubles) {
  auto formats = all_formats();
  for (const ChosenFormat& f : chosen_formats("fp32,fp64,e8m22,e11m30", "formats")) formats.push_back(f);
  for (const std::vector<std::uint64_t>& shape : std::vector<std::vector<std::uint64_t>>{{77}, {64, 96}, {3, 40, 24}}) {
    std::vector<std::uint64_t> codes = weights(fp64, product(shape), 5);
    for (std::size_t i = 0; i + 1 < codes.size(); i += 7)  // just above a tie of E4M3, and of E8M22
      codes[i] = std::bit_cast<std::uint64_t>(0x1.1p-6 + 0x1p-50),
      codes[i + 1] = std::bit_cast<std::uint64_t>(1 + 0x1.0001p-23);
    compare(OneTensor(fp64, shape, codes), formats, "fp64 of " + std::to_string(product(shape)));
    compare(OneTensor(fp64, shape, codes), chosen_formats("fp32", "formats"), "fp64 to fp32");
    codes[3] = fp64.canonical_nan(), codes[9] = fp64.infinity(true), codes[10] = fp64.min_positive();
    compare(OneTensor(fp64, shape, codes), formats, "fp64 with NaN of " + std::to_string(product(shape)));
  }
}

TEST(CheckpointSurvey, NothingThere) {
  for (const std::vector<std::uint64_t>& shape : std::vector<std::vector<std::uint64_t>>{
           {0}, {0, 8}, {8, 0}, {2, 0, 3}, {std::uint64_t{1} << 40, 0}, {0, ~std::uint64_t{0}, ~std::uint64_t{0}}}) {
    const OneTensor one(bf16, shape, {});
    const Survey s = survey(one.tensor(), all_formats(), Overflow::saturate, 4, [](std::uint64_t) {});
    for (const Kept& kept : s.kept) EXPECT_EQ(kept.loss.elements, 0u);
  }
}

TEST(CheckpointSurvey, NanInfinitiesAndZeros) {
  const auto formats = all_formats();
  for (const FloatFormat& type : {fp32, bf16, fp16})
    for (const std::uint64_t rows : {6, 200}) {
      const std::vector<std::uint64_t> shape{rows, 128};
      std::vector<std::uint64_t> codes = weights(type, product(shape), 3);
      codes[5] = type.canonical_nan();
      codes[300] = type.infinity(true);
      codes[301] = type.min_positive();
      compare(OneTensor(type, shape, codes), formats, format_name(type) + " with NaN, " + std::to_string(rows));
      codes[5] = type.infinity();
      compare(OneTensor(type, shape, codes), formats, format_name(type) + " with Inf, " + std::to_string(rows));
      compare(OneTensor(type, shape, std::vector<std::uint64_t>(codes.size(), 0)), formats,
              format_name(type) + " zeros");
    }
}

TEST(CheckpointSurvey, RowsLongerThanAPart) {
  const std::uint64_t columns = (std::uint64_t{1} << 20) + 4 * 384 + 5;
  const auto formats = chosen_formats("e4m3-row,mxfp8e4m3,nvfp4,int8,e4m3/2x32/fp32,e4m3-tensor,bf16", "formats");
  for (const FloatFormat& type : {fp32, bf16})
    compare(OneTensor(type, {3, columns}, weights(type, 3 * columns, 11)), formats, format_name(type) + " long rows");
}

TEST(CheckpointSurvey, Facts) {
  std::vector<std::uint64_t> codes(4 * 64, bf16.with_sign(0x3f80, false));
  for (std::uint64_t row = 0; row < 4; ++row) codes[row * 64 + 9] = 0x42c8;  // 100: one column far above the others
  codes[0] = 0, codes[1] = 0x8000, codes[2] = bf16.canonical_nan(), codes[3] = bf16.infinity(), codes[4] = 1;
  for (const FloatFormat& type : {bf16, fp32}) {
    std::vector<std::uint64_t> stored = codes;
    if (type == fp32)
      for (std::uint64_t& code : stored) code <<= 16;
    const OneTensor one(type, {4, 64}, stored);
    const Facts f = survey(one.tensor(), {}, Overflow::saturate, 4, [](std::uint64_t) {}).facts;
    EXPECT_EQ(f.zeros, 2u);
    EXPECT_EQ(f.nan, 1u);
    EXPECT_EQ(f.infinite, 1u);
    EXPECT_EQ(f.amax, 100.0f);
    EXPECT_EQ(f.columns, 64u);
    EXPECT_EQ(f.outlier_columns, 2u) << "the one of 100 and the one with an infinity";
    const std::map<int, std::uint64_t> want{{-133, 1}, {0, 256 - 4 - 5}, {6, 4}};
    EXPECT_EQ(f.exponents, want);
    EXPECT_DOUBLE_EQ(f.squares, 4 * 1e4 + 247);
  }
}

TEST(CheckpointSurvey, FactsOfDoubles) {
  std::vector<std::uint64_t> codes;
  for (const double x : {1e300, -0.0, 1e-310, 1.0 / 3, std::numeric_limits<double>::infinity(), -2.0})
    codes.push_back(std::bit_cast<std::uint64_t>(x));
  const Facts f = survey(OneTensor(fp64, {2, 3}, codes).tensor(), {}, Overflow::saturate, 4, [](std::uint64_t) {
                  }).facts;
  EXPECT_EQ(f.amax, 1e300);
  EXPECT_EQ(f.zeros, 1u);
  EXPECT_EQ(f.infinite, 1u);
  EXPECT_EQ(f.nan, 0u);
  const std::map<int, std::uint64_t> want{{-1030, 1}, {-2, 1}, {1, 1}, {996, 1}};
  EXPECT_EQ(f.exponents, want);
}

TEST(CheckpointSurvey, AFileThatIsCutMeanwhile) {
  const tests::TemporaryFolder folder;
  const std::string path = folder / "x.safetensors";
  for (int round = 0; round < 10; ++round) {
    std::vector<StoredTensor> tensors;
    for (int i = 0; i < 64; ++i)
      tensors.push_back({"t" + std::to_string(i), &element_type_of(bf16), {256, 512}, 131072, 0, 262144, 0});
    const std::string header = safetensors_header(tensors, {});
    std::ofstream(path, std::ios::binary) << header << std::string(64 * 262144, '\0');
    const ModelTensors model(path);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 3);
    const auto formats = chosen_formats("mxfp8e4m3,nvfp4", "formats");
    // One tensor's error stops the loops within all others.
    EXPECT_THROW(
        (void)parallel_map(
            64,
            [&](std::size_t i) {
              return survey(model.tensors()[i], formats, Overflow::saturate, 4, [](std::uint64_t) {}).kept.size();
            }),
        std::invalid_argument);
  }
}

TEST(CheckpointSurvey, ViewsOfShapes) {
  const auto view = [](std::vector<std::uint64_t> shape) {
    const MatrixView v = view_of(shape);
    return std::array{v.matrices, v.rows, v.columns};
  };
  using Three = std::array<std::uint64_t, 3>;
  EXPECT_EQ(view({}), (Three{1, 1, 1}));
  EXPECT_EQ(view({7}), (Three{1, 1, 7}));
  EXPECT_EQ(view({5, 7}), (Three{1, 5, 7}));
  EXPECT_EQ(view({2, 5, 7}), (Three{2, 5, 7}));
  EXPECT_EQ(view({64, 3, 7, 7}), (Three{1, 64, 147}));
}

TEST(CheckpointNames, RolesAndLayers) {
  const auto role = [](const char* name, std::size_t axes = 2) { return role_of(name, axes, {}); };
  EXPECT_EQ(role("model.layers.3.self_attn.q_proj.weight"), "attention");
  EXPECT_EQ(role("model.layers.3.mlp.gate_proj.weight"), "mlp");
  EXPECT_EQ(role("model.layers.3.post_attention_layernorm.weight"), "norm");
  EXPECT_EQ(role("model.embed_tokens.weight"), "embedding");
  EXPECT_EQ(role("lm_head.weight"), "head");
  EXPECT_EQ(role("h.0.attn.c_attn.weight"), "attention");
  EXPECT_EQ(role("h.0.ln_1.weight"), "norm");
  EXPECT_EQ(role("transformer.wte.weight"), "embedding");
  EXPECT_EQ(role("layer1.0.conv1.weight", 4), "convolution");
  EXPECT_EQ(role("layer1.0.bn1.weight", 1), "norm");
  EXPECT_EQ(role("x", 4), "convolution");
  EXPECT_EQ(role("x"), "other");
  EXPECT_EQ(role_of("model.layers.3.self_attn.q_proj.weight", 2, parse_roles("mine=*q_proj*;b=*")), "mine");
  EXPECT_THROW(parse_roles("mine"), std::invalid_argument);
  EXPECT_THROW(parse_roles("=*"), std::invalid_argument);
  EXPECT_EQ(layer_of("model.layers.17.mlp.up_proj.weight"), "model.layers.17");
  EXPECT_EQ(layer_of("h.0.ln_1.weight"), "h.0");
  EXPECT_EQ(layer_of("model.norm.weight"), "model.norm");
  EXPECT_EQ(layer_of("weight"), "weight");
  EXPECT_EQ(layer_of("0.weight"), "0");
}

}  // namespace checkpoint_survey_test
