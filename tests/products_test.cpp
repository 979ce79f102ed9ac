// gemm and dot: every output equals the scalar definition's, for formats, modes, orders, shapes and operands of every kind, on every
// instruction set of this CPU.
#include "check.hpp"

#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/products.hpp>

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <tbb/global_control.h>

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
    const Matrices x(model, 1 + random() % 18, 1 + random() % 34, 1 + random() % 40, static_cast<Kind>(kind), addend, random);
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

}  // namespace
}  // namespace halfulp
