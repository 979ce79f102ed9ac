// How a result is rounded: modes and what each adds, flags, the rules at the edges of a format.
#pragma once

#include <halfulp/support/spelling.hpp>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfulp {

// clang-format off
/// Every rounding mode: MODE(enumerator, name, addend). The addend is the whole difference between modes: what is added
/// below the last kept bit before everything below it is cut off. `unit` is the weight of that bit, `odd` its value,
/// `sign` the number's. To add a mode, add a row; the compiler then names every place that must know it.
#define HALFULP_ROUNDING_MODES(MODE)                                                                                  \
  /* IEEE roundTiesToEven. */                                                                                         \
  MODE(nearest_even,    "nearest-even",    unit / 2 - 1 + odd)                                                        \
  /* IEEE roundTiesToAway. */                                                                                         \
  MODE(nearest_away,    "nearest-away",    unit / 2)                                                                  \
  /* Ties toward zero (IEEE 754-2019, 9.5, augmented operations). */                                                  \
  MODE(nearest_to_zero, "nearest-to-zero", unit / 2 - 1)                                                              \
  MODE(toward_zero,     "toward-zero",     0)                                                                         \
  MODE(toward_positive, "toward-positive", sign ? 0 : unit - 1)                                                       \
  MODE(toward_negative, "toward-negative", sign ? unit - 1 : 0)                                                       \
  /* Inexact results take the neighbour with an odd code (Boldo & Melquiond 2008). */                                 \
  MODE(to_odd,          "to-odd",          odd ? 0 : unit - 1)                                                        \
  /* Up with a probability near the tail's share of the unit: StochasticVariant, `random_bits`. */                    \
  MODE(stochastic,      "stochastic",      random_addend(rounding, significand, tail, random))
// clang-format on

/// How a number between two neighbours becomes one of them.
enum class RoundingMode : std::uint8_t {
#define HALFULP_ROW(mode, name, added) mode,
  HALFULP_ROUNDING_MODES(HALFULP_ROW)
#undef HALFULP_ROW
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
  cuda_fp64,  ///< NVIDIA's fp64 instructions: as propagate, but the second NaN operand comes before the third and first
  keep,       ///< a copy of bits: as propagate, but a signalling NaN stays one
};

/// Whether a result has the payload of a NaN operand.
constexpr bool keeps_payload(NanRule rule) {
  return rule == NanRule::propagate || rule == NanRule::cuda_fp64 || rule == NanRule::keep;
}

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

/// Their names.
inline constexpr auto rounding_modes = std::to_array<Named<RoundingMode>>({
#define HALFULP_ROW(mode, name, added) {name, RoundingMode::mode},
    HALFULP_ROUNDING_MODES(HALFULP_ROW)
#undef HALFULP_ROW
});
// clang-format off
/// Their names.
inline constexpr std::array<Named<StochasticVariant>, 4> stochastic_variants{{
  {"truncate", StochasticVariant::truncate}, {"nearest-even", StochasticVariant::nearest_even},
  {"nearest-odd", StochasticVariant::nearest_odd}, {"nearest-up", StochasticVariant::nearest_up}}};
/// Their names.
inline constexpr std::array<Named<Overflow>, 2> overflow_rules{{{"ieee", Overflow::ieee}, {"saturate", Overflow::saturate}}};
/// Their names.
inline constexpr std::array<Named<Tininess>, 2> tininess_rules{{{"after", Tininess::after}, {"before", Tininess::before}}};
/// Their names.
inline constexpr std::array<Named<NanRule>, 5> nan_rules{{
  {"canonical", NanRule::canonical}, {"propagate", NanRule::propagate}, {"cuda", NanRule::cuda},
  {"cuda-fp64", NanRule::cuda_fp64}, {"keep", NanRule::keep}}};
/// Their names.
inline constexpr std::array<Named<IntOverflow>, 2> int_overflow_rules{{{"saturate", IntOverflow::saturate}, {"x86", IntOverflow::x86}}};
// clang-format on

// clang-format off
/// What papers and instruction sets call them, for those who type: commands take these too, reports have the names.
inline constexpr std::array<Named<RoundingMode>, 6> short_rounding_modes{{
  {"rne", RoundingMode::nearest_even}, {"rna", RoundingMode::nearest_away}, {"rtz", RoundingMode::toward_zero},
  {"ru", RoundingMode::toward_positive}, {"rd", RoundingMode::toward_negative}, {"sr", RoundingMode::stochastic}}};
