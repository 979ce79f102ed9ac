// A checkpoint that is written in another format: its values held to quantize_tensor, its other bytes to what they
// were.
#include "temporary_folder.hpp"

#include "check.hpp"

#include <halfulp/experiments/checkpoint/survey.hpp>
#include <halfulp/experiments/checkpoint/write.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

namespace checkpoint_quantize_test {

using namespace halfulp;
using namespace halfulp::checkpoint;

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

/// fp32 tensors of several shapes, a bf16 one, and integers.
class Checkpoint {
 public:
  explicit Checkpoint(float special = 0) {
    std::vector<StoredTensor> tensors;
    std::string data;
    check::Random random{11};
    const auto add = [&](const char* name, const char* type, std::vector<std::uint64_t> shape) {
      StoredTensor t{name, find_element_type(type), std::move(shape)};
      t.count = *elements_of(t.shape), t.bytes = *stored_bytes(*t.type, t.count);
      for (std::uint64_t i = 0; i < t.count; ++i) {
        float x = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1) * (i % 97 == 0 ? 30.0f : 0.5f);
        if (special != 0 && i == 40) x = special;  // NaN and infinities are not 0
        std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
        if (t.type->name == "BF16") bits >>= 16;
        if (t.type->name == "I64") bits = static_cast<std::uint32_t>(i);
        for (int b = 0; b < t.type->bits / 8; ++b) data += static_cast<char>(b < 4 ? bits >> (8 * b) & 255 : 0);
      }
      tensors.push_back(std::move(t));
    };
    add("a.weight", "F32", {300, 512});  // more than one part
    add("b.weight", "BF16", {40, 70});
    add("c.weight", "F32", {3, 24, 64});
    add("d.weight", "F32", {8, 4, 3, 3});
    add("e.bias", "F32", {50});
    add("f.scalar", "F32", {});
    add("g.empty", "F32", {0, 5});
    add("ids", "I64", {7});
    const std::string header = safetensors_header(tensors, {{"format", "pt"}});
    std::ofstream(path, std::ios::binary) << header << data;
    model.emplace(path);
  }

 private:
  tests::TemporaryFolder folder_;

 public:
  const std::string path = folder_ / "m.safetensors", out = folder_ / "out.safetensors";
  std::optional<ModelTensors> model;

  FileTensor values(const ModelTensor& t) const {
    std::vector<float> some(t.count);
    t.read(0, some);
    return {fp32, t.shape, {some.begin(), some.end()}};
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path).parent_path()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
};

std::vector<float> read_all(const ModelTensors& model, const std::string& name) {
  for (const ModelTensor& t : model.tensors())
    if (t.name == name) {
      std::vector<float> values(t.count);
      t.read(0, values);
      return values;
    }
  ADD_FAILURE() << name << " is missing";
  return {};
}

void expect_values(const Checkpoint& c, const ChosenFormat& format, const Rounding& rounding, std::uint64_t matrices) {
  for (const ModelTensor& t : c.model->tensors()) {
    std::vector<Rewritten> one;
    one.push_back({&t, &format});
    Destination to{c.out, {}, find_element_type("F32"), rounding, 5};
    const Copies copies = write_checkpoint(*c.model, one, to, [](double) {});
    ASSERT_TRUE(copies.placed) << t.name;
    EXPECT_EQ(one[0].rounded_again, 0u);
    const ModelTensors back(c.out);
    const std::vector<float> got = read_all(back, t.name);
    FileTensor before = c.values(t);
    if (t.shape.size() > 3) before.shape = {t.shape[0], t.count / t.shape[0]};
    if (t.shape.size() == 3 && matrices == 1 && format.block())
      continue;  // one step for all matrices is another format
    const Quantized wanted = quantize_tensor(before, format.format, rounding, 5, {});
    ASSERT_EQ(got.size(), wanted.values.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto w = static_cast<float>(wanted.values[i]);
      ASSERT_TRUE(std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(w) ||
                  (std::isnan(got[i]) && std::isnan(w)))
          << t.name << " " << format.name << " " << i << ": " << got[i] << ", not " << w;
    }
    const Loss &a = one[0].loss, &b = wanted.loss;
    EXPECT_EQ(a.elements, b.elements);
    EXPECT_EQ(a.saturated, b.saturated) << t.name << " " << format.name;
    EXPECT_EQ(a.to_zero, b.to_zero) << t.name << " " << format.name;
    EXPECT_EQ(a.became_infinite, b.became_infinite);
    EXPECT_EQ(a.became_nan, b.became_nan);
    EXPECT_EQ(a.largest_error, b.largest_error);
    if (std::isfinite(b.relative_error())) {
      EXPECT_NEAR(a.relative_error(), b.relative_error(), 1e-12 * b.relative_error());
    }
  }
}

