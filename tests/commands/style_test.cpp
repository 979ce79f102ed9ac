// Colours, Unicode and columns on a terminal.
#include "command.hpp"

#include <halfulp/commands/terminal.hpp>
#include <halfulp/commands/tables.hpp>

#include <halfulp_test_paths.hpp>

#include <gtest/gtest.h>

namespace halfulp::cli {
namespace {

TEST(DisplayWidth, IsOfColumnsNotBytes) {
  EXPECT_EQ(display_width(""), 0u);
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("\u2500\u253c\u2500"), 3u);  // box drawing
  EXPECT_EQ(display_width("\x1b[1;31mFAIL\x1b[0m"), 4u);
  EXPECT_EQ(display_width("e\u0301"), 1u);           // e and a combining acute accent
  EXPECT_EQ(display_width("\u6e2c\u8a66.npy"), 8u);  // two wide characters
  EXPECT_EQ(display_width("\xff\xfe"), 2u);          // not UTF-8: each byte shows as something
  EXPECT_EQ(display_width("\xe2\x94"), 2u);          // cut off
}

TEST(Aligned, ColumnsStandBelowEachOther) {
  const Style colour{true, true};
  const std::string text = aligned({{"\u6e2c\u8a66", "x"}, {colour.painted("abc", Paint::pass), "x"}, {"\u00d7", "x"}},
                                   1);
  EXPECT_EQ(text, " \u6e2c\u8a66  x\n \x1b[32mabc\x1b[0m   x\n \u00d7     x\n");
}

TEST(Style, PaintsVerdictsAndNothingElse) {
  const Style plain, colour{false, true};
  EXPECT_EQ(plain.verdict("FAIL"), "FAIL");
  EXPECT_EQ(colour.verdict("FAIL   "), "\x1b[1;31mFAIL   \x1b[0m");
  EXPECT_EQ(colour.verdict("pass"), "\x1b[32mpass\x1b[0m");
  EXPECT_NE(colour.verdict("differs"), colour.verdict("skipped"));
  for (const char* word : {"passes", "pass through", "", "fp16"}) EXPECT_EQ(colour.verdict(word), word);
  EXPECT_EQ(colour.painted("", Paint::fail), "");
}

TEST(Style, TablesColourTheVerdictsInThem) {
  Table table("claims", "Claims", {{"claim", "", "C"}, {"verdict", "", "V"}});
  table.row({"a", "pass"});
  table.row({"b", "differs"});
  EXPECT_NE(table_text(table.to_json(), {false, true}).find("b      \x1b[33mdiffers\x1b[0m\n"), std::string::npos)
      << table_text(table.to_json(), {false, true});
  EXPECT_EQ(table_text(table.to_json()).find('\x1b'), std::string::npos);
}

/// `halfulp explain` on a terminal that script(1) of util-linux makes.
std::string on_a_terminal(const std::string& environment) {
  const testing::Outcome outcome = testing::run_program(
      {"/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "/bin/sh", "-c",
       "TERM=xterm LC_ALL=C.UTF-8; export TERM LC_ALL; export " + environment +
           " && script -qec '" HALFULP_COMMAND " explain 0.1 --format fp16' /dev/null"});
  return outcome.status == 0 ? outcome.out : "";
}

TEST(Terminal, GetsWhatItCanShow) {
  if (testing::run_program({"/bin/sh", "-c", "script --version"}).out.find("util-linux") == std::string::npos)
    GTEST_SKIP() << "no script(1) of util-linux, which makes a terminal";
  if (testing::run_program({"/bin/sh", "-c", "script -qec true /dev/null"}).status != 0)
    GTEST_SKIP() << "script(1) finds no terminal to make (/dev/pts)";
  const std::string escape = "\x1b[", box = "\u250c";
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string full = on_a_terminal("A=1");
  EXPECT_TRUE(has(full, escape) && has(full, box)) << full;
  const std::string latin = on_a_terminal("LC_ALL=C");
  EXPECT_TRUE(has(latin, escape) && !has(latin, box) && has(latin, "+------+")) << latin;
  const std::string empty = on_a_terminal("NO_COLOR=");
  EXPECT_TRUE(has(empty, escape)) << "NO_COLOR counts where it is not empty";
  for (const char* plain : {"NO_COLOR=1", "TERM=dumb", "TERM="}) {
    const std::string text = on_a_terminal(plain);
    EXPECT_TRUE(has(text, "0x2e66") && !has(text, escape) && !has(text, box)) << plain << "\n" << text;
  }
}

}  // namespace
}  // namespace halfulp::cli
