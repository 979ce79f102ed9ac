// Products, casts and sums under policies, against independent definitions: scalar conversions, PlainDots, block_gemm.
#include "check.hpp"

#include <halfulp/emulation/block/dot.hpp>
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/experiments/training/microscope.hpp>
#include <halfulp/experiments/training/policy_numerics.hpp>
#include <halfulp/experiments/training/streams.hpp>
#include <halfulp/formats/block_catalogue.hpp>

#include <tbb/global_control.h>

#include <bit>
#include <cmath>
#include <limits>

using namespace halfulp;
using namespace halfulp::training;

namespace {

using Operands = Numerics<float>::Operands;

Policy policy_of(const std::string& members) { return parse_policy(parse_json(R"({"name": "mine", )" + members + "}", "test"), "mine"); }

std::vector<std::uint32_t> bits(std::span<const float> values) {
  std::vector<std::uint32_t> all;
  for (const float v : values) all.push_back(std::bit_cast<std::uint32_t>(v));
  return all;
}

/// Magnitudes over eleven powers of two, zeros among them.
std::vector<float> numbers(std::size_t count, std::uint64_t seed, float size = 1) {
  check::Random random{seed};
  std::vector<float> values(count);
  for (float& v : values) {
    const std::uint64_t r = random();
    const double fraction = static_cast<double>(static_cast<std::int64_t>(r)) / 9.3e18;
    v = r % 19 == 0 ? 0.0f : size * static_cast<float>(std::ldexp(fraction, static_cast<int>(r >> 3 & 7) - 6));
  }
  return values;
}

/// One product in the layout in which a dense layer asks for it.
struct Case {
  Site site;
  Product which;
  std::size_t m, n, k;
  std::vector<float> a, b, c = {}, bias = {};
  Case(Site its_site, Product its_which, std::size_t its_m, std::size_t its_n, std::size_t its_k, std::uint64_t seed = 1)
      : site(its_site), which(its_which), m(its_m), n(its_n), k(its_k), a(numbers(m * k, seed)), b(numbers(k * n, seed + 1000, 0.5f)) {}
  Operands operands() const {
    Operands x;
    x.m = m, x.n = n, x.k = k, x.a = a, x.b = b, x.c = c;
    x.transpose_a = which == Product::to_weight;
    x.transpose_b = which == Product::forward;
    return x;
  }
  ProductRoles roles() const { return roles_of(site.kind, which); }
  /// A as m rows along k, B as n rows along k.
  std::vector<float> rows_of_a() const {
    std::vector<float> rows(a.size());
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t l = 0; l < k; ++l) rows[i * k + l] = a[which == Product::to_weight ? l * m + i : i * k + l];
    return rows;
  }
  std::vector<float> rows_of_b() const {
    std::vector<float> rows(b.size());
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t l = 0; l < k; ++l) rows[j * k + l] = b[which == Product::forward ? j * k + l : l * n + j];
    return rows;
  }
};

std::vector<float> product_of(PolicyNumerics& numerics, const Case& x) {
  std::vector<float> d(x.m * x.n, -7.0f);
  numerics.product(x.site, x.which, x.operands(), x.bias, d);
  return d;
}
std::vector<float> product_of(const Policy& policy, const Case& x, std::uint64_t seed = 1, std::uint64_t step = 0, Observer* observer = nullptr) {
  PolicyNumerics numerics(policy, seed, observer);
  numerics.begin_step(step);
  return product_of(numerics, x);
}

std::uint64_t code_of(const FloatFormat& f, const Rounding& rounding, float v, std::uint64_t random = 0) {
  return convert(fp32, f, rounding, std::bit_cast<std::uint32_t>(v), random).code;
}
float rounded(const Storage& s, float v) {
  const float r = static_cast<float>(s.plain()->value(code_of(*s.plain(), s.rounding, v)));
  return r != r ? std::numeric_limits<float>::quiet_NaN() : r;
}

