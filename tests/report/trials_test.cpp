// Trials and their store: what is computed, what is read, and what a damaged file does.
#include "temporary_folder.hpp"

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/files.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>
#include <set>

namespace trials_test {

namespace fs = std::filesystem;
using namespace halfulp;

constexpr TrialKind squares{"squares", 3};

struct Square {
  std::uint64_t x = 0;
  double root = 0, special = 0;
  bool operator==(const Square&) const = default;
};
template <class V>
void fields(V& v, Square& s) {
  v("x", s.x);
  v("root", s.root);
  v("special", s.special);
}

/// Runs a stage of `count` trials, of which two neighbours in ten are the same, against a store or none.
class Squares {
 public:
  std::set<std::size_t> computed;  ///< places
  std::vector<Square> results;
  Trace trace{150};

  void go(std::size_t count, const TrialSource* source) {
    Config config({});
    Report report("squares", "", config);
    Run run{report, trace, [](double) {}};
    run.source = source;
    std::vector<Trial> of;
    for (std::size_t i = 0; i < count; ++i) of.push_back({"square", {{"n", i % 10 == 9 ? i - 1 : i}}});
    std::mutex mutex;
    results = trials<Square>(run, squares, of, 0, 1, [&](std::size_t i, Trace& operands) {
      const std::lock_guard lock(mutex);
      computed.insert(i);
      const std::size_t n = i % 10 == 9 ? i - 1 : i;
      Arithmetic arithmetic(n % 2 ? fp16 : bf16, {}, &operands);
      for (std::size_t k = 0; k < n; ++k) arithmetic.add(n, k);
      if (n == fails) throw std::invalid_argument("n is bad");
      return Square{n, std::sqrt(static_cast<double>(n)), n % 3 ? -0.0 : std::numeric_limits<double>::infinity()};
    });
  }
  std::size_t fails = 1000;
};

bool same(const Trace& a, const Trace& b) {
  return std::equal(a.channels().begin(), a.channels().end(), b.channels().begin(), b.channels().end(),
                    [](const Channel& x, const Channel& y) {
                      return x.task.description() == y.task.description() && x.a == y.a && x.b == y.b && x.c == y.c;
                    });
}

class Trials : public ::testing::Test {
 protected:
  Trials() {
    store.damaged = [this](const std::string& line) { damaged.push_back(line); };
    source.store = &store;
    plain.go(40, nullptr);
  }
  std::string file(std::size_t n) const {
    const std::string key = Trial{"", {{"n", n}}}.key(squares);
    for (const TrialStore::Entry& entry : store.entries())
      if (entry.key == key) return entry.path;
    return {};
  }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  halfulp::tests::TemporaryFolder folder;
  TrialStore store{folder / "store", TrialStore::IfAbsent::make};
  TrialSource source;
  std::vector<std::string> damaged;
  Squares plain;
};

TEST_F(Trials, WithAStoreTheyAreTheSameAndComputedOnce) {
  Squares first, second, more;
  first.go(40, &source);
  EXPECT_EQ(first.results, plain.results);
  EXPECT_TRUE(same(first.trace, plain.trace));
  EXPECT_EQ(plain.computed.size(), 40u);
  EXPECT_EQ(first.computed.size(), 36u) << "those that are there twice are computed once";
  second.go(40, &source);
  EXPECT_EQ(second.results, plain.results);
  EXPECT_TRUE(std::signbit(second.results[1].special));
  EXPECT_TRUE(same(second.trace, plain.trace));
  EXPECT_TRUE(second.computed.empty());
  more.go(45, &source);
  EXPECT_EQ(more.computed, (std::set<std::size_t>{40, 41, 42, 43, 44}));
  EXPECT_TRUE(damaged.empty());
}

TEST_F(Trials, OperandsAreKeptOnlyOfTrialsWhoseOperandsARunTakes) {
  Squares first;
  tbb::task_arena(1).execute([&] { first.go(40, &source); });  // many at once keep some in vain
  std::size_t operands = 0;
  for (const TrialStore::Entry& entry : store.entries()) operands += entry.key.starts_with("squares_operands-3/");
  // 150 of each format: of the even ones 0 + 2 + ... + 24 = 156; their channel is new with 2.
  std::set<std::size_t> needed;
  std::size_t even = 0, odd = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    const std::size_t n = i % 10 == 9 ? i - 1 : i;
    std::size_t& have = n % 2 ? odd : even;
    if (n > 0 && have < 150) needed.insert(n), have += n;
  }
  EXPECT_GE(operands, needed.size());
  EXPECT_LT(operands, 33u) << "of 36 with operands";
  for (const Channel& channel : first.trace.channels()) EXPECT_EQ(channel.a.size(), 150u);
}

