// Questions about large sums: where bits are cut, which terms are added at once, how the result is rounded. Their
// largest terms have exponents of 0 or more: no least exponent below that shows.
#include <halfulp/evidence/probe/questions.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

namespace halfulp::probe {
namespace {

constexpr int deepest = 62;  ///< places below a leading bit that sweeps go

double power(int e) { return FloatFormat::power_of_two(e); }

/// A half of the result's last place and a little more or less: to nearest, the little one decides. FP32 addends are
/// long enough to bring both; beside shorter ones the half, or the little one, must come from the product.
void ask_halves(Asker& q, int top) {
  const FloatFormat& d = q.shape().accumulator;
  const int m = swept_bits(d), ma = q.shape().a.fraction_bits, mb = q.shape().b.fraction_bits,
            high = std::min(d.emax(), deepest);
  const bool is_short = m <= 12;
  for (int t = high + 1; t >= std::max(q.smallest_power(), high - deepest); --t)
    for (const bool negative : {false, true}) {
      if (q.product(0, t, negative) && q.addend(negative ? power(high) : -power(high))) q.ask(Topic::pair);
      q.clear();
    }
  for (const std::size_t at : std::set<std::size_t>{0, q.k() - 1})
    for (const double sign : {1.0, -1.0})
      for (const double other : {1.0, -1.0}) {
        const bool thin = !is_short && (at != 0 || sign < 0);
        const auto both = [&](int t, bool negative, double x, double y, double c) {
          if (q.product(at, t, negative, x, y) && q.addend(c)) q.ask(Topic::pair);
          q.clear();
        };
        for (int u = 8; u <= m + 1; ++u)
          for (int v = std::max(1, m - u); v <= std::min(m, 2 * m - u); ++v)
            for (const double little : {power(-v), 1.5 * power(-v), -power(-v), -1.5 * power(-v)}) {
              const double c = other * power(top - u) * (1 + little);
              const bool simple = std::abs(little) == power(-v);
              // Beside a product of one digit before the point, and of two.
              if (is_short || sign > 0 || (simple && v % 2 == 0)) both(top, sign < 0, 1.5, 1, c);
              if (is_short || (sign > 0 && simple && (v % 2 == 0) == (little > 0)))
                both(top - 1, sign < 0, 1.5, 1.5, c);
            }
        for (int u = 8; u <= m && !thin; ++u)
          for (int s = u + 1; s <= 48; s += is_short ? 1 : 2)
            for (const double x : {1.0, 1.5}) both(high - s, other < 0, x, 1, sign * power(high) * (1 + power(-u)));
        // 1.5 (1.5 + 2^(1 - u)) = 2.25 + 2^(1 - u) + 2^-u ends in a half, of a number with two digits before the point.
        for (int u = 8; u <= std::min(std::max(ma, mb), m) + 1 && is_short; ++u)
          for (int s = u + 1; s <= 40; ++s) {
            const double bit = 1.5 + power(1 - u);
            both(top - 1, sign < 0, u - 1 <= ma ? bit : 1.5, u - 1 <= ma ? 1.5 : bit, 1.5 * other * power(top - s));
          }
        // (1 + 2^-ma)(1 + 2^-(u - ma)) ends in a half.
        for (int u = std::max(8, ma + 1); u <= std::min(ma + mb, m + 2) && !thin; ++u)
          for (int s = u + 1; s <= 90; s += s > 44 ? 17 : is_short ? 1 : 2)
            for (const double x : {1.0, 1.5})
              both(top, sign < 0, 1 + power(-ma), 1 + power(ma - u), other * x * power(top - s));
      }
}

}  // namespace

void ask_addends(Asker& q) {
  const int m = swept_bits(q.shape().accumulator);
  for (const double sign : {1.0, -1.0})
    for (int s = 1; s <= m; ++s)
      for (const double c : {1 + power(-s), 1 + 1.5 * power(1 - s), 1 + power(-s) + power(-m)}) {
        if (q.addend(sign * c)) q.ask(Topic::addend);
      }
}

void ask_order(Asker& q) {
  const int m = swept_bits(q.shape().accumulator);
  std::set<std::size_t> places{3};
  for (std::size_t j = 1; j < q.k(); j *= 2) places.insert(j);
  for (const std::size_t j : places)
    for (int s = 2; s <= m && j < q.k(); ++s)
      for (const bool swapped : {false, true}) {
        q.product(0, 0, swapped), q.product(j, 0, !swapped);
        q.addend(1 + power(-s));
        q.ask(Topic::order);
      }
}

void ask_cancellations(Asker& q) {
  if (q.k() < 2) return;
  const FloatFormat& d = q.shape().accumulator;
  // Where C cannot be small, the pair is large.
  std::set<int> powers{0};
  if (d.emin() > -deepest)
    powers = {std::min(q.largest_power(), d.emax() - 1), std::min(q.largest_power(), deepest / 2)};
  for (const std::size_t j : std::set<std::size_t>{1, q.k() / 2})
    for (const int t : powers)
      for (int s = 0; s <= deepest; ++s)
        for (const bool negative : {false, true}) {
          const double c = (negative ? -1 : 1) * power(t - s);
          const auto pair = [&](int e, double x) {
            return q.product(0, e, false, x, x) && q.product(j, e, true, x, x);
          };
          for (const double factor : {1.0, 1.5}) {
            if (pair(t, 1) && q.addend(factor * c)) q.ask(Topic::cancel);
            q.clear();
          }
          // The same bit as the last one of a normal number, for units that take no subnormal ones.
          if (t - s < d.emin() && pair(t, 1) && q.addend(c + (negative ? -power(d.emin()) : power(d.emin()))))
            q.ask(Topic::cancel);
          q.clear();
          // 1.5 * 1.5 = 2.25: a significand of two digits.
          if (pair(t - 1, 1.5) && q.addend(c)) q.ask(Topic::cancel);
          q.clear();
        }
  // The small term a product: the place beside it, and one of another pair or group.
  if (q.k() < 5) return;
  const int top = std::min(q.largest_power(), 40);
  for (int s = 0; s <= deepest && top - s >= q.smallest_power(); ++s)
    for (const double factor : {1.0, 1.5})
      for (const bool negative : {false, true}) {
        if (q.product(0, top) && q.product(1, top, true) &&
            q.product(4, top - s, negative, top - s < q.least_power() ? 1 : factor))
          q.ask(Topic::cancel);
        q.clear();
      }
}

void ask_pairs(Asker& q) {
  const FloatFormat &a = q.shape().a, &b = q.shape().b, &d = q.shape().accumulator;
  const int m = swept_bits(d), top = std::min({q.largest_power(), d.emax(), d.emin() > -deepest ? deepest : 2});
  for (const std::size_t at : std::set<std::size_t>{0, q.k() - 1})
    for (const double sign : {1.0, -1.0}) {
      if (at != 0 && sign < 0) continue;
      const auto both = [&](int t, double x, double c) {
        if (q.product(at, t, sign < 0, x, x) && q.addend(sign * c)) q.ask(Topic::pair);
        q.clear();
      };
      for (int s = 1; s <= m; ++s) {  // almost all of it cancels
        both(0, 1, -1 - power(-s)), both(1, 1, -2 + power(-s)), both(0, 1.5, -2.25 - power(1 - s));
        if (at == 0) both(top - 2, 1, -power(top - 2) * (1 + power(-s)));
      }
      for (int s = 0; s <= deepest; ++s) {
        both(top, 1, -power(top - s));
        if (at == 0) both(top, 1, power(top - s)), both(top - 1, 1.5, -power(top - s));
      }
    }
  ask_halves(q, top);
  // Subnormal factors: the product's exponent is far above its leading bit, so that C's last bits lie deep below.
  for (const auto& [x, y] : {std::pair{a.min_positive(), word_of(b, 1)}, std::pair{word_of(a, 1), b.min_positive()},
                             std::pair{a.min_positive(), b.min_positive()}})
    for (const int t : {0, 8})
      for (int s = 1; s <= m; ++s) {
        const std::uint64_t p = word_code(a, x), r = word_code(b, y);
        const double larger = p == a.min_positive() && r != b.min_positive() ? power(std::min(t, b.emax())) : 1;
        const double value = a.value(p) * b.value(r) * larger;
        if (q.blocks() != 0 || (larger == 1 && t != 0) || !q.addend(-value * (1 + power(-s)))) continue;
        q.words(0, code_word(a, p), larger == 1 ? code_word(b, r) : word_of(b, b.value(r) * larger));
        q.ask(Topic::pair);
      }
}

void ask_roundings(Asker& q) {
  const FloatFormat& d = q.shape().accumulator;
  const int m = swept_bits(d);
  for (int t = 1; t <= std::min(m + 4, d.emax()); ++t)
    for (const double c : {power(t), -power(t), power(t) * (1 + d.epsilon())})
      for (const bool negative : {false, true})
        for (const double x : {1.0, 1.5}) {
          q.product(0, 0, negative, x);
          q.addend(c);
          q.ask(Topic::rounding);
        }
}

void ask_crowds(Asker& q) {
  const FloatFormat &a = q.shape().a, &b = q.shape().b, &d = q.shape().accumulator;
  const double x = 2 - a.epsilon(), y = 2 - b.epsilon();
  for (int s = -2; s <= swept_bits(d) + 2; ++s)  // as large a sum as products of one exponent give, and C below
    for (const double c : {power(-s), -power(-s), 1.5 * power(-s)})
      for (const bool negative : {false, true}) {
        for (std::size_t i = 0; i < q.k(); ++i) q.product(i, 0, negative, x, y);
        if (q.addend(c)) q.ask(Topic::crowd);
        q.clear();
      }
  // Random signs and significands, exponents within a window.
  for (int n = 0; n < 240; ++n) {
    const int window = std::min(static_cast<int>(q.random() % 3) * 12, std::max(q.largest_power() - 2, 0)) + 1;
    for (std::size_t i = 0; i < q.k(); ++i) {
      const std::uint64_t r = q.random();
      const int t = static_cast<int>(r % static_cast<unsigned>(window));
      const auto significand = [](const FloatFormat& f, std::uint64_t bits) {
        return 1 + static_cast<double>(bits & f.fraction_mask()) * f.epsilon();
      };
      q.product(i, t, n % 3 != 0 && (r >> 60 & 1) != 0, significand(a, r >> 8), significand(b, r >> 32));
    }
    const std::uint64_t r = q.random();
    const double fraction = 1 + static_cast<double>(r >> 40 & d.fraction_mask() & 0xff'ffff) * d.epsilon();
    if (!q.addend((r & 1 ? -1 : 1) * fraction * power(static_cast<int>(r >> 4 & 31) - 10)))
      q.addend(r & 1 ? -fraction : fraction);
    q.ask(Topic::crowd);
  }
}

// Questions whose terms are all small, where a least exponent shows, and random code words.

namespace {

constexpr int smallest = -230;  ///< products below this are below every result, and below what an e0 that matters cuts

/// Puts a product where, in any layout with sums of more than one, one is added to that of place 0 at once: at both
/// places, or at the one where it is possible.
template <class F>
bool at_either(Asker& q, F put) {
  const bool first = put(1), second = put(q.k() / 2);
  return first || second;
}

/// A product whose significand is 1 + 2^-s, if the formats have one that long.
bool long_product(Asker& q, int t, bool negative, int s) {
  const int ma = q.shape().a.fraction_bits, mb = q.shape().b.fraction_bits;
  if (t < q.least_power()) return false;
  if (s <= ma) return q.product(0, t, negative, 1 + power(-s));
  if (s > ma + mb) return false;
  // (1 + 2^-ma)(1 + 2^-(s - ma)) = 1 + 2^-ma + 2^-(s - ma) + 2^-s
  return q.product(0, t, negative, 1 + power(-ma), 1 + power(ma - s));
}

/// Products that are multiples of 2^unit, some of them odd ones, whose sum is one of 2^sum: if a little is cut off, it
/// is not.
void round_total(Asker& q, int unit, int sum) {
  const FloatFormat &a = q.shape().a, &b = q.shape().b;
  const int odd = unit + a.fraction_bits + b.fraction_bits;
  for (std::size_t block = 0; block < q.blocks(); ++block)
    if (!q.scale_by(block, odd - a.emin() - b.emin())) return q.clear();
  const bool negative = (unit & 1) != 0;
  std::uint64_t total = 0;
  std::size_t at = 0;
  for (; at < std::min<std::size_t>(q.k() / 2, 4); ++at) {
    if (!q.product(at, odd, negative, 1 + a.epsilon(), 1 + b.epsilon())) return q.clear();
    total += ((std::uint64_t{1} << a.fraction_bits) + 1) * ((std::uint64_t{1} << b.fraction_bits) + 1);
  }
  std::uint64_t rest = -total & ((std::uint64_t{1} << (sum - unit)) - 1);
  for (; at < q.k() && rest != 0; ++at) {
    int i = std::bit_width(rest) - 1;
    while (i >= 0 && !q.product(at, unit + i, negative)) --i;
    if (i < 0) return q.clear();
    rest -= std::uint64_t{1} << i;
  }
  if (rest == 0) q.ask(Topic::small);
  q.clear();
}

}  // namespace

void ask_small(Asker& q) {
  const FloatFormat &a = q.shape().a, &b = q.shape().b, &d = q.shape().accumulator;
  const int m = swept_bits(d);
  for (int t = -1; t >= std::max(d.emin() - d.fraction_bits, smallest); --t)
    for (const double c : {power(t), -power(t), (2 - d.epsilon()) * power(t), -(2 - d.epsilon()) * power(t)})
      if (q.addend(c)) q.ask(Topic::small);
  for (int t = d.emin() + 48; t >= std::max(d.emin() - 2, smallest); --t)
    for (int n = 0; n < 4; ++n) {
      const std::uint64_t r = q.random(), fraction = r & d.fraction_mask() & ~(d.fraction_mask() >> (r >> 56 & 31));
      const int field = std::max(t + d.bias, 0);
      if (t < d.emax())
        q.addend_code(d.with_sign(static_cast<std::uint64_t>(field) << d.fraction_bits | fraction, n % 2 == 1)),
            q.ask(Topic::small);
    }
  const int last = std::max(d.emin() - m, smallest);
  for (int t = std::min(4, q.largest_power()); t >= std::max(q.smallest_power(), smallest); --t)
    for (const bool negative : {false, true}) {
      // Zeros of the same sign beside it: that of a result that vanishes lasts to the end.
      for (std::size_t i = 1; i < q.k(); ++i) q.words(i, 0, negative ? word_of(b, -1) : 0);
      if (q.product(0, t, negative)) q.ask(Topic::small);
      q.clear();
      const auto half = [&](std::size_t at) { return q.product(at, t - 1, !negative); };
      if (q.k() > 1 && q.product(0, t, negative) && at_either(q, half)) q.ask(Topic::small);
      q.clear();
      const auto opposite = [&](std::size_t at) {
        return q.product(at, t, !negative, 2 - a.epsilon(), 2 - b.epsilon());
      };
      if (q.k() > 1 && q.product(0, t, negative, 2 - a.epsilon(), 2 - b.epsilon()) && at_either(q, opposite))
        q.ask(Topic::small);
      q.clear();
      if (t > last - 16 && q.product(0, t, negative, 2 - a.epsilon(), 2 - b.epsilon())) q.ask(Topic::small);
      q.clear();
    }
  // Around the result's last place, where its format is about to end: a product there and a smaller one, or its own
  // last bits.
  for (int t = d.emin() + 1; t >= std::max(d.emin() - m - 2, q.smallest_power()); --t) {
    for (int s = 1; s <= a.fraction_bits + b.fraction_bits; ++s) {
      if (long_product(q, t, s % 2 == 0, s)) q.ask(Topic::small);
      q.clear();
    }
    // More than a half decides to nearest, at the right t; less than a whole towards zero, at any.
    for (int s = 1; s <= 48 && t - s >= q.smallest_power() && q.k() > 1; ++s)
      for (const bool less : {false, true}) {
        if (less && (t - d.emin() + m) % 3 != 0) continue;
        // The small one twice: in any layout, one of them is added to the other at once.
        const bool negative = s % 4 < 2;
        const auto add_small = [&](std::size_t at) { return q.product(at, t - s, negative != less); };
        if (q.product(0, t, negative) && at_either(q, add_small)) q.ask(Topic::small);
        q.clear();
      }
  }
  for (int unit = d.emin() - m - 15; unit < d.emin() - 1; ++unit)
    for (int sum = std::max(unit + 1, d.emin() - m - 1); sum <= std::min(unit + 14, d.emin() - 1); ++sum)
      round_total(q, unit, sum);
}

}  // namespace halfulp::probe