/// Plain formats: single conversions, PlainDots, then the bias and the conversion of the result.
std::vector<float> expected_plain(const Policy& policy, const Case& x, const DotModel& sums) {
  const OperatorPrecision p = policy.at(x.site.kind, x.site.name);
  const Storage &sa = p.operand(x.roles().a), &sb = p.operand(x.roles().b);
  DotModel model = sums;
  model.input = *sa.plain();
  model.input_b = *sb.plain();
  PlainDots dots(model);
  const std::vector<float> a = x.rows_of_a(), b = x.rows_of_b();
  std::vector<float> d;
  for (std::size_t i = 0; i < x.m; ++i)
    for (std::size_t j = 0; j < x.n; ++j) {
      std::vector<std::uint64_t> row, column;
      for (std::size_t l = 0; l < x.k; ++l) {
        row.push_back(code_of(*sa.plain(), sa.rounding, a[i * x.k + l]));
        column.push_back(code_of(*sb.plain(), sb.rounding, b[j * x.k + l]));
      }
      std::optional<std::uint64_t> c;
      if (!x.c.empty()) c = code_of(model.result(), {}, x.c[i * x.n + j]);
      float sum = static_cast<float>(model.result().value(dots(row, column, c, 0)));
      if (!x.bias.empty()) sum += x.bias[j];
      d.push_back(rounded(p.result(x.roles().d), sum));
    }
  return d;
}

constexpr Product all_products[] = {Product::forward, Product::to_input, Product::to_weight};
const Site fc1{OperatorKind::linear, "fc1"};

TEST(PlainProducts, AreSingleConversionsAndPlainDots) {
  DotModel in_fp32{fp32, Stage{fp32}, Stage{fp32}};
  DotModel in_fp16{fp32, Stage{parse_format("fp16")}, Stage{parse_format("fp16")}}, in_bf16{fp32, Stage{parse_format("bf16")}, Stage{parse_format("bf16")}};
  DotModel blocked{fp32, {}, Stage{fp32}};
  blocked.order = Order::blocked, blocked.block = 4;
  const Policy mixed = policy_of(R"("rules": [{"operators": "all", "operands": {"weight": {"format": "e4m3", "overflow": "saturate"}, "activation": "e5m2",
    "gradient-of-activation": {"format": "fp16", "rounding": "toward-zero"}}, "accumulate": "mul=exact,acc=fp32,order=blocked:4",
    "results": {"activation": "bf16", "gradient-of-activation": {"format": "fp16", "flush_outputs": true}, "gradient-of-weight": "tf32"}}])");
  const std::pair<Policy, DotModel> cases[] = {{find_policy("fp32"), in_fp32}, {find_policy("amp-fp16"), in_fp32}, {find_policy("amp-bf16"), in_fp32}, {find_policy("pure-fp16"), in_fp32},
                                               {find_policy("strict-fp16"), in_fp16}, {find_policy("strict-bf16"), in_bf16}, {mixed, blocked}};
  for (const auto& [policy, model] : cases)
    for (const OperatorKind kind : {OperatorKind::linear, OperatorKind::attention_scores, OperatorKind::attention_values})
      for (const Product which : all_products) {
        Case x({kind, "fc1"}, which, 5, 7, 33);
        SCOPED_TRACE(policy.name + " " + std::string(name_of(kind)) + " " + std::string(name_of(which)));
        EXPECT_EQ(bits(product_of(policy, x)), bits(expected_plain(policy, x, model)));
        if (which == Product::forward) x.bias = numbers(x.n, 9);
        EXPECT_EQ(bits(product_of(policy, x)), bits(expected_plain(policy, x, model)));
        for (const float v : numbers(x.m * x.n, 10)) x.c.push_back(rounded({parse_format("bf16")}, v));
        if (policy.name != "strict-fp16") { EXPECT_EQ(bits(product_of(policy, x)), bits(expected_plain(policy, x, model))); }
        x.a[3] = std::numeric_limits<float>::infinity();
        x.b[5] = 1e38f;
        EXPECT_EQ(bits(product_of(policy, x)), bits(expected_plain(policy, x, model)));
      }
}

/// What is added after a product of blocks, and the result's format.
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
  dot.unit = &find_unit("hopper.wgmma.e4m3.fp32");
  for (const Product which : all_products)
    for (const auto& [m, n, k] : {std::array<std::size_t, 3>{3, 130, 300}, {129, 2, 128}, {2, 3, 5}, {1, 1, 257}}) {
      Case x(fc1, which, m, n, k, m);
      const auto expected = [&] {
        const OperatorPrecision p = policy.at(x.site.kind, x.site.name);
        const BlockArray a = quantize_blocks(*p.operand(x.roles().a).block(), {}, x.rows_of_a(), m, k), b = quantize_blocks(*p.operand(x.roles().b).block(), {}, x.rows_of_b(), n, k);
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
    }
}

