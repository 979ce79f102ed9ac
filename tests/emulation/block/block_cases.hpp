// Shared by the tests of block formats: formats, and blocks at every edge of a scale rule.
#pragma once

#include "check.hpp"

#include <halfulp/emulation/block/block.hpp>

#include <cmath>

namespace check {

/// The formats of the catalogue, each with every scale rule that it takes, and some that only users would name.
inline std::vector<BlockFormat> block_formats() {
  std::vector<BlockFormat> all;
  const auto add = [&](const BlockFormat& f) {
    if (defect(f).empty() && std::find(all.begin(), all.end(), f) == all.end()) all.push_back(f);
  };
  for (const NamedBlockFormat& row : block_catalogue()) {
    add(row.format);
    for (const auto& rule : scale_rules)
      for (const auto& use : scale_uses) {
        BlockFormat f = row.format;
        f.rule = rule.second, f.use = use.second;
        if (f.use == row.format.use || f.rule == ScaleRule::amax)
          add(f);  // with scales that are powers of two, every use gives the same
      }
  }
  for (const char* name : {"e4m3/1x64/e8m0/rceil",
                           "e3m2/1x7/fp16/amax",
                           "e2m1/1x16/e4m3/amax",
                           "int3/1x16/bf16/amax",
                           "int2/1x16/fp32",
                           "int8.6/1x32/e5m2/ceil",
                           "e4m3fnuz/1x32/e8m0/even",
                           "p3109k8p3/1x32/e8m0/floor",
                           "int5affine/1x9/fp16",
                           "uint2affine/1x16/fp32/amax/reciprocal",
                           "int6full/3x5/fp32/rceil",
                           "e5m2/32x1/e8m0/floor",
                           "e1m6finite/1x32/e8m0/rceil",
                           "e2m3b9/1x32/e8m0/floor",
                           "int8full/1x8/fp32/amax/multiplier",
                           "e2m1/column/fp32",
                           "int4.3/1x32/e8m0/even",
                           "e4m3/1x32/e4m3/ceil",
                           "int4full/1x16/e5m3/amax/tensor-scale",
                           "e4m3/2x100/fp32/amax/multiplier"})
    add(parse_block_format(name));
  return all;
}

/// The largest magnitudes at which some rule gives another scale: around powers of two, the target times these, values
/// that `even` rounds up, and the ends of fp32.
inline std::vector<float> edge_magnitudes(const BlockFormat& f, Random& random) {
  std::vector<float> all{0.0f,
                         -0.0f,
                         std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN(),
                         std::numeric_limits<float>::max(),
                         std::numeric_limits<float>::min(),
                         std::numeric_limits<float>::denorm_min()};
  const auto near = [&](double x) {
    const float v = static_cast<float>(x);
    if (!std::isfinite(v)) return;
    for (const float n : {std::nextafterf(v, 0.0f), v, std::nextafterf(v, INFINITY)}) all.push_back(n);
  };
  const double target = f.element.target(), half = 2 - std::ldexp(1.0, -f.element.top_fraction_bits() - 1);
  for (int e : {-149, -148, -140, -130, -128, -127, -126, -125, -120, -119, -118, -117, -110, -60, -20,
                -3,   -1,   0,    1,    5,    8,    9,    60,   100,  118,  119,  120,  121,  126, 127})
    for (const double m : {1.0, 1.5, half, target, target / 1.5,
                           static_cast<double>(f.element.target() * f.scale.value(f.scale.max_finite()))})
      near(std::ldexp(m, e));
  for (int i = 0; i < 60; ++i) all.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random() & 0x7fff'ffff)));
  for (int i = 0; i < 60; ++i)
    near(std::ldexp(1.0 + static_cast<double>(random() >> 40) * 0x1p-24, static_cast<int>(random() % 40) - 20));
  return all;
}

/// A block with that largest magnitude: ties between elements, tiny values, both zeros, other smaller values.
inline std::vector<float> edge_block(const BlockFormat& f, float amax, std::size_t size, Random& random) {
  std::vector<float> block(size);
  const float limit = std::isnan(amax) ? 1.0f : amax;
  const BlockStep step = f.element.is_affine()
                             ? BlockStep{}
                             : block_step(f, std::isnan(amax) ? 1.0f : amax,
                                          f.tensor_scale ? tensor_scale(f, std::isnan(amax) ? 1.0f : amax) : 1.0f);
  for (float& x : block) {
    const double code = f.element.value(static_cast<unsigned>(random() % (1u << f.element.bits())));
    const double other = f.element.value(static_cast<unsigned>(random() % (1u << f.element.bits())));
    switch (random() % 8) {
      case 0: x = static_cast<float>(code) * step.value; break;
      case 1: x = static_cast<float>((code + other) / 2) * step.value; break;
      case 2:
        x = std::nextafterf(static_cast<float>((code + other) / 2) * step.value, random() % 2 ? INFINITY : -INFINITY);
        break;
      case 3: x = random() % 2 ? 0.0f : -0.0f; break;
      case 4: x = std::ldexp(limit, -static_cast<int>(random() % 40)); break;
      default: x = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-53) * limit; break;
    }
    if (!(std::fabs(x) <= limit)) x = limit == 0 ? 0.0f : limit / 3;
    if (random() % 2) x = -x;
  }
  block[random() % size] = random() % 2 ? amax : -amax;
  return block;
}

inline bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// The definition's result, block by block and element by element.
inline BlockArray by_definition(const BlockFormat& f, const Rounding& r, const std::vector<float>& in, std::size_t rows,
                                std::size_t columns, RandomStream random, std::optional<float> given = {}) {
  const BlockGrid g = block_grid(f, rows, columns);
  BlockArray out{f, rows, columns, std::vector<std::uint8_t>(in.size()), {}, {}, 1};
  float tensor_amax = 0;
  for (const float x : in)
    if (!std::isnan(x)) tensor_amax = std::max(tensor_amax, std::fabs(x));
  if (f.tensor_scale) out.tensor_scale = tensor_scale(f, given ? *given : tensor_amax);
  for (std::size_t down = 0; down < g.down; ++down)
    for (std::size_t across = 0; across < g.across; ++across) {
      float amax = 0, low = 0, high = 0;
      bool nan = false;
      const auto each = [&](auto visit) {
        for (std::size_t row = down * g.block_rows; row < std::min(rows, (down + 1) * g.block_rows); ++row)
          for (std::size_t column = across * g.block_columns;
               column < std::min(columns, (across + 1) * g.block_columns); ++column)
            visit(row * columns + column);
      };
      each([&](std::size_t i) {
        if (std::isnan(in[i])) nan = true;
        else amax = std::max(amax, std::fabs(in[i])), low = std::min(low, in[i]), high = std::max(high, in[i]);
      });
      if (nan) amax = low = std::numeric_limits<float>::quiet_NaN();
      if (given && !f.tensor_scale) amax = *given;
      const BlockStep step = f.element.is_affine() ? affine_step(f, low, high) : block_step(f, amax, out.tensor_scale);
      out.scales.push_back(step.scale);
      if (f.element.is_affine()) out.zeros.push_back(static_cast<std::int16_t>(step.zero));
      each([&](std::size_t i) {
        out.codes[i] = block_element(f, r, step, in[i], r.mode == RoundingMode::stochastic ? random.bits(i) : 0);
      });
    }
  return out;
}

}  // namespace check
