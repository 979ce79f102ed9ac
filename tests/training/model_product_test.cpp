// Products as layers use them, against their definition.
#include "gradients.hpp"

#include <halfulp/training/layers/numerics.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace model_product_test {

using namespace check;

/// The definition, element by element.
template <class T>
std::vector<T> product_by_definition(const MatrixOperands<std::span<const T>>& x, std::span<const T> bias) {
  std::vector<T> d(x.m * x.n);
  for (std::size_t i = 0; i < x.m; ++i)
    for (std::size_t j = 0; j < x.n; ++j) {
      T sum = x.a[x.place_a()(i, 0)] * x.b[x.place_b()(0, j)];
      for (std::size_t k = 1; k < x.k; ++k) sum += x.a[x.place_a()(i, k)] * x.b[x.place_b()(k, j)];
      if (!x.c.empty()) sum += x.c[x.place_c()(i, j)];
      d[i * x.n + j] = bias.empty() ? sum : sum + bias[j];
    }
  return d;
}

void multiply_plainly(const FloatOperands& x, std::span<const float> bias, std::span<float> d, std::size_t count) {
  multiply(parse_product_model("fp32"), x, bias, d, count);
}
void multiply_plainly(const MatrixOperands<std::span<const double>>& x, std::span<const double> bias,
                      std::span<double> d, std::size_t count) {
  multiply(x, bias, d, count);
}

template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

template <class T>
class ModelProducts : public testing::Test {};
using Carriers = testing::Types<float, double>;
TYPED_TEST_SUITE(ModelProducts, Carriers, );

TYPED_TEST(ModelProducts, AreTheirDefinition) {
  using T = TypeParam;
  std::uint64_t stream = 0;
  for (const auto& [m, n, k] : {std::array{1u, 1u, 1u}, {3u, 5u, 7u}, {4u, 8u, 16u}, {9u, 17u, 33u}, {65u, 70u, 40u}})
    for (unsigned variant = 0; variant < 16; ++variant) {
      const Tensor<T> a = random_tensor<T>({3, m, k}, ++stream), b = random_tensor<T>({3, k, n}, ++stream);
      const Tensor<T> c = random_tensor<T>({3, m, n}, ++stream), bias = random_tensor<T>({n}, ++stream);
      MatrixOperands<std::span<const T>> x;
      x.m = m, x.n = n, x.k = k;
      x.transpose_a = variant & 1, x.transpose_b = variant & 2;
      Tensor<T> d({3, m, n});
      x.a = a.values(), x.b = b.values();
      if (variant & 4) x.c = c.values();
      const std::span<const T> added = variant & 8 ? bias.values() : std::span<const T>();
      multiply_plainly(x, added, d.values(), 3);
      for (std::size_t i = 0; i < 3; ++i) {
        x.a = a.values().subspan(i * m * k, m * k), x.b = b.values().subspan(i * k * n, k * n);
        if (variant & 4) x.c = c.values().subspan(i * m * n, m * n);
        const std::vector<T> want = product_by_definition<T>(x, added);
        ASSERT_TRUE(same_bits<T>(want, std::span<const T>(d.values()).subspan(i * m * n, m * n)))
            << m << ' ' << n << ' ' << k << " variant " << variant << " matrix " << i;
      }
    }
}

// Signs of zeros, no products at all, a NaN among the operands, D in the memory of C.
TYPED_TEST(ModelProducts, AtTheEdges) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity();
  const auto product = [](std::vector<T> a, std::vector<T> b, std::vector<T> c, std::vector<T> bias) {
    MatrixOperands<std::span<const T>> x;
    x.m = x.n = 1, x.k = a.size();
    x.a = a, x.b = b, x.c = c;
    std::vector<T> apart(1, T{5});
    multiply_plainly(x, bias, c.empty() ? apart : c, 1);
    return c.empty() ? apart[0] : c[0];
  };
  const auto zero = [&](bool negative, T d) { return d == 0 && std::signbit(d) == negative; };
  EXPECT_TRUE(zero(true, product({-1}, {0}, {}, {})));
  EXPECT_TRUE(zero(true, product({-1, 0}, {0, -2}, {}, {})));
  EXPECT_TRUE(zero(false, product({-1, 0}, {0, 2}, {}, {})));
  EXPECT_TRUE(zero(true, product({-1}, {0}, {-T{0}}, {-T{0}})));
  EXPECT_TRUE(zero(false, product({-1}, {0}, {-T{0}}, {0})));
  EXPECT_TRUE(zero(false, product({-1}, {0}, {0}, {})));
  EXPECT_TRUE(zero(false, product({}, {}, {}, {})));
  EXPECT_TRUE(zero(true, product({}, {}, {-T{0}}, {})));
  EXPECT_EQ(product({}, {}, {3}, {4}), 7);
  EXPECT_EQ(product({}, {}, {}, {4}), 4);
  EXPECT_EQ(product({2}, {3}, {inf}, {}), inf);
  EXPECT_TRUE(std::isnan(product({2}, {3}, {inf}, {-inf})));
  EXPECT_TRUE(std::isnan(product({inf}, {0}, {}, {1})));
}

// For any NaN operand, and however a processor would propagate it.
TEST(ModelProductBits, HaveOneNaN) {
  const float odd = std::bit_cast<float>(0xffc12345u), one = 1, inf = std::numeric_limits<float>::infinity();
  const auto bits = [](float a, float b, float bias) {
    FloatOperands x;
    x.m = x.n = x.k = 1, x.a = std::span(&a, 1), x.b = std::span(&b, 1);
    float d = 0;
    multiply(parse_product_model("fp32"), x, std::span<const float>(&bias, 1), std::span(&d, 1));
    return std::bit_cast<std::uint32_t>(d);
  };
  for (const std::uint32_t got :
       {bits(odd, one, one), bits(one, odd, one), bits(one, one, odd), bits(odd, odd, odd), bits(inf, one, -inf)})
    EXPECT_EQ(got, 0x7fc0'0000u);
}

// Each of several products draws its own random bits: those of a single product with its first stream.
TEST(ModelProductBits, DrawTheirRandomBits) {
  const ProductModel model = parse_product_model("fp16,round=stochastic,seed=3");
  constexpr std::size_t m = 3, n = 4, k = 5, count = 6;
  Tensor<float> a({count, m, k}), b({count, k, n}), all({count, m, n}), one({m, n});
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(1 + i % 7) / 8;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(1024 + i % 5) / 1024;
  FloatOperands x;
  x.m = m, x.n = n, x.k = k, x.a = a.values(), x.b = b.values();
  multiply(model, x, {}, all.values(), count, 100);
  for (std::size_t i = 0; i < count; ++i) {
    x.a = a.values().subspan(i * m * k, m * k), x.b = b.values().subspan(i * k * n, k * n);
    gemm(model, x, one.values(), 100 + i * m * n);
    EXPECT_TRUE(same_bits<float>(one.values(), std::span<const float>(all.values()).subspan(i * m * n, m * n))) << i;
  }
}

}  // namespace model_product_test
