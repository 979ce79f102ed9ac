// Questions whose terms are all small, where a least exponent shows, and random code words.
#include <halfulp/hardware/probe/asker.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace halfulp::probe {
namespace {

double power(int e) { return FloatFormat::power_of_two(e); }

constexpr int smallest = -230;  ///< products below this are below every result, and below what an e0 that matters cuts

/// Puts a product where, in any layout with sums of more than one, one is added to that of place 0 at once: at both places, or
/// at the one where it is possible.
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

/// Products that are multiples of 2^unit, some of them odd ones, whose sum is one of 2^sum: if a little is cut off, it is not.
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
      if (t < d.emax()) q.addend_code(d.with_sign(static_cast<std::uint64_t>(field) << d.fraction_bits | fraction, n % 2 == 1)), q.ask(Topic::small);
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
      const auto opposite = [&](std::size_t at) { return q.product(at, t, !negative, 2 - a.epsilon(), 2 - b.epsilon()); };
      if (q.k() > 1 && q.product(0, t, negative, 2 - a.epsilon(), 2 - b.epsilon()) && at_either(q, opposite)) q.ask(Topic::small);
      q.clear();
      if (t > last - 16 && q.product(0, t, negative, 2 - a.epsilon(), 2 - b.epsilon())) q.ask(Topic::small);
      q.clear();
    }
  // Around the result's last place, where its format is about to end: a product there and a smaller one, or its own last bits.
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
    for (int sum = std::max(unit + 1, d.emin() - m - 1); sum <= std::min(unit + 14, d.emin() - 1); ++sum) round_total(q, unit, sum);
}

}  // namespace halfulp::probe
