// The manual: --help, its examples, which every command and experiment has and which do what they say, and the manual
// pages, which have every section and draw no warnings from groff or mandoc.
#include "command_names.hpp"
#include "temporary_folder.hpp"

#include <halfulp/commands/examples.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/experiment.hpp>

#include <gtest/gtest.h>

#include <halfulp_test_paths.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace halfulp::cli {
namespace manual_test {

namespace fs = std::filesystem;
using tests::command_names;
using tests::is_here;
using tests::Outcome;
using tests::run_halfulp;
using tests::run_program;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The lines of a help's last section.
std::vector<std::string> examples_in(const std::string& help) {
  const std::size_t at = help.find("\nExamples:\n");
  if (at == std::string::npos) return {};
  std::vector<std::string> lines = lines_of(help.substr(at + 11));
  for (std::string& line : lines) {
    EXPECT_EQ(line.substr(0, 2), "  ") << line;
    line.erase(0, 2);
  }
  return lines;
}

/// A temporary folder in which shell commands run.
class Folder {
 public:
  Outcome run(const std::string& line) const {
    const fs::path bin = fs::path(HALFULP_COMMAND).parent_path();
    return run_program(
        {"/bin/sh", "-c", "cd '" + folder_.path().string() + "' && PATH='" + bin.string() + "':\"$PATH\" && " + line});
  }

 private:
  tests::TemporaryFolder folder_;
};

/// Trainings need data from system packages, and pages need matplotlib. Both may be missing here.
bool lacks_packages(const Outcome& outcome) {
  if (outcome.status == 3 && outcome.err.find("no page: ") != std::string::npos) return true;
  return outcome.status == 2 && (outcome.err.find("dataset-fashion-mnist") != std::string::npos ||
                                 outcome.err.find("base-files") != std::string::npos);
}

void expect_status(const Folder& folder, const std::string& line, int status) {
  SCOPED_TRACE(line);
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = folder.run(line);
  if (lacks_packages(outcome)) {
    std::cout << "skipped: " << line << ": " << outcome.err;
    return;
  }
  EXPECT_EQ(outcome.status, status) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (took.count() > 2) std::cout << line << ": " << took.count() << " s\n";
}

TEST(Examples, EveryCommandHasSomeAndShowsThem) {
  std::set<std::string> known{""};
  EXPECT_GE(command_names().size(), 22u);
  for (const std::string& command : command_names()) {
    known.insert(command);
    std::vector<std::string> expected;
    for (const Example& example : examples())
      if (example.command == command)
        expected.push_back(std::string(example.line) +
                           (example.status ? "  # exit status " + std::to_string(example.status) : ""));
    EXPECT_FALSE(expected.empty()) << command << " has no example in commands/examples.cpp";
    EXPECT_EQ(examples_in(run_halfulp({command, "--help"}).out), expected) << command;
    bool used = false;
    for (const std::string& line : expected) used = used || line.find("halfulp " + command) != std::string::npos;
    EXPECT_TRUE(used) << command;
  }
  for (const Example& example : examples())
    EXPECT_TRUE(known.count(std::string(example.command))) << example.command << " is no command";
  EXPECT_GE(examples_in(run_halfulp({"--help"}).out).size(), 3u);
}

TEST(Examples, OfCommandsDoWhatTheySay) {
  std::map<std::string_view, Folder> folders;  // empty ones: examples make all that they need
  for (const Example& example : examples())
    expect_status(folders[example.command], std::string(example.line), example.status);
}

TEST(Examples, OfExperimentsRunAndAreShown) {
  const Folder folder;
  std::set<std::string_view> names;
  for (const Experiment& experiment : experiments()) {
    const std::string name(experiment.name), executable = fs::path(HALFULP_COMMAND).parent_path() / name;
    names.insert(experiment.name);
    const std::string line = example_of_experiment(name, "halfulp run " + name);
    ASSERT_NE(line, "") << name << " has no example in commands/examples.cpp";
    EXPECT_EQ(examples_in(run_halfulp({"run", name, "--help"}).out), std::vector{line});
    expect_status(folder, line + " --quiet --backend emulated", 0);
    EXPECT_EQ(examples_in(run_program({executable, "--help"}).out), std::vector{example_of_experiment(name, name)});
  }
  for (const ExperimentExample& row : experiment_examples())
    EXPECT_TRUE(names.count(row.experiment)) << row.experiment << " is no experiment";
}

TEST(Examples, OfAnExecutableRun) {
  const Folder folder;
  expect_status(folder, example_of_experiment("underflow", "underflow") + " --quiet", 0);
}

TEST(Help, FitsATerminalAndSaysWhatThereIs) {
  std::vector<std::vector<std::string>> asked{{"--help"}};
  for (const std::string& command : command_names()) asked.push_back({command, "--help"});
  for (const auto& arguments : asked) {
    const Outcome outcome = run_halfulp(arguments);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.out.find("\nUsage: halfulp"), std::string::npos);
    EXPECT_NE(outcome.out.find("\n  -h, --help"), std::string::npos);
    const std::string prose = outcome.out.substr(0, outcome.out.find("\nExamples:\n"));
    for (const std::string& line : lines_of(prose))
      EXPECT_LE(display_width(line), line.find("Usage: ") == 0 ? 110u : 80u) << line;
  }
  EXPECT_NE(run_halfulp({"explain", "--help"}).out.find("Usage: halfulp explain [OPTIONS] --format F[,F] VALUE\n"),
            std::string::npos);
}

