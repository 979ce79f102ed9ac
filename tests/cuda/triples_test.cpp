// All triples of an fma by pairs of magnitudes: the numbering, the symmetries it uses, what it finds.
#include "check.hpp"

#include <halfulp/evidence/verify/reference.hpp>
#include <halfulp/cuda/gpu_device.hpp>
#include <halfulp/cuda/rehearsal.hpp>
#include <halfulp/evidence/verify/verify.hpp>

namespace triples_test {

using namespace halfulp;
using namespace halfulp::verify;

TEST(Pairs, AreNumberedWithoutGaps) {
  CodePair before = pair_of(0);
  EXPECT_EQ(before.x, 0u);
  EXPECT_EQ(before.y, 0u);
  for (std::uint64_t n = 1; n < 100'000; ++n) {
    const CodePair p = pair_of(n);
    if (before.x < before.y) ASSERT_TRUE(p.x == before.x + 1 && p.y == before.y) << n;
    else ASSERT_TRUE(p.x == 0 && p.y == before.y + 1) << n;
    before = p;
  }
  check::Random random{1};
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t n = random() % all_pairs;
    const CodePair p = pair_of(n);
    ASSERT_LE(p.x, p.y);
    ASSERT_LT(p.y, magnitudes);
    ASSERT_EQ(std::uint64_t{p.y} * (p.y + 1) / 2 + p.x, n);
  }
  const CodePair last = pair_of(all_pairs - 1);
  EXPECT_EQ(last.x, magnitudes - 1);
  EXPECT_EQ(last.y, magnitudes - 1);
}

TEST(Pairs, StandForEveryTriple) {
  std::uint64_t total = 0, slow = 0;
  for (std::uint64_t i = 0; i < triple_chunks; ++i)
    total += triples_of(i * pairs_per_chunk, std::min(pairs_per_chunk, all_pairs - i * pairs_per_chunk));
  EXPECT_EQ(total, most_triples);
  for (std::uint64_t n = 1000; n < 3000; ++n) slow += weight(pair_of(n)) << 16;
  EXPECT_EQ(triples_of(1000, 2000), slow);
}

/// Every triple of a narrow format is asked exactly once, and our fma has the symmetries: it is its own hardware.
template <FloatFormat f>
void expect_complete() {
  const std::uint32_t half = static_cast<std::uint32_t>(f.sign_mask()), codes = 2 * half;
  std::vector<std::uint8_t> asked(std::size_t{codes} * codes * codes);
  std::uint64_t differing = 0;
  for (std::uint32_t y = 0; y < half; ++y)
    for (std::uint32_t x = 0; x <= y; ++x)
      for (std::uint32_t c = 0; c < codes; ++c)
        check_triple<f>(
            {x, y}, c,
            [&](std::uint32_t a, std::uint32_t b, std::uint32_t z) {
              ++asked[(std::size_t{a} * codes + b) * codes + z];
              return static_cast<std::uint32_t>(fma<std::uint64_t>(f, Rounding{}, a, b, z).code);
            },
            [&](std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t) { ++differing; });
  EXPECT_EQ(differing, 0u);
  EXPECT_TRUE(std::all_of(asked.begin(), asked.end(), [](std::uint8_t times) { return times == 1; }));
}
TEST(Symmetries, HoldOnAllTriplesOfE5m2) { expect_complete<e5m2>(); }
TEST(Symmetries, HoldOnAllTriplesOfE4m3) { expect_complete<e4m3>(); }
TEST(Symmetries, HoldOnAllTriplesOfAFormatWithWideRange) { expect_complete<FloatFormat{5, 1, 15, NonFinite::ieee}>(); }

