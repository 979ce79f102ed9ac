// The vector kernels: one function each, which picks the best instruction set of this CPU at run time.
#pragma once

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/array/plan.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/random.hpp>

#include <cfenv>
#include <functional>
#include <string_view>

namespace halfulp::array {

/// The random words of a call's elements: those of a stream, or given ones, one each.
struct RandomWords {
  RandomStream stream;
  const std::uint32_t* given = nullptr;
  RandomWords(RandomStream of) : stream(of) {}  // NOLINT(google-explicit-constructor): a stream is the usual case
  explicit RandomWords(const std::uint32_t* words) : given(words) {}
  RandomWords from(std::size_t i) const { return given ? RandomWords(given + i) : RandomWords(stream.from(i)); }
};

/// words[w * count + i] = word w of Philox block `block` of stream first_stream + i: what the roundings 4 * block + w
/// of `count` streams draw, side by side.
void stream_words(std::uint64_t seed, std::uint64_t first_stream, std::uint64_t block, std::size_t count,
                  std::uint32_t* words);

/// Any lengths and alignments. `out` may be `in` itself, not a shifted part of it.
void quantize_lanes(const NarrowPlan<std::uint32_t>& plan, const RandomWords& random, const float* in, float* out,
                    std::size_t count);
void quantize_lanes(const NarrowPlan<std::uint64_t>& plan, const RandomWords& random, const double* in, double* out,
                    std::size_t count);
void encode_lanes(const NarrowPlan<std::uint32_t>& plan, const RandomWords& random, const float* in, std::uint8_t* out,
                  std::size_t count);
void encode_lanes(const NarrowPlan<std::uint32_t>& plan, const RandomWords& random, const float* in, std::uint16_t* out,
                  std::size_t count);
void encode_lanes(const NarrowPlan<std::uint32_t>& plan, const RandomWords& random, const float* in, std::uint32_t* out,
                  std::size_t count);
void decode_lanes(const WidenPlan& plan, const std::uint8_t* in, float* out, std::size_t count);
void decode_lanes(const WidenPlan& plan, const std::uint16_t* in, float* out, std::size_t count);
void decode_lanes(const WidenPlan& plan, const std::uint32_t* in, float* out, std::size_t count);

void encode_lanes(const NarrowPlan<std::uint64_t>& plan, const RandomWords& random, const double* in,
                  std::uint32_t* out, std::size_t count);

/// Code words of at most 8 or 16 bits in shorter words.
void shorten_lanes(const std::uint32_t* in, std::uint8_t* out, std::size_t count);
void shorten_lanes(const std::uint32_t* in, std::uint16_t* out, std::size_t count);

/// Called for the elements that a kernel leaves to its caller.
using Rest = std::function<void(std::size_t begin, std::size_t count)>;

/// Adds to a tally what happened when x[i] was rounded to results[i] by a plan without flushing (quantize_lanes), or by
/// its encoding. Elements that it cannot tell are left to `rest`: Inf, NaN, and few others.
void tally_lanes(const NarrowPlan<std::uint32_t>& plan, const float* x, const float* results, std::size_t count,
                 Tally& tally, const Rest& rest);
void tally_lanes(const NarrowPlan<std::uint64_t>& plan, const double* x, const double* results, std::size_t count,
                 Tally& tally, const Rest& rest);

/// Whether a code word's bits in the mask `magnitude` are a number from 1 to `most`.
bool any_small(const std::uint8_t* codes, std::size_t count, std::uint8_t magnitude, std::uint8_t most);
bool any_small(const std::uint16_t* codes, std::size_t count, std::uint16_t magnitude, std::uint16_t most);
bool any_small(const std::uint32_t* codes, std::size_t count, std::uint32_t magnitude, std::uint32_t most);

/// How a sum is rounded in the carrier before the format's own rounding.
enum class Sums { nearest, odd, zero, up, down };

/// How sums of an operation are rounded before a rounding in `mode`: to odd serves every mode (Boldo & Melquiond 2008),
/// those named here have a cheaper way. Where a + b is inexact in a carrier of 2p + 2 bits, the smaller operand is too
/// small to bring it near a midpoint of the format: the nearest modes may round it in any direction. Where ties go away
/// from zero anything may be truncated: what is above a midpoint does not come below it, nor what is below it to it.
constexpr Sums sums_before(RoundingMode mode, Operation op) {
  const bool sum = op == Operation::add || op == Operation::sub;
  if (mode == RoundingMode::nearest_even) return op == Operation::fma ? Sums::odd : Sums::nearest;
  const bool away = mode == RoundingMode::nearest_away && op == Operation::fma;
  if (mode == RoundingMode::toward_zero || (sum && is_nearest(mode)) || away) return Sums::zero;
  if (mode == RoundingMode::toward_positive) return Sums::up;
  return mode == RoundingMode::toward_negative ? Sums::down : Sums::odd;
}

/// The same where results may be subnormal in the carrier (combine_short): products are rounded there, too, and of
/// quotients some vanish, which nearest modes do not mind.
constexpr Sums sums_before_short(RoundingMode mode, Operation op) {
  const Sums sums = sums_before(mode, op == Operation::mul ? Operation::fma : op);
  return op == Operation::div && sums == Sums::odd && is_nearest(mode) ? Sums::nearest : sums;
}

/// add, sub, mul, div, sqrt, fma in a carrier. Arrays are padded to whole vectors, lane_padding elements at most;
/// operands that an operation does not take may be null.
inline constexpr std::size_t lane_padding = 64;
void combine_lanes(Operation op, Sums sums, const float* a, const float* b, const float* c, float* out,
                   std::size_t count);
void combine_lanes(Operation op, Sums sums, const float* a, const float* b, const float* c, double* out,
                   std::size_t count);
/// The same for add, sub, mul and fma of numbers whose products have at most 24 bits. True if `out` holds all results
/// exactly; otherwise it holds anything: where one is not finite, too.
bool combine_exact_lanes(Operation op, const float* a, const float* b, const float* c, float* out, std::size_t count);

/// The same from code words to code words, by plans without flushing or stochastic rounding, any number of them:
/// formats of up to 8 bits, and fp16. False where this CPU does not convert fp16: nothing is done.
void combine_byte_lanes(Operation op, const WidenPlan& from, const NarrowPlan<std::uint32_t>& to, const std::uint8_t* a,
                        const std::uint8_t* b, const std::uint8_t* c, std::uint8_t* out, std::size_t count);
bool combine_half_lanes(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint16_t* a,
                        const std::uint16_t* b, const std::uint16_t* c, std::uint16_t* out, std::size_t count);

/// The same for short floats (plan.hpp), by a plan without flushing or stochastic rounding. Runs of elements that take
/// more than floats are left to `rest`.
void combine_short_lanes(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint16_t* a,
                         const std::uint16_t* b, const std::uint16_t* c, std::uint16_t* out, std::size_t count,
                         const Rest& rest);
void combine_short_lanes(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint32_t* a,
                         const std::uint32_t* b, const std::uint32_t* c, std::uint32_t* out, std::size_t count,
                         const Rest& rest);

/// Whether the chosen instruction set is AVX-512. Cheap, unlike Highway's SupportedTargets, which asks the CPU: on a
/// virtual machine that takes microseconds.
bool has_embedded_rounding();

/// The name of the instruction set that would be used now: "AVX3", "AVX2", "SSE4"...
std::string_view instruction_set();
void limit_instruction_set(std::string_view most);

}  // namespace halfulp::array

