// The committed ledger: a slice of every entry is computed again, so that no result it vouches for changes unnoticed.
#include <halfulp/commands/verification.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <halfulp_test_paths.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <sys/wait.h>
#include <unistd.h>

namespace ledger_test {

using namespace halfulp;
using namespace halfulp::cli;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool slow = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool slow = true;
#else
constexpr bool slow = false;
#endif
#else
constexpr bool slow = false;
#endif

std::vector<Json> committed() {
  std::vector<Json> entries;
  for (const auto& file : std::filesystem::directory_iterator(HALFULP_LEDGER)) {
    if (file.path().extension() != ".json") continue;
    for (const Json& entry : read_ledger(file.path())) entries.push_back(entry);
  }
  return entries;
}

TEST(Ledger, EntriesAreWhatThisProgramComputes) {
  const std::size_t chunks = slow ? 1 : std::getenv("HALFULP_EXHAUSTIVE") ? SIZE_MAX : 4;
  const std::vector<Json> entries = committed();
  EXPECT_FALSE(entries.empty());
  for (const Json& entry : entries) {
    EXPECT_TRUE(entry.at("differing") == 0 || entry.contains("approximate")) << entry.at("task").dump();
    EXPECT_EQ(entry.at("compared"), entry.at("inputs").at("count")) << entry.at("task").dump();
    for (const std::string& line : recheck(entry, chunks)) ADD_FAILURE() << line;
  }
}

/// What was verified, whatever this machine's instruction set is called.
std::string without_instruction_set(std::string text) {
  for (std::size_t at = 0; (at = text.find('(', at)) != std::string::npos; ++at)
    if (const std::size_t end = text.find(')', at); text.compare(at, end - at, "(scalar") != 0)
      text.replace(at + 1, end - at - 1, "vectors");
  return text;
}

TEST(Ledger, EntriesSayWhichPathWasVerified) {
  for (const Json& entry : committed())
    EXPECT_EQ(without_instruction_set(entry.at("verified")),
              without_instruction_set(verify::verified_functions(
                  verify::find_reference_device(entry.at("against").at("reference").get<std::string>()),
                  task_from_json(entry.at("task")))))
        << entry.at("task").dump();
}

/// Conversions of all floats are there in every deterministic mode; saturating too where that is the usual way.
TEST(Ledger, NoModeOfTheConversionsOfFloatsIsMissing) {
  std::map<std::string, std::set<std::string>> modes;
  for (const Json& entry : committed()) {
    const Json& task = entry.at("task");
    if (task.at("operation") == "convert" && task.at("from") == "fp32" &&
        entry.at("against").at("reference") == "oracle")
      modes[task.at("to").get<std::string>() + " " + task.at("overflow").get<std::string>()].insert(
          task.at("round").get<std::string>());
  }
  for (const NamedFormat& row : catalogue())
    if (row.format.storage_bits() <= 16) {
      EXPECT_EQ(modes[std::string(row.name) + " ieee"].size(), rounding_modes.size() - 1) << row.name;
    }
  for (const char* usual : {"e4m3 saturate", "e5m2 saturate"})
    EXPECT_EQ(modes[usual].size(), rounding_modes.size() - 1) << usual;
}

Verification verified(Operation operation, const FloatFormat& f) {
  Verification v;
  v.task = {operation, f, f, {}};
  v.operands = all_operands(v.task);
  v.reference = &verify::oracle_device();
  const auto reference = verify::make_reference(*v.reference, v.task, v.operands);
  for (std::uint64_t i = 0; i < verify::number_of_chunks(v.operands); ++i)
    v.chunks.emplace(i, verify::verify_chunk(v.task, v.operands, reference.get(), i));
  return v;
}

TEST(Ledger, ARecheckSeesADigestThatIsWrong) {
  const Json entry = entry_of(verified(Operation::add, e4m3));
  EXPECT_TRUE(recheck(entry, 4).empty());
  Json chunk = entry;
  chunk["chunks"][0] = hex_word(parse_hex_word(chunk["chunks"][0]) ^ 1);
  EXPECT_EQ(recheck(chunk, 4).size(), 2u);  // the chunk, and the digest of the chunks
  Json whole = entry;
  whole["digest"] = std::string(32, '0');
  EXPECT_EQ(recheck(whole, 4).size(), 1u);
  Json other = entry;
  other["task"]["round"] = "toward-zero";
  EXPECT_EQ(recheck(other, 4).size(), 1u);
  for (Json* committed_chunk : {&chunk, &other})
    EXPECT_NE(recheck(*committed_chunk, 4)[0].find("chunk 0"), std::string::npos);
}

TEST(Ledger, UnreadableEntriesAreRefused) {
  const Json entry = entry_of(verified(Operation::add, e2m1));
  for (const auto& pointer :
       {"/task/round", "/task/from", "/inputs/count", "/inputs/kind", "/chunk_stride", "/chunks", "/digest"}) {
    Json broken = entry;
    broken[Json::json_pointer(pointer)] = Json(nullptr);
    EXPECT_THROW(
        {
          if (!recheck(broken, 4).empty()) throw std::invalid_argument("differs");
        },
        std::invalid_argument)
        << pointer;
  }
}

TEST(Ledger, EntersReplacesAndContradicts) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / ("ledger_test_" + std::to_string(::getpid()))).string();
  Json entry = entry_of(verified(Operation::add, e2m1));
  EXPECT_TRUE(enter(path, entry).empty());
  EXPECT_TRUE(enter(path, entry).empty());
  EXPECT_EQ(read_ledger(path).size(), 1u);  // the same task, reference, inputs and machine
  entry["machine"] = "another";
  EXPECT_TRUE(enter(path, entry).empty());
  EXPECT_EQ(read_ledger(path).size(), 2u);
  entry["machine"] = "a third";
  entry["digest"] = std::string(32, '0');
  EXPECT_EQ(enter(path, entry).size(), 2u);
  std::ofstream(path) << "{\"kind\": \"something else\"}";
  EXPECT_THROW(enter(path, entry), std::invalid_argument);
  std::filesystem::remove(path);
}

TEST(Ledger, NothingIsLostWhereSeveralRunsEnter) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / ("ledger_test_" + std::to_string(::getpid()))).string();
  const Json entry = entry_of(verified(Operation::add, e2m1));
  constexpr int runs = 8, entries = 10;
  for (int run = 0; run < runs; ++run)
    if (::fork() == 0) {
      Json mine = entry;
      for (int i = 0; i < entries; ++i) {
        mine["machine"] = std::to_string(run) + "." + std::to_string(i);
        enter(path, mine);
      }
      ::_exit(0);
    }
  for (int run = 0; run < runs; ++run) ::wait(nullptr);
  EXPECT_EQ(read_ledger(path).size(), static_cast<std::size_t>(runs * entries));
  std::filesystem::remove(path);
}

}  // namespace ledger_test