TEST_F(Trials, PartsInAnyOrderMakeTheSameStore) {
  for (const std::size_t part : {2, 0, 1}) {
    Squares some;
    TrialSource partly = source;
    partly.computes = [&](const std::string&, std::size_t place) { return place % 3 == part; };
    if (part != 1) EXPECT_THROW(some.go(40, &partly), TrialsMissing);
    else {
      // The last part ends the stage; of operands it computes its own, as the others would.
      try {
        some.go(40, &partly);
      } catch (const TrialsMissing&) {}
    }
    EXPECT_LE(some.computed.size(), 24u);
  }
  Squares all;
  all.go(40, &source);
  EXPECT_EQ(all.results, plain.results);
  EXPECT_TRUE(same(all.trace, plain.trace));
}

TEST_F(Trials, AreListedWithoutBeingComputed) {
  Squares list;
  std::vector<bool> there;
  source.computes = [](const std::string&, std::size_t) { return false; };
  source.seen = [&](const std::string& key, const Trial&, bool is_there) {
    EXPECT_TRUE(key.starts_with("squares-3/"));
    there.push_back(is_there);
  };
  try {
    list.go(40, &source);
    FAIL() << "nothing is there";
  } catch (const TrialsMissing& missing) {
    EXPECT_EQ(missing.missing, 36u);
    EXPECT_STREQ(missing.what(), "36 of 36 trials of squares-3 are not there yet");
  }
  EXPECT_EQ(there, std::vector<bool>(36, false));
  EXPECT_TRUE(list.computed.empty());
}

TEST_F(Trials, DamagedRecordsAreSaidAndComputedAgain) {
  Squares first;
  first.go(40, &source);
  const std::string whole = content(file(7));
  const auto expect_again = [&](const std::string& bytes, const std::string& why, std::size_t n = 7) {
    std::ofstream(file(n), std::ios::binary) << bytes;
    damaged.clear();
    Squares again;
    again.go(40, &source);
    EXPECT_EQ(again.computed, (std::set<std::size_t>{n})) << why;
    EXPECT_EQ(again.results, plain.results) << why;
    ASSERT_EQ(damaged.size(), 1u) << why;
    EXPECT_NE(damaged[0].find(why), std::string::npos) << damaged[0];
    EXPECT_EQ(content(file(7)), whole) << "the same bytes again";
  };
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 1;
  expect_again(flipped, "corrupted");
  expect_again(whole.substr(0, whole.size() - 5), "truncated");
  expect_again("", "truncated");
  expect_again(content(file(6)), "another trial than its name says");
  // Whole, but not what this stage writes.
  store.keep(squares, {"", {{"n", 7}}}, {{"result", {1, 2}}, {"operands", {{"channels", Json::array()}}}});
  expect_again(content(file(7)), "values");
}

TEST_F(Trials, OtherVersionsAndItemsAreOtherTrials) {
  const Trial trial{"label", {{"n", 1}}};
  EXPECT_EQ(trial.key(squares), (Trial{"other", {{"n", 1}}}.key(squares)));
  EXPECT_NE(trial.key(squares), (Trial{"label", {{"n", 2}}}.key(squares)));
  const std::string digits = trial.key(squares).substr(10), newer = trial.key({"squares", 4}).substr(10);
  EXPECT_NE(digits, newer) << "a file renamed to another version would be taken for it";
  store.keep(squares, trial, 5);
  EXPECT_EQ(store.find(squares, trial), Json(5));
  EXPECT_EQ(store.find({"squares", 4}, trial), std::nullopt);
  EXPECT_NE(trial.key(squares), trial.key({"square", 3}));
}

