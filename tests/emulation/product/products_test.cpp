// gemm and dot: every output equals the scalar definition's, for formats, modes, orders, shapes and operands of every
// kind, with every instruction set of this CPU.
#include "products.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/product/kernels.hpp>

#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace halfulp {
namespace products_test {

using check::Kind, check::Matrices, check::Random, check::expected;

/// Calls f once for each instruction set of this CPU.
template <class F>
void on_every_instruction_set(F f) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    f(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
}

struct Count {
  std::size_t compared = 0, by_vectors = 0;
};

void compare(const DotModel& model, const Matrices& x, Count& count, const std::string& note) {
  const auto want = expected(model, x);
  on_every_instruction_set([&](const char* set) {
    std::vector<std::uint64_t> d(want.size(), 77);
    gemm(model, x.operands(), std::span(d));
    count.compared += d.size();
    count.by_vectors += has_vector_products(model) ? d.size() : 0;
    for (std::size_t i = 0; i < d.size(); ++i)
      ASSERT_EQ(d[i], want[i]) << product_model_name(model) << ' ' << set << ' ' << x.m << 'x' << x.n << 'x' << x.k
                               << ' ' << note << " output " << i << std::hex << " got " << d[i] << " want " << want[i];
  });
}

constexpr const char* formats[] = {"fp16",    "bf16",     "e4m3",        "e5m2",      "e4m3fnuz",  "e5m2fnuz",
                                   "e3m4",    "e4m3ieee", "e4m3b11fnuz", "p3109k8p3", "p3109k8p4", "e2m3",
                                   "e3m2",    "e2m1",     "e6m9",        "e7m8",      "e4m11",     "e3m12",
                                   "e5m10fn", "e8m7fn",   "e2m5",        "e8m3",      "e6m1"};
/// The environment's, and those that need more work.
constexpr const char* modes[] = {"nearest-even", "toward-zero", "toward-positive", "toward-negative"};
constexpr const char* other_modes[] = {"nearest-away", "nearest-to-zero", "to-odd"};

std::vector<std::string> every_mode(const char* more = nullptr) {
  std::vector<std::string> all(std::begin(modes), std::end(modes));
  all.insert(all.end(), std::begin(other_modes), std::end(other_modes));
  if (more) all.emplace_back(more);
  return all;
}

void compare_all_kinds(const std::string& text, Random& random, Count& count) {
  DotModel model;
  try {
    model = std::get<DotModel>(parse_product_model(text));
  } catch (const std::invalid_argument& error) {  // a format that fp32 does not hold
    ASSERT_NE(std::string(error.what()).find("need a format that holds"), std::string::npos) << error.what();
    return;
  }
  for (int kind = 0; kind < static_cast<int>(Kind::count); ++kind) {
    const bool addend = random() & 1;
    const std::size_t k = random() % 3 ? 1 + random() % 40 : 1 + random() % 3;  // few terms keep zeros of either sign
    const Matrices x(model, 1 + random() % 18, 1 + random() % 34, k, static_cast<Kind>(kind), addend, random);
    compare(model, x, count, "kind " + std::to_string(kind) + (addend ? " with C" : ""));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Products, EveryFormatAndMode) {
  Count count, of_others;
  Random random{1};
  for (const char* format : formats)
    for (const std::string& mode : every_mode("stochastic,seed=7"))
      for (const char* more : {"", ",overflow=saturate", ",mul=exact", ",acc=fp32", ",acc=fp32,mul=exact",
                               ",order=blocked:7,promote=fp32"}) {
        compare_all_kinds(
            "in=" + std::string(format) + ",round=" + mode +
                (std::string(more).find("acc") == std::string::npos ? ",acc=" + std::string(format) : "") + more,
            random, std::ranges::find(modes, mode) != std::end(modes) ? count : of_others);
        if (HasFatalFailure()) return;
      }
  EXPECT_GT(count.compared, 500'000u);  // on one instruction set, which is all that an Arm CPU has
  EXPECT_GT(count.by_vectors, count.compared / 2);
  EXPECT_GT(of_others.by_vectors, 0u);  // without AVX-512 most of them are lockstep.cpp's
}

/// Every product and every sum of two finite values of narrow formats: tiles of 8 rows and 16 columns, whose operands
/// are all small, or large, or of every size.
TEST(Products, EveryPairOfNarrowFormats) {
  for (const char* format : formats)
    for (const std::string& mode : every_mode())
      for (const char* more : {"", ",overflow=saturate", ",flush=outputs", ",flush=both,tininess=before"}) {
        const std::string text = std::string(format) + ",round=" + mode + more;
        const DotModel model = std::get<DotModel>(parse_product_model(text));
        const FloatFormat& f = model.input;
        if (f.storage_bits() > 8) continue;
        std::vector<std::uint64_t> codes;
        for (std::uint64_t code = 0; code <= f.code_mask(); ++code)
          if (f.is_finite(code)) codes.push_back(code);
        const std::size_t n = codes.size();
        const std::uint64_t one = check::rounded(f, 1);
        std::vector<std::uint64_t> a, b(n, one);
        for (const std::uint64_t code : codes) a.insert(a.end(), {code, one});
        b.insert(b.end(), codes.begin(), codes.end());
        PlainDots dots(model);
        std::vector<std::uint64_t> products, sums;
        for (const std::uint64_t x : codes)
          for (const std::uint64_t y : codes) {
            products.push_back(dots(std::array{x}, std::array{y}, {}, 0));
            sums.push_back(dots(std::array{x, one}, std::array{one, y}, {}, 0));
          }
        on_every_instruction_set([&](const char* set) {
          std::vector<std::uint64_t> d(n * n);
          gemm(model, GemmOperands{n, n, 1, std::span(codes), std::span(codes)}, std::span(d));
          EXPECT_EQ(d, products) << text << ' ' << set;
          gemm(model, GemmOperands{n, n, 2, std::span(a), std::span(b)}, std::span(d));
          EXPECT_EQ(d, sums) << text << ' ' << set;
        });
        if (HasFailure()) return;
      }
}

/// Products and sums of two numbers of 16 bits equal those of arrays, which have kernels of their own (array_sums_test
/// holds these to the scalar definition): a first operand in 997 with all second ones, or, in the exhaustive run, all
/// 2^32 pairs.
TEST(Products, PairsOfSixteenBits) {
  constexpr std::size_t many = 65536, rows = 8;  // a tile's
  std::vector<std::uint16_t> all(many), ones_and_all(2 * many), d(rows * many), wanted(many);
  for (std::size_t i = 0; i < many; ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const char* format : {"bf16", "fp16"})
    for (const std::string& mode : every_mode()) {
      const DotModel model = std::get<DotModel>(parse_product_model(format + (",round=" + mode)));
      const auto one = static_cast<std::uint16_t>(check::rounded(model.input, 1));
      std::fill_n(ones_and_all.begin(), many, one);
      std::ranges::copy(all, ones_and_all.begin() + many);
      for (std::size_t first = 0; first < many; first += rows * (check::exhaustive() ? 1 : 997)) {
        std::vector<std::uint16_t> a(rows), a_and_one;
        for (std::size_t r = 0; r < rows; ++r) a[r] = static_cast<std::uint16_t>(first + r);
        for (const std::uint16_t code : a) a_and_one.insert(a_and_one.end(), {code, one});
        on_every_instruction_set([&](const char* set) {
          const auto expect = [&](Operation operation, std::span<const std::uint16_t> x,
                                  std::span<const std::uint16_t> y) {
            gemm(model, GemmOperands{rows, many, x.size() / rows, x, y}, std::span(d));
            for (std::size_t r = 0; r < rows; ++r) {
              const std::vector<std::uint16_t> same(many, a[r]);
              apply<std::uint16_t>(operation, model.input, model.accumulator.rounding, same, all, {}, wanted);
              EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), d.begin() + static_cast<std::ptrdiff_t>(r * many)))
                  << product_model_name(model) << ' ' << set << ' ' << info(operation).name << ' ' << first + r;
            }
          };
          expect(Operation::mul, a, all);
          expect(Operation::add, a_and_one, ones_and_all);
        });
        if (HasFailure()) return;
      }
    }
}

