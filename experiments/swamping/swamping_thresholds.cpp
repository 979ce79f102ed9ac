// When is an update too small to change its weight?
#include <halfulp/experiments/swamping/swamping.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <stdexcept>

namespace halfulp {
namespace {

constexpr const char* micikevicius = "Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.1";
constexpr const char* derived = "derived: half a unit in the last place of w against u; ties to even, IEEE 754-2019, section 4.3.1";
constexpr std::uint64_t most_scanned = 16'384;  ///< updates a format, rounding, weight and direction

/// Claim ids are lower case without underscores; the names users type need not be.
std::string id(std::string_view what, const FloatFormat& format) { return fmt::format("{}-{}", what, format_name(format)); }

}  // namespace

bool swamped_by_definition(const FloatFormat& f, RoundingMode mode, std::uint64_t w, double u) {
  const bool negative = f.sign(w), away = f.is_zero(w) || std::signbit(u) == negative;
  const std::uint64_t magnitude = f.magnitude(w);
  const double gap = away ? FloatFormat::power_of_two(f.exponent(w)) : f.value(magnitude) - f.value(magnitude - 1);
  const double size = std::fabs(u);
  const bool odd = magnitude % 2 != 0, upward = !std::signbit(u);
  switch (mode) {
    case RoundingMode::nearest_even: return 2 * size < gap || (2 * size == gap && !odd);
    case RoundingMode::nearest_away: return 2 * size < gap || (2 * size == gap && !away);
    case RoundingMode::nearest_to_zero: return 2 * size < gap || (2 * size == gap && away);
    case RoundingMode::toward_zero: return away && size < gap;
    case RoundingMode::toward_positive: return !upward && size < gap;
    case RoundingMode::toward_negative: return upward && size < gap;
    case RoundingMode::to_odd: return odd && size < gap;
    case RoundingMode::stochastic: break;
  }
  throw std::logic_error("swamped_by_definition: stochastic rounding has no definite answer");
}

std::vector<FormatChoice> formats_around_one(const Config& config) {
  const auto formats = config.formats("formats");
  if (formats.size() > 32) throw std::invalid_argument("formats: at most 32 in one run");
  for (const FormatChoice& choice : formats) {
    const FloatFormat& f = choice.format;
    if (!f.has_zero || f.fraction_bits < 1 || f.emin() > 0 || f.value(f.max_finite()) < 2)
      throw std::invalid_argument("formats: " + choice.name +
                                  " is of no use here; accepted: formats with fraction bits in which 1 and 2 are normal numbers");
  }
  return formats;
}

void report_thresholds(const Config& config, Run& run) {
  Table& table = run.report.table("thresholds", "The largest update that leaves the weight unchanged", {
      {"format", "", "Format of weight and update."},
      {"rounding", "", "Rounding mode of the sum."},
      {"weight", "1", "Weight w: 1 (even code), the number after it (odd code), the number before 2."},
      {"direction", "", "Direction of the update: w + u away from zero, or w - u toward zero."},
      {"largest_lost", "1", "Largest u of the format with w ± u = w, by bisection; null if every u changes w."},
      {"lost_from_ratio", "1", "Ratio w / u of that u: at this ratio and above the update is lost; null if never."},
      {"smallest_kept", "1", "Next u of the format: the smallest that changes w."},
  });
  std::uint64_t scanned = 0, wrong = 0;
  for (const FormatChoice& choice : formats_around_one(config)) {
    const FloatFormat& f = choice.format;
    const std::uint64_t one = encode(f, {}, 1).code, two = encode(f, {}, 2).code;
    const double half_ulp = f.epsilon() / 2;
    for (const auto& [name, mode] : rounding_modes) {
      if (mode == RoundingMode::stochastic) continue;
      Rounding rounding;
      rounding.mode = mode;
      Arithmetic in(f, rounding, &run.trace);
      for (const std::uint64_t w : {one, one + 1, two - 1}) {
        if (w == one + 1 && w == two - 1) continue;  // one fraction bit: the same number
        for (const bool subtract : {false, true}) {
          const auto lost = [&](std::uint64_t u) { return (subtract ? in.sub(w, u) : in.add(w, u)) == w; };
          std::uint64_t low = 0, high = w;  // u = 0 is lost, u = w is not; positive codes are ordered as their values
          while (high - low > 1) {
            const std::uint64_t middle = low + (high - low) / 2;
            (lost(middle) ? low : high) = middle;
          }
          table.row({choice.name, name, emulated(f, w), subtract ? "w - u" : "w + u", low ? emulated(f, low) : Json(),
                     low ? number(f.value(w) / f.value(low)) : Json(), emulated(f, high)});
          // Many updates of every size against the definition.
          const std::uint64_t stride = w / most_scanned + 1;
          for (std::uint64_t u = 1; u <= w; u += stride, ++scanned)
            if (lost(u) != swamped_by_definition(f, mode, w, subtract ? -f.value(u) : f.value(u))) ++wrong;

          if (mode != RoundingMode::nearest_even || subtract) continue;
          if (w == one && half_ulp >= f.value(f.min_positive())) {
            const double ratio = low ? f.value(w) / f.value(low) : 0;
            run.report.claim(exactly(id("lost-at-one", f), fmt::format("At w = 1 an update is lost in {} where w/u is at least 2 to the power of its "
                "precision: u = 2^-{} is a tie, and 1 is even.", choice.name, f.precision()), derived,
                number(FloatFormat::power_of_two(f.precision())), number(ratio), "oracle"));
            if (f == fp16)
              run.report.claim(exactly("published-2048", "A weight of 1 that is at least 2048 times its update does not change in fp16.", micikevicius, 2048.0,
                                       number(ratio), "published"));
            run.report.claim(exactly(id("tie-to-even", f), fmt::format("At exactly that ratio the sum is a tie and goes to the even neighbour: in {} 1 + u = 1, "
                "but one step higher (1 + ulp) + u = 1 + 2 ulp.", choice.name), derived, Json::array({1.0, number(1 + 2 * f.epsilon())}),
                Json::array({number(f.value(in.add(one, in.encode(half_ulp)))), number(f.value(in.add(one + 1, in.encode(half_ulp))))}), "oracle"));
          }
          if (w == two - 1 && half_ulp >= f.value(f.min_positive()))
            run.report.claim(exactly(id("kept-below-two", f), fmt::format("Just below 2 the limit is nearly twice as large in {}: there w is odd, the smallest update "
                "that counts is u = 2^-{}, and w/u = 2^{} - 2.", choice.name, f.precision(), f.precision() + 1), derived,
                number(FloatFormat::power_of_two(f.precision() + 1) - 2), number(f.value(w) / f.value(high)), "oracle"));
        }
      }
      run.progress(0);
    }
  }
  run.report.claim(exactly("every-threshold", fmt::format("In every format, rounding mode and direction w + u = w exactly where u lies on the near side of "
      "the mode's threshold ({} sums).", scanned), "derived: the definitions of the rounding modes on the gap between neighbouring numbers", 0, wrong, "oracle"));
}

}  // namespace halfulp
