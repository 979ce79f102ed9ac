#include <halfulp/hardware/probe/layout.hpp>

#include <algorithm>
#include <bit>
#include <limits>

namespace halfulp::probe {
namespace {

/// s where c is the code of 1 + 2^-s, else 0.
int single_bit(const FloatFormat& f, std::uint64_t c) {
  const std::uint64_t one = static_cast<std::uint64_t>(f.bias) << f.fraction_bits, fraction = c ^ one;
  return c > one && fraction <= f.fraction_mask() && std::has_single_bit(fraction) ? f.fraction_bits - std::countr_zero(fraction) : 0;
}

constexpr int no_exponent = std::numeric_limits<int>::min() / 2;

/// The exponent of a word's number as a sum sees it; no_exponent for zero, and for what is no number.
int exponent_of(const FloatFormat& f, std::uint64_t word) {
  const std::uint64_t code = word_code(f, word);
  return f.is_zero(code) || !f.is_finite(code) ? no_exponent : f.exponent(code) + f.fraction_bits;
}

int product_exponent(const MatrixShape& s, const Products& x, std::size_t at) {
  int e = exponent_of(s.a, x.a[at]) + exponent_of(s.b, x.b[at]);
  if (s.scale_block != 0)
    for (const auto& scales : {x.scale_a, x.scale_b}) e += exponent_of(s.scale, scales[at / static_cast<std::size_t>(s.scale_block)]);
  return std::max(e, no_exponent);
}

}  // namespace

std::size_t Layout::step(std::size_t at, std::size_t k) const {
  const auto l = static_cast<std::size_t>(length), sums = k / l, j = grouping == Grouping::strided ? at % sums : at / l;
  return descending ? sums - 1 - j : j;
}

int surviving_bits(const Answers& answers) {
  int lost = std::numeric_limits<int>::max();
  const FloatFormat& d = answers.shape().accumulator;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const int s = single_bit(d, answers.cases().c[i]);
    if (answers.topic(i) == Topic::addend && s > 0 && answers[i] != answers.cases().c[i]) lost = std::min(lost, s);
  }
  return std::min(lost - 1, d.fraction_bits);
}

std::vector<Layout> layouts(const Answers& answers, int surviving) {
  const MatrixShape& shape = answers.shape();
  const auto k = static_cast<std::size_t>(shape.k);
  struct Pair {
    std::size_t plus, minus;
    bool survives;
  };
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::uint64_t c = answers.cases().c[i];
    if (answers.topic(i) != Topic::order || single_bit(shape.accumulator, c) != surviving) continue;
    const Products x = answers.cases().products(i);
    Pair pair{k, k, answers[i] == c};
    for (std::size_t at = 0; at < k; ++at)
      if (x.a[at] != 0) (shape.a.sign(word_code(shape.a, x.a[at])) ? pair.minus : pair.plus) = at;
    pairs.push_back(pair);
  }
  std::vector<Layout> possible;
  for (const std::int64_t length : candidates(shape, Parameter::length))
    for (const Grouping grouping : {Grouping::consecutive, Grouping::strided})
      for (const bool descending : {false, true}) {
        const Layout layout{static_cast<int>(length), grouping, descending};
        if ((length == shape.k && descending) || ((length == shape.k || length == 1) && grouping == Grouping::strided)) continue;  // the same once more
        const auto agrees = [&](const Pair& p) { return p.survives == (layout.step(p.minus, k) <= layout.step(p.plus, k)); };
        if (std::all_of(pairs.begin(), pairs.end(), agrees)) possible.push_back(layout);
      }
  return possible;
}

Order large_questions(const Answers& answers, const Layout& layout) {
  const MatrixShape& shape = answers.shape();
  const auto k = static_cast<std::size_t>(shape.k);
  return answers.chosen([&](std::size_t i) {
    if (answers.topic(i) < Topic::addend || answers.topic(i) > Topic::crowd) return false;
    const Products x = answers.cases().products(i);
    bool begins_large = exponent_of(shape.accumulator, answers.cases().c[i]) >= 0;
    for (std::size_t at = 0; at < k; ++at) {
      const int e = product_exponent(shape, x, at);
      if (e != no_exponent && e < 0) return false;
      begins_large = begins_large || (e >= 0 && layout.step(at, k) == 0);
    }
    return begins_large;
  });
}

}  // namespace halfulp::probe