TEST_F(Trials, AFailureEndsTheStageWithItsLabel) {
  for (const bool stored : {false, true}) {
    Squares bad;
    bad.fails = 13;
    try {
      bad.go(40, stored ? &source : nullptr);
      FAIL();
    } catch (const std::invalid_argument& error) { EXPECT_STREQ(error.what(), "square: n is bad"); }
    EXPECT_TRUE(file(13).empty());
  }
}

TEST_F(Trials, StoresMergeByCopying) {
  TrialStore other(folder / "other", TrialStore::IfAbsent::make);
  TrialSource half = source;
  half.computes = [](const std::string&, std::size_t place) { return place % 2 == 0; };
  Squares some, rest;
  EXPECT_THROW(some.go(40, &half), TrialsMissing);
  half.store = &other;
  half.computes = [](const std::string&, std::size_t place) { return place % 2 == 1; };
  EXPECT_THROW(rest.go(40, &half), TrialsMissing);
  fs::copy(folder / "other", folder / "store", fs::copy_options::recursive | fs::copy_options::skip_existing);
  std::size_t missing = 0;
  source.seen = [&](const std::string& key, const Trial&, bool there) {
    missing += !there && key.starts_with("squares-3/");
  };
  Squares all;
  all.go(40, &source);
  EXPECT_EQ(missing, 0u);
  EXPECT_EQ(all.results, plain.results);
}

TEST_F(Trials, WhatAKilledRunLeavesIsNoRecord) {
  Squares first;
  first.go(5, &source);
  const std::size_t records = store.entries().size();
  std::ofstream(fs::path(file(1)).parent_path() / ("." + std::string(30, 'a') + ".trial.17-0000.tmp")) << "half";
  EXPECT_EQ(store.entries().size(), records);
  ASSERT_EQ(store.left_behind().size(), 1u);
  EXPECT_TRUE(damaged.empty());
}

TEST_F(Trials, WhatIsNotTheStoresIsNeverLookedAt) {
  Squares first;
  first.go(5, &source);
  const std::size_t records = store.entries().size();
  const fs::path root = store.folder(), digits = std::string(30, 'b');
  fs::create_directories(folder / "other" / "squares-3" / "aa");
  std::ofstream(folder / "other" / "squares-3" / "aa" / (digits.string() + ".trial")) << "x";
  fs::create_directory_symlink(folder / "other" / "squares-3", root / "squares-9");
  fs::create_directory_symlink(folder / "other" / "squares-3" / "aa", root / "squares-3" / "bb");
  for (const char* const name : {"notes", "squares-", "-3", "squares-3x"}) {
    fs::create_directories(root / name / "aa");
    std::ofstream(root / name / "aa" / (digits.string() + ".trial")) << "x";
    std::ofstream(root / name / "aa" / "todo.txt") << "x";
  }
  const fs::path part = fs::path(file(1)).parent_path();
  std::ofstream(part / "todo.txt") << "x";
  fs::create_directory(part / ("c" + std::string(29, 'c') + ".trial"));
  EXPECT_EQ(store.entries().size(), records);
  EXPECT_TRUE(store.left_behind().empty());
}

TEST_F(Trials, AListTellsWhatIsDamagedAndAPartMendsIt) {
  Squares first;
  first.go(10, &source);
  std::ofstream(file(2), std::ios::binary) << "x";
  TrialSource list = source;
  list.only_lists = true;
  std::size_t missing = 0;
  list.seen = [&](const std::string&, const Trial&, bool there) { missing += !there; };
  Squares none;
  EXPECT_THROW(none.go(10, &list), TrialsMissing);
  EXPECT_EQ(missing, 1u);
  EXPECT_TRUE(none.computed.empty());
  TrialSource waiting = source;
  waiting.waits = true;
  waiting.computes = [](const std::string&, std::size_t) { return false; };  // the others have finished
  Squares mended;
  mended.go(10, &waiting);
  EXPECT_EQ(mended.computed, (std::set<std::size_t>{2}));
  EXPECT_EQ(damaged.size(), 2u);
}

