// The checks of a device's sums and programs, on the rehearsal and on devices that err.
#include <halfulp/evidence/gpu_check.hpp>
#include <halfulp/cuda/rehearsal.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace gpu_checks_test {

using namespace halfulp;
using namespace halfulp::cuda;

std::vector<Check> checks_on(const Gpu& gpu) {
  std::vector<Check> checks = check_sums(gpu, 1);
  for (Check& check : check_programs(gpu, 1)) checks.push_back(std::move(check));
  return checks;
}
bool is_atomic(const Check& check) { return check.name.find("atomic") != std::string::npos; }
bool is_sum(const Check& check) { return check.name.starts_with("sum "); }
bool passed(const Comparison& found) { return found.compared != 0 && (found.differing == 0 || found.approximate); }
/// Of those that differ: a NaN on one side, or nothing written.
std::uint64_t unlike(const Comparison& found) {
  std::uint64_t count = 0;
  for (const auto& [name, number] : found.classes) count += name == "nan" || name == "unwritten" ? number : 0;
  return count;
}

TEST(GpuChecks, TheRehearsalIsTheEmulation) {
  std::set<std::string> names;
  for (const Check& check : checks_on(rehearsal_gpu())) {
    EXPECT_TRUE(passed(check.found)) << check.name;
    EXPECT_EQ(check.found.differing, 0u) << check.name << ": " << check.witness();
    EXPECT_EQ(check.found.farthest, 0u) << check.name;
    EXPECT_GE(check.found.compared, 400u) << check.name;
    EXPECT_EQ(!check.found.approximate,
              check.name.find("softmax") == std::string::npos && check.name.find("layer") == std::string::npos)
        << check.name;
    EXPECT_TRUE(names.insert(check.name).second) << check.name << " is there twice";
  }
  EXPECT_EQ(names.size(), 3 * 5 + 2 * programs.size());
}

TEST(GpuChecks, AnotherOrderIsSeen) {
  const auto gpu = make_rehearsal({.reverses = true});
  for (const Check& check : check_sums(*gpu, 1)) {
    // Atomics may take any order.
    EXPECT_EQ(passed(check.found), is_atomic(check)) << check.name;
    if (!is_atomic(check)) { EXPECT_GT(check.found.differing, 25u) << check.name; }
  }
}

TEST(GpuChecks, ResultsThatAreLeftOutAreSeen) {
  const auto gpu = make_rehearsal({.leaves_out = 25});
  for (const Check& check : checks_on(*gpu)) {
    if (!check.found.approximate) { EXPECT_FALSE(passed(check.found)) << check.name; }
    EXPECT_GE(unlike(check.found), 16u) << check.name;
    EXPECT_EQ(unlike(check.found), check.found.differing) << check.name;
    EXPECT_NE(check.witness().find("device a5a5a5a5a5a5a5a5"), std::string::npos) << check.witness();
  }
}

/// A device on which one operation gives the next code word now and then.
std::unique_ptr<Gpu> liar(Operation operation, std::uint64_t by = 1) {
  return make_rehearsal({.answer = [=](const Instruction& row, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    const std::uint64_t right = emulated_answer(row, a, b, c);
    const auto& f = std::get<FloatFormat>(row.to);
    return row.operation == operation && (a ^ b) % 8 == 3 && f.is_finite(right) && f.is_finite(right + by) ? right + by
                                                                                                           : right;
  }});
}

TEST(GpuChecks, EveryOperationOfEveryProgramIsLookedAt) {
  const std::map<Operation, std::set<std::string>> uses{
      {Operation::add, {"update", "kahan-update", "rope-rotation", "softmax", "softmax-naive", "layer-norm"}},
      {Operation::sub, {"kahan-update", "rope-rotation", "softmax", "layer-norm"}},
      {Operation::mul, {"update", "rope-angle", "rope-rotation", "layer-norm"}},
      {Operation::fma, {"update-fused"}},
      {Operation::convert, {"position-id", "rope-angle", "layer-norm"}},
      {Operation::max, {"softmax"}},
      {Operation::exp, {"softmax", "softmax-naive"}},
      {Operation::div, {"softmax", "softmax-naive", "layer-norm"}},
      {Operation::rsqrt, {"layer-norm"}}};
  for (const auto& [operation, users] : uses) {
    const auto gpu = liar(operation);
    for (const Check& check : check_programs(*gpu, 1)) {
      const std::string name = check.name.substr(0, check.name.find(' '));
      EXPECT_EQ(check.found.differing != 0, users.contains(name)) << info(operation).name << " in " << check.name;
      EXPECT_EQ(passed(check.found), check.found.differing == 0 || check.found.approximate) << check.name;
      EXPECT_EQ(check.witness().empty(), check.found.differing == 0);
      if (check.found.differing != 0) { EXPECT_GT(check.found.farthest + unlike(check.found), 0u) << check.name; }
    }
  }
}