TEST(CheckpointQuantize, ValuesAreThoseOfQuantizeTensor) {
  for (const float special : {0.0f, infinity, nan}) {
    const Checkpoint c(special);
    for (const ChosenFormat& f :
         chosen_formats("fp16,bf16,e4m3,e2m1,mxfp8e4m3,mxfp4,nvfp4,e4m3-row,fp8-128x128,int8,int4,"
                        "int4affine/1x32/bf16,e4m3/column/fp32,e2m1/8x16/e4m3/tensor-scale",
                        "formats"))
      expect_values(c, f, {}, f.block() && (f.block()->tensor_scale || f.block()->rows == 0) ? 1 : 3);
  }
  const Checkpoint c;
  Rounding toward_zero;
  toward_zero.mode = RoundingMode::toward_zero;
  expect_values(c, chosen_formats("bf16", "formats")[0], toward_zero, 1);
  expect_values(c, chosen_formats("mxfp4", "formats")[0], toward_zero, 3);
}

TEST(CheckpointQuantize, StochasticBitsGoByPlacesInTheTensor) {
  const Checkpoint c;
  const ModelTensor& t = c.model->tensors()[0];
  ASSERT_GT(t.count, 2 * 65536u) << "more than one part";
  Rounding rounding;
  rounding.mode = RoundingMode::stochastic;
  for (const ChosenFormat& f : chosen_formats("bf16,mxfp4,nvfp4", "formats")) {
    std::vector<Rewritten> one;
    one.push_back({&t, &f});
    const Destination to{c.out, {}, nullptr, rounding, 5};
    ASSERT_TRUE(write_checkpoint(*c.model, one, to, [](double) {}).placed);
    const std::vector<float> got = read_all(ModelTensors(c.out), t.name);
    const Quantized wanted = quantize_tensor(c.values(t), f.format, rounding, 5, {});
    EXPECT_TRUE(std::equal(got.begin(), got.end(), wanted.values.begin(), [](float a, double b) {
      return static_cast<double>(a) == b;
    })) << f.name;
  }
}

TEST(CheckpointQuantize, EveryOtherByteIsAsItWas) {
  const Checkpoint c;
  const auto formats = chosen_formats("mxfp8e4m3", "formats");
  for (const std::string_view writer : {"", "torchao", "compressed-tensors"}) {
    std::vector<Rewritten> one;
    one.push_back({&c.model->tensors()[0], &formats[0]});
    ASSERT_EQ(one[0].tensor->name, "a.weight");
    Destination to{c.out, writer, nullptr, {}, 0};
    const Copies copies = write_checkpoint(*c.model, one, to, [](double) {});
    EXPECT_TRUE(copies.placed);
    EXPECT_EQ(copies.tensors, 7u);
    EXPECT_EQ(copies.file, std::filesystem::file_size(c.out));
    const TensorFiles before(c.path), after(c.out);
    EXPECT_EQ(after.metadata().at("format"), "pt");
    for (const StoredTensor& t : before.tensors()) {
      if (t.name == "a.weight") continue;
      const StoredTensor* const again = after.find(t.name);
      ASSERT_TRUE(again) << t.name;
      EXPECT_EQ(again->type, t.type);
      EXPECT_EQ(again->shape, t.shape);
      std::vector<std::byte> x(t.bytes), y(t.bytes);
      before.read_bytes(t, 0, x), after.read_bytes(*again, 0, y);
      EXPECT_EQ(x, y) << t.name;
      EXPECT_EQ(again->offset % static_cast<std::uint64_t>(std::max(8, t.type->bits) / 8), 0u) << t.name;
    }
    EXPECT_EQ(c.files(), (std::vector<std::string>{"m.safetensors", "out.safetensors"}));
  }
}

TEST(CheckpointQuantize, ADtypeRoundsAgain) {
  const Checkpoint c;
  const auto formats = chosen_formats("e4m3-row", "formats");
  std::vector<Rewritten> one;
  one.push_back({&c.model->tensors()[1], &formats[0]});
  ASSERT_EQ(one[0].tensor->name, "b.weight");
  const Destination to{c.out, {}, nullptr, {}, 0};
  ASSERT_TRUE(write_checkpoint(*c.model, one, to, [](double) {}).placed);
  EXPECT_EQ(one[0].stored_as, "BF16");
  const Quantized exact = quantize_tensor(c.values(*one[0].tensor), formats[0].format, {}, 0, {});
  std::uint64_t again = 0;
  const std::vector<float> got = read_all(ModelTensors(c.out), "b.weight");
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double stored = bf16.value(convert(fp64, bf16, {}, std::bit_cast<std::uint64_t>(exact.values[i])).code);
    EXPECT_EQ(static_cast<double>(got[i]), stored);
    again += stored != exact.values[i];
  }
  EXPECT_GT(again, 1000u);
  EXPECT_EQ(one[0].rounded_again, again);
}

