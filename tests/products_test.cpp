// gemm and dot: every output equals the scalar definition's, for formats, modes, orders, shapes and operands of every kind, on every
// instruction set of this CPU.
#include "check.hpp"

#include <halfulp/emulation/eigen.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/products.hpp>

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <tbb/global_control.h>

#include <cfenv>
#include <cmath>
#include <vector>

namespace halfulp {
namespace {

using check::Random;

/// What operands are drawn from.
enum class Kind { normal, large, small, bits, edges, zeros, cancelling, count };

std::uint64_t rounded(const FloatFormat& f, double x) { return convert(fp64, f, {}, std::bit_cast<std::uint64_t>(x)).code; }

std::uint64_t draw(const FloatFormat& f, Kind kind, Random& random) {
  const std::uint64_t bits = random(), sign = (bits >> 60 & 1) && f.has_negative_zero() ? f.sign_mask() : 0;
  const double unit = static_cast<double>(static_cast<std::int64_t>(random() >> 11)) * 0x1p-53, value = (bits >> 61 & 1 ? -2 : 2) * unit;
  const auto finite = [&](std::uint64_t code) { return f.is_finite(code) ? code : f.max_finite(); };
  switch (kind) {
    case Kind::normal: return rounded(f, value);
    case Kind::large: return rounded(f, value * std::sqrt(f.value(f.max_finite())));
    case Kind::small: return finite((bits & (4 * f.fraction_mask() + 3)) | sign);
    case Kind::bits: return bits >> 8 & f.code_mask();
    case Kind::zeros: return bits % 3 == 0 ? rounded(f, value) : f.zero(sign != 0);
    case Kind::cancelling: return rounded(f, bits >> 62 & 1 ? 1.0 : -1.0);
    default: break;
  }
  const std::uint64_t edges[] = {0, f.min_positive(), f.min_normal(), f.max_finite(), f.max_finite() - 1, rounded(f, 1), rounded(f, value),
                                 bits >> 16 & 63 ? 0 : f.canonical_nan(), bits >> 16 & 63 || !f.has_infinity() ? 1 : f.infinity()};
  return edges[(bits >> 32) % std::size(edges)] ^ sign;
}

struct Matrices {
  std::size_t m, n, k;
  std::vector<std::uint64_t> a, b, c;
  Matrices(const ProductModel& model, std::size_t rows, std::size_t columns, std::size_t depth, Kind kind, bool addend, Random& random) : m(rows), n(columns), k(depth) {
    const auto fill = [&](std::vector<std::uint64_t>& to, std::size_t size, const FloatFormat& f) {
      const bool plain = kind == Kind::edges && random() & 1;  // half of these matrices have a few edges alone
      for (std::size_t i = 0; i < size; ++i) to.push_back(draw(f, plain && random() % 32 ? Kind::normal : kind, random));
    };
    fill(a, m * k, format_of_a(model)), fill(b, k * n, format_of_b(model));
    if (addend) fill(c, m * n, format_of_result(model));
  }
  GemmOperands operands() const { return {m, n, k, std::span(a), std::span(b), std::span(c)}; }
};

std::vector<std::uint64_t> expected(const DotModel& model, const Matrices& x, std::uint64_t first_stream = 0) {
  PlainDots dots(model);
  std::vector<std::uint64_t> d, column(x.k);
  for (std::size_t i = 0; i < x.m; ++i)
    for (std::size_t j = 0; j < x.n; ++j) {
      for (std::size_t k = 0; k < x.k; ++k) column[k] = x.b[k * x.n + j];
      d.push_back(dots(std::span(x.a).subspan(i * x.k, x.k), column, x.c.empty() ? std::nullopt : std::optional(x.c[i * x.n + j]), first_stream + i * x.n + j));
    }
  return d;
}

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
      ASSERT_EQ(d[i], want[i]) << product_model_name(model) << ' ' << set << ' ' << x.m << 'x' << x.n << 'x' << x.k << ' ' << note << " output " << i << std::hex << " got " << d[i]
                               << " want " << want[i];
  });
}

constexpr const char* formats[] = {"fp16", "bf16", "e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "e3m4", "e4m3ieee", "e4m3b11fnuz", "p3109k8p3", "p3109k8p4", "e2m3", "e3m2", "e2m1",
                                   "e6m9", "e7m8", "e4m11", "e3m12", "e5m10fn", "e8m7fn", "e2m5", "e8m3", "e6m1"};
