// The witness finder: its witnesses differ, and where it claims that none is smaller, none is.
#include "check.hpp"

#include <halfulp/emulation/unit/unit.hpp>
#include <halfulp/emulation/witness/search.hpp>

namespace witness_test {

using namespace halfulp;
using namespace halfulp::witness;

std::uint64_t heaviest(const Subject& s, const std::vector<std::uint64_t>& x) {
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, weight(s.shape.format(i, x.size()), x[i]));
  return most;
}
std::uint64_t sum_of(const Subject& s, const std::vector<std::uint64_t>& x) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += weight(s.shape.format(i, x.size()), x[i]);
  return sum;
}

/// The smallest case among all pairs of a format, found by trying each.
std::optional<std::pair<std::uint64_t, std::uint64_t>> smallest_pair(const Subject& a, const Subject& b) {
  std::optional<std::pair<std::uint64_t, std::uint64_t>> least;
  const FloatFormat& f = a.shape.fixed[0];
  for (std::uint64_t x = 0; x <= f.code_mask(); ++x)
    for (std::uint64_t y = 0; y <= f.code_mask(); ++y) {
      const std::vector<std::uint64_t> c{x, y};
      const std::uint64_t ra = a.evaluate(c), rb = b.evaluate(c);
      if (ra == rb || (a.result.is_nan(ra) && a.result.is_nan(rb))) continue;
      const std::pair size(heaviest(a, c), sum_of(a, c));
      if (!least || size < *least) least = size;
    }
  return least;
}

TEST(Witness, IsTheSmallestOfAllPairs) {
  std::vector<std::pair<std::string, std::string>> subjects{
      std::pair("add:e4m3", "add:e4m3:nearest-away"),
      std::pair("mul:e5m2", "mul:e5m2:flush-outputs"),
      std::pair("div:e4m3", "div:e4m3:to-odd"),
      std::pair("sub:e5m2:toward-zero", "sub:e5m2:toward-negative"),
      std::pair("rem:e4m3", "min:e4m3"),
      std::pair("mul:e4m3", "mul:e4m3:saturate")};
  for (const char* operation : {"add", "sub", "mul", "div"})
    for (const char* format : {"e3m2", "e2m3", "e4m1", "e3m3"})
      for (const char* mode :
           {"nearest-away", "nearest-to-zero", "toward-zero", "toward-positive", "toward-negative", "to-odd"})
        subjects.emplace_back(std::string(operation) + ":" + format,
                              std::string(operation) + ":" + format + ":" + mode);
  for (const auto& [first, second] : subjects) {
    const Subject a = parse_subject(first), b = parse_subject(second);
    const Found found = search(a, b);
    EXPECT_TRUE(found.exhaustive);
    const auto least = smallest_pair(a, b);
    ASSERT_EQ(found.operands.has_value(), least.has_value()) << first;
    if (!least) continue;
    EXPECT_NE(a.evaluate(*found.operands), b.evaluate(*found.operands));
    EXPECT_EQ(std::pair(heaviest(a, *found.operands), sum_of(a, *found.operands)), *least) << first;
  }
}

TEST(Witness, SaysThatThereIsNone) {
  const Found found = search(parse_subject("mul:e4m3"), parse_subject("mul:e4m3:nearest-even"));
  EXPECT_TRUE(found.exhaustive);
  EXPECT_FALSE(found.operands);
  EXPECT_EQ(found.looked_at, 65536u);
  // Single operands, and profiles over all 2^16 operands.
  EXPECT_FALSE(search(parse_subject("sqrt:fp16"), parse_subject("sqrt:fp16")).operands);
  const Found casts = search(parse_subject("onnx-nosaturate:fp16:e4m3"), parse_subject("ml_dtypes:fp16:e4m3"));
  EXPECT_FALSE(casts.operands);
  EXPECT_EQ(casts.looked_at, 65536u);
}

/// Pairs of 16-bit operands: by weight, 1 + 2^-12 is the lightest sum on which toward-zero and nearest differ.
TEST(Witness, PairsOf16BitsGoOverArrays) {
  const Subject a = parse_subject("add:bf16"), b = parse_subject("add:bf16:toward-positive");
  ASSERT_TRUE(a.pairs && b.pairs);
  const Found found = search(a, b);
  EXPECT_TRUE(found.exhaustive);
  ASSERT_TRUE(found.operands);
  EXPECT_NE(a.evaluate(*found.operands), b.evaluate(*found.operands));
  // No lighter pair differs; this tries each.
  std::vector<std::uint64_t> lighter;
  for (std::uint64_t code = 0; code <= bf16.code_mask(); ++code)
    if (weight(bf16, code) < heaviest(a, *found.operands)) lighter.push_back(code);
  EXPECT_GT(lighter.size(), 10u);
  for (const std::uint64_t x : lighter)
    for (const std::uint64_t y : lighter) {
      const std::vector<std::uint64_t> c{x, y};
      const std::uint64_t ra = a.evaluate(c), rb = b.evaluate(c);
      ASSERT_TRUE(ra == rb || (bf16.is_nan(ra) && bf16.is_nan(rb))) << std::hex << x << ' ' << y;
    }
}

