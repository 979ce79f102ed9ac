// Recordings: what devices answered, held against the emulation; and every way in which their files can be wrong.
#include "check.hpp"
#include "command.hpp"

#include <halfulp/support/json.hpp>
#include <halfulp/evidence/comparison.hpp>
#include <halfulp/evidence/devices.hpp>
#include <halfulp/evidence/recording.hpp>

#include <halfulp_test_paths.hpp>

#include <filesystem>
#include <fstream>
#include <functional>

namespace halfulp::recording {
namespace recording_test {

namespace fs = std::filesystem;

/// A folder that vanishes.
struct Folder {
  fs::path path = fs::path(::testing::TempDir()) /
                  ("recording_test_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  static inline int count = 0;
};

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
void write(const fs::path& folder, const Files& files) {
  write(folder / manifest_file, files.manifest);
  write(folder / answers_file, files.answers);
}

/// A device that does not exist: the emulation in its place. Two formats, two matrix sections.
Recording small() {
  Recording recording;
  recording.origin = {"toy", "a device", "driver 1", "a compiler", "a system", "0", "2026-01-01T00:00:00Z"};
  recording.missing = {{"toy:unit", "it is a toy"}};
  for (const auto& [source, task] : {std::pair{"codes", Task{Operation::sqrt, e4m3, e4m3, {}}},
                                     std::pair{"sampled", Task{Operation::fma, fp16, fp16, {}}},
                                     std::pair{"sampled", Task{Operation::convert, fp32, bf16, {}}},
                                     std::pair{"integers", Task{Operation::convert, fp32, i32, {}}},
                                     std::pair{"sampled", Task{Operation::lt, bf16, bf16, {}}},
                                     std::pair{"integers", Task{Operation::convert, i32, fp16, {}}}}) {
    TaskSection s{source, canonical(task), "toy", false, find_task_source(source)->operands(canonical(task)), {}};
    recording.tasks.push_back(std::move(s));
  }
  TaskSection stored{"experiments", {Operation::add, fp16, fp16, {}}, "toy", false, {}, {}};
  for (std::uint64_t i = 0; i < 10; ++i) stored.operands.push(2, 0x3c00 + i, 0x1000 + i);
  recording.tasks.push_back(std::move(stored));
  for (TaskSection& s : recording.tasks) {
    s.task.rounding.nan = NanRule::propagate;
    s.answers.resize(s.operands.size());
    emulated_device().run(s.task, s.operands.view(), s.answers);
  }
  const MatrixUnit& unit = find_unit("hopper.mma.e4m3.fp32");
  for (const MatrixSource& source : matrix_sources().first(2)) {
    MatrixSection s{std::string(source.name), unit.name, "a unit", shape_of(unit), source.cases(shape_of(unit)), {}};
    s.answers.resize(s.cases.size());
    const auto model = emulated_device_with(unit);
    model->multiply(model->matrix_tasks()[0], s.cases, s.answers);
    recording.matrices.push_back(std::move(s));
  }
  return recording;
}

std::string problem(const fs::path& folder) {
  try {
    read_recording(folder);
  } catch (const std::invalid_argument& error) { return error.what(); }
  return {};
}

// What was recorded.

TEST(Recordings, AgreeWithTheEmulation) {
  const auto names = recording_names();
  EXPECT_FALSE(names.empty());
  for (const std::string& name : names) {
    const Replay& replay = find_recording(name);
    std::uint64_t compared = 0;
    for (const TaskSection& section : replay.recording().tasks) {
      Task task = section.task;
      const TaskComparison c = compare(find_device("recorded:" + name), task, section.operands.view());
      ASSERT_EQ(c.skipped, "") << task.description();
      ASSERT_EQ(c.unanswered, 0u) << task.description();
      if (section.approximate) {  // it need not be correctly rounded
        EXPECT_FALSE(c.fails()) << name << ' ' << task.description() << ", farthest " << c.farthest;
        compared += c.compared;
        continue;
      }
      EXPECT_EQ(c.differing, 0u) << name << ' ' << section.source << ' ' << task.description() << std::hex << ": "
                                 << c.witnesses.at(0).operands[0] << ' ' << c.witnesses.at(0).operands[1] << ' '
                                 << c.witnesses.at(0).operands[2] << ": emulated " << c.witnesses.at(0).emulated
                                 << ", recorded " << c.witnesses.at(0).device;
      compared += c.compared;
    }
    EXPECT_GT(compared, 100'000u) << name;
    std::cout << name << ": " << compared << " results of " << replay.recording().tasks.size() << " sections\n";
  }
}

TEST(Recordings, AgreeWithTheModelsOfMatrixUnits) {
  for (const std::string& name : recording_names()) {
    const Replay& replay = find_recording(name);
    EXPECT_FALSE(replay.recording().matrices.empty()) << name;
    for (const MatrixSection& section : replay.recording().matrices) {
      const MatrixUnit& model = find_unit(section.unit);
      ASSERT_EQ(section.shape, shape_of(model));
      std::size_t differing = 0;
      for (std::size_t i = 0; i < section.cases.size(); ++i)
        differing += mma(model, section.cases.products(i), section.cases.c[i]) != section.answers[i];
      EXPECT_EQ(differing, 0u) << name << ' ' << section.unit << ' ' << section.source << ", of "
                               << section.cases.size();
      EXPECT_GE(section.cases.size(), 200u);
    }
  }
}

// A recording that says otherwise is not believed blindly: this test's own means would see it.
TEST(Recordings, ADeviceThatRoundsOtherwiseIsSeen) {
  Recording recording = small();
  for (TaskSection& s : recording.tasks) s.answers.front() ^= 1;
  const Replay replay("wrong", recording);
  for (const TaskSection& s : replay.recording().tasks)
    EXPECT_EQ(compare(replay.device(), s.task, s.operands.view()).differing != 0, true) << s.task.description();
}

// Replay.

TEST(Replays, AnswerWhatWasAskedAndNothingElse) {
  const Replay replay("toy", small());
  const Device& device = replay.device();
  EXPECT_EQ(device.name(), "recorded:toy");
  EXPECT_EQ(device.independence(), "recorded");
  const Task add{Operation::add, fp16, fp16, {}};
  const std::vector<std::uint64_t> a{0x3c00, 0x3c00, 0x3c01}, b{0x1000, 0x1001, 0x1001};
  const TaskComparison some = compare(device, add, {a, b, {}});
  EXPECT_EQ(some.compared, 2u);
  EXPECT_EQ(some.unanswered, 1u);
  EXPECT_EQ(some.differing, 0u);
  EXPECT_EQ(some.task.rounding.nan, NanRule::propagate);
  const std::vector<std::uint64_t> unknown(5, 0x4000);
  const TaskComparison none = compare(device, add, {unknown, unknown, {}});
  EXPECT_EQ(none.skipped, "none of the 5 operands are recorded");
  EXPECT_EQ(none.compared, 0u);
  const TaskComparison other = compare(device, {Operation::sub, fp16, fp16, {}}, {a, b, {}});
  EXPECT_EQ(other.skipped, "the recording does not have this task");
}

TEST(Replays, TasksThatCannotDifferAreOne) {
  const Replay replay("toy", small());
  Task lt{Operation::lt, bf16, bf16, {}};
  lt.rounding.mode = RoundingMode::toward_zero;
  EXPECT_TRUE(replay.device().supports(lt).yes);
  Task narrowing{Operation::convert, fp32, bf16, {}};
  EXPECT_TRUE(replay.device().supports(narrowing).yes);
  narrowing.rounding.mode = RoundingMode::toward_zero;
  EXPECT_FALSE(replay.device().supports(narrowing).yes);
  Task widening{Operation::convert, fp16, fp32, {}};
  widening.rounding.mode = RoundingMode::to_odd;
  EXPECT_TRUE(same(canonical(widening), canonical({Operation::convert, fp16, fp32, {}})));
  widening.rounding.overflow = Overflow::saturate;  // an infinity becomes the largest number
  EXPECT_FALSE(same(canonical(widening), canonical({Operation::convert, fp16, fp32, {}})));
}

// What canonical() takes for one has one answer.
TEST(Replays, CanonicalTasksHaveTheSameAnswers) {
  for (const Task& task : suite_tasks()) {
    EXPECT_TRUE(same(task, canonical(task)));
    for (const auto& mode : rounding_modes) {
      Task other = task;
      other.rounding.mode = mode.value;
      if (mode.value == RoundingMode::stochastic || mode.value == task.rounding.mode ||
          !same(canonical(other), canonical(task)))
        continue;
      for (const TaskSource& source : task_sources()) {
        const OperandColumns x = source.operands ? source.operands(task) : OperandColumns{};
        const auto at = [](const std::vector<std::uint64_t>& column, std::size_t i) {
          return column.empty() ? 0 : column[i];
        };
        for (std::size_t i = 0; i < x.size(); i += 1 + x.size() / 100)
          ASSERT_EQ(evaluate(task, x.a[i], at(x.b, i), at(x.c, i)).code,
                    evaluate(other, x.a[i], at(x.b, i), at(x.c, i)).code)
              << other.description();
      }
    }
  }
}

TEST(Replays, MatrixDevicesAnswerWhatWasAsked) {
  const Replay replay("toy", small());
  const Device& device = replay.device();
  ASSERT_EQ(device.matrix_tasks().size(), 1u);
  const MatrixTask task = device.matrix_tasks()[0];
  EXPECT_EQ(matrix_name(device, task), "recorded:toy:hopper.mma.e4m3.fp32");
  MatrixCases cases = matrix_sources()[1].cases(task.shape);
  std::vector<std::uint64_t> d(cases.size()), model(cases.size());
  std::vector<char> known(cases.size());
  device.multiply(task, cases, d);
  device.answered(task, cases, known);
  emulated_device().multiply(task, cases, model);
  EXPECT_EQ(d, model);
  EXPECT_EQ(std::count(known.begin(), known.end(), 1), static_cast<std::ptrdiff_t>(cases.size()));
  cases.c[3] ^= 1;
  device.answered(task, cases, known);
  EXPECT_EQ(std::count(known.begin(), known.end(), 1), static_cast<std::ptrdiff_t>(cases.size()) - 1);
  EXPECT_EQ(known[3], 0);
  // Comparisons leave out what was not recorded, whatever the device gives for it.
  const Comparison found = compare(device, task, find_unit(task.unit), cases);
  EXPECT_EQ(found.compared, cases.size() - 1);
  EXPECT_EQ(found.unanswered, 1u);
  EXPECT_EQ(found.differing, 0u);
}

// Files.

TEST(RecordingFiles, ComeBackAsTheyWere) {
  const Recording before = small();
  const Folder folder;
  const Files files = to_files(before);
  write(folder.path, files);
  const Recording after = read_recording(folder.path);
  EXPECT_EQ(after.origin, before.origin);
  EXPECT_EQ(after.missing, before.missing);
  ASSERT_EQ(after.tasks.size(), before.tasks.size());
  for (std::size_t i = 0; i < after.tasks.size(); ++i) {
    EXPECT_TRUE(same(after.tasks[i].task, before.tasks[i].task));
    EXPECT_EQ(after.tasks[i].answers, before.tasks[i].answers);
    EXPECT_EQ(after.tasks[i].operands.a, before.tasks[i].operands.a);
    EXPECT_EQ(after.tasks[i].operands.b, before.tasks[i].operands.b);
    EXPECT_EQ(after.tasks[i].operands.c, before.tasks[i].operands.c);
    EXPECT_EQ(after.tasks[i].route, before.tasks[i].route);
  }
  ASSERT_EQ(after.matrices.size(), before.matrices.size());
  for (std::size_t i = 0; i < after.matrices.size(); ++i) {
    EXPECT_EQ(after.matrices[i].shape, before.matrices[i].shape);
    EXPECT_EQ(after.matrices[i].cases.a, before.matrices[i].cases.a);
    EXPECT_EQ(after.matrices[i].answers, before.matrices[i].answers);
  }
  const Files again = to_files(after);
  EXPECT_EQ(again.manifest, files.manifest);
  EXPECT_EQ(again.answers, files.answers);
}

TEST(RecordingFiles, AnyDamageIsFound) {
  const Folder folder;
  const Files files = to_files(small());
  const auto damaged = [&](const std::string& manifest, const std::string& answers) {
    write(folder.path, {manifest, answers});
    const std::string text = problem(folder.path);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    return text;
  };
  EXPECT_EQ(damaged(files.manifest, files.answers), "");
  for (std::size_t size :
       {std::size_t{0}, std::size_t{10}, std::size_t{32}, files.answers.size() / 2, files.answers.size() - 1})
    EXPECT_NE(damaged(files.manifest, files.answers.substr(0, size)).find("truncated"), std::string::npos) << size;
  EXPECT_NE(damaged(files.manifest, files.answers + "x").find("too long"), std::string::npos);
  // One bit anywhere.
  for (std::size_t i = 0; i < files.answers.size(); i += 1 + files.answers.size() / 200) {
    std::string answers = files.answers;
    answers[i] = static_cast<char>(answers[i] ^ 4);
    EXPECT_NE(damaged(files.manifest, answers), "") << i;
  }
  std::string corrupted = files.answers;
  corrupted[100] = static_cast<char>(corrupted[100] ^ 1);
  EXPECT_NE(damaged(files.manifest, corrupted).find("corrupted: its checksum"), std::string::npos);
  for (std::size_t i = 0; i < files.manifest.size(); i += 1 + files.manifest.size() / 400) {
    std::string manifest = files.manifest;
    manifest[i] = static_cast<char>(manifest[i] ^ 1);
    EXPECT_NE(damaged(manifest, files.answers), "") << i << ' ' << manifest.substr(i, 10);
  }
  for (std::size_t i = 0; i < files.manifest.size() - 2; i += 1 + files.manifest.size() / 50)
    EXPECT_NE(damaged(files.manifest.substr(0, i), files.answers), "") << i;
}

TEST(RecordingFiles, SayWhatIsWrong) {
  const Files files = to_files(small());
  const auto with = [&](const std::function<void(Json&)>& change) {
    const Folder folder;
    Json json = parse_json(files.manifest, "manifest");
    change(json);
    write(folder.path, {json.dump(1), files.answers});
    return problem(folder.path);
  };
  struct Case {
    const char* what;
    std::function<void(Json&)> change;
  };
  const std::vector<Case> cases{
      {"written by a newer halfulp; accepted: 1", [](Json& j) { j["version"] = 2; }},
      {"answers to suite version 7, whose operands this program does not make; accepted: 1",
       [](Json& j) { j["suite"] = 7; }},
      {"'kind' is 'halfulp ledger'; accepted: halfulp recording", [](Json& j) { j["kind"] = "halfulp ledger"; }},
      {"manifest.json: device is missing", [](Json& j) { j.erase("device"); }},
      {"manifest.json: date is 5; accepted: text in quotes", [](Json& j) { j["date"] = 5; }},
      {"answer_file_bytes is -1; accepted: an integer from 0 to", [](Json& j) { j["answer_file_bytes"] = -1; }},
      {"not the size of answers.bin", [](Json& j) { j["answer_file_bytes"] = 77; }},
      {"sections is {}; accepted: a list", [](Json& j) { j["sections"] = Json::object(); }},
      {"manifest.json: sections[1] is 3; accepted: an object", [](Json& j) { j["sections"][1] = 3; }},
      {"manifest.json: sections[1]: count is missing", [](Json& j) { j["sections"][1].erase("count"); }},
      {"does not fit answers.bin", [](Json& j) { j["sections"][1]["count"] = 4'000'000'000; }},
      {"does not fit answers.bin", [](Json& j) { j["sections"][2]["offset"] = 1; }},
      {"do not fill answers.bin", [](Json& j) { j["sections"].erase(j["sections"].size() - 1); }},
      {"unknown operation 'ad'; did you mean add?", [](Json& j) { j["sections"][1]["operation"] = "ad"; }},
      {"fp17", [](Json& j) { j["sections"][1]["from"] = "fp17"; }},
      {"only conversions have two types", [](Json& j) { j["sections"][1]["to"] = "bf16"; }},
      {"sections[1].round: unknown name 'nearest'", [](Json& j) { j["sections"][1]["round"] = "nearest"; }},
      {"sections[1].flush_inputs is 1; accepted: true or false", [](Json& j) { j["sections"][1]["flush_inputs"] = 1; }},
      {"sections[1]: unknown overflow 'wrap'; accepted: ieee, saturate",
       [](Json& j) { j["sections"][1]["overflow"] = "wrap"; }},
      {"'width' is not the width of these answers; accepted: 2", [](Json& j) { j["sections"][1]["width"] = 4; }},
      {"'source' is 'telepathy', which this program's suite does not have",
       [](Json& j) { j["sections"][1]["source"] = "telepathy"; }},
      {"sections[1].operands: no digest; accepted: 32 hexadecimal digits",
       [](Json& j) { j["sections"][1]["operands"] = "0"; }},
      {"the operands are not those of suite version 1",
       [](Json& j) { j["sections"][1]["operands"] = std::string(32, '0'); }},
      {"the operands are not those of suite version 1",
       [](Json& j) { j["sections"][7]["operands"] = std::string(32, '0'); }},
      {"the answers are not those of answers.bin", [](Json& j) { j["sections"][1]["answers"] = std::string(32, '0'); }},
      {"sections[7].k is 100000000; accepted", [](Json& j) { j["sections"][7]["k"] = 100'000'000; }},
      {"was changed after the recording", [](Json& j) { j["device"] = "a better device"; }},
      {"was changed after the recording", [](Json& j) { j["sections"][1]["nan"] = "cuda"; }},
  };
  for (const Case& c : cases) {
    const std::string text = with(c.change);
    EXPECT_NE(text.find(c.what), std::string::npos) << c.what << "\n  " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
  const Folder folder;
  EXPECT_NE(problem(folder.path).find("manifest.json is not there"), std::string::npos);
  write(folder.path / manifest_file, files.manifest);
  EXPECT_NE(problem(folder.path).find("answers.bin is not there"), std::string::npos);
  write(folder.path / manifest_file, "{\"kind\": ");
  EXPECT_NE(problem(folder.path).find("manifest.json: not JSON at line 1"), std::string::npos);
  write(folder.path / manifest_file, "{\"kind\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}");
  EXPECT_NE(problem(folder.path).find("manifest.json: nested deeper than 64 levels"), std::string::npos);
  EXPECT_NE(problem(folder.path / "nowhere").find("is no folder"), std::string::npos);
}

// The command line.

using tests::is_one_line, tests::run_halfulp;

TEST(RecordCommand, MakesWhatReplays) {
  const Folder folder;
  const std::string out = (folder.path / "here").string(), report = (folder.path / "report.json").string();
  if (!find_device("x86").available().yes) GTEST_SKIP() << find_device("x86").available().reason;
  const auto made = run_halfulp({"record", "--backend", "x86", "--out", out, "--quick"});
  ASSERT_EQ(made.status, 0) << made.err;
  const Recording recording = read_recording(out);
  EXPECT_EQ(recording.origin.backend, "x86");
  EXPECT_EQ(recording.origin.device, find_device("x86").description());
  // What cannot be recorded here is named.
  std::size_t absent = 0;
  for (const MatrixTask& task : find_device("x86").matrix_tasks()) absent += !task.here.yes;
  EXPECT_EQ(recording.missing.size(), absent);
  const Replay replay("here", recording);
  for (const TaskSection& s : replay.recording().tasks)
    EXPECT_EQ(compare(replay.device(), s.task, s.operands.view()).differing, 0u) << s.task.description();
  // A second one does not touch the first.
  const auto again = run_halfulp({"record", "--backend", "x86", "--out", out, "--quick"});
  EXPECT_EQ(again.status, 2);
  EXPECT_TRUE(is_one_line(again.err)) << again.err;
  EXPECT_NE(again.err.find("it is there already; accepted: a new folder"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), {}), 1);  // nothing half-written is left

  const auto run = run_halfulp({"run", "underflow", "--backend", "recorded:" + out, "--out", report});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("operands are not recorded"), std::string::npos) << run.out;
  EXPECT_EQ(run_halfulp({"validate", report}).status, 0);
  const Json json = read_json(report);
  std::uint64_t compared = 0, unanswered = 0;
  for (const Json& c : json["comparisons"]) {
    EXPECT_EQ(c["independence"], "recorded");
    if (!c["skipped"].is_null()) continue;
    compared += c["compared"].get<std::uint64_t>();
    unanswered += c.value("unanswered", std::uint64_t{0});
    EXPECT_EQ(c["differing"], 0);
  }
  EXPECT_GT(compared, 500u);
  EXPECT_GT(unanswered, 1000u);
  EXPECT_EQ(json["environment"]["backends"].back()["name"], "recorded:" + out);
}

TEST(RecordCommand, AnInterruptedOneLeavesNothing) {
  if (!find_device("x86").available().yes) GTEST_SKIP() << find_device("x86").available().reason;
  const Folder folder;
  const std::string out = folder.path / "here";
  // That it works shows in a folder beside the one asked for; interrupted at once, and in the middle of its seconds of
  // work.
  for (const int milliseconds : {0, 300}) {
    const auto working = [&] {
      if (fs::is_empty(folder.path)) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      return true;
    };
    const auto outcome = tests::run_interrupted(
        {HALFULP_COMMAND, "record", "--backend", "x86", "--out", out, "--quiet"}, working);
    EXPECT_FALSE(outcome.killed);
    EXPECT_EQ(outcome.status, 130);
    EXPECT_EQ(outcome.err, "halfulp: interrupted; the unfinished recording was not kept\n");
    EXPECT_TRUE(fs::is_empty(folder.path));
  }
}

TEST(RecordCommand, RefusesWhatIsNoDevice) {
  const Folder folder;
  const std::string out = (folder.path / "new").string();
  const auto refused = [&](std::vector<std::string> arguments, int status, const char* what) {
    const auto outcome = run_halfulp(std::move(arguments));
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_NE(outcome.err.find(what), std::string::npos) << outcome.err;
    EXPECT_TRUE(fs::is_empty(folder.path));
  };
  refused({"record", "--backend", "emulated", "--out", out}, 2, "accepted: x86, cuda");
  refused({"record", "--backend", "x87", "--out", out}, 2, "unknown backend 'x87'");
  refused({"record", "--backend", "x86", "--out", (folder.path / "no" / "such").string()}, 2,
          "cannot make a folder there");
  refused({"record", "--backend", "x86"}, 2, "--out");
  if (!find_device("cuda").available().yes)
    refused({"record", "--backend", "cuda", "--out", out}, 3, "backend 'cuda' is not here");
  refused({"run", "underflow", "--backend", "recorded:nobody", "--out", out}, 2, "unknown recording 'nobody'");
  refused({"run", "underflow", "--backend", "recorded:" + folder.path.string(), "--out", out}, 2,
          "manifest.json is not there");
}

}  // namespace recording_test
}  // namespace halfulp::recording
