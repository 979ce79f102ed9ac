// Stochastic rounding: its probabilities by enumeration, and the generator's published test vectors.
#include "check.hpp"

#include <halfulp/emulation/random.hpp>

#include <cmath>
#include <set>

namespace stochastic_test {

using namespace halfulp;

Rounding stochastic(int random_bits) {
  Rounding r;
  r.mode = RoundingMode::stochastic;
  r.random_bits = random_bits;
  return r;
}

/// Positive doubles between adjacent values of the format, some exactly on a multiple of 2^-r of the gap.
class Stochastic : public testing::TestWithParam<FloatFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, Stochastic,
                         testing::ValuesIn(check::named({"e4m3", "e5m2", "e2m1", "fp16", "bf16", "e4m3fnuz"})),
                         check::test_name);

TEST_P(Stochastic, rounds_up_with_the_probability_of_the_tail_cut_to_r_bits) {
  const FloatFormat f = GetParam();
  check::Random random{3};
  for (int r = 1; r <= 8; ++r)
    for (int i = 0; i < 60; ++i) {
      // From subnormals to below max: between value(code) and value(code + 1), at a multiple of 2^-20 of the gap.
      const std::uint64_t code = random() % f.max_finite();
      const double low = f.value(code), gap = f.value(code + 1) - low;
      const double fraction = i < 20 ? static_cast<double>(random() % (1u << r)) / (1 << r)
                                     : static_cast<double>(random() >> 44) * 0x1p-20;
      const double x = low + gap * fraction;
      int up = 0;
      for (std::uint64_t word = 0; word < (1u << r); ++word) {
        const std::uint64_t high_garbage = random() << r;  // only the low r bits count
        const Rounded result = encode(f, stochastic(r), x, word | high_garbage);
        ASSERT_TRUE(result.code == code || result.code == code + 1) << x;
        ASSERT_EQ(result.flags & flag::inexact, fraction != 0);
        ASSERT_EQ(result.code, encode(f, stochastic(r), -x, word).code & f.magnitude_mask()) << "symmetric in sign";
        up += result.code == code + 1;
      }
      EXPECT_EQ(up, static_cast<int>(std::floor(std::ldexp(fraction, r)))) << "r = " << r << ", x = " << x;
    }
}

TEST_P(Stochastic, bias_is_minus_half_a_random_unit_on_average) {
  // Over tails that are uniform on a grid much finer than 2^-r, the mean result is low by (2^-r - 2^-r/2^(20 - r)) / 2
  // of an ulp.
  const FloatFormat f = GetParam();
  const std::uint64_t code = f.min_normal();
  const double low = f.value(code), gap = f.value(code + 1) - low;
  for (int r = 1; r <= 4; ++r) {
    constexpr int grid = 12;
    std::int64_t excess = 0;  // in units of gap * 2^-grid, summed over all tails and all random words
    for (std::int64_t t = 0; t < (1 << grid); ++t)
      for (std::uint64_t word = 0; word < (1u << r); ++word) {
        const bool up = encode(f, stochastic(r), low + gap * static_cast<double>(t) * 0x1p-12, word).code != code;
        excess += (up ? 1 << grid : 0) - t;
      }
    const double mean = static_cast<double>(excess) / (1 << grid) / (1 << r) / (1 << grid);
    EXPECT_EQ(mean, -(std::ldexp(1, -r) - std::ldexp(1, -grid)) / 2) << "r = " << r;
  }
}

TEST_P(Stochastic, variants_round_the_tail_to_r_bits) {
  // For every tail of r + 3 bits and every random word, the count of roundings up is the tail rounded to r bits.
  const FloatFormat f = GetParam();
  const double low = f.value(f.min_normal()), gap = f.value(f.min_normal() + 1) - low;
  for (const auto& variant : stochastic_variants)
    for (int r = 1; r <= 5; ++r)
      for (unsigned tail = 0; tail < (8u << r); ++tail) {
        Rounding rounding = stochastic(r);
        rounding.variant = variant.value;
        int up = 0;
        for (std::uint64_t word = 0; word < (1u << r); ++word)
          up += encode(f, rounding, low + gap * std::ldexp(tail, -r - 3), word).code != f.min_normal();
        const double share = tail / 8.0, down = std::floor(share);
        const bool odd = static_cast<unsigned>(down) % 2 != 0;
        const double tie = variant.value == StochasticVariant::nearest_up ||
                           odd == (variant.value == StochasticVariant::nearest_even);
        const double wanted = variant.value == StochasticVariant::truncate ? down
                              : share - down < 0.5                         ? down
                              : share - down > 0.5                         ? down + 1
                                                                           : down + tie;
        EXPECT_EQ(up, wanted) << variant.name << " r = " << r << " tail " << tail << "/8";
      }
}

TEST_P(Stochastic, exact_values_infinities_and_nans_never_change) {
  const FloatFormat f = GetParam();
  check::Random random{4};
  const std::uint64_t step = f.storage_bits() > 8 ? 7 : 1;
  for (std::uint64_t code = 0; code <= f.code_mask(); code += step)
    for (int i = 0; i < 16; ++i) {
      const std::uint64_t word = i == 0 ? ~std::uint64_t{0} : random();
      const Rounded result = convert(f, f, stochastic(1 + i * 2), code, word);
      if (f.is_nan(code)) {
        EXPECT_TRUE(f.is_nan(result.code));
      } else {
        EXPECT_EQ(result.code, code);
        EXPECT_EQ(result.flags, 0);
        const Rounded sum = evaluate(Operation::add, f, stochastic(32), code, 0, 0, word);
        EXPECT_EQ(sum.code, code == f.sign_mask() ? 0 : code);  // -0 + +0 = +0
      }
    }
}

/// Random123's kat_vectors for philox4x32 with 10 rounds: counter, key, result.
TEST(Philox, known_answers) {
  struct Answer {
    std::uint32_t counter[4], key[2], result[4];
  };
  constexpr Answer answers[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Answer& a : answers) {
    const auto join = [](std::uint32_t low, std::uint32_t high) {
      return low | static_cast<std::uint64_t>(high) << 32;
    };
    const auto words = philox(join(a.key[0], a.key[1]), join(a.counter[2], a.counter[3]),
                              join(a.counter[0], a.counter[1]));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(words[i], a.result[i]);
    EXPECT_EQ(random_word(join(a.key[0], a.key[1]), join(a.counter[2], a.counter[3]), join(a.counter[0], a.counter[1])),
              join(a.result[0], a.result[1]));
  }
}

TEST(Philox, seed_stream_and_index_all_matter) {
  std::set<std::uint64_t> words;
  for (std::uint64_t seed : {0ull, 1ull, 1ull << 32})
    for (std::uint64_t stream : {0ull, 1ull, 1ull << 32})
      for (std::uint64_t index : {0ull, 1ull, 1ull << 32}) words.insert(random_word(seed, stream, index));
  EXPECT_EQ(words.size(), 27u);
}

}  // namespace stochastic_test
