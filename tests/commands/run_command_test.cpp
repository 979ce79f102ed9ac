// `halfulp run, list, validate, diff` as a user runs them: exit status, one line per error, no half-written file.
#include "command.hpp"
#include "temporary_folder.hpp"

#include <halfulp/report/experiment.hpp>
#include <halfulp/support/json.hpp>

#include <gtest/gtest.h>

#include <halfulp_test_paths.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace halfulp {
namespace run_command_test {

namespace fs = std::filesystem;
using tests::is_one_line;
using tests::Outcome;
using tests::run_halfulp;

/// Every run of blanks and line breaks as one blank.
std::string squeezed(const std::string& text) {
  std::istringstream words(text);
  std::string all;
  for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
  return all;
}

/// Whether a line "9 claims [policies does not name O1, mxfp8]" says this reason.
bool is_in_a_group(const std::string& text, const std::string& reason) {
  for (std::size_t at = text.find(" claims ["); at != std::string::npos; at = text.find(" claims [", at + 1)) {
    const std::size_t begin = at + 9;
    const std::string group = text.substr(begin, text.find(']', begin) - begin);
    if (group == reason) return true;
    for (const std::string verb : {" does not name ", " does not contain "}) {
      const std::size_t end = reason.find(verb) + verb.size();
      if (reason.find(verb) == std::string::npos || !group.starts_with(reason.substr(0, end))) continue;
      const std::string named = ", " + group.substr(end) + ",", both = reason.substr(end);
      const std::size_t second = both.find(" and ");
      const auto has = [&](const std::string& name) { return named.find(", " + name + ",") != std::string::npos; };
      if (has(both.substr(0, second)) && (second == std::string::npos || has(both.substr(second + 5)))) return true;
    }
  }
  return false;
}

class RunCommand : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder / name; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(folder / name) << text; }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::recursive_directory_iterator(folder), fs::recursive_directory_iterator()));
  }
  /// Status 2, one line on standard error that contains `word`, nothing on standard output, no file left.
  void expect_bad_input(const std::vector<std::string>& arguments, const std::string& word) const {
    const std::size_t before = files();
    tests::expect_refused(arguments, word);
    EXPECT_EQ(files(), before) << word;
  }
  const std::string name = "underflow";
  const tests::TemporaryFolder temporary;
  const fs::path& folder = temporary.path();
};

TEST_F(RunCommand, bad_usage_is_one_line) {
  expect_bad_input({}, "command is missing");
  expect_bad_input({"rum"}, "did you mean run");
  expect_bad_input({"--bogus"}, "unknown option");
  expect_bad_input({"run"}, "experiment is missing");
  expect_bad_input({"campaign", "--store", path("store")}, "FILE is missing; accepted: a JSON file");
  expect_bad_input({"ledger"}, "FILE|FOLDER is missing; accepted: ledgers");
  expect_bad_input({"trial", "--store", path("store")}, "EXPERIMENT is missing; accepted: its name");
  expect_bad_input({"run", name.substr(0, name.size() - 1)}, "did you mean " + name);
  expect_bad_input({"run", "nonsense", "--quiet"}, "unknown experiment");
  expect_bad_input({"run", name, "--thread", "2"}, "did you mean --threads");
  for (const char* threads : {"0", "many", "1025", "-1", ""})
    expect_bad_input({"run", name, "--threads", threads, "--out", path("r.json")},
                     "--threads is '" + std::string(threads) + "'; accepted: an integer from 1 to 1024");
  expect_bad_input({"run", name, "--quiet=maybe", "--out", path("r.json")}, "--quiet takes no value");
  expect_bad_input({"run", name, "--out", path("r.json"), "--out", path("s.json")},
                   "--out is there 2 times; accepted: once");
  expect_bad_input({"run", name, "--config", "", "--out", path("r.json")}, "cannot read");
  expect_bad_input({"run", name, "again", "--out", path("r.json")}, "again");
  expect_bad_input({"run", name, "--set"}, "--set: a value is missing; accepted: a parameter and its value");
  expect_bad_input({"run", name, "--set", "=3"}, "unknown parameter ''; accepted: ");
  expect_bad_input({"run", name, "--backend", "x68", "--out", path("r.json")}, "did you mean x86");
  expect_bad_input({"run", name, "--backend", "", "--out", path("r.json")}, "backend");
  expect_bad_input({"list", "extra"}, "extra");
  expect_bad_input({"validate"}, "report is missing");
  expect_bad_input({"diff"}, "FIRST is missing; accepted: a report");
  expect_bad_input({"diff", "one.json"}, "SECOND is missing; accepted: a report of the same experiment");
  expect_bad_input({"diff", "-", "-"}, "there is one standard input");
  expect_bad_input({"show"}, "REPORT is missing; accepted: a report");
}