/// Orders, stages of different formats, and models that only the scalar definition computes.
TEST(Products, EveryOrder) {
  Count count;
  Random random{2};
  const char* const orders[] = {"sequential", "blocked:1",     "blocked:5",     "blocked:64",
                                "pairwise",   "pairwise:3",    "tree:2",        "tree:3:2",
                                "tree:8",     "interleaved:1", "interleaved:3", "interleaved:8"};
  for (const char* base : {"fp16", "bf16", "e4m3", "e5m2fnuz", "in=fp16,acc=fp32", "in=e4m3,acc=bf16",
                           "in=e4m3,b=e5m2,mul=fp16,acc=fp32", "bf16,promote=fp32", "e5m2,promote=fp32/toward-negative",
                           "fp32", "in=tf32,acc=fp32,mul=exact", "fp16,mul=exact,promote=fp32", "e4m11"})
    for (const char* order : orders)
      for (const char* more :
           {"", ",round=toward-zero", ",round=toward-negative", ",round=nearest-away", ",round=to-odd",
            ",round=stochastic,seed=3", ",out=e5m2/toward-positive/overflow:saturate", ",nan=cuda",
            ",nan=cuda,out=bf16/nan:keep", ",nan=propagate"}) {
        compare_all_kinds(std::string(base) + ",order=" + order + more, random, count);
        if (HasFatalFailure()) return;
      }
  EXPECT_GT(count.by_vectors, count.compared / 2);
}

