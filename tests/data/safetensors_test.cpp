// Safetensors files and folders of them: what is read, and the refusal of every bad file in one line that names it.
#include "temporary_folder.hpp"

#include <halfulp/data/npy.hpp>
#include <halfulp/data/tensor_files.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/files.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace safetensors_test {

using namespace halfulp;
using halfulp::tests::TemporaryFolder;

/// A file of a header and data, its length in front.
std::string file_of(const std::string& header, const std::string& data = {}) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i) & 255);
  return out + header + data;
}

class Safetensors : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return folder / name;
  }
  /// The line that refuses a path; the test fails if it is taken, or if the message is not one line.
  static std::string refusal(const std::string& path) {
    try {
      TensorFiles files(path);
    } catch (const std::invalid_argument& error) {
      const std::string line = error.what();
      EXPECT_EQ(line.find('\n'), line.npos) << line;
      return line;
    }
    ADD_FAILURE() << path << " was accepted";
    return {};
  }
  std::string refusal_of(const std::string& header, const std::string& data = {}) const {
    const std::string path = write("bad.safetensors", file_of(header, data)), line = refusal(path);
    EXPECT_TRUE(line.starts_with(path)) << line;
    return line;
  }
  static void expect(const std::string& line, const std::string& part) {
    EXPECT_NE(line.find(part), line.npos) << line << "\nlacks: " << part;
  }

  const TemporaryFolder folder;
};

TEST_F(Safetensors, TensorsInTheOrderOfTheirBytes) {
  const TensorFiles files(write(
      "a.safetensors",
      file_of(
          R"({"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]},"__metadata__":{"format":"pt"},)"
          R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"none":{"dtype":"I64","shape":[0,3],"data_offsets":[8,8]}}  )",
          std::string("\x00\x00\xc0\x3f\x80\x3f\x00\xc0", 8))));
  ASSERT_EQ(files.tensors().size(), 3u);
  EXPECT_EQ(files.tensors()[0].name, "a");
  EXPECT_EQ(files.tensors()[0].count, 1u);
  EXPECT_EQ(files.tensors()[1].name, "b");
  EXPECT_EQ(files.tensors()[2].count, 0u);
  EXPECT_EQ(files.metadata().at("format"), "pt");
  std::vector<float> values(2);
  files.read(files.tensors()[1], 0, values);
  EXPECT_EQ(values, (std::vector<float>{1, -2}));
  files.read(files.tensors()[0], 0, std::span(values).first(1));
  EXPECT_EQ(values[0], 1.5f);
  EXPECT_EQ(files.find("b"), &files.tensors()[1]);
  EXPECT_EQ(files.find("c"), nullptr);
}

TEST_F(Safetensors, EveryCodeWordOfEveryFloat) {
  std::size_t types = 0;
  for (const ElementType& type : element_types()) {
    if (!type.format || type.bits > 16) continue;
    ++types;
    const std::uint64_t count = std::uint64_t{1} << type.bits;
    std::string data(count * static_cast<std::uint64_t>(type.bits) / 8, '\0');
    for (std::uint64_t code = 0; code < count; ++code)  // the first element in the lowest bits
      for (int b = 0; b < type.bits; ++b) {
        const std::uint64_t at = code * static_cast<std::uint64_t>(type.bits) + static_cast<std::uint64_t>(b);
        data[at / 8] = static_cast<char>(data[at / 8] | (code >> b & 1) << at % 8);
      }
    std::vector<StoredTensor> tensors{{"x", &type, {count}, count, 0, data.size(), 0}};
    const TensorFiles files(write("all.safetensors", safetensors_header(tensors, {}) + data));
    std::vector<float> values(count);
    files.read(files.tensors()[0], 0, values);
    for (std::uint64_t code = 0; code < count; ++code) {
      const double want = type.format->value(code);
      if (std::isnan(want)) EXPECT_TRUE(std::isnan(values[code])) << type.name << " " << code;
      else EXPECT_EQ(static_cast<double>(values[code]), want) << type.name << " " << code;
    }
    for (const std::size_t first : {1, 3, 8, 13}) {  // elements of less than 8 bits begin within bytes
      std::vector<float> rest(count - first);
      files.read(files.tensors()[0], first, rest);
      EXPECT_EQ(std::memcmp(rest.data(), values.data() + first, rest.size() * sizeof(float)), 0) << type.name;
    }
  }
  EXPECT_EQ(types, 10u);
}