TEST_F(RunCommand, bad_parameters_are_one_line_and_no_file) {
  expect_bad_input({"run", name, "--set", "nothing=1", "--out", path("r.json")}, "unknown parameter");
  expect_bad_input({"run", name, "--set", "formats=fp17", "--out", path("r.json")}, "fp16");
  expect_bad_input({"run", name, "--set", "formats=", "--out", path("r.json")}, "empty");
  expect_bad_input({"run", "all", "--set", "nothing=1", "--out", path("all/")}, "unknown parameter");
  expect_bad_input({"run", name, "--set", "count=9", "--set", "count=9", "--out", path("r.json")},
                   "parameter count is given twice; accepted: once");
  expect_bad_input({"run", name, "--set", "formats=\033[31m", "--out", path("r.json")},
                   "contains a control character; accepted: a list");
  write("broken.json", "{\"formats\": [");
  write("wrong.json", "{\"formats\": 3}");
  write("other.json", R"({"schema_version": 1, "experiment": "other", "config": {}})");
  write("later.json", R"({"schema_version": 3, "experiment": "underflow", "config": {}})");
  write("nul.json", std::string("{\"count\": 3}\0{}", 15));
  expect_bad_input({"run", name, "--config", path("later.json"), "--out", path("r.json")},
                   "schema_version 3; accepted: 1 to 2");
  expect_bad_input({"run", name, "--config", path("nul.json"), "--out", path("r.json")},
                   "not JSON at line 1, column 13");
  expect_bad_input({"run", name, "--config", path("broken.json"), "--out", path("r.json")}, "line 1");
  expect_bad_input({"run", name, "--config", path("wrong.json"), "--out", path("r.json")},
                   "wrong.json: parameter 'formats'");
  expect_bad_input({"run", name, "--config", path("other.json"), "--out", path("r.json")}, "a report of");
  expect_bad_input({"run", name, "--config", path("missing.json"), "--out", path("r.json")}, "cannot read");
  expect_bad_input({"run", "all", "--config", path("wrong.json"), "--out", path("all/")}, "one experiment");
}

/// What an experiment itself refuses as it begins leaves no folder either.
TEST_F(RunCommand, a_refused_run_leaves_no_folder) {
  expect_bad_input({"run", name, "--set", "count=0", "--out", path("new/")}, "count");
  expect_bad_input({"run", name, "--set", "input=" + path("none.npy"), "--out", path("new/deeper/")}, "none.npy");
  expect_bad_input({"run", "training", "--set", "policies=nothing", "--out", path("new/deeper/")}, "policies");
  fs::create_directories(folder / "old");
  expect_bad_input({"run", name, "--set", "input=" + path("none.npy"), "--out", path("old/")}, "none.npy");
  expect_bad_input({"run", name, "--set", "input=" + path("none.npy"), "--out", path("old/new/")}, "none.npy");
}

