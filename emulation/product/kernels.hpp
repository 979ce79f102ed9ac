// What the vector kernels of products work on: floats in panels, one tile of outputs at a time.
#pragma once

#include <halfulp/emulation/dot.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace halfulp::products {

/// Columns of a panel of B (one vector with AVX-512, two with AVX2) and rows of a panel of A.
inline constexpr std::size_t panel_columns = 16, panel_rows = 8, tile_size = panel_columns * panel_rows;

/// How a value that floats carry is rounded to the format of a stage.
enum class Way : std::uint8_t {
  fused,    ///< of products: not at all, fma does both
  plain,    ///< by the operation itself: the format is fp32, or holds what comes out
  aligned,  ///< the adder rounds: v + C - C, where C's last place weighs as much as the last one kept
  linear,   ///< as integers: formats that are floats cut short (bf16)
};

/// What becomes of values beyond the largest.
enum class Fix : std::uint8_t {
  none,        ///< there are none
  clamp,       ///< +-max; there are no infinities
  clamp_keep,  ///< +-max, but Inf and NaN stay
  over,        ///< both become Inf (or NaN, as `beyond` says)
  over_up,     ///< positive ones become Inf (NaN), negative ones -max
  over_down,   ///< the other way round
};

/// Of the environment while kernels run: MXCSR's order.
enum class Direction : std::uint8_t { nearest, down, up, zero };

struct Rounder {
  Way way = Way::plain;
  Fix fix = Fix::none;
  float emin = 0;    ///< aligned: 2^emin of the format
  float scale = 0;   ///< aligned: C = scale * the value's power of two, at least scale * emin
  float max = 0;     ///< aligned
  float beyond = 0;  ///< Inf or NaN, which a value beyond the largest is multiplied by
  int tail = 0;      ///< linear: bits cut off
};

/// One running sum: round(s + round(a * b)).
struct StepRule {
  Rounder product, sum;
  Direction direction = Direction::nearest;
  /// To nearest: the multiplication, the addition (or fma) rounds to odd before the stage rounds. This needs embedded
  /// rounding.
  bool odd_product = false, odd_sum = false;
  /// Of running sums. Compensated ones take no fma, nothing to odd, the same fix for products and sums, and none but
  /// clamp_keep, over, over_up and over_down: what they subtract from each other has no bound that operands tell.
  Compensation compensation = Compensation::none;
};

/// out[r * panel_columns + j] = the sum over i < count of a[i * a_step + r] * b[i * b_step + j], sequentially, the
/// first product being the start. The environment rounds in rule.direction. Zero results have the right sign where both
/// ways are fused or plain. Precondition: count > 0; runs(rule).
void run_tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b,
              std::size_t b_step, float* out);

/// The same where rule.compensation is kahan or neumaier, which run_tile leaves to it.
void run_compensated_tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b,
                          std::size_t b_step, float* out);

/// out = round(x + y), by rule.sum; zeros have the right sign if those of x and y have.
void add_tiles(const StepRule& rule, const float* x, const float* y, float* out);

/// What is known of the operands of a tile: magnitudes of finite numbers, and whether there are others.
struct Extent {
  float max = 0;                                  ///< 0: all are zeros
  float min = std::numeric_limits<float>::max();  ///< of those that are not zero
  bool finite = true;
};

/// Of any number of floats.
Extent extent_of(const float* values, std::size_t count);

/// Which of these a tile holds: a zero, a NaN.
struct Oddities {
  bool zero, nan;
};
Oddities oddities_of(const float* tile);

/// Whether this CPU's instruction set runs a rule: to odd takes AVX-512's embedded rounding, fused ones fma.
bool runs(const StepRule& rule);

}  // namespace halfulp::products
