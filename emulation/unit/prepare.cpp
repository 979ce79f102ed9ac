#include <halfulp/emulation/unit/panel.hpp>

#include <halfulp/emulation/unit/rules.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>

namespace halfulp::units {
namespace {

constexpr int carrier_bits = 24;  // of a product of significands that is exact in float

/// Takes code words apart into significand and exponent, and says whether they are finite. The constructor computes
/// what does not depend on the word.
struct Decoder {
  explicit Decoder(const FloatFormat& f, bool to_halves)
      : unit(static_cast<float>(FloatFormat::power_of_two(-f.fraction_bits))),
        fraction_bits(f.fraction_bits),
        bias(f.bias),
        ignored_bits(f == tf32 ? 13 : 0),
        magnitude_mask(f.magnitude_mask()),
        sign_mask(f.sign_mask()),
        max_finite(f.max_finite()),
        nan_at_sign(f.is_nan(f.sign_mask())),
        normalise(to_halves) {}

  float unit;
  int fraction_bits, bias, ignored_bits;
  std::uint64_t magnitude_mask, sign_mask, max_finite;
  bool nan_at_sign;  ///< the code of -0 is a NaN
  bool normalise;    ///< subnormals are converted to fp16, where some of them are normal

  bool operator()(std::uint64_t word, float& significand, std::int32_t& exponent) const {
    const std::uint64_t code = word >> ignored_bits, magnitude = code & magnitude_mask;
    const auto field = static_cast<std::int32_t>(magnitude >> fraction_bits);
    const std::uint64_t fraction = magnitude & ((std::uint64_t{1} << fraction_bits) - 1);
    const auto integer = static_cast<std::int32_t>(fraction | (std::uint64_t{field != 0} << fraction_bits));
    significand = static_cast<float>(integer) * unit;
    exponent = std::max(field, 1) - bias;
    if (normalise && field == 0 && integer != 0) {
      const int top = std::bit_width(static_cast<std::uint32_t>(integer)) - 1 - fraction_bits;
      const int shift = std::max(top, fp16.emin() - exponent);  // below 0: how far the significand rises
      significand *= static_cast<float>(FloatFormat::power_of_two(-shift));
      exponent += shift;
    }
    if (integer == 0) exponent = zero_exponent;
    if (code & sign_mask) significand = -significand;
    return magnitude <= max_finite && !(nan_at_sign && code == sign_mask);
  }
};

/// Where the element of vector v at position i lies: base(v) + i * step.
struct Layout {
  std::size_t vectors, depth;
  bool panels;  ///< of panel_columns vectors side by side; else one vector after the other
  std::size_t room() const { return panels ? (vectors + panel_columns - 1) / panel_columns * panel_columns : vectors; }
  std::size_t step() const { return panels ? panel_columns : 1; }
  std::size_t base(std::size_t v) const {
    return panels ? v / panel_columns * panel_columns * depth + v % panel_columns : v * depth;
  }
};

/// Prepares an operand whose words are word(vector, product) and scales scale(vector, block).
template <class Word, class Scale>
Prepared prepare(const MatrixUnit& unit, const FloatFormat& format, const VectorBody& made_for, const Layout& layout,
                 std::span<const std::size_t> order, Word word, Scale scale) {
  Prepared p;
  const Body body = made_for.body;
  const PanelRule& rule = made_for.rule;
  const std::size_t size = layout.room() * layout.depth, scales = body == Body::groups ? size / rule.group : size;
  p.special.assign(layout.room(), 0);
  std::fill_n((p.factor = hwy::AllocateAligned<float>(size)).get(), size, 0.0f);
  if (body != Body::parts) std::fill_n((p.power = hwy::AllocateAligned<float>(scales)).get(), scales, 0.0f);
  if (body != Body::powers)
    std::fill_n((p.exponent = hwy::AllocateAligned<std::int32_t>(scales)).get(), scales, zero_exponent);

  const auto scale_of = [&](std::size_t v, std::size_t k, bool& finite) {
    const std::uint64_t code = unit.scale.magnitude(scale(v, k / static_cast<std::size_t>(unit.scale_block)));
    finite = finite && unit.scale.is_finite(code);
    return code;
  };
  const Decoder decode(format, unit.rule == &rules::halves_apart);
  const auto put = [&](std::size_t v, std::size_t i) {
    float significand;
    std::int32_t exponent;
    bool finite = decode(word(v, order[i]), significand, exponent);
    const std::size_t to = layout.base(v) + i * layout.step();
    const float power = exponent == zero_exponent ? 0 : std::bit_cast<float>((std::max(exponent, -126) + 127) << 23);
    if (body == Body::parts) {
      if (unit.scaled()) {
        const std::uint64_t code = scale_of(v, order[i], finite);
        if (exponent != zero_exponent) exponent += unit.scale.exponent(code) + unit.scale.fraction_bits;
      }
      p.factor[to] = significand, p.exponent[to] = exponent;
    } else {
      p.factor[to] = significand * power;
      if (body == Body::powers) p.power[to] = power;
    }
    if (body == Body::groups && i % rule.group == 0) {
      const std::uint64_t code = scale_of(v, order[i], finite);
      const std::size_t at = Layout{layout.vectors, layout.depth / rule.group, layout.panels}.base(v) +
                             i / rule.group * layout.step();
      p.power[at] = static_cast<float>(static_cast<double>(unit.scale.significand(code)) *
                                       FloatFormat::power_of_two(-unit.scale.fraction_bits));
      p.exponent[at] = unit.scale.exponent(code) + unit.scale.fraction_bits;
    }
    p.special[v] = static_cast<std::uint8_t>(p.special[v] | !finite);
  };
  // Roughly in the order of the words in memory.
  const std::size_t together = layout.panels ? panel_columns : 1;
  const std::size_t parts = (layout.vectors + together - 1) / together,
                    grain = std::max<std::size_t>(1, (std::size_t{1} << 14) / (together * layout.depth));
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, parts, grain), [&](const auto& range) {
    const std::size_t first = range.begin() * together, last = std::min(range.end() * together, layout.vectors);
    if (layout.panels) {
      for (std::size_t i = 0; i < layout.depth; ++i)
        for (std::size_t v = first; v < last && order[i] != padding; ++v) put(v, i);
    } else {
      for (std::size_t v = first; v < last; ++v)
        for (std::size_t i = 0; i < layout.depth; ++i)
          if (order[i] != padding) put(v, i);
    }
    for (std::size_t v = first; v < last; ++v)  // the interpreter computes these; here they must be finite
      for (std::size_t i = 0; p.special[v] && i < layout.depth; ++i) {
        const std::size_t to = layout.base(v) + i * layout.step();
        p.factor[to] = 0;
        if (body == Body::powers) p.power[to] = 0;
        if (body == Body::parts) p.exponent[to] = zero_exponent;
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

PanelRule rule_of(const MatrixUnit& unit, std::size_t group) {
  const FusedSum& s = unit.sum;
  const FloatFormat& kept = s.kept;
  // Exponents of products and addends are above -600, so smaller limits have no effect.
  return {static_cast<std::size_t>(s.length),
          group,
          s.alignment_bits,
          std::max(s.least_exponent, -600),
          unit.accumulator.emin(),
          kept.fraction_bits,
          kept.emin() - kept.fraction_bits,
          FloatFormat::power_of_two(kept.emax() + 1),
          static_cast<float>(kept.value(kept.min_normal())),
          static_cast<float>(kept.value(kept.max_finite())),
          s.rounding == RoundingMode::nearest_even};
}

/// Whether all products are normal floats.
bool takes_powers(const MatrixUnit& unit) {
  const auto lowest = [](const FloatFormat& f) { return f.emin() - f.fraction_bits; };
  return !unit.scaled() && unit.a.emax() + unit.b.emax() < 60 && lowest(unit.a) + lowest(unit.b) > -60;
}

}  // namespace

std::optional<VectorBody> vector_body(const MatrixUnit& unit) {
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
    return VectorBody{Body::groups, rule_of(unit, group)};
  }
  if (unit.rule != &rules::fused && unit.rule != &rules::halves_apart) return {};
  // The last addition of halves is a float addition that is rounded again: correct if 24 >= 2 p + 2 (Figueroa 1995).
  if (unit.rule == &rules::halves_apart && d != fp32 && 2 * d.precision() + 2 > carrier_bits) return {};
  if (unit.a.precision() + unit.b.precision() > carrier_bits) return {};
  if (s.rounding != RoundingMode::toward_zero && s.rounding != RoundingMode::nearest_even) return {};
  if (unit.scaled() && unit.scale != e8m0) return {};  // powers of two are exponents; other scales have significands
  // An integer of a product is below 4 * 2^F, and `group` of them stay below 2^31.
  const int room = 31 - 2 - s.alignment_bits;
  if (room < 0) return {};
  std::size_t group = 1;
  while (group < (std::size_t{1} << room) && static_cast<std::size_t>(s.length) % (2 * group) == 0) group *= 2;
  return VectorBody{takes_powers(unit) ? Body::powers : Body::parts, rule_of(unit, group)};
}

std::vector<std::size_t> order_of(const MatrixUnit& unit, std::size_t k) {
  const auto depth = static_cast<std::size_t>(unit.depth()), length = static_cast<std::size_t>(unit.sum.length),
             sums = depth / length;
  std::vector<std::size_t> order;
  for (std::size_t begin = 0; begin < k; begin += depth)
    for (std::size_t s = 0; s < sums; ++s)
      for (std::size_t i = 0; i < length; ++i) {
        const std::size_t at = begin + product_of(unit, sums, s, i);
        order.push_back(at < k ? at : padding);
      }
  return order;
}

Prepared prepare_rows(const MatrixUnit& unit, const VectorBody& body, const GemmOperands& x,
                      std::span<const std::size_t> order) {
  const std::size_t blocks = unit.scaled() ? x.scale_a.size() / x.m : 0;
  return x.a.visit([&](const auto* a) {
    return prepare(
        unit, unit.a, body, {x.m, order.size(), false}, order,
        [a, place = x.place_a()](std::size_t i, std::size_t at) { return std::uint64_t{a[place(i, at)]}; },
        [&](std::size_t i, std::size_t block) { return x.scale_a[i * blocks + block]; });
  });
}

Prepared prepare_columns(const MatrixUnit& unit, const VectorBody& body, const GemmOperands& x,
                         std::span<const std::size_t> order) {
  return x.b.visit([&](const auto* b) {
    return prepare(
        unit, unit.b, body, {x.n, order.size(), true}, order,
        [b, place = x.place_b()](std::size_t j, std::size_t at) { return std::uint64_t{b[place(at, j)]}; },
        [&](std::size_t j, std::size_t block) { return x.scale_b[block * x.n + j]; });
  });
}

}  // namespace halfulp::units
