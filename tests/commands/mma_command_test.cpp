// `halfulp mma` and `halfulp units`: the line format, checks, units from files, bad input, and published examples as a
// user runs them.
#include "command.hpp"

#include <halfulp/emulation/unit/unit.hpp>
#include <halfulp/commands/lines.hpp>

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace mma_command_test {

using namespace halfulp;
using halfulp::tests::expect_error;
using halfulp::tests::Outcome;
using halfulp::tests::run_halfulp;

/// A temporary file of the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content)
      : path_(::testing::TempDir() + "halfulp_unit_" + std::to_string(::getpid()) + ".json") {
    std::ofstream(path_) << content;
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

Outcome run_mma(const std::string& unit, const std::string& input, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"mma", "--unit", unit});
  return run_halfulp(std::move(more), input);
}
/// A unit's answer, without errors.
std::string answered(const std::string& unit, const std::string& input, std::vector<std::string> more = {}) {
  const Outcome outcome = run_mma(unit, input, std::move(more));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}
const std::string half = "hopper.mma.fp16.fp32", nvfp4 = "blackwell.tcgen05.nvfp4.fp32";

// arXiv 2511.10909, table 8: (-2^13) 2^10 - 0.5 - 0.25 - 0.125 + 2^23.
TEST(MmaCommand, OneSumOnEveryArchitecture) {
  const std::string fp16_words = "F000 B800 B400 B000 | 6400 3C00 3C00 3C00 | 4B000000\n",
                    e5m2_words = "F0 B8 B4 B0 | 64 3C 3C 3C | 4B000000\n";
  EXPECT_EQ(answered("volta.mma.fp16.fp32", fp16_words), "00000000\n");
  for (const auto* unit : {"turing.mma.fp16.fp32", "ampere.mma.fp16.fp32", "ada.mma.fp16.fp32"})
    EXPECT_EQ(answered(unit, fp16_words), "BF000000\n") << unit;
  for (const auto* unit : {"hopper.mma.fp16.fp32", "hopper.wgmma.fp16.fp32"})
    EXPECT_EQ(answered(unit, fp16_words), "BF400000\n") << unit;
  for (const auto* unit : {"hopper.wgmma.e5m2.fp32", "ada.mma.e5m2.fp32"})
    EXPECT_EQ(answered(unit, e5m2_words), "00000000\n") << unit;
  EXPECT_EQ(answered("blackwell.tcgen05.e5m2.fp32", e5m2_words), "BF400000\n");
  EXPECT_EQ(answered("hopper.mma.fp64.fp64", "-8192 -.5 -.25 -.125 | 1024 1 1 1 | 8388608", {"--values"}), "-0.875\n");
}

TEST(MmaCommand, HoppersExamples) {
  // Products are not normalised: c = 2^-25 survives next to products below 4 of exponent 0, but not of exponent 1.
  EXPECT_EQ(answered(half, "3E00 BE00 | 3E00 3E00 | 33000000\n4080 C080 | 3C00 3C00 | 33000000\n"),
            "33000000\n00000000\n");
  // FP8: wgmma keeps 13 bits. mma.sync consists of FP16 instructions and a scalar addition.
  std::string ones;
  for (int i = 0; i < 32; ++i) ones += "38 ";
  EXPECT_EQ(answered("hopper.wgmma.e4m3.fp32", "38 | 38 | 38800000"), "3F800000\n");
  EXPECT_EQ(answered("hopper.mma.e4m3.fp32", "38 | 38 | 38800000"), "3F800200\n");
  EXPECT_EQ(answered("hopper.wgmma.e4m3.fp32", ones + "|" + ones + "| 3B000000"), "42000000\n");
  EXPECT_EQ(answered("hopper.mma.e4m3.fp32", ones + "|" + ones + "| 3B000000"), "42000200\n");  // 32.001953125
}