TEST(Help, CommandsStandInGroups) {
  const std::string help = run_halfulp({"--help"}).out;
  EXPECT_EQ(help.find("Subcommands"), std::string::npos) << "command_line.cpp puts every command into a group";
  EXPECT_EQ(help.find("SUBCOMMANDS"), std::string::npos);
  for (const std::string& command : command_names())
    EXPECT_NE(help.find("\n  " + command + " "), std::string::npos) << command;
  EXPECT_LT(help.find("\nExperiments:\n"), help.find("\n  run "));
  EXPECT_LT(help.find("\n  run "), help.find("\nReports:\n"));
}

TEST(Version, SaysWhatWasCompiledIn) {
  const std::vector<std::string> lines = lines_of(run_halfulp({"--version"}).out);
  ASSERT_GE(lines.size(), 7u);
  EXPECT_EQ(lines[0].rfind("halfulp 0.", 0), 0u) << lines[0];
  EXPECT_NE(lines[0].find(" (git "), std::string::npos) << "the first line is for scripts";
  for (std::size_t i = 1; const char* what : {"compiler:", "flags:", "vectors:", "CUDA:", "threads:", "libraries:"})
    EXPECT_EQ(lines[i++].rfind(what, 0), 0u);
  EXPECT_NE(lines[2].find("-ffp-contract=off"), std::string::npos);
  EXPECT_NE(lines[3].find("this CPU: "), std::string::npos);
}

TEST(UnknownCommand, NamesTheNearest) {
  for (const auto& [word, meant] : {std::pair("fromats", "did you mean formats?"),
                                    {"explian", "did you mean explain?"},
                                    {"valdate", "did you mean validate?"}})
    tests::expect_refused({word}, std::string("unknown command '") + word + "'; " + meant);
  tests::expect_refused({"help", "explian"}, "unknown command 'explian'; did you mean explain?");
  tests::expect_refused({}, "see halfulp --help");
}

// Manual pages.

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
  tests::expect_refused({"man", "explian"}, "unknown manual page 'explian'; did you mean explain?");
  tests::expect_refused({"man", "explain", "--out", "/nowhere"});
  tests::expect_refused({"man", "--out", "/proc/nowhere"});
  tests::expect_refused({"man", "--out", "/nowhere/deep"}, "--out: cannot make the folder '/nowhere/deep'");
}

/// What a shell makes of a variable without a value is not what nobody gave.
TEST(Options, EmptyTextIsNoLackOfText) {
  tests::expect_refused({"man", ""}, "NAME is ''; accepted: ");
  tests::expect_refused({"policies", ""}, "NAME is ''; accepted: ");
  tests::expect_refused({"units", ""}, "WORD is ''; accepted: ");
  tests::expect_refused({"units", "--unit-file", ""}, "--unit-file is ''; accepted: ");
  tests::expect_refused({"mma", "--unit", "hopper.mma.fp16.fp32", "--unit-file", ""}, "--unit-file is ''; accepted: ");
  tests::expect_refused({"store", "/nowhere", "--show", ""}, "--show is ''; accepted: ");
  tests::expect_refused({"store", "/nowhere", "--remove", ""}, "--remove is ''; accepted: ");
}

}  // namespace manual_test
}  // namespace halfulp::cli
