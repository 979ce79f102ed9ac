#include <halfulp/emulation/units/prepare.hpp>
#include <halfulp/emulation/units/rules.hpp>

#include <algorithm>

namespace halfulp::units {
namespace {

constexpr int carrier_bits = 24;  // of a product of significands that is exact in float

/// A finite operand's significand and exponent, subnormals not normalised; false for NaN and Inf.
struct Decoder {
  FloatFormat format;
  float unit;       ///< 2^-fraction_bits
  int least_field;  ///< with normalising: subnormals are brought to the exponents of `least_exponent` and above
  bool normalise;
  int least_exponent;

  Decoder(const FloatFormat& f, bool normalises)
      : format(f), unit(static_cast<float>(FloatFormat::power_of_two(-f.fraction_bits))), least_field(f.has_zero ? 1 : 0), normalise(normalises),
        least_exponent(normalises ? fp16.emin() : f.emin()) {}

  bool operator()(std::uint64_t word, float& significand, std::int32_t& exponent) const {
    const std::uint64_t code = word_code(format, word), magnitude = format.magnitude(code);
    const auto integer = static_cast<std::int32_t>(format.significand(code));
    significand = static_cast<float>(integer) * unit;
    exponent = std::max(static_cast<int>(magnitude >> format.fraction_bits), least_field) - format.bias;
    if (integer == 0) exponent = zero_exponent;
    if (format.sign(code)) significand = -significand;
    if (normalise && integer != 0) {
      const int top = std::bit_width(static_cast<std::uint32_t>(integer)) - 1 - format.fraction_bits;
      const int shift = std::max(top, least_exponent - exponent);  // at most 0: how far the significand rises
      significand *= static_cast<float>(FloatFormat::power_of_two(-shift));
      exponent += shift;
    }
    return format.is_finite(code);
  }
};

/// Prepares vectors of words, `at(vector, product)` and `scale_at(vector, block)` their words, `place(vector, position)` where they go.
template <class At, class ScaleAt, class Place>
Prepared prepare(const MatrixUnit& unit, const FloatFormat& format, std::size_t vectors, std::size_t room, std::span<const std::size_t> order, At at,
                 ScaleAt scale_at, Place place) {
  Prepared p;
  const std::size_t size = room * order.size();
  const bool powers = takes_powers(unit);
  p.factor = hwy::AllocateAligned<float>(size);
  p.special.assign(room, 0);
  std::fill_n(p.factor.get(), size, 0.0f);
  if (powers) std::fill_n((p.power = hwy::AllocateAligned<float>(size)).get(), size, 0.0f);
  else std::fill_n((p.exponent = hwy::AllocateAligned<std::int32_t>(size)).get(), size, zero_exponent);
  const auto put = [&](std::size_t to, float significand, std::int32_t exponent) {
    if (!powers) {
      p.factor[to] = significand, p.exponent[to] = exponent;
    } else {
      const float power = exponent == zero_exponent ? 0 : std::bit_cast<float>((exponent + 127) << 23);
      p.factor[to] = significand * power, p.power[to] = power;
    }
  };
  const Decoder decode(format, unit.rule == &rules::halves_apart);
  for (std::size_t v = 0; v < vectors; ++v) {
    for (std::size_t i = 0; i < order.size() && !p.special[v]; ++i) {
      if (order[i] == padding) continue;
      float significand;
      std::int32_t exponent;
      p.special[v] = !decode(at(v, order[i]), significand, exponent);
      if (unit.scaled()) {
        const std::uint64_t scale = scale_at(v, order[i] / static_cast<std::size_t>(unit.scale_block));
        if (!unit.scale.is_finite(scale)) p.special[v] = 1;
        else if (exponent != zero_exponent) exponent += unit.scale.exponent(scale) + unit.scale.fraction_bits;
      }
      put(place(v, i), significand, exponent);
    }
    if (p.special[v])  // left to the interpreter; here it must be finite
      for (std::size_t i = 0; i < order.size(); ++i) put(place(v, i), 0, zero_exponent);
  }
  return p;
}

}  // namespace

std::optional<PanelRule> panel_rule(const MatrixUnit& unit) {
  const FusedSum& s = unit.sum;
  const bool halves = unit.rule == &rules::halves_apart;
  if (unit.rule != &rules::fused && !halves) return {};
  if (unit.a.precision() + unit.b.precision() > carrier_bits || unit.accumulator.precision() > carrier_bits) return {};
  if (s.alignment != RoundingMode::toward_zero || s.normalized_products || s.flush_inputs || s.flush_outputs || s.zero != ZeroSign::positive) return {};
  if (s.rounding != RoundingMode::toward_zero && s.rounding != RoundingMode::nearest_even) return {};
  if (unit.scaled() && unit.scale != e8m0) return {};  // powers of two are exponents; other scales have significands
  const FloatFormat& kept = s.kept;
  // An integer of a product is below 4 * 2^F, and `group` of them stay below 2^31.
  const int room = 31 - 2 - s.alignment_bits;
  if (room < 0 || s.alignment_bits < 1) return {};
  std::size_t group = 1;
  while (group < (std::size_t{1} << room) && static_cast<std::size_t>(s.length) % (2 * group) == 0) group *= 2;
  // Every exponent of a product or an addend is above -600, so that smaller limits change nothing.
  return PanelRule{static_cast<std::size_t>(s.length), group, s.alignment_bits, std::max(s.least_exponent, -600), unit.accumulator.emin(),
                   kept.fraction_bits, kept.emin() - kept.fraction_bits, FloatFormat::power_of_two(kept.emax() + 1),
                   static_cast<float>(kept.value(kept.min_normal())), static_cast<float>(kept.value(kept.max_finite())),
                   s.rounding == RoundingMode::nearest_even};
}

bool takes_powers(const MatrixUnit& unit) {
  const auto lowest = [](const FloatFormat& f) { return f.emin() - f.fraction_bits; };
  return !unit.scaled() && unit.a.emax() + unit.b.emax() < 60 && lowest(unit.a) + lowest(unit.b) > -60;
}

std::vector<std::size_t> order_of(const MatrixUnit& unit, std::size_t k) {
  const auto depth = static_cast<std::size_t>(unit.depth()), length = static_cast<std::size_t>(unit.sum.length), sums = depth / length;
  std::vector<std::size_t> order;
  for (std::size_t begin = 0; begin < k; begin += depth)
    for (std::size_t s = 0; s < sums; ++s)
      for (std::size_t i = 0; i < length; ++i) {
        const std::size_t j = unit.sum.descending ? sums - 1 - s : s;
        std::size_t at = unit.sum.grouping == Grouping::strided ? i * sums + j : j * length + i;
        if (unit.rule == &rules::halves_apart) at = i / 2 * 4 + 2 * s + i % 2;
        order.push_back(begin + at < k ? begin + at : padding);
      }
  return order;
}

Prepared prepare_rows(const MatrixUnit& unit, const GemmOperands& x, std::span<const std::size_t> order) {
  const std::size_t blocks = unit.scaled() ? x.scale_a.size() / x.m : 0;
  return x.a.visit([&](const auto* a) {
    return prepare(
        unit, unit.a, x.m, x.m, order, [&, a](std::size_t i, std::size_t k) { return std::uint64_t{a[i * x.k + k]}; },
        [&](std::size_t i, std::size_t block) { return x.scale_a[i * blocks + block]; },
        [&](std::size_t i, std::size_t position) { return i * order.size() + position; });
  });
}

Prepared prepare_columns(const MatrixUnit& unit, const GemmOperands& x, std::span<const std::size_t> order) {
  const std::size_t room = (x.n + panel_columns - 1) / panel_columns * panel_columns;
  return x.b.visit([&](const auto* b) {
    return prepare(
        unit, unit.b, x.n, room, order, [&, b](std::size_t j, std::size_t k) { return std::uint64_t{b[k * x.n + j]}; },
        [&](std::size_t j, std::size_t block) { return x.scale_b[block * x.n + j]; },
        [&](std::size_t j, std::size_t position) {
          return j / panel_columns * panel_columns * order.size() + position * panel_columns + j % panel_columns;
        });
  });
}

}  // namespace halfulp::units
