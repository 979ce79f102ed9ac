// Products, casts and sums under policies, against independent definitions: scalar conversions, PlainDots.
#include "policy_cases.hpp"

#include <halfulp/training/microscope.hpp>
#include <halfulp/formats/block_format.hpp>

#include <tbb/global_control.h>

namespace policy_numerics_test {

using namespace check;

/// Plain formats: single conversions, PlainDots, then the bias and the result's conversion.
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

TEST(PlainProducts, AreSingleConversionsAndPlainDots) {
  DotModel in_fp32{fp32, Stage{fp32}, Stage{fp32}};
  DotModel in_fp16{fp32, Stage{parse_format("fp16")}, Stage{parse_format("fp16")}},
      in_bf16{fp32, Stage{parse_format("bf16")}, Stage{parse_format("bf16")}};
  DotModel blocked{fp32, {}, Stage{fp32}};
  blocked.order = Order::blocked, blocked.block = 4;
  const Policy mixed = policy_of(
      R"("rules": [{"operators": "all", "operands": {"weight": {"format": "e4m3", "overflow": "saturate"}, "activation": "e5m2",
    "gradient-of-activation": {"format": "fp16", "rounding": "toward-zero"}}, "accumulate": "mul=exact,acc=fp32,order=blocked:4",
    "results": {"activation": "bf16", "gradient-of-activation": {"format": "fp16", "flush_outputs": true}, "gradient-of-weight": "tf32"}}])");
  const std::pair<Policy, DotModel> cases[] = {{find_policy("fp32"), in_fp32},
                                               {find_policy("amp-fp16"), in_fp32},
                                               {find_policy("amp-bf16"), in_fp32},
                                               {find_policy("pure-fp16"), in_fp32},
                                               {find_policy("strict-fp16"), in_fp16},
                                               {find_policy("strict-bf16"), in_bf16},
                                               {mixed, blocked}};
  for (const auto& [policy, model] : cases)
    for (const OperatorKind kind :
         {OperatorKind::linear, OperatorKind::attention_scores, OperatorKind::attention_values})
      for (const Product which : all_products) {
        Case x({kind, "fc1"}, which, 5, 7, 33);
        SCOPED_TRACE(policy.name + " " + std::string(name_of(kind)) + " " + std::string(name_of(which)));
        EXPECT_EQ(bits(product_of(policy, x)), bits(expected_plain(policy, x, model)));
        if (which == Product::forward) x.bias = numbers(x.n, 9);
        EXPECT_EQ(bits(product_of(policy, x)), bits(expected_plain(policy, x, model)));
        for (const float v : numbers(x.m * x.n, 10)) x.c.push_back(rounded({parse_format("bf16")}, v));
        if (policy.name != "strict-fp16") {
          EXPECT_EQ(bits(product_of(policy, x)), bits(expected_plain(policy, x, model)));
        }
        x.a[3] = std::numeric_limits<float>::infinity();
        x.b[5] = 1e38f;
        EXPECT_EQ(bits(product_of(policy, x)), bits(expected_plain(policy, x, model)));
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
  for (const Policy& policy : std::vector{find_policy("fp32"), find_policy("amp-bf16"), find_policy("strict-fp16"),
                                          find_policy("nvfp4"), blocks})
    for (const OperatorKind kind : {OperatorKind::attention_scores, OperatorKind::attention_values})
      for (const Product which : all_products) {
        constexpr std::size_t count = 3;
        Case x({kind, "block1.attention"}, which, 9, 5, 8);
        const std::vector<float> a = numbers(count * x.a.size(), 5), b = numbers(count * x.b.size(), 6);
        PolicyNumerics numerics(policy, 1), single(policy, 1);
        std::vector<float> d(count * x.m * x.n), want;
        Numerics<float>::Operands all = x.operands();
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

const char* const stochastic =
    R"("rules": [{"operators": "all", "operands": {"format": "bf16", "rounding": "stochastic"},
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
  std::vector<std::vector<std::uint32_t>> casts;
  for (const std::uint64_t step : {0, 1, 0}) {
    numerics.begin_step(step);
    std::vector<float> values = numbers(100, 1);
    numerics.cast(fc1, Role::activation, values);
    casts.push_back(bits(values));
  }
  EXPECT_EQ(casts[0], casts[2]);
  EXPECT_NE(casts[0], casts[1]);
  // An observer changes nothing, not even roundings after tensors that are not rounded.
  for (const bool looked_at : {false, true}) {
    Microscope microscope;
    microscope.begin_step(0, true);
    const Policy partly = policy_of(
        R"("rules": [{"operators": "relu", "results": {"format": "bf16", "rounding": "stochastic"}}])");
    PolicyNumerics one(partly, 3, looked_at ? &microscope : nullptr);
    static std::vector<std::uint32_t> unseen;
    one.begin_step(0);
    std::vector<float> values = numbers(100, 1);
    one.cast(fc1, Role::activation, values);
    one.cast({OperatorKind::relu, "relu1"}, Role::activation, values);
    if (looked_at) {
      EXPECT_EQ(bits(values), unseen);
    } else unseen = bits(values);
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
        const double exact = f.value(s) +
                             f.value(code_of(f, {}, values[first + i * step]));  // in double, which has room to spare
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
    EXPECT_EQ(bits(std::vector{plain.sum(site, values)}),
              bits(std::vector{fixed_order_sum(std::span<const float>(values))}));
  }
}

TEST(Products, AreTheSameOnAnyNumberOfThreads) {
  for (const char* const name :
       {"fp32", "mixed_float16", "strict-bf16", "fp8-hybrid", "fp8-deepseek", "mxfp4", "nvfp4"})
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

/// Statistics of rounded operands, against brute force.
// An array that bf16 holds is not copied; anything else is.
TEST(Operands, ThatAreRoundedAlreadyStayWhereTheyAre) {
  std::vector<float> values(50'000, 1.0f + 0x1p-7f);
  Storage storage;
  storage.format = bf16;
  PolicyOperand operand;
  const auto take = [&] { operand.take(storage, values, 50, 1000, false, {}, {}, nullptr); };
  take();
  EXPECT_EQ(operand.elements.data(), values.data());
  for (const auto& [odd, rounded] :
       {std::pair{1.0f + 0x1p-8f, 1.0f}, {0x1.fffp127f, INFINITY}, {-0x1p-149f, -0.0f}, {INFINITY, INFINITY}}) {
    values[40'000] = odd;
    take();
    EXPECT_NE(operand.elements.data(), values.data()) << odd;
    EXPECT_EQ(operand.elements[40'000], rounded);
    EXPECT_EQ(operand.elements[39'999], values[39'999]);
  }
  values[40'000] = 0x1p-133f;
  take();
  EXPECT_EQ(operand.elements.data(), values.data());
  storage.rounding.flush_outputs = true;
  take();
  EXPECT_EQ(operand.elements[40'000], 0);
}

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
        // Above the largest value by more than half a step; a step is the distance to the next lower value.
        const double target = s.block()->element.target(), half = std::string(name) == "fp8-hybrid" ? 16 : 1;
        value = s.block()->element.value(array.codes[i]);
        over += std::fabs(static_cast<double>(x.a[i])) >
                (target + half) *
                    static_cast<double>(array.step(block_grid(*s.block(), x.m, x.k).index(i / x.k, i % x.k)).value);
      }
      zeros += value == 0;
      to_zero += value == 0 && x.a[i] != 0;
    }
    const auto rows = microscope.take_rows();
    const auto found = std::find_if(rows.begin(), rows.end(), [](const Microscope::Row& row) {
      return row.operand && row.role == Role::activation;
    });
    ASSERT_NE(found, rows.end());
    EXPECT_EQ(found->elements, x.a.size());
    EXPECT_EQ(found->zeros, zeros) << name;
    EXPECT_EQ(found->underflowed, to_zero) << name;
    EXPECT_EQ(found->overflowed, over) << name;
    if (std::string(name) != "nvfp4") {
      EXPECT_GT(over, 0u) << name;
    } else {
      EXPECT_EQ(over, 0u) << "the largest magnitude is what scales go by";
    }
  }
}

}  // namespace policy_numerics_test