TEST_F(RunCommand, a_setting_of_several_experiments_says_which_it_changes) {
  // The first experiment ends the run: there is no such input.
  const auto said = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"run", "all", "--set", "count=4096", "--set", "input=none.npy", "--out", path("all/")};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run_halfulp(all);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(files(), 0u);
    return outcome.err;
  };
  const std::string note = said({}), rest = said({"--quiet"});
  EXPECT_TRUE(is_one_line(rest)) << rest;
  ASSERT_TRUE(note.ends_with(rest)) << note;
  std::string counted;
  std::size_t number = 0;
  for (const Experiment& experiment : experiments()) {
    ++number;
    for (const Parameter& parameter : experiment.parameters())
      if (parameter.name == "count") counted += (counted.empty() ? "" : ", ") + std::string(experiment.name);
  }
  EXPECT_TRUE(note.starts_with("halfulp: --set count=4096 changes " + counted + "; --set input=none.npy changes "))
      << note;
  EXPECT_TRUE(note.ends_with(" (of " + std::to_string(number) + " experiments)\n" + rest)) << note;
  EXPECT_EQ(said({"--set", "formats=bf16"}).find("changes all"), std::string::npos);
}

TEST_F(RunCommand, unwritable_output_is_refused_before_the_experiment_runs) {
  write("file", "");
  expect_bad_input({"run", name, "--out", path("missing/r.json")}, "cannot write");
  expect_bad_input({"run", name, "--out", path("file/")}, "cannot make the folder");
  expect_bad_input({"run", name, "--out", ""}, "--out");
  expect_bad_input({"run", "all", "--out", "-"}, "folder");
  expect_bad_input({"run", "all", "--out", path("file")}, "folder");
  expect_bad_input({"run", "all", "--out", path("reports.json")},
                   "reports.json: several reports need a folder; accepted: ");
  expect_bad_input({"run", name, "--out", "/proc/report.json"}, "cannot write");
}

