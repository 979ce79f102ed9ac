#include <halfulp/emulation/unit/rules.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

namespace halfulp {

namespace rules {

std::span<const Rule* const> all() {
  static constexpr std::array<const Rule*, 13> rows{
      &fused,           &scaled_groups, &halves_apart, &fma_chain,       &fp64_chain,
      &product_chain,   &exact_sum,     &flushed_tree, &sum_then_addend, &even_odd_then_addend,
      &even_odd_chains, &odd_even_pair, &to_odd_pair};
  return rows;
}

const Rule* find(std::string_view name) {
  const auto found = std::find_if(all().begin(), all().end(), [&](const Rule* r) { return r->name == name; });
  return found == all().end() ? nullptr : *found;
}

}  // namespace rules

namespace {

constexpr int max_size = 65536;

/// Why a fused sum is refused.
std::string sum_refusal(const MatrixUnit& unit) {
  const FusedSum& s = unit.sum;
  for (const FloatFormat& f : {unit.a, unit.b, unit.accumulator})
    if (f.precision() > 24) return "format " + format_name(f) + ": fused sums take up to 24 significant bits";
  if (s.alignment == RoundingMode::stochastic || s.rounding == RoundingMode::stochastic)
    return "stochastic rounding needs random bits, which units have none of";
  const FloatFormat &kept = s.kept, &d = unit.accumulator;
  FloatFormat longer = kept;
  longer.fraction_bits = d.fraction_bits;
  if (longer != d || kept.fraction_bits > d.fraction_bits || kept.fraction_bits < 1)
    return "kept " + format_name(kept) + " is no " + format_name(d) +
           " with fewer fraction bits; accepted: " + format_name(d) + " or a format with its exponent bits and 1 to " +
           std::to_string(d.fraction_bits) + " fraction bits, such as " +
           format_name({d.exponent_bits, d.fraction_bits / 2, d.bias, d.nonfinite});
  // Only in IEEE formats do Inf and NaN stay the same when zeros are appended.
  if (kept != d && d.nonfinite != NonFinite::ieee)
    return "kept " + format_name(kept) + " has another Inf than " + format_name(d) + "; accepted: " + format_name(d);
  return {};
}

}  // namespace

int MatrixUnit::depth() const {
  if (rule == &rules::halves_apart) return 2 * sum.length;
  const bool whole = rule->takes == RuleTakes::all && (sum.grouping == Grouping::strided || sum.descending);
  return whole ? k : sum.length;
}

std::string refusal(const MatrixUnit& unit) {
  const FusedSum& s = unit.sum;
  const FloatFormat& d = unit.accumulator;
  if (!unit.rule) return "a unit needs a rule";
  for (const int size : {unit.m, unit.n, unit.k})
    if (size < 1 || size > max_size)
      return "shape: m, n and k are 1 to " + std::to_string(max_size) + ", not " + std::to_string(size);
  if (s.length < 1 || s.length > 1024) return "length: 1 to 1024 products, not " + std::to_string(s.length);
  if (s.alignment_bits < 0 || s.alignment_bits > 60)
    return "alignment_bits: 0 to 60, not " + std::to_string(s.alignment_bits);
  for (const FloatFormat& f : {unit.a, unit.b, d})
    if (!f.has_zero) return "format " + format_name(f) + ": operands and accumulators need a zero";
  if (d == tf32) return "accumulator tf32: TF32 is read only; a sum kept to its precision is fp32 with kept e8m10";
  if (!d.has_infinity()) return "accumulator " + format_name(d) + " has no Inf";
  if (!d.is_nan(s.nan) || (s.nan & ~d.code_mask()) != 0)
    return "nan is not the code word of a NaN of " + format_name(d);
  if (unit.depth() % s.length != 0)
    return "an instruction of k " + std::to_string(unit.k) + " is not made of sums of " + std::to_string(s.length);
  if (unit.scaled()) {
    if (unit.rule->takes == RuleTakes::length)
      return "scale: the rule " + std::string(unit.rule->name) + " takes no scales";
    if (unit.scale_block < 1 || (unit.depth() % unit.scale_block != 0 && unit.scale_block % unit.depth() != 0))
      return "scale_block: " + std::to_string(unit.scale_block) + " products share a scale, and a step adds " +
             std::to_string(unit.depth()) + "; accepted: a divisor or a multiple of that";
    if (unit.scale == FloatFormat{}) return "scale_block is there without scale";
  }
  if (unit.rule->takes != RuleTakes::length)
    if (std::string why = sum_refusal(unit); !why.empty()) return why;
  return unit.rule->refusal(unit);
}

std::uint64_t mma(const MatrixUnit& unit, const DotOperands& x, std::uint64_t c) {
  const std::size_t length = x.a.size();
  if (x.b.size() != length)
    throw std::invalid_argument("A has " + std::to_string(length) + " words along k, B " + std::to_string(x.b.size()));
  if (length == 0) throw std::invalid_argument("A and B are empty: k is at least 1");
  const auto per_scale = static_cast<std::size_t>(unit.scale_block);
  const std::size_t scales = unit.scaled() ? (length + per_scale - 1) / per_scale : 0;
  for (const auto& [name, span] : {std::pair{"A", x.scale_a}, std::pair{"B", x.scale_b}})
    if (span.size() != scales)
      throw std::invalid_argument(
          std::string("scales of ") + name + ": " + std::to_string(span.size()) + " given, " + unit.name + " takes " +
          (scales == 0 ? "none" : std::to_string(scales) + ", one for " + std::to_string(per_scale) + " products"));

  const auto depth = static_cast<std::size_t>(unit.depth());
  std::vector<std::uint64_t> padded[4];
  const auto part = [&](int which, std::span<const std::uint64_t> words, std::size_t begin, std::size_t count) {
    if (begin + count <= words.size()) return words.subspan(begin, count);
    std::vector<std::uint64_t>& room =
        padded[which];  // zeros for operands; for scales, which then multiply zeros, their first code
    room.assign(count, 0);
    std::copy(words.begin() + static_cast<std::ptrdiff_t>(std::min(begin, words.size())), words.end(), room.begin());
    return std::span<const std::uint64_t>(room);
  };
  for (std::size_t k = 0; k < unit.padded(length); k += depth) {
    DotOperands step{part(0, x.a, k, depth), part(1, x.b, k, depth), {}, {}};
    if (unit.scaled()) {
      const std::size_t here = std::max<std::size_t>(1, depth / per_scale);  // a block may be longer than a step
      step.scale_a = part(2, x.scale_a, k / per_scale, here);
      step.scale_b = part(3, x.scale_b, k / per_scale, here);
    }
    c = unit.rule->step(unit, step, c);
  }
  return c;
}

}  // namespace halfulp
