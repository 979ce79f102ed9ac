// DotModel: the order of every operation, spelled as text. Results against loops over doubles, which hold every fp16
// and bf16 sum and product exactly before rounding.
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace halfulp {
namespace dot_test {

using Codes = std::vector<std::uint64_t>;

// The order, as text.

/// Arithmetic on expressions. A code word is the index of a text.
struct Spelling {
  std::vector<std::string>* texts;
  std::string format;
  std::string name;  ///< shown after operations; empty in the operands' format
  std::uint64_t put(std::string text) {
    texts->push_back(std::move(text));
    return texts->size() - 1;
  }
  std::string at(std::uint64_t code) const { return texts->at(code); }
  std::uint64_t add(std::uint64_t a, std::uint64_t b, std::uint64_t) {
    return put("(" + at(a) + "+" + at(b) + ")" + name);
  }
  std::uint64_t sub(std::uint64_t a, std::uint64_t b, std::uint64_t) {
    return put("(" + at(a) + "-" + at(b) + ")" + name);
  }
  std::uint64_t mul(std::uint64_t a, std::uint64_t b, std::uint64_t) {
    return put("(" + at(a) + "*" + at(b) + ")" + name);
  }
  std::uint64_t fma(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t) {
    return put("fma(" + at(a) + "," + at(b) + "," + at(c) + ")" + name);
  }
  std::uint64_t convert_from(const FloatFormat&, std::uint64_t x, std::uint64_t) {
    return put(format + "(" + at(x) + ")");
  }
};

/// The operations of a model on operands named 0, 1, 2 ... (a dot product multiplies a0 b0, a1 b1, ...).
std::string spell(const DotModel& model, int n, bool products = false) {
  std::vector<std::string> texts;
  Codes a, b;
  texts.emplace_back("0");  // code word 0 is zero, a correction's first value
  for (int i = 0; i < n; ++i) {
    texts.push_back(products ? "a" + std::to_string(i) : std::to_string(i));
    a.push_back(texts.size() - 1);
  }
  for (int i = 0; i < n; ++i) {
    texts.push_back("b" + std::to_string(i));
    b.push_back(texts.size() - 1);
  }
  DotEngine<Spelling> engine(model, [&](const FloatFormat& f, const Rounding&) {
    return Spelling{&texts, format_name(f), f == model.input ? "" : format_name(f)};
  });
  return texts.at(products ? engine.dot(a, b) : engine.sum(a));
}

DotModel plain(const FloatFormat& f = fp16) {
  return {f, Stage{f}, {f}, {}, Order::sequential, 1, Compensation::none, 0};
}

TEST(Dot, OrderOfSums) {
  DotModel m = plain();
  EXPECT_EQ(spell(m, 1), "0");
  EXPECT_EQ(spell(m, 4), "(((0+1)+2)+3)");
  m.order = Order::pairwise;
  EXPECT_EQ(spell(m, 4), "((0+1)+(2+3))");
  EXPECT_EQ(spell(m, 5), "(((0+1)+2)+(3+4))");
  EXPECT_EQ(spell(m, 7), "(((0+1)+(2+3))+((4+5)+6))");
  m.block = 2;
  EXPECT_EQ(spell(m, 5), "(((0+1)+(2+3))+4)");
  m.order = Order::blocked;
  EXPECT_EQ(spell(m, 7), "((((0+1)+(2+3))+(4+5))+6)");
  m.block = 3;
  EXPECT_EQ(spell(m, 7), "((((0+1)+2)+((3+4)+5))+6)");
  m.block = std::size_t(-1);
  EXPECT_EQ(spell(m, 3), "((0+1)+2)");
}

TEST(Dot, OrderOfTrees) {
  DotModel m = plain();
  m.order = Order::tree, m.width = 2;
  EXPECT_EQ(spell(m, 1), "0");
  EXPECT_EQ(spell(m, 5), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(spell(m, 6), "(((0+1)+(2+3))+(4+5))");
  m.width = 3;
  EXPECT_EQ(spell(m, 3), "((0+1)+2)");
  EXPECT_EQ(spell(m, 7), "((((0+1)+2)+((3+4)+5))+6)");
  EXPECT_EQ(spell(m, 10), "(((((0+1)+2)+((3+4)+5))+((6+7)+8))+9)");
  m.width = 4;
  EXPECT_EQ(spell(m, 6), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(spell(m, 9), "((((0+1)+(2+3))+((4+5)+(6+7)))+8)");
  m.block = 2;
  EXPECT_EQ(spell(m, 10), "((((0+1)+(2+3))+((4+5)+(6+7)))+(8+9))");
  m.block = 1, m.width = std::size_t(-1);
  EXPECT_EQ(spell(m, 5), "(((0+1)+2)+(3+4))");  // wide enough: in halves
}

/// Adds level by level, as hardware does: groups of w neighbours, until one remains.
TEST(Dot, TreesAgainstLevels) {
  const auto group = [](auto& self, const std::vector<std::string>& x, std::size_t begin,
                        std::size_t end) -> std::string {
    if (end - begin == 1) return x[begin];
    const std::size_t middle = (begin + end + 1) / 2;
    return "(" + self(self, x, begin, middle) + "+" + self(self, x, middle, end) + ")";
  };
  for (std::size_t width = 2; width <= 9; ++width)
    for (int n = 1; n <= 100; ++n) {
      DotModel m = plain();
      m.order = Order::tree, m.width = width;
      std::vector<std::string> level;
      for (int i = 0; i < n; ++i) level.push_back(std::to_string(i));
      while (level.size() > 1) {
        std::vector<std::string> next;
        for (std::size_t i = 0; i < level.size(); i += width)
          next.push_back(group(group, level, i, std::min(level.size(), i + width)));
        level = next;
      }
      ASSERT_EQ(spell(m, n), level[0]) << n << " terms, width " << width;
    }
}

TEST(Dot, OrderOfLanes) {
  DotModel m = plain();
  m.order = Order::interleaved, m.width = 1;
  EXPECT_EQ(spell(m, 4), "(((0+1)+2)+3)");
  m.width = 4;
  EXPECT_EQ(spell(m, 3), "((0+1)+2)");  // a lane without terms adds nothing
  EXPECT_EQ(spell(m, 4), "((0+1)+(2+3))");
  EXPECT_EQ(spell(m, 10), "((((0+4)+8)+((1+5)+9))+((2+6)+(3+7)))");
  m.promoted = Stage{fp32};
  EXPECT_EQ(spell(m, 5), "((fp32((0+4))+fp32(1))fp32+(fp32(2)+fp32(3))fp32)fp32");
  m = plain();
  m.order = Order::interleaved, m.width = 2, m.compensation = Compensation::neumaier;
  EXPECT_EQ(spell(m, 3), "(((0+2)+(0+((2-(0+2))+0)))+(1+0))");
}

TEST(Dot, OutputAndAddend) {
  DotModel m = plain();
  m.output = Stage{bf16};
  EXPECT_EQ(spell(m, 2), "bf16((0+1))");
  m.output = Stage{fp16};
  EXPECT_EQ(spell(m, 2), "(0+1)");
  m = plain(bf16);
  PlainDots dots(m);
  const Codes ones(300, 0x3f80);
  EXPECT_EQ(bf16.value(dots(ones, ones, {}, 0)), 256);
  EXPECT_EQ(bf16.value(dots(ones, ones, 0x4080, 0)), 260);  // C = 4 is added last; added first it would be lost
  EXPECT_EQ(dots(Codes{}, Codes{}, 0x4080, 0), 0x4080u);
  EXPECT_EQ(dots(Codes{}, Codes{}, {}, 0), 0u);
  m.output = Stage{e5m2};
  PlainDots stored(m);
  EXPECT_EQ(e5m2.value(stored(ones, ones, {}, 0)), 256);
  EXPECT_EQ(e5m2.value(stored(ones, ones, 0x48, 0)), 256);  // 8, added in bf16: 264, which e5m2 rounds to 256
  EXPECT_EQ(stored(Codes{}, Codes{}, 0x7f, 0), 0x7fu);      // without terms a NaN keeps its code word
}

TEST(Dot, OperandsOfTwoFormats) {
  DotModel m{e4m3, {}, {fp32}};
  m.input_b = e5m2;
  EXPECT_EQ(fp32.value(dot(m, Codes{0x38, 0x40}, Codes{0x40, 0x3c})), 4);  // 1 * 2 + 2 * 1
  m.accumulator = {e4m3};
  EXPECT_THROW((void)dot(m, Codes{0x38}, Codes{0x38}), std::invalid_argument);  // e4m3 does not hold e5m2
  EXPECT_EQ(sum(m, Codes{0x38, 0x38}), 0x40u);
}

TEST(Dot, OrderOfPromotion) {
  DotModel m = plain();
  m.order = Order::blocked;
  m.block = 2;
  m.promoted = Stage{fp32};
  EXPECT_EQ(spell(m, 5), "((fp32((0+1))+fp32((2+3)))fp32+fp32(4))fp32");
  EXPECT_EQ(spell(m, 2), "fp32((0+1))");
}

TEST(Dot, OrderOfProducts) {
  DotModel m = plain();
  EXPECT_EQ(spell(m, 3, true), "(((a0*b0)+(a1*b1))+(a2*b2))");
  m.product.reset();
  EXPECT_EQ(spell(m, 3, true), "fma(a2,b2,fma(a1,b1,(a0*b0)))");
  m.order = Order::blocked;
  m.block = 2;
  EXPECT_EQ(spell(m, 4, true), "(fma(a1,b1,(a0*b0))+fma(a3,b3,(a2*b2)))");
  m = plain();
  m.product = Stage{fp32};
  EXPECT_EQ(spell(m, 2, true), "(fp16((fp32(a0)*fp32(b0))fp32)+fp16((fp32(a1)*fp32(b1))fp32))");
  m.accumulator = {tf32};
  EXPECT_EQ(spell(m, 1, true), "tf32((fp32(a0)*fp32(b0))fp32)");
}

TEST(Dot, OrderOfCompensation) {
  DotModel m = plain();
  m.compensation = Compensation::kahan;
  EXPECT_EQ(spell(m, 2), "(0+(1-0))");
  const std::string y1 = "(1-0)", t1 = "(0+(1-0))", c1 = "((" + t1 + "-0)-" + y1 + ")";
  EXPECT_EQ(spell(m, 3), "(" + t1 + "+(2-" + c1 + "))");
}

// Results against doubles.

struct Reference {
  FloatFormat f;
  Rounding r = {};
  double operator()(double exact) const { return f.value(encode(f, r, exact).code); }
};

/// What a reference in doubles determines: one NaN, and zeros without sign.
std::string text(double x) { return std::isnan(x) ? "NaN" : std::to_string(x + 0.0); }

Codes random_codes(const FloatFormat& f, std::size_t n, std::uint64_t stream, double offset) {
  Codes codes;
  for (std::size_t i = 0; i < n; ++i)
    codes.push_back(encode(f, {}, static_cast<double>(random_word(7, stream, i) >> 40) * 0x1p-24 - offset).code);
  return codes;
}

TEST(Dot, SequentialKahanNeumaierAgainstLoops) {
  for (const FloatFormat& f : {fp16, bf16, e4m3, e5m2}) {
    for (const RoundingMode mode :
         {RoundingMode::nearest_even, RoundingMode::toward_zero, RoundingMode::toward_negative, RoundingMode::to_odd}) {
      const Reference fl{f, {mode}};
      for (const double offset : {0.0, 0.5}) {
        const Codes a = random_codes(f, 300, 1, offset), b = random_codes(f, 300, 2, offset);
        DotModel m = plain(f);
        m.product = m.accumulator = {f, {mode}};
        double s = 0, k = 0, kc = 0, t = 0, tc = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
          const double p = fl(f.value(a[i]) * f.value(b[i]));
          s = fl(s + p);
          const double y = fl(p - kc), next = fl(k + y);
          kc = fl(fl(next - k) - y);
          k = next;
          const double sum = fl(t + p);
          if (std::fabs(t) < std::fabs(p)) tc = fl(tc + fl(fl(p - sum) + t));
          else tc = fl(tc + fl(fl(t - sum) + p));
          t = sum;
        }
        EXPECT_EQ(text(f.value(dot(m, a, b))), text(s));
        m.compensation = Compensation::kahan;
        EXPECT_EQ(text(f.value(dot(m, a, b))), text(k));
        m.compensation = Compensation::neumaier;
        EXPECT_EQ(text(f.value(dot(m, a, b))), text(fl(t + tc)));
      }
    }
  }
}

/// Pairwise sums from the bottom: neighbours are added level by level (the same tree if n is a power of two).
TEST(Dot, PairwiseAgainstLevels) {
  const Reference fl{bf16};
  for (std::size_t n = 1; n <= 4096; n *= 2) {
    const Codes x = random_codes(bf16, n, 3, 0);
    std::vector<double> level;
    for (const auto code : x) level.push_back(bf16.value(code));
    for (; level.size() > 1; level.resize(level.size() / 2))
      for (std::size_t i = 0; i < level.size() / 2; ++i) level[i] = fl(level[2 * i] + level[2 * i + 1]);
    DotModel m = plain(bf16);
    m.order = Order::pairwise;
    EXPECT_EQ(bf16.value(sum(m, x)), level[0]) << n;
  }
}

TEST(Dot, FusedAndPromotedAgainstLoops) {
  const Codes a = random_codes(fp16, 1000, 4, 0.5), b = random_codes(fp16, 1000, 5, 0.25);
  DotModel m{fp16, {}, {fp16}, Stage{fp32}, Order::blocked, 128, Compensation::none, 0};
  const Reference narrow{fp16}, wide{fp32};
  double total = 0;
  for (std::size_t i = 0; i < a.size();) {
    double s = 0;
    do {
      s = narrow(std::fma(fp16.value(a[i]), fp16.value(b[i]),
                          s));  // exact in double: |a b| < 1, s < 128, 2^-34 the finest bit
      ++i;
    } while (i % 128 != 0 && i < a.size());
    total = wide(total + s);
  }
  EXPECT_EQ(fp32.value(dot(m, a, b)), total);
}

/// Another order gives another result on these operands, so a mutated order cannot pass the tests above.
TEST(Dot, OrdersDiffer) {
  const Codes x = random_codes(bf16, 1000, 6, 0);
  std::vector<double> results;
  const auto note = [&](std::function<void(DotModel&)> change) {
    DotModel m = plain(bf16);
    change(m);
    results.push_back(bf16.value(sum(m, x)));
  };
  note([](DotModel&) {});
  note([](DotModel& m) { m.order = Order::pairwise; });
  note([](DotModel& m) { m.order = Order::blocked, m.block = 8; });
  EXPECT_EQ(results[0], 256);  // nearest-even stagnates
  EXPECT_NE(results[0], results[1]);
  EXPECT_NE(results[0], results[2]);
  EXPECT_NE(results[1], results[2]);
  const Codes reversed(x.rbegin(), x.rend());
  DotModel m = plain(bf16);
  m.order = Order::blocked, m.block = 8;
  EXPECT_NE(sum(m, x), sum(m, reversed));
}

TEST(Dot, StochasticBitsAreCountedOperations) {
  DotModel m = plain(bf16);
  m.accumulator.rounding.mode = RoundingMode::stochastic;
  m.seed = 11;
  const Codes x = random_codes(bf16, 500, 8, 0);
  const auto by_hand = [&](std::uint64_t stream) {
    std::uint64_t s = x[0];
    for (std::size_t i = 1; i < x.size(); ++i) {
      // a bf16 sum in double is exact; random_bits = 32 of them lie below the last kept bit
      s = encode(bf16, m.accumulator.rounding, bf16.value(s) + bf16.value(x[i]), rounding_bits(11, stream, i - 1)).code;
    }
    return s;
  };
  EXPECT_EQ(sum(m, x, 0), by_hand(0));
  EXPECT_EQ(sum(m, x, 5), by_hand(5));
  EXPECT_NE(sum(m, x, 0), sum(m, x, 5));
}

TEST(Dot, EdgesAndRefusals) {
  const DotModel m = plain();
  EXPECT_EQ(sum(m, Codes{}), 0u);
  EXPECT_EQ(sum(m, Codes{0x8000}), 0x8000u);  // the sum of one term is the term
  EXPECT_THROW((void)dot(m, Codes{1}, Codes{1, 2}), std::invalid_argument);
  EXPECT_THROW((void)sum(plain(e8m0), Codes{1}), std::invalid_argument);
  DotModel zero = m;
  zero.order = Order::blocked, zero.block = 0;
  EXPECT_THROW((void)sum(zero, Codes{1}), std::invalid_argument);
  DotModel narrow = m;
  narrow.input = bf16;
  EXPECT_THROW((void)dot(narrow, Codes{1}, Codes{1}), std::invalid_argument);
  EXPECT_EQ(sum(narrow, Codes{0x3f80}), 0x3c00u);  // a sum converts its terms
  DotModel fused = m;
  fused.product.reset(), fused.compensation = Compensation::kahan;
  EXPECT_THROW((void)dot(fused, Codes{1}, Codes{1}), std::invalid_argument);
  EXPECT_EQ(sum(fused, Codes{0x3c00, 0x3c00}), 0x4000u);
}

/// Results that surprised users: 70,000 ones sum to 256 in bf16 (ml-explore/mlx #3909), 4096 ones to 2048 in fp16
/// (huggingface/candle #3718).
TEST(Dot, Ones) {
  EXPECT_EQ(bf16.value(sum(plain(bf16), Codes(70000, 0x3f80))), 256);
  EXPECT_EQ(fp16.value(sum(plain(fp16), Codes(4096, 0x3c00))), 2048);
  DotModel m = plain(bf16);
  m.order = Order::blocked, m.block = 128, m.promoted = Stage{fp32};
  EXPECT_EQ(fp32.value(sum(m, Codes(70000, 0x3f80))), 70000);
}

/// holds(), by the finite values themselves.
TEST(Dot, AFormatHoldsOneWhoseValuesItHas) {
  std::vector<FloatFormat> formats;
  for (const NamedFormat& row : catalogue())
    if (row.format.storage_bits() <= 16) formats.push_back(row.format);
  for (const char* const name : {"e2m0finite", "e4m0finite", "e8m1", "e2m5", "e6m9"})
    formats.push_back(parse_format(name));
  std::vector<std::vector<double>> values;
  for (const FloatFormat& f : formats) {
    std::vector<double>& all = values.emplace_back();
    for (std::uint64_t code = 0; code <= f.code_mask(); ++code)
      if (f.is_finite(code)) all.push_back(f.value(code));
    std::ranges::sort(all);
  }
  int held = 0;
  for (std::size_t outer = 0; outer < formats.size(); ++outer)
    for (std::size_t inner = 0; inner < formats.size(); ++inner) {
      const bool all = std::ranges::all_of(values[inner],
                                           [&](double x) { return std::ranges::binary_search(values[outer], x); });
      EXPECT_EQ(holds(formats[outer], formats[inner]), all)
          << format_name(formats[outer]) << " " << format_name(formats[inner]);
      held += all;
    }
  EXPECT_GT(held, 100);
}

}  // namespace dot_test
}  // namespace halfulp
