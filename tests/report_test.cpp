// Claims, reports, their schema, their differences, and the run that makes them.
#include "toy_experiment.hpp"

#include <halfulp/experiments/report/json_text.hpp>
#include <halfulp/experiments/report/output_file.hpp>
#include <halfulp/experiments/report/report_diff.hpp>
#include <halfulp/experiments/run/runner.hpp>
#include <halfulp/experiments/report/schema.hpp>
#include <halfulp/hardware/emulated.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <sstream>

#include <sys/resource.h>
#include <unistd.h>

namespace halfulp {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

Verdict within_one(double measured) { return within("a", "b", "c", 10, 1, measured, "oracle").verdict; }

TEST(Claims, hold_at_the_tolerance_and_fail_just_beyond) {
  EXPECT_EQ(within_one(11), Verdict::pass);
  EXPECT_EQ(within_one(9), Verdict::pass);
  EXPECT_EQ(within_one(std::nextafter(11, 12)), Verdict::fail);
  EXPECT_EQ(within_one(std::nextafter(9, 8)), Verdict::fail);
  EXPECT_EQ(within_one(not_a_number), Verdict::fail);
  EXPECT_EQ(within("a", "b", "c", infinity, 1, infinity, "oracle").verdict, Verdict::pass);
  EXPECT_EQ(within("a", "b", "c", infinity, 1, 1e308, "oracle").verdict, Verdict::fail);

  EXPECT_EQ(at_most("a", "b", "c", 10, 10, "oracle").verdict, Verdict::pass);
  EXPECT_EQ(at_most("a", "b", "c", 10, std::nextafter(10, 11), "oracle").verdict, Verdict::fail);
  EXPECT_EQ(at_most("a", "b", "c", 10, not_a_number, "oracle").verdict, Verdict::fail);
  EXPECT_EQ(at_least("a", "b", "c", 10, 10, "oracle").verdict, Verdict::pass);
  EXPECT_EQ(at_least("a", "b", "c", 10, std::nextafter(10, 9), "oracle").verdict, Verdict::fail);
  EXPECT_EQ(at_least("a", "b", "c", 10, not_a_number, "oracle").verdict, Verdict::fail);

  EXPECT_EQ(exactly("a", "b", "c", 7.0859375, 7.0859375, "oracle").verdict, Verdict::pass);
  EXPECT_EQ(exactly("a", "b", "c", 513, 512, "oracle").verdict, Verdict::fail);
  EXPECT_EQ(exactly("a", "b", "c", "0x7bff", "0x7c00", "oracle").verdict, Verdict::fail);
}

TEST(Claims, a_published_figure_that_is_missed_differs_with_a_reason) {
  const Claim claim = within("a", "b", "c", 10, 1, 12.5, "published", Verdict::differs);
  EXPECT_EQ(claim.verdict, Verdict::differs);
  EXPECT_NE(claim.reason.find("12.5"), std::string::npos);
  EXPECT_TRUE(within("a", "b", "c", 10, 1, 10, "published", Verdict::differs).reason.empty());
}

TEST(Report, refuses_claims_that_say_too_little) {
  const auto refused = [](Claim claim) {
    Report report("toy", "t", Config({}));
    EXPECT_THROW(report.claim(std::move(claim)), std::logic_error);
  };
  refused(exactly("", "b", "c", 1, 1, "oracle"));
  refused(exactly("a", "", "c", 1, 1, "oracle"));
  refused(exactly("a", "b", "", 1, 1, "oracle"));
  refused(exactly("a", "b", "c", 1, 1, "trust me"));
  refused(skipped("a", "b", "c", ""));
  Report report("toy", "t", Config({}));
  report.claim(exactly("a", "b", "c", 1, 1, "oracle"));
  EXPECT_THROW(report.claim(exactly("a", "b", "c", 1, 1, "oracle")), std::logic_error);
  report.table("t", "t", {{"x", "1", "x"}, {"y", "1", "y"}});
  EXPECT_THROW(report.table("t", "t", {}), std::logic_error);
  EXPECT_THROW(Table("t", "t", {{"x", "1", "x"}}).row({1, 2}), std::logic_error);
}

TEST(Report, status_is_fail_if_a_claim_fails_or_a_comparison_differs) {
  Report report("toy", "t", Config({}));
  EXPECT_EQ(report.status(), "pass");
  report.claim(within("p", "b", "c", 1, 0, 2, "published", Verdict::differs));
  report.claim(skipped("s", "b", "c", "why"));
  EXPECT_EQ(report.status(), "pass");
  Report failing = report;
  failing.claim(exactly("a", "b", "c", 1, 2, "oracle"));
  EXPECT_EQ(failing.status(), "fail");
  Comparison comparison;
  comparison.compared = 3;
  comparison.differing = 1;
  report.comparison(comparison);
  EXPECT_EQ(report.status(), "fail");
}

TEST(Report, values_without_json_become_words) {
  EXPECT_EQ(number(not_a_number), "NaN");
  EXPECT_EQ(number(-infinity), "-Infinity");
  EXPECT_EQ(emulated(fp16, 0x7bff).dump(), R"({"code":"0x7bff","value":65504.0})");
  EXPECT_EQ(emulated(fp16, 0x7c00).dump(), R"({"code":"0x7c00","value":"Infinity"})");
  EXPECT_EQ(emulated(e2m1, 0x7).dump(), R"({"code":"0x7","value":6.0})");
}

/// Flips the last bit of every result: a device that is wrong about everything.
class Broken final : public Backend {
 public:
  std::string_view name() const override { return "broken"; }
  std::string description() const override { return "always one off"; }
  Support available() const override { return Support::by("imagination"); }
  Support supports(const Task& task) const override {
    return task.operation == Operation::add ? Support::by("imagination") : Support::no("only adds");
  }
  NanRule nan_rule(const Task& task) const override { return task.rounding.nan; }
  std::string_view independence() const override { return "silicon"; }
  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    emulated_backend().run(task, operands, results);
    for (std::uint64_t& result : results) result ^= 1;
  }
};

