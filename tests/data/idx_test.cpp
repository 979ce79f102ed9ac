// IDX files, and the image set made of four of them: what is read, and the refusal of every bad file in one line.
#include <halfulp/data/images.hpp>

#include <gtest/gtest.h>
#include <zlib.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace idx_test {

using namespace halfulp;

std::string idx(const std::vector<std::uint32_t>& shape, const std::string& values) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift & 255);
  return bytes + values;
}

/// `count` bytes 0, 1, 2, ... modulo `modulus`.
std::string counting(std::size_t count, int modulus = 256) {
  std::string values;
  for (std::size_t i = 0; i < count; ++i) values += static_cast<char>(static_cast<int>(i) % modulus);
  return values;
}

std::string gzip(const std::string& bytes) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(bytes.size() + 1000, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

IdxArray read(const std::string& bytes, int dimensions) {
  return read_idx(std::make_unique<std::istringstream>(bytes), "x.idx", dimensions);
}

template <class Call>
std::string refusal_of(Call&& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    const std::string line = error.what();
    for (const char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << line;
    return line;
  }
  return "accepted";
}

std::string refusal(const std::string& bytes, int dimensions = 1) {
  return refusal_of([&] { read(bytes, dimensions); });
}

TEST(Idx, ReadsPlainAndPacked) {
  const std::string images = idx({2, 3, 4}, counting(24)), labels = idx({3}, "\x01\x09\xff");
  for (const bool packed : {false, true}) {
    const IdxArray a = read(packed ? gzip(images) : images, 3), b = read(packed ? gzip(labels) : labels, 1);
    EXPECT_EQ(a.shape, (std::vector<std::uint32_t>{2, 3, 4}));
    ASSERT_EQ(a.values.size(), 24u);
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(a.values[i], i);
    EXPECT_EQ(b.values, (std::vector<std::uint8_t>{1, 9, 255}));
  }
  EXPECT_TRUE(read(idx({0, 5, 5}, ""), 3).values.empty());
}

TEST(Idx, ReadsMoreThanOnePiece) {
  const std::string values = counting(3'000'001, 251), bytes = idx({3'000'001}, values);
  for (const std::string& file : {bytes, gzip(bytes)}) {
    const IdxArray a = read(file, 1);
    EXPECT_TRUE(std::equal(a.values.begin(), a.values.end(), values.begin(), values.end(),
                           [](std::uint8_t x, char y) { return x == static_cast<std::uint8_t>(y); }));
  }
}

TEST(Idx, RefusesInOneLine) {
  const std::string good = idx({3}, "abc"), packed = gzip(good);
  EXPECT_EQ(refusal(""), "x.idx: truncated: the IDX header ends at byte 0");
  EXPECT_EQ(refusal("\x1f"), "x.idx: truncated: the IDX header ends at byte 1");
  EXPECT_EQ(refusal(good.substr(0, 6)), "x.idx: truncated: the IDX header ends at byte 6");
  EXPECT_EQ(refusal(good.substr(0, 10)),
            "x.idx: truncated: 2 values of the 3 that the IDX header promises, it ends at byte 10");
  EXPECT_EQ(refusal(good + "de"),
            "x.idx: trailing garbage from byte 11 on, after the 3 values that the IDX header promises");
  EXPECT_EQ(refusal("hello, world"),
            "x.idx: begins with 68656c6c; accepted: 00000801, an IDX file of unsigned bytes in 1 dimension");
  EXPECT_EQ(refusal(good, 3),
            "x.idx: begins with 00000801; accepted: 00000803, an IDX file of unsigned bytes in 3 dimensions");
  EXPECT_EQ(refusal(std::string("\0\0\x0d\x01", 4)),
            "x.idx: begins with 00000d01; accepted: 00000801, an IDX file of unsigned bytes in 1 dimension");
  // A header's claim allocates no memory.
  EXPECT_EQ(
      refusal(idx({4'294'967'295u, 4'294'967'295u, 4'294'967'295u}, "a"), 3),
      "x.idx: the IDX header, at byte 4, promises 4294967295 x 4294967295 x 4294967295 values; accepted: at most 2^30");
  EXPECT_EQ(refusal(idx({1u << 30}, "a")),
            "x.idx: truncated: 1 values of the 1073741824 that the IDX header promises, it ends at byte 9");
}

TEST(Idx, RefusesBadGzipInOneLine) {
  const std::string packed = gzip(idx({3'000}, counting(3000)));
  const auto size = std::to_string(packed.size());
  for (std::size_t length = 2; length < packed.size(); ++length)
    EXPECT_EQ(refusal(packed.substr(0, length)),
              "x.idx: truncated: the gzip file ends at byte " + std::to_string(length) + ", within its data");
  EXPECT_EQ(refusal(packed + "!"), "x.idx: trailing garbage after the gzip data, from byte " + size + " on");
  std::string spoiled = packed;
  spoiled[packed.size() - 6] ^= 1;  // the CRC
  EXPECT_TRUE(refusal(spoiled).starts_with("x.idx: corrupted gzip data before byte ")) << refusal(spoiled);
  EXPECT_TRUE(refusal(spoiled).ends_with(": incorrect data check")) << refusal(spoiled);
  spoiled = packed;
  spoiled[2] = 3;  // a method that does not exist
  EXPECT_EQ(refusal(spoiled), "x.idx: corrupted gzip data before byte 4: unknown compression method");
  // Every changed bit after the header is noticed, except those that fill the last byte of the packed data.
  int unnoticed = 0;
  for (std::size_t i = 10; i < packed.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      spoiled = packed;
      spoiled[i] ^= static_cast<char>(1 << bit);
      unnoticed += refusal(spoiled) == "accepted";
    }
  EXPECT_LT(unnoticed, 8);
}

/// A folder with a small set, which a test can spoil.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("halfulp_images_" + std::to_string(::getpid()));
  Folder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
    write("train-images-idx3-ubyte.gz", gzip(idx({4, 2, 3}, counting(24))));
    write("train-labels-idx1-ubyte", idx({4}, counting(4, 10)));
    write("t10k-images-idx3-ubyte", idx({2, 2, 3}, counting(12)));
    write("t10k-labels-idx1-ubyte.gz", gzip(idx({2}, counting(2, 10))));
  }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
  }
  std::string of(const std::string& name) const { return (path / name).string(); }
  std::string refused() const {
    return refusal_of([&] { load_images(path.string()); });
  }
};

TEST(Images, AFolderOfTheUser) {
  const Folder folder;
  const auto loaded = load_images(folder.path.string());
  const auto& set = std::get<ImageSet>(loaded);
  EXPECT_EQ(set.train.size(), 4u);
  EXPECT_EQ(set.test.size(), 2u);
  EXPECT_EQ(set.train.rows, 2u);
  EXPECT_EQ(set.train.columns, 3u);
  EXPECT_EQ(set.train.labels, (std::vector<std::uint8_t>{0, 1, 2, 3}));
  std::vector<float> image(6);
  set.train.image(3, image);
  EXPECT_EQ(image, (std::vector<float>{18 / 255.0f, 19 / 255.0f, 20 / 255.0f, 21 / 255.0f, 22 / 255.0f, 23 / 255.0f}));
  EXPECT_EQ(set.digest.size(), 32u);
  folder.write("t10k-labels-idx1-ubyte.gz", gzip(idx({2}, "\x03\x04")));
  EXPECT_NE(std::get<ImageSet>(load_images(folder.path.string())).digest, set.digest);
}

TEST(Images, AreKeptUntilAFileChanges) {
  const Folder folder;
  const auto shared = [&] { return std::get<std::shared_ptr<const ImageSet>>(shared_images(folder.path.string())); };
  const auto first = shared();
  EXPECT_EQ(shared(), first);
  EXPECT_EQ(first->digest, std::get<ImageSet>(load_images(folder.path.string())).digest);
  const std::string labels = folder.of("train-labels-idx1-ubyte");
  folder.write("train-labels-idx1-ubyte", idx({4}, "\x01\x02\x09\x03"));
  std::filesystem::last_write_time(labels, std::filesystem::last_write_time(labels) + std::chrono::seconds(2));
  EXPECT_NE(shared()->digest, first->digest);
  const Folder other;
  EXPECT_EQ(std::get<std::shared_ptr<const ImageSet>>(shared_images(other.path.string()))->digest, first->digest);
  EXPECT_TRUE(std::holds_alternative<NotInstalled>(shared_images()) ||
              std::get<std::shared_ptr<const ImageSet>>(shared_images())->train.size() == 60'000);
}

TEST(Images, RefusesInOneLine) {
  const Folder folder;
  const std::string images = folder.of("train-images-idx3-ubyte.gz"), labels = folder.of("train-labels-idx1-ubyte"),
                    test = folder.of("t10k-images-idx3-ubyte");
  folder.write("train-labels-idx1-ubyte", idx({3}, "\x01\x02\x03"));
  EXPECT_EQ(folder.refused(), labels + ": 3 labels for the 4 images of " + images + "; accepted: one each");
  folder.write("train-labels-idx1-ubyte", idx({4}, "\x01\x02\x0a\x03"));
  EXPECT_EQ(folder.refused(), labels + ": label 10 at byte 10; accepted: 0 to 9");
  folder.write("train-labels-idx1-ubyte", idx({4}, "\x01\x02\x09\x03"));
  folder.write("t10k-images-idx3-ubyte", idx({2, 3, 2}, counting(12)));
  EXPECT_EQ(folder.refused(), test + ": images of 3 x 2 pixels; accepted: 2 x 3, as in " + images);
  folder.write("t10k-images-idx3-ubyte", idx({0, 2, 3}, ""));
  EXPECT_EQ(folder.refused(), test + ": 0 images of 2 x 3 pixels; accepted: at least one of each");
  folder.write("t10k-images-idx3-ubyte", "junk");
  EXPECT_TRUE(folder.refused().starts_with(test + ": begins with 6a756e6b")) << folder.refused();
  std::filesystem::remove(test);
  EXPECT_EQ(folder.refused(),
            folder.path.string() +
                ": no t10k-images-idx3-ubyte.gz and no t10k-images-idx3-ubyte in this folder; accepted: a folder with "
                "the four files of MNIST or Fashion-MNIST");
  EXPECT_NE(refusal_of([] { load_images("/no/such/folder"); }), "accepted");
}

TEST(Images, FashionMnist) {
  const auto loaded = load_images();
  if (const auto* missing = std::get_if<NotInstalled>(&loaded)) {
    EXPECT_NE(missing->reason.find("apt install dataset-fashion-mnist"), std::string::npos);
    GTEST_SKIP() << missing->reason;
  }
  const auto& set = std::get<ImageSet>(loaded);
  EXPECT_EQ(set.train.size(), 60'000u);
  EXPECT_EQ(set.test.size(), 10'000u);
  EXPECT_EQ(set.train.rows * set.train.columns, 784u);
  // As published: the classes are balanced, the mean pixel is 0.2860 and its standard deviation 0.3530 of 255.
  for (int label = 0; label < image_classes; ++label)
    EXPECT_EQ(std::count(set.train.labels.begin(), set.train.labels.end(), label), 6000);
  double sum = 0, squares = 0;
  for (const std::uint8_t pixel : set.train.pixels) sum += pixel, squares += pixel * pixel;
  const double n = static_cast<double>(set.train.pixels.size()), mean = sum / n;
  EXPECT_NEAR(mean / 255, 0.2860, 5e-5);
  EXPECT_NEAR(std::sqrt(squares / n - mean * mean) / 255, 0.3530, 5e-5);
  std::printf("digest %s\n", set.digest.c_str());
}

}  // namespace idx_test
