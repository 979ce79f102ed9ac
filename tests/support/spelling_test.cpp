// What a terminal is given of the words of others, and the nearest names.
#include <halfulp/support/spelling.hpp>

#include <gtest/gtest.h>

namespace halfulp {
namespace spelling_test {

TEST(Spelling, CleanHidesWhatATerminalWouldObey) {
  EXPECT_EQ(clean("fp16, \u00fc, \u20ac, \U0001d11e"), "fp16, \u00fc, \u20ac, \U0001d11e");
  EXPECT_EQ(clean("a\033[31mb\nc\x7f"), "a?[31mb?c?");
  EXPECT_EQ(clean("\u009b1m"), "?1m") << "a control character of Latin-1";
  EXPECT_EQ(clean("a\u202egnp.\u2066exe\u2069"), "a?gnp.?exe?") << "controls of bidirectional text";
  EXPECT_EQ(clean(std::string("a\0b", 3)), "a?b");
}

/// What RFC 3629 calls ill-formed: a byte alone, cut short, longer than needed, a surrogate, beyond U+10FFFF.
TEST(Spelling, CleanHidesWhatIsNoUtf8) {
  for (const char* ill : {"\x80", "\xff", "\xc3", "\xe2\x82", "\xf0\x9d\x84", "\xc0\xaf", "\xe0\x80\xaf",
                          "\xf0\x80\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"})
    EXPECT_EQ(clean(std::string(ill) + "z"), std::string(std::string_view(ill).size(), '?') + "z");
}

TEST(Spelling, ShownIsShortAndKeepsCharactersWhole) {
  EXPECT_EQ(shown(std::string(60, 'a')), std::string(60, 'a'));
  EXPECT_EQ(shown(std::string(61, 'a')), std::string(60, 'a') + "...");
  EXPECT_EQ(shown(std::string(59, 'a') + "\u20ac" + "b"), std::string(59, 'a') + "...");
  EXPECT_EQ(shown(std::string(57, 'a') + "\u20ac" + "b"), std::string(57, 'a') + "\u20ac...");
  EXPECT_EQ(shown(std::string(100, '\x80')).substr(0, 56), std::string(56, '?'));
}

TEST(Spelling, TheNearestNameComesFirst) {
  EXPECT_EQ(nearest_names("Fp61", {"bf16", "fp16", "e4m3"}, 1), std::vector<std::string>{"fp16"});
  EXPECT_EQ(unknown_name("format", "fp17", {"bf16", "fp16"}),
            "unknown format 'fp17'; did you mean fp16? accepted: bf16, fp16");
  EXPECT_EQ(unknown_name("format", "\033", {"bf16"}).substr(0, 18), "unknown format '?'");
}

TEST(Spelling, AKnownSynonymComesBeforeTheNearestName) {
  constexpr auto others = std::to_array<Synonym>({{"gpu", "cuda"}});
  EXPECT_EQ(name_for(others, "GPU"), "cuda");
  EXPECT_EQ(name_for(others, "gpus"), "");
  EXPECT_EQ(unknown_name("backend", "gpu", {"cpu", "cuda"}, 2, "cuda"),
            "unknown backend 'gpu'; did you mean cuda? accepted: cpu, cuda");
  EXPECT_EQ(unknown_name("backend", "gpu", {"cpu", "cuda"}, 1, "cuda"),
            "unknown backend 'gpu'; did you mean cuda? accepted: cuda, and 1 more");
}

}  // namespace spelling_test
}  // namespace halfulp
