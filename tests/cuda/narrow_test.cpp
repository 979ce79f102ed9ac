// One float by the plan of the array functions (cuda/narrow.hpp), against the array functions; kernels of GPUs in
// rehearsal.
#include "check.hpp"

#include <halfulp/cuda/rehearsal.hpp>
#include <halfulp/emulation/array/array.hpp>

#include <cstring>

namespace narrow_test {

using namespace halfulp;
using cuda::narrow_by_mode;
using cuda::NarrowResult;

std::vector<FloatFormat> formats() {
  return {fp16,
          bf16,
          tf32,
          e4m3,
          e5m2,
          e4m3fnuz,
          e5m2fnuz,
          e3m4,
          e3m2,
          e2m3,
          e2m1,
          FloatFormat{5, 3, 15, NonFinite::p3109},
          FloatFormat{8, 2, 127, NonFinite::ieee}};
}

std::vector<Rounding> roundings() {
  std::vector<Rounding> all;
  for (const auto& mode : rounding_modes)
    for (const auto& overflow : overflow_rules)
      for (const bool flush : {false, true}) {
        Rounding r;
        r.mode = mode.value;
        r.overflow = overflow.value;
        r.flush_inputs = flush;
        r.flush_outputs = flush && mode.value != RoundingMode::stochastic;
        r.nan = flush ? NanRule::cuda : NanRule::canonical;
        r.random_bits = flush ? 11 : 32;
        all.push_back(r);
      }
  return all;
}

/// Floats at, beside and between the values of a format, random ones, and every float with HALFULP_EXHAUSTIVE.
std::vector<float> floats(const FloatFormat& f, std::size_t count) {
  std::vector<float> x;
  const auto add = [&](float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (const std::uint32_t near : {bits - 1, bits, bits + 1}) {
      x.push_back(std::bit_cast<float>(near));
      x.push_back(-std::bit_cast<float>(near));
    }
  };
  for (const std::uint64_t code : check::lattice(f, 1)) {
    if (!f.is_finite(code)) continue;
    const double value = f.value(code), last = FloatFormat::power_of_two(f.exponent(code));
    add(static_cast<float>(value));
    add(static_cast<float>(value + last / 2));
  }
  check::Random random{count};
  while (x.size() < count) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (const std::uint32_t bits :
       {0x7f80'0000u, 0x7f80'0001u, 0x7fc0'0000u, 0x7fff'ffffu, 0x7f7f'ffffu, 1u, 0x007f'ffffu, 0u})
    add(std::bit_cast<float>(bits));
  return x;
}

TEST(NarrowNumber, IsQuantizeAndEncode) {
  std::uint64_t compared = 0;
  for (const FloatFormat& f : formats())
    for (const Rounding& r : roundings()) {
      const auto plan = array::narrow_plan<float>(f, r, array::Source::conversion);
      if (!plan) continue;
      const std::vector<float> x = floats(f, 20'000);
      const RandomStream stream{7, 3, 5, r.random_bits <= 16 ? 2 : 1};
      std::vector<float> values(x.size());
      std::vector<std::uint32_t> codes(x.size());
      quantize(f, r, std::span<const float>(x), std::span<float>(values), stream);
      encode<float, std::uint32_t>(f, r, x, codes, stream);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(x[i]), random = stream.bits(i);
        ASSERT_EQ(narrow_by_mode<NarrowResult::value>(*plan, bits, random), std::bit_cast<std::uint32_t>(values[i]))
            << format_name(f) << ' ' << check::Differences::describe(r) << std::hex << " of " << bits;
        ASSERT_EQ(narrow_by_mode<NarrowResult::code>(*plan, bits, random), codes[i])
            << format_name(f) << ' ' << check::Differences::describe(r) << std::hex << " of " << bits;
        ++compared;
      }
    }
  EXPECT_GT(compared, 2'000'000u);
}

TEST(NarrowNumber, IsRightOnEveryFloat) {
  if (!check::exhaustive()) GTEST_SKIP() << "2^32 floats a format and mode: HALFULP_EXHAUSTIVE=1";
  constexpr std::size_t block = 1 << 20;
  std::vector<float> x(block), values(block);
  for (const FloatFormat& f : {fp16, bf16, e4m3, e5m2, e2m1})
    for (const auto& mode : rounding_modes) {
      if (mode.value == RoundingMode::stochastic) continue;
      const Rounding r{.mode = mode.value};
      const auto plan = *array::narrow_plan<float>(f, r, array::Source::conversion);
      std::uint64_t differing = 0;
      for (std::uint64_t begin = 0; begin < std::uint64_t{1} << 32; begin += block) {
        for (std::size_t i = 0; i < block; ++i) x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(begin + i));
        quantize(f, r, std::span<const float>(x), std::span<float>(values));
        for (std::size_t i = 0; i < block; ++i)
          differing += narrow_by_mode<NarrowResult::value>(plan, static_cast<std::uint32_t>(begin + i)) !=
                       std::bit_cast<std::uint32_t>(values[i]);
      }
      EXPECT_EQ(differing, 0u) << format_name(f) << ' ' << mode.name;
    }
}

TEST(Widen, IsDecode) {
  for (const FloatFormat& f : formats()) {
    const auto plan = array::widen_plan(f, false);
    if (!plan) continue;
    std::vector<std::uint32_t> codes;
    for (std::uint64_t code = 0; code <= f.code_mask() && code < 1 << 19; ++code)
      codes.push_back(static_cast<std::uint32_t>(code));
    std::vector<float> values(codes.size());
    decode<std::uint32_t>(f, codes, values);
    for (std::size_t i = 0; i < codes.size(); ++i)
      ASSERT_EQ(cuda::widen(*plan, codes[i]), std::bit_cast<std::uint32_t>(values[i]))
          << format_name(f) << std::hex << ' ' << codes[i];
  }
}

TEST(NarrowOnADevice, TakesEveryWidthAndStartingNumber) {
  const auto gpu = cuda::make_rehearsal({});
  const Rounding r{.mode = RoundingMode::stochastic};
  const std::vector<float> x = floats(e4m3, 3000);
  for (const std::uint64_t first : {0, 1, 4, 6}) {
    cuda::NarrowArgs args;
    args.plan = *array::narrow_plan<float>(e4m3, r, array::Source::conversion);
    args.random = {1, 2, first};
    args.in = x.data();
    args.count = x.size();
    std::vector<float> values(x.size()), want_values(x.size());
    args.out = values.data();
    gpu->kernels().narrow(cuda::Lane::first, args);
    quantize(e4m3, r, std::span<const float>(x), std::span<float>(want_values), args.random);
    EXPECT_EQ(std::memcmp(values.data(), want_values.data(), values.size() * sizeof(float)), 0);
    std::vector<std::uint8_t> codes(x.size()), want_codes(x.size());
    args.out = codes.data();
    args.bytes = 1;
    gpu->kernels().narrow(cuda::Lane::first, args);
    encode<float, std::uint8_t>(e4m3, r, x, want_codes, args.random);
    EXPECT_EQ(codes, want_codes);
    cuda::WidenArgs back;
    back.plan = *array::widen_plan(e4m3, false);
    back.in = codes.data();
    back.bytes = 1;
    back.out = values.data();
    back.count = x.size();
    gpu->kernels().widen(cuda::Lane::first, back);
    decode<std::uint8_t>(e4m3, codes, want_values);
    EXPECT_EQ(std::memcmp(values.data(), want_values.data(), values.size() * sizeof(float)), 0);
  }
}

}  // namespace narrow_test
