// `halfulp verify` as a user runs it: state files, interruption, errors and output.
#include "check.hpp"
#include "command.hpp"
#include "temporary_folder.hpp"

#include <halfulp/support/files.hpp>
#include <halfulp/commands/verification.hpp>
#include <halfulp/evidence/devices.hpp>
#include <halfulp/support/json.hpp>

#include <halfulp_test_paths.hpp>

#include <filesystem>
#include <fstream>
#include <regex>

#include <sys/stat.h>

namespace verify_command_test {

using namespace halfulp;
using namespace halfulp::verify;
using halfulp::cli::Verification;
using halfulp::tests::expect_error;
using halfulp::tests::expect_refused;
using halfulp::tests::run_halfulp;
using halfulp::tests::run_interrupted;

// State.

struct File {
  std::string path =
      (std::filesystem::path(::testing::TempDir()) / ("verify_test_" + std::to_string(::getpid()))).string();
  ~File() { std::filesystem::remove(path); }
  std::string read() const {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const { std::ofstream(path) << text; }
};

TEST(VerifyState, KeepsWhatWasFound) {
  const Task task{Operation::convert, fp32, e4m3, {}};
  Verification v;
  v.task = task;
  v.operands = sampled_operands(task, 100'000, 1);
  v.reference = &oracle_device();
  v.seconds = 1.5;
  Verification fresh = v;
  const Mismatch code{{0x3f800000, 0, 0}, 1, 0x38, 0x39},
      flags{{0x3f800001, 0, 0}, 1, 0x38, 0x38, true, flag::inexact, 0};
  v.chunks[0] = {0, 0xfedc'ba98'7654'3210, {}};
  Comparison& found = v.chunks[0].found;
  found.compared = 100'000, found.differing = 2, found.farthest = 1;
  found.classes = {{"one-ulp", 1}, {"flags", 1}};
  found.witnesses = {code, flags};
  const File file;
  cli::save_state(file.path, {v});
  std::vector<Verification> loaded{fresh};
  cli::load_state(file.path, loaded);
  EXPECT_EQ(loaded[0].digest(), v.digest());
  EXPECT_EQ(loaded[0].found(), v.found());
  EXPECT_EQ(loaded[0].seconds, 1.5);
}

const std::vector<std::string> small_run{"verify", "add",      "--format", "fp16",   "--against",
                                         "oracle", "--sample", "20000",    "--quiet"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(VerifyState, RefusesWhatIsNotItsOwnAndLeavesItUntouched) {
  const File file;
  ASSERT_EQ(run_halfulp(with(small_run, {"--state", file.path})).status, 0);
  const std::string good = file.read();
  const auto expect_refused = [&](const std::string& text, const std::vector<std::string>& arguments,
                                  const std::string& needle) {
    file.write(text);
    const auto outcome = run_halfulp(with(arguments, {"--state", file.path}));
    expect_error(outcome, needle);
    EXPECT_EQ(file.read(), text);
  };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  expect_refused(good, with(small_run, {"--seed", "2"}), "another task");
  expect_refused(good, with(small_run, {"--round", "all"}), "another task");
  expect_refused(replaced("\"version\": 1", "\"version\": 2"), small_run, "newer");
  expect_refused(replaced("\"compared\": 20000", "\"compared\": 20001"), small_run, "damaged");
  expect_refused(good.substr(0, good.size() / 2), small_run, "line");
  expect_refused("{}", small_run, "no state file");
  expect_refused("[1, 2]", small_run, "no state file");
  expect_refused("", small_run, "");
  file.write(good);
  EXPECT_EQ(run_halfulp(with(small_run, {"--state", file.path})).status, 0);
}

/// The digest line of a command's output.
std::string digest_of(const std::string& out) { return out.substr(out.find("  digest ")); }

TEST(VerifyStore, PartsMakeOneVerification) {
  const halfulp::tests::TemporaryFolder folder;
  const std::string store = folder / "store";
  const std::vector<std::string> run{"verify", "mul",      "--format", "fp16",   "--against",
                                     "x86",    "--sample", "40000000", "--quiet"},
      stored = with(run, {"--store", store});
  const std::string whole = digest_of(run_halfulp(run).out);
  const auto second = run_halfulp(with(stored, {"--part", "2/2"}));
  EXPECT_EQ(second.status, 0);
  EXPECT_EQ(second.out, "mul fp16 nearest-even: 1 of 3 chunks are there\n");
  const auto json = Json::parse(run_halfulp(with(stored, {"--part", "2/2", "--json"})).out);
  EXPECT_TRUE(json["verifications"][0].contains("incomplete"));
  const auto first = run_halfulp(with(stored, {"--part", "1/2"}));
  EXPECT_EQ(digest_of(first.out), whole) << first.out << first.err;
  EXPECT_EQ(digest_of(run_halfulp(stored).out), whole);
  // Another task has other chunks.
  EXPECT_NE(digest_of(run_halfulp(with(stored, {"--seed", "2"})).out), whole);
  expect_error(run_halfulp(with(run, {"--part", "1/2"})), "--part needs --store");
  expect_error(run_halfulp(with(stored, {"--state", folder / "state"})), "accepted: one of them");
  expect_error(run_halfulp(with(stored, {"--part", "3/2"})), "from 1 to 2");
}

TEST(VerifyState, AnInterruptedRunGoesOnToTheSameDigest) {
  const std::vector<std::string> arguments{
      HALFULP_COMMAND, "verify",       "add",     "--format",  "e5m7", "--against",
      "oracle",        "--exhaustive", "--quiet", "--threads", "2"};  // four chunks
  const File file;
  std::vector<std::string> stateful = with(arguments, {"--state", file.path});
  // The run is interrupted once its first state file says that a chunk is done.
  const auto interrupted = run_interrupted(stateful, [&] { return std::filesystem::exists(file.path); });
  ASSERT_FALSE(interrupted.killed);
  ASSERT_EQ(interrupted.status, 130) << interrupted.err;
  const Json state = read_json(file.path);
  const std::size_t chunks = state.at("runs").at(0).at("chunks").size();
  EXPECT_GT(chunks, 0u);
  EXPECT_LT(chunks, 4u);
  const auto resumed = run_halfulp(with({stateful.begin() + 1, stateful.end()}, {}));
  const auto whole = run_halfulp(with({arguments.begin() + 1, arguments.end()}, {}));
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(digest_of(resumed.out), digest_of(whole.out));
}

/// A GPU's path with the emulation in its place: a device makes the chunks, and the run resumes.
TEST(VerifyState, OfADeviceIsResumed) {
  const std::vector<std::string> arguments{"verify", "convert", "--format", "fp16",         "--to",
                                           "bf16",   "--round", "all",      "--exhaustive", "--quiet"};
  const File file;
  const auto rehearsed = run_halfulp(with(arguments, {"--against", "rehearsal", "--state", file.path}));
  EXPECT_EQ(rehearsed.status, 0) << rehearsed.err;
  EXPECT_NE(
      rehearsed.out.find(
          "against rehearsal (emulation)\n  verified halfulp's functions on the device; reference: cvt.rn.bf16.f16\n"),
      std::string::npos)
      << rehearsed.out;
  EXPECT_NE(rehearsed.out.find("skipped: the device has it for"), std::string::npos);
  const auto again = run_halfulp(with(arguments, {"--against", "rehearsal", "--state", file.path}));
  const auto timeless = [](const std::string& text) {
    return std::regex_replace(text, std::regex("[0-9.]+ s, [0-9.]+ G/s"), "");
  };
  EXPECT_EQ(timeless(again.out), timeless(rehearsed.out));
  const auto host = run_halfulp(with(arguments, {"--against", "oracle"}));
  EXPECT_EQ(digest_of(rehearsed.out).substr(0, 42), digest_of(host.out).substr(0, 42))
      << "of nearest-even, on the device and on the host";
}

TEST(VerifyState, AMissingDeviceIsNoBadInput) {
  if (find_device("cuda").available().yes) GTEST_SKIP() << "there is one";
  const auto outcome = run_halfulp({"verify", "add", "--format", "fp16", "--against", "cuda"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.err, "halfulp: skipped: " + find_device("cuda").available().reason + "\n");
}

TEST(VerifyState, WhatTheFileSaysIsNotComputedAgain) {
  const std::vector<std::string> arguments{"verify", "add",      "--format", "fp16",   "--against",
                                           "oracle", "--sample", "1000",     "--quiet"};
  Verification v;
  v.task = {Operation::add, fp16, fp16, {}};
  v.operands = sampled_operands(v.task, 1000, 1);
  v.reference = &oracle_device();
  v.chunks[0].digest = 0x1234;
  v.chunks[0].found.compared = 1000;
  const File file;
  cli::save_state(file.path, {v});
  const auto resumed = run_halfulp(with(arguments, {"--state", file.path})), fresh = run_halfulp(arguments);
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(digest_of(resumed.out), "  digest " + v.digest() + "\n");
  EXPECT_NE(digest_of(resumed.out), digest_of(fresh.out));
}

TEST(VerifyState, IsOfOneRunAtATime) {
  const File file;
  ASSERT_EQ(run_halfulp(with(small_run, {"--state", file.path})).status, 0);
  const std::string before = file.read();
  const std::filesystem::path link = file.path + ".link";
  std::filesystem::create_symlink(file.path, link);
  {
    const cli::FileLock lock(file.path, cli::FileLock::IfTaken::refuse);
    for (const std::string& name : {file.path, link.string()}) {
      const auto second = run_halfulp(with(small_run, {"--state", name}));
      expect_error(second, "is in use by another run");
    }
  }
  std::filesystem::remove(link);
  EXPECT_EQ(file.read(), before);
  EXPECT_EQ(run_halfulp(with(small_run, {"--state", file.path})).status, 0);
  const std::filesystem::path path = file.path;
  EXPECT_FALSE(std::filesystem::exists(path.parent_path() / ("." + path.filename().string() + ".lock")));
}

TEST(VerifyLedger, EntriesOfNobodyAreRefusedBeforeTheWork) {
  for (const char* entry :
       {"5", "{}",
        R"({"task": 1, "inputs": 1, "date": 5, "machine": "m", "digest": "d", "against": {"reference": "oracle"}})",
        R"({"task": 1, "inputs": 1, "date": "d", "machine": "m", "digest": "d", "against": "oracle"})"}) {
    const File file;
    const std::string text = std::string(R"({"kind": "halfulp ledger", "version": 1, "entries": [)") + entry + "]}";
    std::ofstream(file.path) << text;
    const auto run = run_halfulp(with(small_run, {"--ledger", file.path}));
    expect_error(run, "entries[0]");
    EXPECT_EQ(file.read(), text);
  }
}

// JSON's numbers are not always counts: 1e300 is none, nor half an input.
TEST(VerifyState, CountsAreWholeNumbers) {
  const Task task{Operation::add, e4m3, e4m3, {}};
  Json inputs = cli::operands_to_json(all_operands(task));
  EXPECT_EQ(cli::operands_from_json(task, inputs).count, 65536u);
  for (const Json& count : {Json(1e300), Json(65536.5), Json(-65536), Json("65536")}) {
    inputs["count"] = count;
    EXPECT_THROW(cli::operands_from_json(task, inputs), std::invalid_argument) << count;
  }
}

TEST(VerifyState, IsARegularFile) {
  const File pipe;
  ASSERT_EQ(::mkfifo(pipe.path.c_str(), 0600), 0);
  for (const std::string& name : {pipe.path, std::string("/dev/full"), std::string("/dev/null")})
    for (const std::string option : {"--state", "--ledger"}) {
      const auto outcome = run_halfulp(with(small_run, {option, name}));
      EXPECT_EQ(outcome.status, 2) << option << name;
      EXPECT_EQ(outcome.err, "halfulp: " + option + ": '" + name +
                                 "' is a device or a pipe; accepted: a regular file, or the name of a new one\n");
      EXPECT_EQ(outcome.out, "");
    }
  const File file;
  std::filesystem::remove(pipe.path);
  const auto both = run_halfulp(with(
      small_run, {"--state", file.path, "--ledger",
                  std::filesystem::path(file.path).parent_path() / "." / std::filesystem::path(file.path).filename()}));
  EXPECT_EQ(both.status, 2);
  EXPECT_NE(both.err.find("accepted: two files"), std::string::npos) << both.err;
}

// The command.

TEST(VerifyCommand, RefusesBadUsageInOneLine) {
  struct Case {
    std::vector<std::string> arguments;
    int status;
    std::string needle;
  };
  const Case cases[] = {
      {{"ad", "--format", "fp16", "--against", "oracle"}, 2, "add"},
      {{"add", "--format", "fp61", "--against", "oracle"}, 2, "fp16"},
      {{"add", "--format", "i32", "--against", "oracle"}, 2, "i32"},
      {{"add", "--format", "fp16", "--against", "orcle"}, 2, "oracle"},
      {{"add", "--format", "fp16"}, 2, "--against"},
      {{"add", "--format", "fp16", "--against", "oracle", "--round", "nearest"}, 2, "nearest-even"},
      {{"add", "--format", "fp16", "--against", "oracle", "--round", "stochastic"}, 2, "stochastic"},
      {{"add", "--format", "fp16", "--against", "oracle", "--overflow", "wrap"}, 2, "saturate"},
      {{"add", "--format", "fp16", "--to", "bf16", "--against", "oracle"}, 2, "--to"},
      {{"convert", "--format", "fp16", "--against", "oracle"}, 2, "--to"},
      {{"convert", "--format", "fp16", "--to", "i32", "--against", "oracle"},
       2,
       "--to is 'i32', an integer type: verify takes floating-point formats only"},
      {{"convert", "--format", "u64", "--to", "fp16", "--against", "oracle"}, 2, "--format is 'u64', an integer type"},
      {{"add", "--format", "fp16", "--against", "recorded:h100"}, 2, "unknown recording 'h100'"},
      {{"add", "--format", "fp16", "--against", "recorded:amd-zen4", "--sample", "4"},
       2,
       "--against recorded:amd-zen4 compares on what that device was asked"},
      {{"exp", "--format", "e3m2", "--against", "recorded:amd-zen4"}, 3, "skipped: the recording does not have this"},
      {{"add", "--format", "fp16", "--against", "x68"},
       2,
       "did you mean x86? accepted: oracle, x86, cuda, third-party, recorded:NAME\n"},
      {{"add", "--format", "e8m0", "--against", "oracle"}, 2, "e8m0"},
      {{"add", "--format", "fp32", "--against", "x86", "--exhaustive"}, 2, "2^64"},
      {{"add", "--format", "fp16", "--against", "oracle", "--exhaustive", "--sample", "4"}, 2, "--sample"},
      {{"add", "--format", "fp16", "--against", "oracle", "--sample", "0"}, 2, "--sample"},
      {{"add", "--format", "e2m1", "--against", "oracle", "--store", "/tmp/same-one", "--ledger", "/tmp/same-one"},
       2,
       "--store and --ledger are both"},
      {{"fma", "--format", "e2m1", "--against", "oracle", "--addends", "4", "--seed", "5"}, 2, "--addends"},
      {{"add", "--format", "fp16", "--against", "oracle", "--addends", "4"}, 2, "are of fma in formats of 16 bits"},
      {{"fma", "--format", "fp32", "--against", "x86", "--addends", "4"}, 2, "not of fma fp32"},
      {{"fma", "--format", "e2m1", "--against", "oracle", "--addends", "99"}, 2, "boundary values; accepted: 1 to 16"},
      {{"fma", "--format", "fp16", "--against", "oracle", "--addends", "4", "--sample", "4"}, 2, "--sample"},
      {{"fma", "--format", "fp16", "--against", "oracle", "--addends", "4", "--exhaustive"}, 2, "--exhaustive"},
      {{"fma", "--format", "fp16", "--against", "recorded:amd-zen4", "--addends", "4"}, 2, "none of --exhaustive"},
      {{"add", "--format", "fp16", "--against", "oracle", "--state", "/nowhere/state.json"}, 2, "/nowhere"},
      {{"add", "--format", "fp16", "--against", "oracle", "--ledger", "/nowhere/ledger.json"}, 2, "/nowhere"},
      {{"add", "--format", "e4m3", "--against", "third-party"}, 3, "skipped: "},
      {{"add", "--format", "fp16", "--against", "x86", "--round", "to-odd"}, 3, "skipped: "},
  };
  for (const Case& c : cases) expect_refused(with({"verify"}, c.arguments), c.needle, c.status);
}

// A recording has its own operands; an entry of them can be recomputed from it.
TEST(VerifyCommand, ComparesWithRecordings) {
  const File ledger;
  const auto text = run_halfulp(
      {"verify", "add", "--format", "fp16", "--against", "recorded:amd-zen4", "--ledger", ledger.path});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("add fp16 nearest-even against recorded:amd-zen4 (recorded)"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("(all that it was asked), 0 differ"), std::string::npos) << text.out;
  const Json entry = parse_json(ledger.read(), ledger.path).at("entries").at(0);
  const auto& inputs = entry.at("inputs");
  EXPECT_EQ(inputs.at("kind"), "recorded");
  EXPECT_EQ(inputs.at("of"), "recorded:amd-zen4");
  EXPECT_EQ(inputs.at("count"), entry.at("compared"));
  EXPECT_GT(inputs.at("count"), 1000);
  EXPECT_NE(entry.at("against").at("device").get<std::string>().find("AMD"), std::string::npos);
  EXPECT_EQ(halfulp::cli::recheck(entry, 4), std::vector<std::string>{});
  Json wrong = entry;
  wrong["inputs"]["count"] = 7;
  EXPECT_THROW(halfulp::cli::recheck(wrong, 4), std::invalid_argument);

  // Modes that the device does not have are skipped.
  const auto all = run_halfulp({"verify", "convert", "--format", "fp32", "--to", "fp16", "--round", "all", "--against",
                                "recorded:intel-xeon-fp16-amx", "--json"});
  EXPECT_EQ(all.status, 0) << all.err;
  std::size_t compared = 0, skipped = 0;
  const Json answer = parse_json(all.out, "output");
  for (const Json& one : answer.at("verifications"))
    if (one.contains("skipped")) ++skipped;
    else if (one.at("differing") == 0 && one.at("compared") == one.at("inputs").at("count")) ++compared;
  EXPECT_EQ(compared, 4u);  // those of VCVTPS2PH
  EXPECT_EQ(skipped + compared, std::size(rounding_modes) - 1);
}

TEST(VerifyCommand, ComparesPairsWithChosenAddends) {
  const File ledger;
  const auto text = run_halfulp(
      {"verify", "fma", "--format", "e4m3", "--against", "oracle", "--addends", "16", "--ledger", ledger.path});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("compared 1048576 (all pairs with 16 addends), 0 differ"), std::string::npos) << text.out;
  const Json entry = parse_json(ledger.read(), ledger.path).at("entries").at(0);
  EXPECT_EQ(entry.at("inputs").at("kind"), "pairs");
  EXPECT_EQ(entry.at("inputs").at("addends").size(), 16u);
  EXPECT_EQ(halfulp::cli::recheck(entry, 4), std::vector<std::string>{});
  Json wrong = entry;
  wrong["inputs"]["addends"][3] = "0x30";
  EXPECT_FALSE(halfulp::cli::recheck(wrong, 4).empty());
  wrong["inputs"]["addends"].erase(3);
  EXPECT_THROW(halfulp::cli::recheck(wrong, 4), std::invalid_argument);
  const auto table = run_halfulp({"ledger", ledger.path});
  EXPECT_NE(table.out.find("2^20*"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("\n* every pair of the first two operands"), std::string::npos) << table.out;
}

TEST(VerifyCommand, SaysWhatWasCompared) {
  const auto text = run_halfulp({"verify", "mul", "--format", "e4m3", "--against", "oracle", "--round", "all"});
  EXPECT_EQ(text.status, 0) << text.err;
  for (const auto& mode : rounding_modes)
    EXPECT_EQ(text.out.find("mul e4m3 " + std::string(mode.name) + " against oracle") != std::string::npos,
              mode.value != RoundingMode::stochastic);
  EXPECT_NE(text.out.find("compared 65536 (all inputs), 0 differ"), std::string::npos);
  EXPECT_EQ(text.out.find("oracle (oracle)"), std::string::npos);
  const auto object = run_halfulp({"verify", "mul", "--format", "e4m3", "--against", "oracle", "--json"});
  const Json json = parse_json(object.out, "output");
  ASSERT_EQ(json.at("verifications").size(), 1u);
  const Json& entry = json.at("verifications").at(0);
  EXPECT_EQ(entry.at("compared"), 65536);
  EXPECT_EQ(entry.at("differing"), 0);
  EXPECT_EQ(entry.at("flags_compared"), true);
  EXPECT_EQ("  digest " + entry.at("digest").get<std::string>() + "\n",
            digest_of(text.out).substr(0, digest_of(text.out).find('\n') + 1));
}

TEST(VerifyCommand, SaysOfHowManyInputsNansAre) {
  if (!independent_x86_device().available().yes) GTEST_SKIP() << independent_x86_device().available().reason;
  const auto out = [](const char* sample) {
    return run_halfulp({"verify", "add", "--format", "fp16", "--against", "x86", "--sample", sample, "--quiet"}).out;
  };
  const std::string small = out("20000"), large = out("5000000");
  EXPECT_NE(small.find("against x86 (silicon)\n"), std::string::npos) << small;
  EXPECT_NE(small.find(" NaN results of the 20000 inputs 0 differ"), std::string::npos) << small;
  EXPECT_NE(large.find(" NaN results of a sample of 4194304 inputs 0 differ"), std::string::npos) << large;
}

}  // namespace verify_command_test
