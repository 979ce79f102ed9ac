// Manual pages: one per command and experiment, with every section, and without warnings from groff or mandoc.
#include "command_names.hpp"

#include <halfulp/report/experiment.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace halfulp {
namespace {

namespace fs = std::filesystem;
using testing::command_names;
using testing::is_here;
using testing::Outcome;
using testing::run_halfulp;
using testing::run_program;

class Pages : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = fs::temp_directory_path() / ("halfulp_man_" + std::to_string(getpid()));
    const Outcome outcome = run_halfulp({"man", "--out", folder.string()});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
  }
  static void TearDownTestSuite() { fs::remove_all(folder); }

  static std::string text(const std::string& file) {
    std::ifstream in(folder / file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Runs each page through a program that complains on standard error or output.
  static void expect_silence(const std::string& command) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const Outcome outcome = run_program({"/bin/sh", "-c", command + " '" + entry.path().string() + "'"});
      EXPECT_EQ(outcome.err + outcome.out, "") << entry.path().filename();
      EXPECT_EQ(outcome.status, 0) << entry.path().filename();
    }
  }

  inline static fs::path folder;
};

TEST_F(Pages, ThereIsOneForEachCommandAndExperiment) {
  std::vector<std::string> files{"halfulp.1"};
  for (const std::string& command : command_names()) files.push_back("halfulp-" + command + ".1");
  for (const Experiment& experiment : experiments()) files.push_back("halfulp-" + std::string(experiment.name) + ".1");
  for (const std::string& file : files) {
    const std::string page = text(file);
    std::size_t at = 0;
    for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"}) {
      const std::size_t found = page.find("\n.SH " + std::string(section) + "\n");
      ASSERT_NE(found, std::string::npos) << file << " has no " << section;
      EXPECT_GT(found, at) << file << " " << section;
      at = found;
    }
  }
  EXPECT_EQ(static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {})), files.size());
}

TEST_F(Pages, SayWhatHelpSays) {
  for (const std::string& command : command_names()) {
    const std::string page = text("halfulp-" + command + ".1");
    EXPECT_EQ(page, run_halfulp({"man", command}).out);
    std::istringstream help(run_halfulp({command, "--help"}).out);
    for (std::string line; std::getline(help, line);) {
      if (line.substr(0, 4) != "  --") continue;
      std::string name = line.substr(2, line.find(' ', 2) - 2), escaped;
      for (const char c : name) escaped += c == '-' ? std::string("\\-") : std::string(1, c);
      EXPECT_NE(page.find("\n.B " + escaped), std::string::npos) << command << " " << name;
    }
  }
  for (const Experiment& experiment : experiments())
    for (const Parameter& parameter : experiment.parameters())
      EXPECT_NE(text("halfulp-" + std::string(experiment.name) + ".1").find("\n.B " + parameter.name + "\n"),
                std::string::npos)
          << parameter.name;
}

TEST_F(Pages, GroffHasNothingToSay) {
  if (!is_here("groff") || !fs::exists("/usr/share/groff/current/tmac/an.tmac"))
    GTEST_SKIP() << "no groff with its man macros";
  expect_silence("groff -man -Tutf8 -ww -z");
}

TEST_F(Pages, MandocHasNothingToSay) {
  if (!is_here("mandoc")) GTEST_SKIP() << "no mandoc";
  expect_silence("check() { mandoc -T lint -W warning \"$1\" | grep -v 'missing date'; true; }; check");
}

TEST_F(Pages, ShowExamplesAsOneTypesThem) {
  if (!is_here("mandoc")) GTEST_SKIP() << "no mandoc";
  const Outcome shown = run_program(
      {"/bin/sh", "-c", "mandoc -T utf8 '" + (folder / "halfulp-eval.1").string() + "' | col -b"});
  EXPECT_NE(shown.out.find("printf '3C00 1000\\n' | halfulp eval add --format fp16 --round to-odd"), std::string::npos)
      << shown.out;
}

TEST(Man, UnknownPagesAreOneLine) {
  const Outcome outcome = run_halfulp({"man", "explian"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("unknown manual page 'explian'; did you mean explain?"), std::string::npos) << outcome.err;
  EXPECT_EQ(run_halfulp({"man", "explain", "--out", "/nowhere"}).status, 2);
  EXPECT_EQ(run_halfulp({"man", "--out", "/proc/nowhere"}).status, 2);
}

}  // namespace
}  // namespace halfulp
