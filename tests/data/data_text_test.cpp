// Texts as characters, their windows, and the order of examples: the same everywhere, and every bad file is refused in
// one line.
#include <halfulp/data/distributions.hpp>
#include <halfulp/data/text.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>

namespace data_text_test {

using namespace halfulp;

const std::string path =
    (std::filesystem::temp_directory_path() / ("halfulp_text_" + std::to_string(::getpid()))).string();

void write(const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string refusal(std::size_t context, const std::string& file) {
  try {
    load_text(context, file);
  } catch (const std::invalid_argument& error) { return error.what(); }
  return "accepted";
}

TEST(CharacterText, ModelsThatCount) {
  // Nine times "ab" to learn from, and one to test: of 18 characters nine are b, and all nine a's are followed by b.
  const CountedModels sure = counted_models(CharacterText({"abababababababababab"}));
  EXPECT_DOUBLE_EQ(sure.unigram, std::log(2.0));
  EXPECT_NEAR(sure.bigram, std::log(11.0 / 10), 1e-15);
  // Pairs across two files count for nothing: "ba" never occurs within one.
  const CountedModels two = counted_models(CharacterText({"aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbb"}));
  EXPECT_DOUBLE_EQ(two.unigram, std::log(2.0));
  EXPECT_NEAR(two.bigram, std::log(19.0 / 18), 1e-15);
}

TEST(CharacterText, VocabularyAndSplit) {
  const CharacterText text({"abracadabra, abracad", "zyx"});
  EXPECT_EQ(text.vocabulary(), " ,abcdrxyz");
  std::string back;
  for (const std::uint8_t token : text.tokens()) back += text.vocabulary()[token];
  EXPECT_EQ(back, "abracadabra, abracadzyx");
  ASSERT_EQ(text.training().size(), 2u);
  EXPECT_EQ(text.training()[0].end, 18u);
  EXPECT_EQ(text.validation()[0].begin, 18u);
  EXPECT_EQ(text.validation()[0].end, 20u);
  EXPECT_EQ(text.training()[1].end, 23u);
  EXPECT_EQ(text.validation()[1].begin, 23u);
  EXPECT_NE(text.digest(), CharacterText({"abracadabra, abracad", "zyz"}).digest());
}

TEST(CharacterText, AllBytes) {
  std::string bytes;
  for (int c = 255; c > 0; --c) bytes += static_cast<char>(c);
  const CharacterText text({bytes});
  EXPECT_EQ(text.vocabulary().size(), 255u);
  for (std::size_t i = 0; i < 255; ++i) EXPECT_EQ(text.tokens()[i], 254 - i);
}

TEST(Windows, StayWithinTheirRange) {
  const CharacterText text({std::string(50, 'a') + std::string(50, 'b'), "cc", std::string(30, 'd')});
  const std::size_t context = 4;
  // Ranges of 90, 2 and 27 characters hold 86, 0 and 23 windows of five.
  EXPECT_EQ(window_count(text.training(), context), 109u);
  std::set<std::size_t> starts;
  for (std::uint64_t i = 0; i < 109; ++i) {
    const std::size_t start = window_start(text.training(), context, i);
    starts.insert(start);
    EXPECT_TRUE(start + context < 90 || (start >= 102 && start + context < 129)) << start;
  }
  EXPECT_EQ(starts.size(), 109u);
  EXPECT_THROW(window_start(text.training(), context, 109), std::logic_error);
}

TEST(Windows, DependOnSeedAndStepAlone) {
  std::string letters;
  for (int i = 0; i < 2000; ++i) letters += static_cast<char>('a' + i * i % 23);
  const CharacterText text({letters});
  constexpr std::size_t context = 16;
  const auto windows = [&](std::uint64_t seed, std::uint64_t step, std::size_t rows = 8) {
    std::vector<float> inputs(rows * context);
    std::vector<int> targets(rows * context);
    draw_windows(text, text.training(), context, seed, step, inputs, targets);
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t i = 0; i + 1 < context; ++i)
        EXPECT_EQ(inputs[row * context + i + 1], static_cast<float>(targets[row * context + i]));
    return std::pair{inputs, targets};
  };
  EXPECT_EQ(windows(1, 2), windows(1, 2));
  EXPECT_NE(windows(1, 2), windows(1, 3));
  EXPECT_NE(windows(1, 2), windows(2, 2));
  const auto small = windows(1, 2, 3);
  const auto large = windows(1, 2);
  EXPECT_TRUE(std::equal(small.first.begin(), small.first.end(), large.first.begin()));
  EXPECT_NE(std::vector<float>(large.first.begin(), large.first.begin() + context),
            std::vector<float>(large.first.begin() + context, large.first.begin() + 2 * context));
}

TEST(Draws, AShuffleIsAPermutation) {
  const auto order = shuffled(1000, 5, 1);
  EXPECT_EQ(order, shuffled(1000, 5, 1));
  EXPECT_NE(order, shuffled(1000, 5, 2));
  EXPECT_NE(order, shuffled(1000, 6, 1));
  EXPECT_EQ(std::set<std::uint32_t>(order.begin(), order.end()).size(), 1000u);
  EXPECT_EQ(*std::max_element(order.begin(), order.end()), 999u);
  EXPECT_TRUE(shuffled(0, 1, 1).empty());
  // Every order of three is equally likely: 6000 draws have a standard deviation of 29.
  std::map<std::vector<std::uint32_t>, int> counts;
  for (std::uint64_t stream = 0; stream < 6000; ++stream) ++counts[shuffled(3, 9, stream)];
  EXPECT_EQ(counts.size(), 6u);
  for (const auto& [three, count] : counts) EXPECT_NEAR(count, 1000, 150);
}

TEST(Text, OfTheUser) {
  write(std::string(200, 'x') + "\xc3\xa4\n");
  const auto loaded = load_text(10, path);
  EXPECT_EQ(std::get<CharacterText>(loaded).vocabulary(), "\nx\xa4\xc3");
  std::filesystem::remove(path);
}

TEST(Text, RefusesInOneLine) {
  EXPECT_EQ(refusal(8, path), path + ": no such file");
  EXPECT_EQ(refusal(8, "/tmp"), "/tmp: a directory, not a text file");
  write(std::string(89, 'x'));
  EXPECT_EQ(refusal(8, path), path +
                                  ": a text of 89 characters; accepted: at least 90, for 8 and one more in the last "
                                  "tenth, which is for validation");
  write(std::string(90, 'x'));
  EXPECT_EQ(refusal(8, path), "accepted");
  write("");
  EXPECT_EQ(refusal(8, path), path +
                                  ": a text of 0 characters; accepted: at least 90, for 8 and one more in the last "
                                  "tenth, which is for validation");
  write(std::string(100, 'x') + std::string("\0y", 2));
  EXPECT_EQ(refusal(8, path), path + ": a NUL byte at byte 100; accepted: a text");
  write("\x1f\x8b\x08");
  EXPECT_EQ(refusal(8, path), path + ": truncated: the gzip file ends at byte 3, within its data");
  write(std::string((std::size_t{64} << 20) + 1, 'x'));
  EXPECT_EQ(refusal(8, path), path + ": larger than 64 MiB; accepted: a text of at most that");
  std::filesystem::remove(path);
}

TEST(Text, LicencesOfDebian) {
  const auto loaded = load_text(128);
  if (const auto* missing = std::get_if<NotInstalled>(&loaded)) GTEST_SKIP() << missing->reason;
  const auto& text = std::get<CharacterText>(loaded);
  if (text.digest() != licence_digest) GTEST_SKIP() << "licence texts of another release: " << text.digest();
  EXPECT_EQ(text.tokens().size(), 126'643u);
  for (const char c : text.vocabulary())
    EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 0x7f) || c == '\f' || c == '\t') << static_cast<int>(c);
  EXPECT_GT(window_count(text.validation(), 128), 10'000u);
}

}  // namespace data_text_test
