// `halfulp page` as a user runs it: what it refuses, what it asks of Python, how it treats each answer. tests/page/
// tests the page itself.
#include "command.hpp"
#include "temporary_folder.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace page_command_test {

namespace fs = std::filesystem;
using halfulp::tests::expect_error;
using halfulp::tests::expect_refused;
using halfulp::tests::Outcome;
using halfulp::tests::run_halfulp;

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class PageCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "reports");
    ASSERT_EQ(run_halfulp({"run", "position_ids", "--set", "lengths=64", "--set", "formats=fp16", "--backend",
                           "emulated", "--quiet", "--out", report_})
                  .status,
              0);
  }

  void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  /// A fake Python that records its arguments and standard input, prints `output` and `error`, and exits with `status`.
  std::string python(int status, const std::string& output = "<html>", const std::string& error = "") {
    const fs::path path = folder_ / "python";
    write(path, "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + kept("arguments") + "\ncat > " + kept("input") + "\nprintf '" +
                    output + "'\nprintf '" + error + "' >&2\nexit " + std::to_string(status) + "\n");
    fs::permissions(path, fs::perms::owner_all);
    return "--python=" + path.string();
  }
  std::string kept(const std::string& name) const { return (folder_ / name).string(); }

  const halfulp::tests::TemporaryFolder folder_;
  const std::string report_ = folder_ / "reports" / "a.json", out_ = folder_ / "page.html";
};

TEST_F(PageCommand, WritesWhatPythonDraws) {
  const Outcome run = run_halfulp(
      {"page", report_, "--out", out_, "--title", "-a title", "--rows=7", python(0, "<html>ü")});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "page: " + out_ + " (1 report)\n");
  EXPECT_EQ(content(out_), "<html>ü");
  EXPECT_NE(content(kept("input")).find("When do positions collide"), std::string::npos);
  std::istringstream words(content(kept("arguments")));
  std::string word, code, package;
  std::getline(words, word), std::getline(words, code), std::getline(words, package);
  EXPECT_EQ(word, "-c");
  EXPECT_TRUE(fs::exists(fs::path(package) / "halfulp_page" / "__main__.py")) << package;
  EXPECT_TRUE(content(kept("arguments"))
                  .ends_with(package + "\n--out=-\n--about=-\n--rows=7\n--title=-a title\n--\n" + report_ + "\n"));
  EXPECT_EQ(run_halfulp({"page", report_, "--out", "-", python(0, "<p>")}).out, "<p>");
}

/// Beside the package of a wheel lie all others, for another Python than the one that draws.
TEST_F(PageCommand, TakesNothingElseThatLiesBesideThePackage) {
  const fs::path site = folder_ / "site-packages", program = site / "halfulp" / "halfulp";
  fs::create_directories(site / "halfulp");
  fs::copy_file(HALFULP_COMMAND, program);
  fs::create_directory_symlink(fs::path(HALFULP_GOLDEN).parent_path().parent_path() / "python" / "halfulp_page",
                               site / "halfulp_page");
  for (const char* name : {"json.py", "numpy.py", "matplotlib.py"})
    write(site / name, "raise ImportError('of another Python')\n");
  const Outcome run = halfulp::tests::run_program({program, "page", report_, "--out", out_});
  EXPECT_TRUE(run.status == 0 || (run.status == 3 && run.err.find("needs") != std::string::npos)) << run.err;
  EXPECT_EQ(run.err.find("of another Python"), std::string::npos) << run.err;
}

TEST_F(PageCommand, TakesFoldersAndPassesOverOtherJson) {
  write(folder_ / "reports" / "benchmarks.json", "{\"context\": 1}");
  write(folder_ / "reports" / "list.json", "[]");
  fs::copy_file(report_, folder_ / "reports" / "b.json");
  EXPECT_EQ(run_halfulp({"page", (folder_ / "reports").string(), "--out", out_, python(0)}).status, 0);
  EXPECT_TRUE(content(kept("arguments")).ends_with("a.json\n" + (folder_ / "reports" / "b.json").string() + "\n"));
}

TEST_F(PageCommand, WritesAFolderOfPages) {
  const fs::path pages = folder_ / "pages";
  const std::string files = R"({"index.html": "<first>", "a.html": "<a>", "figures/a-0.svg": "<svg>"})";
  const Outcome run = run_halfulp({"page", report_, "--out", pages.string() + "/", python(0, files)});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "page: " + (pages / "index.html").string() + " (1 report)\n");
  EXPECT_EQ(content(pages / "index.html"), "<first>");
  EXPECT_EQ(content(pages / "a.html"), "<a>");
  EXPECT_EQ(content(pages / "figures" / "a-0.svg"), "<svg>");
  EXPECT_NE(content(kept("arguments")).find("--folder"), std::string::npos);
  EXPECT_EQ(run_halfulp({"page", report_, "--out", pages.string(), python(0, files)}).status, 0) << "a folder is there";
  write(folder_ / "file", "x");
  expect_refused({"page", report_, "--out", (folder_ / "file").string() + "/", python(0, files)}, "--out");
}