constexpr const char* modes[] = {"nearest-even", "toward-zero", "toward-positive", "toward-negative"};

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
  Count count;
  Random random{1};
  for (const char* format : formats)
    for (const char* mode : modes)
      for (const char* more : {"", ",overflow=saturate", ",mul=exact", ",acc=fp32", ",acc=fp32,mul=exact", ",order=blocked:7,promote=fp32"}) {
        compare_all_kinds("in=" + std::string(format) + ",round=" + mode + (std::string(more).find("acc") == std::string::npos ? ",acc=" + std::string(format) : "") + more, random, count);
        if (HasFatalFailure()) return;
      }
  EXPECT_GT(count.compared, 1'000'000u);
  EXPECT_GT(count.by_vectors, count.compared / 2);
}

/// Orders, stages of different formats, what only the scalar definition does.
TEST(Products, EveryOrder) {
  Count count;
  Random random{2};
  const char* const orders[] = {"sequential", "blocked:1", "blocked:5", "blocked:64", "pairwise", "pairwise:3", "tree:2", "tree:3:2", "tree:8", "interleaved:1", "interleaved:3", "interleaved:8"};
  for (const char* base : {"fp16", "bf16", "e4m3", "e5m2fnuz", "in=fp16,acc=fp32", "in=e4m3,acc=bf16", "in=e4m3,b=e5m2,mul=fp16,acc=fp32", "bf16,promote=fp32", "e5m2,promote=fp32/toward-negative",
                           "fp32", "in=tf32,acc=fp32,mul=exact", "fp16,mul=exact,promote=fp32", "e4m11"})
    for (const char* order : orders)
      for (const char* more : {"", ",round=toward-zero", ",round=toward-negative", ",out=e5m2/toward-positive/overflow:saturate", ",nan=cuda", ",nan=propagate"}) {
        compare_all_kinds(std::string(base) + ",order=" + order + more, random, count);
        if (HasFatalFailure()) return;
      }
  EXPECT_GT(count.by_vectors, count.compared / 2);
}