TEST(Witness, ProfilesAreAskedEverything) {
  const Subject a = parse_subject("ml_dtypes:fp16:e4m3"), b = parse_subject("pytorch:fp16:e4m3");
  const Found found = search(a, b);
  ASSERT_TRUE(found.operands);
  std::uint64_t least = ~std::uint64_t{0};
  for (std::uint64_t code = 0; code < 1 << 16; ++code) {
    const std::uint64_t x = a.evaluate(std::span(&code, 1)), y = b.evaluate(std::span(&code, 1));
    if (x != y && !(e4m3.is_nan(x) && e4m3.is_nan(y))) least = std::min(least, weight(fp16, code));
  }
  EXPECT_EQ(weight(fp16, found.operands->front()), least);
  EXPECT_EQ(found.operands->front(), 0x6000u);  // 512
}

/// Guided searches find existing differences, and no term of a witness can be dropped.
TEST(Witness, VectorsAreShort) {
  for (const auto& [first, second] : {std::pair("volta.mma.fp16.fp32", "hopper.mma.fp16.fp32"),
                                      std::pair("ampere.mma.fp16.fp32", "hopper.mma.fp16.fp32")}) {
    const Subject a = parse_subject(first), b = parse_subject(second);
    const Found found = search(a, b);
    EXPECT_FALSE(found.exhaustive);
    ASSERT_TRUE(found.operands) << first;
    EXPECT_NE(a.evaluate(*found.operands), b.evaluate(*found.operands));
    EXPECT_LE(a.shape.terms(found.operands->size()), 3u);
    EXPECT_EQ(search(a, b).operands, found.operands);  // only the seed decides
  }
}

