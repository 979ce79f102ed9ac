// What no operands can show: arguments from the range of exponents and the bits that terms can have.
#include <halfulp/hardware/probe/infer.hpp>

#include <halfulp/emulation/units/rules.hpp>

#include <algorithm>
#include <cmath>

namespace halfulp::probe {
namespace {

struct Terms {
  Reach product, addend;
  int own;  ///< the most bits that one term has below its own exponent

  Terms(const MatrixShape& s, const Rule* rule, bool normalized) : product(product_reach(s, normalized)), addend(addend_reach(s, normalized)) {
    if (rule == &rules::halves_apart) addend = product;  // sums begin from 0 and go on from sums; C is added afterwards
    const int scale = s.scale_block != 0 ? 2 * s.scale.fraction_bits : 0;
    own = std::max(s.a.fraction_bits + s.b.fraction_bits + scale + (normalized ? 1 + (scale > 0) : 0), s.accumulator.fraction_bits);
  }
  int last() const { return std::min(product.last, addend.last); }
  int least() const { return std::min(product.least, addend.least); }
  /// The alignment bits with which nothing is cut off.
  int span(int length) const {
    return std::max({own, product.largest - addend.last, addend.largest - product.last, length > 1 ? product.largest - product.last : 0});
  }
};

/// A least exponent that changes nothing, and why.
std::string inert_exponent(const Terms& t, int bits, std::int64_t e0) {
  if (e0 <= t.least()) return "no term but zero has an exponent below " + std::to_string(t.least());
  if (e0 - bits <= t.last()) return "no term has a bit below 2^" + std::to_string(t.last());
  return {};
}

bool never_cuts(const Terms& t, const FusedSum& s, std::int64_t bits) {
  return bits >= t.span(s.length) && !inert_exponent(t, static_cast<int>(bits), s.least_exponent).empty();
}

/// The lowest bit that a sum can have.
int lowest(const Terms& t, const FusedSum& s) { return std::max(std::max(t.least(), s.least_exponent) - s.alignment_bits, t.last()); }

/// n such that every sum is below 2^(emax + n): an addend is below 2 * 2^emax, and so is a normalised product.
int carry(const MatrixShape& shape, const FusedSum& s) {
  const int scales = shape.scale_block != 0 && shape.scale.fraction_bits > 0 ? 4 : 1;
  const double product = s.normalized_products ? 2 : scales * (2 - shape.a.epsilon()) * (2 - shape.b.epsilon());
  return static_cast<int>(std::ceil(std::log2(s.length * product + 2)));
}

/// Whether every sum is a number with so many fraction bits, or tiny and flushed.
bool always_fits(const MatrixShape& shape, const Terms& t, const FusedSum& s, std::int64_t kept) {
  return kept + 1 >= carry(shape, s) + s.alignment_bits && (s.flush_outputs || lowest(t, s) >= shape.accumulator.emin() - kept);
}

/// The largest exponent such that sums of smaller terms all become 0, and the same 0; none if that is not so of any.
int vanishing(const MatrixShape& shape, const FusedSum& s) {
  const bool nearest = s.rounding == RoundingMode::nearest_even || s.rounding == RoundingMode::nearest_away || s.rounding == RoundingMode::nearest_to_zero;
  if (s.zero != ZeroSign::positive || !(s.flush_outputs || nearest || s.rounding == RoundingMode::toward_zero)) return FusedSum::no_least_exponent;
  const int emin = shape.accumulator.emin();
  // Half of what rounds up to the smallest number.
  return (s.flush_outputs ? emin - 1 : emin - s.kept.fraction_bits - 1) - carry(shape, s);
}

/// Whether no result but zero is below the normal numbers.
bool never_tiny(const MatrixShape& shape, const Terms& t, const FusedSum& s) {
  const int emin = shape.accumulator.emin();
  // Without subnormal addends: where products do not cancel they are multiples of a number so large that C, to cancel them, has
  // no tiny last bit either; where they do, C stands alone.
  return lowest(t, s) >= emin || (s.flush_inputs && t.product.last - 1 - shape.accumulator.fraction_bits >= emin);
}

}  // namespace

std::string same_for_all_operands(const MatrixShape& shape, const MatrixUnit& model, Parameter p, std::int64_t value) {
  const FusedSum& s = model.sum;
  // Group sums of scaled_groups and operands of halves_apart are not these terms; their exponents lie in the same range.
  const bool fused = model.rule == &rules::fused;
  const Terms t(shape, model.rule, s.normalized_products || !fused);
  if (p == Parameter::least_exponent) {
    const auto why = [&](std::int64_t e0) {
      const std::string inert = inert_exponent(t, s.alignment_bits, e0);
      if (!inert.empty() || !fused || e0 > vanishing(shape, s)) return inert;
      return "sums of terms below 2^" + std::to_string(vanishing(shape, s)) + " are 0 anyhow";
    };
    return why(s.least_exponent).empty() ? std::string() : why(value);
  }
  if (p == Parameter::flush_outputs && model.rule == &rules::halves_apart && t.last() >= shape.accumulator.emin())
    return "no sum but zero is below the smallest normal number";
  if (!fused) return {};
  const auto if_holds = [](bool holds, const std::string& why) { return holds ? why : std::string(); };
  const std::string nothing_cut = "terms have no bits more than " + std::to_string(t.span(s.length)) + " below the largest exponent: nothing is ever cut";
  switch (p) {
    case Parameter::grouping:
      if (s.length == 1) return "a sum takes one product";
      [[fallthrough]];
    case Parameter::direction: return if_holds(s.length == shape.k, "one sum takes all products of the instruction");
    case Parameter::alignment_bits: return if_holds(never_cuts(t, s, value) && never_cuts(t, s, s.alignment_bits), nothing_cut);
    case Parameter::alignment: return if_holds(never_cuts(t, s, s.alignment_bits), nothing_cut);
    case Parameter::normalized:
      return if_holds(never_cuts(Terms(shape, model.rule, false), s, s.alignment_bits) && never_cuts(Terms(shape, model.rule, true), s, s.alignment_bits), nothing_cut);
    case Parameter::kept:
      return if_holds(always_fits(shape, t, s, value) && always_fits(shape, t, s, s.kept.fraction_bits), "every sum has fewer bits: nothing is rounded");
    case Parameter::rounding: return if_holds(always_fits(shape, t, s, s.kept.fraction_bits), "every sum is a number of the result's format");
    case Parameter::flush_outputs: return if_holds(never_tiny(shape, t, s), "no sum but zero is below the smallest normal number");
    default: return {};
  }
}

}  // namespace halfulp::probe
