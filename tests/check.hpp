// Shared by the arithmetic tests: operations by name against the oracle, operand lattices, mismatch reports.
#pragma once

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/evidence/oracle/by_name.hpp>
#include <halfulp/hardware/operands.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <span>
#include <sstream>
#include <vector>

namespace check {

using namespace halfulp;

/// Full sweeps instead of samples (`./run test --exhaustive`).
inline bool exhaustive() { return std::getenv("HALFULP_EXHAUSTIVE") != nullptr; }

/// What floats are compared by, where NaN and -0 count.
inline std::vector<std::uint32_t> bits(std::span<const float> values) {
  std::vector<std::uint32_t> all;
  for (const float v : values) all.push_back(std::bit_cast<std::uint32_t>(v));
  return all;
}

/// SplitMix64 (Steele, Lea, Flood 2014): seeded test operands.
struct Random {
  std::uint64_t state;
  std::uint64_t operator()() {
    std::uint64_t z = (state += 0x9e37'79b9'7f4a'7c15);
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
    return z ^ (z >> 31);
  }
};

using halfulp::lattice;
using oracle::fits_int128, oracle::outcome;

/// Counts comparisons. Prints the first few that differ, and fails the test if any differs.
class Differences {
 public:
  explicit Differences(std::string subject) : subject_(std::move(subject)) {}
  ~Differences() {
    EXPECT_EQ(differing_, 0u) << subject_ << ": " << differing_ << " of " << compared_ << " differ";
    EXPECT_GT(compared_, 0u) << subject_ << ": nothing was compared";
  }
  Differences(const Differences&) = delete;
  Differences& operator=(const Differences&) = delete;

  void compare(const Rounded& got, const Rounded& want, const Rounding& r, std::uint64_t a, std::uint64_t b = 0,
               std::uint64_t c = 0, std::uint64_t random = 0) {
    ++compared_;
    if (got == want) return;
    if (++differing_ > 4) return;
    ADD_FAILURE() << std::hex << subject_ << ' ' << describe(r) << " operands " << a << ' ' << b << ' ' << c
                  << " random " << random << ": got " << got.code << " flags " << int{got.flags} << ", the oracle says "
                  << want.code << " flags " << int{want.flags};
  }
  std::uint64_t compared() const { return compared_; }

  static std::string describe(const Rounding& r) {
    std::ostringstream text;
    text << name_of(r.mode) << ' ' << name_of(r.overflow) << (r.flush_inputs ? " flush-inputs" : "")
         << (r.flush_outputs ? " flush-outputs" : "") << ' ' << name_in(tininess_rules, r.tininess) << ' '
         << name_of(r.nan) << ' ' << name_in(int_overflow_rules, r.int_overflow)
         << (r.integer_inexact ? " integer-inexact" : "") << " r" << r.random_bits << ' '
         << name_in(stochastic_variants, r.variant);
    return text.str();
  }

 private:
  std::string subject_;
  std::uint64_t compared_ = 0, differing_ = 0;
};

/// All settings that change a result of the format: their full product, or each with every mode once.
inline std::vector<Rounding> roundings(bool full) {
  std::vector<Rounding> all;
  for (const auto& mode : rounding_modes)
    for (const auto& overflow : overflow_rules)
      for (const auto& tininess : tininess_rules)
        for (const auto& nan : nan_rules)
          for (int flush = 0; flush < 4; ++flush) {
            Rounding r;
            r.mode = mode.value;
            r.overflow = overflow.value;
            r.tininess = tininess.value;
            r.nan = nan.value;
            r.flush_inputs = (flush & 1) != 0;
            r.flush_outputs = (flush & 2) != 0;
            // Overflow and tininess meet every mode and the flush rules. A NaN's code depends on neither.
            const bool nan_alone = r.nan == NanRule::canonical || (r.mode == RoundingMode::nearest_even && flush == 0);
            const bool flush_alone = flush == 0 ||
                                     (r.overflow == Overflow::ieee && (flush == 2 || r.tininess == Tininess::after));
            if (full || (nan_alone && flush_alone)) all.push_back(r);
          }
  return all;
}

/// Random words and widths for stochastic rounding that change with every case.
struct Draw {
  Random random;
  std::uint64_t word = 0;
  void next(std::vector<Rounding>& all) {
    word = random();
    constexpr int widths[] = {1, 2, 3, 4, 6, 8, 31, 32};
    for (Rounding& r : all)
      if (r.mode == RoundingMode::stochastic) {
        r.random_bits = widths[word >> 61];
        r.variant = stochastic_variants[word >> 59 & 3].value;
      }
  }
};

/// One operation on one operand tuple under all roundings. The exact result is computed once.
inline void check_all(Differences& differences, Operation operation, const FloatFormat& f,
                      const std::vector<Rounding>& all, std::uint64_t random, std::uint64_t a, std::uint64_t b = 0,
                      std::uint64_t c = 0) {
  const oracle::Outcome outcomes[2] = {outcome(operation, f, false, a, b, c), outcome(operation, f, true, a, b, c)};
  for (const Rounding& r : all)
    differences.compare(evaluate(operation, f, r, a, b, c, random),
                        oracle::finish(f, r, outcomes[r.flush_inputs], random), r, a, b, c, random);
}

/// Comparisons, minimum and maximum depend on few of the settings.
inline std::vector<Rounding> settings_of(Operation operation, bool full) {
  switch (operation) {
    case Operation::min:
    case Operation::max:
    case Operation::eq:
    case Operation::lt:
    case Operation::le: break;
    default: return roundings(full);
  }
  std::vector<Rounding> all;
  for (Rounding r : roundings(true))
    if (full || (r.mode == RoundingMode::nearest_even && r.overflow == Overflow::ieee && r.tininess == Tininess::after))
      all.push_back(r);
  return all;
}

/// A name for parametrised tests.
inline std::string test_name(const testing::TestParamInfo<FloatFormat>& info) {
  std::string name = format_name(info.param);
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

inline std::vector<FloatFormat> named(const std::vector<std::string>& names) {
  std::vector<FloatFormat> formats;
  for (const auto& name : names) formats.push_back(parse_format(name));
  return formats;
}

}  // namespace check