/// A backend whose device is not here.
class Absent final : public Backend {
 public:
  std::string_view name() const override { return "absent"; }
  std::string description() const override { return "nothing"; }
  Support available() const override { return Support::no("no such device"); }
  Support supports(const Task&) const override { return Support::no("no such device"); }
  NanRule nan_rule(const Task& task) const override { return task.rounding.nan; }
  std::string_view independence() const override { return "silicon"; }
  void run(const Task&, const Operands&, std::span<std::uint64_t>) const override { FAIL() << "the device is not here"; }
};

Json toy_report(std::vector<const Backend*> backends = {}, int threads = 0, const char* setting = "count=50") {
  Config config(toy::parameters());
  config.set(setting);
  RunOptions options;
  options.backends = std::move(backends);
  options.threads = threads;
  return run_experiment(toy::experiment(), config, options).to_json();
}

/// What is wrong with a report of the toy.
std::vector<std::string> toy_errors(const Json& report) {
  const Experiment toy = toy::experiment();
  return report_errors(report, {&toy, 1});
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST(Schema, errors_name_what_is_accepted) {
  Json report = toy_report({&emulated_backend()});
  report["claims"][0]["verdict"] = "maybe";
  EXPECT_NE(joined(toy_errors(report)).find("/claims/0/verdict: Failed to match against any enum values; accepted: one of pass, fail, differs, skipped\n"),
            std::string::npos) << joined(toy_errors(report));
}

TEST(Runner, replays_the_trace_and_shows_every_difference) {
  const Broken broken;
  const Absent absent;
  const Json report = toy_report({&emulated_backend(), &broken, &absent});
  EXPECT_EQ(joined(toy_errors(report)), "");
  EXPECT_EQ(report["status"], "fail");
  std::uint64_t differing = 0, compared = 0;
  std::map<std::string, std::size_t> skipped_tasks;
  for (const Json& comparison : report["comparisons"]) {
    EXPECT_NE(comparison["backend"], "emulated");
    if (comparison["skipped"].is_null()) {
      EXPECT_EQ(comparison["operation"], "add");
      EXPECT_FALSE(comparison["witnesses"].empty());
      compared += comparison["compared"].get<std::uint64_t>();
      differing += comparison["differing"].get<std::uint64_t>();
    } else {
      skipped_tasks[comparison["backend"].get<std::string>() + ": " + comparison["skipped"].get<std::string>()] += comparison["tasks"].size();
    }
  }
  EXPECT_EQ(compared, 100u);
  EXPECT_EQ(differing, 100u);
  EXPECT_EQ(skipped_tasks, (std::map<std::string, std::size_t>{{"absent: no such device", 4}, {"broken: only adds", 2}}));
}

TEST(Runner, the_number_of_threads_never_shows) {
  const Json one = toy_report({}, 1), two = toy_report({}, 2), eight = toy_report({}, 8);
  EXPECT_EQ(one["environment"]["threads"], 1);
  EXPECT_EQ(two["environment"]["threads"], 2);
  EXPECT_EQ(pretty(one["results"]), pretty(two["results"]));
  EXPECT_EQ(pretty(one["results"]), pretty(eight["results"]));
}

TEST(Runner, backends_by_name) {
  EXPECT_EQ(choose_backends(std::nullopt).size(), backends().size());
  EXPECT_EQ(choose_backends("emulated"), std::vector<const Backend*>{&emulated_backend()});
  for (const char* bad : {"", "x68", "emulated,", "emulated,emulated"}) EXPECT_THROW((void)choose_backends(bad), std::invalid_argument) << bad;
}

TEST(Schema, accepts_a_report_and_catches_each_mutilation) {
  const Broken broken;
  const Absent absent;
  const Json report = toy_report({&broken, &absent});
  ASSERT_EQ(joined(toy_errors(report)), "");
  const std::vector<std::pair<const char*, std::function<void(Json&)>>> mutilations{
      {"no schema_version", [](Json& r) { r.erase("schema_version"); }},
      {"other schema_version", [](Json& r) { r["schema_version"] = 2; }},
      {"no config", [](Json& r) { r.erase("config"); }},
      {"no environment", [](Json& r) { r.erase("environment"); }},
      {"no date", [](Json& r) { r["environment"].erase("date"); }},
      {"wrong date", [](Json& r) { r["environment"]["date"] = "yesterday"; }},
      {"unknown member", [](Json& r) { r["extra"] = 1; }},
      {"null in config", [](Json& r) { r["config"]["count"] = nullptr; }},
      {"claims no array", [](Json& r) { r["claims"] = Json::object(); }},
      {"claim twice", [](Json& r) { r["claims"].push_back(r["claims"][0]); }},
      {"wrong verdict", [](Json& r) { r["claims"][0]["verdict"] = "maybe"; }},
      {"skipped without reason", [](Json& r) { r["claims"][1]["reason"] = nullptr; }},
      {"differs without reason", [](Json& r) { r["claims"][0]["verdict"] = "differs"; }},
      {"wrong independence", [](Json& r) { r["claims"][0]["independence"] = "me"; }},
      {"pass without independence", [](Json& r) { r["claims"][0]["independence"] = nullptr; }},
      {"failing claim, status unchanged", [](Json& r) { r["status"] = "pass"; }},
      {"row too short", [](Json& r) { r["results"]["sums"]["rows"][3].erase(0); }},
      {"nested cell", [](Json& r) { r["results"]["sums"]["rows"][3][0] = Json::array({1}); }},
      {"code without value", [](Json& r) { r["results"]["sums"]["rows"][3][2].erase("value"); }},
      {"code not hexadecimal", [](Json& r) { r["results"]["sums"]["rows"][3][2]["code"] = "3c00"; }},
      {"no columns", [](Json& r) { r["results"]["sums"].erase("columns"); }},
      {"column without unit", [](Json& r) { r["results"]["sums"]["columns"][0].erase("unit"); }},
      {"negative count", [](Json& r) { r["comparisons"][0]["compared"] = -1; }},
      {"more differ than were compared", [](Json& r) { r["comparisons"][0]["compared"] = 1; }},
      {"classes that do not add up", [](Json& r) { r["comparisons"][0]["classes"].begin().value() = 1; }},
      {"skipped without why", [](Json& r) { r["comparisons"].back()["skipped"] = ""; }},
      {"no NaN rule", [](Json& r) { r["comparisons"][0].erase("nan_rule"); }},
      {"not an object", [](Json& r) { r = Json::array(); }},
      {"unknown experiment", [](Json& r) { r["experiment"] = "toi"; }},
      {"empty config", [](Json& r) { r["config"] = Json::object(); }},
      {"parameter missing", [](Json& r) { r["config"].erase("count"); }},
      {"unknown parameter", [](Json& r) { r["config"]["counts"] = 3; }},
      {"value the parameter refuses", [](Json& r) { r["config"]["count"] = 1001; }},
      {"pass, but not as expected", [](Json& r) { r["claims"][0]["measured"] = 2.5; }},
      {"fail, but as expected", [](Json& r) { r["claims"][0]["verdict"] = r["status"] = "fail"; }},
      {"pass beyond the tolerance", [](Json& r) { r["claims"][0].update({{"tolerance", "absolute 0.25"}, {"measured", 2.5}}); }},
      {"more than at most", [](Json& r) { r["claims"][0].update({{"tolerance", "at most"}, {"measured", 2.5}}); }},
      {"less than at least", [](Json& r) { r["claims"][0].update({{"tolerance", "at least"}, {"measured", 1.5}}); }},
      {"NaN near something", [](Json& r) { r["claims"][0].update({{"tolerance", "absolute 1"}, {"measured", "NaN"}}); }},
      {"unknown tolerance", [](Json& r) { r["claims"][0]["tolerance"] = "roughly"; }},
      {"tolerance without a number", [](Json& r) { r["claims"][0]["tolerance"] = "absolute one"; }},
      {"measured nan", [](Json& r) { r["claims"][0].update({{"expected", "nan"}, {"measured", "nan"}}); }},
      {"value of another code word", [](Json& r) { r["results"]["sums"]["rows"][3][2]["value"] = 1.5; }},
      {"code word of another format", [](Json& r) { r["results"]["sums"]["rows"][3][0] = "bf16"; }},
      {"code word too wide", [](Json& r) { r["results"]["sums"]["rows"][3][2]["code"] = "0x13d00"; }},
      {"code word no format has", [](Json& r) { r["results"]["sums"]["rows"][3] = {"-", 4, {{"code", "0x3d00"}, {"value", 7}}}; }},
      {"cell nan", [](Json& r) { r["results"]["sums"]["rows"][3][1] = "nan"; }},
      {"cell -inf", [](Json& r) { r["results"]["sums"]["rows"][3][1] = "-inf"; }},
      {"differences without witness", [](Json& r) { r["comparisons"][0]["witnesses"] = Json::array(); }},
      {"witness that agrees", [](Json& r) { auto& w = r["comparisons"][0]["witnesses"][0]; w["device"] = w["emulated"]; }},
      {"witness of another value", [](Json& r) { r["comparisons"][0]["witnesses"][0]["operands"][0]["value"] = 77; }},
      {"witness with one operand", [](Json& r) { r["comparisons"][0]["witnesses"][0]["operands"].erase(0); }},
      {"unknown operation", [](Json& r) { r["comparisons"][0]["operation"] = "ad"; }},
  };
  for (const auto& [what, mutilate] : mutilations) {
    Json broken_report = report;
    mutilate(broken_report);
    EXPECT_FALSE(toy_errors(broken_report).empty()) << what;
  }
  for (const auto& [field, value] : report["claims"][0].items()) {
    Json broken_report = report;
    broken_report["claims"][0].erase(field);
    const std::string errors = joined(toy_errors(broken_report));
    EXPECT_NE(errors.find("/claims/0"), std::string::npos) << field << "\n" << errors;
    EXPECT_NE(errors.find("'" + field + "'"), std::string::npos) << field << "\n" << errors;
  }
}

TEST(Schema, accepts_what_is_right_in_another_way) {
  const Json report = toy_report();
  const std::vector<std::pair<const char*, std::function<void(Json&)>>> variations{
      {"Infinity in a cell", [](Json& r) { r["results"]["sums"]["rows"][3][1] = "-Infinity"; }},
      {"NaN in a cell", [](Json& r) { r["results"]["sums"]["rows"][3][1] = "NaN"; }},
      {"words that only begin like one", [](Json& r) { r["results"]["sums"]["rows"][3][1] = "info"; }},
      {"a NaN's code word", [](Json& r) { r["results"]["sums"]["rows"][3][2] = emulated(fp16, 0x7e00); }},
      {"a code word of a format that a word of the row names",
       [](Json& r) { r["results"]["sums"]["rows"][3] = {"e5m2", "fp32-master", emulated(fp32, 0x3a03126f)}; }},
      {"a code word in a row without format", [](Json& r) { r["results"]["sums"]["rows"][3][0] = "-"; }},
      {"at the tolerance", [](Json& r) { r["claims"][0].update({{"tolerance", "absolute 0.5"}, {"measured", 2.5}}); }},
      {"the same infinity", [](Json& r) { r["claims"][0].update({{"tolerance", "absolute 1"}, {"expected", "Infinity"}, {"measured", "Infinity"}}); }},
      {"another version's parameters", [](Json& r) { r["environment"]["version"] = "9.9.9"; r["config"].erase("count"); }},
  };
  for (const auto& [what, vary] : variations) {
    Json other = report;
    vary(other);
    EXPECT_EQ(joined(toy_errors(other)), "") << what;
  }
}

TEST(JsonText, rows_take_a_line_and_text_reads_back) {
  const Json report = toy_report();
  const std::string text = pretty(report);
  EXPECT_EQ(parse_json(text, "text"), report);
  EXPECT_NE(text.find("\n        [\"fp16\", 1, {\"code\": \"0x4000\", \"value\": 2.0}],\n"), std::string::npos) << text.substr(0, 3000);
  EXPECT_NE(text.find("\n    \"count\": 50\n"), std::string::npos);
  EXPECT_EQ(text.back(), '\n');
}

/// The toy's report with one more measured column.
Json measured_report() {
  Json report = toy_report();
  Json& table = report["results"]["sums"];
  table["columns"].push_back({{"name", "error"}, {"unit", "ulp"}, {"description", "measured"}});
  for (Json& row : table["rows"]) row.push_back(0.5);
  return report;
}

TEST(Diff, finds_code_words_first_then_numbers_and_ignores_the_environment) {
  const Json first = measured_report();
  Json second = first;
  second["environment"]["date"] = "2000-01-01T00:00:00Z";
  second["comparisons"] = Json::array();
  EXPECT_FALSE(diff_reports(first, second).results_differ);
  second["results"]["sums"]["rows"][7][3] = 0.75;
  second["results"]["sums"]["rows"][9][2] = emulated(fp16, 0x3c01);
  second["config"]["count"] = 51;
  const ReportDiff diff = diff_reports(first, second);
  EXPECT_TRUE(diff.results_differ);
  const auto config = diff.text.find("config count: 50 | 51"), code = diff.text.find("row 9 (fp16 10), sum: "),
             number = diff.text.find("row 7 (fp16 8), error: 0.5 | 0.75, by 0.25");
  ASSERT_NE(config, std::string::npos) << diff.text;
  ASSERT_NE(code, std::string::npos) << diff.text;
  ASSERT_NE(number, std::string::npos) << diff.text;
  EXPECT_LT(config, code);
  EXPECT_LT(code, number);
  EXPECT_NE(diff.text.find("table sums: 1 code words differ"), std::string::npos) << diff.text;

  Json shorter = first;
  shorter["results"]["sums"]["rows"].erase(99);
  EXPECT_TRUE(diff_reports(first, shorter).results_differ);
  Json verdict = first;
  verdict["claims"][0]["measured"] = 3;
  EXPECT_NE(diff_reports(first, verdict).text.find("claim one-and-one: measured 2.0 | 3"), std::string::npos);
  Json other = first;
  other["experiment"] = "other";
  EXPECT_THROW((void)diff_reports(first, other), std::invalid_argument);
}

TEST(Diff, pairs_rows_by_name_not_by_place) {
  const Json first = measured_report();
  Json more = first;
  auto& rows = more["results"]["sums"]["rows"];
  rows.insert(rows.begin() + 10, Json{"fp16", 1000, emulated(fp16, 0x3c01), 0.5});
  rows[90][3] = 0.75;
  const std::string inserted = diff_reports(first, more).text;
  EXPECT_NE(inserted.find("table sums: 1 row only in the second report\n  row 10 (fp16 1000)\n"), std::string::npos) << inserted;
  EXPECT_NE(inserted.find("table sums: 1 other cells differ\n  row 89 (bf16 40), error: 0.5 | 0.75"), std::string::npos) << inserted;
  EXPECT_EQ(inserted.find("code words differ"), std::string::npos) << inserted;
  EXPECT_NE(diff_reports(more, first).text.find("1 row only in the first report"), std::string::npos);

  Json swapped = first;
  std::swap(swapped["results"]["sums"]["rows"][3], swapped["results"]["sums"]["rows"][4]);
  EXPECT_EQ(diff_reports(first, swapped).text, "table sums: rows in another order\nresults differ\n");

  Json alike = first, other;  // nothing tells rows apart: the place does
  for (Json& row : alike["results"]["sums"]["rows"]) row = alike["results"]["sums"]["rows"][0];
  other = alike;
  other["results"]["sums"]["rows"][5][3] = 0.75;
  EXPECT_NE(diff_reports(alike, other).text.find("  row 5, error: 0.5 | 0.75"), std::string::npos) << diff_reports(alike, other).text;
}

class OutputFile : public testing::Test {
 protected:
  OutputFile() { std::filesystem::create_directory(folder); }
  ~OutputFile() override { std::filesystem::remove_all(folder); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
  }
  static std::string content(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("halfulp-output-" + std::to_string(::getpid()));
};

TEST_F(OutputFile, is_replaced_whole_and_leaves_nothing_beside) {
  const std::string path = folder / "report.json";
  check_writable(path);
  EXPECT_EQ(files(), 0u);
  write_file(path, "one");
  write_file(path, "two");
  EXPECT_EQ(content(path), "two");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFile, errors_are_exceptions_that_name_the_file) {
  for (const std::string& path : {(folder / "missing" / "report.json").string(), folder.string(), std::string("/proc/report.json")}) {
    EXPECT_THROW(check_writable(path), std::invalid_argument) << path;
    EXPECT_THROW(write_file(path, "text"), std::invalid_argument) << path;
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(OutputFile, a_full_disk_is_an_error_and_a_device_stays_a_device) {
  if (!std::filesystem::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  EXPECT_THROW(write_file("/dev/full", "text"), std::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  write_file("/dev/null", "text");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

/// A limit on file sizes stands in for a disk that fills up in the middle of the text.
TEST_F(OutputFile, a_disk_that_fills_up_leaves_the_old_file_and_no_other) {
  const std::string path = folder / "report.json";
  write_file(path, "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{100, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(write_file(path, std::string(1000, 'x')), std::invalid_argument);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFile, a_link_keeps_pointing_to_the_file_that_is_replaced) {
  write_file(folder / "target", "one");
  std::filesystem::create_symlink(folder / "target", folder / "link");
  write_file(folder / "link", "two");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(content(folder / "target"), "two");
}

TEST_F(OutputFile, a_link_to_nothing_makes_its_target) {
  std::filesystem::create_directory(folder / "elsewhere");
  std::filesystem::create_symlink("elsewhere/target", folder / "hop");  // relative to the folder of the link
  std::filesystem::create_symlink(folder / "hop", folder / "link");
  check_writable(folder / "link");
  EXPECT_FALSE(std::filesystem::exists(folder / "elsewhere" / "target"));
  write_file(folder / "link", "text");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "hop"));
  EXPECT_EQ(content(folder / "elsewhere" / "target"), "text");
}

TEST_F(OutputFile, links_in_a_circle_are_refused_and_stay) {
  std::filesystem::create_symlink("second", folder / "first");
  std::filesystem::create_symlink("first", folder / "second");
  EXPECT_THROW(check_writable(folder / "first"), std::invalid_argument);
  EXPECT_THROW(write_file(folder / "first", "text"), std::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "first"));
  EXPECT_EQ(files(), 2u);
}

}  // namespace
}  // namespace halfulp
