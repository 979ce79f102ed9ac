// The vector kernels of products: one tile of outputs at a time, from panels of floats.
#pragma once

#include <halfulp/emulation/dot.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace halfulp::products {

/// Columns of a panel of B (one vector with AVX-512, two with AVX2) and rows of a panel of A.
inline constexpr std::size_t panel_columns = 16, panel_rows = 8, tile_size = panel_columns * panel_rows;

/// How a float is rounded to the format of a stage.
enum class Way : std::uint8_t {
  fused,      ///< products only: not rounded, because fma adds them
  plain,      ///< by the operation itself: the format is fp32, or holds the exact result
  aligned,    ///< the adder rounds: v + C - C, where C's last place weighs as much as the last one kept
  linear,     ///< as integers: formats that are shortened floats (bf16)
  normal,     ///< the same formats aligned, where no product is subnormal: only sums that cannot overflow an aligner
  converted,  ///< bf16 by the CPU's converter, to nearest, where no product or sum is subnormal
};

/// Sums of formats with so many bits are rounded to nearest by a multiplication (`split` in rounder-inl.hpp). Formats
/// with more of them round to odd first.
inline constexpr int split_bits = 11;

/// What values beyond the largest become.
enum class Fix : std::uint8_t {
  none,        ///< there are none
  clamp,       ///< +-max; there are no infinities
  clamp_keep,  ///< +-max, but Inf and NaN stay
  over,        ///< both become Inf (or NaN, as `beyond` says)
  over_up,     ///< positive ones become Inf (NaN), negative ones -max
  over_down,   ///< the opposite
  watched,     ///< sums only: run_tile tells whether there were any, and its results hold only where there were none
  late,        ///< sums only: what goes beyond stays there, and becomes Inf (NaN) at the end; -max is at once
};

/// Where kernels round to: what the environment can do, in the order of MXCSR, and what needs more work in an
/// environment that rounds toward zero.
enum class Direction : std::uint8_t { nearest, down, up, zero, ties_away, ties_to_zero, odd, stochastic };
constexpr bool is_of_environment(Direction direction) { return direction <= Direction::zero; }

/// How sums that can be late are fixed, those of formats in which overflow makes Inf or NaN; none in other directions.
constexpr Fix fix_of_overflow(Direction direction) {
  switch (direction) {
    case Direction::nearest: return Fix::over;
    case Direction::up: return Fix::over_up;
    case Direction::down: return Fix::over_down;
    default: return Fix::none;
  }
}

/// What lanes hold while sums run.
enum class Carrier : std::uint8_t {
  single,  ///< fp32
  half,    ///< fp16 (half.hpp)
};

/// Sets this thread's rounding direction to this one, or toward zero; the caller restores the environment.
void set_direction(Direction direction);

/// How one stage rounds.
struct Rounder {
  Way way = Way::plain;
  Fix fix = Fix::none;
  float emin = 0;    ///< aligned: 2^emin of the format
  float emax = 0;    ///< aligned, of halves: 2^emax of the format
  float scale = 0;   ///< aligned, normal: C = scale * the value's power of two, at least scale * emin
  float half = 0;    ///< aligned, ties away or toward zero: half a unit of a value is half * its power of two
  float max = 0;     ///< aligned
  float beyond = 0;  ///< Inf or NaN: the factor of a value beyond the largest
  int tail = 0;      ///< bits cut off of normal numbers
  /// Of a stage that flushes: a result between these, before it is rounded, is tiny, and becomes zero of its sign.
  float tiny_above = 0, tiny_below = 0;
  bool flushes() const { return tiny_below > 0; }  ///< Whether it does.
  /// aligned, normal: 2^k, k = 24 - p.
  float shift() const { return static_cast<float>(1u << tail); }
  /// aligned: the largest float that is rounded to `max`, to nearest even.
  float last_kept() const {
    const auto bits = std::bit_cast<std::uint32_t>(max), half = 1u << (tail - 1);
    return std::bit_cast<float>(bits + half - (bits >> tail & 1));  // a tie goes beyond where the last bit is 1
  }
};

