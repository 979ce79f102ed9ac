// Text on the terminal: rows of the headline, claims, widths, colours, Unicode.
#include "command.hpp"
#include "report/toy_experiment.hpp"

#include <halfulp/commands/tables.hpp>
#include <halfulp/commands/terminal.hpp>

#include <gtest/gtest.h>

namespace halfulp::cli {
namespace terminal_test {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Json errors_by_length() {
  Table table("errors", "Errors", {{"format", "", "f"}, {"rounding", "", "r"}, {"n", "1", "n"}, {"error", "1", "e"}});
  for (const char* rounding : {"up", "down"})
    for (const char* format : {"fp16", "bf16"})
      for (const int n : {10, 20}) table.row({format, rounding, n, number(n / 3.0)});
  return table.to_json();
}

TEST(Headline, shows_the_rows_it_chooses_and_counts_the_others) {
  const Json table = errors_by_length();
  EXPECT_EQ(
      headline_text(table, {"errors", {"format", "n", "error"}, {"rounding"}, {"format"}}, 12, "more"),
      "Errors; rounding: up\n\n  format  n   error\n  fp16    20  6.667\n  bf16    20  6.667\n  6 more rows: more\n");
  EXPECT_EQ(headline_text(table, {"errors", {"n"}}, 1, "here"), "Errors\n\n  n\n  10\n  7 more rows: here\n");
  EXPECT_FALSE(has(headline_text(table, {"errors", {"n"}}, 99, "here"), "more row"));
  EXPECT_THROW((void)headline_text(table, {"errors", {"size"}}, 12, ""), std::logic_error);
  Json empty = table;
  empty["rows"] = Json::array();
  EXPECT_EQ(headline_text(empty, {"errors", {"n"}, {"rounding"}, {"format"}}, 12, ""), "Errors\n\n  n\n");
}

TEST(Headline, cuts_names_only_where_lines_are_too_long) {
  Table table("t", "Names", {{"name", "", "n"}, {"path", "", "p"}, {"x", "1", "x"}});
  const std::string name(30, 'n'), path = "/" + std::string(38, 'p');
  table.row({name, path.substr(0, 30), 1});
  EXPECT_TRUE(has(headline_text(table.to_json(), {"t", {"name", "path", "x"}}, 12, ""),
                  name + "  " + path.substr(0, 30) + "  1"));
  table.row({name + name, path, 2});
  const std::string text = headline_text(table.to_json(), {"t", {"name", "path", "x"}}, 12, "");
  EXPECT_TRUE(has(text, "  " + std::string(31, 'n') + "...  " + path + "  2\n")) << text;  // 80 characters
  Table wide("w", "Names", {{"a", "", "a"}, {"b", "", "b"}, {"c", "", "c"}});
  wide.row({std::string(90, 'a'), "/" + std::string(90, 'b'), "c"});
  const std::string cut = headline_text(wide.to_json(), {"w", {"a", "b", "c"}}, 12, "");
  EXPECT_TRUE(has(cut, "a...  ...bbbb")) << cut;
  EXPECT_EQ(cut.find_last_of('\n') - cut.find("  aaa"), 80u) << cut;
}

TEST(Part, has_the_columns_and_rows_asked_for) {
  Table table("t", "Errors", {{"format", "", "f"}, {"error", "1", "e"}, {"why", "", "w"}});
  table.row({"fp16", number(1 / 3.0), "a, \"b\""});
  table.row({"bf16", emulated(fp16, 0x3C00), nullptr});
  const Json whole = table.to_json();
  EXPECT_EQ(table_csv(whole), "format,error,why\nfp16,0.3333333333333333,\"a, \"\"b\"\"\"\nbf16,1.0,\n");
  EXPECT_EQ(table_csv(part_of(whole, {{"error", "format"}, {{"format", "bf16"}}})), "error,format\n1.0,bf16\n");
  EXPECT_EQ(part_of(whole, {{}, {{"error", "0.333333"}}})["rows"].size(), 1u);  // as the table shows it
  EXPECT_EQ(part_of(whole, {{}, {{"error", "1e0"}}})["rows"].size(), 1u);       // the number, however it is written
  EXPECT_THROW((void)part_of(whole, {{}, {{"error", "1"}, {"format", "fp16"}}}), std::invalid_argument);
  EXPECT_EQ(part_of(whole, {})["rows"], whole["rows"]);
  EXPECT_THROW((void)part_of(whole, {{"formt"}, {}}), std::invalid_argument);
  EXPECT_THROW((void)part_of(whole, {{"format", "format"}, {}}), std::invalid_argument);
  try {
    (void)part_of(whole, {{}, {{"format", "fp61"}}});
    ADD_FAILURE();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "--where: no row has format fp61; accepted: fp16, bf16");
  }
  EXPECT_THROW((void)part_of(whole, {{}, {{"x", "1"}}}), std::invalid_argument);

