// The host side of GPUs, with the emulation in the device's place: tables, copies in pieces, failures, verification.
#include "check.hpp"

#include <halfulp/cuda/backend.hpp>
#include <halfulp/evidence/verify/reference.hpp>
#include <halfulp/cuda/rehearsal.hpp>
#include <halfulp/evidence/comparison.hpp>
#include <halfulp/evidence/verify/verify.hpp>

#include <set>

namespace {

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

TEST(GpuBackend, EveryInstructionComesBackInOrderWhateverThePieces) {
  for (const std::size_t each : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
    const auto gpu = make_rehearsal({.sm = 100});
    const auto backend = cuda::make_backend(*gpu, each);
    for (const Instruction& row : instructions()) {
      const Cases x = cases(row, each == 1000 ? 2500 : 100);
      const Comparison result = compare(*backend, row.task(), x.view());
      ASSERT_EQ(result.skipped, "") << row.route;
      ASSERT_EQ(result.compared, x.a.size());
      ASSERT_EQ(result.differing, 0u) << row.route << ' ' << each;
      ASSERT_EQ(result.independence, "emulation");
      ASSERT_EQ(result.route, row.route);
    }
  }
}

TEST(GpuBackend, SmallRunsAfterLargeOnesAndTheOtherWayRound) {
  const auto gpu = make_rehearsal({});
  const auto backend = cuda::make_backend(*gpu, 64);
  const Instruction& row = instructions()[cuda::find_row({Operation::fma, fp16, fp16, {}}, 90).row];
  for (const std::size_t count : {1, 200, 3, 128, 129, 1, 0, 5000}) {
    const Cases x = cases(row, count);
    std::vector<std::uint64_t> results(count);
    backend->run(row.task(), x.view(), results);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(results[i], cuda::emulated_answer(row, x.a[i], x.b[i], x.c[i])) << count << ' ' << i;
  }
}

TEST(GpuBackend, WrongAndMissingAnswersAreSeen) {
  const Task task{Operation::mul, fp16, fp16, {}};
  const Instruction& row = instructions()[cuda::find_row(task, 90).row];
  const Cases x = cases(row, 5000);
  const auto liar = make_rehearsal(
      {.answer = [](const Instruction& r, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
        return cuda::emulated_answer(r, a, b, c) ^ (a % 16 == 3);
      }});
  const auto expected = static_cast<std::uint64_t>(
      std::count_if(x.a.begin(), x.a.end(), [](std::uint64_t a) { return a % 16 == 3; }));
  EXPECT_EQ(compare(*cuda::make_backend(*liar), task, x.view()).differing, expected);
  const auto forgetful = make_rehearsal({.leaves_out = 1000});
  const Comparison result = compare(*cuda::make_backend(*forgetful), task, x.view());
  EXPECT_EQ(result.differing, 4u);  // of two lanes of 2500
  EXPECT_EQ(result.witnesses.at(0).device, 0xa5a5'a5a5'a5a5'a5a5);
}

TEST(GpuBackend, FailuresAreSkippedWithTheirReason) {
  const Task task{Operation::add, fp16, fp16, {}};
  const Cases x = cases(instructions()[cuda::find_row(task, 90).row], 4000);
  const auto small = make_rehearsal({.memory = 10'000});
  const auto backend = cuda::make_backend(*small);
  const Comparison skipped = compare(*backend, task, x.view());
  EXPECT_EQ(skipped.skipped, "rehearsal: no device memory of 16000 bytes");
  EXPECT_EQ(skipped.compared, 0u);
  const Comparison fits = compare(*backend, task, x.view().slice(0, 100));
  EXPECT_EQ(fits.skipped, "") << "what was taken before the failure was given back";
  EXPECT_EQ(fits.compared, 100u);

  const auto hanging = make_rehearsal({.failing_wait = 2});
  EXPECT_THROW(compare(*cuda::make_backend(*hanging), task, x.view()), DeviceFailure)
      << "a device that is lost is not skipped over";
  const auto old = make_rehearsal({.sm = 80});
  EXPECT_EQ(compare(*cuda::make_backend(*old), {Operation::convert, fp16, bf16, {}}, cases(instructions()[0], 4).view())
                .skipped,
            "cvt.rn.bf16.f16 needs sm_90, this is sm_80");
}

TEST(GpuBackend, TheRehearsalIsFoundByNameAndIsNoSilicon) {
  EXPECT_EQ(find_backend("rehearsal").independence(), "emulation");
  for (const Backend* backend : backends()) EXPECT_NE(backend->name(), "rehearsal");
  EXPECT_NE(find_backend("cuda").available().yes, !find_backend("cuda").available().reason.empty());
}

// --- verification on the device
// ---------------------------------------------------------------------------------------

std::string digest_by(const verify::Judge* judge, const Task& task, const verify::Inputs& inputs,
                      verify::Findings* found = nullptr) {
  std::vector<std::uint64_t> digests;
  for (std::uint64_t i = 0; i < verify::number_of_chunks(inputs); ++i) {
    const verify::Chunk chunk = verify::verify_chunk(task, inputs, judge, i);
    digests.push_back(chunk.digest);
    if (found) *found += chunk.findings;
  }
  return verify::digest(digests);
}

TEST(GpuVerification, HasTheDigestOfTheHost) {
  const auto& rehearsal = verify::rehearsal_reference();
  std::uint64_t swept = 0;
  for (const Instruction& row : instructions()) {
    Task task = row.task();
    task.rounding.nan = NanRule::canonical;
    if (!cuda::sweeps(row) || row.sm > 90) continue;
    const auto all = verify::number_of_inputs(task);
    const verify::Inputs inputs = all && *all <= 1 << 16 ? verify::all_inputs(task)
                                                         : verify::sampled_inputs(task, 5000, 3);
    const auto judge = rehearsal.prepare(task, inputs);
    ASSERT_TRUE(judge->makes_chunks());
    verify::Findings found;
    ASSERT_EQ(digest_by(judge.get(), task, inputs, &found), digest_by(nullptr, task, inputs)) << row.route;
    ASSERT_EQ(found.compared, inputs.count);
    ASSERT_EQ(found.differing, 0u);
    EXPECT_EQ(rehearsal.subject(task), "halfulp's functions on the device");
    ++swept;
  }
  EXPECT_GT(swept, 30u);
}

TEST(GpuVerification, CountsClassesAndWitnesses) {
  const auto liar = make_rehearsal(
      {.answer = [](const Instruction& r, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
        return cuda::emulated_answer(r, a, b, c) ^ (a % 256 == 9);
      }});
  const auto backend = cuda::make_backend(*liar);
  const auto reference = verify::make_reference(*liar, *backend);
  Task task{Operation::convert, fp16, e5m2, {}};
  task.rounding.overflow = Overflow::saturate;
  const verify::Inputs inputs = verify::all_inputs(task);
  verify::Findings found;
  const auto judge = reference->prepare(task, inputs);
  EXPECT_EQ(digest_by(judge.get(), task, inputs, &found), digest_by(nullptr, task, inputs))
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
  const auto backend = cuda::make_backend(*forgetful);
  Task task{Operation::convert, bf16, fp16, {}};
  const auto judge = verify::make_reference(*forgetful, *backend)->prepare(task, verify::all_inputs(task));
  EXPECT_THROW(judge->chunk(0, {}), DeviceFailure);
}

TEST(GpuVerification, WhatDeviceCodeHasNotGoesThroughTheBackend) {
  Task task{Operation::div, fp32, fp32, {}};
  const auto& rehearsal = verify::rehearsal_reference();
  const verify::Inputs inputs = verify::sampled_inputs(task, 10'000, 1);
  EXPECT_FALSE(rehearsal.prepare(task, inputs)->makes_chunks());
  EXPECT_NE(rehearsal.subject(task), "halfulp's functions on the device");
  verify::Findings found;
  digest_by(rehearsal.prepare(task, inputs).get(), task, inputs, &found);
  EXPECT_EQ(found.compared, 10'000u);
  EXPECT_EQ(found.differing, 0u);
}

}  // namespace
