// The emulation against this CPU: every task that a route of the x86 backend supports, code word for code word.
#include "device_cases.hpp"

#include <halfulp/hardware/x86/instructions.hpp>
#include <halfulp/hardware/x86/x86.hpp>

#include <iostream>
#include <numeric>

namespace hardware_test {

using namespace halfulp;
using check::agree, check::Cases, check::cases, check::modes;

constexpr std::size_t some = 1 << 16;

/// One of x86_routes(), which may not be here.
class Routes : public testing::TestWithParam<const Device*> {
 protected:
  void SetUp() override {
    if (const Support here = GetParam()->available(); !here.yes) GTEST_SKIP() << here.reason;
  }
  void TearDown() override {
    if (compared_ != 0) std::cout << GetParam()->name() << ": " << compared_ << " results compared\n";
  }
  std::uint64_t compared_ = 0;
};

TEST_P(Routes, Arithmetic) {
  for (const FloatFormat& f : check::device_formats())
    for (const OperationInfo& row : operations) {
      if (row.operation == Operation::convert) continue;
      Cases x, fewer;  // the plain rules get a million random operands, every other one less
      for (const RoundingMode mode : modes)
        for (int rule = 0; rule < 8; ++rule) {
          Task task{row.operation, f, f, {}};
          task.rounding.mode = mode;
          task.rounding.flush_inputs = (rule & 1) != 0;
          task.rounding.flush_outputs = (rule & 2) != 0;
          task.rounding.overflow = (rule & 4) != 0 ? Overflow::saturate : Overflow::ieee;
          if (!GetParam()->supports(task).yes) continue;
          Cases& these = rule == 0 ? x : fewer;
          if (these.a.empty()) these = cases(f, row.arity, rule == 0 ? check::many : some);
          compared_ += agree(*GetParam(), task, these);
        }
    }
  if (compared_ == 0) GTEST_SKIP() << GetParam()->name() << " has no arithmetic";
}

TEST_P(Routes, Conversions) {
  std::vector<NumberType> types{i32, i64, u32, u64, e8m0};
  for (const FloatFormat& f : check::device_formats()) types.emplace_back(f);
  for (const NumberType& from : types)
    for (const NumberType& to : types) {
      Cases x;
      for (const RoundingMode mode : modes)
        for (int rule = 0; rule < 8; ++rule) {
          Task task{Operation::convert, from, to, {}};
          task.rounding.mode = mode;
          task.rounding.int_overflow = IntOverflow::x86;
          task.rounding.flush_inputs = (rule & 1) != 0;
          task.rounding.flush_outputs = (rule & 2) != 0;
          task.rounding.overflow = (rule & 4) != 0 ? Overflow::saturate : Overflow::ieee;
          if (!GetParam()->supports(task).yes) continue;
          if (x.a.empty()) x = cases(from, 1, some);
          compared_ += agree(*GetParam(), task, x);
        }
    }
  if (compared_ == 0) GTEST_SKIP() << GetParam()->name() << " has no conversions";
}

// The array functions meet every float and every pair of halves (evidence/ledger); here are the scalar functions and
// every route, one case after the other.

TEST_P(Routes, FloatsToNarrowFormats) {
  const std::uint64_t stride = check::exhaustive() ? 17 : 1021, step = stride << 20;
  for (std::uint64_t begin = 0; begin < std::uint64_t{1} << 32; begin += step) {
    Cases x;
    for (std::uint64_t code = begin; code < std::min(begin + step, std::uint64_t{1} << 32); code += stride)
      x.a.push_back(code);
    for (const FloatFormat& to : {fp16, bf16, e4m3, e5m2})
      for (const RoundingMode mode : modes) {
        Task task{Operation::convert, fp32, to, {}};
        task.rounding.mode = mode;
        task.rounding.flush_inputs = GetParam() == x86_routes()[1];  // VCVTNEPS2BF16 knows nothing else
        compared_ += agree(*GetParam(), task, x);
        if (HasFailure()) return;
      }
  }
  if (compared_ == 0) GTEST_SKIP() << GetParam()->name() << " has no such conversion";
}

TEST_P(Routes, EveryHalfWithMany) {
  if (!check::exhaustive()) GTEST_SKIP() << "HALFULP_EXHAUSTIVE is not set";
  for (const Operation operation : {Operation::add, Operation::mul}) {
    const Task task{operation, fp16, fp16, {}};
    if (!GetParam()->supports(task).yes) continue;
    Cases x;
    x.b.resize(1 << 16);
    std::iota(x.b.begin(), x.b.end(), 0);
    for (std::uint64_t a = 0; a < 1 << 16 && !HasFailure(); a += 17) {
      x.a.assign(1 << 16, a);
      compared_ += agree(*GetParam(), task, x);
    }
  }
  if (compared_ == 0) GTEST_SKIP() << GetParam()->name() << " has no fp16 arithmetic";
}

#if defined(__x86_64__)
TEST_P(Routes, LeaveTheControlRegisterAsItWas) {
  const Cases x = cases(e4m3, 2, some);
  const std::uint32_t before = x86::read_mxcsr();
  for (const FloatFormat& f : {fp16, bf16, fp32, fp64})
    for (const OperationInfo& row : operations)
      for (const RoundingMode mode : modes) {
        Task task{row.operation, f, row.operation == Operation::convert ? fp16 : f, {}};
        task.rounding.mode = mode;
        if (!GetParam()->supports(task).yes) continue;
        std::vector<std::uint64_t> results(x.a.size());
        Cases y = x;
        y.c = y.a;
        const std::uint32_t strange = 0x1f80 | 0x4000 | 0x8000 | 0x0004;  // toward +Inf, FTZ, a sticky divide-by-zero
        x86::write_mxcsr(strange);
        GetParam()->run(task, y.view(row.arity), results);
        const std::uint32_t after = x86::read_mxcsr();
        x86::write_mxcsr(before);
        EXPECT_EQ(after, strange) << task.description();
      }
}
#endif

INSTANTIATE_TEST_SUITE_P(X86, Routes, testing::ValuesIn(x86_routes().begin(), x86_routes().end()),
                         [](const auto& info) { return std::string(info.param->name().substr(4)); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Routes);  // off x86

TEST(X86, SaysWhatItCannotDo) {
  if (!x86_device().available().yes) GTEST_SKIP() << x86_device().available().reason;
  const auto reason = [](Operation operation, RoundingMode mode, Overflow overflow = Overflow::ieee) {
    Task task{operation, fp16, fp16, {}};
    task.rounding.mode = mode;
    task.rounding.overflow = overflow;
    return x86_device().supports(task).reason;
  };
  EXPECT_EQ(reason(Operation::add, RoundingMode::nearest_even), "");
  EXPECT_NE(reason(Operation::add, RoundingMode::nearest_away).find("nearest-away"), std::string::npos);
  EXPECT_NE(reason(Operation::add, RoundingMode::to_odd).find("to-odd"), std::string::npos);
  EXPECT_NE(reason(Operation::add, RoundingMode::stochastic).find("stochastic"), std::string::npos);
  EXPECT_NE(reason(Operation::min, RoundingMode::nearest_even).find("minimumNumber"), std::string::npos);
  EXPECT_NE(reason(Operation::rem, RoundingMode::nearest_even).find("remainder"), std::string::npos);
  EXPECT_NE(reason(Operation::rcp, RoundingMode::nearest_even).find("RCPPS"), std::string::npos);
  EXPECT_NE(reason(Operation::rsqrt, RoundingMode::nearest_even).find("RSQRTPS"), std::string::npos);
  EXPECT_NE(reason(Operation::exp, RoundingMode::nearest_even).find("e^a"), std::string::npos);
}

TEST(X86, DefaultNanIsNegative) {
  if (!x86_device().available().yes) GTEST_SKIP() << x86_device().available().reason;
  const std::uint64_t infinity = fp16.infinity(), zero = 0;
  std::uint64_t result = 0;
  const Task task{Operation::mul, fp16, fp16, {}};
  x86_device().run(task, {{&infinity, 1}, {&zero, 1}, {}}, {&result, 1});
  EXPECT_EQ(result, 0xfe00u);
}

}  // namespace hardware_test