TEST(Products, StagesThatDiffer) {
  Count count;
  Random random{3};
  for (const char* text : {"in=e4m3,mul=e4m3/overflow:saturate,acc=fp16", "in=e4m3,mul=e4m3fnuz,acc=fp32", "in=e4m3,mul=e5m3,acc=e5m3/toward-negative", "in=e5m2,mul=bf16,acc=fp32",
                           "in=e5m2,b=e4m3,mul=exact,acc=bf16", "in=fp16,acc=tf32", "in=bf16,acc=tf32,mul=exact", "in=bf16,mul=exact,acc=fp32", "fp16,mul=fp16/overflow:saturate",
                           "in=e4m3,mul=fp16/toward-negative,acc=fp32/toward-negative", "in=e4m3,mul=fp16/toward-negative,acc=fp32", "in=e2m1,mul=e2m1,acc=fp32", "in=fp16,mul=fp32,acc=fp32",
                           "in=e5m2,mul=e5m2,acc=e5m2,out=fp32", "fp16,out=fp16", "fp16,out=e2m1", "bf16,out=e4m3fnuz,promote=fp32,order=blocked:4", "in=e4m3,acc=fp64", "fp64", "fp16,acc=fp64",
                           "fp16,round=nearest-away", "bf16,round=to-odd", "fp16,flush=both", "e5m2,comp=kahan", "bf16,comp=neumaier,order=interleaved:4", "e3m4,overflow=saturate,round=nearest-to-zero",
                           "in=e4m3,mul=fp16,acc=e5m12", "in=e2m1,mul=e4m3fnuz,acc=fp32", "in=e2m1,mul=exact,acc=e5m10fnuz,promote=fp32", "in=e3m4,mul=e3m4,acc=e8m7", "in=e4m3,mul=e4m3,acc=bf16", "e7m8,overflow=saturate", "e7m8b10", "e6m9b60", "in=fp16,acc=e8m20"}) {
    for (int i = 0; i < 4; ++i) compare_all_kinds(text, random, count);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(count.compared, 500'000u);
}

TEST(Products, CompensatedSums) {
  Count count;
  Random random{7};
  for (const char* format : {"fp16", "bf16", "e4m3", "e5m2fnuz", "e3m4", "fp32", "in=fp16,acc=fp32", "in=e4m3,acc=fp16", "in=bf16,mul=bf16,acc=fp32", "e2m3", "e4m11", "in=e4m3,acc=bf16"})
    for (const char* mode : modes)
      for (const char* more : {",comp=kahan", ",comp=neumaier", ",comp=kahan,overflow=saturate", ",comp=kahan,order=blocked:5", ",comp=neumaier,order=interleaved:4", ",comp=kahan,order=pairwise:8,promote=fp32",
                               ",comp=neumaier,nan=cuda"}) {
        compare_all_kinds(format + std::string(",round=") + mode + more, random, count);
        if (HasFatalFailure()) return;
      }
  EXPECT_GT(count.by_vectors, count.compared / 2);
}

TEST(Products, StochasticStreamsAreOutputs) {
  const DotModel model = std::get<DotModel>(parse_product_model("bf16,round=stochastic,seed=9"));
  Random random{4};
  const Matrices x(model, 7, 21, 30, Kind::normal, true, random);
  std::vector<std::uint64_t> d(x.m * x.n), others(d.size());
  gemm(model, x.operands(), std::span(d), 5000);
  EXPECT_EQ(d, expected(model, x, 5000));
  gemm(model, x.operands(), std::span(others));
  EXPECT_NE(d, others);
  EXPECT_EQ(others, expected(model, x));
}

/// What a caller has in memory, whatever its layout: transposed, with gaps, as words of any width, as floats.
TEST(Products, LayoutsAndFloats) {
  Random random{6};
  for (const char* text : {"fp16", "in=e4m3,b=e5m2,acc=fp32", "bf16,round=toward-negative", "e4m3fnuz", "e5m2,out=fp16", "e5m2,comp=kahan", "fp16,round=nearest-away", "hopper.mma.fp16.fp32"}) {
    const ProductModel model = parse_product_model(text);
    for (int turn = 0; turn < 24; ++turn) {
      const Kind kind = static_cast<Kind>(turn % static_cast<int>(Kind::count));
      const Matrices x(model, 1 + random() % 20, 1 + random() % 40, 1 + random() % 50, kind, turn % 3 == 0, random);
      std::vector<std::uint64_t> want(x.m * x.n);
      gemm(model, x.operands(), std::span(want));

      const bool ta = random() & 1, tb = random() & 1, packed = random() & 1;
      const std::size_t lda = (ta ? x.m : x.k) + (packed ? 0 : 3), ldb = (tb ? x.k : x.n) + (packed ? 0 : 1), ldc = x.n + (packed ? 0 : 5), ldd = x.n + (packed ? 0 : 2);
      const auto placed = [&](const std::vector<std::uint64_t>& from, std::size_t rows, std::size_t columns, bool transposed, std::size_t leading) {
        std::vector<std::uint32_t> to((transposed ? columns : rows) * leading, 0xdead'beef);  // gaps are nobody's words
        for (std::size_t i = 0; i < rows; ++i)
          for (std::size_t j = 0; j < columns; ++j) to[transposed ? j * leading + i : i * leading + j] = static_cast<std::uint32_t>(from[i * columns + j]);
        return to;
      };
      const auto a = placed(x.a, x.m, x.k, ta, lda), b = placed(x.b, x.k, x.n, tb, ldb), c = x.c.empty() ? std::vector<std::uint32_t>{} : placed(x.c, x.m, x.n, false, ldc);
      GemmOperands words{x.m, x.n, x.k, std::span(a), std::span(b), std::span(c)};
      words.lda = lda, words.ldb = ldb, words.ldc = ldc, words.ldd = ldd, words.transpose_a = ta, words.transpose_b = tb;
      std::vector<std::uint32_t> d(x.m * ldd, 0x1234'5678);
      gemm(model, words, std::span(d));
      for (std::size_t i = 0; i < x.m; ++i)
        for (std::size_t j = 0; j < ldd; ++j) ASSERT_EQ(d[i * ldd + j], j < x.n ? want[i * x.n + j] : 0x1234'5678u) << text << " turn " << turn << ' ' << i << ' ' << j;

      const auto values = [](const std::vector<std::uint32_t>& from, const FloatFormat& f) {
        std::vector<float> to;
        for (const std::uint32_t word : from) to.push_back(word == 0xdead'beef ? 12345.678f : static_cast<float>(f.value(word)));
        return to;
      };
      const auto fa = values(a, format_of_a(model)), fb = values(b, format_of_b(model)), fc = values(c, format_of_result(model));
      FloatOperands floats{x.m, x.n, x.k, fa, fb, fc};
      floats.lda = lda, floats.ldb = ldb, floats.ldc = ldc, floats.ldd = ldd, floats.transpose_a = ta, floats.transpose_b = tb;
      std::vector<float> fd(x.m * ldd, 9.5f);
      gemm(model, floats, std::span(fd));
      const FloatFormat& f = format_of_result(model);
      for (std::size_t i = 0; i < x.m; ++i)
        for (std::size_t j = 0; j < ldd; ++j) {
          const float expected_value = j < x.n ? static_cast<float>(f.value(want[i * x.n + j])) : 9.5f, got = fd[i * ldd + j];
          ASSERT_EQ(std::isnan(got), std::isnan(expected_value)) << text;
          if (std::isnan(got)) ASSERT_EQ(std::bit_cast<std::uint32_t>(got), 0x7fc0'0000u);
          else ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected_value)) << text << ' ' << got << ' ' << expected_value;
        }
    }
  }
}

TEST(Products, AnyNumberOfThreadsAndAnyEnvironment) {
  Random random{8};
  for (const char* text : {"fp16", "e4m3,round=toward-positive", "in=bf16,acc=fp32", "bf16,round=stochastic"}) {
    const DotModel model = std::get<DotModel>(parse_product_model(text));
    const Matrices x(model, 150, 130, 60, Kind::normal, true, random);
    std::vector<std::uint64_t> one(x.m * x.n), many(one.size()), strange(one.size());
    {
      const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
      gemm(model, x.operands(), std::span(one));
      const int before = std::fegetround();
      std::fesetround(FE_UPWARD);
      gemm(model, x.operands(), std::span(strange));
      EXPECT_EQ(std::fegetround(), FE_UPWARD);
      std::fesetround(before);
    }
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 4);
    gemm(model, x.operands(), std::span(many));
    EXPECT_EQ(one, many);
    EXPECT_EQ(one, strange);
    EXPECT_EQ(one, expected(model, x));
  }
}

TEST(Products, NothingToMultiply) {
  const std::vector<std::uint16_t> c{0x3c00, 0x8000, 0x7e01, 0x7c00};
  for (const char* text : {"fp16", "fp16,round=toward-negative", "in=e4m3,mul=fp16,acc=fp16,out=fp16/flush:both", "hopper.mma.fp16.fp16"}) {
    const ProductModel model = parse_product_model(text);
    std::vector<std::uint16_t> d(4, 7);
    gemm(model, {2, 2, 0, CodeWords(std::span<const std::uint16_t>()), CodeWords(std::span<const std::uint16_t>())}, std::span(d));
    EXPECT_EQ(d, std::vector<std::uint16_t>(4, 0)) << text;
    gemm(model, {2, 2, 0, {}, {}, std::span(c)}, std::span(d));
    EXPECT_EQ(d, c) << text;
    const std::vector<std::uint16_t> zeros(4);
    gemm(model, {0, 2, 2, {}, std::span(zeros)}, std::span(d).first(0));
    gemm(model, {2, 0, 0}, std::span(d).first(0));
    EXPECT_EQ(d, c);
  }
  EXPECT_EQ(dot(parse_product_model("fp16"), std::span(c).first(2), std::span(c).first(2)), 0x3c00u);
  EXPECT_EQ(dot(parse_product_model("fp16"), std::span(c).first(1), std::span(c).first(1), 0x4000), 0x4200u);
}

TEST(Products, InPlace) {
  Random random{10};
  const DotModel model = std::get<DotModel>(parse_product_model("fp16"));
  const Matrices x(model, 20, 33, 17, Kind::normal, true, random);
  std::vector<std::uint64_t> d = x.c;
  GemmOperands in_place = x.operands();
  in_place.c = std::span(d);
  gemm(model, in_place, std::span(d));
  EXPECT_EQ(d, expected(model, x));
}

TEST(Products, RefusesWhatDoesNotFit) {
  const ProductModel model = parse_product_model("in=e4m3,acc=fp16");
  std::vector<std::uint16_t> four(4, 0x38), wide(4, 0x138), three(3), d(4, 7);
  const auto refused = [&](const ProductModel& m, const GemmOperands& x, auto to, std::initializer_list<const char*> words) {
    try {
      gemm(m, x, to);
      ADD_FAILURE() << "accepted";
    } catch (const std::invalid_argument& error) {
      const std::string what = error.what();
      EXPECT_EQ(what.find('\n'), std::string::npos);
      for (const char* word : words) EXPECT_NE(what.find(word), std::string::npos) << what;
    }
    EXPECT_EQ(d, std::vector<std::uint16_t>(4, 7));
  };
  const std::span<std::uint16_t> to(d);
  refused(model, {2, 2, 2, std::span(four), std::span(three)}, to, {"gemm: B has 3 words, not 2 x 2"});
  refused(model, {2, 2, 2, std::span(wide), std::span(four)}, to, {"A[0]", "8 bits of e4m3"});
  refused(model, {2, 2, 2, std::span(four), std::span(four), std::span(three)}, to, {"C has 3 words"});
  refused(model, {2, 2, 2, std::span(four), std::span(four)}, to.first(3), {"D has 3 words"});
  std::vector<std::uint8_t> bytes(4);
  refused(model, {2, 2, 2, std::span(four), std::span(four)}, std::span(bytes), {"D has words of 8 bits", "fp16 takes 16"});
  refused(model, {2, 2, std::size_t{1} << 63}, to, {"2^40"});
  refused(model, {2, 2, 2, std::span(d), std::span(four)}, to, {"D overlaps A"});
  GemmOperands gaps{2, 2, 2, std::span(four), std::span(four)};
  gaps.lda = 1;
  refused(model, gaps, to, {"A has a leading dimension of 1, less than its rows of 2"});
  gaps.lda = 3;
  refused(model, gaps, to, {"A has 4 words", "takes 5"});
  refused(model, {2, 2, 2, std::span(four), std::span(four), {}, std::span(four)}, to, {"scales"});
  refused(parse_product_model("hopper.mma.fp16.fp16"), {2, 2, 2, std::span(four), std::span(d)}, to, {"D overlaps B"});
  DotModel narrow = std::get<DotModel>(model);
  narrow.input = bf16;
  refused(narrow, {2, 2, 2, std::span(four), std::span(four)}, to, {"products of bf16"});
  std::vector<float> floats(4), results(4, 7);
  EXPECT_THROW(gemm(parse_product_model("fp64"), {2, 2, 2, floats, floats}, std::span(results)), std::invalid_argument);
  EXPECT_THROW(gemm(model, {2, 2, 2, std::span<const float>(results), floats}, std::span(results)), std::invalid_argument);
  EXPECT_THROW(gemm(parse_product_model("blackwell.tcgen05.mxe4m3.fp32"), {2, 2, 2, floats, floats}, std::span(results)), std::invalid_argument);
  EXPECT_EQ(results, std::vector<float>(4, 7));
  EXPECT_THROW((void)dot(model, std::span(four), std::span(three)), std::invalid_argument);
}

TEST(Products, EigenMaps) {
  using Eigen::Dynamic;
  Random random{12};
  const DotModel model = std::get<DotModel>(parse_product_model("fp16"));
  const Matrices x(model, 5, 9, 7, Kind::normal, false, random);
  const auto want = expected(model, x);
  Eigen::Matrix<Float<fp16>, Dynamic, Dynamic, Eigen::RowMajor> a(5, 7);
  Eigen::Matrix<Float<fp16>, Dynamic, Dynamic> b(7, 9), d(5, 9);  // column-major
  for (int i = 0; i < 5; ++i)
    for (int k = 0; k < 7; ++k) a(i, k) = Float<fp16>::from_code(x.a[static_cast<std::size_t>(i * 7 + k)]);
  for (int k = 0; k < 7; ++k)
    for (int j = 0; j < 9; ++j) b(k, j) = Float<fp16>::from_code(x.b[static_cast<std::size_t>(k * 9 + j)]);
  gemm(model, a, b, d);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 9; ++j) EXPECT_EQ(d(i, j).code(), want[static_cast<std::size_t>(i * 9 + j)]);
  // Maps of code words, with an outer stride; a block of the result.
  std::vector<std::uint16_t> wa(x.a.begin(), x.a.end()), wb(7 * 12);
  for (std::size_t k = 0; k < 7; ++k)
    for (std::size_t j = 0; j < 9; ++j) wb[k * 12 + j] = static_cast<std::uint16_t>(x.b[k * 9 + j]);
  using Words = Eigen::Matrix<std::uint16_t, Dynamic, Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Words> ma(wa.data(), 5, 7);
  const Eigen::Map<const Words, 0, Eigen::OuterStride<>> mb(wb.data(), 7, 9, Eigen::OuterStride<>(12));
  Words large = Words::Constant(8, 12, 7);
  gemm(model, ma, mb, large.block(1, 2, 5, 9));
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 12; ++j) {
      const bool inside = i >= 1 && i < 6 && j >= 2 && j < 11;
      EXPECT_EQ(large(i, j), inside ? want[static_cast<std::size_t>((i - 1) * 9 + j - 2)] : 7u);
    }
  Eigen::MatrixXf fa = Eigen::MatrixXf::Constant(2, 3, 1), fb = Eigen::MatrixXf::Constant(3, 2, 0.5f), fd(2, 2);
  gemm(model, fa, fb, fd);
  EXPECT_EQ(fd, Eigen::MatrixXf::Constant(2, 2, 1.5f));
  EXPECT_THROW(gemm(parse_product_model("bf16"), a, b, d), std::invalid_argument);
  EXPECT_THROW(gemm(model, b, b, d), std::invalid_argument);
}

}  // namespace
}  // namespace halfulp
