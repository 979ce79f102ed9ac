// Block formats against other libraries, by the digests of tests/golden/block_vectors.json (made by
// tests/peers/block_vectors.py, which says what is left out and why).
#include "block_cases.hpp"

#include <nlohmann/json.hpp>

#include <halfulp_test_paths.hpp>

#include <fstream>

namespace block_vectors_test {

using namespace halfulp;
using Json = nlohmann::json;
constexpr std::uint64_t golden = 0x9e37'79b9'7f4a'7c15;

std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
  return z ^ (z >> 31);
}

/// A sum over places and values. Places in `skip` are not compared.
template <class T>
Json digest(const std::vector<T>& values, const std::vector<bool>& skip) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!skip[i]) sum += mixed(i * golden + static_cast<std::uint64_t>(values[i]));
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum));
  return text;
}

/// The same blocks as the script's.
std::vector<float> blocks(const Json& c) {
  constexpr std::uint32_t fractions[] = {0,        1,        0x7fffff, 0x400000, 0x3fffff, 0x400001, 0x600000,
                                         0x5fffff, 0x600001, 0x700000, 0x6fffff, 0x700001, 0x780000, 0x77ffff,
                                         0x780001, 0x7c0000, 0x7e0000, 0x7f0000, 0x0fffff, 0x200000};
  constexpr std::uint64_t kept_bits[] = {23, 1, 2, 3, 4, 5, 6, 23};
  const auto seed = c["seed"].get<std::uint64_t>(), low = c["low"].get<std::uint64_t>(),
             high = c["high"].get<std::uint64_t>();
  const auto count = c["blocks"].get<std::size_t>(), size = c["size"].get<std::size_t>();
  std::vector<float> x;
  check::Random each{seed}, of_block{seed + 1};
  for (std::size_t b = 0; b < count; ++b) {
    const std::uint64_t v = of_block(), field = low + v % (high - low + 1),
                        pick = (v >> 20) % (2 * std::size(fractions));
    const std::uint64_t fraction = pick < std::size(fractions) ? fractions[pick] : (v >> 32) & 0x7fffff,
                        largest = field << 23 | fraction;
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint64_t w = each(), below = (w >> 48) % 14, e = field < below ? 0 : field - below,
                          drop = 23 - kept_bits[(w >> 40) % 8];
      std::uint64_t magnitude = std::min(e << 23 | ((w & 0x7fffff) >> drop << drop), largest);
      const bool leads = i == (v >> 56) % size;
      if (leads) magnitude = largest;
      if (c["special"].get<bool>()) {
        if (b % 64 == 9) magnitude = 0;
        if (b % 64 == 19 && leads) magnitude = 0x7f80'0000;
        if (b % 64 == 29 && leads) magnitude = 0x7fc0'0000;
      }
      const bool one_sign = c.contains("zeros") && b % 4 < 2, negative = one_sign ? b % 4 == 1 : w >> 63 != 0;
      x.push_back(
          std::bit_cast<float>(static_cast<std::uint32_t>(magnitude | static_cast<std::uint64_t>(negative) << 31)));
    }
  }
  return x;
}

std::vector<bool> places(const Json& list, std::size_t count, std::size_t width) {
  std::vector<bool> at(count * width);
  for (const auto& block : list)
    for (std::size_t i = 0; i < width; ++i) at[block.get<std::size_t>() * width + i] = true;
  return at;
}

TEST(BlockVectors, OthersGiveTheSameScalesAndCodes) {
  std::ifstream file(HALFULP_GOLDEN "/block_vectors.json");
  const Json all = Json::parse(file);
  std::size_t scales = 0, codes = 0, deviations = 0;
  for (const Json& c : all["cases"]) {
    const BlockFormat f = parse_block_format(c["format"].get<std::string>());
    const std::string what = c["library"].get<std::string>() + " " + description(f);
    const auto count = c["blocks"].get<std::size_t>(), size = c["size"].get<std::size_t>();
    const auto rows = c["rows"].get<std::size_t>(), columns = c["columns"].get<std::size_t>();
    // Blocks of the script are consecutive. Those with several rows are stacked; blocks of NVFP4 belong to one tensor.
    const BlockArray a = quantize_blocks(f, {}, blocks(c), rows, columns);
    ASSERT_EQ(a.scales.size(), count) << what;
    EXPECT_EQ(digest(a.scales, places(c["scales_left_out"], count, 1)), c["scales"]) << what << ": scales";
    EXPECT_EQ(digest(a.codes, places(c["left_out"], count, size)), c["codes"]) << what << ": codes";
    if (c.contains("tensor_scale")) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(a.tensor_scale), c["tensor_scale"].get<std::uint32_t>()) << what;
    }
    if (c.contains("zeros")) {
      std::vector<std::uint64_t> shifted;
      for (const int z : a.zeros) shifted.push_back(static_cast<std::uint64_t>(z + 1000));
      EXPECT_EQ(digest(shifted, std::vector<bool>(count)), c["zeros"]) << what << ": zero points";
    }
    scales += c["scales_compared"].get<std::size_t>(), codes += c["codes_compared"].get<std::size_t>();
    // The listed deviations exist: the library's scale or its elements differ.
    for (const Json& d : c["deviations"]) {
      std::vector<bool> others(a.codes.size(), true);
      std::size_t scales_alike = 0;
      for (std::size_t i = 0; i < d["witnesses"].size(); ++i) {
        const auto block = d["witnesses"][i].get<std::size_t>();
        scales_alike += a.scales[block] == d["scales"][i].get<std::uint32_t>();
        for (std::size_t k = 0; k < size; ++k) others[block * size + k] = false;
      }
      EXPECT_NE(digest(a.codes, others), d["digest"]) << what << ": " << d["why"] << " no longer holds";
      if (d["what"] == "codes") { EXPECT_EQ(scales_alike, d["witnesses"].size()) << what; }
      deviations += d["blocks"].get<std::size_t>();
    }
  }
  EXPECT_GT(scales, 150'000u);
  EXPECT_GT(codes, 5'000'000u);
  EXPECT_GT(deviations, 100u);
}

}  // namespace block_vectors_test