// clang-format on

/// The mode of that name, or of that short name in either case. Throws std::invalid_argument naming the nearest one and
/// all that are accepted.
inline RoundingMode parse_rounding_mode(std::string_view name) {
  std::vector<std::string> names = names_of(rounding_modes);
  for (const auto& row : short_rounding_modes) {
    if (row.name == lowered(name)) return row.value;
    names.emplace_back(row.name);
  }
  for (const auto& row : rounding_modes)
    if (row.name == name) return row.value;
  throw std::invalid_argument(unknown_name("rounding mode", name, std::move(names)));
}

/// As on the command line.
constexpr std::string_view name_of(RoundingMode mode) { return name_in(rounding_modes, mode); }
/// As on the command line.
constexpr std::string_view name_of(NanRule rule) { return name_in(nan_rules, rule); }
/// As on the command line.
constexpr std::string_view name_of(Overflow rule) { return name_in(overflow_rules, rule); }

/// r random bits just below the last kept bit, and what rounds the tail to r bits by the variant. A tail of no more
/// than r bits takes the leading random ones: nothing is to be rounded, its probability is exact.
template <class U>
constexpr U random_addend(const Rounding& rounding, U significand, int tail, std::uint64_t random) {
  const int r = rounding.random_bits;
  const U bits = random & ((std::uint64_t{1} << r) - 1);
  if (tail <= r) return bits >> (r - tail);
  const int cut = tail - r;
  const U half = U{1} << (cut - 1);
  const bool odd = ((significand >> cut) & 1) != 0;
  switch (rounding.variant) {
    case StochasticVariant::truncate: break;
    case StochasticVariant::nearest_even: return (bits << cut) + half - 1 + odd;
    case StochasticVariant::nearest_odd: return (bits << cut) + half - 1 + !odd;
    case StochasticVariant::nearest_up: return (bits << cut) + half;
  }
  return bits << cut;
}

/// What a mode adds to a significand of which tail >= 1 bits are about to be dropped; 2^tail is the weight of the last
/// kept bit, `odd` whether that bit is set.
template <class U>
constexpr U addend(const Rounding& rounding, [[maybe_unused]] bool sign, [[maybe_unused]] bool odd,
                   [[maybe_unused]] U significand, int tail, [[maybe_unused]] std::uint64_t random) {
  [[maybe_unused]] const U unit = U{1} << tail;
  switch (rounding.mode) {
#define HALFULP_ROW(mode, name, added) \
  case RoundingMode::mode: return added;
    HALFULP_ROUNDING_MODES(HALFULP_ROW)
#undef HALFULP_ROW
  }
  return 0;
}

/// Whether a result that is too large goes on to infinity: whether the mode takes what lies a little beyond an odd
/// number (to the modes the largest value counts as one) to the next, by some random number.
constexpr bool overflows_away(const Rounding& rounding, bool sign) {
  return addend<std::uint32_t>(rounding, sign, true, 1, 2, ~std::uint64_t{0}) != 0;
}

/// Whether the nearer neighbour is always taken, so that a mode decides ties only.
constexpr bool is_nearest(RoundingMode mode) {
  const auto goes_up = [mode](std::uint32_t quarters, int neighbour) {
    return quarters +
               addend<std::uint32_t>({.mode = mode}, (neighbour & 1) != 0, (neighbour & 2) != 0, quarters, 2, 0) >=
           4;
  };
  for (int neighbour = 0; neighbour < 4; ++neighbour)
    if (goes_up(1, neighbour) || !goes_up(3, neighbour)) return false;
  return true;
}

/// f(std::integral_constant<RoundingMode, mode>) for a mode known at run time only.
template <class F>
constexpr decltype(auto) with_mode(RoundingMode mode, F&& f) {
  switch (mode) {
#define HALFULP_ROW(mode, name, added) \
  case RoundingMode::mode: return f(std::integral_constant<RoundingMode, RoundingMode::mode>{});
    HALFULP_ROUNDING_MODES(HALFULP_ROW)
#undef HALFULP_ROW
  }
  __builtin_unreachable();
}

/// False, for the static_assert that ends a chain of `if constexpr` over modes, operations or the like: it names the
/// one that was forgotten.
template <auto>
inline constexpr bool handled = false;

}  // namespace halfulp