/// One scale a tensor, from what earlier steps had: codes by quantize_blocks, their sum by PlainDots, (sum sa) sb in fp32.
TEST(BlockProducts, OfHybridHaveDelayedScales) {
  const Policy policy = policy_of(R"("base": "fp8-hybrid", "rules": [{"operators": "linear", "operands": {
    "weight": {"format": "e4m3-tensor/multiplier", "delayed": {"length": 2}}, "activation": {"format": "e4m3-tensor", "delayed": {"length": 3, "choice": "most_recent", "margin": 1}},
    "gradient-of-activation": {"format": "e5m2-tensor/multiplier", "delayed": {"length": 2}}}}])");
  const OperatorPrecision p = policy.at(fc1.kind, fc1.name);
  std::map<Role, DelayedAmax> histories;
  for (const Role role : {Role::weight, Role::activation, Role::gradient_of_activation}) {
    const Storage& s = p.operand(role);
    histories.emplace(role, DelayedAmax(static_cast<float>(s.block()->element.target()), s.delayed->length, s.delayed->choice, s.delayed->margin));
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
      const BlockArray a = quantized(sa, x.roles().a, x.rows_of_a(), x.m), b = quantized(sb, x.roles().b, x.rows_of_b(), x.n);
      seen[x.roles().a] = largest_magnitude(x.a), seen[x.roles().b] = largest_magnitude(x.b);
      DotModel model{sa.block()->element.format, Stage{fp32}, Stage{fp32}};
      model.input_b = sb.block()->element.format;
      PlainDots dots(model);
      std::vector<float> d;
      for (std::size_t i = 0; i < x.m; ++i)
        for (std::size_t j = 0; j < x.n; ++j) {
          const std::vector<std::uint64_t> row(a.codes.begin() + static_cast<std::ptrdiff_t>(i * x.k), a.codes.begin() + static_cast<std::ptrdiff_t>((i + 1) * x.k)),
              column(b.codes.begin() + static_cast<std::ptrdiff_t>(j * x.k), b.codes.begin() + static_cast<std::ptrdiff_t>((j + 1) * x.k));
          const float sum = floats(std::vector{dots(row, column, {}, 0)})[0], of_a = a.step(0).value, of_b = b.step(0).value;
          const float once = sum * of_a;
          d.push_back(once * of_b);
        }
      EXPECT_EQ(bits(product_of(numerics, x)), bits(finished(policy, x, d))) << step << ' ' << name_of(which);
    }
    numerics.end_step();
    for (const auto& [role, amax] : seen) histories.at(role).record(amax);
  }
}

/// Scales of few digits are in the elements: every product is exact in fp32, sums follow k; the tensors' scales come last.
TEST(BlockProducts, OfMicroscalingAreFp32SumsOfExactProducts) {
  for (const char* const name : {"mxfp8", "mxfp4", "nvfp4"})
    for (const Product which : all_products)
      for (const auto& [m, n, k] : {std::array<std::size_t, 3>{3, 17, 70}, {33, 2, 32}, {2, 2, 3}}) {
        const Policy policy = find_policy(name);
        const OperatorPrecision p = policy.at(fc1.kind, fc1.name);
        Case x(fc1, which, m, n, k, k);
        if (which == Product::forward) x.bias = numbers(n, 3);
        constexpr std::uint64_t seed = 11, step = 5;
        const auto taken = [&](Role role, const std::vector<float>& rows, std::size_t count, std::uint64_t number, float& tensor) {
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
        const std::vector<float> a = taken(x.roles().a, x.rows_of_a(), m, 0, of_a), b = taken(x.roles().b, x.rows_of_b(), n, 1, of_b);
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
        EXPECT_EQ(bits(product_of(policy, x, seed, step)), bits(finished(policy, x, d))) << name << ' ' << name_of(which) << ' ' << k;
      }
}

TEST(Products, OfNoTermsAreZeroAndTheBias) {
  for (const char* const name : {"fp32", "amp-fp16"}) {
    Case x(fc1, Product::forward, 2, 3, 0);
    EXPECT_EQ(product_of(find_policy(name), x), std::vector<float>(6, 0.0f)) << name;
    x.bias = {1, 2, 3};
    EXPECT_EQ(product_of(find_policy(name), x), (std::vector<float>{1, 2, 3, 1, 2, 3})) << name;
  }
}

TEST(Products, SeveralAtOnceAreSingleOnes) {
  const Policy blocks = policy_of(R"("rules": [{"operators": "all", "operands": "mxfp8e4m3", "results": "bf16"}])");
  for (const Policy& policy : std::vector{find_policy("fp32"), find_policy("amp-bf16"), find_policy("strict-fp16"), find_policy("nvfp4"), blocks})
    for (const OperatorKind kind : {OperatorKind::attention_scores, OperatorKind::attention_values})
      for (const Product which : all_products) {
        constexpr std::size_t count = 3;
        Case x({kind, "block1.attention"}, which, 9, 5, 8);
        const std::vector<float> a = numbers(count * x.a.size(), 5), b = numbers(count * x.b.size(), 6);
        PolicyNumerics numerics(policy, 1), single(policy, 1);
        std::vector<float> d(count * x.m * x.n), want;
        Operands all = x.operands();
        all.a = a, all.b = b;
        numerics.products(x.site, which, count, all, d);
        for (std::size_t i = 0; i < count; ++i) {
          std::copy_n(a.begin() + static_cast<std::ptrdiff_t>(i * x.a.size()), x.a.size(), x.a.begin());
          std::copy_n(b.begin() + static_cast<std::ptrdiff_t>(i * x.b.size()), x.b.size(), x.b.begin());
          const std::vector<float> one = product_of(single, x);
          want.insert(want.end(), one.begin(), one.end());
        }
        EXPECT_EQ(bits(d), bits(want)) << policy.name << ' ' << name_of(kind) << ' ' << name_of(which);
      }
}

const char* const stochastic = R"("rules": [{"operators": "all", "operands": {"format": "bf16", "rounding": "stochastic"},
  "accumulate": "acc=bf16/stochastic", "results": {"format": "bf16", "rounding": "stochastic"}}])";