TEST_F(PageCommand, RefusesInOneLineAndWritesNothing) {
  write(folder_ / "bad.json", "{\"schema_version\": 1}");
  write(folder_ / "no.json", "{");
  fs::create_directories(folder_ / "empty");
  const auto file = [&](const char* name) { return (folder_ / name).string(); };
  const std::string fine = python(0);
  for (const auto& [words, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{file("bad.json")}, "no report of halfulp (its members: "},
           {{file("no.json")}, "no.json"},
           {{file("absent.json")}, "absent.json"},
           {{report_, file("bad.json")}, "bad.json"},
           {{file("empty")}, "no report in this folder"},
           {{"-"}, "accepted: files"},
           {{report_, "--rows=x"}, "--rows is 'x'"},
           {{}, "REPORT is missing"}}) {
    std::vector<std::string> all{"page", "--out", out_, fine};
    all.insert(all.end(), words.begin(), words.end());
    expect_refused(all, why);
    EXPECT_FALSE(fs::exists(out_));
  }
  expect_refused(
      {"page", report_, fine},
      "--out is missing; accepted: a file for one page, a folder (DIR/) for many, or - for standard output\n");
  EXPECT_EQ(run_halfulp({"page", report_, "--out", file("absent/page.html"), fine}).status, 2);
  const std::string before = content(report_);
  EXPECT_EQ(run_halfulp({"page", report_, "--out", report_, fine}).status, 2);
  EXPECT_EQ(content(report_), before);
}

TEST_F(PageCommand, PythonsAnswersKeepTheirMeaning) {
  write(out_, "before");
  struct Case {
    int python, status;
    const char *error, *said;
  };
  for (const Case& each : {Case{2, 2, "halfulp_page: a.json: odd\\n", "halfulp: a.json: odd\n"},
                           Case{1, 70, "Traceback\\nTypeError: odd\\n", "TypeError: odd"}, Case{1, 2, "", "--python: "},
                           Case{3, 3, "halfulp_page: jinja2 missing; apt-get install python3-jinja2\\n",
                                "jinja2 missing; apt-get install python3-jinja2"},
                           Case{127, 3, "", "python3-matplotlib"}, Case{130, 130, "", "interrupted"}}) {
    expect_refused({"page", report_, "--out", out_, python(each.python, "<half", each.error)}, each.said, each.status);
    EXPECT_EQ(content(out_), "before");
  }
  const Outcome none = run_halfulp({"page", report_, "--out", out_, "--python=" + kept("absent")});
  EXPECT_EQ(none.status, 3);
  EXPECT_NE(none.err.find("apt-get install python3 python3-matplotlib python3-jinja2"), std::string::npos) << none.err;
  EXPECT_EQ(content(out_), "before");
}

TEST_F(PageCommand, RefusesWhatItWasGivenTwiceOrNot) {
  expect_refused({"page", report_, report_, "--out", out_, python(0)}, report_ + " is given twice; accepted: once");
  expect_refused({"page", report_, folder_ / "reports", "--out", out_, python(0)}, "is given twice");
  expect_refused({"page", report_, "--out", "", python(0)}, "--out: a file, a folder or - is missing");
}

/// A signal that reaches `halfulp` alone, as `kill` sends it, ends the Python that draws, too.
TEST_F(PageCommand, StopsThePythonItStarted) {
  const std::string fake = python(0), id = kept("id");
  const std::string drawn = kept("drawn");  // the program is not left to end by itself
  write(folder_ / "python",
        "#!/bin/sh\necho $$ > " + id + ".new\nmv " + id + ".new " + id + "\nsleep 10\necho > " + drawn + "\n");
  const Outcome stopped = halfulp::tests::run_interrupted(
      {HALFULP_COMMAND, "page", report_, "--out", out_, fake}, [&] { return fs::exists(id); }, SIGTERM);
  expect_error(stopped, "interrupted", 130);
  EXPECT_FALSE(fs::exists(out_) || fs::exists(drawn));
  EXPECT_NE(::kill(std::stoi(content(id)), 0), 0) << "the program that draws still runs";
}

/// More than a pipe holds, in both directions.
TEST_F(PageCommand, LongAnswersArriveWhole) {
  const std::string fake = python(0);
  write(folder_ / "python",
        "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x >&2\nhead -c 3000000 /dev/zero | tr '\\0' y\n");
  EXPECT_EQ(run_halfulp({"page", report_, "--out", out_, fake}).status, 0);
  EXPECT_EQ(content(out_), std::string(3000000, 'y'));
}

}  // namespace page_command_test
