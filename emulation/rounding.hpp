// How a result is rounded: modes, flags and the rules at the edges of a format.
#pragma once

#include <halfulp/support/spelling.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace halfulp {

/// How a number between two neighbours becomes one of them.
enum class RoundingMode : std::uint8_t {
  nearest_even,     ///< IEEE roundTiesToEven
  nearest_away,     ///< IEEE roundTiesToAway
  nearest_to_zero,  ///< ties toward zero (IEEE 754-2019, 9.5, augmented operations)
  toward_zero,
  toward_positive,
  toward_negative,
  to_odd,      ///< inexact results take the neighbour with an odd code (Boldo & Melquiond 2008)
  stochastic,  ///< up with a probability near the tail's share of the unit: StochasticVariant, `random_bits`
};

/// How the tail of an exact result (what lies below the last kept bit) meets r random bits: it is rounded to r bits,
/// the random integer is added, and the carry into the last kept bit decides. With t = tail / unit the probability of
/// rounding up is round(t * 2^r) / 2^r; a tail of at most r bits is never rounded, and the probability exact. With 32
/// random bits that is so for every float32 down to 2^-8 of the smallest subnormal of a narrow format.
enum class StochasticVariant : std::uint8_t {
  truncate,      ///< cut off: biased by -2^-(r+1) unit. MPTorch's prng_bits; gfloat's StochasticFastest
  nearest_even,  ///< to nearest, ties to even: unbiased over uniform tails. gfloat's Stochastic
  nearest_odd,   ///< to nearest, ties to odd. gfloat's StochasticOdd
  nearest_up,    ///< to nearest, ties up: half a random unit is added first. gfloat's StochasticFast
};

/// What a finite result beyond the largest finite value becomes.
enum class Overflow : std::uint8_t {
  ieee,      ///< as IEEE 754, 7.4: Inf by mode; NaN in formats without Inf; +-max without either
  saturate,  ///< +-max; infinite operands of a conversion become +-max too
};

/// When a result is tiny (IEEE 754, 7.5).
enum class Tininess : std::uint8_t { after, before };

/// Which NaN an operation returns.
enum class NanRule : std::uint8_t {
  canonical,  ///< the format's positive quiet NaN without payload
  propagate,  ///< x86: the first NaN operand, made quiet; an invalid operation gives the negative canonical NaN
  cuda,       ///< NVIDIA: all ones below a clear sign (7FFF in fp16)
};

/// What a NaN or an out-of-range value becomes in an integer.
enum class IntOverflow : std::uint8_t {
  saturate,  ///< the nearest integer of the type, 0 for NaN
  x86,       ///< the "integer indefinite": 80...0 signed, FF...F unsigned
};

/// IEEE exception flags, in the bit order of Berkeley TestFloat.
using Flags = std::uint8_t;
namespace flag {
inline constexpr Flags inexact = 0x01;
inline constexpr Flags underflow = 0x02;
inline constexpr Flags overflow = 0x04;
inline constexpr Flags divide_by_zero = 0x08;
inline constexpr Flags invalid = 0x10;
}  // namespace flag

/// Everything besides operands and format that decides a result. A plain value: no global state.
struct Rounding {
  RoundingMode mode = RoundingMode::nearest_even;  ///< which neighbour
  Overflow overflow = Overflow::ieee;              ///< what is beyond the range
  bool flush_inputs = false;                       ///< subnormal operands count as zero of their sign (x86 DAZ)
  bool flush_outputs = false;           ///< tiny results become zero of their sign, underflow and inexact (x86 FTZ)
  Tininess tininess = Tininess::after;  ///< when underflow is signalled
  NanRule nan = NanRule::canonical;     ///< which NaN operations return
  IntOverflow int_overflow = IntOverflow::saturate;  ///< of conversions to integers
  bool integer_inexact =
      false;  ///< rounding to an integer signals inexact (IEEE roundToIntegralExact, convertToIntegerExact)
  StochasticVariant variant = StochasticVariant::truncate;  ///< of stochastic rounding
  int random_bits = 32;                                     ///< of stochastic rounding, 1 to max_random_bits
  constexpr bool operator==(const Rounding&) const = default;
};

inline constexpr int max_random_bits = 32;  ///< Random bits of a stochastic rounding, at most.

/// A result and what happened on the way.
struct Rounded {
  std::uint64_t code = 0;  ///< of the format that was rounded to
  Flags flags = 0;         ///< raised by the operation
  constexpr bool operator==(const Rounded&) const = default;
};

// clang-format off
/// Their names.
inline constexpr std::array<Named<RoundingMode>, 8> rounding_modes{{
  {"nearest-even",    RoundingMode::nearest_even},
  {"nearest-away",    RoundingMode::nearest_away},
  {"nearest-to-zero", RoundingMode::nearest_to_zero},
  {"toward-zero",     RoundingMode::toward_zero},
  {"toward-positive", RoundingMode::toward_positive},
  {"toward-negative", RoundingMode::toward_negative},
  {"to-odd",          RoundingMode::to_odd},
  {"stochastic",      RoundingMode::stochastic},
}};
/// Their names.
inline constexpr std::array<Named<StochasticVariant>, 4> stochastic_variants{{
  {"truncate", StochasticVariant::truncate}, {"nearest-even", StochasticVariant::nearest_even},
  {"nearest-odd", StochasticVariant::nearest_odd}, {"nearest-up", StochasticVariant::nearest_up}}};
/// Their names.
inline constexpr std::array<Named<Overflow>, 2> overflow_rules{{{"ieee", Overflow::ieee}, {"saturate", Overflow::saturate}}};
/// Their names.
inline constexpr std::array<Named<Tininess>, 2> tininess_rules{{{"after", Tininess::after}, {"before", Tininess::before}}};
/// Their names.
inline constexpr std::array<Named<NanRule>, 3> nan_rules{{
  {"canonical", NanRule::canonical}, {"propagate", NanRule::propagate}, {"cuda", NanRule::cuda}}};
/// Their names.
inline constexpr std::array<Named<IntOverflow>, 2> int_overflow_rules{{{"saturate", IntOverflow::saturate}, {"x86", IntOverflow::x86}}};
// clang-format on

/// As on the command line.
constexpr std::string_view name_of(RoundingMode mode) { return name_in(rounding_modes, mode); }
/// As on the command line.
constexpr std::string_view name_of(NanRule rule) { return name_in(nan_rules, rule); }
/// As on the command line.
constexpr std::string_view name_of(Overflow rule) { return name_in(overflow_rules, rule); }

}  // namespace halfulp