template <FloatFormat f>
void expect_on_samples(int pairs, std::uint64_t seed) {
  check::Random random{seed};
  std::uint64_t differing = 0, exact_zeros = 0;
  for (int i = 0; i < pairs; ++i) {
    CodePair p = pair_of(random() % all_pairs);
    if (i % 2 == 0) p = {p.x & 0x7c00, p.y & 0x7c00};  // powers of two: products that an addend can cancel
    if (p.x > p.y) std::swap(p.x, p.y);
    for (int k = 0; k < 64; ++k) {
      std::uint32_t c = static_cast<std::uint32_t>(random()) & 0xffff;
      if (k % 4 == 0) c = static_cast<std::uint32_t>(mul<std::uint64_t>(f, Rounding{}, p.x, p.y).code ^ f.sign_mask());
      check_triple<f>(
          p, c,
          [&](std::uint32_t a, std::uint32_t b, std::uint32_t z) {
            const std::uint64_t code = fma<std::uint64_t>(f, Rounding{}, a, b, z).code;
            exact_zeros += f.is_zero(code);
            return static_cast<std::uint32_t>(code);
          },
          [&](std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t) { ++differing; });
    }
  }
  EXPECT_EQ(differing, 0u);
  EXPECT_GT(exact_zeros, 1000u);
}
TEST(Symmetries, HoldOnSamplesOf16Bits) {
  expect_on_samples<fp16>(4000, 2);
  expect_on_samples<bf16>(4000, 3);
}

Task fma_task(const FloatFormat& f) { return {Operation::fma, f, f, {}}; }

TEST(TriplesOnADevice, DigestsAddUpAndDifferencesAreFound) {
  const auto gpu = cuda::make_rehearsal({});
  const auto three = make_triples_reference(*gpu, fma_task(fp16), 3)->chunk(7, {}),
             whole = make_triples_reference(*gpu, fma_task(fp16), 3)->chunk(7, {});
  EXPECT_EQ(three.digest, whole.digest);
  EXPECT_EQ(three.found.compared, triples_of(21, 3));
  EXPECT_EQ(three.found.differing, 0u);
  std::uint64_t sum = 0;
  const auto one = make_triples_reference(*gpu, fma_task(fp16), 1);
  for (std::uint64_t i = 21; i < 24; ++i) sum += one->chunk(i, {}).digest;
  EXPECT_EQ(sum, three.digest);
  EXPECT_NE(one->chunk(21, {}).digest, one->chunk(22, {}).digest);

  // An instruction that is wrong on one triple, and on many.
  const CodePair p = pair_of(21);
  cuda::Rehearsal wrong;
  wrong.answer = [&](const cuda::Instruction& row, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return cuda::emulated_answer(row, a, b, c) ^ (a == (p.y | 0x8000u) && b == p.x && c == 0x3c01);
  };
  const auto liar = cuda::make_rehearsal(wrong);
  const Chunk found = make_triples_reference(*liar, fma_task(fp16), 3)->chunk(7, {});
  EXPECT_EQ(found.digest, three.digest) << "the digest is of our own results";
  ASSERT_EQ(found.found.differing, 1u);
  EXPECT_EQ(found.found.witnesses[0].operands, (std::array<std::uint64_t, 3>{p.y | 0x8000u, p.x, 0x3c01}));
  EXPECT_EQ(found.found.witnesses[0].device, found.found.witnesses[0].emulated ^ 1);

  wrong.answer = [](const cuda::Instruction& row, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return cuda::emulated_answer(row, a, b, c) ^ ((c & 0xff) == 0x12);
  };
  const auto often = cuda::make_rehearsal(wrong);
  const Chunk many = make_triples_reference(*often, fma_task(bf16), 1)->chunk(100, {});
  EXPECT_EQ(many.found.differing, 256 * weight(pair_of(100)));
  EXPECT_EQ(many.found.classes.at("not kept"), many.found.differing - max_triples);
  EXPECT_EQ(many.found.witnesses.size(), Comparison::most_witnesses);
}

TEST(TriplesOnADevice, OnlyAGpuTakesThem) {
  EXPECT_EQ(number_of_operands(fma_task(fp16)), most_triples);
  EXPECT_EQ(number_of_chunks(all_operands(fma_task(fp16))), triple_chunks);
  EXPECT_TRUE(takes_all_triples(cuda_device(), fma_task(bf16)));
  EXPECT_FALSE(takes_all_triples(rehearsal_device(), fma_task(bf16))) << "it would take years";
  Task down = fma_task(fp16);
  down.rounding.mode = RoundingMode::toward_zero;
  EXPECT_FALSE(takes_all_triples(cuda_device(), down));
  EXPECT_FALSE(takes_all_triples(oracle_device(), fma_task(fp16)));
}

}  // namespace triples_test
