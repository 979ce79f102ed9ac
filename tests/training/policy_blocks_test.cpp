// Products of operands in blocks under policies: block_gemm, PlainDots with scales, exact products; delayed scales over
// checkpoints.
#include "policy_cases.hpp"

#include <halfulp/emulation/block/product.hpp>
#include <halfulp/training/layers/initialisation.hpp>

#include <map>

namespace policy_blocks_test {

using namespace check;

/// Adds C and the bias after a product of blocks, and rounds to the result's format.
std::vector<float> finished(const Policy& policy, const Case& x, std::vector<float> d) {
  const Storage result = policy.at(x.site.kind, x.site.name).result(x.roles().d);
  for (std::size_t i = 0; i < d.size(); ++i) {
    if (!x.c.empty()) d[i] += x.c[i];
    if (!x.bias.empty()) d[i] += x.bias[i % x.n];
    d[i] = rounded(result, d[i]);
  }
  return d;
}

std::vector<float> floats(std::span<const std::uint64_t> codes) {
  std::vector<float> values;
  for (const std::uint64_t code : codes) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(code)));
  return values;
}

TEST(BlockProducts, OfDeepSeekAreBlockDots) {
  const Policy policy = find_policy("fp8-deepseek");
  BlockDot dot;
  dot.inside = find_unit("hopper.wgmma.e4m3.fp32");
  for (const Product which : all_products)
    for (const auto& size : {std::array<std::size_t, 3>{3, 130, 300}, {129, 2, 128}, {2, 3, 5}, {1, 1, 257}}) {
      const std::size_t m = size[0], n = size[1], k = size[2];
      Case x(fc1, which, m, n, k, m);
      const auto expected = [&] {
        const OperatorPrecision p = policy.at(x.site.kind, x.site.name);
        const BlockArray a = quantize_blocks(*p.operand(x.roles().a).block(), {}, x.rows_of_a(), m, k),
                         b = quantize_blocks(*p.operand(x.roles().b).block(), {}, x.rows_of_b(), n, k);
        std::vector<std::uint64_t> codes(m * n);
        block_gemm(dot, a, b, codes);
        return finished(policy, x, floats(codes));
      };
      SCOPED_TRACE(std::string(name_of(which)) + " k " + std::to_string(k));
      EXPECT_EQ(bits(product_of(policy, x)), bits(expected()));
      x.bias = numbers(n, 3);
      x.c = numbers(m * n, 4);
      EXPECT_EQ(bits(product_of(policy, x)), bits(expected()));
      x.a[k / 2] = std::numeric_limits<float>::infinity();
      x.b[0] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_EQ(bits(product_of(policy, x)), bits(expected()));
      // Segments that overflow to both infinities: the NaN is the canonical one.
      x.c.clear(), x.bias.clear();
      std::fill(x.b.begin(), x.b.end(), 1e30f);
      for (std::size_t i = 0; i < x.a.size(); ++i)
        x.a[i] = (which == Product::to_weight ? i / m : i % k) < 128 ? 1e30f : -1e30f;
      EXPECT_EQ(bits(product_of(policy, x)), bits(expected()));
    }
}