TEST(GpuChecks, SumsThatAreOffAreSeen) {
  for (const Check& check : check_sums(*liar(Operation::add), 1))
    if (check.name.find("exact") != std::string::npos || !is_atomic(check)) {
      EXPECT_FALSE(passed(check.found)) << check.name;
    }
  // A bound forgives last places, not more.
  for (const Check& check : check_sums(*liar(Operation::add, std::uint64_t{1} << 6), 1)) {
    EXPECT_TRUE(is_sum(check));
    if (check.name == "sum fp32 atomic") {
      EXPECT_GT(check.found.farthest, 64u);
    } else {
      EXPECT_FALSE(passed(check.found)) << check.name;
    }
  }
}

TEST(GpuChecks, FailuresOfTheDeviceAreThrown) {
  EXPECT_THROW(check_sums(*make_rehearsal({.memory = 1000}), 1), GpuError);
  EXPECT_THROW(check_programs(*make_rehearsal({.memory = 100'000}), 1), GpuError);
  EXPECT_THROW(check_programs(*make_rehearsal({.failing_wait = 7}), 1), GpuError);
}

TEST(GpuChecks, DifferencesAreMeasuredOnTheNumberLine) {
  Comparison found;
  const auto where = [] { return std::string("here"); };
  note_word(found, fp16, 0x8002, 0x0001, where);
  EXPECT_EQ(found.farthest, 3u);
  EXPECT_EQ(found.witnesses.at(0).text, "here: device 8002, expected 1");
  note_word(found, fp16, 0x7fff, 0x7e00, where);
  note_word(found, fp16, 0x7c00, 0x7e00, where);
  note_word(found, fp16, unwritten, 0x7e00, where);
  EXPECT_EQ(found.classes, (std::map<std::string, std::uint64_t>{{"nan", 2}, {"other", 1}, {"unwritten", 1}}));
  EXPECT_EQ(found.differing, 4u);
  EXPECT_EQ(found.farthest, 3u);
  found.approximate = true;
  EXPECT_TRUE(found.fails()) << "a NaN and what was never written are no approximations";
}

TEST(GpuChecks, ComparisonsAdd) {
  Comparison all, skipped, some;
  skipped.skipped = "no room";
  skipped.unanswered = 2;
  all += skipped;
  EXPECT_EQ(all.skipped, "no room");
  some.compared = 5;
  some.approximate = true;
  some.route = "ex2.approx";
  for (std::uint64_t i = 0; i < 20; ++i) some.note("one-ulp", i, [&] { return Mismatch{{i, 0, 0}, 1, i, i + 1}; });
  all += some;
  all += some;
  EXPECT_EQ(all.skipped, "") << "something was compared";
  EXPECT_EQ(all.compared, 10u);
  EXPECT_EQ(all.differing, 40u);
  EXPECT_EQ(all.unanswered, 2u);
  EXPECT_EQ(all.farthest, 19u);
  EXPECT_EQ(all.classes.at("one-ulp"), 40u);
  EXPECT_EQ(all.route, "ex2.approx");
  EXPECT_FALSE(all.fails()) << "the route need not be correctly rounded";
  ASSERT_EQ(all.witnesses.size(), Comparison::most_witnesses);
  EXPECT_EQ(all.witnesses.back().operands[0], 7u);
}

TEST(GpuChecks, BlocksOfAnyWidthAreCompared) {
  const std::uint8_t narrow[] = {1, 2, 3, 4};
  const std::uint64_t device[] = {1, 9, 8, 0x104};
  const char known[] = {1, 0, 1, 1};
  Comparison found;
  std::vector<std::size_t> at;
  const auto note = [&](std::size_t i, std::uint64_t, std::uint64_t) { at.push_back(i); };
  compare_block(std::as_bytes(std::span(narrow)), device, known, found, note);
  EXPECT_EQ(at, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(found.compared, 3u);
  EXPECT_EQ(found.unanswered, 1u);
  compare_block(std::as_bytes(std::span(device)), device, {}, found, note);
  EXPECT_EQ(at.size(), 2u);
  EXPECT_EQ(found.compared, 7u);
}

}  // namespace gpu_checks_test