TEST_F(Trials, WhatIsNoFileIsRefusedAtOnce) {
  Squares first;
  first.go(5, &source);
  const std::string record = file(3);
  const auto refused = [&](const std::string& why) {
    Squares again;
    try {
      again.go(5, &source);
      ADD_FAILURE() << why;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(record), std::string::npos) << error.what();
    }
    ASSERT_EQ(damaged.size(), 1u) << why;
    EXPECT_NE(damaged[0].find("is no file"), std::string::npos) << damaged[0];
    fs::remove(record);
    damaged.clear();
  };
  fs::remove(record);
  ASSERT_EQ(::mkfifo(record.c_str(), 0600), 0);
  refused("a pipe, which nobody writes or reads");
  fs::create_directory(record);
  refused("a folder");
}

TEST_F(Trials, AStoreThatVanishesIsMadeAgain) {
  Squares first, again;
  first.go(5, &source);
  fs::remove_all(store.folder());
  again.go(5, &source);
  EXPECT_EQ(again.results, first.results);
  EXPECT_EQ(TrialStore(store.folder(), TrialStore::IfAbsent::refuse).entries().size(), store.entries().size());
}

TEST_F(Trials, OnlyStoresAreOpened) {
  const auto refused = [&](const fs::path& path, TrialStore::IfAbsent if_absent) -> std::string {
    try {
      TrialStore opened(path.string(), if_absent);
      return "";
    } catch (const std::invalid_argument& error) { return error.what(); }
  };
  using enum TrialStore::IfAbsent;
  const fs::path full = folder / "full", file = folder / "file", newer = folder / "newer";
  fs::create_directory(full);
  std::ofstream(full / "thesis.tex") << "x";
  std::ofstream(folder / "file") << "x";
  fs::create_directory(newer);
  std::ofstream(newer / "halfulp-store.json") << R"({"format": "halfulp-store", "version": 2})";
  EXPECT_NE(refused(full, make).find("no store of trials"), std::string::npos);
  EXPECT_NE(refused(file, make).find("is no folder"), std::string::npos);
  EXPECT_NE(refused(newer, make).find("a store of version 2; accepted: version 1"), std::string::npos);
  EXPECT_NE(refused(folder / "absent", refuse).find("no such folder"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "absent"));
  EXPECT_EQ(refused(folder / "a" / "b", make), "");
  EXPECT_FALSE(fs::exists(folder / "a")) << "made with the first record";
  EXPECT_NE(refused(folder / "a" / "b", refuse).find("no such folder"), std::string::npos);
  EXPECT_EQ(refused(folder / "a" / "b", read), "");
  TrialStore(folder / "a" / "b", make).keep(squares, {"", 1}, 2);
  EXPECT_EQ(refused(folder / "a" / "b", refuse), "");
  for (const char* const text : {"{", "3", R"({"format": 3})"}) {
    std::ofstream(folder / "a" / "b" / "halfulp-store.json") << text;
    EXPECT_NE(refused(folder / "a" / "b", make).find("is not that of a store"), std::string::npos);
  }
  std::ofstream(folder / "a" / "b" / "halfulp-store.json") << "{";
  EXPECT_NE(refused(folder / "a" / "b", make).find("is not that of a store"), std::string::npos);
}

TEST(TraceJson, KeepsEveryRuleOfATask) {
  Trace trace(10);
  Rounding odd{RoundingMode::to_odd, Overflow::saturate, true, true, Tininess::before};
  odd.nan = NanRule::propagate;
  odd.integer_inexact = true;
  odd.int_overflow = IntOverflow::x86;
  trace.channel({Operation::add, fp16, fp16, odd}).record(1, 0xffff);
  trace.channel({Operation::convert, i32, e4m3, {}}).record(0x80000000);
  trace.channel({Operation::fma, fp64, fp64, {}}).record(~std::uint64_t{0}, 2, 3);
  const Trace back = trace_from_json(Json::parse(trace_to_json(trace).dump()), "here", 10);
  EXPECT_TRUE(same(trace, back));
  EXPECT_EQ(back.channels()[0].task.rounding, odd);
  EXPECT_EQ(back.channels()[1].task.from, NumberType(i32));
  EXPECT_THROW(trace_from_json(Json::parse(R"([{"task": 1}])"), "here", 10), std::invalid_argument);
}

}  // namespace trials_test