/// Streams whose numbers need a carry into the upper word, within a row and between rows.
TEST(Products, StochasticStreamsAroundTwoToThe32) {
  Random random{4};
  const auto model = std::get<DotModel>(parse_product_model("fp16,round=stochastic,seed=81985529216486895"));
  const Matrices x(model, 11, 37, 9, Kind::normal, true, random);
  for (const std::uint64_t first : {std::uint64_t{0xffff'fff0}, std::uint64_t{0xffff'ff00}, std::uint64_t{0xffff'fe60},
                                    std::uint64_t{5} << 32, ~std::uint64_t{0} - 99}) {
    const auto want = expected(model, x, first);
    on_every_instruction_set([&](const char* set) {
      std::vector<std::uint64_t> d(want.size());
      gemm(model, x.operands(), std::span(d), first);
      EXPECT_EQ(d, want) << set << " from stream " << first;
    });
  }
}

/// A stochastic sum with operands such that the random word only just carries, or only just does not.
TEST(Products, StochasticSumsToTheLastBit) {
  const auto model = std::get<DotModel>(parse_product_model("in=e2m1,b=e7m15,acc=e7m15,round=stochastic,seed=12"));
  const FloatFormat& wide = model.second();
  const std::uint64_t n = 1 << 20, one = check::rounded(wide, 1);
  std::vector<std::uint64_t> a(2, check::rounded(model.input, 1)), b(2 * n, one);
  std::vector<std::pair<std::uint64_t, bool>> wanted;  // an output, and whether it is rounded up
  for (std::uint64_t j = 0; j < n; ++j) {
    // Two words for the first term (a conversion and its product), then another two and that of the sum.
    const std::uint64_t word = rounding_bits(12, j, 4);
    if ((word & 0xffff) != 0 || word == 0) continue;
    const double unit = 0x1p-15, share = 1 - static_cast<double>(word) * 0x1p-32;
    const bool up = wanted.size() % 2 == 0;
    b[n + j] = check::rounded(wide, share * unit) - (up ? 0 : 1);
    wanted.emplace_back(j, up);
  }
  EXPECT_GT(wanted.size(), 8u);
  on_every_instruction_set([&](const char* set) {
    std::vector<std::uint64_t> d(n);
    gemm(model, GemmOperands{1, n, 2, std::span(a), std::span(b)}, std::span(d));
    for (const auto& [j, up] : wanted) EXPECT_EQ(d[j], one + up) << set << " output " << j;
  });
}

/// The same where what a sum of floats lacks is a subnormal number: 2^-102 + (2^-117 + 2^-127).
TEST(Products, StochasticSumsWithSubnormalRemainders) {
  const auto model = std::get<DotModel>(parse_product_model("in=e2m1,b=e8m10,acc=e8m10,round=stochastic,seed=12"));
  const FloatFormat& wide = model.second();
  const std::uint64_t n = 1 << 20, sum = check::rounded(wide, 0x1p-102);
  const std::vector<std::uint64_t> a(2, check::rounded(model.input, 1));
  std::vector<std::uint64_t> b(2 * n, sum), wanted(n);
  std::fill_n(b.begin() + n, n, check::rounded(wide, 0x1p-117 + 0x1p-127));
  constexpr std::uint64_t fraction = (std::uint64_t{1} << 27) + (std::uint64_t{1} << 17);  // of 2^-112, times 2^32
  for (std::uint64_t j = 0; j < n; ++j) wanted[j] = sum + ((rounding_bits(12, j, 4) + fraction) >> 32);
  on_every_instruction_set([&](const char* set) {
    std::vector<std::uint64_t> d(n);
    gemm(model, GemmOperands{1, n, 2, std::span(a), std::span(b)}, std::span(d));
    EXPECT_EQ(d, wanted) << set;
  });
}

/// Results and operands that are tiny become zeros of their signs, in the stages that say so: operands of every kind,
/// and small ones, whose products and sums lie around the smallest normal number.
TEST(Products, Flushing) {
  Count count, of_others;
  Random random{11};
  const auto small = [&](const DotModel& model, std::vector<std::uint64_t>& codes, const FloatFormat& f) {
    const FloatFormat multiplier = model.product.value_or(model.accumulator).format;
    const double middle = FloatFormat::power_of_two((multiplier.emin() - 1) / 2);
    for (std::uint64_t& code : codes) {
      const double value = (random() & 1 ? -1 : 1) * middle * std::exp2(static_cast<double>(random() % 1024) / 256 - 2);
      if (random() % 8) code = check::rounded(f, value);
    }
  };
  for (const char* format : {"fp16",
                             "bf16",
                             "e4m3",
                             "e5m2",
                             "e5m2fnuz",
                             "e3m4",
                             "fp32",
                             "tf32",
                             "in=fp16,acc=fp32",
                             "in=bf16,acc=fp32",
                             "in=bf16,acc=fp32,mul=exact",
                             "fp32,mul=exact",
                             "fp16,mul=exact",
                             "in=e4m3,acc=e5m10b18",
                             "fp16,mul=fp16/flush:none",
                             "fp16,promote=fp32/flush:none,order=blocked:3",
                             "in=e4m3,mul=fp16,acc=fp16",
                             "in=e4m3,mul=e5m10b9,acc=fp32",
                             "in=e4m3,acc=fp16,mul=exact",
                             "in=e5m2,b=e4m3,acc=bf16",
                             "in=e2m1,mul=e4m3,acc=fp16",
                             "in=e2m1,acc=fp16,mul=exact",
                             "in=e2m1,acc=bf16",
                             "in=e3m2,acc=fp32,comp=kahan",
                             "fp16,promote=fp32,order=blocked:3",
                             "in=e5m2,acc=tf32,mul=exact",
                             "fp16,order=pairwise:2",
                             "fp16,out=e5m2",
                             "in=e4m3,mul=fp16,acc=fp32,out=e4m3",
                             "e4m11"})
    for (const std::string& mode : every_mode())
      for (const char* more : {",flush=both", ",flush=outputs", ",flush=inputs", ",flush=both,tininess=before",
                               ",flush=both,overflow=saturate"}) {
        const std::string text = format + std::string(",round=") + mode + more;
        Count& counted = std::ranges::find(modes, mode) != std::end(modes) && std::strcmp(more, ",flush=inputs") != 0
                             ? count
                             : of_others;
        compare_all_kinds(text, random, counted);
        if (HasFatalFailure()) return;
        const auto model = std::get<DotModel>(parse_product_model(text));
        for (const std::size_t k : {1, 2, 9}) {
          Matrices x(model, 9, 17, k, Kind::normal, (random() & 1) != 0, random);
          small(model, x.a, model.input), small(model, x.b, model.second());
          compare(model, x, counted, "small operands");
          if (HasFatalFailure()) return;
        }
      }
  EXPECT_GT(count.by_vectors, count.compared * 2 / 3);
}

/// Sums around the smallest normal number, where kernels change: the CPU's converter to bf16 takes subnormal floats for
/// zeros, and what is flushed is looked for only where it can occur. Operands are powers of two or next to one, so that
/// sums cancel but for a last place, or altogether.
TEST(Products, SumsAroundTheSmallestNormal) {
  Count count;
  Random random{17};
  for (const char* text :
       {"bf16", "in=bf16,b=e8m3,acc=bf16", "bf16,order=interleaved:2", "bf16,order=blocked:4,promote=fp32",
        "bf16,flush=both", "bf16,flush=outputs,tininess=before", "bf16,flush=both,order=pairwise:3",
        "bf16,flush=both,round=toward-negative", "in=bf16,acc=fp32,flush=both",
        "in=bf16,acc=fp32,mul=exact,flush=outputs", "fp16,flush=both", "fp16,flush=both,order=blocked:4,promote=fp32",
        "fp16,mul=fp32,acc=fp32,flush=both", "in=e4m3,acc=fp16,flush=both", "e5m2,flush=both"}) {
    const auto model = std::get<DotModel>(parse_product_model(text));
    const int emin = model.product.value_or(model.accumulator).format.emin();
    for (int exponent = emin - 3; exponent <= emin + 2 * model.input.precision(); ++exponent)
      for (const std::size_t k : {1, 2, 3, 4, 5, 6, 11}) {
        Matrices x(model, 9, 17, k, Kind::normal, false, random);
        const auto fill = [&](std::vector<std::uint64_t>& codes, const FloatFormat& f, int power) {
          for (std::uint64_t& code : codes) {
            const std::uint64_t bits = random();
            code = bits % 16 == 0 ? f.zero(false) : check::rounded(f, std::ldexp(1.0, power)) + (bits >> 8 & 1);
            if (bits >> 9 & 1) code ^= f.sign_mask();
          }
        };
        fill(x.a, model.input, exponent / 2), fill(x.b, model.second(), exponent - exponent / 2);
        compare(model, x, count, "products of 2^" + std::to_string(exponent));
        if (HasFatalFailure()) return;
      }
  }
  EXPECT_GT(count.by_vectors, count.compared * 3 / 4);
}

/// One output, of few terms or of many equal ones and a last one, with or without C: what overflows and then cancels,
/// what grows because each sum is rounded away from zero, zeros and NaN of formats that have other ones.
TEST(Products, SumsThatOverflowGrowOrHaveOddSpecials) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    const char* text;
    std::vector<double> a, b;
    std::size_t times = 1;  // so often the first term
    std::optional<double> c = {};
  };
  const Case cases[] = {
      // The largest value is no multiple of the smallest normal number: what is left of it may be tiny.
      {"e2m3,flush=outputs", {4, -7}, {2, 1}},
      {"e2m9,flush=both,overflow=saturate", {2, -3}, {2, 1}},
      {"e2m5,flush=outputs,round=toward-zero", {2, -3}, {2, 1}},
      {"e2m5finite,flush=outputs,round=toward-zero", {4, -7}, {2, 1}},
      {"in=e2m1b0,acc=e2m3,flush=outputs", {4, -6, -1}, {2, 1, 1}},
      // A sum that is rounded up doubles with every few terms.
      {"e4m3,round=toward-positive,overflow=saturate", {1}, {1}, 1000},
      {"e5m2,round=toward-positive,overflow=saturate", {1, -1}, {1, 1}, 1000},
      {"e2m3,round=toward-negative", {-1, 1}, {1, 1}, 1000},
      {"e3m2,round=toward-positive", {1}, {1}, 4000},
      // The sum of parts flushes, those of products cannot be tiny.
      {"in=e2m1,acc=e4m3,overflow=saturate,flush=both,order=pairwise", {6}, {6}, 16},
      {"in=e2m1,acc=e3m2,round=toward-zero,flush=outputs,order=blocked:4", {6}, {6}, 16},
      // A product below its format's smallest number becomes that number, in a stage that does not hold it otherwise.
      {"in=e2m1,mul=e2m1,acc=e4m3,round=toward-positive,overflow=saturate", {0.5}, {0.5}, 64},
      {"in=e2m1,mul=e2m1,acc=e4m3,round=toward-positive,promote=fp32", {0.5}, {0.5}, 64},
      {"in=e2m2b4finite,mul=e2m2b4finite,acc=e2m9b4finite,round=toward-positive,promote=fp32", {0x1p-5}, {0x1p-5}, 64},
      {"in=e2m2b4finite,mul=e2m2b4finite,acc=e2m9b4finite,round=to-odd,promote=fp32/nearest-even",
       {0x1p-5},
       {0x1p-5},
       64},
      {"in=e2m2b4finite,mul=e2m2b4finite,acc=e2m9b4finite,round=nearest-away,promote=fp32/nearest-even",
       {0x1p-1},
       {0x1p-5},
       60},
      {"in=e2m2b4finite,mul=e2m2b4finite,acc=e2m9b4finite,round=toward-positive,promote=fp32,order=interleaved:32",
       {0x1p-5},
       {0x1p-5},
       1024},
      {"in=e2m1,mul=e2m1,acc=e4m3,round=toward-positive,comp=kahan,promote=fp32", {0.5}, {0.5}, 64},
      {"in=e2m1,mul=e2m1,acc=e4m3,round=toward-positive,comp=neumaier,promote=fp32", {0.5}, {0.5}, 64},
      // Products of fewer bits than sums have need a larger aligner.
      {"in=e8m3,mul=e8m3,acc=bf16", {0x1p54, 1}, {0x1p54, 1}},
      {"in=e8m3,mul=e8m3,acc=bf16,round=toward-positive", {0x1p54, 1}, {0x1p54, 1}},
      {"in=e8m1,mul=e8m1,acc=e8m10", {0x1p52}, {0x1p53}},
      // Only the accumulator has no -0.
      {"in=e2m1,mul=e2m1,acc=e4m3fnuz,promote=fp32,flush=outputs", {0, -0.5}, {-1, 0.5}},
      {"in=e2m1,mul=e2m1,acc=e4m3fnuz,promote=fp32", {0}, {-1}},
      {"in=e2m1,mul=e2m1,acc=e4m3fnuz,round=stochastic,promote=fp32/nearest-even", {0}, {-1}},
      // Sums that are too large only between two of those that are watched, or after the last one.
      {"fp16", {1, 1}, {5000, -5000}, 14},
      {"fp16", {1}, {5000}, 16},
      {"fp16,overflow=saturate", {1, 1}, {5000, -5000}, 14},
      {"fp16,round=toward-zero", {1, 1}, {5000, -5000}, 14},
      {"fp16,round=nearest-away", {1, 1}, {5000, -5000}, 14},
      {"e4m3,overflow=saturate", {20, 20, -20, -5, 0}, {20, 20, 20, 20, 1}},
      {"e4m3,overflow=saturate,round=toward-zero", {20, 20, -20, -5, 0}, {20, 20, 20, 20, 1}},
      // What went beyond once is an infinity, or NaN, whatever follows: also where sums are large for long.
      {"e3m4", {8, 8, -8, -8, -8, 1}, {1, 1, 1, 1, 1, 1}},
      {"e3m4", {-8, -8, 8, 8, 8, 8}, {1, 1, 1, 1, 1, 1}, 600},
      {"e3m4,round=toward-positive", {15, 1, -15, -15, -15, -15, 1}, {1, 1, 1, 1, 1, 1, 1}, 1},
      {"e3m4,round=toward-positive", {-15, -15, 15, 1}, {1, 1, 1, 1}, 1},
      {"e3m4,round=toward-positive", {-15, -15, 15, 1}, {1, 1, 1, 1}, 600},
      {"e3m4,round=toward-negative", {-15, -1, 15, 15, 15, 15}, {1, 1, 1, 1, 1, 1}, 1},
      {"e3m4,round=toward-negative", {15, 15, -15, -1}, {1, 1, 1, 1}, 600},
      {"e4m3", {16, 4, -16, -16}, {28, 4, 28, 28}},                             // a tie that stays
      {"e4m3", {16, 4, 1, -16, -16}, {28, 4, 1, 28, 28}},                       // and then goes beyond
      {"e4m3,round=toward-positive", {16, 1, -16, -16}, {28, 1, 28, 28}, 300},  // NaN
      {"e3m4", {15.5, 0.25, -15, -15}, {1, 1, 1, 1}},                           // a tie that goes beyond
      {"e3m4,order=interleaved:2", {8, 8, 8, 8, -8, -8, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}},
      {"in=e2m1,mul=e2m1,acc=e3m4", {2, 2, 2, -2, -2, -2}, {3, 3, 3, 3, 3, 3}, 3},
      // NaN of an addend, in the bits of which a carry would run on.
      {"bf16,out=fp32,nan=cuda", {1}, {1}, 1, nan},
      {"in=bf16,acc=tf32,out=bf16,nan=cuda,round=nearest-away", {1}, {1}, 1, nan},
      // Sums beyond the floats.
      {"bf16,round=stochastic,seed=1", {0x1p60}, {0x1p60}, 1, 0x1.fep127},
      {"tf32,round=stochastic,seed=1", {-0x1p58}, {0x1p59}, 1, -0x1.ffcp127},
      // A subnormal operand becomes a zero of its format, which has no -0.
      {"in=e4m3fnuz,acc=bf16,flush=both", {-0x1p-8}, {1}},
      {"in=e4m3fnuz,acc=fp32,flush=both", {-0x1p-8}, {1}},
      {"in=bf16,b=e4m3fnuz,acc=bf16,flush=both", {1}, {-0x1p-8}, 1, -0.0},
      {"in=e4m3,acc=bf16,flush=both", {-0x1p-8}, {1}},
  };
  for (const Case& one : cases) {
    const DotModel model = std::get<DotModel>(parse_product_model(one.text));
    const auto codes = [&](const std::vector<double>& values, const FloatFormat& f) {
      std::vector<std::uint64_t> all(one.times - 1, check::rounded(f, values[0]));
      for (const double x : values) all.push_back(check::rounded(f, x));
      return all;
    };
    const auto a = codes(one.a, model.input), b = codes(one.b, model.second());
    std::vector<std::uint64_t> c;
    if (one.c)
      c.push_back(std::isnan(*one.c) ? model.result().canonical_nan() : check::rounded(model.result(), *one.c));
    const std::uint64_t want = PlainDots(model)(a, b, one.c ? std::optional(c[0]) : std::nullopt, 0);
    on_every_instruction_set([&](const char* set) {
      std::vector<std::uint64_t> d(1);
      gemm(model, GemmOperands{1, 1, a.size(), std::span(a), std::span(b), std::span(c)}, std::span(d));
      EXPECT_EQ(d[0], want) << one.text << ' ' << set << ": " << model.result().value(d[0]) << " instead of "
                            << model.result().value(want);
    });
  }
}

