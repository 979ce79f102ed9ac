// Stochastic rounding where kernels have fast ways: of normal numbers, and of results that floats hold exactly. Special
// elements stand among ordinary ones, at every place of a vector and of a block, and none is rounded by the wrong way.
#include "array_cases.hpp"

#include <halfulp/emulation/array/pieces.hpp>

#include <cmath>

namespace array_stochastic_test {

using namespace halfulp;
using namespace check;

std::vector<Rounding> stochastic_roundings() {
  std::vector<Rounding> all;
  for (const Rounding& r : roundings())
    if (r.mode == RoundingMode::stochastic) all.push_back(r);
  return all;
}

std::string text(const FloatFormat& f, const Rounding& r) {
  return format_name(f) + " " + std::string(name_of(r.overflow)) + " flush " + std::to_string(r.flush_inputs) +
         std::to_string(r.flush_outputs) + " bits " + std::to_string(r.random_bits);
}

/// Numbers of any bits around the ends of the format's normal range, zeros, infinities, NaN, subnormal floats.
std::vector<float> edges(const FloatFormat& f) {
  std::vector<float> all;
  for (const double x : {f.value(f.min_normal()), f.value(f.max_finite()), 0x1p-126, f.value(f.min_normal()) / 2,
                         f.value(f.max_finite()) * 2, 1.0}) {
    const auto at = std::bit_cast<std::uint32_t>(static_cast<float>(x));
    for (const std::uint32_t bits : {at - 1, at, at + 1}) all.push_back(std::bit_cast<float>(bits));
  }
  all.insert(all.end(), {0.0f, 1e-45f, 1e-40f, std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max()});
  const std::size_t positive = all.size();
  for (std::size_t i = 0; i < positive; ++i) all.push_back(-all[i]);
  return all;
}

TEST_P(Arrays, stochastic_rounding_of_normal_numbers_and_a_few_others) {
  for (const auto& name : {"fp16", "e5m2", "e5m10p3109", "e6m9finite", "e5m2fnuz", "e4m3", "e5m1"}) {
    const FloatFormat f = parse_format(name);
    Random random{31};
    // Groups of 64 normal numbers, in all but one of two one of the edges, at each place in turn.
    std::vector<float> in;
    const std::vector<float> special = edges(f);
    for (std::size_t group = 0; group < 64 * 2 + special.size() * 6; ++group) {
      for (int i = 0; i < 64; ++i) {
        const auto exponent = static_cast<std::uint32_t>(127 + f.emin() + static_cast<int>(random() % 5));
        in.push_back(std::bit_cast<float>(exponent << 23 | static_cast<std::uint32_t>(random() & 0x807f'ffff)));
      }
      if (group % 2) in[in.size() - 64 + (group / 2) % 64] = special[group / 2 % special.size()];
    }
    std::vector<float> out(in.size());
    std::vector<std::uint16_t> codes(in.size());
    std::vector<std::uint8_t> bytes(f.storage_bits() <= 8 ? in.size() : 0);
    for (const Rounding& r : stochastic_roundings()) {
      quantize(f, r, in, out, stream);
      encode<float, std::uint16_t>(f, r, in, codes, stream);
      if (!bytes.empty()) encode<float, std::uint8_t>(f, r, in, bytes, stream);
      Rounding back;
      back.nan = r.nan;
      for (std::size_t i = 0; i < in.size(); ++i) {
        const std::uint64_t wanted = convert(fp32, f, r, std::bit_cast<std::uint32_t>(in[i]), bits_at(i)).code;
        ASSERT_EQ(codes[i], wanted) << text(f, r) << std::hexfloat << " " << in[i];
        if (!bytes.empty()) { ASSERT_EQ(bytes[i], wanted) << text(f, r) << std::hexfloat << " " << in[i]; }
        ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]), convert(f, fp32, back, wanted).code)
            << text(f, r) << std::hexfloat << " " << in[i];
      }
    }
  }
}

/// Operands whose sums, differences and products floats hold: few exponents around 1.
struct Operands {
  std::vector<std::uint32_t> a, b, c;
  explicit Operands(const FloatFormat& f, std::size_t count) {
    Random random{32};
    const auto draw = [&] {
      const std::uint64_t one = convert(fp32, f, {}, 0x3f80'0000).code, fields = f.precision() <= 4 ? 3 : 2;
      const std::uint64_t code = one + ((random() % fields) << f.fraction_bits) + (random() & f.fraction_mask());
      return static_cast<std::uint32_t>(code | (random() & 1 ? f.sign_mask() : 0));
    };
    for (std::size_t i = 0; i < count; ++i) a.push_back(draw()), b.push_back(draw()), c.push_back(draw());
    for (std::size_t i = 5; i < count; i += 7) b[i] = a[i] ^ static_cast<std::uint32_t>(f.sign_mask());  // cancels
    const std::uint64_t zeros[] = {0, f.has_negative_zero() ? f.sign_mask() : 0};
    for (std::size_t i = 6; i < count; i += 11) a[i] = static_cast<std::uint32_t>(zeros[random() & 1]);
  }
};

bool floats_hold(Operation operation, const FloatFormat& f, const Operands& x) {
  using array::lane_padding;
  std::vector<float> a(x.a.size()), b(a.size()), c(a.size()), out(a.size() + lane_padding);
  decode<std::uint32_t>(f, x.a, a), decode<std::uint32_t>(f, x.b, b), decode<std::uint32_t>(f, x.c, c);
  for (auto* v : {&a, &b, &c}) v->resize(out.size());
  return array::combine_exact_lanes(operation, a.data(), b.data(), c.data(), out.data(), x.a.size());
}

constexpr Operation sums_and_products[] = {Operation::add, Operation::sub, Operation::mul, Operation::fma};

TEST_P(Arrays, stochastic_arithmetic_whose_results_floats_hold) {
  constexpr std::size_t block = array::block_size, count = 3 * block + 5;
  for (const auto& name : {"fp16", "bf16", "tf32", "e5m2", "e4m3", "e8m7b95", "e8m3b110", "e7m2fnuz"}) {
    const FloatFormat f = parse_format(name);
    const Operands ordinary(f, count);
    for (const Operation operation : sums_and_products) {
      if (operation != Operation::fma || f.precision() <= 4) {
        ASSERT_TRUE(floats_hold(operation, f, ordinary)) << info(operation).name << " " << name;
      }
      for (const Rounding& r : stochastic_roundings())
        expect_like_evaluate<std::uint32_t>(f, operation, r, ordinary.a, ordinary.b, ordinary.c);
    }
  }
}

TEST_P(Arrays, stochastic_arithmetic_whose_results_floats_hold_but_one) {
  constexpr std::size_t block = array::block_size, count = 2 * block + 9;
  for (const auto& name : {"fp16", "bf16", "tf32", "e5m2", "e4m3", "e8m7b95"}) {
    const FloatFormat f = parse_format(name);
    const Operands ordinary(f, count);
    const auto code = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    const std::uint32_t extreme[] = {code(f.max_finite()),
                                     code(f.max_finite() | f.sign_mask()),
                                     1,
                                     code(f.min_normal()),
                                     code(f.min_normal() | 1),
                                     code(f.max_finite() + 1),
                                     code(f.code_mask()),
                                     0};
    Random random{33};
    for (const std::uint32_t x : extreme)
      for (const std::uint32_t y : extreme) {
        Operands some = ordinary;
        const std::size_t at = block + random() % block;  // the blocks before and after hold nothing special
        some.a[at] = x, some.b[at] = y, some.c[at] = random() & 1 ? x : y;
        for (const Operation operation : sums_and_products)
          for (const Overflow overflow : {Overflow::ieee, Overflow::saturate})
            expect_like_evaluate<std::uint32_t>(f, operation, {.mode = RoundingMode::stochastic, .overflow = overflow},
                                                some.a, some.b, some.c);
        if (testing::Test::HasFailure()) return;
      }
  }
}

/// The first index whose word is one of [2^32 - most, 2^32 - least).
std::uint64_t index_of_word(std::uint64_t least, std::uint64_t most) {
  std::uint64_t i = 0;
  for (const std::uint64_t end = std::uint64_t{1} << 32;; ++i) {
    const std::uint64_t word = rounding_bits(stream.seed, stream.stream, i);
    if (word >= end - most && word < end - least) return i;
  }
}

constexpr Rounding stochastic{.mode = RoundingMode::stochastic};

/// A large number and one so small that a float's sum of both is 2^(p - 24) instead of 5/8 of it above the large one.
/// The word lies between what these need in order to carry.
TEST_P(Arrays, stochastic_sums_that_bits_below_a_float_decide) {
  constexpr std::size_t at = array::block_size + 100, count = 2 * array::block_size;
  for (const auto& name : {"fp16", "bf16", "tf32", "e5m3"}) {
    const FloatFormat f = parse_format(name);
    const int p = f.precision();
    const auto code = [&](double x) { return static_cast<std::uint32_t>(encode(f, Rounding{}, x).code); };
    const double large = std::ldexp(1, p - 1), small = std::ldexp(1.25, p - 25);
    const std::uint64_t unit = std::uint64_t{1} << (p + 7);  // 2^(p - 25) as a fraction of 2^32
    const std::uint64_t index = index_of_word(unit + unit / 4, 2 * unit);
    const RandomStream here{stream.seed, stream.stream, index - at};
    const std::vector<std::uint32_t> ones(count, code(1));
    const auto result = [&](Operation operation, double x, double y, double z) {
      std::vector<std::uint32_t> a = ones, b = ones, c = ones, out(count);
      a[at] = code(x), b[at] = code(y), c[at] = code(z);
      const std::span<const std::uint32_t> third = c, none;
      apply<std::uint32_t>(operation, f, stochastic, a, b, operation == Operation::fma ? third : none, out, here);
      EXPECT_EQ(out[at], evaluate(operation, f, stochastic, a[at], b[at], c[at], here.bits(at)).code)
          << info(operation).name << " " << name;
      return f.value(out[at]);
    };
    if (p > 4) {
      EXPECT_EQ(result(Operation::add, large, small, 0), large);
      EXPECT_EQ(result(Operation::sub, -large, small, 0), -large);
    } else {
      EXPECT_EQ(result(Operation::fma, std::ldexp(1.25, -10), std::ldexp(1, p - 15), large), large);
    }
  }
}

/// The largest value and a float's last place: seldom one carries, and then it overflows.
TEST_P(Arrays, stochastic_rounding_of_what_hardly_overflows) {
  constexpr std::size_t at = 77, count = 200;
  for (const auto& name : {"fp16", "e5m2", "e5m3"}) {
    const FloatFormat f = parse_format(name);
    const std::uint64_t unit = std::uint64_t{1} << (8 + f.precision());
    const RandomStream here{stream.seed, stream.stream, index_of_word(0, unit) - at};
    std::vector<float> in(count, 1.5f), out(count);
    in[at] = std::nextafter(static_cast<float>(f.value(f.max_finite())), 1e30f);
    std::vector<std::uint16_t> codes(count);
    quantize(f, stochastic, in, out, here);
    encode<float, std::uint16_t>(f, stochastic, in, codes, here);
    EXPECT_TRUE(std::isinf(out[at])) << name << " " << out[at];
    EXPECT_EQ(codes[at], f.infinity()) << name;
  }
}

/// What floats do not hold exactly is told, in any lane.
TEST_P(Arrays, inexact_results_are_seen) {
  constexpr float max = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min(),
                  infinity = std::numeric_limits<float>::infinity();
  struct Case {
    Operation operation;
    float a, b, c;
    bool exact;
  };
  const Case cases[] = {
      {Operation::add, 1, 0x1p-23f, 0, true},
      {Operation::add, 1, 0x1p-24f, 0, false},
      {Operation::add, max, max, 0, false},
      {Operation::sub, 1, 0x1p-24f, 0, true},
      {Operation::sub, 1, 0x1p-25f, 0, false},
      {Operation::sub, infinity, infinity, 0, false},
      {Operation::mul, 0x1p-63f, 0x1p-63f, 0, true},
      {Operation::mul, 0x1p-63f, 0x1p-64f, 0, false},
      {Operation::mul, least, least, 0, false},
      {Operation::mul, least, 0, 0, true},
      {Operation::mul, -0x1p64f, 0x1p64f, 0, false},
      {Operation::mul, infinity, 0, 0, false},
      {Operation::fma, 3, 5, 0x1p-20f, true},
      {Operation::fma, 3, 5, 0x1p-21f, false},
      {Operation::fma, 0x1p-63f, 0x1p-64f, 1, false},
      {Operation::fma, 0x1p64f, 0x1p64f, -max, false},
      {Operation::fma, 2, 3, -6, true},
      {Operation::fma, 2, 3, infinity, false},
  };
  constexpr std::size_t count = 70;
  for (const Case& x : cases)
    for (std::size_t at = 0; at < count; ++at) {
      std::vector<float> a(count + array::lane_padding, 1.5f), b(a), c(a), out(a);
      a[at] = x.a, b[at] = x.b, c[at] = x.c;
      ASSERT_EQ(array::combine_exact_lanes(x.operation, a.data(), b.data(), c.data(), out.data(), count), x.exact)
          << info(x.operation).name << " " << std::hexfloat << x.a << " " << x.b << " " << x.c << " at " << at;
    }
}

}  // namespace array_stochastic_test