/// One scale per tensor, from earlier steps: codes by quantize_blocks, their sum by PlainDots, (sum sa) sb in fp32.
TEST(BlockProducts, OfHybridHaveDelayedScales) {
  const Policy policy = policy_of(R"("base": "fp8-hybrid", "rules": [{"operators": "linear", "operands": {
    "weight": {"format": "e4m3-tensor/multiplier", "delayed": {"length": 2}}, "activation": {"format": "e4m3-tensor", "delayed": {"length": 3, "choice": "most_recent", "margin": 1}},
    "gradient-of-activation": {"format": "e5m2-tensor/multiplier", "delayed": {"length": 2}}}}])");
  const OperatorPrecision p = policy.at(fc1.kind, fc1.name);
  std::map<Role, DelayedAmax> histories;
  for (const Role role : {Role::weight, Role::activation, Role::gradient_of_activation}) {
    const Storage& s = p.operand(role);
    histories.emplace(role, DelayedAmax(static_cast<float>(s.block()->element.target()), s.delayed->length,
                                        s.delayed->choice, s.delayed->margin));
  }
  PolicyNumerics numerics(policy, 1);
  for (std::uint64_t step = 0; step < 6; ++step) {
    numerics.begin_step(step);
    std::map<Role, float> seen;
    for (const Product which : all_products) {
      Case x(fc1, which, 4, 6, 37, 10 * step);
      for (float& v : x.a) v *= step == 3 ? 0.0f : std::ldexp(1.0f, static_cast<int>(step * 5 % 7));
      for (std::size_t i = 0; i < x.n; ++i) x.bias.push_back(0.25f);
      const Storage &sa = p.operand(x.roles().a), &sb = p.operand(x.roles().b);
      const auto quantized = [&](const Storage& s, Role role, const std::vector<float>& rows, std::size_t count) {
        BlockOptions options;
        options.amax = histories.at(role).amax();
        return quantize_blocks(*s.block(), {}, rows, count, x.k, options);
      };
      const BlockArray a = quantized(sa, x.roles().a, x.rows_of_a(), x.m),
                       b = quantized(sb, x.roles().b, x.rows_of_b(), x.n);
      seen[x.roles().a] = largest_magnitude(x.a), seen[x.roles().b] = largest_magnitude(x.b);
      DotModel model{sa.block()->element.format, Stage{fp32}, Stage{fp32}};
      model.input_b = sb.block()->element.format;
      PlainDots dots(model);
      std::vector<float> d;
      for (std::size_t i = 0; i < x.m; ++i)
        for (std::size_t j = 0; j < x.n; ++j) {
          const std::vector<std::uint64_t> row(a.codes.begin() + static_cast<std::ptrdiff_t>(i * x.k),
                                               a.codes.begin() + static_cast<std::ptrdiff_t>((i + 1) * x.k)),
              column(b.codes.begin() + static_cast<std::ptrdiff_t>(j * x.k),
                     b.codes.begin() + static_cast<std::ptrdiff_t>((j + 1) * x.k));
          const float sum = floats(std::vector{dots(row, column, {}, 0)})[0], of_a = a.step(0).value,
                      of_b = b.step(0).value;
          const float once = sum * of_a;
          d.push_back(once * of_b);
        }
      EXPECT_EQ(bits(product_of(numerics, x)), bits(finished(policy, x, d))) << step << ' ' << name_of(which);
    }
    numerics.end_step();
    for (const auto& [role, amax] : seen) histories.at(role).record(amax);
  }
}

/// Scales of few digits are folded into the elements: every product is exact in fp32, and sums follow k. The tensors'
/// scales come last.
TEST(BlockProducts, OfMicroscalingAreFp32SumsOfExactProducts) {
  for (const char* const name : {"mxfp8", "mxfp4", "nvfp4"})
    for (const Product which : all_products)
      for (const auto& size : {std::array<std::size_t, 3>{3, 17, 70}, {33, 2, 32}, {2, 2, 3}}) {
        const std::size_t m = size[0], n = size[1], k = size[2];
        const Policy policy = find_policy(name);
        const OperatorPrecision p = policy.at(fc1.kind, fc1.name);
        Case x(fc1, which, m, n, k, k);
        if (which == Product::forward) x.bias = numbers(n, 3);
        constexpr std::uint64_t seed = 11, step = 5;
        const auto taken = [&](Role role, const std::vector<float>& rows, std::size_t count, std::uint64_t number,
                               float& tensor) {
          const Storage& s = p.operand(role);
          BlockOptions options;
          options.random = {seed, stream_of("roundings", step), number << 40};
          BlockArray array = quantize_blocks(*s.block(), s.rounding, rows, count, k, options);
          tensor = std::exchange(array.tensor_scale, 1.0f);
          std::vector<float> values(rows.size());
          dequantize_blocks(array, values);
          return values;
        };
        float of_a = 0, of_b = 0;
        const std::vector<float> a = taken(x.roles().a, x.rows_of_a(), m, 0, of_a),
                                 b = taken(x.roles().b, x.rows_of_b(), n, 1, of_b);
        std::vector<float> d;
        for (std::size_t i = 0; i < m; ++i)
          for (std::size_t j = 0; j < n; ++j) {
            float sum = -0.0f;
            for (std::size_t l = 0; l < k; ++l) {
              const double exact = static_cast<double>(a[i * k + l]) * static_cast<double>(b[j * k + l]);
              ASSERT_EQ(exact, static_cast<double>(static_cast<float>(exact)));
              sum += static_cast<float>(exact);
            }
            sum = sum * of_a;
            d.push_back(sum * of_b);
          }
        EXPECT_EQ(of_a == 1, std::string(name) != "nvfp4");
        EXPECT_EQ(bits(product_of(policy, x, seed, step)), bits(finished(policy, x, d)))
            << name << ' ' << name_of(which) << ' ' << k;
      }
}

