// Random questions: sums that almost cancel, terms of one size, random code words.
#include <halfulp/hardware/probe/asker.hpp>

#include <algorithm>

namespace halfulp::probe {
namespace {

/// A few products, subnormal factors among them, and C almost their sum with the other sign.
void ask_almost_cancelling(Asker& q) {
  const FloatFormat &a = q.shape().a, &b = q.shape().b, &d = q.shape().accumulator;
  for (int n = 0; n < 600; ++n) {
    double sum = 0;
    const auto factor = [&](const FloatFormat& f) {  // few bits or many, now and then below the normal numbers
      const std::uint64_t r = q.random(), fraction = r & f.fraction_mask() & ~(f.fraction_mask() >> (r >> 56 & 15));
      const int e = r >> 40 & 1 ? 0 : std::clamp(f.bias + static_cast<int>(r >> 44 & 15) - 8, 0, static_cast<int>(f.max_finite() >> f.fraction_bits));
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
    const auto up_to = [&](int shift, int most) { return static_cast<int>((r >> shift & 0xff) % static_cast<unsigned>(most + 1)); };
    const bool dense = n >= 720;  // sums one after the other: as many chances
    const int width = dense ? 8 + up_to(0, 8) : n % 5 == 0 ? 40 : 1 + up_to(0, 6);
    const int lowest = dense || n % 3 == 0 ? -up_to(8, 8) : n % 3 == 1 ? d.emin() - up_to(8, d.fraction_bits + 8) : -up_to(8, -q.least_power() % 256);
    const auto factor = [&](const FloatFormat& f, int e) {
      const std::uint64_t bits = q.random(), fraction = bits & f.fraction_mask() & ~(bits >> 60 & 1 ? f.fraction_mask() >> (bits >> 56 & 15) : 0);
      const int field = std::clamp(e + f.bias, 0, static_cast<int>(f.max_finite() >> f.fraction_bits));
      return f.with_sign(std::min(static_cast<std::uint64_t>(field) << f.fraction_bits | fraction, f.max_finite()), (bits >> 62 & 1) != 0);
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
    for (std::size_t i = 0; i < products; ++i) q.words(i, draw(shape.a), draw(shape.b));
    for (std::size_t block = 0; block < q.blocks(); ++block)
      if (n % 4 < 2) q.scales(block, draw(shape.scale), draw(shape.scale));
    if (n % 3 != 0) q.addend_code(draw(shape.accumulator));
    q.ask(Topic::scattered);
  }
}

}  // namespace halfulp::probe
