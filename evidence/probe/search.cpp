#include <halfulp/evidence/probe/search.hpp>

#include <halfulp/emulation/unit/rules.hpp>

#include <algorithm>
#include <bit>
#include <limits>

namespace halfulp::probe {
namespace {

/// s where c is the code of 1 + 2^-s, else 0.
int single_bit(const FloatFormat& f, std::uint64_t c) {
  const std::uint64_t one = static_cast<std::uint64_t>(f.bias) << f.fraction_bits, fraction = c ^ one;
  return c > one && fraction <= f.fraction_mask() && std::has_single_bit(fraction)
             ? f.fraction_bits - std::countr_zero(fraction)
             : 0;
}

constexpr int no_exponent = std::numeric_limits<int>::min() / 2;

/// The exponent of a word's number as a sum sees it; no_exponent for zero, and for what is no number.
int exponent_of(const FloatFormat& f, std::uint64_t word) {
  const std::uint64_t code = word_code(f, word);
  return f.is_zero(code) || !f.is_finite(code) ? no_exponent : f.exponent(code) + f.fraction_bits;
}

int product_exponent(const MatrixShape& s, const DotOperands& x, std::size_t at) {
  int e = exponent_of(s.a, x.a[at]) + exponent_of(s.b, x.b[at]);
  if (s.scale_block != 0)
    for (const auto& scales : {x.scale_a, x.scale_b})
      e += exponent_of(s.scale, scales[at / static_cast<std::size_t>(s.scale_block)]);
  return std::max(e, no_exponent);
}

}  // namespace

std::size_t SumLayout::step(std::size_t at, std::size_t k) const {
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

std::vector<SumLayout> layouts(const Answers& answers, int surviving) {
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
    const DotOperands x = answers.cases().products(i);
    Pair pair{k, k, answers[i] == c};
    for (std::size_t at = 0; at < k; ++at)
      if (x.a[at] != 0) (shape.a.sign(word_code(shape.a, x.a[at])) ? pair.minus : pair.plus) = at;
    pairs.push_back(pair);
  }
  std::vector<SumLayout> possible;
  for (const std::int64_t length : candidates(shape, SumParameter::length))
    for (const Grouping grouping : {Grouping::consecutive, Grouping::strided})
      for (const bool descending : {false, true}) {
        const SumLayout layout{static_cast<int>(length), grouping, descending};
        if ((length == shape.k && descending) || ((length == shape.k || length == 1) && grouping == Grouping::strided))
          continue;  // the same once more
        const auto agrees = [&](const Pair& p) {
          return p.survives == (layout.step(p.minus, k) <= layout.step(p.plus, k));
        };
        if (std::all_of(pairs.begin(), pairs.end(), agrees)) possible.push_back(layout);
      }
  return possible;
}

QuestionOrder large_questions(const Answers& answers, const SumLayout& layout) {
  const MatrixShape& shape = answers.shape();
  const auto k = static_cast<std::size_t>(shape.k);
  return answers.chosen([&](std::size_t i) {
    if (answers.topic(i) < Topic::addend || answers.topic(i) > Topic::crowd) return false;
    const DotOperands x = answers.cases().products(i);
    bool begins_large = exponent_of(shape.accumulator, answers.cases().c[i]) >= 0;
    for (std::size_t at = 0; at < k; ++at) {
      const int e = product_exponent(shape, x, at);
      if (e != no_exponent && e < 0) return false;
      begins_large = begins_large || (e >= 0 && layout.step(at, k) == 0);
    }
    return begins_large;
  });
}

namespace {

/// What three answers say at once: the NaN, the sign of zero, whether subnormal operands count.
FusedSum readings(const Answers& answers) {
  const MatrixCases& cases = answers.cases();
  const FloatFormat &a = answers.shape().a, &b = answers.shape().b, &d = answers.shape().accumulator;
  FusedSum sum;
  sum.kept = d, sum.nan = d.canonical_nan();
  if (const auto i = answers.first([&](std::size_t q) { return d.is_nan(cases.c[q]) && d.is_nan(answers[q]); }))
    sum.nan = answers[*i];
  const auto zero = answers.first([&](std::size_t q) { return answers.topic(q) == Topic::zero; });
  sum.zero = answers[*zero] == d.zero(true) && d.has_negative_zero() ? ZeroSign::ieee : ZeroSign::positive;
  // Products of the largest subnormal number and a large one: some may be too small for the result all the same.
  const auto from_subnormal = [&](std::size_t q) {
    const DotOperands x = cases.products(q);
    return answers.topic(q) == Topic::subnormal && cases.c[q] == 0 &&
           (a.is_subnormal(word_code(a, x.a[0])) || b.is_subnormal(word_code(b, x.b[0])));
  };
  sum.flush_inputs = answers.first(from_subnormal) &&
                     !answers.first([&](std::size_t q) { return from_subnormal(q) && !d.is_zero(answers[q]); });
  return sum;
}

/// Bits that terms and results keep, together.
struct Bits {
  int alignment, kept;
};

/// The smaller of the two is what C keeps by itself.
std::vector<Bits> bits_for(const MatrixShape& shape, int surviving) {
  std::vector<Bits> bits;
  const int all = shape.accumulator.fraction_bits;
  for (int alignment = 60; alignment > surviving; --alignment)
    bits.push_back({alignment, surviving});  // what cuts nothing first
  for (int kept = all; kept >= surviving; --kept) bits.push_back({surviving, kept});
  if (surviving == all)  // what is wider than C is not seen by it
    for (Bits& x : bits) x.kept = all;
  return bits;
}

class Search {
 public:
  Search(const Answers& answers, const MatrixUnit& start, QuestionOrder large)
      : answers_(answers), unit_(start), large_(std::move(large)), all_(answers.all()) {
    least_ = candidates(answers.shape(), SumParameter::least_exponent);
    modes_ = candidates(answers.shape(), SumParameter::rounding);
    // Large sums have tiny results only where the range is short.
    flushes_large_ = answers.shape().accumulator.emin() > -64;
  }