TEST_F(RunCommand, a_report_does_not_take_the_place_of_its_input) {
  ASSERT_EQ(run_halfulp({"sample", "--shape", "8,8", "--out", path("x.npy")}).status, 0);
  fs::create_directory(folder / "many");
  fs::copy(path("x.npy"), path("many/x.npy"));
  write("c.json", "{\"count\": 64}");
  write("words.txt", "to be or not to be");
  const auto content = [&](const char* file) {
    std::ifstream in(folder / file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string before = content("x.npy");
  const std::vector<std::pair<std::vector<std::string>, const char*>> runs{
      {{name, "--set", "input=" + path("x.npy"), "--out", path("./x.npy")}, "what input reads"},
      {{name, "--set", "input=" + path("many"), "--out", path("many/x.npy")}, "what input reads"},
      {{name, "--config", path("c.json"), "--out", path("c.json")}, "what --config reads"},
      {{"training", "--set", "text=" + path("words.txt"), "--out", path("words.txt")}, "what text reads"}};
  for (const auto& [words, why] : runs) {
    std::vector<std::string> all{"run"};
    all.insert(all.end(), words.begin(), words.end());
    expect_bad_input(all, why);
  }
  EXPECT_EQ(content("x.npy"), before);
  EXPECT_EQ(content("many/x.npy"), before);
  EXPECT_EQ(content("c.json"), "{\"count\": 64}");
  EXPECT_EQ(content("words.txt"), "to be or not to be");
  // A new file beside the input takes nobody's place, nor does the next report, nor one that is run again.
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(run_halfulp({"run", name, "--set", "input=" + path("many"), "--backend", "emulated", "--quiet", "--out",
                           path("many/report.json")})
                  .status,
              0);
  EXPECT_EQ(run_halfulp({"run", name, "--config", path("many/report.json"), "--backend", "emulated", "--quiet", "--out",
                         path("many/report.json")})
                .status,
            0);
}

TEST_F(RunCommand, a_full_disk_is_one_line) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  std::vector<std::string> small = {"run", name, "--config", std::string(HALFULP_GOLDEN) + "/" + name + ".config.json"};
  std::vector<std::string> to_device = small;
  to_device.insert(to_device.end(), {"--out", "/dev/full"});
  expect_bad_input(to_device, "No space left");
  small.insert(small.end(), {"--out", "-"});
  tests::expect_error(run_halfulp(small, {}, "/dev/full"));
  for (const char* command : {"list", "--help", "--version"})
    EXPECT_EQ(run_halfulp({command}, {}, "/dev/full").status, 2) << command;
}

TEST_F(RunCommand, a_closed_stream_is_no_file_that_is_opened_later) {
  const auto by_shell = [&](const std::string& words) {
    return tests::run_program({"/bin/sh", "-c", "\"$0\" " + words, HALFULP_COMMAND});
  };
  const std::string verify = "verify add --format e4m3 --against oracle --exhaustive --quiet --state " + path("state");
  const Outcome lost = by_shell(verify + " >&-");
  EXPECT_EQ(lost.status, 2);
  EXPECT_EQ(lost.err.find("halfulp: cannot write standard output: "), 0u) << lost.err;
  EXPECT_EQ(by_shell(verify + " 2>&-").status, 0);
  EXPECT_EQ(by_shell("calc - <&-").status, 2);
}

TEST_F(RunCommand, an_instruction_set_of_the_environment_changes_no_result) {
  const auto with = [&](const std::string& set, std::vector<std::string> words) {
    words.insert(words.begin(), {"/usr/bin/env", "HALFULP_INSTRUCTION_SET=" + set, HALFULP_COMMAND});
    return tests::Program(words).wait();
  };
  const Outcome unknown = with("AVX9", {"--version"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(is_one_line(unknown.err)) << unknown.err;
  const std::string accepted = "accepted: ";
  const std::size_t list = unknown.err.find(accepted);
  ASSERT_NE(list, std::string::npos) << unknown.err;
  EXPECT_NE(unknown.err.find("HALFULP_INSTRUCTION_SET: unknown instruction set 'AVX9'"), std::string::npos);
  EXPECT_EQ(with("", {"--version"}).status, 0);

  std::istringstream names(unknown.err.substr(list + accepted.size()));
  Json best;
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    if (!name.empty() && name.back() == '\n') name.pop_back();
    EXPECT_NE(with(name, {"--version"}).out.find("this CPU: " + name), std::string::npos) << name;
    const Outcome run = with(name, {"run", "conversions", "--set", "chains=fp32>bf16>e4m3", "--set", "samples=1024",
                                    "--backend", "emulated", "--quiet", "--out", "-"});
    ASSERT_EQ(run.status, 0) << run.err;
    const Json results = Json::parse(run.out)["results"];
    if (best.is_null()) best = results;
    EXPECT_EQ(results, best) << name;
  }
}

TEST_F(RunCommand, an_explicit_backend_that_is_missing_is_status_3) {
  const Outcome listed = run_halfulp({"run", name, "--backend", "emulated,cuda", "--out", path("r.json"), "--config",
                                      std::string(HALFULP_GOLDEN) + "/" + name + ".config.json"});
  if (listed.status == 0) GTEST_SKIP() << "a CUDA device is here";
  if (listed.status == 2) GTEST_SKIP() << "this build has no cuda backend";
  EXPECT_EQ(listed.status, 3);
  EXPECT_TRUE(is_one_line(listed.err)) << listed.err;
  EXPECT_EQ(files(), 0u);
}

TEST_F(RunCommand, writes_a_valid_report_that_runs_again) {
  const std::string config = std::string(HALFULP_GOLDEN) + "/" + name + ".config.json";
  const Outcome first = run_halfulp({"run", name, "--config", config, "--out", folder.string()});
  EXPECT_EQ(first.status, 0) << first.out << first.err;
  EXPECT_EQ(first.err, "") << "redirected: no progress bar";
  EXPECT_NE(first.out.find(" held, 0 failed"), std::string::npos) << first.out;
  EXPECT_EQ(first.out.find('\033'), std::string::npos) << "redirected: no colours";
  const std::string report = path(name + ".json");
  ASSERT_TRUE(fs::exists(report));
  EXPECT_EQ(files(), 1u);
  const Outcome valid = run_halfulp({"validate", report});
  EXPECT_EQ(valid.status, 0) << valid.out;

  const Outcome again = run_halfulp({"run", name, "--config", report, "--out", path("again.json"), "--quiet"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, "");
  EXPECT_EQ(run_halfulp({"diff", report, path("again.json")}).status, 0);

  const Outcome printed = run_halfulp({"run", name, "--config", report, "--out", "-"});
  EXPECT_EQ(parse_json(printed.out, "standard output")["results"], read_json(report)["results"]);

  Json changed = read_json(report);
  auto& rows = changed["results"].begin().value()["rows"];
  rows.erase(rows.size() - 1);
  write("changed.json", pretty(changed));
  EXPECT_EQ(run_halfulp({"diff", report, path("changed.json")}).status, 1);
  changed["claims"][0]["verdict"] = "perhaps";
  write("changed.json", pretty(changed));
  EXPECT_EQ(run_halfulp({"validate", report, path("changed.json")}).status, 1);
  expect_bad_input({"diff", report, path("changed.json")}, "not a valid report");
  expect_bad_input({"validate", path("missing.json")}, "cannot read");
  expect_bad_input({"validate", ""}, "cannot read '': No such file");
  // An unreadable file does not stop the others from being validated. The exit status is the worst of all.
  const Outcome mixed = run_halfulp({"validate", path("changed.json"), path("missing.json"), report});
  EXPECT_EQ(mixed.status, 2);
  EXPECT_TRUE(is_one_line(mixed.err)) << mixed.err;
  EXPECT_NE(mixed.out.find("changed.json: /claims/0"), std::string::npos) << mixed.out;
  EXPECT_NE(mixed.out.find(report + ": valid"), std::string::npos) << mixed.out;
}

/// Every experiment's headline names one of its tables. The table, the failed claims and the totals fit a terminal,
/// also with long names of formats and modes.
/// Files that parse as JSON and would mislead a reader, or exhaust the validator's stack.
TEST_F(RunCommand, odd_reports_are_not_valid) {
  const std::string report = path("report.json");
  ASSERT_EQ(run_halfulp({"run", "position_ids", "--set", "formats=bf16", "--set", "lengths=512", "--backend",
                         "emulated", "--out", report})
                .status,
            0);
  const Json right = read_json(report);
  const auto expect_invalid = [&](const Json& odd, const std::string& why) {
    write("odd.json", odd.dump());
    const Outcome outcome = run_halfulp({"validate", path("odd.json")});
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_NE(outcome.out.find(why), std::string::npos) << outcome.out.substr(0, 1000);
    EXPECT_LT(outcome.out.size(), 1000u);
  };
  for (const Json& value : {Json(), Json::array(), Json(3)}) expect_invalid(value, "accepted: a report, an object");
  Json odd = right;
  odd["results"]["claims"] = odd["results"]["collisions"];
  expect_invalid(odd, "/results/claims: a table of this name would hide the claims");
  odd = right;
  odd["results"]["collisions"]["columns"][1]["name"] = odd["results"]["collisions"]["columns"][0]["name"];
  expect_invalid(odd, "is there twice");
  odd = right;
  odd["experiment"] = std::string(100'000, 'a');
  expect_invalid(odd, "/experiment: 100000 characters; accepted: at most 1000");
  odd = right;
  odd["results"][std::string(100'000, 'b')] = odd["results"]["collisions"];
  expect_invalid(odd, "100000 characters; accepted: at most 1000");
}

TEST_F(RunCommand, shows_a_headline_and_what_did_not_hold) {
  for (const Experiment& experiment : experiments()) {
    const std::string own(experiment.name), config = std::string(HALFULP_GOLDEN) + "/" + own + ".config.json";
    for (const bool long_names : {false, true}) {
      std::vector<std::string> arguments{"run",       own,        "--config", config,
                                         "--backend", "emulated", "--out",    path("r.json")};
      const std::vector<Parameter> parameters = experiment.parameters();
      const auto has = [&](std::string_view name) {
        return std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == name; });
      };
      const bool trains = has("data");
      if (trains) arguments.insert(arguments.end(), {"--set", "data=" + std::string(HALFULP_GOLDEN) + "/images"});
      const bool scaled = own == "attribution";  // it refuses numbers out of range of formats without a scale
      if (trains && long_names) continue;        // names of policies are built in or stand in a file
      if (long_names && !has("formats") && !has("chains")) continue;
      if (long_names && has("chains"))
        arguments.insert(arguments.end(),
                         {"--set", "chains=fp64>p3109k8p4>e4m3b11fnuz,fp64>fp32>fp16>e4m3b11fnuz>p3109k8p4"});
      if (long_names && has("formats"))
        arguments.insert(arguments.end(),
                         {"--set", scaled ? "formats=e4m3b11fnuz/1x128/fp32/amax,p3109k8p4/tensor/fp32/amax"
                                          : "formats=e4m3b11fnuz,p3109k8p4"});
      if (long_names && has("roundings") && own != "swamping" && !scaled)
        arguments.insert(arguments.end(), {"--set", "roundings=toward-negative,toward-positive"});
      const Outcome outcome = run_halfulp(arguments);
      ASSERT_EQ(outcome.status, 0) << outcome.err;
      const Json report = read_json(path("r.json"));
      const Json& table = report["results"].at(std::string(experiment.headline.table));
      EXPECT_TRUE(outcome.out.starts_with(std::string(experiment.question) + "\n")) << outcome.out;
      const std::string finding = report["finding"].is_null() ? "" : report["finding"].get<std::string>();
      EXPECT_EQ(squeezed(outcome.out).find(finding), finding.empty() ? 0 : experiment.question.size() + 1)
          << outcome.out;
      const std::size_t at = outcome.out.find("\n\n" + table["title"].get<std::string>().substr(0, 20));
      ASSERT_NE(at, std::string::npos) << outcome.out;
      std::istringstream lines(outcome.out.substr(at + 2));
      std::size_t rows = 0;
      for (std::string line; std::getline(lines, line);) {
        const bool has_path = line.find(path("")) != std::string::npos;
        EXPECT_TRUE(has_path || line.size() <= 80) << line;
        const bool claim = line.starts_with("  skipped ") || line.starts_with("  differs ") || line.starts_with("    ");
        rows += line.starts_with("  ") && !claim && !has_path;
      }
      EXPECT_GT(rows, 1u) << outcome.out;
      EXPECT_LE(rows, 1u + 12u) << outcome.out;
      std::size_t pass = 0;
      for (const Json& claim : report["claims"]) {
        pass += claim["verdict"] == "pass";
        const bool told = outcome.out.find(claim["statement"].get<std::string>().substr(0, 30)) != std::string::npos;
        const bool told_with_others =  // claims skipped for one reason, or for elements of one list, share a line
            claim["verdict"] == "skipped" && is_in_a_group(squeezed(outcome.out), claim["reason"].get<std::string>());
        EXPECT_NE(told || told_with_others, claim["verdict"] == "pass") << claim["statement"] << "\n" << outcome.out;
      }
      EXPECT_NE(outcome.out.find("claims: " + std::to_string(pass) + " held"), std::string::npos) << outcome.out;
      EXPECT_EQ(outcome.out.find("  pass "), std::string::npos) << outcome.out;
      if (long_names) continue;
      arguments.push_back("--verbose");
      const Outcome verbose = run_halfulp(arguments);
      std::size_t listed = 0;
      for (auto at = verbose.out.find("  pass "); at != std::string::npos; at = verbose.out.find("  pass ", at + 1))
        ++listed;
      EXPECT_EQ(listed, pass) << verbose.out;
    }
  }
}

TEST_F(RunCommand, shows_tables) {
  const std::string report = path("report.json");
  ASSERT_EQ(run_halfulp({"run", "position_ids", "--set", "formats=bf16", "--set", "lengths=512", "--backend",
                         "emulated", "--out", report})
                .status,
            0);
  const Outcome contents = run_halfulp({"show", report});
  EXPECT_EQ(contents.status, 0) << contents.err;
  EXPECT_NE(contents.out.find("collisions"), std::string::npos);
  const Outcome table = run_halfulp({"show", report, "collisions"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_NE(table.out.find("bf16"), std::string::npos);
  EXPECT_NE(table.out.find("385"), std::string::npos);  // 0..256, every second one to 510, and 512 for 511
  expect_bad_input({"show", report, "collision"}, "did you mean collisions?");
  expect_bad_input({"show", report, ""}, "unknown table ''; accepted: ");
  expect_bad_input({"show", path("missing.json")}, "cannot read");
  expect_bad_input({"show", report, "collisions", "--columns"},
                   "--columns: a value is missing; accepted: columns to show, in this order (default: all)\n");
  expect_bad_input({"show", report, "collisions", "--where"},
                   "--where: a value is missing; accepted: a column and the value of the rows to show\n");
  write("toy.json", "{}");
  expect_bad_input({"show", path("toy.json")}, "toy.json: no report of halfulp (an object without members)\n");
}

TEST_F(RunCommand, other_programs_json_is_no_report) {
  write("other.json", R"({"context": {"date": 1}, "benchmarks": [], "schema_version": 1})");
  const std::string why = ": no report of halfulp (its members: context, benchmarks, schema_version)\n",
                    other = path("other.json");
  expect_bad_input({"show", other}, other + why);
  expect_bad_input({"show", other, "claims"}, other + why);
  expect_bad_input({"diff", other, other}, other + why);
  expect_bad_input({"page", other, "--out", path("page.html")}, other + why);
  const Outcome judged = run_halfulp({"validate", other});
  EXPECT_EQ(judged.status, 1);
  EXPECT_EQ(judged.out, other + why);
  write("many.json", R"({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8})");
  expect_bad_input({"show", path("many.json")}, "(its members: a, b, c, d, e, f and 2 more)");

  // What is nearly a report is told what is wrong with it.
  const std::string report = path("report.json");
  ASSERT_EQ(run_halfulp({"run", "position_ids", "--set", "formats=bf16", "--set", "lengths=512", "--backend",
                         "emulated", "--out", report})
                .status,
            0);
  Json near = read_json(report);
  near.erase("title"), near.erase("claims"), near.erase("status");
  write("near.json", near.dump());
  expect_bad_input({"show", path("near.json")}, "near.json: not a valid report: /");
}

TEST_F(RunCommand, lists_and_helps) {
  const Outcome list = run_halfulp({"list"});
  const Outcome json = run_halfulp({"list", "--json"});
  ASSERT_EQ(json.status, 0);
  const Json parsed = parse_json(json.out, "list");
  ASSERT_EQ(parsed.size(), experiments().size());
  for (const Experiment& experiment : experiments()) {
    const std::string experiment_name(experiment.name);
    EXPECT_NE(list.out.find(experiment_name + " "), std::string::npos);
    for (const char* flag : {"--help", "--parameters"}) {
      const Outcome help = run_halfulp({"run", experiment_name, flag});
      EXPECT_EQ(help.status, 0) << help.err;
      for (const Parameter& parameter : experiment.parameters())
        EXPECT_NE(help.out.find("\n  " + parameter.name + " = "), std::string::npos) << parameter.name << "\n"
                                                                                     << help.out;
    }
  }
  EXPECT_EQ(run_halfulp({"--version"}).out.rfind("halfulp ", 0), 0u);
  EXPECT_EQ(run_halfulp({"--help"}).status, 0);
}

TEST(Help, AsAWordBeforeACommand) {
  EXPECT_EQ(run_halfulp({"help", "explain"}).out, run_halfulp({"explain", "--help"}).out);
  EXPECT_EQ(run_halfulp({"help", "run", "underflow"}).out, run_halfulp({"run", "underflow", "--help"}).out);
  EXPECT_EQ(run_halfulp({"help"}).out, run_halfulp({"--help"}).out);
  tests::expect_refused({"help", "explian"}, "unknown command 'explian'; did you mean explain?");
}

TEST(RunScript, SuggestsACommand) {
  const auto said = [](const std::string& word) {
    const Outcome outcome = tests::run_program({"/bin/bash", std::string(HALFULP_GOLDEN) + "/../../run", word});
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(outcome.out, "");
    return outcome.err.substr(0, outcome.err.find(" accepted: "));
  };
  EXPECT_EQ(said("tset"), "run: unknown command 'tset'; did you mean test?");
  EXPECT_EQ(said("bild"), "run: unknown command 'bild'; did you mean build?");
  EXPECT_EQ(said("note"), "run: unknown command 'note'; did you mean notebooks?");
  EXPECT_EQ(said("clean"), "run: unknown command 'clean';");
}

/// What a run reads stays as it was, whichever option reads it and whichever would write it.
TEST_F(RunCommand, FilesThatAreReadAreNotOverwritten) {
  const std::string policy = run_halfulp({"policies", "amp-fp16", "--json"}).out, config = "{}\n";
  write("policy.json", policy), write("config.json", config), write("campaign.json", R"({"experiment": "training",
    "settings": {"policies": ")" + path("policy.json") + R"(", "steps": 1, "width": 8}, "grid": {"seeds": [1]}})");
  ASSERT_EQ(run_halfulp({"sample", "--out", path("x.npy"), "--shape", "4"}).status, 0);
  const std::string mine = path("policy.json"), settings = path("config.json");
  const std::vector<std::vector<std::string>> commands{
      {"run", "training", "--set", "policies=fp32, " + mine, "--out", mine},
      {"run", "memory", "--set", "policies=" + mine, "--out", mine},
      {"recommend", "--against", mine, "--out", mine},
      {"recommend", "--against", mine, "--policy", mine},
      {"recommend", "--config", settings, "--policy", settings},
      {"run", "swamping", "--config", settings, "--out", settings},
      {"inspect", path("x.npy"), "--config", settings, "--out", settings},
      {"choose", path("x.npy"), "--bits", "5", "--config", settings, "--out", settings},
      {"choose", path("x.npy"), "--bits", "5", "--config", settings, "--mix", settings},
      {"campaign", path("campaign.json"), "--store", path("store"), "--out", mine}};
  for (const std::vector<std::string>& command : commands) {
    const Outcome outcome = run_halfulp(command);
    EXPECT_EQ(outcome.status, 2) << command[0] << " " << command[1];
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_NE(outcome.err.find("would be overwritten; accepted: another file"), std::string::npos) << outcome.err;
  }
  fs::create_directory(folder / "saved");
  ASSERT_EQ(run_halfulp({"sample", "--out", path("saved/x.npy"), "--shape", "4"}).status, 0);
  write("saved/gradients.json", "{}");
  tests::expect_error(run_halfulp({"run", "underflow", "--set", "input=" + path("saved"), "--set", "count=64", "--out",
                                   path("saved/gradients.json")}),
                      "would be overwritten");
  const auto now = [&](const char* name) {
    std::ifstream file(folder / name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(now("policy.json"), policy);
  EXPECT_EQ(now("config.json"), config);
}

}  // namespace run_command_test
}  // namespace halfulp