// A sum that overflows changes how those beside it are computed, and nothing else: here a float between two of the
// format's numbers would be rounded to their middle first.
TEST(Products, SumsBesideAnInfinityAreRoundedOnce) {
  const DotModel model = std::get<DotModel>(parse_product_model("in=e5m11,acc=e5m11"));
  const auto code = [&](double x) { return check::rounded(model.input, x); };
  const double odd = 1 + 0x1p-11;
  const std::vector<std::uint64_t> a = {code(1), code(1)},
                                   b = {code(40000), code(odd), code(40000), code(0x1p-12 - 0x1p-24)};
  on_every_instruction_set([&](const char* set) {
    std::vector<std::uint64_t> d(2);
    gemm(model, GemmOperands{1, 2, 2, std::span(a), std::span(b), {}}, std::span(d));
    EXPECT_TRUE(model.result().is_infinite(d[0])) << set;
    EXPECT_EQ(model.result().value(d[1]), odd) << set;
  });
}

TEST(Products, TheConverterServesWhereTheCpuHasIt) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16") && array::has_embedded_rounding()) {
    EXPECT_TRUE(products::has_bf16_converter());
    return;
  }
#endif
  GTEST_SKIP() << "no AVX512_BF16 here";
}

TEST(Products, StagesThatDiffer) {
  Count count;
  Random random{3};
  for (const char* text : {"in=e4m3,mul=e4m3/overflow:saturate,acc=fp16",
                           "in=e4m3,mul=e4m3fnuz,acc=fp32",
                           "e4m3,mul=e4m3/overflow:saturate",
                           "e4m3,overflow=saturate,mul=e4m3/overflow:ieee",
                           "in=e2m1,mul=e2m1,acc=e4m3",
                           "in=e2m3,mul=e2m3,acc=e4m3,round=toward-positive",
                           "in=e3m2,mul=e3m2,acc=e3m4",
                           "e3m4finite",
                           "in=e5m2,acc=fp16,overflow=saturate",
                           "in=e5m2,acc=e5m3,overflow=saturate",
                           "in=e4m1ieee,acc=p3109k8p4,overflow=saturate",
                           "in=e2m2ieee,mul=e2m2ieee,acc=e3m4,overflow=saturate",
                           "in=e4m3,mul=e5m3,acc=e5m3/toward-negative",
                           "in=e5m2,mul=bf16,acc=fp32",
                           "in=e5m2,b=e4m3,mul=exact,acc=bf16",
                           "in=fp16,acc=tf32",
                           "in=fp32,mul=bf16,acc=bf16",
                           "in=fp32,mul=tf32,acc=tf32,round=nearest-to-zero",
                           "in=fp32,mul=exact,acc=bf16,round=to-odd",
                           "in=tf32,mul=bf16,acc=bf16,round=nearest-away",
                           "in=bf16,acc=tf32,mul=exact",
                           "in=bf16,mul=exact,acc=fp32",
                           "fp16,mul=fp16/overflow:saturate",
                           "in=e4m3,mul=fp16/toward-negative,acc=fp32/toward-negative",
                           "in=e4m3,mul=fp16/toward-negative,acc=fp32",
                           "in=e2m1,mul=e2m1,acc=fp32",
                           "in=fp16,mul=fp32,acc=fp32",
                           "in=e5m2,mul=e5m2,acc=e5m2,out=fp32",
                           "fp16,out=fp16",
                           "fp16,out=e2m1",
                           "fp16,out=e4m3/stochastic,seed=4",
                           "in=e4m3,mul=fp16/stochastic,acc=e5m12/stochastic,seed=5",
                           "in=e4m3,b=e5m2,acc=fp16,round=stochastic,seed=6",
                           "in=e4m3,b=fp16,acc=fp16,round=stochastic,promote=fp32,order=blocked:4",
                           "fp16,round=stochastic,out=e4m3",
                           "bf16,mul=bf16/stochastic/bits:8,acc=bf16/stochastic/bits:8",
                           "bf16,out=e4m3fnuz,promote=fp32,order=blocked:4",
                           "in=e4m3,acc=fp64",
                           "fp64",
                           "fp16,acc=fp64",
                           "fp16,round=nearest-away",
                           "bf16,round=to-odd",
                           "fp16,flush=both",
                           "e5m2,comp=kahan",
                           "bf16,comp=neumaier,order=interleaved:4",
                           "e3m4,overflow=saturate,round=nearest-to-zero",
                           "in=e4m3,mul=fp16,acc=e5m12",
                           "in=e2m1,mul=e4m3fnuz,acc=fp32",
                           "in=e2m1,mul=exact,acc=e5m10fnuz,promote=fp32",
                           "in=e3m4,mul=e3m4,acc=e8m7",
                           "in=e4m3,mul=e4m3,acc=bf16",
                           "e7m8,overflow=saturate",
                           "e7m8b10",
                           "e6m9b60",
                           "in=fp16,acc=e8m20"}) {
    for (int i = 0; i < 4; ++i) compare_all_kinds(text, random, count);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(count.compared, 150'000u * hwy::SupportedAndGeneratedTargets().size());
}

// Products of floats with few bits are added by fma where that is the same: not where they are tiny, beyond the largest
// or not finite, nor where the bits of both operands are more than a float's.
TEST(Products, FloatsOfFewBits) {
  Count count;
  Random random{9};
  for (const char* mode : modes)
    for (const auto& [bits_a, bits_b] : {std::pair{8, 8}, {4, 20}, {12, 12}, {12, 13}, {13, 12}, {24, 1}})
      for (const double size : {1.0, 0x1p-60, 0x1p-64, 0x1p-73, 0x1p-76, 0x1p-130, 0x1p62, 0x1p63, 0x1p66})
        for (const bool with_infinity : {false, true}) {
          const auto model = std::get<DotModel>(parse_product_model(std::string("fp32,round=") + mode));
          Matrices x(model, 9, 17, 12, Kind::normal, false, random);
          const auto shorten = [&](std::vector<std::uint64_t>& codes, int bits) {
            for (std::uint64_t& code : codes) {
              const FloatFormat few{8, bits - 1, 127, NonFinite::ieee};
              const double value = static_cast<double>(random() % (1 << 24) + (1 << 24)) *
                                   (random() & 1 ? -0x1p-25 : 0x1p-25);
              code = check::rounded(fp32, few.value(check::rounded(few, value)) * size);
            }
          };
          shorten(x.a, bits_a), shorten(x.b, bits_b);
          if (with_infinity) x.a[0] = fp32.infinity(), x.b[3] = fp32.zero(false);
          compare(model, x, count, std::to_string(bits_a) + " and " + std::to_string(bits_b) + " bits");
          if (HasFatalFailure()) return;
        }
  EXPECT_EQ(count.by_vectors, count.compared);
}

TEST(Products, CompensatedSums) {
  Count count;
  Random random{7};
  for (const char* format : {"fp16", "bf16", "e4m3", "e5m2fnuz", "e3m4", "fp32", "in=fp16,acc=fp32", "in=e4m3,acc=fp16",
                             "in=bf16,mul=bf16,acc=fp32", "e2m3", "e4m11", "in=e4m3,acc=bf16"})
    for (const char* mode : modes)
      for (const char* more : {",comp=kahan", ",comp=neumaier", ",comp=kahan,overflow=saturate",
                               ",comp=kahan,order=blocked:5", ",comp=neumaier,order=interleaved:4",
                               ",comp=kahan,order=pairwise:8,promote=fp32", ",comp=neumaier,nan=cuda"}) {
        compare_all_kinds(format + std::string(",round=") + mode + more, random, count);
        if (HasFatalFailure()) return;
      }
  EXPECT_GT(count.by_vectors, count.compared / 2);
}

// Tiles whose sums cannot overflow are computed without looking for it: sums from well below the largest number to
// above.
TEST(Products, CompensatedSumsAroundTheLargest) {
  Count count;
  Random random{8};
  for (const char* format : {"fp16", "e4m11", "e5m10fn"})
    for (const char* mode : modes)
      for (const char* more : {",comp=kahan", ",comp=neumaier", ",comp=kahan,overflow=saturate"})
        for (int eighths = 1; eighths <= 12; ++eighths) {
          const auto model = std::get<DotModel>(parse_product_model(std::string(format) + ",round=" + mode + more));
          const std::size_t k = 20;
          Matrices x(model, 8, 16, k, Kind::normal, false, random);
          const FloatFormat& f = model.input;
          for (std::uint64_t& code : x.a)
            code = check::rounded(
                f, f.value(f.max_finite()) / k * eighths / 8 * (1 - static_cast<double>(random() % 64) / 512));
          for (std::uint64_t& code : x.b) code = check::rounded(f, 1);
          compare(model, x, count, std::to_string(eighths) + " eighths of the largest");
          if (HasFatalFailure()) return;
        }
  EXPECT_GT(count.by_vectors, count.compared * 3 / 4);
}

}  // namespace products_test
}  // namespace halfulp
