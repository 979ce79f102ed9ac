// The contract of gemm and dot: layouts, floats, random streams, threads, environments, empty products, refusals,
// Eigen's matrices.
#include "products.hpp"

#include <halfulp/emulation/product/eigen.hpp>

#include <tbb/global_control.h>

#include <cfenv>

namespace halfulp {
namespace products_contract_test {

using check::Kind, check::Matrices, check::Random, check::expected;

TEST(ProductsContract, StochasticStreamsAreOutputs) {
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

/// Operands in any layout: transposed, with gaps, as words of any width, as floats.
TEST(ProductsContract, LayoutsAndFloats) {
  Random random{6};
  for (const char* text : {"fp16", "in=e4m3,b=e5m2,acc=fp32", "bf16,round=toward-negative", "e4m3fnuz", "e5m2,out=fp16",
                           "e5m2,comp=kahan", "fp16,round=nearest-away", "hopper.mma.fp16.fp32"}) {
    const ProductModel model = parse_product_model(text);
    for (int turn = 0; turn < 24; ++turn) {
      const Kind kind = static_cast<Kind>(turn % static_cast<int>(Kind::count));
      const Matrices x(model, 1 + random() % 20, 1 + random() % 40, 1 + random() % 50, kind, turn % 3 == 0, random);
      std::vector<std::uint64_t> want(x.m * x.n);
      gemm(model, x.operands(), std::span(want));

      const bool ta = random() & 1, tb = random() & 1, packed = random() & 1;
      const std::size_t lda = (ta ? x.m : x.k) + (packed ? 0 : 3), ldb = (tb ? x.k : x.n) + (packed ? 0 : 1),
                        ldc = x.n + (packed ? 0 : 5), ldd = x.n + (packed ? 0 : 2);
      const auto placed = [&](const std::vector<std::uint64_t>& from, std::size_t rows, std::size_t columns,
                              bool transposed, std::size_t leading) {
        std::vector<std::uint32_t> to((transposed ? columns : rows) * leading,
                                      0xdead'beef);  // gaps belong to no matrix
        for (std::size_t i = 0; i < rows; ++i)
          for (std::size_t j = 0; j < columns; ++j)
            to[transposed ? j * leading + i : i * leading + j] = static_cast<std::uint32_t>(from[i * columns + j]);
        return to;
      };
      const auto a = placed(x.a, x.m, x.k, ta, lda), b = placed(x.b, x.k, x.n, tb, ldb),
                 c = x.c.empty() ? std::vector<std::uint32_t>{} : placed(x.c, x.m, x.n, false, ldc);
      GemmOperands words{x.m, x.n, x.k, std::span(a), std::span(b), std::span(c)};
      words.lda = lda, words.ldb = ldb, words.ldc = ldc, words.ldd = ldd, words.transpose_a = ta,
      words.transpose_b = tb;
      std::vector<std::uint32_t> d(x.m * ldd, 0x1234'5678);
      gemm(model, words, std::span(d));
      for (std::size_t i = 0; i < x.m; ++i)
        for (std::size_t j = 0; j < ldd; ++j)
          ASSERT_EQ(d[i * ldd + j], j < x.n ? want[i * x.n + j] : 0x1234'5678u)
              << text << " turn " << turn << ' ' << i << ' ' << j;

      const auto values = [](const std::vector<std::uint32_t>& from, const FloatFormat& f) {
        std::vector<float> to;
        for (const std::uint32_t word : from)
          to.push_back(word == 0xdead'beef ? 12345.678f : static_cast<float>(f.value(word)));
        return to;
      };
      const auto fa = values(a, format_of_a(model)), fb = values(b, format_of_b(model)),
                 fc = values(c, format_of_result(model));
      FloatOperands floats{x.m, x.n, x.k, fa, fb, fc};
      floats.lda = lda, floats.ldb = ldb, floats.ldc = ldc, floats.ldd = ldd, floats.transpose_a = ta,
      floats.transpose_b = tb;
      std::vector<float> fd(x.m * ldd, 9.5f);
      gemm(model, floats, std::span(fd));
      const FloatFormat& f = format_of_result(model);
      for (std::size_t i = 0; i < x.m; ++i)
        for (std::size_t j = 0; j < ldd; ++j) {
          const float expected_value = j < x.n ? static_cast<float>(f.value(want[i * x.n + j])) : 9.5f,
                      got = fd[i * ldd + j];
          ASSERT_EQ(std::isnan(got), std::isnan(expected_value)) << text;
          if (std::isnan(got)) ASSERT_EQ(std::bit_cast<std::uint32_t>(got), 0x7fc0'0000u);
          else
            ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected_value))
                << text << ' ' << got << ' ' << expected_value;
        }
    }
  }
}

/// Whatever the payload: as operands and as addend.
TEST(ProductsContract, EveryNanOfFloatsStaysOne) {
  for (const char* text : {"bf16", "e5m2", "fp16", "e4m3", "bf16,order=pairwise:2", "bf16,promote=fp32", "e8m5"})
    for (const std::uint32_t bits : {0x7fff'ffffu, 0xffff'ffffu, 0x7f80'0001u}) {
      const ProductModel model = parse_product_model(text);
      const std::size_t n = 20;
      for (int which = 0; which < 3; ++which) {
        std::vector<float> x[3], d(n * n);
        for (auto& operand : x) operand.assign(n * n, 0.5f);
        x[which][0] = std::bit_cast<float>(bits);
        gemm(model, FloatOperands{n, n, n, x[0], x[1], x[2]}, std::span(d));
        for (std::size_t i = 0; i < n * n; ++i) {
          const bool meets = which == 0 ? i / n == 0 : which == 1 ? i % n == 0 : i == 0;
          ASSERT_EQ(d[i] != d[i], meets) << text << ' ' << std::hex << bits << ' ' << which << ' ' << i;
        }
      }
    }
}

/// Floats have one NaN, whatever NaN the model's code words are.
TEST(ProductsContract, NanOfFloatsIsTheCanonicalOne) {
  const std::vector<float> a{std::numeric_limits<float>::infinity()}, b{0};
  for (const char* text :
       {"e5m2,out=fp16,nan=cuda", "fp16,out=bf16,nan=cuda", "bf16,nan=cuda", "fp16,out=e4m3fnuz,nan=keep"}) {
    std::vector<float> d(1);
    gemm(parse_product_model(text), FloatOperands{1, 1, 1, std::span(a), std::span(b)}, std::span(d));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(d[0]), 0x7fc0'0000u) << text;
  }
}

TEST(ProductsContract, AnyNumberOfThreadsAndAnyEnvironment) {
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

TEST(ProductsContract, NothingToMultiply) {
  const std::vector<std::uint16_t> c{0x3c00, 0x8000, 0x7e01, 0x7c00};
  for (const char* text : {"fp16", "fp16,round=toward-negative", "in=e4m3,mul=fp16,acc=fp16,out=fp16/flush:both",
                           "hopper.mma.fp16.fp16"}) {
    const ProductModel model = parse_product_model(text);
    std::vector<std::uint16_t> d(4, 7);
    gemm(model, {2, 2, 0, CodeWords(std::span<const std::uint16_t>()), CodeWords(std::span<const std::uint16_t>())},
         std::span(d));
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

TEST(ProductsContract, InPlace) {
  Random random{10};
  const DotModel model = std::get<DotModel>(parse_product_model("fp16"));
  const Matrices x(model, 20, 33, 17, Kind::normal, true, random);
  std::vector<std::uint64_t> d = x.c;
  GemmOperands in_place = x.operands();
  in_place.c = std::span(d);
  gemm(model, in_place, std::span(d));
  EXPECT_EQ(d, expected(model, x));
}

TEST(ProductsContract, RefusesWhatDoesNotFit) {
  const ProductModel model = parse_product_model("in=e4m3,acc=fp16");
  std::vector<std::uint16_t> four(4, 0x38), wide(4, 0x138), three(3), d(4, 7);
  const auto refused = [&](const ProductModel& m, const GemmOperands& x, auto to,
                           std::initializer_list<const char*> words) {
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
  refused(model, {2, 2, 2, std::span(four), std::span(four)}, std::span(bytes),
          {"D has words of 8 bits", "fp16 takes 16"});
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
  EXPECT_THROW(gemm(model, {2, 2, 2, std::span<const float>(results), floats}, std::span(results)),
               std::invalid_argument);
  EXPECT_THROW(
      gemm(parse_product_model("blackwell.tcgen05.mxe4m3.fp32"), {2, 2, 2, floats, floats}, std::span(results)),
      std::invalid_argument);
  EXPECT_EQ(results, std::vector<float>(4, 7));
  EXPECT_THROW((void)dot(model, std::span(four), std::span(three)), std::invalid_argument);
}

TEST(ProductsContract, EigenMaps) {
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

}  // namespace products_contract_test
}  // namespace halfulp
