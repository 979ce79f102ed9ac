#include <halfulp/emulation/unit/panel.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/unit/rules.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace halfulp::units {
namespace {

constexpr int carrier_bits = 24;  // of a product of significands that is exact in float

/// The values of an operand's words, row by row as in memory but without gaps.
array::Scratch<float> values_of(const FloatFormat& f, const CodeWords& words, std::size_t lines, std::size_t length,
                                std::size_t leading) {
  array::Scratch<float> values(lines * length);
  const std::size_t grain = std::max<std::size_t>(1, (std::size_t{1} << 14) / length);
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, lines, grain), [&](const auto& range) {
    const array::DefaultEnvironment environment;
    for (std::size_t line = range.begin(); line != range.end(); ++line)
      words.visit([&](const auto* all) {
        using Code = std::remove_cvref_t<decltype(*all)>;
        const auto* from = all + line * leading;
        float* to = values.data() + line * length;
        if (f == tf32) {  // floats whose low bits are ignored
          for (std::size_t i = 0; i < length; ++i)
            to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i] & 0xffff'e000));
        } else if constexpr (sizeof(Code) == 8) {
          for (std::size_t i = 0; i < length; ++i)
            to[i] = f.is_nan(from[i]) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(f.value(from[i]));
        } else {
          decode(f, std::span(from, length), std::span(to, length));
        }
      });
  });
  return values;
}

constexpr std::int32_t exponent_field(float x) {
  return static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x) >> 23 & 0xff);
}

/// The key of a value: its exponent, at least `least`.
constexpr std::int32_t key_of(float x, std::int32_t least) {
  return x == 0 ? zero_key : std::max(exponent_field(x) - 127, least);
}
constexpr KeyPair pair_of(std::int32_t first, std::int32_t second) {
  return (static_cast<KeyPair>(first) & 0xffff) | static_cast<KeyPair>(second) << 16;
}

/// The pairs of keys of a span of `width` vectors side by side.
template <std::size_t width>
void put_pairs(const float* value, std::size_t span, std::int32_t least, KeyPair* pairs) {
  const std::size_t whole = span / 2;
  for (std::size_t i = 0; i < whole; ++i)
    for (std::size_t v = 0; v < width; ++v)
      pairs[i * width + v] = pair_of(key_of(value[2 * i * width + v], least),
                                     key_of(value[(2 * i + 1) * width + v], least));
  for (std::size_t v = 0; span % 2 != 0 && v < width; ++v)
    pairs[whole * width + v] = pair_of(key_of(value[2 * whole * width + v], least), zero_key);
}

/// The values of a panel, of which `here` vectors exist: position i of vector v at from + v * step.row + order[i] *
/// step.column. All others are zeros.
template <std::size_t width>
void gather(const float* from, Placement step, std::size_t here, std::span<const std::size_t> order, float* to) {
  const bool adjacent = here == width && step.row == 1;
  for (const std::size_t k : order) {
    if (adjacent && k != padding) {
      std::memcpy(to, from + k * step.column, width * sizeof(float));
    } else {
      for (std::size_t v = 0; v < width; ++v)
        to[v] = v < here && k != padding ? from[v * step.row + k * step.column] : 0;
    }
    to += width;
  }
}

/// Subnormals become +0.
void flush(float* values, std::size_t count, float min_normal) {
  for (std::size_t i = 0; i < count; ++i)
    if (values[i] != 0 && std::abs(values[i]) < min_normal) values[i] = 0;
}

/// Marks the vectors of a panel that hold an infinity or a NaN.
template <std::size_t width>
void mark_special(const float* value, std::size_t depth, std::uint8_t* special) {
  std::int32_t beyond = 0;
  for (std::size_t i = 0; i < depth * width; ++i) beyond |= exponent_field(value[i]) + 1;
  if (beyond < 0x100) return;
  for (std::size_t i = 0; i < depth * width; ++i)
    if (exponent_field(value[i]) == 0xff) special[i % width] = 1;
}

