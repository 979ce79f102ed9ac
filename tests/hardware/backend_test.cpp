// The list of devices, the comparison, and what the CUDA backend claims.
#include "device_cases.hpp"

#include <halfulp/evidence/devices.hpp>

namespace backend_test {

using namespace halfulp;
using check::agree, check::Cases, check::cases, check::many, check::modes;

TEST(Backends, EveryTaskIsSupportedOrRefusedWithAReason) {
  std::size_t supported = 0, refused = 0;
  for (const Device* device : devices())
    for (const FloatFormat& f : check::device_formats())
      for (const OperationInfo& row : operations)
        for (const auto& mode : rounding_modes)
          for (int rule = 0; rule < 8; ++rule) {
            Task task{row.operation, f, f, {}};
            if (row.operation == Operation::convert) task.to = rule % 2 == 0 ? NumberType(i32) : NumberType(e8m0);
            task.rounding.mode = mode.value;
            task.rounding.flush_inputs = (rule & 1) != 0;
            task.rounding.overflow = (rule & 4) != 0 ? Overflow::saturate : Overflow::ieee;
            const Support support = device->supports(task);
            ++(support.yes ? supported : refused);
            ASSERT_NE(support.reason.empty(), !support.yes) << device->name() << ' ' << task.description();
            ASSERT_NE(support.route.empty(), support.yes) << device->name() << ' ' << task.description();
            ASSERT_EQ(support.reason.find('\n'), std::string::npos);
          }
  EXPECT_GT(supported, 0u);
  EXPECT_GT(refused, 0u);
}

// CUDA: what it claims is tested everywhere, what it computes where there is a device.

Support cuda(Operation operation, NumberType from, NumberType to, RoundingMode mode = RoundingMode::nearest_even,
             Overflow overflow = Overflow::ieee) {
  Task task{operation, from, to, {}};
  task.rounding.mode = mode;
  task.rounding.overflow = overflow;
  return find_device("cuda").supports(task);
}

TEST(Cuda, SaysWhichModesAnInstructionHas) {
  // Without a device, tasks in the table are refused only because the device is missing.
  const std::string no_device = find_device("cuda").available().reason;
  for (const FloatFormat& f : {fp16, bf16}) {
    for (const Operation operation :
         {Operation::add, Operation::sub, Operation::mul, Operation::div, Operation::fma, Operation::sqrt}) {
      EXPECT_EQ(cuda(operation, f, f).reason, no_device) << info(operation).name;
      EXPECT_NE(cuda(operation, f, f, RoundingMode::toward_zero).reason.find("nearest-even ieee"), std::string::npos);
    }
    for (const RoundingMode mode : modes) EXPECT_EQ(cuda(Operation::convert, fp32, f, mode).reason, no_device);
    EXPECT_EQ(cuda(Operation::convert, f, fp32, RoundingMode::toward_zero).reason, no_device);  // exact
    EXPECT_NE(cuda(Operation::convert, f, fp32, RoundingMode::nearest_even, Overflow::saturate).reason, no_device);
  }
  for (const FloatFormat& f : {e4m3, e5m2}) {
    EXPECT_EQ(cuda(Operation::convert, fp32, f, RoundingMode::nearest_even, Overflow::saturate).reason, no_device);
    EXPECT_NE(cuda(Operation::convert, fp32, f).reason.find("nearest-even saturate"), std::string::npos);
    EXPECT_NE(cuda(Operation::convert, fp32, f, RoundingMode::toward_zero, Overflow::saturate).reason, no_device);
    EXPECT_NE(cuda(Operation::add, f, f).reason, no_device);
  }
  for (const RoundingMode mode : modes) {
    EXPECT_EQ(cuda(Operation::fma, fp32, fp32, mode).reason, no_device);
    EXPECT_EQ(cuda(Operation::convert, fp16, i32, mode).reason, no_device);
  }
}

TEST(Cuda, AgreesWithTheEmulation) {
  const Device& device = find_device("cuda");
  if (const Support here = device.available(); !here.yes) GTEST_SKIP() << here.reason;
  std::uint64_t compared = 0;
  for (const OperationInfo& row : operations)
    for (const FloatFormat& from : {fp16, bf16, fp32, fp64, e4m3, e5m2})
      for (const FloatFormat& to : {fp16, bf16, fp32, e4m3, e5m2})
        for (const RoundingMode mode : modes)
          for (const auto& overflow : overflow_rules) {
            Task task{row.operation, from, to, {}};
            task.rounding.mode = mode;
            task.rounding.overflow = overflow.value;
            const bool is_conversion = row.operation == Operation::convert;
            const bool not_ieee = row.operation == Operation::div ||
                                  row.operation == Operation::sqrt;  // the route says so
            const bool keeps_signalling_nans = from == bf16 && to == fp32;
            if ((!is_conversion && from != to) || not_ieee || keeps_signalling_nans || !device.supports(task).yes)
              continue;
            compared += agree(device, task, cases(from, row.arity, many));
          }
  EXPECT_GT(compared, 0u);
}

TEST(Backends, AreFoundByName) {
  EXPECT_EQ(devices().front(), &emulated_device());
  for (const Device* device : devices()) {
    EXPECT_EQ(&find_device(device->name()), device);
    EXPECT_NE(device->description(), "");
    EXPECT_EQ(device->available().yes, device->available().reason.empty());
  }
  try {
    find_device("x68");
    FAIL();
  } catch (const std::invalid_argument& error) { EXPECT_NE(std::string(error.what()).find("x86"), std::string::npos); }
}

/// A device that is wrong about some operands.
class Faulty : public Device {
 public:
  explicit Faulty(std::uint64_t a, std::uint64_t wrong) : a_(a), wrong_(wrong) {}
  std::string_view name() const override { return "faulty"; }
  std::string description() const override { return "the emulation with one fault"; }
  Support available() const override { return Support::by("test"); }
  Support supports(const Task& task) const override {
    return task.operation == Operation::rem ? Support::no("no remainder") : Support::by("test");
  }
  NanRule nan_rule(const Task&) const override { return NanRule::cuda; }
  std::string_view independence() const override { return "emulation"; }
  void run(const Task& task, const Operands& x, std::span<std::uint64_t> results) const override {
    Task mine = task;
    mine.rounding.nan = NanRule::cuda;
    emulated_device().run(mine, x, results);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (x.a[i] == a_) results[i] = wrong_;
  }

