#include <halfulp/experiments/attribution/exact.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <bit>
#include <cassert>

namespace halfulp::attribution {
namespace {

__extension__ using int128 = __int128;

/// x = n * 2^exponent with n odd, or 0.
struct Parts {
  std::int64_t n = 0;
  int exponent = 0;
};

Parts parts(double x) {
  const auto code = std::bit_cast<std::uint64_t>(x);
  assert(fp64.is_finite(code));
  if (fp64.is_zero(code)) return {};
  const std::uint64_t significand = fp64.significand(code);
  const int trailing = std::countr_zero(significand);
  const auto n = static_cast<std::int64_t>(significand >> trailing);
  return {fp64.sign(code) ? -n : n, fp64.exponent(code) + trailing};
}

Units whole(int128 n) {
  const bool negative = n < 0;
  const auto magnitude = static_cast<unsigned __int128>(negative ? -n : n);
  const Units u = (Units(static_cast<std::uint64_t>(magnitude >> 64)) << 64) + static_cast<std::uint64_t>(magnitude);
  return negative ? Units(-u) : u;
}

/// Both in units of the smaller one's exponent.
void align(Units& a, int& exponent, const Dyadic& b, Units& other) {
  other = b.n;
  if (b.exponent >= exponent) {
    other <<= static_cast<unsigned>(b.exponent - exponent);
  } else {
    a <<= static_cast<unsigned>(exponent - b.exponent);
    exponent = b.exponent;
  }
}

}  // namespace

Dyadic::Dyadic(double x) {
  const Parts p = parts(x);
  n = p.n, exponent = p.exponent;
}

Dyadic& Dyadic::operator+=(const Dyadic& other) {
  if (other.is_zero()) return *this;
  if (is_zero()) return *this = other;
  Units theirs;
  align(n, exponent, other, theirs);
  n += theirs;
  return *this;
}

Dyadic& Dyadic::operator-=(const Dyadic& other) { return *this += Dyadic(Units(-other.n), other.exponent); }

double quotient(const Dyadic& a, const Units& b) { return fp64.value(halfulp::rounded(fp64, {}, a.n, b, a.exponent)); }

std::uint64_t rounded(const FloatFormat& f, const Rounding& rounding, const Dyadic& a, const Dyadic& b) {
  return halfulp::rounded(f, rounding, a.n, b.n, a.exponent - b.exponent);
}

ExactRows::ExactRows(std::span<const double> values, std::size_t rows, std::size_t columns) : rows_(rows) {
  constexpr int widest = 62;
  for (std::size_t i = 0; i < rows; ++i) {
    Row& row = rows_[i];
    bool any = false;
    int lowest = 0, top = 0;
    for (std::size_t k = 0; k < columns; ++k) {
      const Parts p = parts(values[i * columns + k]);
      row.n.push_back(p.n);
      row.exponents.push_back(p.exponent);
      if (p.n == 0) continue;
      const int above = p.exponent + static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::abs(p.n))));
      lowest = any ? std::min(lowest, p.exponent) : p.exponent;
      top = any ? std::max(top, above) : above;
      any = true;
    }
    row.bits = top - lowest;
    if (row.bits > widest) continue;
    row.exponent = lowest;
    for (std::size_t k = 0; k < columns; ++k)
      if (row.n[k] != 0) row.n[k] *= std::int64_t{1} << (row.exponents[k] - lowest);
    row.exponents.clear();
  }
}

Dyadic exact_dot(const ExactRows& a, std::size_t i, const ExactRows& b, std::size_t j, std::size_t begin, std::size_t end) {
  const ExactRows::Row &x = a.rows_[i], &y = b.rows_[j];
  if (x.exponents.empty() && y.exponents.empty() && x.bits + y.bits + std::bit_width(end - begin) <= 126) {
    int128 sum = 0;
    for (std::size_t k = begin; k < end; ++k) sum += static_cast<int128>(x.n[k]) * y.n[k];
    return {whole(sum), x.exponent + y.exponent};
  }
  Dyadic sum;
  for (std::size_t k = begin; k < end; ++k) {
    const int128 product = static_cast<int128>(x.n[k]) * y.n[k];
    if (product == 0) continue;
    sum += Dyadic(whole(product), (x.exponents.empty() ? x.exponent : x.exponents[k]) + (y.exponents.empty() ? y.exponent : y.exponents[k]));
  }
  return sum;
}

}  // namespace halfulp::attribution