/// Prepares an operand: `values` of vector v at v * step.row + k * step.column, and scales scale(vector, block).
template <std::size_t width, class Scale>
Prepared prepare(const MatrixUnit& unit, const FloatFormat& format, const VectorBody& body, std::size_t vectors,
                 std::span<const std::size_t> order, const float* values, Placement step, Scale scale) {
  Prepared p;
  const PanelRule& rule = body.rule;
  const bool groups = body.body == Body::groups, keyed = body.body == Body::terms || body.body == Body::products;
  const std::size_t depth = order.size(), spans = depth / rule.span, pairs = pairs_of(rule.span),
                    panels = (vectors + width - 1) / width, room = panels * width;
  p.special.assign(room, 0);
  p.value = array::Scratch<float>(room * depth);
  if (keyed) p.pair = array::Scratch<KeyPair>(room * spans * pairs);
  if (unit.scaled()) p.power = array::Scratch<std::int32_t>(room * spans);
  if (groups) p.scale = array::Scratch<float>(room * spans);
  // fp16 holds some of the values that are subnormal in the operand's format as normal ones.
  const std::int32_t least = unit.rule == &rules::halves_apart ? fp16.emin() : format.emin();

  const auto smallest = static_cast<float>(FloatFormat::power_of_two(format.emin()));

  const auto put_scales = [&](std::size_t first) {
    for (std::size_t s = 0; s < spans; ++s)
      for (std::size_t v = 0; v < width; ++v) {
        const std::size_t k = order[s * rule.span], at = first * spans + s * width + v;
        const std::uint64_t code = first + v < vectors && k != padding
                                       ? unit.scale.magnitude(
                                             scale(first + v, k / static_cast<std::size_t>(unit.scale_block)))
                                       : 0;
        if (!unit.scale.is_finite(code)) p.special[first + v] = 1;
        p.power.data()[at] = unit.scale.exponent(code) + unit.scale.fraction_bits;
        if (groups)
          p.scale.data()[at] = static_cast<float>(static_cast<double>(unit.scale.significand(code)) *
                                                  FloatFormat::power_of_two(-unit.scale.fraction_bits));
      }
  };
  const std::size_t grain = std::max<std::size_t>(1, (std::size_t{1} << 14) / (width * depth));
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, panels, grain), [&](const auto& range) {
    for (std::size_t index = range.begin(); index != range.end(); ++index) {
      const std::size_t first = index * width;
      float* value = p.value.data() + first * depth;
      gather<width>(values + first * step.row, step, std::min(width, vectors - first), order, value);
      if (body.body == Body::tree) flush(value, width * depth, smallest);
      mark_special<width>(value, depth, p.special.data() + first);
      if (unit.scaled()) put_scales(first);
      for (std::size_t v = 0; v < width; ++v)  // the interpreter computes these; here they must be finite
        for (std::size_t i = 0; p.special[first + v] && i < depth; ++i) value[i * width + v] = 0;
      for (std::size_t s = 0; keyed && s < spans; ++s)
        put_pairs<width>(value + s * rule.span * width, rule.span, least,
                         p.pair.data() + (first * spans + s * width) * pairs);
    }
  });
  return p;
}

/// Whether a sum truncates at the quantum, flushes nothing and has only positive zeros, as all kernels require.
bool is_plain(const FusedSum& s) {
  return s.alignment == RoundingMode::toward_zero && !s.normalized_products && !s.flush_inputs && !s.flush_outputs &&
         s.zero == ZeroSign::positive && s.alignment_bits >= 1;
}

/// Whether every finite value is a float, and every normal one a normal float.
bool is_carried(const FloatFormat& f) {
  return f.precision() <= carrier_bits && f.emin() >= fp32.emin() && f.emax() <= fp32.emax();
}

/// Whether the products of values are normal floats.
bool has_normal_products(const MatrixUnit& unit) {
  const auto lowest = [](const FloatFormat& f) { return f.emin() - f.fraction_bits; };
  return unit.a.emax() + unit.b.emax() < 60 && lowest(unit.a) + lowest(unit.b) > -60;
}