/// Units with scales take one for all of A and one for all of B, in as many blocks as the vector has.
TEST(Witness, UnitsWithScales) {
  MatrixUnit wide = find_unit("blackwell.tcgen05.nvfp4.fp32"), narrow = wide;
  narrow.sum.alignment_bits -= 2;
  const Subject a = unit_subject("wide", wide), b = unit_subject("narrow", narrow);
  ASSERT_EQ(a.shape.fixed.size(), 3u);
  const Found found = search(a, b, {.cases = 200'000});
  ASSERT_TRUE(found.operands);
  EXPECT_NE(a.evaluate(*found.operands), b.evaluate(*found.operands));
  // 17 products of 1 and the scales 2 and 4, in two blocks: 17 * 8 and C.
  std::vector<std::uint64_t> ones(34, 2);
  for (const std::uint64_t word : {0x3f80'0000, 0x40, 0x48}) ones.push_back(word);
  EXPECT_EQ(a.evaluate(ones), 0x4309'0000u);  // 137
}

TEST(Witness, OrdersAndModels) {
  const auto terms = [](const char* first, const char* second, Options options = {}) {
    const Subject a = parse_subject(first), b = parse_subject(second);
    const Found found = search(a, b, options);
    if (!found.operands) return std::size_t{0};
    EXPECT_NE(a.evaluate(*found.operands), b.evaluate(*found.operands)) << first;
    return a.shape.terms(found.operands->size());
  };
  // Both add three terms in the same order, since three splits into two and one.
  EXPECT_EQ(terms("sum:fp16", "sum:fp16,order=pairwise"), 4u);
  EXPECT_EQ(terms("sum:e5m2", "sum:e5m2,comp=kahan"), 3u);
  EXPECT_EQ(terms("dot:fp16", "dot:fp16,mul=exact"), 1u + 1u);               // both round a single product once
  EXPECT_EQ(terms("dot:in=fp16,acc=fp32", "dot:hopper.mma.fp16.fp32"), 1u);  // -0 * 0: units give +0
  // A block longer than any vector makes no difference; a unit with C = +0 is that unit.
  EXPECT_EQ(terms("sum:fp16", "sum:fp16,order=blocked:50", {.cases = 100'000}), 0u);
  const Subject dot = parse_subject("dot:hopper.mma.fp16.fp32"), unit = parse_subject("hopper.mma.fp16.fp32");
  EXPECT_EQ(dot.evaluate(std::vector<std::uint64_t>{0x3c00, 0x4000, 0xbc00, 0x3c01}),
            unit.evaluate(std::vector<std::uint64_t>{0x3c00, 0x4000, 0xbc00, 0x3c01, 0}));
  EXPECT_NE(refusal(dot, unit), "");
}

/// Of the two heaviest operands of equal weight, 0.5 and 2, the second has the lighter partner.
TEST(Witness, TiesOfTheHeaviestGoToTheSum) {
  Subject a{"a", OperationSubject{Operation::add, e4m3, e4m3, {}}, {{}, {e4m3, e4m3}}, e4m3, {}, {}}, b = a;
  a.evaluate = [](std::span<const std::uint64_t>) { return std::uint64_t{0}; };
  b.evaluate = [](std::span<const std::uint64_t> x) {
    return std::uint64_t{(x[0] == 0x30 && x[1] == 0x38) || (x[0] == 0x40 && x[1] == 0)};
  };
  ASSERT_EQ(weight(e4m3, 0x30), weight(e4m3, 0x40));
  EXPECT_EQ(search(a, b).operands, (std::vector<std::uint64_t>{0x40, 0}));
}

/// Two orders of summation agree on up to three terms.
TEST(Witness, OrdersOfSummationTakeFourTerms) {
  const auto sum = [](bool in_halves) {
    Subject s{in_halves ? "pairwise" : "sequential",
              OperationSubject{Operation::add, fp16, fp16, {}},
              {{fp16}, {}},
              fp16,
              {},
              {}};
    s.evaluate = [in_halves](std::span<const std::uint64_t> x) {
      const std::function<std::uint64_t(std::span<const std::uint64_t>)> total =
          [&](std::span<const std::uint64_t> part) -> std::uint64_t {
        if (part.size() == 1) return part[0];
        const std::size_t first = in_halves ? (part.size() + 1) / 2 : part.size() - 1;
        return evaluate(Operation::add, fp16, {}, total(part.first(first)), total(part.subspan(first))).code;
      };
      return total(x);
    };
    return s;
  };
  const Subject a = sum(false), b = sum(true);
  const Found found = search(a, b, {.cases = 400'000});
  ASSERT_TRUE(found.operands);
  EXPECT_EQ(found.operands->size(), 4u);
  EXPECT_NE(a.evaluate(*found.operands), b.evaluate(*found.operands));
  // No term can be dropped and no operand replaced by a lighter one.
  for (std::size_t i = 0; i < 4; ++i)
    for (std::uint64_t code = 0; code < 0x8000; code += 0x200) {
      std::vector<std::uint64_t> lighter = *found.operands;
      lighter[i] = code;
      const bool is_lighter = weight(fp16, code) < weight(fp16, (*found.operands)[i]);
      EXPECT_TRUE(!is_lighter || a.evaluate(lighter) == b.evaluate(lighter)) << i << ' ' << std::hex << code;
    }
  EXPECT_FALSE(search(a, b, {.cases = 100'000, .longest = 3}).operands);
}

TEST(Witness, WeighsNumbers) {
  EXPECT_EQ(weight(fp16, 0), 0u);
  EXPECT_LT(weight(fp16, 0x3c00), weight(fp16, 0x4000));  // 1, 2
  EXPECT_LT(weight(fp16, 0x4000), weight(fp16, 0x3e00));  // 2, 1.5
  EXPECT_EQ(weight(fp16, 0x4000), weight(fp16, 0x3800));  // 2, 0.5
  EXPECT_LT(weight(fp16, 0x3c00), weight(fp16, 0xbc00));  // 1, -1
  EXPECT_LT(weight(fp16, 0x7bff), weight(fp16, 0x7c00));
  EXPECT_LT(weight(fp16, 0xfc00), weight(fp16, 0x7e00));
}

std::string refused(const char* text) {
  try {
    parse_subject(text);
  } catch (const std::invalid_argument& error) { return error.what(); }
  return "";
}

TEST(Witness, RefusesInOneLine) {
  EXPECT_NE(refused("ad:fp16").find("unknown operation, sum or profile 'ad'; did you mean add?"), std::string::npos)
      << refused("ad:fp16");
  EXPECT_NE(refused("add:fp16:toward-zeros").find("did you mean toward-zero?"), std::string::npos);
  for (const char* bad :
       {"add", "add:fp17", "add:fp16:stochastic", "convert:fp16", "ml_dtypes:fp32", "ml_dtypes:fp32:p3109k8p3",
        "hopper.mma.fp16", "eq:fp16", "", "add:e8m0", "sum:fp17", "dot:fp16,round=stochastic",
        "sum:hopper.mma.fp16.fp32", "dot:blackwell.tcgen05.nvfp4.fp32", "sum", "dot:"}) {
    const std::string why = refused(bad);
    EXPECT_NE(why, "") << bad;
    EXPECT_EQ(why.find('\n'), std::string::npos);
  }
  EXPECT_NE(refusal(parse_subject("add:fp16"), parse_subject("sqrt:fp16")), "");
  EXPECT_NE(refusal(parse_subject("add:fp16"), parse_subject("add:bf16")), "");
  EXPECT_EQ(refusal(parse_subject("convert:fp32:e4m3"), parse_subject("ml_dtypes:fp32:e4m3")), "");
  EXPECT_THROW(search(parse_subject("add:fp16"), parse_subject("sqrt:fp16")), std::invalid_argument);
}

}  // namespace witness_test
