// .npy files: what is read, and the refusal of every bad file in one line that names it.
#include <halfulp/data/npy.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace npy_test {

using namespace halfulp;

/// A .npy file as NumPy writes it, from parts that a test can spoil.
struct File {
  std::string magic = "\x93NUMPY";
  int major = 1, minor = 0;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  std::string data = std::string(12, '\0');

  std::string bytes() const {
    std::string padded = header;
    while ((magic.size() + 2 + (major == 1 ? 2 : 4) + padded.size() + 1) % 64 != 0) padded += ' ';
    padded += '\n';
    std::string out = magic;
    out += static_cast<char>(major);
    out += static_cast<char>(minor);
    for (int i = 0; i < (major == 1 ? 2 : 4); ++i) out += static_cast<char>(padded.size() >> (8 * i) & 255);
    return out + padded + data;
  }
};

std::string describe(std::string_view descr, std::string_view shape, bool fortran = false) {
  return "{'descr': '" + std::string(descr) + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + std::string(shape) + ", }";
}

NpyReader reader(const std::string& bytes) {
  return NpyReader(std::make_unique<std::istringstream>(bytes), "grads.npy");
}

/// All code words, read `chunk` at a time.
std::vector<std::uint64_t> all(NpyReader npy, std::size_t chunk = 7) {
  std::vector<std::uint64_t> codes, part(chunk);
  while (const std::size_t n = npy.read(part))
    codes.insert(codes.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(n));
  return codes;
}

