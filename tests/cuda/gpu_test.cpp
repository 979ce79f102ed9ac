// The host side of GPUs, with the emulation in the device's place: tables, copies in pieces, failures, verification.
#include "check.hpp"

#include <halfulp/cuda/gpu_device.hpp>
#include <halfulp/evidence/verify/reference.hpp>
#include <halfulp/cuda/rehearsal.hpp>
#include <halfulp/evidence/comparison.hpp>
#include <halfulp/evidence/devices.hpp>
#include <halfulp/evidence/verify/verify.hpp>

#include <set>

namespace gpu_test {

using namespace halfulp;
using cuda::Instruction;
using cuda::instructions;
using cuda::make_rehearsal;

/// Operands of an instruction, lattice points and random words.
struct Cases {
  std::vector<std::uint64_t> a, b, c;
  Operands view() const { return {a, b, c}; }
};
Cases cases(const Instruction& row, std::size_t count) {
  const int bits = storage_bits(row.from), arity = info(row.operation).arity;
  const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  std::vector<std::uint64_t> points;
  if (const auto* f = std::get_if<FloatFormat>(&row.from)) points = check::lattice(*f, 0);
  check::Random random{count};
  Cases x;
  const auto draw = [&] {
    return !points.empty() && random() % 2 == 0 ? points[random() % points.size()] : random() & mask;
  };
  for (std::size_t i = 0; i < count; ++i) {
    x.a.push_back(draw());
    if (arity > 1) x.b.push_back(draw());
    if (arity > 2) x.c.push_back(draw());
  }
  return x;
}

TEST(Instructions, AreTasksEachFoundByItsOwnTask) {
  std::set<std::string> routes;
  for (std::size_t row = 0; row < instructions().size(); ++row) {
    const Instruction& instruction = instructions()[row];
    EXPECT_EQ(refusal(instruction.task()), "") << instruction.route;
    EXPECT_TRUE(routes.insert(std::string(instruction.route)).second) << instruction.route << " is there twice";
    const cuda::RowOrReason found = cuda::find_row(instruction.task(), 1000);
    EXPECT_EQ(found.reason, "");
    EXPECT_EQ(found.row, row) << instruction.route << " is hidden by " << instructions()[found.row].route;
    EXPECT_TRUE(instruction.sm == 80 || instruction.sm == 89 || instruction.sm == 90 || instruction.sm == 100);
  }
  EXPECT_GT(routes.size(), 150u);
}

TEST(Instructions, AreRefusedWithAReason) {
  Task task{Operation::convert, fp16, bf16, {}};
  EXPECT_EQ(cuda::find_row(task, 80).reason, "cvt.rn.bf16.f16 needs sm_90, this is sm_80");
  EXPECT_EQ(cuda::find_row(task, 90).reason, "");
  task.rounding.mode = RoundingMode::to_odd;
  EXPECT_EQ(
      cuda::find_row(task, 90).reason,
      "the device has it for nearest-even ieee, toward-zero ieee, toward-negative ieee, toward-positive ieee only");
  EXPECT_EQ(cuda::find_row({Operation::rem, fp16, fp16, {}}, 90).reason, "this backend has no such instruction");
  task = {Operation::add, fp16, fp16, {}};
  task.rounding.flush_inputs = true;
  EXPECT_NE(cuda::find_row(task, 90).reason, "") << "subnormal results are flushed as well";
  task.rounding.flush_outputs = true;
  EXPECT_EQ(cuda::find_row(task, 90).reason, "");
}

TEST(GpuDevice, EveryInstructionComesBackInOrderWhateverThePieces) {
  for (const std::size_t each : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
    const auto gpu = make_rehearsal({.sm = 100});
    const auto device = cuda::make_device(*gpu, {.cases = each});
    for (const Instruction& row : instructions()) {
      const Cases x = cases(row, each == 1000 ? 2500 : 100);
      const TaskComparison result = compare(*device, row.task(), x.view());
      ASSERT_EQ(result.skipped, "") << row.route;
      ASSERT_EQ(result.compared, x.a.size());
      ASSERT_EQ(result.differing, 0u) << row.route << ' ' << each;
      ASSERT_EQ(result.independence, "emulation");
      ASSERT_EQ(result.route, row.route);
    }
  }
}

TEST(GpuDevice, SmallRunsAfterLargeOnesAndTheOtherWayRound) {
  const auto gpu = make_rehearsal({});
  const auto device = cuda::make_device(*gpu, {.cases = 64});
  const Instruction& row = instructions()[cuda::find_row({Operation::fma, fp16, fp16, {}}, 90).row];
  for (const std::size_t count : {1, 200, 3, 128, 129, 1, 0, 5000}) {
    const Cases x = cases(row, count);
    std::vector<std::uint64_t> results(count);
    device->run(row.task(), x.view(), results);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(results[i], cuda::emulated_answer(row, x.a[i], x.b[i], x.c[i])) << count << ' ' << i;
  }
}

TEST(GpuDevice, WrongAndMissingAnswersAreSeen) {
  const Task task{Operation::mul, fp16, fp16, {}};
  const Instruction& row = instructions()[cuda::find_row(task, 90).row];
  const Cases x = cases(row, 5000);
  const auto liar = make_rehearsal(
      {.answer = [](const Instruction& r, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
        return cuda::emulated_answer(r, a, b, c) ^ (a % 16 == 3);
      }});
  const auto expected = static_cast<std::uint64_t>(
      std::count_if(x.a.begin(), x.a.end(), [](std::uint64_t a) { return a % 16 == 3; }));
  EXPECT_EQ(compare(*cuda::make_device(*liar), task, x.view()).differing, expected);
  const auto forgetful = make_rehearsal({.leaves_out = 1000});
  const TaskComparison result = compare(*cuda::make_device(*forgetful), task, x.view());
  EXPECT_EQ(result.differing, 4u);  // of two lanes of 2500
  EXPECT_EQ(result.witnesses.at(0).device, 0xa5a5'a5a5'a5a5'a5a5);
}

TEST(GpuDevice, FailuresAreSkippedWithTheirReason) {
  const Task task{Operation::add, fp16, fp16, {}};
  const Cases x = cases(instructions()[cuda::find_row(task, 90).row], 4000);
  const auto small = make_rehearsal({.memory = 10'000});
  const auto device = cuda::make_device(*small);
  const TaskComparison skipped = compare(*device, task, x.view());
  EXPECT_EQ(skipped.skipped, "rehearsal: no device memory of 16000 bytes");
  EXPECT_EQ(skipped.compared, 0u);
  const TaskComparison fits = compare(*device, task, x.view().slice(0, 100));
  EXPECT_EQ(fits.skipped, "") << "what was taken before the failure was given back";
  EXPECT_EQ(fits.compared, 100u);

  const auto hanging = make_rehearsal({.failing_wait = 2});
  EXPECT_THROW(compare(*cuda::make_device(*hanging), task, x.view()), DeviceFailure)
      << "a device that is lost is not skipped over";
  const auto old = make_rehearsal({.sm = 80});
  EXPECT_EQ(compare(*cuda::make_device(*old), {Operation::convert, fp16, bf16, {}}, cases(instructions()[0], 4).view())
                .skipped,
            "cvt.rn.bf16.f16 needs sm_90, this is sm_80");
}

TEST(GpuDevice, TheRehearsalIsFoundByNameAndIsNoSilicon) {
  EXPECT_EQ(find_device("rehearsal").independence(), "emulation");
  for (const Device* device : devices()) EXPECT_NE(device->name(), "rehearsal");
  EXPECT_NE(find_device("cuda").available().yes, !find_device("cuda").available().reason.empty());
}

// Verification on the device.

std::string digest_by(const verify::Reference* reference, const Task& task, const OperandSet& operands,
                      Comparison* found = nullptr) {
  std::vector<std::uint64_t> digests;
  for (std::uint64_t i = 0; i < verify::number_of_chunks(operands); ++i) {
    const verify::Chunk chunk = verify::verify_chunk(task, operands, reference, i);
    digests.push_back(chunk.digest);
    if (found) *found += chunk.found;
  }
  return verify::digest(digests);
}

TEST(GpuVerification, HasTheDigestOfTheHost) {
  const Device& rehearsal = rehearsal_device();
  std::uint64_t swept = 0;
  for (const Instruction& row : instructions()) {
    Task task = row.task();
    task.rounding.nan = NanRule::canonical;
    if (!cuda::sweeps(row) || row.sm > 90) continue;
    const auto all = number_of_operands(task);
    const OperandSet operands = all && *all <= 1 << 16 ? all_operands(task) : sampled_operands(task, 5000, 3);
    const auto reference = verify::make_reference(rehearsal, task, operands);
    ASSERT_TRUE(reference->makes_chunks());
    Comparison found;
    ASSERT_EQ(digest_by(reference.get(), task, operands, &found), digest_by(nullptr, task, operands)) << row.route;
    ASSERT_EQ(found.compared, operands.count);
    ASSERT_EQ(found.differing, 0u);
    EXPECT_EQ(verify::verified_functions(rehearsal, task), "halfulp's functions on the device");
    ++swept;
  }
  EXPECT_GT(swept, 30u);
}

TEST(GpuVerification, CountsClassesAndWitnesses) {
  const auto liar = make_rehearsal(
      {.answer = [](const Instruction& r, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
        return cuda::emulated_answer(r, a, b, c) ^ (a % 256 == 9);
      }});
  const auto device = cuda::make_device(*liar);
  Task task{Operation::convert, fp16, e5m2, {}};
  task.rounding.overflow = Overflow::saturate;
  const OperandSet operands = all_operands(task);
  Comparison found;
  const auto reference = verify::make_reference(*device, task, operands);
  EXPECT_EQ(digest_by(reference.get(), task, operands, &found), digest_by(nullptr, task, operands))
      << "the digest is of our own results";
  std::uint64_t counted = 0;
  for (const auto& [name, count] : found.classes) counted += count;
  EXPECT_EQ(counted, found.differing);
  EXPECT_GE(found.differing, 240u);  // some words of NaN stay NaN
  EXPECT_LE(found.differing, 256u);
  EXPECT_EQ(found.witnesses.at(0).operands[0], 9u);
  EXPECT_EQ(found.witnesses.at(1).operands[0], 256u + 9);
}

TEST(GpuVerification, ACaseThatIsLeftOutIsAFailure) {
  const auto forgetful = make_rehearsal({.leaves_out = 10'000});
  const auto device = cuda::make_device(*forgetful);
  Task task{Operation::convert, bf16, fp16, {}};
  const auto reference = verify::make_reference(*device, task, all_operands(task));
  EXPECT_THROW(reference->chunk(0, {}), DeviceFailure);
}

TEST(GpuVerification, WhatDeviceCodeHasNotGoesThroughTheDevice) {
  Task task{Operation::div, fp32, fp32, {}};
  const Device& rehearsal = rehearsal_device();
  const OperandSet operands = sampled_operands(task, 10'000, 1);
  EXPECT_FALSE(verify::make_reference(rehearsal, task, operands)->makes_chunks());
  EXPECT_NE(verify::verified_functions(rehearsal, task), "halfulp's functions on the device");
  Comparison found;
  digest_by(verify::make_reference(rehearsal, task, operands).get(), task, operands, &found);
  EXPECT_EQ(found.compared, 10'000u);
  EXPECT_EQ(found.differing, 0u);
}

}  // namespace gpu_test