/// One running sum: round(s + round(a * b)).
struct StepRule {
  Rounder product, sum;
  Direction direction = Direction::nearest;
  /// To nearest, ties to even or toward zero, and to odd: the multiplication, or the addition (or fma), rounds to odd
  /// before the stage rounds (see runs()).
  bool odd_product = false, odd_sum = false;
  /// Of running sums. Compensated sums take no fma and nothing to odd. Their products have the fix of their sums, if
  /// these have a way `aligned`; clamp is not among them, because differences can be NaN where operands are finite.
  Compensation compensation = Compensation::none;
  Carrier carrier = Carrier::single;
  /// Of stochastic rounding: floats hold every sum; products may be below the format's normal numbers.
  bool exact_sums = false, tiny_products = false;
  /// Of running sums that can be watched instead of being fixed: operands are finite, and so are sums without a fix.
  /// One in so many steps (a power of two) is looked at. If its sums are at most `watch_limit`, those of the steps that
  /// follow are at most sum.max.
  bool watchable = false;
  unsigned watch_step = 1;
  float watch_limit = 0;
};

/// out[r * panel_columns + j] = the sum over i < count of a[i * a_step + r] * b[i * b_step + j], sequentially, starting
/// with the first product. Zero results have the right sign if both ways are fused or plain. Preconditions: the
/// environment rounds in rule.direction; count > 0; runs(rule). Returns whether results hold: false only where sums
/// were watched and one was, or could have been, beyond the largest value.
bool run_tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b,
              std::size_t b_step, float* out);

/// The same for the compensations kahan and neumaier. run_tile calls it.
void run_compensated_tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b,
                          std::size_t b_step, float* out);

/// The same where sums are `converted`. Products are rounded to bf16 or exact in it; those that are not 0 are at least
/// 2^-119, so that all sums are multiples of 2^-126. Nothing overflows or is compensated. Zero results have the right
/// sign. run_tile calls it.
void run_converted_tile(std::size_t count, const float* a, std::size_t a_step, const float* b, std::size_t b_step,
                        float* out);
/// Whether this CPU can: it has AVX512_BF16, the chosen instruction set is AVX-512, and the process's first use found a
/// few thousand conversions right.
bool has_bf16_converter();

/// The same where stages flush what is tiny: all do, no tile is compensated, and nothing is rounded to odd. Zero
/// results have the right sign. run_tile calls it.
void run_flushing_tile(const StepRule& rule, std::size_t count, const float* a, std::size_t a_step, const float* b,
                       std::size_t b_step, float* out);
/// add_tiles, likewise.
void add_flushing_tiles(const StepRule& rule, const float* x, const float* y, float* out);

/// out = round(x + y), by rule.sum. Zeros have the right sign if the zeros in x and y do.
void add_tiles(const StepRule& rule, const float* x, const float* y, float* out);

/// Which words of its stream an output draws (DotEngine): a term's product and the sum with it take two, and
/// conversions that change nothing take some too.
struct Draws {
  std::uint64_t first_term = 0, term = 0;  ///< words of the first term of a running sum, and of any other
  std::uint64_t product = 0, sum = 0;      ///< those of the product and of the sum among a term's
};

/// The streams of a tile's outputs: that of row r and column j is first + r * row_step + j.
struct TileStream {
  std::uint64_t seed, first, row_step;
};

/// run_tile for the direction `stochastic`: the running sums' first word is word `drawn` of each stream. Precondition:
/// runs_stochastic(). Zero results have the right sign.
void run_stochastic_tile(const StepRule& rule, const Draws& draws, std::uint64_t drawn, const TileStream& stream,
                         std::size_t count, const float* a, std::size_t a_step, const float* b, std::size_t b_step,
                         float* out);
/// add_tiles, likewise.
void add_tiles_stochastically(const StepRule& rule, std::uint64_t drawn, const TileStream& stream, const float* x,
                              const float* y, float* out);
/// Whether this CPU can: it has AVX2.
bool runs_stochastic();

/// The magnitudes of a tile's operands.
struct MagnitudeRange {
  float max = 0;                                  ///< of finite numbers
  float min = std::numeric_limits<float>::max();  ///< of finite numbers other than 0
  bool finite = true;                             ///< whether all numbers are finite
  int zeros = 23;                                 ///< of so many last bits of a fraction, none is set in any number
};

/// The extent of any number of floats.
MagnitudeRange extent_of(const float* values, std::size_t count);

/// Whether a tile holds a zero, a NaN.
struct Oddities {
  bool zero, nan;
};
Oddities oddities_of(const float* tile);

/// Whether this CPU can run a rule. Rounding products or an fma to odd needs AVX-512's embedded rounding; `fused` needs
/// fma.
bool runs(const StepRule& rule);

}  // namespace halfulp::products