  bool over(const std::vector<Bits>& bits, bool normalizations) {
    FusedSum& s = unit_.sum;
    for (const Bits& b : bits)
      for (const bool normalized : {false, true}) {
        if (normalized && !normalizations) continue;
        for (const std::int64_t alignment : modes_)
          for (const std::int64_t rounding : modes_)
            for (const bool flush : {false, true}) {
              if (flush && !flushes_large_) continue;
              s.alignment_bits = b.alignment, s.kept.fraction_bits = b.kept, s.normalized_products = normalized;
              set(s, SumParameter::alignment, alignment), set(s, SumParameter::rounding, rounding);
              s.flush_outputs = flush, s.least_exponent = FusedSum::no_least_exponent;
              if (answers_.explained_by(unit_, large_) && small_too()) return true;
            }
      }
    return false;
  }
  const MatrixUnit& unit() const { return unit_; }

 private:
  /// The least exponent, and where large sums did not tell, what becomes of tiny results.
  bool small_too() {
    for (const bool flush : {false, true}) {
      if (flushes_large_ && flush != unit_.sum.flush_outputs) continue;
      unit_.sum.flush_outputs = flush;
      for (const std::int64_t least : least_) {
        set(unit_.sum, SumParameter::least_exponent, least);
        if (answers_.explained_by(unit_, all_)) return true;
      }
    }
    return false;
  }

  const Answers& answers_;
  MatrixUnit unit_;
  QuestionOrder large_, all_;
  std::vector<std::int64_t> least_, modes_;
  bool flushes_large_;
};

}  // namespace

std::optional<MatrixUnit> find_fused(const Answers& answers) {
  const MatrixShape& shape = answers.shape();
  MatrixUnit start = model_of(shape, rules::fused, readings(answers));
  if (const int surviving = surviving_bits(answers); surviving > 0)
    for (const SumLayout& layout : layouts(answers, surviving)) {
      start.sum.length = layout.length, start.sum.grouping = layout.grouping, start.sum.descending = layout.descending;
      if (!refusal(start).empty()) continue;
      Search search(answers, start, large_questions(answers, layout));
      if (search.over(bits_for(shape, surviving), true)) return search.unit();
    }
  return std::nullopt;
}

std::vector<MatrixUnit> find_others(const Answers& answers) {
  const MatrixShape& shape = answers.shape();
  std::vector<MatrixUnit> found;
  QuestionOrder order = answers.all();
  for (const Rule* rule : rules::all())
    for (const std::int64_t length : candidates(shape, SumParameter::length)) {
      MatrixUnit start = model_of(shape, *rule, readings(answers));
      start.sum.length = static_cast<int>(length);
      if (rule == &rules::fused || !refusal(start).empty() || shape.k % start.depth() != 0) continue;
      if (rule->takes == RuleTakes::length) {
        if (answers.explained_by(start, order)) found.push_back(start);
        continue;
      }
      std::vector<Bits> bits;
      for (const std::int64_t alignment : candidates(shape, SumParameter::alignment_bits))
        bits.push_back({static_cast<int>(alignment), shape.accumulator.fraction_bits});
      Search search(answers, start, large_questions(answers, {shape.k, Grouping::consecutive, false}));
      if (search.over(bits, false)) found.push_back(search.unit());
    }
  return found;
}

}  // namespace halfulp::probe