PanelRule rule_of(const MatrixUnit& unit, std::size_t span, std::size_t run) {
  const FusedSum& s = unit.sum;
  const FloatFormat &kept = s.kept, &d = unit.accumulator;
  const auto min_normal = [](const FloatFormat& f) { return static_cast<float>(f.value(f.min_normal())); };
  const auto max_finite = [](const FloatFormat& f) { return static_cast<float>(f.value(f.max_finite())); };
  // Scaled products have any exponent; those of their values must be normal. Rounding to nearest goes through floats to
  // odd, of 24 bits, and needs room for its aligner.
  const bool nearest = s.rounding == RoundingMode::nearest_even,
             quick = (!unit.scaled() || has_normal_products(unit)) &&
                     (!nearest || kept.precision() + 2 <= carrier_bits);
  PanelRule rule;
  rule.length = static_cast<std::size_t>(s.length), rule.span = span, rule.run = run;
  rule.alignment_bits = s.alignment_bits;
  // Exponents of products and addends are above -600, so smaller limits have no effect.
  rule.least_exponent = std::max(s.least_exponent, -600);
  rule.addend_emin = d.emin();
  rule.kept_bits = kept.fraction_bits;
  rule.kept_mask = -(1 << (23 - kept.fraction_bits));
  rule.least_quantum = kept.emin() - kept.fraction_bits;
  rule.infinity_from = FloatFormat::power_of_two(kept.emax() + 1);
  rule.min_normal = min_normal(kept), rule.max_finite = max_finite(kept);
  rule.narrow = kept.emin() > fp32.emin() || kept.emax() < fp32.emax();
  rule.to_nearest = nearest;
  rule.scaled = unit.scaled();
  rule.quick_from = quick ? s.alignment_bits - 125 : 1,
  rule.quick_to = quick ? s.alignment_bits + 96 - 24 * nearest : 0;
  rule.quick_least = rule.least_exponent > rule.quick_from && !unit.scaled() ? rule.least_exponent : 2 * zero_key;
  rule.apart = unit.rule == &rules::halves_apart || unit.rule == &rules::product_chain;
  rule.addend_bits = d.fraction_bits, rule.addend_min = min_normal(d), rule.addend_max = max_finite(d);
  return rule;
}

/// Whether products that follow each other in sums, `run` of them, share their scales.
bool share_scales(const MatrixUnit& unit, std::size_t run) {
  const std::vector<std::size_t> order = order_of(unit, static_cast<std::size_t>(unit.depth()));
  const auto block = static_cast<std::size_t>(unit.scale_block);
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i] / block != order[i / run * run] / block) return false;
  return true;
}

}  // namespace

namespace {

constexpr int partial_sum_bits = 24;  ///< below emax that products keep on CDNA3

/// The body of a rule that is not made of fused sums.
std::optional<VectorBody> stepped_body(const MatrixUnit& unit) {
  const auto length = static_cast<std::size_t>(unit.sum.length);
  if (unit.accumulator != fp32 || !is_carried(unit.a) || !is_carried(unit.b)) return {};
  const auto with = [&](Body body, std::size_t span) { return VectorBody{body, rule_of(unit, span, span)}; };
  if (unit.rule == &rules::fma_chain || unit.rule == &rules::product_chain) {
    if (!has_fma()) return {};
    return with(Body::chain, length);
  }
  if (unit.rule == &rules::flushed_tree && (length == 2 || length == 4)) return with(Body::tree, length);
  if (unit.rule == &rules::exact_sum) return with(Body::exact, length);
  const bool even_odd = unit.rule == &rules::even_odd_then_addend;
  if (!even_odd && unit.rule != &rules::sum_then_addend) return {};
  // Products are exact in float, and up to 32 integers below 4 * 2^24 have a sum of 32 bits.
  if (unit.a.precision() + unit.b.precision() > carrier_bits || length > 32 || (even_odd && length % 2 != 0)) return {};
  MatrixUnit cut = unit;
  cut.sum.alignment_bits = partial_sum_bits;
  const std::size_t span = even_odd ? length / 2 : length;
  return VectorBody{Body::products, rule_of(cut, span, span)};
}

}  // namespace

