// What array functions count, refuse, and report about the path they take.
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

namespace array_contract_test {

using namespace halfulp;

TEST(Tally, counts_what_the_flags_say) {
  // fp16: exact, inexact, tiny and inexact (a zero and a subnormal), exactly subnormal, overflow, NaN, infinity.
  const std::vector<float> in{1,
                              1.0001f,
                              1e-9f,
                              1e-7f,
                              0x1p-24f,
                              1e6f,
                              std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity()};
  std::vector<float> out(in.size());
  Tally tally;
  quantize(fp16, {}, in, out, {}, &tally);
  EXPECT_EQ(tally, (Tally{.elements = 8,
                          .nan = 1,
                          .overflow = 1,
                          .underflow = 2,
                          .inexact = 4,
                          .to_zero = 1,
                          .subnormal = 2,
                          .flags = flag::inexact | flag::underflow | flag::overflow}));
  std::vector<float> without(in.size());
  quantize(fp16, {}, in, without);
  for (std::size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(out[i]), std::bit_cast<std::uint32_t>(without[i]));
}

// Saturation replaces infinite operands of conversions, but not of sums, whichever call came before.
TEST(ArrayCalls, do_not_depend_on_the_call_before) {
  const Rounding saturating{.overflow = Overflow::saturate};
  const std::vector<float> infinity{std::numeric_limits<float>::infinity()};
  const std::vector<std::uint8_t> infinite{static_cast<std::uint8_t>(e5m2.infinity())},
      one{static_cast<std::uint8_t>(0x3c)};
  std::vector<std::uint8_t> code(1), sum(1);
  for (int k = 0; k < 2; ++k) {
    encode<float, std::uint8_t>(e5m2, saturating, infinity, code);
    EXPECT_EQ(code[0], e5m2.max_finite());
    apply<std::uint8_t>(Operation::add, e5m2, saturating, infinite, one, {}, sum);
    EXPECT_EQ(sum[0], e5m2.infinity());
  }
}

TEST(ArrayErrors, are_told_before_anything_is_written) {
  std::vector<float> in(10, 1.5f), out(10, 7), longer(11, 7);
  std::vector<std::uint8_t> narrow(10, 7);
  std::vector<std::uint16_t> a(10, 0x3c00), sum(10, 7);
  const auto message = [](auto f) {
    try {
      f();
    } catch (const std::invalid_argument& e) { return std::string(e.what()); }
    return std::string("nothing thrown");
  };
  using testing::Test;
  EXPECT_EQ(message([&] { quantize(fp16, {}, in, longer); }),
            "the operand has 10 elements, the result 11: they must be equal");
  EXPECT_EQ(message([&] { quantize(fp16, {}, std::span(in).first(9), std::span(in).subspan(1, 9)); }),
            "the operand and the result overlap: they must be the same array or apart");
  EXPECT_EQ(message([&] { encode<float, std::uint8_t>(fp16, {}, in, narrow); }),
            "fp16 code words have 16 bits, the array's elements 8");
  EXPECT_EQ(message([&] { apply<std::uint16_t>(Operation::add, fp16, {}, a, {}, {}, sum); }),
            "the second operand has 0 elements, the result 10: they must be equal");
  EXPECT_EQ(message([&] { apply<std::uint16_t>(Operation::sqrt, fp16, {}, a, a, {}, sum); }),
            "sqrt takes 1 operand, and was given the second operand");
  EXPECT_EQ(message([&] { apply<std::uint16_t>(Operation::convert, fp16, {}, a, {}, {}, sum); }),
            "apply stays in one format; convert goes through encode and decode");
  const CodeWords words{std::span<const std::uint16_t>(a)};
  const Task add{Operation::add, fp16, fp16, {}}, narrowing{Operation::convert, fp16, fp32, {}};
  EXPECT_EQ(message([&] { compute<std::uint16_t>(add, words, {}, {}, sum); }),
            "the second operand has 0 elements, the result 10: they must be equal");
  EXPECT_EQ(message([&] { compute<std::uint16_t>(add, words, words, words, sum); }),
            "add takes 2 operands, and was given the third operand");
  EXPECT_EQ(message([&] { compute<std::uint16_t>(narrowing, words, {}, {}, sum); }),
            "fp32 code words have 32 bits, the array's elements 16");
  std::vector<Flags> few(9, 7);
  EXPECT_EQ(message([&] { compute<std::uint16_t>(add, words, words, {}, sum, {}, few); }),
            "the flags' array has 9 elements, the result 10: they must be equal");
  EXPECT_EQ(message([&] { apply<std::uint8_t>(Operation::add, e8m0, {}, narrow, narrow, {}, narrow); }),
            "e8m0 holds scales: it has conversions only, no add");
  Rounding many;
  many.mode = RoundingMode::stochastic;
  many.random_bits = 33;
  EXPECT_EQ(message([&] { quantize(fp16, many, in, out); }), "random bits must be 1 to 32, not 33");
  many.random_bits = 17;
  EXPECT_EQ(message([&] { quantize(fp16, many, in, out, {.roundings_per_word = 2}); }),
            "with 2 roundings per word, random bits must be 1 to 16, not 17");
  EXPECT_EQ(message([&] { encode<float, std::uint16_t>(fp16, many, in, sum, {.roundings_per_word = 3}); }),
            "roundings per word must be 1, 2 or 4, not 3");
  EXPECT_EQ(
      message([&] { apply<std::uint16_t>(Operation::add, fp16, many, a, a, {}, sum, {.roundings_per_word = 4}); }),
      "with 4 roundings per word, random bits must be 1 to 8, not 17");
  EXPECT_EQ(message([&] {
              compute<std::uint16_t>({Operation::add, fp16, fp16, many}, words, words, {}, sum,
                                     {.roundings_per_word = 2});
            }),
            "with 2 roundings per word, random bits must be 1 to 16, not 17");
  const std::string nothing =
      "a descriptor with exponent_bits = 0, fraction_bits = 0, bias = 0 has 0 exponent bits, not 1 to 11";
  EXPECT_EQ(message([&] { quantize(FloatFormat{}, {}, in, out); }), nothing);
  EXPECT_EQ(message([&] { encode<float, std::uint8_t>(FloatFormat{}, {}, in, narrow); }), nothing);
  EXPECT_EQ(message([&] { decode<std::uint8_t>(FloatFormat{}, narrow, out); }), nothing);
  EXPECT_EQ(message([&] { apply<std::uint8_t>(Operation::add, FloatFormat{}, {}, narrow, narrow, {}, narrow); }),
            nothing);
  for (const auto& [f, why] : {std::pair{FloatFormat{5, -1, 15}, "has -1 fraction bits, not 0 to 52"},
                               {FloatFormat{-3, 10, 15}, "has -3 exponent bits"},
                               {FloatFormat{5, 0, 15}, "is too small for IEEE infinities and NaNs"},
                               {FloatFormat{5, 10, 2000}, "beyond the range of a double (bias 2000)"}})
    EXPECT_NE(message([&, &g = f] { quantize(g, {}, in, out); }).find(why), std::string::npos) << why;
  for (const float x : out) EXPECT_EQ(x, 7);
  for (const float x : longer) EXPECT_EQ(x, 7);
  for (const auto x : sum) EXPECT_EQ(x, 7);
}

/// compute() against evaluate(): every operation, conversions between formats and integers, operands wider than needed,
/// with and without flags, short arrays and arrays of several pieces.
TEST(Compute, is_evaluate_for_every_task) {
  std::vector<Task> tasks;
  for (const FloatFormat& f : {fp16, bf16, e4m3, e2m1, fp32, fp64})
    for (const OperationInfo& row : operations)
      if (row.operation != Operation::convert) tasks.push_back({row.operation, f, f, {}});
  const std::vector<NumberType> types{fp16, bf16, e4m3, e8m0, fp32, fp64, i32, i64, u32, u64};
  for (const NumberType& from : types)
    for (const NumberType& to : types)
      if (refusal({Operation::convert, from, to, {}}).empty()) tasks.push_back({Operation::convert, from, to, {}});
  std::uint64_t state = 1;
  for (Task task : tasks)
    for (const Rounding& rounding :
         {Rounding{}, Rounding{.mode = RoundingMode::stochastic}, Rounding{.nan = NanRule::propagate},
          Rounding{.mode = RoundingMode::to_odd, .overflow = Overflow::saturate, .flush_inputs = true}}) {
      task.rounding = rounding;
      // Several pieces, and a table of all results, for a few; the slow functions have no need of it.
      const bool many = rounding == Rounding{} && storage_bits(task.from) == 8 && storage_bits(task.to) <= 16 &&
                        task.operation != Operation::exp && task.operation != Operation::log2;
      const std::size_t n = many ? 70'000 : 300;
      const std::uint64_t mask = ~std::uint64_t{0} >> (64 - storage_bits(task.from));
      std::array<std::vector<std::uint64_t>, 3> words;
      const int arity = info(task.operation).arity;
      for (int k = 0; k < arity; ++k)
        for (std::size_t i = 0; i < n; ++i) {
          state = state * 6364136223846793005u + 1442695040888963407u;
          words[static_cast<std::size_t>(k)].push_back((state >> 8 ^ state >> 40) & mask);
        }
      const RandomStream random{3, 4, 5};
      std::vector<std::uint64_t> wanted, wide(n);
      std::vector<Flags> raised, flags(n);
      for (std::size_t i = 0; i < n; ++i) {
        const auto at = [&](std::size_t k) { return words[k].empty() ? 0 : words[k][i]; };
        const Rounded r = evaluate(task, at(0), at(1), at(2), rounding_bits(3, 4, 5 + i));
        wanted.push_back(r.code), raised.push_back(r.flags);
      }
      const auto of = [&](std::size_t k) { return CodeWords(std::span<const std::uint64_t>(words[k])); };
      compute<std::uint64_t>(task, of(0), of(1), of(2), wide, random, flags);
      ASSERT_TRUE(wide == wanted && flags == raised) << task.description();
      const auto narrow = [&]<class Code>(Code) {
        if (static_cast<int>(sizeof(Code)) * 8 < storage_bits(task.to)) return;
        std::vector<Code> out(n), a(words[0].begin(), words[0].end()), b(words[1].begin(), words[1].end()),
            c(words[2].begin(), words[2].end());
        compute<Code>(task, of(0), of(1), of(2), out, random);
        ASSERT_TRUE(std::equal(out.begin(), out.end(), wanted.begin(), wanted.end())) << task.description();
        if (static_cast<int>(sizeof(Code)) * 8 < storage_bits(task.from)) return;
        std::fill(out.begin(), out.end(), Code{0});
        const auto span = [](const auto& v) { return CodeWords(std::span<const Code>(v)); };
        compute<Code>(task, span(a), span(b), span(c), out, random);
        ASSERT_TRUE(std::equal(out.begin(), out.end(), wanted.begin(), wanted.end())) << task.description();
      };
      narrow(std::uint8_t{}), narrow(std::uint16_t{}), narrow(std::uint32_t{}), narrow(std::uint64_t{});
    }
}

TEST(ArrayPath, is_the_scalar_one_where_no_kernel_applies) {
  const Rounding plain, payloads{.nan = NanRule::propagate}, random{.mode = RoundingMode::stochastic},
      even{.mode = RoundingMode::stochastic, .variant = StochasticVariant::nearest_even};
  for (const NamedFormat& row : catalogue()) {
    const bool narrow = row.format.storage_bits() < 32 && row.format != e8m0;
    EXPECT_EQ(encodes_in_vectors<float>(row.format, plain), narrow) << row.name;
    EXPECT_EQ(decodes_in_vectors(row.format), row.format.storage_bits() <= 32 && row.format != e8m0) << row.name;
    EXPECT_FALSE(encodes_in_vectors<float>(row.format, even)) << row.name;
  }
  EXPECT_TRUE(encodes_in_vectors<double>(fp32, plain));
  EXPECT_FALSE(encodes_in_vectors<double>(fp64, plain));
  EXPECT_TRUE(encodes_in_vectors<float>(e2m1, payloads));  // it has no NaN
  EXPECT_FALSE(encodes_in_vectors<float>(fp16, payloads));
  EXPECT_TRUE(encodes_in_vectors<float>(bf16, random));
  for (const Operation operation : array_operations) {
    EXPECT_TRUE(applies_in_vectors(operation, fp16, plain));
    EXPECT_FALSE(applies_in_vectors(operation, fp16, payloads));
    EXPECT_FALSE(applies_in_vectors(operation, fp64, plain));
    EXPECT_TRUE(applies_in_vectors(operation, fp16, random));
    EXPECT_TRUE(applies_in_vectors(operation, parse_format("e8m18"), random));
    EXPECT_FALSE(applies_in_vectors(operation, parse_format("e8m19"), random));  // 20 + 32 + 2 bits
  }
}

}  // namespace array_contract_test