// The floating-point environment that the kernels' additions need: to nearest, subnormals kept.

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace halfulp::array {

/// The default environment for a scope. A caller may have set FTZ and DAZ (libraries for machine learning do) or a
/// rounding mode; kernels are called through pointers, so no arithmetic of theirs moves across.
class DefaultEnvironment {
 public:
#if defined(__SSE2__)
  // Loading the register takes as long as rounding a few hundred elements. Most callers have the default, and its
  // exception flags, which kernels may raise, as they were.
  DefaultEnvironment() : saved_(_mm_getcsr()) {
    if ((saved_ & ~flags) != usual) _mm_setcsr(usual);
  }
  ~DefaultEnvironment() {
    if (_mm_getcsr() != saved_) _mm_setcsr(saved_);
  }
#else
  DefaultEnvironment() {
    std::feholdexcept(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultEnvironment() { std::fesetenv(&saved_); }
#endif
  DefaultEnvironment(const DefaultEnvironment&) = delete;
  DefaultEnvironment& operator=(const DefaultEnvironment&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr unsigned usual = 0x1f80, flags = 0x3f;
  unsigned saved_;
#else
  std::fenv_t saved_;
#endif
};

/// Round toward zero for a scope, in a DefaultEnvironment.
class TowardZero {
 public:
#if defined(__SSE2__)
  TowardZero() { _mm_setcsr(_mm_getcsr() | _MM_ROUND_TOWARD_ZERO); }
  ~TowardZero() { _mm_setcsr(_mm_getcsr() & ~static_cast<unsigned>(_MM_ROUND_MASK)); }
#else
  TowardZero() { std::fesetround(FE_TOWARDZERO); }
  ~TowardZero() { std::fesetround(FE_TONEAREST); }
#endif
  TowardZero(const TowardZero&) = delete;
  TowardZero& operator=(const TowardZero&) = delete;
};

}  // namespace halfulp::array
