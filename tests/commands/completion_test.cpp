// Completion: what the program offers, and how bash and zsh use it.
#include "command_names.hpp"
#include "temporary_folder.hpp"

#include <halfulp/report/experiment.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <halfulp_test_paths.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace halfulp {
namespace completion_test {

namespace fs = std::filesystem;
using tests::is_here;
using tests::Outcome;
using tests::run_halfulp;
using tests::run_program;
using Words = std::set<std::string>;

/// What the last of the words may become, without descriptions. ":files" stands for files.
Words offered(std::vector<std::string> words) {
  words.insert(words.begin(), {"completion", "words", "--"});
  const Outcome outcome = run_halfulp(words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  Words found;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) found.insert(line.substr(0, line.find('\t')));
  return found;
}

TEST(Completion, OffersCommandsOptionsAndValues) {
  EXPECT_EQ(offered({"form"}), Words{"formats"});
  EXPECT_EQ(offered({"diff"}), (Words{"diff", "diff-profiles"}));
  EXPECT_EQ(offered({"explain", "0.1", "--form"}), Words{"--format"});
  EXPECT_EQ(offered({"explain", "0.1", "--format", "bf"}), Words{"bf16"});
  EXPECT_EQ(offered({"explain", "0.1", "--format=bf"}), Words{"--format=bf16"});
  EXPECT_EQ(offered({"explain", "0.1", "--round", "toward-z"}), Words{"toward-zero"});
  EXPECT_EQ(offered({"explain", "--overflow", ""}), (Words{"ieee", "saturate"}));
  EXPECT_EQ(offered({"eval", "fm"}), Words{"fma"});
  EXPECT_EQ(offered({"eval", "convert", "--format", "i3"}), Words{"i32"});
  EXPECT_EQ(offered({"verify", "add", "--round", "al"}), Words{"all"});
  EXPECT_EQ(offered({"units", "volta.mma.fp16.fp1"}), Words{"volta.mma.fp16.fp16"});
  EXPECT_EQ(offered({"mma", "--unit", "volta.mma.fp16.fp1"}), Words{"volta.mma.fp16.fp16"});
  EXPECT_EQ(offered({"profiles", "ml_"}), Words{"ml_dtypes"});
  EXPECT_EQ(offered({"diff-profiles", "ml_dtypes", "cuda-satf"}), Words{"cuda-satfinite"});
  EXPECT_TRUE(offered({"policies", "amp"}).count("amp-fp16"));
  EXPECT_EQ(offered({"check", "--backend", "recorded:amd"}), Words{"recorded:amd-zen4"});
  EXPECT_EQ(offered({"run", "underflow", "--backend", "x86,recorded:amd"}), Words{"x86,recorded:amd-zen4"});
  EXPECT_EQ(offered({"completion", ""}), (Words{"bash", "zsh"}));
  EXPECT_TRUE(offered({"man", "expl"}).count("explain"));
  EXPECT_EQ(offered({"quantize", ""}), Words{":files"});
  EXPECT_EQ(offered({"quantize", "x.npy", "--format", "nvf"}), Words{"nvfp4"});
  EXPECT_EQ(offered({"quantize", "x.npy", "--out", "x"}), Words{":files"});
  EXPECT_EQ(offered({"explain", "--", "--f"}), Words{}) << "behind -- there are no options";
  EXPECT_EQ(offered({"no-such-command", "--f"}), Words{});
  EXPECT_TRUE(offered({""}).count("explain"));
  EXPECT_TRUE(offered({"list", ""}).count("--json")) << "options where no argument can follow";
}

TEST(Completion, KnowsEveryNameOfTheTables) {
  const Words formats = offered({"formats", ""}), names = offered({"run", ""});
  for (const NamedFormat& row : catalogue()) EXPECT_TRUE(formats.count(std::string(row.name))) << row.name;
  EXPECT_TRUE(formats.count("mxfp4"));
  EXPECT_EQ(names.size(), experiments().size() + 1);
  for (const Experiment& experiment : experiments()) {
    const std::string name(experiment.name);
    EXPECT_TRUE(names.count(name));
    Words settings;
    for (const Parameter& parameter : experiment.parameters()) settings.insert(parameter.name + "=");
    EXPECT_EQ(offered({"run", name, "--set", ""}), settings);
    for (const Parameter& parameter : experiment.parameters()) {
      if (parameter.accepted.empty()) continue;
      const Words values = offered({"run", name, "--set", parameter.name + "="});
      for (const std::string& value : parameter.accepted)
        EXPECT_TRUE(values.count(parameter.name + "=" + value)) << name << " " << value;
    }
  }
  EXPECT_EQ(offered({"run", "underflow", "--set=formats=fp16,bf"}), Words{"--set=formats=fp16,bf16"});
  EXPECT_EQ(offered({"run", "underflow", "--set", "input="}), Words{":files"});
}

TEST(Completion, EveryOptionIsOfAKnownKind) {
  for (const std::string& command : offered({""})) {
    const Words options = offered({command, "--"});
    EXPECT_TRUE(options.count("--help")) << command;
    offered({command, ""});  // an unknown kind of value is an internal error
    offered({command, "x", ""});
    for (const std::string& option : options) offered({command, option, ""});
  }
}

TEST(Completion, LooksIntoReports) {
  const fs::path report = fs::temp_directory_path() / ("halfulp_completion_" + std::to_string(getpid()) + ".json");
  ASSERT_EQ(run_halfulp({"run", "memory", "--quiet", "--backend", "emulated", "--out", report.string()}).status, 0);
  const Words tables = offered({"show", report.string(), ""});
  ASSERT_FALSE(tables.empty());
  const std::string table = *tables.begin();
  const Words columns = offered({"show", report.string(), table, "--columns", ""});
  ASSERT_FALSE(columns.empty());
  EXPECT_TRUE(offered({"show", report.string(), table, "--where", ""}).count(*columns.begin() + "="));
  bool values = false;
  for (const std::string& column : columns)
    for (const std::string& word : offered({"show", report.string(), table, "--where", column + "="}))
      values = values || word.size() > column.size() + 1;
  EXPECT_TRUE(values);
  EXPECT_TRUE(tables.count("claims"));
  EXPECT_TRUE(offered({"show", report.string(), "claims", "--where", "verdict="}).count("verdict=pass"));
  // Words that a shell would execute, or that break a line, are not offered. A broken table offers nothing.
  std::ofstream(report)
      << R"json({"results": {"t": {"columns": [{"name": "c"}], "rows": [["$(touch x)"], ["a;b"], ["x\n:files"], ["good"]]}, "u": {"columns": [{"name": "c"}]}}})json";
  EXPECT_EQ(offered({"show", report.string(), "t", "--where", "c="}), Words{"c=good"});
  EXPECT_EQ(offered({"show", report.string(), "u", "--where", "c="}), Words{});
  fs::remove(report);
  EXPECT_EQ(offered({"show", report.string(), ""}), Words{}) << "no report, no tables, no error";
}

TEST(Completion, RefusesOtherShells) {
  const Outcome outcome = run_halfulp({"completion", "bahs"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("unknown shell 'bahs'; did you mean bash? accepted: bash, zsh"), std::string::npos)
      << outcome.err;
  EXPECT_EQ(run_halfulp({"completion", "bash", "x"}).status, 2);
}

/// A folder with a file. Shells run there with the build's halfulp first on the PATH.
Outcome in_shell(const std::string& shell, const std::string& script) {
  const tests::TemporaryFolder folder;
  fs::create_directories(folder / "reports");
  std::ofstream(folder / "values.npy") << "x";
  const std::string bin = fs::path(HALFULP_COMMAND).parent_path();
  return run_program({"/usr/bin/env", "PATH=" + bin + ":/usr/bin:/bin", "TERM=dumb", "HOME=" + folder.path().string(),
                      shell, "-c", "cd '" + folder.path().string() + "'\n" + script});
}

/// Bash's completions of a line with the cursor at its end, as readline requests them, sorted.
std::string in_bash(const std::string& line) {
  const Outcome outcome = in_shell("/bin/bash", R"sh(eval "$(halfulp completion bash)"
COMP_LINE=')sh" + line + R"sh('
COMP_POINT=${#COMP_LINE}
compopt() { :; }  # readline's, while a completion goes on
_halfulp
printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')sh");
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

TEST(Bash, CompletesALine) {
  if (!fs::exists("/bin/bash")) GTEST_SKIP() << "no /bin/bash";
  EXPECT_EQ(in_bash("halfulp form"), "formats ");
  EXPECT_EQ(in_bash("halfulp explain 0.1 --format bf"), "bf16 ");
  EXPECT_EQ(in_bash("halfulp explain 0.1 --format=bf"), "bf16 ") << "readline splits words at =";
  EXPECT_EQ(in_bash("halfulp run underflow --set see"), "seed= ");
  EXPECT_EQ(in_bash("halfulp run underflow --set formats=fp16,bf"), "fp16,bf16 ");
  EXPECT_EQ(in_bash("halfulp check --backend recorded:amd"), "amd-zen4 ") << "and at :";
  EXPECT_EQ(in_bash("halfulp quantize val"), "values.npy ");
  EXPECT_EQ(in_bash("halfulp run underflow --set input=val"), "values.npy ");
  EXPECT_EQ(in_bash("halfulp completion "), "bash zsh ");
  EXPECT_EQ(in_bash("halfulp no-such x"), " ");
  EXPECT_EQ(in_shell("/bin/bash", "eval \"$(halfulp completion bash)\"; complete -p halfulp").out,
            "complete -F _halfulp halfulp\n");
}

TEST(Bash, ScriptIsCleanForShellcheck) {
  if (!is_here("shellcheck")) GTEST_SKIP() << "no shellcheck";
  const Outcome outcome = in_shell("/bin/bash", "halfulp completion bash | shellcheck -s bash -");
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

/// The line that zsh's editor shows after these keys and Tab, on a terminal of its own.
std::string in_zsh(const std::string& keys) {
  const Outcome answer = in_shell(fs::exists("/usr/bin/zsh") ? "/usr/bin/zsh" : "/bin/zsh", R"sh(zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell $'PS1=; unset zle_bracketed_paste; autoload -Uz compinit; compinit -u -D; zstyle ":completion:*" list-prompt ""; source <(halfulp completion zsh)\n'
zpty -w shell $'show() { print -r -- "LINE<$BUFFER>"; exit }; zle -N show; bindkey "^X" show; print REA""DY\n'
zpty -r -m shell line '*READY*'
zpty -w -n shell $')sh" + keys + R"sh(\t\x18'
zpty -r -m shell line '*LINE<*>*'
print -r -- ${${line##*LINE<}%%>*})sh");
  EXPECT_EQ(answer.err, "");
  return answer.out;
}

TEST(Zsh, CompletesALine) {
  if (!is_here("zsh")) GTEST_SKIP() << "no zsh";
  EXPECT_EQ(in_zsh("halfulp form"), "halfulp formats \n");
  EXPECT_EQ(in_zsh("halfulp explain 0.1 --format bf"), "halfulp explain 0.1 --format bf16 \n");
  EXPECT_EQ(in_zsh("halfulp explain 0.1 --format=bf"), "halfulp explain 0.1 --format=bf16 \n");
  EXPECT_EQ(in_zsh("halfulp run underflow --set see"), "halfulp run underflow --set seed=\n");
  EXPECT_EQ(in_zsh("halfulp quantize val"), "halfulp quantize values.npy \n");
  EXPECT_EQ(in_zsh("halfulp run underflow --set input=val"), "halfulp run underflow --set input=values.npy \n");
}

}  // namespace completion_test
}  // namespace halfulp
