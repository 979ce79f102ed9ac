#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/unit/rules.hpp>
#include <halfulp/experiments/attribution/product.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

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

/// Brings both to the smaller exponent.
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

Dyadic exact_dot(const ExactRows& a, std::size_t i, const ExactRows& b, std::size_t j, std::size_t begin,
                 std::size_t end) {
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
    sum += Dyadic(whole(product), (x.exponents.empty() ? x.exponent : x.exponents[k]) +
                                      (y.exponents.empty() ? y.exponent : y.exponents[k]));
  }
  return sum;
}

namespace {

/// Bounds the relative error of doubles made by a handful of operations.
constexpr double doubt = 0x1p-50;

/// A term as a double whose relative error is below `doubt`; absent where it leaves the range of doubles.
std::optional<double> approximate(const RealTerms& t, std::size_t k, double factor) {
  const double p = t.x[k] * t.y[k] * factor, size = std::fabs(p);
  if (p == 0 && (t.x[k] == 0 || t.y[k] == 0 || t.vanish())) return 0.0;
  if (!(size > 0x1p-900 && size < 0x1p900) || !(std::fabs(t.x[k] * t.y[k]) > 0x1p-900)) return std::nullopt;
  return p;
}

/// The word that all numbers in [x - error, x + error] are rounded to, if it is the same.
std::optional<std::uint64_t> near(const FloatFormat& f, const Rounding& r, double x, double error) {
  const double low = x - error, high = x + error;
  if (f == fp32 && r == Rounding{}) {
    const float a = static_cast<float>(low), b = static_cast<float>(high);
    if (std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b)) return std::nullopt;
    return std::bit_cast<std::uint32_t>(a);
  }
  const std::uint64_t a = encode(f, r, low).code, b = encode(f, r, high).code;
  return a == b ? std::optional(a) : std::nullopt;
}

/// Operations on words of a stage. Words from first_term on, which no format uses for finite numbers, stand for exact
/// terms.
struct Adder {
  static constexpr std::uint64_t first_term = 0x7ff8'0000'0000'0001;

  FloatFormat format;
  Rounding rounding;
  const RealTerms* terms;
  double factor;

  std::uint64_t add(std::uint64_t a, std::uint64_t b, std::uint64_t) const {
    if (b >= first_term && b - first_term < terms->size()) return add_term(a, b - first_term);
    return evaluate(Operation::add, format, rounding, a, b).code;
  }
  std::uint64_t sub(std::uint64_t a, std::uint64_t b, std::uint64_t) const {
    return evaluate(Operation::sub, format, rounding, a, b).code;
  }
  std::uint64_t mul(std::uint64_t, std::uint64_t, std::uint64_t) const {
    throw std::logic_error("attribution: sums multiply nothing");
  }
  std::uint64_t fma(std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t) const {
    throw std::logic_error("attribution: sums multiply nothing");
  }
  std::uint64_t convert_from(const FloatFormat& from, std::uint64_t code, std::uint64_t) const {
    return convert(from, format, rounding, code).code;
  }

 private:
  std::uint64_t add_term(std::uint64_t a, std::size_t k) const {
    if (!format.is_finite(a)) return a;
    const double sum = rounding.flush_inputs && format.magnitude(a) < format.min_normal() ? 0 : format.value(a);
    if (const auto p = approximate(*terms, k, factor)) {
      if (*p == 0) return format.is_zero(a) ? format.zero() : a;
      const double s = sum + *p;
      if (const auto code = near(format, rounding, s, std::fabs(*p) * doubt + std::fabs(s) * 0x1p-52)) return *code;
    }
    const Dyadic below = terms->denominator();
    Dyadic above = terms->numerator(k);
    above += Dyadic(sum) * below;
    return rounded(format, rounding, above, below);
  }
};

/// Whether term i begins a running sum.
bool begins(const DotModel& m, std::size_t i, std::size_t n) {
  switch (m.order) {
    case Order::sequential: return i == 0;
    case Order::interleaved: return i < std::min(m.width, n);
    default: return i % m.block == 0;
  }
}

}  // namespace

std::uint64_t rounded_term(const FloatFormat& f, const Rounding& rounding, const RealTerms& terms, std::size_t k) {
  if (const auto p = approximate(terms, k, terms.factor())) {
    if (*p == 0) return f.zero();
    if (const auto code = near(f, rounding, *p, std::fabs(*p) * doubt)) return *code;
  }
  return rounded(f, rounding, terms.numerator(k), terms.denominator());
}

