// float -> every format of 16 bits or fewer, in every deterministic mode, against the oracle.
//
// Rounding is monotone, so each conversion is a step function over the floats of one sign. The oracle finds the steps
// by bisection. A sweep then compares one float per prime stride, or, with HALFULP_EXHAUSTIVE, every float in
// nearest-even and a seventh of all in each other mode. Both sides of every step are compared with the oracle itself,
// flags included.
#include "check.hpp"

#include <halfulp/evidence/oracle/steps.hpp>

#include <cmath>
#include <future>

namespace float32_to_narrow_test {

using namespace halfulp;
using namespace check;

using oracle::Plateau;
constexpr std::uint32_t infinity = oracle::float_infinity, sign_bit = oracle::float_sign;

Rounded oracle_convert(const FloatFormat& to, const Rounding& r, std::uint32_t bits) {
  return oracle::convert<oracle::cpp_int>(fp32, to, r, bits);
}

std::vector<FloatFormat> formats() {
  std::vector<FloatFormat> all = named({"e6m9finite", "e5m0fn"});
  for (const NamedFormat& row : catalogue())
    if (row.format.storage_bits() <= 16) all.push_back(row.format);
  return all;
}

class Float32To : public testing::TestWithParam<FloatFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, Float32To, testing::ValuesIn(formats()), test_name);

/// Floats of one sign: one of `stride`, from `first` on, and those around every step.
void compare(const FloatFormat& to, const Rounding& r, std::uint32_t sign, std::uint32_t first, std::uint32_t stride) {
  Differences sweep("fp32 to " + format_name(to)), edges("fp32 to " + format_name(to) + " around the steps");
  const std::vector<Plateau> steps = oracle::finite_steps(to, r, sign);
  std::size_t at = 0;
  for (std::uint32_t bits = first; bits < infinity; bits += stride) {
    while (at + 1 < steps.size() && steps[at + 1].first <= bits) ++at;
    const Rounded got = convert(fp32, to, r, bits | sign);
    // Exactness needs no oracle: compare the code's value with the float.
    const bool invalid = sign != 0 && !to.is_signed;
    const bool exact = static_cast<double>(std::bit_cast<float>(bits | sign)) == to.value(got.code);
    Rounded want{steps[at].code, got.flags};
    if (!invalid && exact == ((got.flags & flag::inexact) != 0)) want.flags ^= flag::inexact;
    sweep.compare(got, want, r, bits | sign);
  }
  const std::size_t every = exhaustive() || steps.size() < 1000 ? 1 : 37;
  for (std::size_t i = 0; i < steps.size(); i += every)
    for (const std::int64_t d : {-2, -1, 0, 1})
      for (const auto& overflow : overflow_rules)
        for (const auto& tininess : tininess_rules) {
          const auto bits = static_cast<std::uint32_t>(std::clamp<std::int64_t>(steps[i].first + d, 0, infinity)) |
                            sign;
          Rounding s = r;
          s.overflow = overflow.value;
          s.tininess = tininess.value;
          edges.compare(convert(fp32, to, s, bits), oracle_convert(to, s, bits), s, bits);
        }
}

TEST_P(Float32To, in_every_mode) {
  std::uint32_t others = 0;
  for (const auto& mode : rounding_modes) {
    if (mode.value == RoundingMode::stochastic) continue;
    Rounding r;
    r.mode = mode.value;
    // All floats in every mode take hours: of the other modes each has another seventh. The ledger has arrays in all.
    const bool whole = mode.value == RoundingMode::nearest_even;
    const std::uint32_t stride = !exhaustive() ? 4'001 : whole ? 1 : 7, first = exhaustive() && !whole ? ++others : 1;
    const auto negative = std::async(std::launch::async, compare, GetParam(), r, sign_bit, first, stride);
    compare(GetParam(), r, 0, first, stride);
    negative.wait();
  }
}

}  // namespace float32_to_narrow_test