TEST_F(Safetensors, WideFloatsAreRoundedOnce) {
  std::vector<double> wide{1 + 0x1p-24, 1 + 0x1p-23 + 0x1p-24, 1e300, -0.0};
  std::string data(wide.size() * 8, '\0');
  std::memcpy(data.data(), wide.data(), data.size());
  std::vector<StoredTensor> tensors{{"x", &element_type_of(fp64), {4}, 4, 0, 32, 0}};
  const TensorFiles files(write("wide.safetensors", safetensors_header(tensors, {{"a", "b"}}) + data));
  std::vector<float> values(4);
  files.read(files.tensors()[0], 0, values);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], 1 + 0x1p-22f);
  EXPECT_EQ(values[2], INFINITY);
  EXPECT_TRUE(std::signbit(values[3]));
}

TEST_F(Safetensors, WritesWhatItReads) {
  std::vector<StoredTensor> tensors{{"a \"quoted\" \u00e9", find_element_type("U8"), {3}, 3, 0, 3, 0},
                                    {"b", find_element_type("F4"), {2, 2}, 4, 0, 2, 0}};
  const std::string header = safetensors_header(tensors, {{"k", "v"}});
  EXPECT_EQ(header.size() % 8, 0u);
  const TensorFiles files(write("own.safetensors", header + "12345"));
  ASSERT_EQ(files.tensors().size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(files.tensors()[i].name, tensors[i].name);
    EXPECT_EQ(files.tensors()[i].offset, tensors[i].offset);
    EXPECT_EQ(files.tensors()[i].shape, tensors[i].shape);
  }
}