std::uint64_t real_sum(const DotModel& model, bool products, const RealTerms& terms) {
  stop_if_interrupted();
  DotModel sums = model;
  sums.input_b.reset(), sums.output.reset(), sums.product.reset();
  const Stage &inner = model.accumulator, &product = model.product.value_or(inner);
  const bool rounded_products = products && model.product;
  const bool as_words = rounded_products || model.compensation != Compensation::none || product.format != inner.format;
  sums.input = rounded_products ? product.format : inner.format;
  const Stage& entry = rounded_products ? product : inner;
  std::vector<std::uint64_t> words(terms.size());
  for (std::size_t k = 0; k < words.size(); ++k)
    words[k] = as_words || begins(model, k, words.size()) ? rounded_term(entry.format, entry.rounding, terms, k)
                                                          : Adder::first_term + k;
  DotEngine<Adder> engine(sums,
                          [&](const FloatFormat& f, const Rounding& r) { return Adder{f, r, &terms, terms.factor()}; });
  return engine.sum(words);
}

std::string real_refusal(const MatrixUnit& unit) {
  const FusedSum& s = unit.sum;
  if (unit.rule != &rules::fused)
    return unit.name + " adds by the rule " + std::string(unit.rule->name) +
           ", which is defined for words of its formats alone";
  if (unit.scaled() || s.normalized_products || s.flush_inputs || s.flush_outputs || s.descending ||
      s.grouping != Grouping::consecutive || s.alignment != RoundingMode::toward_zero)
    return unit.name +
           " has scales, flushes, normalises or rounds terms otherwise than by cutting them off: that is defined for "
           "words alone";
  return {};
}

int real_exponent(const FloatFormat& f, double x, double target, double amax) {
  if (x == 0 || amax == 0) return f.emin();
  const double q = std::fabs(x) * target / amax;
  int e = std::ilogb(q);
  if (std::ilogb(q * (1 - doubt)) != std::ilogb(q * (1 + doubt))) {
    e = std::ilogb(q * (1 + doubt));  // or one less
    const Dyadic bound = Dyadic(Units(1), e) * Dyadic(amax), above = Dyadic(std::fabs(x)) * Dyadic(target);
    if ((above - bound).n < 0) --e;
  }
  return std::max(e, f.emin());
}

std::uint64_t real_sum(const MatrixUnit& unit, const RealTerms& terms, std::span<const int> ex,
                       std::span<const int> ey) {
  stop_if_interrupted();
  using units::int128;
  const FusedSum& rule = unit.sum;
  const FloatFormat& d = unit.accumulator;
  const auto length = static_cast<std::size_t>(rule.length);
  const double factor = terms.factor();
  std::uint64_t c = d.zero();
  std::vector<std::optional<double>> p(length);
  for (std::size_t begin = 0; begin < terms.size(); begin += length) {
    const std::size_t end = std::min(terms.size(), begin + length);
    const units::Term addend = units::term(d, rule, c);
    if (addend.kind != Kind::finite && addend.kind != Kind::zero) return c;
    int emax = std::max(rule.least_exponent, addend.kind == Kind::finite ? addend.exponent : rule.least_exponent);
    for (std::size_t k = begin; k < end; ++k) {
      p[k - begin] = approximate(terms, k, factor);
      if (p[k - begin] != 0.0) emax = std::max(emax, ex[k] + ey[k]);
    }
    const int quantum = emax - rule.alignment_bits;
    int128 sum = units::aligned(addend, emax, rule.alignment_bits, rule.alignment);
    for (std::size_t k = begin; k < end; ++k) {
      if (p[k - begin] == 0.0) continue;
      if (p[k - begin]) {
        const double in_quanta = std::ldexp(*p[k - begin], -quantum);
        const double low = std::trunc(in_quanta * (1 - doubt)), high = std::trunc(in_quanta * (1 + doubt));
        if (low == high) {
          sum += static_cast<int128>(low);
          continue;
        }
      }
      // |numerator| / denominator in quanta, truncated.
      const Dyadic above = terms.numerator(k), below = terms.denominator();
      const int shift = above.exponent - below.exponent - quantum;
      Units n = abs(above.n), by = below.n;
      if (shift >= 0) n <<= static_cast<unsigned>(shift);
      else by <<= static_cast<unsigned>(-shift);
      const auto whole = static_cast<std::uint64_t>(Units(n / by));
      sum += above.n < 0 ? -static_cast<int128>(whole) : static_cast<int128>(whole);
    }
    if (sum == 0) c = d.zero();
    else
      c = units::round_sum(rule.kept, rule.rounding, sum, quantum).code << (d.fraction_bits - rule.kept.fraction_bits);
  }
  return c;
}

}  // namespace halfulp::attribution
