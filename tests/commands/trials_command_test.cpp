// `halfulp trials`, `trial`, `store` and `run --store` as a user meets them: parts, keys, killed runs, errors.
#include "command.hpp"
#include "temporary_folder.hpp"

#include <halfulp/support/json.hpp>

#include <gtest/gtest.h>

#include <halfulp_test_paths.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace trials_command_test {

namespace fs = std::filesystem;
using namespace halfulp;
using halfulp::tests::Outcome;
using halfulp::tests::Program;
using Words = std::vector<std::string>;

class TrialsCommand : public ::testing::Test {
 protected:
  /// COMMAND accumulation, small enough for a second.
  static Words words(const std::string& command, Words more) {
    Words all{HALFULP_COMMAND,
              command,
              "accumulation",
              "--backend",
              "emulated",
              "--set",
              "formats=fp16",
              "--set",
              "lengths=16,64",
              "--set",
              "trials=2",
              "--set",
              "seeds=2",
              "--set",
              "harmonic_limit=600",
              "--set",
              "ones=300",
              "--set",
              "unit_lengths=64",
              "--set",
              "known_formats=fp16",
              "--set",
              "units=hopper.mma.fp16.fp32"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Outcome go(const Words& all) { return Program(all).wait(); }
  Outcome command(const std::string& name, Words more) const {
    more.insert(more.end(), {"--store", store});
    return go(words(name, std::move(more)));
  }
  static Outcome halfulp_says(Words more) {
    more.insert(more.begin(), HALFULP_COMMAND);
    return go(more);
  }
  /// What a report says, without where and when.
  Json report(const std::string& name) const {
    Json json = read_json(folder / name);
    json.erase("environment");
    return json;
  }
  std::vector<std::string> lines(const std::string& text) const {
    std::vector<std::string> all;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      all.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return all;
  }

  halfulp::tests::TemporaryFolder folder;
  std::string store = folder / "store";
};

TEST_F(TrialsCommand, PartsKeysAndTheRestMakeOneReport) {
  ASSERT_EQ(go(words("run", {"--quiet", "--out", folder / "plain.json"})).status, 0);
  const Outcome list = command("trials", {});
  ASSERT_EQ(list.status, 0) << list.err;
  const auto harmonic = lines(list.out);
  ASSERT_EQ(harmonic.size(), 9u);
  EXPECT_EQ(harmonic.back(), "0 trials are there, 8 missing; others may follow when these are there");
  EXPECT_TRUE(harmonic[0].starts_with("harmonic_series-1/")) << harmonic[0];
  EXPECT_TRUE(harmonic[0].ends_with("  fp16 nearest-even")) << harmonic[0];

  const std::string key = harmonic[3].substr(0, harmonic[3].find(' '));
  const Outcome one = command("trial", {key});
  EXPECT_EQ(one.out, "1 computed; 7 of 8 trials of harmonic_series-1 are not there yet\n") << one.err;
  EXPECT_EQ(lines(command("trials", {"--quiet"}).out).size(), 7u);
  for (const char* const part : {"3/3", "1/3"}) EXPECT_EQ(command("trial", {"--part", part, "--quiet"}).status, 0);
  const Json all = Json::parse(command("trials", {"--json", "--all"}).out);
  EXPECT_EQ(all["there"].get<int>() + all["missing"].get<int>(), 8);
  EXPECT_EQ(all["trials"][3]["key"], key);
  EXPECT_EQ(all["trials"][3]["there"], true);
  EXPECT_EQ(all["trials"][3]["item"]["format"], "fp16");

  ASSERT_EQ(command("run", {"--quiet", "--out", folder / "stored.json"}).status, 0);
  EXPECT_EQ(report("stored.json"), report("plain.json"));
  const Outcome none = command("trials", {});
  EXPECT_EQ(lines(none.out).size(), 1u);
  EXPECT_NE(none.out.find(" trials are there, 0 missing\n"), std::string::npos) << none.out;
  EXPECT_NE(command("trial", {}).out.find("0 computed; all are there"), std::string::npos);

  const Json record = Json::parse(halfulp_says({"store", store, "--show", key}).out);
  EXPECT_EQ(record["kind"], "harmonic_series");
  EXPECT_TRUE(record["made"].contains("cpu"));
  EXPECT_TRUE(record["made"].contains("revision"));
}

TEST_F(TrialsCommand, ProcessesShareTheWorkAndWaitForEachOther) {
  ASSERT_EQ(go(words("run", {"--quiet", "--out", folder / "plain.json"})).status, 0);
  ASSERT_EQ(::setenv("OMPI_COMM_WORLD_SIZE", "3", 1), 0);
  {
    std::vector<std::unique_ptr<Program>> ranks;
    for (const char* const rank : {"0", "1", "2"}) {
      ::setenv("OMPI_COMM_WORLD_RANK", rank, 1);
      ranks.push_back(std::make_unique<Program>(words("trial", {"--store", store, "--part", "auto", "--wait"})));
    }
    ::unsetenv("OMPI_COMM_WORLD_RANK"), ::unsetenv("OMPI_COMM_WORLD_SIZE");
    for (const auto& rank : ranks) {
      const Outcome end = rank->wait();
      EXPECT_EQ(end.status, 0) << end.err;
      EXPECT_NE(end.out.find("all are there"), std::string::npos) << end.out;
      EXPECT_NE(end.out, "0 computed; all are there\n");
    }
  }
  EXPECT_EQ(command("trials", {"--quiet"}).out, "");
  ASSERT_EQ(command("run", {"--quiet", "--out", folder / "stored.json"}).status, 0);
  EXPECT_EQ(report("stored.json"), report("plain.json"));
}

TEST_F(TrialsCommand, KilledRunsGoOn) {
  ASSERT_EQ(go(words("run", {"--quiet", "--out", folder / "plain.json"})).status, 0);
  for (const int milliseconds : {30, 60, 90, 120, 150, 50, 80, 110, 140, 100}) {
    Program run(words("run", {"--quiet", "--out", folder / "killed.json", "--store", store}));
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    run.send(SIGKILL);
    run.wait();
  }
  ASSERT_EQ(command("run", {"--quiet", "--out", folder / "stored.json"}).status, 0);
  EXPECT_EQ(report("stored.json"), report("plain.json"));
  const Outcome check = halfulp_says({"store", store, "--check"});
  EXPECT_EQ(check.status, 0) << check.out << check.err;
  EXPECT_NE(check.out.find("records are whole"), std::string::npos);
}

TEST_F(TrialsCommand, DamageIsFoundSaidAndMended) {
  ASSERT_EQ(command("run", {"--quiet", "--out", folder / "first.json"}).status, 0);
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(store))
    if (entry.path().extension() == ".trial") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_GT(files.size(), 4u);
  fs::resize_file(files[0], fs::file_size(files[0]) / 2);
  {
    std::fstream file(files[1], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(40);
    file.put('\x01');
  }
  const Outcome check = halfulp_says({"store", store, "--check"});
  EXPECT_EQ(check.status, 1);
  EXPECT_NE(check.out.find(files[0].string() + ": truncated"), std::string::npos) << check.out;
  EXPECT_NE(check.out.find(files[1].string() + ": corrupted"), std::string::npos) << check.out;
  const Outcome again = command("run", {"--quiet", "--out", folder / "again.json"});
  EXPECT_EQ(again.status, 0);
  EXPECT_EQ(lines(again.err).size(), 2u) << again.err;
  EXPECT_EQ(report("again.json"), report("first.json"));
  EXPECT_EQ(halfulp_says({"store", store, "--check"}).status, 0);

  fs::resize_file(files[0], 3);
  const std::string digits(30, 'a');
  const fs::path left = files[2].parent_path() / ("." + digits + ".trial.1-2.tmp"),
                 young = files[3].parent_path() / ("." + digits + ".trial.1-3.tmp");
  std::ofstream(left) << "x";
  std::ofstream(young) << "x";
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(2));
  const Json pruned = Json::parse(halfulp_says({"store", store, "--prune", "--json"}).out);
  EXPECT_EQ(pruned["removed"], (Json{files[0].string(), left.string()}));
  EXPECT_FALSE(fs::exists(files[0]));
  EXPECT_TRUE(fs::exists(young));
  const Outcome removed = halfulp_says({"store", store, "--remove", "ones-1"});
  EXPECT_EQ(removed.status, 0) << removed.err;
  EXPECT_EQ(removed.out.find("ones-1"), std::string::npos) << removed.out;
  EXPECT_EQ(halfulp_says({"store", store, "--remove", "ones-1"}).status, 2);
}

TEST_F(TrialsCommand, AnExperimentWithoutTrialsSaysSo) {
  for (const char* const name : {"trial", "trials"})
    EXPECT_EQ(halfulp_says({name, "memory", "--store", store}).out, "memory has no trials: a run computes it whole\n");
}

TEST_F(TrialsCommand, ArraysOfJobsNumberThemselves) {
  const auto part = [&](const char* id, const char* count, const char* least, const char* step) {
    const std::pair<const char*, const char*> all[] = {
        {"SLURM_ARRAY_TASK_ID", id},     {"SLURM_ARRAY_TASK_COUNT", count},
        {"SLURM_ARRAY_TASK_MIN", least}, {"SLURM_ARRAY_TASK_STEP", step},
        {"SLURM_PROCID", "0"},           {"SLURM_NTASKS", "1"}};
    for (const auto& [name, value] : all) ::setenv(name, value, 1);
    Outcome end = command("trial", {"--part", "auto"});
    for (const auto& [name, value] : all) ::unsetenv(name);
    return end;
  };
  // The first stage has 8 trials: of 1-8 step 2, part 3 has the third and the seventh.
  EXPECT_EQ(part("5", "4", "1", "2").out, "2 computed; 6 of 8 trials of harmonic_series-1 are not there yet\n");
  EXPECT_EQ(part("3", "8", "3", "1").out, "1 computed; 5 of 8 trials of harmonic_series-1 are not there yet\n");
  for (const Outcome& end : {part("9", "4", "1", "2"), part("4", "4", "1", "2"), part("x", "4", "1", "1")}) {
    EXPECT_EQ(end.status, 2);
    EXPECT_NE(end.err.find("is no part by SLURM_ARRAY_TASK_COUNT"), std::string::npos) << end.err;
  }
}

TEST_F(TrialsCommand, RefusesInOneLine) {
  std::ofstream(folder / "file") << "x";
  fs::create_directory(folder / "full");
  std::ofstream(folder / "full" / "x") << "x";
  const struct {
    Words words;
    std::string says;
  } cases[] = {
      {words("trial", {"--store", store, "--part", "0/3"}), "--part I/N: I is '0'; accepted: an integer from 1 to 3"},
      {words("trial", {"--store", store, "--part", "4/3"}), "accepted: an integer from 1 to 3"},
      {words("trial", {"--store", store, "--part", "x"}), "--part is x; accepted: I/N, such as 3/7, or auto"},
      {words("trial", {"--store", store, "--part", "auto"}), "--part auto: the environment does not say which part"},
      {words("trial", {"--store", store, "--part", "1/2", "ones-1/00"}), "accepted: one of the two"},
      {words("trial", {"--store", store, "--part", ""}), "--part is empty"},
      {words("trial", {"--store", store, "harmonic_series-1/0123456789abcdef0123456789abcdef"}),
       "no trial of this accumulation"},
      {{HALFULP_COMMAND, "store", store, "--show", "x", "--check"}, "accepted: without another option"},
      {words("trial", {"--store", store, "ones-1/00"}), "ones-1/00 is no key of a trial"},
      {words("trial", {}), "--store"},
      {words("run", {"--store", folder / "file"}), "is no folder; accepted: a store"},
      {words("run", {"--store", folder / "full"}), "no store of trials"},
      {words("run", {"--store", ""}), "the name of a store is empty"},
      {{HALFULP_COMMAND, "store", folder / "full"}, "no store of trials"},
      {{HALFULP_COMMAND, "store", folder / "absent"}, "there is no such folder"},
      {{HALFULP_COMMAND, "trial", "acumulation", "--store", store}, "did you mean accumulation"},
      {{HALFULP_COMMAND, "trials", "training", "--store", store, "--set", "sedes=3"}, "did you mean seeds"},
  };
  for (const auto& [all, says] : cases) {
    const Outcome end = go(all);
    EXPECT_EQ(end.status, 2) << says;
    EXPECT_EQ(lines(end.err).size(), 1u) << end.err;
    EXPECT_NE(end.err.find(says), std::string::npos) << end.err;
  }
}

}  // namespace trials_command_test