TEST_F(Safetensors, HeadersThatLie) {
  const auto one = [](const std::string& members) { return "{\"x\":{" + members + "}}"; };
  const std::string f32 = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", eight(8, '\0');
  expect(refusal_of(" " + one(f32), eight), "does not begin with '{'");
  expect(refusal_of("", eight), "does not begin with '{'");
  expect(refusal_of("{\"x\":1}"), "tensor 'x': is no object");
  expect(refusal_of(one(f32).substr(0, 30), eight), "not JSON");
  expect(refusal_of(one(R"("shape":[2],"data_offsets":[0,8])"), eight), "tensor 'x': dtype is missing");
  expect(refusal_of(one(R"("dtype":"F32","data_offsets":[0,8])"), eight), "shape is missing");
  expect(refusal_of(one(R"("dtype":"F32","shape":[2])"), eight), "data_offsets is missing");
  expect(refusal_of(one(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), eight),
         "unknown dtype 'F33'; accepted: F64, F32");
  expect(refusal_of(one(R"("dtype":1,"shape":[2],"data_offsets":[0,8])"), eight), "dtype is no text");
  expect(refusal_of(one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), eight), "not whole");
  expect(refusal_of(one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), eight), "not whole");
  expect(refusal_of(one(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), eight), "shape is no array");
  expect(refusal_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), eight), "array of two");
  expect(refusal_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), eight), "before they begin");
  expect(refusal_of(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), eight),
         "3 elements of F32 take 12 bytes");
  expect(refusal_of(one(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])"), "1"), "do not fill whole bytes");
  expect(refusal_of(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"), eight),
         "impossibly large");
  expect(refusal_of(one(R"("dtype":"U8","shape":[9223372036854775808,2,0],"data_offsets":[0,0])")), "impossibly large");
  expect(refusal_of(one(R"("dtype":"U8","shape":[8],"data_offsets":[9223372036854775807,9223372036854775815])"), eight),
         "beyond any file");
  expect(refusal_of(one(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), eight + eight),
         "4 bytes before tensor 'x' belong to no tensor");
  expect(refusal_of(one(f32), eight + "!"), "trailing garbage: 1 bytes");
  expect(refusal_of(one(f32), eight.substr(1)), "truncated: tensor 'x'");
  expect(refusal_of("{\"x\":{" + f32 + "},\"x\":{" + f32 + "}}", eight), "there twice");
  expect(refusal_of("{\"x\":{" + f32 + "},\"y\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
                    eight + "1234"),
         "tensors 'x' and 'y' overlap");
  expect(refusal_of("{\"a\\nb\":{" + f32 + "}}", eight), "tensor 'a?b': its name has a control character");
  expect(refusal_of("{\"__metadata__\":{\"a\":1}}"), "__metadata__ 'a' is no text");
  expect(refusal_of("{\"__metadata__\":[]}"), "__metadata__ is no object");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "{\"a\":";
  expect(refusal_of(deep, eight), "nested deeper");
}

TEST_F(Safetensors, LengthsThatLie) {
  expect(refusal(write("short.safetensors", "1234567")), "7 bytes, not a .safetensors file");
  expect(refusal(write("long.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10))),
         "a header of 9223372036854775807 bytes");
  expect(refusal(write("cut.safetensors", std::string("\x40\0\0\0\0\0\0\0{}", 10))), "truncated: a header of 64 bytes");
  expect(refusal(folder / "absent.safetensors"), "no such file");
  expect(refusal("/dev/null"), "a pipe or a device");
}

TEST_F(Safetensors, EmptyObjectsAndNullMetadata) {
  EXPECT_TRUE(TensorFiles(write("e.safetensors", file_of("{}"))).tensors().empty());
  EXPECT_TRUE(TensorFiles(write("n.safetensors", file_of("{\"__metadata__\":null}"))).metadata().empty());
}

TEST_F(Safetensors, OtherFilesSayWhatConvertsThem) {
  expect(refusal(write("a.pt", "PK\x03\x04 and so on")),
         "safetensors.torch.save_file(torch.load(FILE, weights_only=True), OUT)");
  expect(refusal(write("a.bin", "\x80\x04}q\x00....")), "a pickle");
  expect(refusal(write("a.gguf", "GGUF....")), "a GGUF file");
}

TEST_F(Safetensors, LengthsThatLookLikeAnotherKindOfFile) {
  for (const std::size_t length : {0x0280u, 0x4b50u}) {  // the first bytes of a pickle and of a zip archive
    std::string header = R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    header.resize(length, ' ');
    EXPECT_EQ(TensorFiles(write("x.safetensors", file_of(header, "1"))).tensors().size(), 1u);
  }
}

class Shards : public Safetensors {
 protected:
  void shard(const std::string& name, const std::string& tensor) const {
    write(name, file_of("{\"" + tensor + R"(":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", tensor.substr(0, 2)));
  }
  std::string index(const std::string& map) const {
    return write("model.safetensors.index.json", "{\"metadata\": {\"total_size\": 4}, \"weight_map\": {" + map + "}}");
  }
};

TEST_F(Shards, AreOneCheckpoint) {
  shard("m-1.safetensors", "aa"), shard("m-2.safetensors", "bb");
  const std::string path = index(R"("aa": "m-1.safetensors", "bb": "m-2.safetensors")");
  for (const std::string& given : {path, folder.path().string()}) {
    const TensorFiles files(given);
    ASSERT_EQ(files.tensors().size(), 2u);
    std::byte bytes[2];
    files.read_bytes(*files.find("bb"), 0, bytes);
    EXPECT_EQ(std::memcmp(bytes, "bb", 2), 0);
  }
}

TEST_F(Shards, IndicesThatLie) {
  shard("m-1.safetensors", "aa"), shard("m-2.safetensors", "bb");
  expect(refusal(index(R"("aa": "m-1.safetensors", "bb": "m-3.safetensors")")),
         "tensor 'bb' is in m-3.safetensors, which is not there");
  expect(refusal(index(R"("aa": "m-1.safetensors", "bb": "m-1.safetensors")")),
         "tensor 'bb' is not in m-1.safetensors");
  expect(refusal(index(R"("aa": "../m-1.safetensors")")), "the name of a file beside the index");
  expect(refusal(index(R"("aa": 3)")), "the name of a file beside the index");
  expect(refusal(index("")), "weight_map names no tensor");
  expect(refusal(write("model.safetensors.index.json", "[]")), "no object with the member weight_map");
  shard("m-2.safetensors", "aa");
  expect(refusal(index(R"("aa": "m-1.safetensors", "aa2": "m-2.safetensors")")), "tensor 'aa2' is not in");
}

TEST_F(Shards, FoldersWithoutAnIndex) {
  shard("m-1.safetensors", "aa");
  EXPECT_EQ(TensorFiles(folder.path()).tensors().size(), 1u);
  shard("m-2.safetensors", "bb");
  expect(refusal(folder.path()), "2 .safetensors files and no index");
  const TemporaryFolder empty;
  expect(refusal(empty.path()), "without .safetensors and .npy files");
  write_npy(empty / "x.npy", std::vector<std::uint64_t>{2, 1}, std::vector<float>{3, 4});
  const TensorFiles files(empty.path());
  ASSERT_EQ(files.tensors().size(), 1u);
  EXPECT_EQ(files.tensors()[0].name, "x");
  std::vector<float> values(2);
  files.read(files.tensors()[0], 0, values);
  EXPECT_EQ(values, (std::vector<float>{3, 4}));
}

TEST_F(Safetensors, FilesThatChange) {
  const std::string path = write("x.safetensors",
                                 file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678"));
  const TensorFiles files(path);
  EXPECT_NO_THROW(files.check_unchanged());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  std::vector<float> values(2);
  const auto line = [](const auto& f) {
    try {
      f();
    } catch (const std::invalid_argument& error) { return std::string(error.what()); }
    return std::string("accepted");
  };
  expect(line([&] { files.read(files.tensors()[0], 0, values); }), "changed while it was read");
  expect(line([&] { files.check_unchanged(); }), "changed while it was read");
}

}  // namespace safetensors_test