TEST(StochasticRounding, IsAFunctionOfSeedAndStep) {
  const Policy policy = policy_of(stochastic);
  const Case x(fc1, Product::forward, 6, 7, 50);
  const auto first = bits(product_of(policy, x, 1, 0));
  EXPECT_EQ(first, bits(product_of(policy, x, 1, 0)));
  EXPECT_NE(first, bits(product_of(policy, x, 2, 0)));
  EXPECT_NE(first, bits(product_of(policy, x, 1, 1)));
  PolicyNumerics numerics(policy, 1);
  numerics.begin_step(0);
  EXPECT_EQ(first, bits(product_of(numerics, x)));
  EXPECT_NE(first, bits(product_of(numerics, x))) << "the next rounding of a step draws anew";
  numerics.begin_step(0);
  EXPECT_EQ(first, bits(product_of(numerics, x)));
  // Who looks on changes nothing, also of roundings after tensors that are not rounded.
  for (const bool looked_at : {false, true}) {
    Microscope microscope;
    microscope.begin_step(0, true);
    const Policy partly = policy_of(R"("rules": [{"operators": "relu", "results": {"format": "bf16", "rounding": "stochastic"}}])");
    PolicyNumerics one(partly, 3, looked_at ? &microscope : nullptr);
    static std::vector<std::uint32_t> unseen;
    one.begin_step(0);
    std::vector<float> values = numbers(100, 1);
    one.cast(fc1, Role::activation, values);
    one.cast({OperatorKind::relu, "relu1"}, Role::activation, values);
    if (looked_at) { EXPECT_EQ(bits(values), unseen); }
    else unseen = bits(values);
  }
}

TEST(StochasticRounding, HasTheRightMean) {
  const Policy policy = policy_of(stochastic);
  PolicyNumerics numerics(policy, 1);
  constexpr std::size_t count = 1 << 16;
  std::size_t up = 0;
  for (std::uint64_t step = 0; step < 4; ++step) {
    numerics.begin_step(step);
    std::vector<float> values(count / 4, 1 + 0x1p-9f);  // a quarter of a bf16 step above 1
    numerics.cast({OperatorKind::relu, "relu1"}, Role::activation, values);
    for (const float v : values) {
      ASSERT_TRUE(v == 1 || v == 1 + 0x1p-7f);
      up += v > 1;
    }
  }
  EXPECT_NEAR(static_cast<double>(up) / count, 0.25, 5 * std::sqrt(0.25 * 0.75 / count));
}