TEST(CheckpointQuantize, DoublesBeyondFloatsAreRefused) {
  for (const double x : {1e300, 1e-300, 1.0, std::numeric_limits<double>::infinity()}) {
    const tests::TemporaryFolder folder;
    std::vector<StoredTensor> tensors{{"x", find_element_type("F64"), {1, 2}, 2, 0, 16, 0}};
    const std::string header = safetensors_header(tensors, {});
    std::string data(16, '\0');
    std::memcpy(data.data() + 8, &x, 8);
    std::ofstream(folder / "m.safetensors", std::ios::binary) << header << data;
    const ModelTensors model(folder / "m.safetensors");
    const auto formats = chosen_formats("bf16", "formats");
    std::vector<Rewritten> one;
    one.push_back({&model.tensors()[0], &formats[0]});
    const Destination to{folder / "out.safetensors", {}, nullptr, {}, 0};
    const auto write = [&] { return write_checkpoint(model, one, to, [](double) {}); };
    if (x == 1 || std::isinf(x)) EXPECT_TRUE(write().placed) << x;
    else EXPECT_THROW((void)write(), std::invalid_argument) << x;
  }
}

/// 1.0625 lies halfway between two numbers of E4M3, 1 + 2^-23 between two of E8M22. To round twice to formats of more
/// than 22 bits, a float would have to have more.
TEST(CheckpointQuantize, DoublesAreRoundedOnce) {
  const std::vector<double> x{1.0625 + 0x1p-40, 1.0625 - 0x1p-40, 1 + 0x1p-23 + 0x1p-40, 1 + 0x1.8p-24};
  const tests::TemporaryFolder folder;
  std::vector<StoredTensor> tensors{{"x", find_element_type("F64"), {1, 4}, 4, 0, 32, 0}};
  const std::string header = safetensors_header(tensors, {});
  std::ofstream(folder / "m.safetensors", std::ios::binary)
      << header << std::string(reinterpret_cast<const char*>(x.data()), 32);
  const ModelTensors model(folder / "m.safetensors");
  const auto values = [&](const char* format) {
    const auto formats = chosen_formats(format, "formats");
    std::vector<Rewritten> one;
    one.push_back({&model.tensors()[0], &formats[0]});
    (void)write_checkpoint(model, one, {folder / "out.safetensors", {}, nullptr, {}, 0}, [](double) {});
    const Survey seen = survey(model.tensors()[0], formats, Overflow::ieee, 4, [](std::uint64_t) {});
    EXPECT_EQ(seen.kept[0].loss.compared, 4u);
    return read_all(ModelTensors(folder / "out.safetensors"), "x");
  };
  EXPECT_EQ(values("e4m3"), (std::vector<float>{1.125f, 1, 1, 1}));
  EXPECT_EQ(values("mxfp8e4m3"), (std::vector<float>{1.125f, 1, 1, 1}));
  EXPECT_EQ(values("fp32"), (std::vector<float>{1.0625f, 1.0625f, 1 + 0x1p-23f, 1 + 0x1p-23f}));
  EXPECT_EQ(values("e8m22"), (std::vector<float>{1.0625f, 1.0625f, 1 + 0x1p-22f, 1}));
}

TEST(CheckpointQuantize, NothingIsLeftOfWhatFails) {
  const Checkpoint c;
  const auto formats = chosen_formats("mxfp4,fp16", "formats");
  const auto refused = [&](std::size_t tensor, std::size_t format, std::string_view writer) {
    std::vector<Rewritten> one;
    one.push_back({&c.model->tensors()[tensor], &formats[format]});
    const Destination to{c.out, writer, nullptr, {}, 0};
    EXPECT_THROW((void)write_checkpoint(*c.model, one, to, [](double) {}), std::invalid_argument);
    EXPECT_EQ(c.files(), std::vector<std::string>{"m.safetensors"});
  };
  refused(1, 0, "modelopt");  // 70 columns are no whole blocks
  refused(0, 1, "modelopt");  // fp16 has no scales
  std::filesystem::resize_file(c.path, std::filesystem::file_size(c.path) - 100);
  refused(0, 0, "modelopt");  // the file was cut short meanwhile
}

}  // namespace checkpoint_quantize_test