std::optional<VectorBody> vector_body(const MatrixUnit& unit) {
  if (const auto body = stepped_body(unit)) return body;
  const FusedSum& s = unit.sum;
  const FloatFormat& d = unit.accumulator;
  if (!is_plain(s) || !is_carried(unit.a) || !is_carried(unit.b) || !is_carried(d) || d.nonfinite != NonFinite::ieee)
    return {};
  if (s.least_exponent > fp32.emax()) return {};
  if (unit.rule == &rules::scaled_groups) {
    const auto group = static_cast<std::size_t>(group_length);
    const std::size_t groups = static_cast<std::size_t>(s.length) / group;
    // Sums of 12 bits and two scales are exact in float, and with F <= 38 in double.
    if (12 + 2 * unit.scale.precision() > carrier_bits || groups > max_groups || s.alignment_bits > 38 ||
        s.rounding != RoundingMode::toward_zero)
      return {};
    return VectorBody{Body::groups, rule_of(unit, group, group)};
  }
  if (unit.rule != &rules::fused && unit.rule != &rules::halves_apart) return {};
  // The last addition of halves is a float addition that is rounded again: correct if 24 >= 2 p + 2 (Figueroa 1995).
  if (unit.rule == &rules::halves_apart && d != fp32 && 2 * d.precision() + 2 > carrier_bits) return {};
  if (unit.a.precision() + unit.b.precision() > carrier_bits) return {};
  if (s.rounding != RoundingMode::toward_zero && s.rounding != RoundingMode::nearest_even) return {};
  if (unit.scaled() && unit.scale != e8m0) return {};  // powers of two are exponents; other scales have significands
  // An integer of a product is below 4 * 2^F, and a run of them stays below 2^31.
  const int room = 31 - 2 - s.alignment_bits;
  if (room < 0) return {};
  const auto length = static_cast<std::size_t>(s.length);
  std::size_t run = 1;
  while (run < (std::size_t{1} << room) && length % (2 * run) == 0) run *= 2;
  while (unit.scaled() && !share_scales(unit, run)) run /= 2;
  return VectorBody{Body::terms, rule_of(unit, unit.scaled() ? run : length, run)};
}

std::vector<std::size_t> order_of(const MatrixUnit& unit, std::size_t k) {
  const auto depth = static_cast<std::size_t>(unit.depth()), length = static_cast<std::size_t>(unit.sum.length),
             sums = depth / length;
  std::vector<std::size_t> order;
  for (std::size_t begin = 0; begin < unit.padded(k); begin += depth)
    for (std::size_t s = 0; s < sums; ++s)
      for (std::size_t i = 0; i < length; ++i) {
        // The even products of a sum come first where they are added apart.
        const std::size_t at = begin + (unit.rule == &rules::even_odd_then_addend && length > 1
                                            ? i % (length / 2) * 2 + i / (length / 2)
                                            : product_of(unit, sums, s, i));
        order.push_back(at < k ? at : padding);
      }
  return order;
}

Prepared prepare_rows(const MatrixUnit& unit, const VectorBody& body, const GemmOperands& x,
                      std::span<const std::size_t> order) {
  const std::size_t blocks = unit.scaled() ? x.scale_a.size() / x.m : 0;
  const Placement place = x.place_a();
  const auto values = x.transpose_a ? values_of(unit.a, x.a, x.k, x.m, place.column)
                                    : values_of(unit.a, x.a, x.m, x.k, place.row);
  return prepare<rows_together>(unit, unit.a, body, x.m, order, values.data(),
                                x.transpose_a ? Placement{1, x.m} : Placement{x.k, 1},
                                [&](std::size_t i, std::size_t block) { return x.scale_a[i * blocks + block]; });
}

Prepared prepare_columns(const MatrixUnit& unit, const VectorBody& body, const GemmOperands& x,
                         std::span<const std::size_t> order) {
  const Placement place = x.place_b();
  const auto values = x.transpose_b ? values_of(unit.b, x.b, x.n, x.k, place.column)
                                    : values_of(unit.b, x.b, x.k, x.n, place.row);
  return prepare<panel_columns>(unit, unit.b, body, x.n, order, values.data(),
                                x.transpose_b ? Placement{x.k, 1} : Placement{1, x.n},
                                [&](std::size_t j, std::size_t block) { return x.scale_b[block * x.n + j]; });
}

}  // namespace halfulp::units