TEST(StrictSums, AreScalarAdditions) {
  for (const char* const name : {"fp16", "bf16"}) {
    const FloatFormat f = parse_format(name);
    const Policy policy = find_policy(std::string("strict-") + name);
    const Policy in_fp32 = find_policy("fp32");
    const PolicyNumerics numerics(policy, 1), plain(in_fp32, 1);
    const Site site{OperatorKind::softmax, "softmax"};
    constexpr std::size_t rows = 41, columns = 19;
    const std::vector<float> values = numbers(rows * columns, 2);
    const auto sum = [&](std::size_t first, std::size_t step, std::size_t count) {
      std::uint64_t s = code_of(f, {}, values[first]);
      for (std::size_t i = 1; i < count; ++i) {
        const double exact = f.value(s) + f.value(code_of(f, {}, values[first + i * step]));  // in double: two digits' worth of room
        s = convert(parse_format("fp64"), f, {}, std::bit_cast<std::uint64_t>(exact)).code;
      }
      return static_cast<float>(f.value(s));
    };
    EXPECT_EQ(numerics.sum(site, values), sum(0, 1, values.size()));
    EXPECT_NE(numerics.sum(site, values), plain.sum(site, values));
    std::vector<float> sums(columns);
    numerics.column_sums(site, columns, values, sums);
    for (std::size_t j = 0; j < columns; ++j) EXPECT_EQ(sums[j], sum(j, columns, rows)) << j;
    std::vector<float> inner = values, want = values;
    numerics.inner(site, inner);
    for (float& v : want) v = rounded({f}, v);
    EXPECT_EQ(bits(inner), bits(want));
    inner = values;
    plain.inner(site, inner);
    EXPECT_EQ(bits(inner), bits(values));
    EXPECT_EQ(bits(std::vector{plain.sum(site, values)}), bits(std::vector{fixed_order_sum(std::span<const float>(values))}));
  }
}

/// After any history - zeros that left it without a magnitude, Inf, NaN - a run that goes on from its state does the same.
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
    other.restore(parse_json(numerics.state().dump(), "state"));
    EXPECT_EQ(other.state(), numerics.state());
    other.begin_step(step);
    for (const Case& x : cases) EXPECT_EQ(bits(product_of(numerics, x)), bits(product_of(other, x))) << step;
    numerics.end_step();
    other.end_step();
    EXPECT_EQ(other.state(), numerics.state()) << step;
  }
}

TEST(Products, AreTheSameOnAnyNumberOfThreads) {
  for (const char* const name : {"fp32", "mixed_float16", "strict-bf16", "fp8-hybrid", "fp8-deepseek", "mxfp4", "nvfp4"})
    for (const Product which : all_products) {
      Case x(fc1, which, 40, 150, 200);
      std::vector<std::uint32_t> results[2];
      for (const std::size_t threads : {1, 2}) {
        const tbb::global_control control(tbb::global_control::max_allowed_parallelism, threads);
        results[threads - 1] = bits(product_of(find_policy(name), x));
      }
      EXPECT_EQ(results[0], results[1]) << name;
    }
}

/// What rounding did to operands, against brute force.
TEST(Operands, AreCounted) {
  for (const char* const name : {"amp-fp16", "mxfp4", "nvfp4", "fp8-hybrid"}) {
    const Policy policy = find_policy(name);
    const Storage s = policy.at(fc1.kind, fc1.name).operand(Role::activation);
    Case x(fc1, Product::forward, 8, 3, 64);
    for (std::size_t i = 0; i < x.a.size(); i += 5) x.a[i] *= i % 2 ? 0x1p-20f : 3e4f;
    x.a[7] = 1e6f;
    Microscope microscope;
    microscope.begin_step(0, true);
    product_of(policy, x, 1, 0, &microscope);
    std::uint64_t zeros = 0, to_zero = 0, over = 0;
    BlockArray array;
    BlockOptions options;
    if (s.delayed) options.amax = 448;
    if (s.block()) array = quantize_blocks(*s.block(), s.rounding, x.a, x.m, x.k, options);
    for (std::size_t i = 0; i < x.a.size(); ++i) {
      double value = 0;
      if (s.plain()) {
        value = static_cast<double>(rounded(s, x.a[i]));
        over += std::isinf(value);
      } else {
        // Beyond the largest by more than half a step, which is half the distance to the next lower value.
        const double target = s.block()->element.target(), half = std::string(name) == "fp8-hybrid" ? 16 : 1;
        value = s.block()->element.value(array.codes[i]);
        over += std::fabs(static_cast<double>(x.a[i])) > (target + half) * static_cast<double>(array.step(block_grid(*s.block(), x.m, x.k).index(i / x.k, i % x.k)).value);
      }
      zeros += value == 0;
      to_zero += value == 0 && x.a[i] != 0;
    }
    const auto rows = microscope.take_rows();
    const auto found = std::find_if(rows.begin(), rows.end(), [](const Microscope::Row& row) { return row.operand && row.role == Role::activation; });
    ASSERT_NE(found, rows.end());
    EXPECT_EQ(found->elements, x.a.size());
    EXPECT_EQ(found->zeros, zeros) << name;
    EXPECT_EQ(found->underflowed, to_zero) << name;
    EXPECT_EQ(found->overflowed, over) << name;
    if (std::string(name) != "nvfp4") { EXPECT_GT(over, 0u) << name; }
    else { EXPECT_EQ(over, 0u) << "the largest magnitude is what scales go by"; }
  }
}

}  // namespace