  // That nothing failed is an answer, though no row says so.
  Table claims("claims", "Claims", {{"verdict", "", "v"}, {"id", "", "i"}});
  claims.row({"pass", "one"});
  const Json held = claims.to_json();
  EXPECT_EQ(table_csv(part_of(held, {{}, {{"verdict", "fail"}}})), "verdict,id\n");
  EXPECT_THROW((void)part_of(held, {{}, {{"verdict", "failed"}}}), std::invalid_argument);
  EXPECT_THROW((void)part_of(held, {{}, {{"verdict", "fail"}, {"id", "two"}}}), std::invalid_argument);
}

TEST(Summary, lists_what_did_not_hold_and_counts_the_rest) {
  Report report("toy", "A toy", Config(toy::parameters()));
  report.claim({"held", "One is one.", "derived: x"}, exactly(1, 1, "oracle"));
  report.claim({"failed", "One is two, whatever they say, in every format and mode, and far beyond eighty columns.",
                "derived: x"},
               exactly(2, 1, "oracle"));
  report.claim({"missed", "A published figure.", "A paper"}, within(3, 0, 4, may_differ()));
  report.claim({"left", "Something else.", "A paper"}, skipped("it needs a network"));
  TaskComparison comparison;
  comparison.backend = "x86";
  comparison.compared = 3'000'000;
  comparison.differing = 2;
  report.comparison(comparison);
  const Experiment experiment = toy::experiment();
  const std::vector<Finished> runs{{&experiment, report, 1.0, "toy.json"}};

  for (const bool one : {true, false}) {
    const std::string text = one ? summary(runs.front(), false, {}) : summary_table(runs, false, {});
    EXPECT_FALSE(has(text, "One is one.")) << text;
    EXPECT_TRUE(has(text, "\n           beyond eighty columns. [failed: expected 2, exact; measured 1]\n")) << text;
    // Of several runs only what failed is told.
    EXPECT_EQ(has(text, "  differs  A published figure. [measured 4 where the source has 3]\n"), one) << text;
    EXPECT_EQ(has(text, "  skipped  Something else. [it needs a network]\n"), one) << text;
    EXPECT_TRUE(has(text, "2 of 3,000,000 code words differ")) << text;
    EXPECT_TRUE(has(text, "x86: 3,000,000 results of 1 operation compared, 2 differ")) << text;
  }
  EXPECT_TRUE(has(summary(runs.front(), false, {}), "claims: 1 held, 1 failed, 1 differ, 1 skipped"));
  EXPECT_TRUE(
      has(summary_table(runs, false, {}), "claims  held  fail  differ  skip\ntoy        1     1       1     1\n"))
      << summary_table(runs, false, {});
  const std::vector<Finished> three(3, runs.front());
  EXPECT_TRUE(has(summary_table(three, false, {}),
                  "claims  held  fail  differ  skip  claims  held  fail  differ  skip\n"
                  "toy        1     1       1     1  toy        1     1       1     1\n"
                  "toy        1     1       1     1\n"))
      << summary_table(three, false, {});
  EXPECT_TRUE(has(summary_table(three, false, {}), "3 reports in 3 s. The tables of one: halfulp show toy.json\n"));
  EXPECT_TRUE(has(summary(runs.front(), true, {}), "  pass     One is one.\n"));
  EXPECT_TRUE(has(summary_table(runs, true, {}), "  pass     One is one.\n"));
  EXPECT_TRUE(has(summary(runs.front(), false, {false, true}), "\033[1;31mFAIL   \033[0m  One is two"))
      << "colour keeps the margin";
}

TEST(Summary, tells_one_reason_once) {
  Report report("toy", "A toy", Config(toy::parameters()));
  for (const char* id : {"first", "second", "third"}) report.claim({id, id, "derived: x"}, skipped("no pictures here"));
  report.claim({"other", "Of another kind.", "derived: x"}, skipped("no text here"));
  const Experiment experiment = toy::experiment();
  const Finished run{&experiment, report, 1.0, "toy.json"};
  EXPECT_TRUE(has(summary(run, false, {}),
                  "  skipped  3 claims [no pictures here]\n  skipped  Of another kind. [no text here]\n"))
      << summary(run, false, {});
  EXPECT_TRUE(has(summary(run, true, {}), "  skipped  second [no pictures here]\n")) << "all of them, if asked";
}

TEST(Wrapped, breaks_between_words) {
  EXPECT_EQ(wrapped("one two three", 2, 9), "  one two\n  three\n");
  EXPECT_EQ(wrapped("one-word-alone is", 0, 5), "one-word-alone\nis\n");
  EXPECT_EQ(wrapped("", 4), "");
}

// Colours, Unicode and columns.

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

TEST(Aligned, WordsTakeMoreLinesWhereOneIsTooLong) {
  const std::vector<std::vector<std::string>> rows{
      {"name", "n", "what it is"}, {"fp16", "16", "half precision, of IEEE 754"}, {"e4m3", "8", ""}};
  EXPECT_EQ(aligned_within(37, rows, 0, {1}), aligned(rows, 0, {1}));
  EXPECT_EQ(aligned_within(25, rows, 0, {1}),
            "name   n  what it is\n"
            "fp16  16  half precision,\n"
            "          of IEEE 754\n"
            "e4m3   8\n");
  EXPECT_EQ(aligned_within(20, rows, 0, {1}),
            "name   n  what it is\n"
            "fp16  16  half\n"
            "          precision,\n"
            "          of IEEE\n"
            "          754\n"
            "e4m3   8\n");
  EXPECT_EQ(aligned_within(19, rows, 0, {1}), aligned(rows, 0, {1}));
  EXPECT_EQ(aligned_within(15, {{"\033[31mtwo words\033[0m", "and more"}}, 0),
            "\033[31mtwo words\033[0m  and\n           more\n");
  EXPECT_EQ(aligned_within(1, {}, 0), "");
  EXPECT_EQ(aligned_within(1, {{"", ""}}, 0), "\n");
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
  Table policies("p", "Policies", {{"json", "", "j"}});
  policies.row({std::string(160, 'a')});
  EXPECT_EQ(table_text(policies.to_json()).find("cut"), std::string::npos);
  policies.row({std::string(161, 'b')});
  EXPECT_NE(table_text(policies.to_json()).find("b...\n"), std::string::npos);
  EXPECT_NE(table_text(policies.to_json()).find("Long cells are cut; --csv has all"), std::string::npos);
}

/// `halfulp explain` on a terminal that script(1) of util-linux makes.
std::string on_a_terminal(const std::string& environment) {
  const tests::Outcome outcome = tests::run_program(
      {"/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "/bin/sh", "-c",
       "TERM=xterm LC_ALL=C.UTF-8; export TERM LC_ALL; export " + environment +
           " && script -qec '" HALFULP_COMMAND " explain 0.1 --format fp16' /dev/null"});
  return outcome.status == 0 ? outcome.out : "";
}

TEST(Terminal, GetsWhatItCanShow) {
  if (tests::run_program({"/bin/sh", "-c", "script --version"}).out.find("util-linux") == std::string::npos)
    GTEST_SKIP() << "no script(1) of util-linux, which makes a terminal";
  if (tests::run_program({"/bin/sh", "-c", "script -qec true /dev/null"}).status != 0)
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

}  // namespace terminal_test
}  // namespace halfulp::cli
