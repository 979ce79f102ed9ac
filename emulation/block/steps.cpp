#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/block/steps.hpp>

namespace halfulp::block {
namespace {

constexpr std::uint32_t infinite = 0x7f80'0000;

void resize(Steps& steps, std::size_t count, bool affine) {
  steps.scales.resize(count);
  steps.factors.resize(count);
  steps.values.resize(count);
  steps.zeros.resize(affine ? count : 0);
}

void put(Steps& steps, std::size_t i, const BlockStep& step) {
  steps.scales[i] = step.scale;
  steps.factors[i] = step.factor;
  steps.values[i] = step.value;
  steps.divides = step.divides;
  if (!steps.zeros.empty()) steps.zeros[i] = step.zero;
}

/// Whether powers_of_two is correct. It reads the exponent field only, except for rceil. For subnormal magnitudes the
/// other rules must therefore clamp the exponent, which requires an emax of at least 0 (floor) or 1 (ceil, even).
bool by_exponent_field(const BlockFormat& f) {
  return f.rule == ScaleRule::rceil || f.element.emax() >= (f.rule == ScaleRule::floor ? 0 : 1);
}

/// Scales that are powers of two, without branches.
template <ScaleRule rule>
void powers_of_two(const BlockFormat& f, std::span<const std::uint32_t> magnitudes, Steps& steps) {
  const int least = f.scale.emin(), most = f.scale.emax(), emax = f.element.emax(), first = f.scale.has_zero ? 1 : 0,
            shift = f.scale.fraction_bits;
  const auto target = static_cast<float>(f.element.target());
  const std::uint32_t half = std::uint32_t{1} << (22 - f.element.top_fraction_bits()),
                      nan = static_cast<std::uint32_t>(f.scale.canonical_nan());
  const float not_a_number = scale_value(f.scale, nan);
  std::uint32_t* const scales = steps.scales.data();
  float* const factors = steps.factors.data();
  float* const values = steps.values.data();
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    std::uint32_t bits = magnitudes[i];
    const bool is_nan = bits > infinite;
    if constexpr (rule == ScaleRule::rceil) bits = bits_of(std::bit_cast<float>(bits) / target);
    if constexpr (rule == ScaleRule::even) bits += half;
    int k = static_cast<int>(bits >> 23) - 127;
    if constexpr (rule == ScaleRule::ceil) k += (bits & 0x7f'ffff) != 0;
    if constexpr (rule == ScaleRule::rceil) k += (bits & 0x7f'ffff) > (k == -127 ? 0x40'0000u : 0u);
    else k -= emax;
    k = k < least ? least : k > most ? most : k;
    scales[i] = is_nan ? nan : static_cast<std::uint32_t>(k - least + first) << shift;
    const std::uint32_t up = k < -126 ? 0x40'0000u : static_cast<std::uint32_t>(k + 127) << 23;
    const std::uint32_t down = k > 126 ? 0x40'0000u : static_cast<std::uint32_t>(127 - k) << 23;
    values[i] = is_nan ? not_a_number : std::bit_cast<float>(up);
    factors[i] = is_nan ? not_a_number : std::bit_cast<float>(down);
  }
  steps.divides = false;
}

/// Scales that are quotients rounded to the scale's format.
void quotients(const BlockFormat& f, std::span<const std::uint32_t> magnitudes, float tensor, Steps& steps) {
  const auto target = static_cast<float>(f.element.target());
  const std::size_t count = magnitudes.size();
  for (std::size_t i = 0; i < count; ++i) steps.values[i] = std::bit_cast<float>(magnitudes[i]) / target;
  if (f.tensor_scale)
    for (std::size_t i = 0; i < count; ++i) steps.values[i] /= tensor;
  const bool floats = f.scale == fp32;  // nothing to round
  Rounding nearest;
  nearest.overflow = Overflow::saturate;
  if (floats)
    for (std::size_t i = 0; i < count; ++i) steps.scales[i] = bits_of(bounded(steps.values[i]));
  else encode<float, std::uint32_t>(f.scale, nearest, steps.values, steps.scales);
  const auto least = static_cast<std::uint32_t>(f.scale.min_normal()),
             nan = static_cast<std::uint32_t>(f.scale.canonical_nan());
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t& code = steps.scales[i];
    code = magnitudes[i] > infinite ? nan : code < least ? least : code;
  }
  if (floats)
    for (std::size_t i = 0; i < count; ++i) steps.factors[i] = std::bit_cast<float>(steps.scales[i]);
  else decode<std::uint32_t>(f.scale, steps.scales, steps.factors);
  steps.divides = f.use == ScaleUse::divide;
  const float inverse = 1.0f / tensor;
  for (std::size_t i = 0; i < count; ++i) {
    const float s = steps.factors[i];
    steps.values[i] = f.tensor_scale ? s * tensor : s;
    steps.factors[i] = steps.divides ? steps.values[i] : bounded(f.tensor_scale ? inverse / s : 1.0f / s);
  }
}

}  // namespace

void find_steps(const BlockFormat& f, std::span<const std::uint32_t> magnitudes, float tensor, Steps& steps) {
  resize(steps, magnitudes.size(), false);
  if (f.rule == ScaleRule::amax && f.use != ScaleUse::multiplier) return quotients(f, magnitudes, tensor, steps);
  if (by_exponent_field(f)) {
    switch (f.rule) {
      case ScaleRule::amax: break;
      case ScaleRule::floor: return powers_of_two<ScaleRule::floor>(f, magnitudes, steps);
      case ScaleRule::ceil: return powers_of_two<ScaleRule::ceil>(f, magnitudes, steps);
      case ScaleRule::even: return powers_of_two<ScaleRule::even>(f, magnitudes, steps);
      case ScaleRule::rceil: return powers_of_two<ScaleRule::rceil>(f, magnitudes, steps);
    }
  }
  for (std::size_t i = 0; i < magnitudes.size(); ++i)
    put(steps, i, block_step(f, std::bit_cast<float>(magnitudes[i]), tensor));
}

void find_affine_steps(const BlockFormat& f, std::span<const std::uint32_t> magnitudes, std::span<const float> low,
                       std::span<const float> high, Steps& steps) {
  resize(steps, magnitudes.size(), true);
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    const bool is_nan = magnitudes[i] > infinite;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    put(steps, i, affine_step(f, is_nan ? nan : low[i], is_nan ? nan : high[i]));
  }
}

}  // namespace halfulp::block