/// The line that refuses a file. Fails the test if the file is accepted, or if the message is not one line with its
/// name.
std::string refusal(const std::string& bytes) {
  try {
    all(reader(bytes));
  } catch (const std::invalid_argument& error) {
    const std::string line = error.what();
    EXPECT_TRUE(line.starts_with("grads.npy: ")) << line;
    for (const char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << line;
    return line;
  }
  ADD_FAILURE() << "accepted";
  return {};
}

void expect_refused(const File& file, std::string_view why) {
  const std::string line = refusal(file.bytes());
  EXPECT_NE(line.find(why), std::string::npos) << "'" << line << "' does not say '" << why << "'";
}

TEST(Npy, Float16) {
  // 1, -2, the smallest subnormal, 65504, Infinity, a NaN; least significant byte first.
  const File file{.header = describe("<f2", "(6,)"),
                  .data = std::string("\x00\x3c\x00\xc0\x01\x00\xff\x7b\x00\x7c\x01\x7e", 12)};
  const auto npy = reader(file.bytes());
  EXPECT_EQ(npy.header().format, fp16);
  EXPECT_EQ(npy.header().shape, std::vector<std::uint64_t>{6});
  EXPECT_FALSE(npy.header().fortran_order);
  EXPECT_EQ(all(reader(file.bytes())), (std::vector<std::uint64_t>{0x3c00, 0xc000, 0x0001, 0x7bff, 0x7c00, 0x7e01}));
  EXPECT_EQ(fp16.value(0x0001), 0x1p-24);
}

TEST(Npy, Float32AndFloat64) {
  const float singles[2] = {0.1f, -3e38f};
  const double doubles[2] = {0.1, -1e300};
  const File single{.header = describe("<f4", "(2, 1)"),
                    .data = std::string(reinterpret_cast<const char*>(singles), 8)};
  const File twice{.header = describe("<f8", "(1, 2)", true),
                   .data = std::string(reinterpret_cast<const char*>(doubles), 16)};
  const auto s = all(reader(single.bytes())), d = all(reader(twice.bytes()));
  ASSERT_EQ(s.size(), 2u);
  ASSERT_EQ(d.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(fp32.value(s[i]), singles[i]);
    EXPECT_EQ(fp64.value(d[i]), doubles[i]);
  }
  EXPECT_TRUE(reader(twice.bytes()).header().fortran_order);
}

TEST(Npy, ShapesAndVersions) {
  struct Case {
    std::string shape;
    std::uint64_t count;
  };
  for (const auto& [shape, count] : {Case{"()", 1},
                                     {"(0,)", 0},
                                     {"(2, 0, 5)", 0},
                                     {"(2, 3)", 6},
                                     {"(1, 1, 1, 4,)", 4},
                                     {"(3L,)", 3},
                                     {"(2L, 3)", 6}})
    for (const int major : {1, 2, 3})
      for (const bool fortran : {false, true}) {
        const File file{.major = major, .header = describe("<f4", shape, fortran), .data = std::string(4 * count, 'x')};
        EXPECT_EQ(reader(file.bytes()).header().count, count) << shape;
        EXPECT_EQ(all(reader(file.bytes())).size(), count) << shape;
      }
  // Keys in any order, either quote, no spaces.
  EXPECT_EQ(all(reader(File{.header = "{\"shape\":(3,),\"fortran_order\":False,\"descr\":\"<f4\"}"}.bytes())).size(),
            3u);
}

TEST(Npy, ChunksDoNotMatter) {
  std::string data;
  for (int i = 0; i < 100'000; ++i) data += {static_cast<char>(i & 255), static_cast<char>(i >> 8 & 0x7b)};
  const File file{.header = describe("<f2", "(1000, 100)"), .data = data};
  const auto whole = all(reader(file.bytes()), 1'000'000);
  ASSERT_EQ(whole.size(), 100'000u);
  for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(whole[i], (i & 255) | (i >> 8 & 0x7b) << 8);
  for (const std::size_t chunk : {1u, 7u, 4096u, 99'999u, 100'000u})
    EXPECT_EQ(all(reader(file.bytes()), chunk), whole) << chunk;
}

TEST(Npy, BadMagicVersionAndHeader) {
  EXPECT_NE(refusal("").find("empty file"), std::string::npos);
  EXPECT_NE(refusal("\x93NUM").find("not a .npy file"), std::string::npos);
  expect_refused({.magic = "\x93NUMPX"}, "not a .npy file");
  expect_refused({.magic = "PK\x03\x04zz"}, ".npz");
  expect_refused({.magic = "PK\x03\x04zz, the name of whose first file is archive/data.pkl"}, "of PyTorch");
  expect_refused({.major = 4}, "version 4.0");
  expect_refused({.minor = 1}, "version 1.1");
  expect_refused({.header = ""}, "malformed");
  expect_refused({.header = "{}"}, "missing");
  expect_refused({.header = "{'descr': '<f4', 'shape': (3,), }"}, "missing");
  expect_refused({.header = "{'descr': '<f4', 'fortran_order': 1, 'shape': (3,), }"}, "neither True nor False");
  expect_refused({.header = "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"},
                 "unexpected key 'descr'");
  expect_refused({.header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}"}, "unexpected key 'x'");
  expect_refused({.header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } x"}, "after the dictionary");
  expect_refused({.header = "{'descr: <f4"}, "not closed");
  expect_refused({.header = "{'descr': '\n\x01\x80'"}, "dtype '");
  for (const char* shape : {"3", "(3)", "(3L)", "(L,)", "(3LL,)", "(3l,)", "(3 L,)", "(-3,)", "(3.0,)", "(3 4)", "(3",
                            "(,)", "[3]", "None"})
    expect_refused({.header = describe("<f4", shape)}, "malformed");
}

TEST(Npy, OtherTypes) {
  expect_refused({.header = describe(">f4", "(3,)")}, "big-endian");
  expect_refused({.header = describe("|O", "(3,)")}, "pickled");
  for (const char* descr : {"<i4", "<c8", "|b1", "|u1", "<f16", "f4", "=f4", "|S4", ""})
    expect_refused({.header = describe(descr, "(3,)")}, "accepted: float16, float32 and float64");
  expect_refused({.header = "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3,), }"}, "structured");
}

TEST(Npy, LengthThatIsNotWhatTheHeaderPromises) {
  const std::string good = File{}.bytes();
  const std::size_t data = good.size() - 12;
  for (std::size_t length = 1; length < good.size(); ++length)
    EXPECT_NE(refusal(good.substr(0, length)).find(length < 6 ? "not a .npy" : "truncated"), std::string::npos)
        << length;
  EXPECT_NE(refusal(good.substr(0, data + 11)).find("promises 12 bytes of data, the file holds 11"), std::string::npos);
  EXPECT_NE(refusal(good + "z").find("trailing garbage: 1 bytes"), std::string::npos);
  expect_refused({.header = describe("<f4", "(0,)")}, "trailing garbage");
  expect_refused({.header = describe("<f4", "(4294967296, 4294967296)")}, "impossibly large");
  expect_refused({.header = describe("<f4", "(99999999999999999999999,)")}, "impossibly large");
  expect_refused({.header = describe("<f8", "(2305843009213693952,)")}, "impossibly large");
  expect_refused({.header = describe("<f4", "(1000000000000,)")}, "truncated");
  // A header that claims to be 4 GiB long.
  std::string huge = File{.major = 2}.bytes();
  huge.replace(8, 4, "\xff\xff\xff\xff");
  EXPECT_NE(refusal(huge).find("at most 65536"), std::string::npos);
}

TEST(Npy, Paths) {
  const auto folder = std::filesystem::temp_directory_path() / ("halfulp_npy_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string good = (folder / "good.npy").string();
  std::ofstream(good, std::ios::binary) << File{}.bytes();
  EXPECT_EQ(all(NpyReader(good)).size(), 3u);
  const auto message = [](const std::string& path) -> std::string {
    try {
      NpyReader npy(path);
    } catch (const std::invalid_argument& error) { return error.what(); }
    return "accepted";
  };
  EXPECT_EQ(message((folder / "none.npy").string()), (folder / "none.npy").string() + ": no such file");
  EXPECT_EQ(message(folder.string()), folder.string() + ": a directory, not a .npy file");
  std::filesystem::remove_all(folder);
}

}  // namespace npy_test
