// The checks of a device's sums and programs, on the rehearsal and on devices that err.
#include <halfulp/evidence/gpu_check.hpp>
#include <halfulp/cuda/rehearsal.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace {

using namespace halfulp;
using namespace halfulp::cuda;

std::vector<ProgramCheck> checks_on(const Gpu& gpu) {
  std::vector<ProgramCheck> checks = check_sums(gpu, 1);
  for (ProgramCheck& check : check_programs(gpu, 1)) checks.push_back(std::move(check));
  return checks;
}
bool is_atomic(const ProgramCheck& check) { return check.name.find("atomic") != std::string::npos; }
bool is_sum(const ProgramCheck& check) { return check.name.starts_with("sum "); }

TEST(GpuChecks, TheRehearsalIsTheEmulation) {
  std::set<std::string> names;
  for (const ProgramCheck& check : checks_on(rehearsal_gpu())) {
    EXPECT_TRUE(check.passed()) << check.name;
    EXPECT_EQ(check.differing, 0u) << check.name << ": " << check.witness;
    EXPECT_EQ(check.largest_distance, 0u) << check.name;
    EXPECT_GE(check.compared, 400u) << check.name;
    EXPECT_EQ(check.must_agree,
              check.name.find("softmax") == std::string::npos && check.name.find("layer") == std::string::npos)
        << check.name;
    EXPECT_TRUE(names.insert(check.name).second) << check.name << " is there twice";
  }
  EXPECT_EQ(names.size(), 3 * 5 + 2 * programs.size());
}

TEST(GpuChecks, AnotherOrderIsSeen) {
  const auto gpu = make_rehearsal({.reverses = true});
  for (const ProgramCheck& check : check_sums(*gpu, 1)) {
    // Atomics may take any order.
    EXPECT_EQ(check.passed(), is_atomic(check)) << check.name;
    if (!is_atomic(check)) { EXPECT_GT(check.differing, 25u) << check.name; }
  }
}

TEST(GpuChecks, ResultsThatAreLeftOutAreSeen) {
  const auto gpu = make_rehearsal({.leaves_out = 25});
  for (const ProgramCheck& check : checks_on(*gpu)) {
    if (check.must_agree) { EXPECT_FALSE(check.passed()) << check.name; }
    EXPECT_GE(check.unlike, 16u) << check.name;
    EXPECT_EQ(check.unlike, check.differing) << check.name;
    EXPECT_NE(check.witness.find("device a5a5a5a5a5a5a5a5"), std::string::npos) << check.witness;
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
    for (const ProgramCheck& check : check_programs(*gpu, 1)) {
      const std::string name = check.name.substr(0, check.name.find(' '));
      EXPECT_EQ(check.differing != 0, users.contains(name)) << info(operation).name << " in " << check.name;
      EXPECT_EQ(check.passed(), check.differing == 0 || !check.must_agree) << check.name;
      EXPECT_EQ(check.witness.empty(), check.differing == 0);
      if (check.differing != 0) { EXPECT_GT(check.largest_distance + check.unlike, 0u) << check.name; }
    }
  }
}

TEST(GpuChecks, SumsThatAreOffAreSeen) {
  for (const ProgramCheck& check : check_sums(*liar(Operation::add), 1))
    if (check.name.find("exact") != std::string::npos || !is_atomic(check)) {
      EXPECT_FALSE(check.passed()) << check.name;
    }
  // A bound forgives last places, not more.
  for (const ProgramCheck& check : check_sums(*liar(Operation::add, std::uint64_t{1} << 6), 1)) {
    EXPECT_TRUE(is_sum(check));
    if (check.name == "sum fp32 atomic") {
      EXPECT_GT(check.largest_distance, 64u);
    } else {
      EXPECT_FALSE(check.passed()) << check.name;
    }
  }
}

TEST(GpuChecks, FailuresOfTheDeviceAreThrown) {
  EXPECT_THROW(check_sums(*make_rehearsal({.memory = 1000}), 1), GpuError);
  EXPECT_THROW(check_programs(*make_rehearsal({.memory = 100'000}), 1), GpuError);
  EXPECT_THROW(check_programs(*make_rehearsal({.failing_wait = 7}), 1), GpuError);
}

TEST(GpuChecks, DifferencesAreMeasuredOnTheNumberLine) {
  ProgramCheck check{"one", "hand"};
  EXPECT_FALSE(check.passed()) << "nothing was compared";
  const auto where = [] { return std::string("here"); };
  check.compare(fp16, 0x3c00, 0x3c00, where);
  EXPECT_TRUE(check.passed());
  check.compare(fp16, 0x8002, 0x0001, where);
  EXPECT_EQ(check.largest_distance, 3u);
  EXPECT_EQ(check.witness, "here: device 8002, expected 1");
  check.compare(fp16, 0x7fff, 0x7e00, where);
  check.compare(fp16, 0x7c00, 0x7e00, where);
  EXPECT_EQ(check.unlike, 2u);
  EXPECT_EQ(check.differing, 3u);
  EXPECT_EQ(check.largest_distance, 3u);
  EXPECT_FALSE(check.passed());
}

}  // namespace