/// After any history (zeros, which leave no magnitude, Inf, NaN), a run that continues from the saved state computes
/// the same.
TEST(DelayedScales, GoOnFromACheckpoint) {
  const Policy policy = policy_of(R"("rules": [{"operators": "linear", "operands": {
    "weight": {"format": "e4m3-tensor", "delayed": {"length": 2, "choice": "most_recent"}}, "activation": {"format": "e4m3-tensor", "delayed": {"length": 2}},
    "gradient-of-activation": {"format": "e5m2-tensor", "delayed": {"length": 1}}}}])");
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  PolicyNumerics numerics(policy, 1);
  const float sizes[] = {8, 0.5f, 0, 0, 0, infinity, 3, nan, nan, 2, 100};
  for (std::uint64_t step = 0; step < std::size(sizes); ++step) {
    numerics.begin_step(step);
    std::vector<Case> cases;
    for (const Product which : all_products) {
      cases.emplace_back(fc1, which, 3, 4, 10, step);
      for (float& v : cases.back().a) v = v * (std::isfinite(sizes[step]) ? sizes[step] : 1);
      for (float& v : cases.back().b) v = v * (std::isfinite(sizes[step]) ? sizes[step] : 1);
      if (!std::isfinite(sizes[step])) cases.back().a[1] = cases.back().b[2] = sizes[step];
    }
    PolicyNumerics other(policy, 1);
    other.restore(parse_json(numerics.state().dump(), "state"), "state");
    EXPECT_EQ(other.state(), numerics.state());
    other.begin_step(step);
    for (const Case& x : cases) EXPECT_EQ(bits(product_of(numerics, x)), bits(product_of(other, x))) << step;
    numerics.end_step();
    other.end_step();
    EXPECT_EQ(other.state(), numerics.state()) << step;
  }
}

/// What rounding an operand into blocks of 32 did, by the definition of MX: scales 2^(floor(log2 amax) - emax), and an
/// element overflows beyond `most` of them, half a place above the largest. FP4 has no NaN: it is the scale's.
void expect_counts(const char* format, int emax, double most) {
  SCOPED_TRACE(format);
  const std::size_t rows = 37, k = 150;
  std::vector<float> values = numbers(rows * k, 9);
  for (std::size_t i = 0; i < values.size(); i += 7) values[i] = std::ldexp(values[i], -18);
  values[3 * k + 40] = std::numeric_limits<float>::quiet_NaN();
  Tally expected, tally;
  PolicyOperand operand;
  operand.take({BlockFormat(parse_block_format(format))}, values, rows, k, false, {1, 2, 3}, {}, &tally);
  std::vector<float> after;
  operand.values(rows, k, after);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t first = 0; first < k; first += 32) {
      float amax = 0;
      bool nan = false;
      const std::size_t last = std::min(k, first + 32);
      for (std::size_t j = first; j < last; ++j)
        nan |= std::isnan(values[i * k + j]), amax = std::max(amax, std::fabs(values[i * k + j]));
      for (std::size_t j = first; j < last; ++j) {
        const double v = static_cast<double>(values[i * k + j]);
        expected.nan += nan;
        expected.overflow += !nan && amax > 0 && std::fabs(v) > most * std::ldexp(1.0, std::ilogb(amax) - emax);
        expected.to_zero += !nan && v != 0 && after[i * k + j] == 0;
      }
    }
  EXPECT_EQ(tally.elements, values.size());
  EXPECT_EQ(tally.nan, expected.nan);
  EXPECT_EQ(tally.overflow, expected.overflow);
  EXPECT_EQ(tally.to_zero, expected.to_zero);
  EXPECT_EQ(tally.nan, 32u);
  EXPECT_GT(tally.overflow, 20u);
  EXPECT_GT(tally.to_zero, 20u);
}

TEST(BlockOperands, AreCounted) {
  expect_counts("mxfp8e4m3", 8, 464);
  expect_counts("mxfp4", 2, 7);
}

}  // namespace policy_blocks_test
