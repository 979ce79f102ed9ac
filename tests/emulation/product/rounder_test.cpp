// How sums and products are rounded, for every significand that a float can have, against the conversion of arrays
// (which tests of its own compare with rationals), with every instruction set of this CPU.
#include "products.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/product/kernels.hpp>
#include <halfulp/emulation/product/plan.hpp>

#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace halfulp {
namespace rounder_test {

using products::tile_size;

constexpr const char* modes[] = {"nearest-even", "toward-zero",     "toward-positive", "toward-negative",
                                 "nearest-away", "nearest-to-zero", "to-odd"};

DotModel model_of(const std::string& format, const std::string& mode) {
  return std::get<DotModel>(parse_product_model(format + ",round=" + mode));
}

/// out[i] = 0 + x[i], tile by tile, by the rule of a model's sums.
std::vector<float> sums(const DotModel& model, const std::vector<float>& x) {
  const auto plan = products::make_plan(model);
  EXPECT_TRUE(plan.has_value()) << product_model_name(model);
  std::vector<float> out(x.size());
  if (!plan) return out;
  const std::vector<float> zeros(tile_size);
  products::StepRule rule = plan->addend_rule();
  rule.sum.fix = products::Fix::none;
  const array::DefaultEnvironment environment;
  products::set_direction(rule.direction);
  for (std::size_t i = 0; i + tile_size <= x.size(); i += tile_size)
    products::add_tiles(rule, zeros.data(), x.data() + i, out.data() + i);
  return out;
}

TEST(Rounder, EverySignificandOfASum) {
  // All significands of a binade, the last ones of that below; of both signs.
  std::vector<float> x;
  const std::uint32_t two = std::bit_cast<std::uint32_t>(2.0f), step = check::exhaustive() ? 1 : 3;
  for (std::uint32_t bits = two - 4096; bits <= two + (1u << 23) + 4096; bits += bits - two < 1u << 16 ? 1 : step)
    for (const std::uint32_t sign : {0u, 0x8000'0000u}) x.push_back(std::bit_cast<float>(bits | sign));
  while (x.size() % tile_size != 0) x.push_back(2);
  // From 2 bits to more than `split` takes.
  for (const char* format :
       {"e6m1", "e6m2", "e6m3", "e6m4", "e6m5", "e6m6", "e6m7", "e6m8", "e6m9", "e6m10", "e6m11", "e5m12", "e3m12"})
    for (const char* mode : modes) {
      const DotModel model = model_of(format, mode);
      std::vector<float> want(x.size());
      quantize(model.accumulator.format, model.accumulator.rounding, std::span<const float>(x), std::span(want));
      for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        const auto plan = products::make_plan(model);
        EXPECT_TRUE(plan || model.accumulator.format.precision() > products::split_bits)
            << product_model_name(model) << ' ' << hwy::TargetName(target);
        const std::vector<float> got = plan ? sums(model, x) : want;
        EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
            << product_model_name(model) << ' ' << hwy::TargetName(target);
      }
      hwy::SetSupportedTargetsForTest(0);
    }
}

/// Products of `many` significands, the least and the largest of a format (all of fp16), against the conversion of
/// doubles, which hold them.
void compare_products(const char* format, const std::vector<int>& exponents) {
  constexpr std::size_t many = 1 << fp16.fraction_bits;
  std::vector<float> a(many), b(many), d(many * many), want(many * many);
  std::vector<double> exact(many * many), rounded(many * many);
  for (const char* mode : modes) {
    const DotModel model = model_of(format, mode);
    const int bits = model.input.fraction_bits;
    for (const int exponent : exponents) {
      const int of_a = exponent / 2, of_b = exponent - of_a;
      for (std::size_t i = 0; i < many; ++i) {
        const double below_one = i < many / 2 ? 0 : 1 - std::ldexp(1.0, 10 - bits),
                     significand = 1 + below_one + std::ldexp(static_cast<double>(i), -bits);
        a[i] = static_cast<float>(std::ldexp(i % 2 == 0 ? significand : -significand, of_a));
        b[i] = static_cast<float>(std::ldexp(-significand, of_b));
      }
      for (std::size_t i = 0; i < many; ++i)
        for (std::size_t j = 0; j < many; ++j) exact[i * many + j] = static_cast<double>(a[i]) * b[j];
      quantize(model.input, model.accumulator.rounding, std::span<const double>(exact), std::span(rounded));
      std::ranges::transform(rounded, want.begin(), [](double v) { return static_cast<float>(v); });
      for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        gemm(model, FloatOperands{many, many, 1, std::span<const float>(a), std::span<const float>(b)}, std::span(d));
        EXPECT_EQ(std::memcmp(d.data(), want.data(), d.size() * sizeof(float)), 0)
            << product_model_name(model) << ' ' << hwy::TargetName(target) << " 2^" << exponent;
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(Rounder, SignificandsOfProducts) {
  compare_products("fp16", {-26, -25, -20, -17, -16, -15, -14, -13, 0, 13, 14, 15});  // subnormal, normal, overflowing
  // As many bits as a split product can have, and more.
  for (const char* format : {"e6m10", "e6m11", "e6m12"}) compare_products(format, {-30, -29, 0});
}

}  // namespace rounder_test
}  // namespace halfulp
