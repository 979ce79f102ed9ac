#include <halfulp/hardware/probe/search.hpp>

#include <halfulp/emulation/units/rules.hpp>
#include <halfulp/hardware/probe/layout.hpp>

#include <algorithm>

namespace halfulp::probe {
namespace {

/// What three answers say at once: the NaN, the sign of zero, whether subnormal operands count.
FusedSum readings(const Answers& answers) {
  const MatrixCases& cases = answers.cases();
  const FloatFormat &a = answers.shape().a, &b = answers.shape().b, &d = answers.shape().accumulator;
  FusedSum sum;
  sum.kept = d, sum.nan = d.canonical_nan();
  if (const auto i = answers.first([&](std::size_t q) { return d.is_nan(cases.c[q]) && d.is_nan(answers[q]); })) sum.nan = answers[*i];
  const auto zero = answers.first([&](std::size_t q) { return answers.topic(q) == Topic::zero; });
  sum.zero = answers[*zero] == d.zero(true) && d.has_negative_zero() ? ZeroSign::ieee : ZeroSign::positive;
  // Products of the largest subnormal number and a large one: some may be too small for the result all the same.
  const auto from_subnormal = [&](std::size_t q) {
    const Products x = cases.products(q);
    return answers.topic(q) == Topic::subnormal && cases.c[q] == 0 &&
           (a.is_subnormal(word_code(a, x.a[0])) || b.is_subnormal(word_code(b, x.b[0])));
  };
  sum.flush_inputs = answers.first(from_subnormal) && !answers.first([&](std::size_t q) { return from_subnormal(q) && !d.is_zero(answers[q]); });
  return sum;
}

/// Bits that terms and results keep, together.
struct Bits {
  int alignment, kept;
};

/// The smaller of the two is what C alone keeps.
std::vector<Bits> bits_for(const MatrixShape& shape, int surviving) {
  std::vector<Bits> bits;
  const int all = shape.accumulator.fraction_bits;
  for (int alignment = 60; alignment > surviving; --alignment) bits.push_back({alignment, surviving});  // what cuts nothing first
  for (int kept = all; kept >= surviving; --kept) bits.push_back({surviving, kept});
  if (surviving == all)  // what is wider than C is not seen by it
    for (Bits& x : bits) x.kept = all;
  return bits;
}

class Search {
 public:
  Search(const Answers& answers, const MatrixUnit& start, Order large) : answers_(answers), unit_(start), large_(std::move(large)), all_(answers.all()) {
    least_ = candidates(answers.shape(), Parameter::least_exponent);
    modes_ = candidates(answers.shape(), Parameter::rounding);
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
              set(s, Parameter::alignment, alignment), set(s, Parameter::rounding, rounding);
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
        set(unit_.sum, Parameter::least_exponent, least);
        if (answers_.explained_by(unit_, all_)) return true;
      }
    }
    return false;
  }

  const Answers& answers_;
  MatrixUnit unit_;
  Order large_, all_;
  std::vector<std::int64_t> least_, modes_;
  bool flushes_large_;
};

}  // namespace

std::optional<MatrixUnit> find_fused(const Answers& answers) {
  const MatrixShape& shape = answers.shape();
  MatrixUnit start = model_of(shape, rules::fused, readings(answers));
  if (const int surviving = surviving_bits(answers); surviving > 0)
    for (const Layout& layout : layouts(answers, surviving)) {
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
  Order order = answers.all();
  for (const Rule* rule : rules::all())
    for (const std::int64_t length : candidates(shape, Parameter::length)) {
      MatrixUnit start = model_of(shape, *rule, readings(answers));
      start.sum.length = static_cast<int>(length);
      if (rule == &rules::fused || !refusal(start).empty() || shape.k % start.depth() != 0) continue;
      if (rule->takes == RuleTakes::length) {
        if (answers.explained_by(start, order)) found.push_back(start);
        continue;
      }
      std::vector<Bits> bits;
      for (const std::int64_t alignment : candidates(shape, Parameter::alignment_bits)) bits.push_back({static_cast<int>(alignment), shape.accumulator.fraction_bits});
      Search search(answers, start, large_questions(answers, {shape.k, Grouping::consecutive, false}));
      if (search.over(bits, false)) found.push_back(search.unit());
    }
  return found;
}

}  // namespace halfulp::probe