TEST(MmaCommand, ReadsWhatProgramsWrite) {
  for (const char* line : {"3C00 4000|3C00 3C00|3F800000", " 0x3c00\t4000 | 3C00 0X3C00 |3F800000 \r\n",
                           "# A | B | C\n\n3C00 4000 | 3C00 3C00 | 3F800000\n"})
    EXPECT_EQ(answered(half, line), "40800000\n") << line;
  EXPECT_EQ(answered(half, ""), "");
  EXPECT_EQ(answered(half, "\n# nothing\n"), "");
  // Operands and scales have their own widths. TF32 takes words of 32 bits.
  EXPECT_EQ(answered(nvfp4, "2 3 | 4 5 | 0 | 38 | 38"), "40D00000\n");  // 1*2 + 1.5*3
  EXPECT_EQ(answered("hopper.mma.tf32.fp32", "3F801FFF | 40000000 | 0"), "40000000\n");
  EXPECT_EQ(answered("hopper.mma.fp16.fp16", "3C00 | 3C00 | 3C00"), "4000\n");
  // Any depth: 17 products are a chunk of 16 and a chunk of one.
  std::string many;
  for (int i = 0; i < 17; ++i) many += "3C00 ";
  EXPECT_EQ(answered(half, many + "|" + many + "| 0"), "41880000\n");
  std::string line;
  for (int i = 0; i < 150'000; ++i) line += "3C00 ";
  EXPECT_EQ(answered(half, line + "|" + line + "| 0\n"), "48127C00\n");  // 150,000
}

TEST(MmaCommand, ValuesAreRoundedToTheFormats) {
  EXPECT_EQ(answered(half, "1 -0.5 | 1 1e0 | 0x1p-1\ninf | 1 | 0\n", {"--values"}), "1\nInfinity\n");
  EXPECT_EQ(answered("hopper.mma.tf32.fp32", "1.00048828125 | 1 | 0\n1.0005 | 1 | 0\n", {"--values"}),
            "1\n1.0009765625\n");  // a tie, and above it
  EXPECT_EQ(answered(nvfp4, "6 | 6 | 1 | 1.5 | 2\n", {"--values"}), "109\n");
  EXPECT_EQ(answered(half, "2^-3 3/8 | 1 1 | -2^-1\n", {"--values"}), "0\n");
  expect_error(run_mma(half, "1 1/0 | 1 1 | 0\n", {"--values"}), "standard input, line 1: word 2 of A: ");
  EXPECT_EQ(answered(half, "1 | 1 | 1 | 2\n", {"--values", "--check"}), "1 checked, 0 differ\n");
  expect_error(run_mma(half, "1 one | 1 1 | 0\n", {"--values"}), "standard input, line 1: word 2 of A: ");
  for (const std::string word : {"0x3C00", "-0X3c00"})
    expect_error(run_mma(half, "1 " + word + " | 1 1 | 0\n", {"--values"}),
                 "word 2 of A: '" + word + "' is a code word; accepted: a number such as " + word + "p0");
  expect_error(run_mma(half, "1 0xzz | 1 1 | 0\n", {"--values"}), "'0xzz' is not a number");
}

TEST(MmaCommand, ValuesBeyondAFormatAreCounted) {
  const auto said = [](const std::string& unit, const std::string& input) {
    const Outcome outcome = run_mma(unit, input, {"--values"});
    EXPECT_EQ(outcome.status, 0);
    return outcome.err;
  };
  EXPECT_EQ(said("hopper.wgmma.e4m3.fp32", "1 | 1 | 0\n# why\n1 500 | 1 1 | 0\n-1e9 | 1 | 0\n"),
            "halfulp: 2 values are beyond their format's range, the first in line 3: word 2 of A, 500 (e4m3 ends at "
            "448)\n");
  EXPECT_EQ(said(half, "1 | 1 | 1e39\n"),
            "halfulp: 1 value is beyond its format's range, the first in line 1: C, 1e39 (fp32 ends at "
            "3.4028235e+38)\n");
  EXPECT_EQ(said(half, "65504 | 1 | 0\ninf | -Infinity | 0\n65519.9 | 1 | 0\n"), "") << "an infinity is meant";
  EXPECT_EQ(said("hopper.wgmma.e4m3.fp32", "inf | 1 | 0\n"), "") << "also where it becomes a NaN";
}

TEST(MmaCommand, CheckEndsWithItsSumAndItsStatus) {
  EXPECT_EQ(answered(half, "3C00 | 3C00 | 0 | 3F800000\n7E00 | 3C00 | 0 | 7FC00000\n", {"--check"}),
            "2 checked, 0 differ\n");
  const Outcome strict = run_mma(half, "7E00 | 3C00 | 0 | 7FC00000\n", {"--check", "--strict-nan"});
  EXPECT_EQ(strict.status, 1);
  EXPECT_EQ(strict.out, "line 1: your D 7FC00000, halfulp's 7FFFFFFF; 7E00 | 3C00 | 00000000\n1 checked, 1 differ\n");
  const Outcome scaled = run_mma(nvfp4, "2 3 | 4 5 | 0 | 38 | 38 | 40D00000\n2 3 | 4 5 | 0 | 38 | 38 | 0\n",
                                 {"--check"});
  EXPECT_EQ(scaled.status, 1);
  EXPECT_EQ(
      scaled.out,
      "line 2: your D 00000000, halfulp's 40D00000, 1087373312 code words apart; 2 3 | 4 5 | 00000000 | 38 | 38\n2 "
      "checked, 1 differ\n");
}

TEST(MmaCommand, DifferencesAreCounted) {
  const auto said = [](const std::string& input) { return run_mma(half, input, {"--check"}).out; };
  // 1 is 3F800000. Blank lines and remarks count as lines too.
  EXPECT_EQ(
      said("# why\n\n3C00 | 3C00 | 0 | 3F800001\n"),
      "line 3: your D 3F800001, halfulp's 3F800000, 1 code word apart; 3C00 | 3C00 | 00000000\n1 checked, 1 differ\n");
  EXPECT_EQ(said("3C00 | 3C00 | 0 | 3F7FFFFE\n")
                .rfind("line 1: your D 3F7FFFFE, halfulp's 3F800000, 2 code words apart; ", 0),
            0u);
  EXPECT_EQ(said("8000 | 3C00 | 80000003 | 00000002\n")
                .rfind("line 1: your D 00000002, halfulp's 80000003, 5 code words apart; ", 0),
            0u);  // across zero
  EXPECT_EQ(said("3C00 | 3C00 | 0 | 7F800000\n").rfind("line 1: your D 7F800000, halfulp's 3F800000; 3C00", 0), 0u);
  // Operands of more than 8 words are counted, others are shown.
  EXPECT_EQ(
      said("3C00 0 0 0 | 3C00 0 0 0 | 0 | 0\n"),
      "line 1: your D 00000000, halfulp's 3F800000, 1065353216 code words apart; 9 operands\n1 checked, 1 differ\n");
  EXPECT_NE(said("3C00 0 0 | 3C00 0 0 | 0 | 0\n").find("; 3C00 0000 0000 | 3C00 0000 0000 | 00000000\n"),
            std::string::npos);
}

TEST(MmaCommand, MakesCasesThatItsCheckReads) {
  for (const std::string& unit : std::vector<std::string>{half, nvfp4, "hopper.mma.tf32.fp32"}) {
    const std::string sample = answered(unit, "", {"--sample", "100", "--seed", "5"});
    EXPECT_EQ(std::count(sample.begin(), sample.end(), '\n'), 100);
    EXPECT_EQ(answered(unit, "", {"--sample", "100", "--seed", "5"}), sample);
    EXPECT_NE(answered(unit, "", {"--sample", "100", "--seed", "6"}), sample);
    EXPECT_EQ(answered(unit, sample, {"--check", "--strict-nan"}), "100 checked, 0 differ\n");
    std::string wrong = sample;  // the last digit of the first D
    char& digit = wrong[wrong.find('\n') - 1];
    digit = digit == '0' ? '1' : '0';
    EXPECT_NE(run_mma(unit, wrong, {"--check", "--strict-nan"}).out.find("100 checked, 1 differ\n"), std::string::npos);
  }
  // 600 cases are more than a block of every kind, and begin with the cases of fewer.
  const std::string many = answered(half, "", {"--sample", "600", "--length", "3"});
  EXPECT_EQ(many.rfind(answered(half, "", {"--sample", "3", "--length", "3"}), 0), 0u);
  EXPECT_EQ(answered(half, many, {"--check"}), "600 checked, 0 differ\n");
  expect_error(run_mma(half, "", {"--sample", "3", "--check"}), "accepted: one of --check and --sample N");
  expect_error(run_mma(half, "", {"--sample", "3", "--strict-nan"}), "--strict-nan belongs to --check");
  expect_error(run_mma(half, "", {"--length", "3"}), "--length belongs to --sample");
}

TEST(MmaCommand, BadLinesAreNamed) {
  const std::string good = "3C00 | 3C00 | 3F800000\n", one = "40000000\n";
  expect_error(run_mma(half, good + "13C00 | 3C00 | 0\n"),
               "standard input, line 2: word 1 of A is '13C00', wider than 16 bits; accepted: 4 hexadecimal digits", 2,
               one);
  expect_error(run_mma(half, "3C00 | 3C00 zz | 0\n"), "line 1: word 2 of B is 'zz'; accepted: 4 hexadecimal digits");
  expect_error(run_mma(half, "3C00 | 3C00 | 100000000\n"), "C is '100000000', wider than 32 bits");
  expect_error(run_mma(nvfp4, "12 | 2 | 0 | 38 | 38\n"),
               "word 1 of A is '12', wider than 4 bits; accepted: 1 hexadecimal digit");
  expect_error(run_mma(half, "3C00 3C00 | 3C00 | 0\n"), "A has 2 words along k, B 1");
  expect_error(run_mma(half, "| | 0\n"), "A and B are empty");
  expect_error(run_mma(half, "3C00 | 3C00 | \n"), "C: 0 words; accepted: 1");
  expect_error(run_mma(half, "3C00 | 3C00 | 0 0\n"), "C: 2 words; accepted: 1");
  expect_error(run_mma(half, "3C00 | 3C00\n"), "2 groups between bars; hopper.mma.fp16.fp32 takes 3: A | B | C");
  expect_error(run_mma(half, "3C00 3C00 0\n"), "1 group between bars");
  expect_error(run_mma(half, "3C00 | 3C00 | 0 | 38 | 38\n"), "5 groups between bars");
  expect_error(run_mma(half, "3C00 | 3C00 | 0\n", {"--check"}), "takes 4: A | B | C | your D");
  expect_error(run_mma(nvfp4, "2 | 2 | 0\n"), "takes 5: A | B | C | scales of A | scales of B");
  expect_error(run_mma(nvfp4, "2 | 2 | 0 | 38 38 | 38\n"),
               "scales of A: 2 given, blackwell.tcgen05.nvfp4.fp32 takes 1, one for 16 products");
  expect_error(run_mma(nvfp4, "2 | 2 | 0 | 38 | \n"), "scales of B: 0 given");
  expect_error(run_mma(half, std::string(65 << 20, '0')), "longer than 67108864 characters");
}

TEST(MmaCommand, ValuesThatAFormatHasNot) {
  expect_error(run_mma("blackwell.tcgen05.nvfp4.fp32", "1 | 1 | 0 | -1 | 1\n", {"--values"}),
               "scales are not negative");
  expect_error(run_mma("blackwell.tcgen05.nvfp4.fp32", "nan | 1 | 0 | 1 | 1\n", {"--values"}), "is no value of e2m1");
}

TEST(MmaCommand, BadUsageIsOneLine) {
  expect_error(run_halfulp({"mma"}), "accepted: one of --unit NAME");
  expect_error(run_halfulp({"mma", "--unit", half, "--unit-file", "x"}), "accepted: one of --unit NAME");
  expect_error(run_mma("hoper.mma.fp16.fp32", ""), "did you mean hopper.mma.fp16.fp32? accepted: ");
  expect_error(run_mma("hoper.mma.fp16.fp32", ""), "and " + std::to_string(matrix_units().size() - 6) + " more");
  expect_error(run_mma(half, "", {"--strict-nan"}), "--strict-nan belongs to --check");
  expect_error(run_mma(half, "", {"--check"}), "nothing to check");
  expect_error(run_halfulp({"mma", "--unit-file", "/nonexistent.json"}), "cannot read /nonexistent.json");
  expect_error(run_halfulp({"mma", "--unit-file", "/"}), "cannot read /");
  expect_error(run_halfulp({"mma", "--unit-file", "-"}), "standard input holds the operands");
  expect_error(run_mma(half, "3C00 | 3C00 | 0\n", {"--unit"}), "--unit");
  for (const auto& [content, needle] :
       {std::pair{"{\"based_on\": \"hopper.mma.fp16.fp32\",}", ": not JSON at line 1, column 37"},
        std::pair{"{\"based_on\": \"hopper.mma.fp16.fp32\",\n \"lenght\": 8}",
                  "unknown member 'lenght'; did you mean length?"},
        std::pair{"{\"based_on\": \"hopper.mma.fp16.fp32\", \"k\": 1, \"k\": 2}", "\"k\" is there twice"},
        std::pair{"[]", "not an object"}, std::pair{"", "not JSON at line 1"}}) {
    const TemporaryFile file(content);
    expect_error(run_halfulp({"mma", "--unit-file", file.path()}), needle);
    expect_error(run_halfulp({"mma", "--unit-file", file.path()}), file.path());
  }
}

TEST(MmaCommand, UnitsComeFromFiles) {
  // A unit of the table, written and read back, is the same unit.
  const Outcome written = run_halfulp({"units", half, "--json"});
  ASSERT_EQ(written.status, 0);
  const TemporaryFile same(written.out);
  const std::string line = "F000 B800 B400 B000 | 6400 3C00 3C00 3C00 | 4B000000\n";
  EXPECT_EQ(run_halfulp({"mma", "--unit-file", same.path()}, line).out, "BF400000\n");
}
TEST(MmaCommand, OneParameterIsChanged) {
  const TemporaryFile volta("{\"based_on\": \"hopper.mma.fp16.fp32\", \"alignment_bits\": 23}");
  const Outcome outcome = run_halfulp({"mma", "--unit-file", volta.path()},
                                      "F000 B800 B400 B000 | 6400 3C00 3C00 3C00 | 4B000000\n");
  EXPECT_EQ(outcome.out, "00000000\n");
  EXPECT_EQ(outcome.err, "");
}

TEST(MmaLines, BlocksMayEndAnywhere) {
  const std::string input = "3C00 | 3C00 | 0\n# more\n3C00 4000 | 3C00 3C00 | 3F800000\n";
  for (std::size_t block = 1; block < input.size(); ++block) {
    cli::MmaEvaluator evaluator(find_unit(half), {});
    cli::LineStream stream(evaluator);
    std::string out;
    for (std::size_t i = 0; i < input.size(); i += block) stream.feed(std::string_view(input).substr(i, block), out);
    stream.finish(out);
    EXPECT_EQ(out, "3F800000\n40800000\n") << block;
  }
}

TEST(UnitsCommand, EveryUnitIsListed) {
  const Outcome table = run_halfulp({"units"});
  EXPECT_EQ(table.status, 0);
  EXPECT_NE(table.out.find(std::to_string(matrix_units().size()) + " units"), std::string::npos);
  EXPECT_NE(table.out.find("hopper.wgmma"), std::string::npos);
  const Outcome all = run_halfulp({"units", "--json"});
  const auto json = nlohmann::ordered_json::parse(all.out);
  ASSERT_EQ(json.size(), matrix_units().size());
  for (std::size_t i = 0; i < json.size(); ++i) EXPECT_EQ(json[i]["name"], matrix_units()[i].name);
}

/// The names that `halfulp units WORDS...` lists.
std::vector<std::string> chosen(std::vector<std::string> words) {
  words.insert(words.begin(), "units");
  words.push_back("--json");
  const Outcome outcome = run_halfulp(words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<std::string> names;
  for (const auto& unit : nlohmann::ordered_json::parse(outcome.out)) names.push_back(unit["name"]);
  return names;
}

TEST(UnitsCommand, WordsChooseUnits) {
  const auto count = [](auto&& fits) {
    return static_cast<std::size_t>(std::count_if(matrix_units().begin(), matrix_units().end(), fits));
  };
  const auto has = [](const std::string& name, const char* part) { return name.find(part) != std::string::npos; };
  EXPECT_EQ(chosen({"nvfp4"}), (std::vector<std::string>{nvfp4, "rtx-blackwell.mma.nvfp4.fp32"}));
  for (const char* word : {"hopper", "H100", "h200"}) {
    const auto names = chosen({"E4M3", word});
    EXPECT_EQ(names.size(), count([&](const MatrixUnit& u) { return has(u.name, "hopper") && has(u.name, "e4m3"); }))
        << word;
    for (const auto& name : names) EXPECT_TRUE(has(name, "hopper") && has(name, "e4m3")) << name;
  }
  // Devices, also where other names contain their letters (cdna2, gb200, rtx-blackwell).
  for (const auto& [device, architecture] : {std::pair{"A2", "ampere."},
                                             {"a100", "ampere."},
                                             {"B200", "blackwell."},
                                             {"RTX4090", "ada."},
                                             {"rtx5070ti", "rtx-blackwell."},
                                             {"MI250X", "cdna2."},
                                             {"MI325X", "cdna3."},
                                             {"gh200", "hopper."},
                                             {"MI300A", "cdna3."}}) {
    const auto names = chosen({device});
    EXPECT_EQ(names.size(), count([&, a = architecture](const MatrixUnit& u) { return u.name.rfind(a, 0) == 0; }))
        << device;
    for (const auto& name : names) EXPECT_EQ(name.rfind(architecture, 0), 0u) << device << ": " << name;
  }
  const std::string all = run_halfulp({"units"}).out;
  for (const char* needle : {"hopper = H100, H200, GH200;", "cdna2 = MI210, MI250, MI250X;", "turing = T4;"})
    EXPECT_NE(all.find(needle), std::string::npos) << needle;
  for (const auto& words : {std::vector<std::string>{"units"},
                            {"units", "rtx-blackwell"},
                            {"units", "blackwell", "mxe4m3"},
                            {"units", "e4m3-e"},
                            {"units", "cdna3"}}) {
    std::istringstream lines(run_halfulp(words).out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 140u) << line;
  }
  // A word begins a part of a name, so "mx" is not in "amx"; one that begins none may be anywhere.
  EXPECT_EQ(run_halfulp({"units", "mx"}).out.find("amx"), std::string::npos);
  EXPECT_NE(run_halfulp({"units", "gmma"}).out.find("hopper.wgmma"), std::string::npos);
  EXPECT_EQ(run_halfulp({"units", "mxfp8e4m3"}).out, run_halfulp({"units", "mxe4m3"}).out);
  expect_error(run_halfulp({"units", "volta", "nvfp4"}),
               "no unit fits all of 'volta', 'nvfp4', though each fits some; `halfulp units` lists all " +
                   std::to_string(matrix_units().size()) + " units\n");
  expect_error(run_halfulp({"units", "hopper", "hoppr"}), "no unit has 'hoppr' in its name; nearest: hopper, ");
}

TEST(UnitsCommand, UnitsOfFiles) {
  const TemporaryFile file("{\"based_on\": \"hopper.mma.fp16.fp32\", \"alignment_bits\": 40}");
  const Outcome card = run_halfulp({"units", "--unit-file", file.path()});
  EXPECT_EQ(card.status, 0) << card.err;
  EXPECT_EQ(card.out.rfind("hopper.mma.fp16.fp32*\n", 0), 0u) << card.out;
  EXPECT_NE(card.out.find("2^(emax - 40)"), std::string::npos) << card.out;
  const auto json = nlohmann::ordered_json::parse(run_halfulp({"units", "--unit-file", file.path(), "--json"}).out);
  EXPECT_EQ(json["alignment_bits"], 40);
  expect_error(run_halfulp({"units", "--unit-file", file.path(), "hopper"}), "no WORD beside it");
  expect_error(run_halfulp({"units", "--unit-file", "/nonexistent.json"}), "cannot read /nonexistent.json");
}

TEST(UnitsCommand, NamesAndTheirParts) {
  const Outcome hopper = run_halfulp({"units", "hopper.wgmma"});
  EXPECT_EQ(hopper.status, 0);
  EXPECT_EQ(hopper.out.find("hopper.mma"), std::string::npos);
  EXPECT_NE(hopper.out.find("\nhopper.wgmma  e4m3 e5m2 *  fp32 "), std::string::npos) << hopper.out;
  const Outcome one = run_halfulp({"units", "hopper.wgmma.e4m3.fp32"});
  for (const char* needle :
       {"hopper.wgmma.e4m3.fp32\n", "fused: ", "e8m13, rounded toward-zero", "0x7fffffff", "arXiv 2511.10909",
        "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3\n", "does not depend on m and n"})
    EXPECT_NE(one.out.find(needle), std::string::npos) << "no '" << needle << "' in: " << one.out;
  EXPECT_EQ(nlohmann::ordered_json::parse(run_halfulp({"units", "x86", "--json"}).out).size(), 2u);
}

TEST(UnitsCommand, EveryKindOfUnitIsDescribed) {
  for (const char* unit : {"volta.mma.fp16.fp16", "hopper.mma-m8n8k4.fp16.fp32", "blackwell.tcgen05.nvfp4.fp32",
                           "cdna3.mfma.e4m3fnuz.fp32", "x86.amx.bf16.fp32"}) {
    const Outcome outcome = run_halfulp({"units", unit});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out.rfind(std::string(unit) + "\n", 0), 0u);
    EXPECT_NE(outcome.out.find(find_unit(unit).evidence), std::string::npos);
  }
}

TEST(MmaCommand, AProductModelIsNoUnit) {
  expect_error(run_mma("bf16,flush=both", ""), "'bf16,flush=both' is a product model, not a matrix unit");
  expect_error(run_mma("hopper.mma.bf16", ""), "unknown unit 'hopper.mma.bf16'");
}

}  // namespace mma_command_test
