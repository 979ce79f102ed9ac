// Arithmetic of 8-bit formats where nothing is special: all operands are finite, and no result overflows. Kernels have
// fast ways for these. Where the CPU has AVX512-FP16, the ways go through fp16 (array/half.hpp).
#include "array_cases.hpp"

#include <halfulp/emulation/array/half-inl.hpp>
#include <halfulp/emulation/array/half.hpp>

namespace halfulp {
namespace array_half_test {

using check::Arrays;

using Codes = std::vector<std::uint8_t>;

/// All pairs of finite operands, and a third one, whose results are finite and do not overflow.
struct Ordinary {
  Codes a, b, c, results;
  Ordinary(Operation op, const FloatFormat& f, const Rounding& rounding) {
    check::Random random{7};
    for (std::uint64_t x = 0; x <= f.code_mask(); ++x)
      for (std::uint64_t y = 0; y <= f.code_mask(); ++y) {
        const std::uint64_t z = random() & f.code_mask();
        if (!f.is_finite(x) || !f.is_finite(y) || !f.is_finite(z)) continue;
        const Rounded r = evaluate(op, f, rounding, x, y, z);
        if (!f.is_finite(r.code) || (r.flags & flag::overflow)) continue;
        a.push_back(static_cast<std::uint8_t>(x)), b.push_back(static_cast<std::uint8_t>(y));
        c.push_back(static_cast<std::uint8_t>(z)), results.push_back(static_cast<std::uint8_t>(r.code));
      }
  }
};

TEST_P(Arrays, arithmetic_on_ordinary_pairs_of_narrow_formats) {
  std::size_t compared = 0;
  std::vector<FloatFormat> formats = check::formats();
  formats.push_back(parse_format("e3m4finite"));  // its sums have the most bits
  for (const FloatFormat& f : formats) {
    if (f.storage_bits() > 8 || !f.has_zero) continue;
    for (const Operation op : {Operation::add, Operation::sub, Operation::mul, Operation::fma})
      for (const auto& mode : rounding_modes) {
        Rounding rounding;
        rounding.mode = mode.value;
        if (rounding.mode == RoundingMode::stochastic) continue;
        const Ordinary x(op, f, rounding);
        Codes out(x.a.size());
        const std::span<const std::uint8_t> none, third = op == Operation::fma ? std::span(x.c) : none;
        apply<std::uint8_t>(op, f, rounding, x.a, x.b, third, out);
        compared += out.size();
        for (std::size_t i = 0; i < out.size(); ++i)
          ASSERT_EQ(out[i], x.results[i]) << format_name(f) << ' ' << info(op).name << ' ' << mode.name << std::hex
                                          << ' ' << +x.a[i] << ' ' << +x.b[i] << ' ' << +x.c[i];
      }
  }
  EXPECT_GT(compared, 14'000'000u);
}

/// Runs of special operands between ordinary ones, of every length; results over the first operand.
TEST_P(Arrays, arithmetic_of_narrow_formats_in_place) {
  check::Random random{8};
  for (const auto& name : {"e4m3", "e5m2", "e3m4"}) {
    const FloatFormat f = parse_format(name);
    for (const Operation op : {Operation::add, Operation::mul, Operation::fma})
      for (int round = 0; round < 40; ++round) {
        Codes a(200 + random() % 1000), b(a.size()), c(a.size());
        std::size_t special = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
          if (i % 32 == 0) special = random() % 3;
          const auto draw = [&] {
            const std::uint64_t code = random() & f.code_mask();
            return static_cast<std::uint8_t>(special == 0 ? code
                                                          : code & ~(std::uint64_t{1} << (f.storage_bits() - 2)));
          };
          a[i] = draw(), b[i] = draw(), c[i] = draw();
        }
        Codes wanted(a.size());
        for (std::size_t i = 0; i < a.size(); ++i)
          wanted[i] = static_cast<std::uint8_t>(evaluate(op, f, {}, a[i], b[i], c[i]).code);
        const std::span<const std::uint8_t> none, third = op == Operation::fma ? std::span(c) : none;
        apply<std::uint8_t>(op, f, {}, a, b, third, a);
        ASSERT_EQ(a, wanted) << name << ' ' << info(op).name;
      }
  }
}

TEST(HalfLanes, serve_where_the_cpu_has_them) {
#if HALFULP_HALF_LANES
  if (!__builtin_cpu_supports("avx512fp16")) GTEST_SKIP() << "this CPU has no AVX512-FP16";
  EXPECT_TRUE(array::has_half_lanes());
  for (const auto& name : {"e4m3", "e5m2", "e3m4", "e4m3ieee", "p3109k8p4", "e2m3", "e3m2", "e2m1"}) {
    if (!parse_format(name).has_negative_zero()) continue;
    EXPECT_TRUE(array::half_plan(Operation::mul, parse_format(name), {})) << name;
  }
  EXPECT_FALSE(array::half_plan(Operation::mul, bf16, {}));
  EXPECT_FALSE(array::half_plan(Operation::add, parse_format("e5m2fnuz"), {}));
#else
  GTEST_SKIP() << "this compiler does not know AVX512-FP16";
#endif
}

}  // namespace array_half_test
}  // namespace halfulp
