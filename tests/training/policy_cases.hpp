// Products as layers request them, and single conversions of their numbers.
#pragma once

#include "check.hpp"

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/training/policy_numerics.hpp>

#include <bit>
#include <cmath>
#include <limits>

namespace check {

using namespace halfulp::training;

using Operands = Numerics<float>::Operands;

inline Policy policy_of(const std::string& members) {
  return parse_policy(parse_json(R"({"name": "mine", )" + members + "}", "test"), "mine");
}

/// Magnitudes over eleven powers of two, and zeros.
inline std::vector<float> numbers(std::size_t count, std::uint64_t seed, float size = 1) {
  Random random{seed};
  std::vector<float> values(count);
  for (float& v : values) {
    const std::uint64_t r = random();
    const double fraction = static_cast<double>(static_cast<std::int64_t>(r)) / 9.3e18;
    v = r % 19 == 0 ? 0.0f : size * static_cast<float>(std::ldexp(fraction, static_cast<int>(r >> 3 & 7) - 6));
  }
  return values;
}

/// One product in the layout that a dense layer uses.
struct Case {
  Site site;
  Product which;
  std::size_t m, n, k;
  std::vector<float> a, b, c = {}, bias = {};
  Case(Site its_site, Product its_which, std::size_t its_m, std::size_t its_n, std::size_t its_k,
       std::uint64_t seed = 1)
      : site(its_site),
        which(its_which),
        m(its_m),
        n(its_n),
        k(its_k),
        a(numbers(m * k, seed)),
        b(numbers(k * n, seed + 1000, 0.5f)) {}
  Operands operands() const {
    Operands x;
    x.m = m, x.n = n, x.k = k, x.a = a, x.b = b, x.c = c;
    x.transpose_a = which == Product::to_weight;
    x.transpose_b = which == Product::forward;
    return x;
  }
  ProductRoles roles() const { return roles_of(site.kind, which); }
  /// A as m rows of length k, B as n rows of length k.
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

inline std::vector<float> product_of(PolicyNumerics& numerics, const Case& x) {
  std::vector<float> d(x.m * x.n, -7.0f);
  numerics.product(x.site, x.which, x.operands(), x.bias, d);
  return d;
}
inline std::vector<float> product_of(const Policy& policy, const Case& x, std::uint64_t seed = 1,
                                     std::uint64_t step = 0, Observer* observer = nullptr) {
  PolicyNumerics numerics(policy, seed, observer);
  numerics.begin_step(step);
  return product_of(numerics, x);
}

inline std::uint64_t code_of(const FloatFormat& f, const Rounding& rounding, float v, std::uint64_t random = 0) {
  return convert(fp32, f, rounding, std::bit_cast<std::uint32_t>(v), random).code;
}
inline float rounded(const Storage& s, float v) {
  const float r = static_cast<float>(s.plain()->value(code_of(*s.plain(), s.rounding, v)));
  return r != r ? std::numeric_limits<float>::quiet_NaN() : r;
}

inline constexpr Product all_products[] = {Product::forward, Product::to_input, Product::to_weight};
inline constexpr Site fc1{OperatorKind::linear, "fc1"};

}  // namespace check