 private:
  std::uint64_t a_, wrong_;
};

TEST(Compare, FindsAndClassesADifference) {
  Cases x;
  for (std::uint64_t i = 0; i < 200'000; ++i) x.push(i & 0xffff);  // each code three or four times, in four chunks
  const Task task{Operation::sqrt, fp16, fp16, {}};
  EXPECT_EQ(compare(Faulty(~0ULL, 0), task, x.view(1)).differing, 0u);  // the device's NaN rule is taken over
  struct Fault {
    std::uint64_t a, wrong;
    std::string cls;
  };
  for (const Fault& fault :
       {Fault{0x3c00, 0x3c01, "one-ulp"}, Fault{0x3c00, 0x3c02, "other"}, Fault{0x3c00, 0xbc00, "other"},
        Fault{0x0000, 0x8000, "sign-of-zero"}, Fault{0x7c00, 0x7bff, "saturation"},
        Fault{0x7c01, 0x7e00, "nan-payload"}, Fault{0x7c01, 0xffff, "nan-sign"}, Fault{0x4000, 0x7fff, "nan"},
        Fault{0x0001, 0x0001, "subnormal"}}) {
    const TaskComparison result = compare(Faulty(fault.a, fault.wrong), task, x.view(1));
    const std::uint64_t expected = 3 + (fault.a < 200'000 - 3 * 65'536 ? 1 : 0);
    EXPECT_EQ(result.compared, 200'000u);
    EXPECT_EQ(result.differing, expected);
    EXPECT_EQ(result.classes, (std::map<std::string, std::uint64_t>{{fault.cls, expected}})) << fault.cls;
    ASSERT_EQ(result.witnesses.size(), expected);
    EXPECT_EQ(result.witnesses[0].operands[0], fault.a);
    EXPECT_EQ(result.witnesses[0].device, fault.wrong);
    EXPECT_EQ(result.witnesses[0].arity, 1);
    EXPECT_EQ(result.task.rounding.nan, NanRule::cuda);
  }
}

TEST(Compare, KeepsEightWitnesses) {
  Cases x;
  for (int i = 0; i < 20; ++i) x.push(0x3c00, 0x3c00);
  const TaskComparison result = compare(Faulty(0x3c00, 0), {Operation::add, fp16, fp16, {}}, x.view(2));
  EXPECT_EQ(result.differing, 20u);
  EXPECT_EQ(result.witnesses.size(), 8u);
  EXPECT_EQ(result.witnesses[7].operands[1], 0x3c00u);
}

TEST(Compare, SkipsWithAReason) {
  Cases x;
  x.push(0x3c00, 0x3c00);
  const TaskComparison unsupported = compare(Faulty(0, 0), {Operation::rem, fp16, fp16, {}}, x.view(2));
  EXPECT_EQ(unsupported.skipped, "no remainder");
  EXPECT_EQ(unsupported.compared, 0u);
  Task refused{Operation::add, e8m0, e8m0, {}};
  EXPECT_NE(compare(Faulty(0, 0), refused, x.view(2)).skipped, "");
  for (const Device* device : devices()) {
    const Support here = device->available();
    const TaskComparison result = compare(*device, {Operation::add, fp16, fp16, {}}, x.view(2));
    EXPECT_EQ(result.skipped, here.reason) << device->name();
    EXPECT_EQ(result.compared, here.yes ? 1u : 0u);
  }
}

}  // namespace backend_test
