// Questions about everything but ordinary numbers: NaN and Inf, overflow, zeros, subnormals.
#include <halfulp/evidence/probe/questions.hpp>

#include <algorithm>
#include <cmath>

namespace halfulp::probe {
namespace {

/// Product number `at` with a given word of A (or of B) and a number of the other.
void one_word(Asker& q, bool in_a, std::size_t at, std::uint64_t word, double other) {
  const std::uint64_t partner = word_of(in_a ? q.shape().b : q.shape().a, other);
  if (in_a) q.words(at, word, partner);
  else q.words(at, partner, word);
}

void ask_operand_specials(Asker& q, bool in_a) {
  const FloatFormat& f = in_a ? q.shape().a : q.shape().b;
  const FloatFormat& d = q.shape().accumulator;
  const std::size_t last = q.k() - 1;
  if (f.has_nan()) {
    one_word(q, in_a, 0, code_word(f, f.canonical_nan()), 1);
    q.ask(Topic::special);
    one_word(q, in_a, last, code_word(f, f.canonical_nan()), -1);
    q.addend_code(d.infinity());
    q.ask(Topic::special);
  }
  if (!f.has_infinity()) return;
  const std::uint64_t inf = code_word(f, f.infinity());
  for (const double other : {0.0, 1.0, -1.0})
    for (const std::uint64_t c : {d.zero(), d.infinity(), d.infinity(true), d.canonical_nan()}) {
      one_word(q, in_a, last, inf, other);
      q.addend_code(c);
      q.ask(Topic::special);
    }
  if (last == 0) return;
  for (const double other : {1.0, -1.0}) {
    one_word(q, in_a, 0, inf, 1);
    one_word(q, in_a, last, inf, other);
    q.ask(Topic::special);
  }
}

}  // namespace

void ask_specials(Asker& q) {
  const FloatFormat& d = q.shape().accumulator;
  for (const std::uint64_t nan :
       {d.canonical_nan(), d.canonical_nan() | d.sign_mask() | 1, d.infinity() | 1, d.infinity(), d.infinity(true)})
    for (const bool product : {false, true}) {
      if (product) q.product(0, 0);
      q.addend_code(nan);
      q.ask(Topic::special);
    }
  for (const bool in_a : {true, false}) ask_operand_specials(q, in_a);
  for (std::size_t block = 0; block < q.blocks(); ++block)
    for (const bool product : {false, true}) {
      const FloatFormat& scale = q.shape().scale;
      if (product) q.product(block * static_cast<std::size_t>(q.shape().scale_block), 0);
      q.scales(block, scale.canonical_nan(), word_of(scale, 1));
      q.ask(Topic::special);
    }
  // At and beyond the largest number.
  const int half = d.emax() - d.fraction_bits - 1;
  for (const bool negative : {false, true}) {
    for (const int t : {half - 1, half, half + 1, q.largest_power()}) {
      if (!q.product(0, t, negative)) continue;
      q.addend_code(d.with_sign(d.max_finite(), negative));
      q.ask(Topic::special);
    }
    for (const double c : {0.0, 1.0}) {
      q.product(0, q.largest_power(), negative);
      q.addend(c);
      q.ask(Topic::special);
      q.product(0, q.largest_power(), negative), q.product(q.k() - 1, q.largest_power(), !negative);
      q.addend(c);
      q.ask(Topic::special);
    }
  }
}

void ask_zeros(Asker& q) {
  const FloatFormat &a = q.shape().a, &b = q.shape().b, &d = q.shape().accumulator;
  const std::size_t k = q.k();
  for (const bool negative_c : {true, false})
    for (const int odd_one : {-1, 0, static_cast<int>(k) - 1})
      for (const bool by_b : {true, false}) {
        // Products -0, as 0 * -1 or as -0 * 1, except for an odd one.
        for (std::size_t i = 0; i < k; ++i) {
          const bool negative = static_cast<int>(i) != odd_one;
          if (by_b) q.words(i, code_word(a, a.zero()), word_of(b, negative ? -1 : 1));
          else q.words(i, code_word(a, a.zero(negative)), word_of(b, 1));
        }
        q.addend_code(d.zero(negative_c));
        q.ask(Topic::zero);
      }
  for (const bool negative : {true, false}) {
    q.addend_code(d.zero(negative));
    q.ask(Topic::zero);
    q.product(0, 0, negative);
    q.addend(negative ? 1 : -1);
    q.ask(Topic::zero);
    if (k > 1) {
      q.product(0, 0, negative), q.product(1, 0, !negative);
      q.addend_code(d.zero(true));
      q.ask(Topic::zero);
    }
    q.product(0, q.least_power(), negative);
    q.addend_code(d.zero(negative));
    q.ask(Topic::zero);
  }
}

void ask_subnormals(Asker& q) {
  const FloatFormat& d = q.shape().accumulator;
  for (const bool in_a : {true, false}) {
    const FloatFormat &f = in_a ? q.shape().a : q.shape().b, &other = in_a ? q.shape().b : q.shape().a;
    if (!f.has_subnormals()) continue;
    for (const double c : {0.0, 1.0, -1.0})
      for (const std::uint64_t code : {f.min_normal() - 1, f.min_positive(), f.min_normal() - 1 + f.sign_mask()}) {
        one_word(q, in_a, 0, code_word(f, code), FloatFormat::power_of_two(other.emax()));
        q.addend(c);
        q.ask(Topic::subnormal);
      }
  }
  const double least = FloatFormat::power_of_two(d.emin());
  for (const bool negative : {false, true}) {
    for (const std::uint64_t code :
         {d.min_normal() - 1, d.min_positive(), d.min_normal() / 2 + 1, d.min_normal() | 1, d.min_normal()}) {
      q.addend_code(d.with_sign(code, negative));
      q.ask(Topic::subnormal);
      q.addend_code(
          d.with_sign(code, negative));  // beside a product that takes a part of it, or of which it takes a part
      for (const int t : {d.emin(), d.emin() - 1, d.emin() - d.fraction_bits - 1})
        if (q.product(0, t, !negative)) {
          q.ask(Topic::subnormal);
          q.addend_code(d.with_sign(code, negative));
        }
      q.clear();
    }
    for (const std::size_t at : {std::size_t{0}, q.k() - 1})  // in the last sum, whichever that is, nothing comes after
      for (int t = d.emin() - d.fraction_bits; t <= d.emin(); ++t) {
        if (q.product(at, t, negative)) q.ask(Topic::subnormal);
        q.clear();
      }
    for (const double c : {1.5, 1.25, 1 + d.epsilon()})
      if (q.product(0, d.emin(), !negative)) {
        q.addend(negative ? -c * least : c * least);
        q.ask(Topic::subnormal);
      }
  }
}

// Random questions: sums that almost cancel, terms of one size, random code words.

namespace {

/// A few products, subnormal factors among them, and C almost their sum with the other sign.
void ask_almost_cancelling(Asker& q) {
  const FloatFormat &a = q.shape().a, &b = q.shape().b, &d = q.shape().accumulator;
  for (int n = 0; n < 600; ++n) {
    double sum = 0;
    const auto factor = [&](const FloatFormat& f) {  // few bits or many, now and then below the normal numbers
      const std::uint64_t r = q.random(), fraction = r & f.fraction_mask() & ~(f.fraction_mask() >> (r >> 56 & 15));
      const int e = r >> 40 & 1 ? 0
                                : std::clamp(f.bias + static_cast<int>(r >> 44 & 15) - 8, 0,
                                             static_cast<int>(f.max_finite() >> f.fraction_bits));
      const std::uint64_t code = std::min(static_cast<std::uint64_t>(e) << f.fraction_bits | fraction, f.max_finite());
      return f.with_sign(code, (r >> 62 & 1) != 0);
    };
    const std::size_t places[] = {n % 2 == 0 ? 0 : q.k() - 1, 1, q.k() / 2};
    for (int i = 0; i < 1 + n % 3 && places[i] < q.k(); ++i) {
      const std::uint64_t x = factor(a), y = factor(b);
      q.words(places[i], code_word(a, x), code_word(b, y));
      sum += a.value(x) * b.value(y);
    }
    const std::uint64_t r = q.random(), near = word_code(d, word_of(d, -sum)) + (r & 7) - 3;
    q.addend_code((n % 4 == 3 ? near ^ (r >> 8 & d.fraction_mask() >> (r >> 56 & 15)) : near) & d.code_mask());
    q.ask(Topic::scattered);
  }
}

/// Many or few products of about one size, two of which may cancel, and C of that size or below.
void ask_clusters(Asker& q) {
  const FloatFormat &a = q.shape().a, &b = q.shape().b, &d = q.shape().accumulator;
  for (int n = 0; n < 1080; ++n) {
    const std::uint64_t r = q.random();
    const auto up_to = [&](int shift, int most) {
      return static_cast<int>((r >> shift & 0xff) % static_cast<unsigned>(most + 1));
    };
    const bool dense = n >= 720;  // sums one after the other: as many chances
    const int width = dense ? 8 + up_to(0, 8) : n % 5 == 0 ? 40 : 1 + up_to(0, 6);
    const int lowest = dense || n % 3 == 0 ? -up_to(8, 8)
                       : n % 3 == 1        ? d.emin() - up_to(8, d.fraction_bits + 8)
                                           : -up_to(8, -q.least_power() % 256);
    const auto factor = [&](const FloatFormat& f, int e) {
      const std::uint64_t bits = q.random(), fraction = bits & f.fraction_mask() &
                                                        ~(bits >> 60 & 1 ? f.fraction_mask() >> (bits >> 56 & 15) : 0);
      const int field = std::clamp(e + f.bias, 0, static_cast<int>(f.max_finite() >> f.fraction_bits));
      return f.with_sign(std::min(static_cast<std::uint64_t>(field) << f.fraction_bits | fraction, f.max_finite()),
                         (bits >> 62 & 1) != 0);
    };
    const std::size_t used = dense || n % 2 == 0 ? q.k() : 1 + static_cast<std::size_t>(up_to(16, 3));
    std::uint64_t x = 0, y = 0;
    for (std::size_t i = 0; i < used; ++i) {
      const int e = lowest + static_cast<int>(q.random() % static_cast<unsigned>(width));
      x = factor(a, e / 2), y = factor(b, e - e / 2);
      q.words(n % 4 == 1 && !dense ? q.random() % q.k() : i % q.k(), code_word(a, x), code_word(b, y));
    }
    if (n % 7 == 0) q.words(q.k() / 2, code_word(a, x ^ a.sign_mask()), code_word(b, y));
    if (n % 8 < 5) q.addend_code(factor(d, lowest + width - up_to(24, 30)));
    q.ask(Topic::scattered);
  }
}

}  // namespace

void ask_scattered(Asker& q) {
  ask_almost_cancelling(q);
  ask_clusters(q);
  const MatrixShape& shape = q.shape();
  const auto draw = [&](const FloatFormat& f) { return code_word(f, q.random() & f.code_mask()); };
  for (int n = 0; n < 200; ++n) {
    const std::size_t products = n % 2 == 0 ? q.k() : std::min<std::size_t>(q.k(), 3);
    // B's before A's, in every compiler: recordings hold the answers.
    for (std::size_t i = 0; i < products; ++i) {
      const std::uint64_t y = draw(shape.b), x = draw(shape.a);
      q.words(i, x, y);
    }
    for (std::size_t block = 0; block < q.blocks() && n % 4 < 2; ++block) {
      const std::uint64_t of_b = draw(shape.scale), of_a = draw(shape.scale);
      q.scales(block, of_a, of_b);
    }
    if (n % 3 != 0) q.addend_code(draw(shape.accumulator));
    q.ask(Topic::scattered);
  }
}

}  // namespace halfulp::probe
