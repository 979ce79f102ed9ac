// Elements of blocks whose steps are known: scaled, rounded, stored as code words or as values.
#pragma once

#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/emulation/block/lanes.hpp>
#include <halfulp/emulation/block/steps.hpp>

#include <algorithm>
#include <limits>
#include <optional>

namespace halfulp::block {

/// Rounds runs of elements of one array.
class Elements {
 public:
  /// Scaled elements wait in the first-level cache for their rounding.
  static constexpr std::size_t buffer_size = 2048;

  Elements(const BlockFormat& f, const Rounding& rounding, RandomStream random)
      : f_(f),
        grid_(element_grid(f.element)),
        rounding_(element_rounding(rounding)),
        random_(random),
        plan_(array::narrow_plan<float>(grid_, rounding_, array::Source::conversion)),
        limit_(static_cast<float>(grid_.value(grid_.max_finite()))) {}

  /// Code words of `count` elements in consecutive blocks of that many; the first begins a block, and has the index
  /// `at`.
  void encode(const float* in, std::size_t at, std::size_t block, std::size_t count, const Steps& steps,
              std::uint8_t* out) const {
    pieces(block, count, [&](std::size_t begin, std::size_t size, std::size_t index) {
      float scaled[buffer_size];
      block::scaled(in + begin, block, size, steps.factors.data() + index, steps.divides, limit_, scaled);
      const RandomStream random = random_.from(at + begin);
      if (!f_.element.is_integer() || f_.element.range == IntegerRange::symmetric) {
        round(scaled, random, size, out + begin);
        if (f_.element.is_integer()) block::twos_complement(out + begin, size, f_.element.integer_bits);
        return;
      }
      std::uint16_t wide[buffer_size];
      round(scaled, random, size, wide);
      for (std::size_t i = 0; i < size; i += block)
        to_codes(wide + i, std::min(block, size - i), steps.zeros.empty() ? 0 : steps.zeros[index + i / block],
                 out + begin + i);
    });
  }

  /// Values instead.
  void round_values(const float* in, std::size_t at, std::size_t block, std::size_t count, const Steps& steps,
                    float* out) const {
    pieces(block, count, [&](std::size_t begin, std::size_t size, std::size_t index) {
      float scaled[buffer_size];
      block::scaled(in + begin, block, size, steps.factors.data() + index, steps.divides, limit_, scaled);
      round_to_grid(scaled, random_.from(at + begin), size);
      if (f_.element.is_integer()) to_integers(scaled, block, size, steps, index);
      block::scaled(scaled, block, size, steps.values.data() + index, false, std::numeric_limits<float>::infinity(),
                    out + begin);
    });
  }

 private:
  /// f(begin, size, index of the first block): pieces that fit the buffer and begin with a block, or lie within one.
  template <class F>
  static void pieces(std::size_t block, std::size_t count, F f) {
    const std::size_t step = block <= buffer_size ? buffer_size / block * block : buffer_size;
    for (std::size_t begin = 0; begin < count;) {
      const std::size_t in_block = block <= buffer_size ? count : block - begin % block;
      const std::size_t size = std::min({step, count - begin, in_block});
      f(begin, size, begin / block);
      begin += size;
    }
  }

  std::uint64_t random_bits(RandomStream random, std::size_t i) const {
    return rounding_.mode == RoundingMode::stochastic ? rounding_bits(random.seed, random.stream, random.first + i) : 0;
  }

  template <class Code>
  void round(const float* scaled, RandomStream random, std::size_t size, Code* out) const {
    if (plan_) return array::encode_lanes(*plan_, random, scaled, out, size);
    for (std::size_t i = 0; i < size; ++i)
      out[i] = static_cast<Code>(
          convert(fp32, grid_, rounding_, block::bits_of(scaled[i]), random_bits(random, i)).code);
  }

  void round_to_grid(float* scaled, RandomStream random, std::size_t size) const {
    if (plan_) return array::quantize_lanes(*plan_, random, scaled, scaled, size);
    for (std::size_t i = 0; i < size; ++i)
      scaled[i] = static_cast<float>(
          grid_.value(convert(fp32, grid_, rounding_, block::bits_of(scaled[i]), random_bits(random, i)).code));
  }

  /// element_code in a loop that vectorises.
  void to_codes(const std::uint16_t* wide, std::size_t size, int zero, std::uint8_t* out) const {
    const int magnitude = static_cast<int>(grid_.magnitude_mask()), sign = static_cast<int>(grid_.sign_mask());
    const int least = f_.element.least(), most = f_.element.most(), mask = (1 << f_.element.integer_bits) - 1;
    for (std::size_t i = 0; i < size; ++i) {
      const int m = wide[i] & magnitude, q = (wide[i] & sign ? -m : m) + zero;
      out[i] = static_cast<std::uint8_t>((q < least ? least : q > most ? most : q) & mask);
    }
  }

  /// Integers have no -0, and those of the wide grid saturate by their zero point.
  void to_integers(float* q, std::size_t block, std::size_t size, const Steps& steps, std::size_t first) const {
    const BlockElement& e = f_.element;
    const auto unit = static_cast<float>(FloatFormat::power_of_two(-e.fraction_bits));
    for (std::size_t begin = 0; begin < size; begin += block) {
      const int zero = steps.zeros.empty() ? 0 : steps.zeros[first + begin / block];
      const float low = static_cast<float>(e.least() - zero) * unit, high = static_cast<float>(e.most() - zero) * unit;
      for (std::size_t i = begin, end = std::min(size, begin + block); i < end; ++i) {
        const float x = q[i] + 0.0f;
        q[i] = x < low ? low : x > high ? high : x;
      }
    }
  }

  BlockFormat f_;
  FloatFormat grid_;
  Rounding rounding_;
  RandomStream random_;
  std::optional<array::NarrowPlan<std::uint32_t>> plan_;
  float limit_;
};

}  // namespace halfulp::block
