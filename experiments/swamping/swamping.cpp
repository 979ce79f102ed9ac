// When is an update too small to change its weight?
#include <halfulp/experiments/swamping/swamping.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

namespace halfulp {
namespace swamping {
namespace {

const Citation micikevicius{publications::fp16_updates,
                            "Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.1"};
const Citation derived{
    publications::fp16_updates,
    "derived: half a unit in the last place of w against u; ties to even, IEEE 754-2019, section 4.3.1"};
constexpr std::uint64_t most_scanned = 16'384;  ///< updates a format, rounding, weight and direction

/// Claim ids are lower case without underscores; the names users type need not be.
std::string id(std::string_view what, const FloatFormat& format) {
  return fmt::format("{}-{}", what, format_name(format));
}

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
      throw std::invalid_argument(
          "formats: " + choice.name +
          " is of no use here; accepted: formats with fraction bits in which 1 and 2 are normal numbers");
  }
  return formats;
}

void report_thresholds(const Config& config, Run& run) {
  Table& table = run.report.table(
      "thresholds", "The largest update that leaves the weight unchanged",
      {
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
            run.report.claim(
                {id("lost-at-one", f),
                 fmt::format("At w = 1 an update is lost in {} where w/u is at least 2 to the power of its "
                             "precision: u = 2^-{} is a tie, and 1 is even.",
                             choice.name, f.precision()),
                 derived},
                exactly(number(FloatFormat::power_of_two(f.precision())), number(ratio), "oracle"));
            if (f == fp16)
              run.report.claim(
                  {"published-2048", "A weight of 1 that is at least 2048 times its update does not change in fp16.",
                   micikevicius},
                  exactly(2048.0, number(ratio), "published"));
            run.report.claim(
                {id("tie-to-even", f),
                 fmt::format("At exactly that ratio the sum is a tie and goes to the even neighbour: in {} 1 + u = 1, "
                             "but one step higher (1 + ulp) + u = 1 + 2 ulp.",
                             choice.name),
                 derived},
                exactly(Json::array({1.0, number(1 + 2 * f.epsilon())}),
                        Json::array({number(f.value(in.add(one, in.encode(half_ulp)))),
                                     number(f.value(in.add(one + 1, in.encode(half_ulp))))}),
                        "oracle"));
          }
          if (w == two - 1 && half_ulp >= f.value(f.min_positive()))
            run.report.claim(
                {id("kept-below-two", f),
                 fmt::format(
                     "Just below 2 the limit is nearly twice as large in {}: there w is odd, the smallest update "
                     "that counts is u = 2^-{}, and w/u = 2^{} - 2.",
                     choice.name, f.precision(), f.precision() + 1),
                 derived},
                exactly(number(FloatFormat::power_of_two(f.precision() + 1) - 2), number(f.value(w) / f.value(high)),
                        "oracle"));
        }
      }
      run.progress(0);
    }
  }
  run.report.claim(
      {"every-threshold",
       fmt::format("In every format, rounding mode and direction w + u = w exactly where u lies on the near side of "
                   "the mode's threshold ({} sums).",
                   scanned),
       "derived: the definitions of the rounding modes on the gap between neighbouring numbers"},
      exactly(0, wrong, "oracle"));
}

// w + lr * g, rounded twice or once: over a sweep of ratios, and over random weights and gradients.

namespace {

constexpr std::uint64_t product_stream = 600, sum_stream = 601;
constexpr std::size_t piece_size = 1024;

/// One update of the weight: two roundings, or one.
class Step {
 public:
  Step(Arithmetic& arithmetic, bool is_fused, std::uint64_t of_seed) : in(arithmetic), fused(is_fused), seed(of_seed) {}
  std::uint64_t operator()(std::uint64_t w, std::uint64_t lr, std::uint64_t g, std::uint64_t index) const {
    const std::uint64_t last = bits(sum_stream, index);
    return fused ? in.fma(lr, g, w, last) : in.add(w, product(lr, g, index), last);
  }
  std::uint64_t product(std::uint64_t lr, std::uint64_t g, std::uint64_t index) const {
    return in.mul(lr, g, bits(product_stream, index));
  }

 private:
  std::uint64_t bits(std::uint64_t stream, std::uint64_t index) const {
    return in.rounding().mode == RoundingMode::stochastic ? rounding_bits(seed, stream, index) : 0;
  }

  Arithmetic& in;
  bool fused;
  std::uint64_t seed;
};

/// Counts over the random weights of one format and rounding.
struct Population {
  std::uint64_t total = 0, no_update = 0, separate_lost = 0, fused_lost = 0, differ = 0, wrong = 0, checked = 0;
  void merge(const Population& other) {
    total += other.total;
    no_update += other.no_update;
    separate_lost += other.separate_lost;
    fused_lost += other.fused_lost;
    differ += other.differ;
    wrong += other.wrong;
    checked += other.checked;
  }
};

}  // namespace

void report_ratios(const Config& config, Run& run) {
  Table& table = run.report.table(
      "ratios", "w + lr * g from w = 1 over a sweep of w / (lr * g)",
      {
          {"format", "", "Format of weight, gradient and learning rate."},
          {"rounding", "", "Rounding mode of product and sum."},
          {"form", "", "How w + lr * g is done: separate rounds the product, then the sum; fused rounds once."},
          {"asked_ratio", "1", "Ratio w / update asked for."},
          {"ratio", "1",
           "Ratio w / (lr * g) after lr and g were rounded to the format; null if nothing is left of them, or more "
           "than the format holds."},
          {"after_one", "1", "Weight after one step."},
          {"fate", "",
           "What became of the first update: moved; swamped, the sum rounded back; product-zero or gradient-zero, "
           "nothing was left to add; overflow, lr or g were beyond the range."},
          {"after_all", "1", "Weight after all steps."},
          {"exact", "1",
           "Exact weight: w + steps * lr * g without rounding the product or the sums; null where there is no finite "
           "update."},
          {"arrived", "1",
           "Share of the way: (after_all - w) / (exact - w); 1 is right, 0 is all lost; null where there is no finite "
           "update."},
      });
  const auto steps = config.integer("steps");
  const auto seed = static_cast<std::uint64_t>(config.integer("seed"));
  std::uint64_t stuck = 0, swamped = 0;
  for (const FormatChoice& choice : formats_around_one(config)) {
    const FloatFormat& f = choice.format;
    const std::uint64_t one = encode(f, {}, 1).code, lr = encode(f, {}, config.real("lr")).code;
    for (const RoundingMode mode : config.roundings("roundings")) {
      Rounding rounding;
      rounding.mode = mode;
      Arithmetic in(f, rounding, &run.trace);
      for (const bool fused : {false, true})
        for (const double asked : config.reals("ratios")) {
          const std::uint64_t g = encode(f, {}, 1 / asked / config.real("lr")).code;
          const double update = f.value(lr) * f.value(g);  // exact up to 26 bits of precision
          const Step step{in, fused, seed};
          const std::uint64_t first = step(one, lr, g, 0);
          std::uint64_t w = first;
          for (std::int64_t i = 1; i < steps; ++i) w = step(w, lr, g, static_cast<std::uint64_t>(i));
          const double way = static_cast<double>(steps) * update;
          const bool zero_product = !fused && update != 0 && f.is_zero(step.product(lr, g, 0));
          const bool usable = update != 0 && std::isfinite(update);
          const char* fate = !std::isfinite(update)        ? "overflow"
                             : f.is_zero(g) || update == 0 ? "gradient-zero"
                             : first != one                ? "moved"
                             : zero_product                ? "product-zero"
                                                           : "swamped";
          if (mode == RoundingMode::nearest_even && usable && first == one) {
            ++swamped;
            stuck += w == one;
          }
          table.row({choice.name, name_of(mode), fused ? "fused" : "separate", number(asked),
                     usable ? number(1 / update) : Json(), emulated(f, first), fate, emulated(f, w),
                     usable ? number(1 + way) : Json(), usable ? number((f.value(w) - 1) / way) : Json()});
        }
      run.progress(0.1);
    }
  }
  const std::string statement =
      "To nearest even an update lost once is lost for ever: after all steps the weight is where it was.";
  const Citation source{
      publications::fp16_updates,
      "derived: w + u = w repeats; Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.1"};
  run.report.claim({"lost-for-ever", statement, source},
                   swamped == 0 ? skipped("no update is lost to nearest even in this configuration")
                                : exactly(swamped, stuck, "oracle"));
}

void report_population(const Config& config, Run& run) {
  Table& table = run.report.table(
      "population", "Random weights and gradients: how many updates do nothing",
      {
          {"format", "", "Format of weight, gradient and learning rate."},
          {"rounding", "", "Rounding mode of product and sum."},
          {"weights", "value", "How many weights got one update each."},
          {"no_update", "1",
           "Share without an update: lr or gradient are zero in the format, or weight, lr or gradient are beyond its "
           "range. A product that rounds to zero counts as lost."},
          {"separate_lost", "1", "Share of the others with fl(w + fl(lr * g)) = w; null if there are none."},
          {"fused_lost", "1", "Share of the others with fl(w + lr * g) = w; null if there are none."},
          {"differ", "1",
           "Share of the others on which separate and fused end in different weights; null if there are none."},
      });
  const auto count = static_cast<std::uint64_t>(config.integer("count"));
  const auto seed = static_cast<std::uint64_t>(config.integer("seed"));
  Distribution weights, gradients;
  weights.log2_scale = config.real("log2_weight");
  gradients.shape = Shape::log_normal;
  gradients.log2_scale = config.real("log2_gradient");
  gradients.log2_sigma = config.real("log2_sigma");

  const auto formats = formats_around_one(config);
  const auto modes = config.roundings("roundings");
  std::uint64_t checked = 0, wrong = 0;
  double done = 0;
  for (const FormatChoice& choice : formats)
    for (const RoundingMode mode : modes) {
      const FloatFormat& f = choice.format;
      Rounding rounding;
      rounding.mode = mode;
      Population sum;
      constexpr std::uint64_t at_once = 16 * piece_size;
      for (std::uint64_t start = 0; start < count; start += at_once) {
        struct Piece {
          Population counts;
          Trace trace{0};
        };
        const std::uint64_t n = std::min(at_once, count - start);
        const auto pieces = parallel_map((n + piece_size - 1) / piece_size, [&](std::size_t p) {
          Piece piece{{}, Trace(piece_size)};
          Flags raised = 0;
          Arithmetic in(f, rounding, &piece.trace, &raised);
          const std::uint64_t lr = encode(f, {}, config.real("lr")).code;
          const std::uint64_t begin = start + p * piece_size, end = std::min(begin + piece_size, start + n);
          for (std::uint64_t i = begin; i < end; ++i) {
            const std::uint64_t w = encode(f, {}, weights.sample(seed + 1, i)).code,
                                g = encode(f, {}, gradients.sample(seed, i)).code;
            ++piece.counts.total;
            const double update = f.value(lr) * f.value(g);
            if (update == 0 || !std::isfinite(update) || !f.is_finite(w)) {
              ++piece.counts.no_update;
              continue;
            }
            const std::uint64_t separate = Step{in, false, seed}(w, lr, g, i);
            raised = 0;
            const std::uint64_t fused = Step{in, true, seed}(w, lr, g, i);
            const bool fused_lost = f.value(fused) == f.value(w);
            piece.counts.separate_lost += f.value(separate) == f.value(w);
            piece.counts.fused_lost += fused_lost;
            piece.counts.differ += f.value(separate) != f.value(fused);
            if (mode == RoundingMode::stochastic || f.precision() > 26 || (raised & flag::overflow))
              continue;  // there a weight stays for another reason
            ++piece.counts.checked;
            piece.counts.wrong += fused_lost != swamped_by_definition(f, mode, w, update);
          }
          return piece;
        });
        for (const auto& piece : pieces) {
          sum.merge(piece.counts);
          run.trace.append(piece.trace);
        }
        run.progress(0.1 + 0.6 * (done + static_cast<double>(start + n) / static_cast<double>(count)) /
                               static_cast<double>(formats.size() * modes.size()));
      }
      done += 1;
      checked += sum.checked;
      wrong += sum.wrong;
      const std::uint64_t updated = sum.total - sum.no_update;
      table.row({choice.name, name_of(mode), sum.total, share(sum.no_update, sum.total),
                 share(sum.separate_lost, updated), share(sum.fused_lost, updated), share(sum.differ, updated)});
    }
  const std::string statement =
      "A fused update of a random weight is lost exactly where the exact lr * g lies on the near side of the rounding "
      "mode's threshold, unless it overflows";
  const char* source = "derived: the definitions of the rounding modes on the gap between neighbouring numbers";
  if (checked != 0)
    run.report.claim({"every-random-update", fmt::format("{} ({} updates).", statement, checked), source},
                     exactly(0, wrong, "oracle"));
  else
    run.report.claim(
        {"every-random-update", statement + ".", source},
        skipped("no random update that is not zero, under a deterministic mode, in at most 26 bits, without overflow"));
}

// swamping: updates too small to change their weight, and what repairs it.

namespace {

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  return {
      {"formats", Type::formats, "fp16,bf16,e4m3,e5m2",
       "formats of the weights; 1 and 2 must be normal numbers in them"},
      {"roundings", Type::roundings, "nearest-even,toward-zero,toward-positive,toward-negative,stochastic",
       "rounding modes of the tables `ratios` and `population`"},
      {"ratios", Type::reals, "2,4,8,16,32,64,128,256,512,1024,2048,4096,8192", "w / update to sweep", 1e-3, 1e12},
      {"lr", Type::real, "0.1", "learning rate; it is rounded to the format, like everything", 1e-30, 1e6},
      {"steps", Type::integer, "1000", "steps of the table `ratios`", 1, 100'000},
      {"count", Type::integer, "32768", "random weights of the table `population`", 1, 1e7},
      {"seed", Type::integer, "1", "seed of random weights, gradients and stochastic rounding", 0, largest_seed},
      {"log2_weight", Type::real, "-4", "log2 of the standard deviation of the random weights", -100, 30},
      {"log2_gradient", Type::real, "-12", "log2 of the median magnitude of the random gradients (log-normal)", -100,
       30},
      {"log2_sigma", Type::real, "3", "standard deviation of log2 of their magnitude, in binades", 0.01, 16},
      {"binades_below", Type::integer, "2", "repairs: the update is about 0.8 times 2^-this of the largest lost one", 0,
       20},
      {"repair_steps", Type::integer, "4096", "repairs: most steps", 1, 100'000},
      {"seeds", Type::integer, "200", "repairs: runs of stochastic rounding", 10, 10'000},
      {"random_bits", Type::integers, "2,4,8,32", "repairs: random bits of stochastic rounding", 1, max_random_bits},
      {"training_steps", Type::integer, "20000", "steps of the least-squares training", 100, 1e6},
      {"training_lr", Type::real, "0.0005", "its learning rate", 1e-6, 0.05},
  };
}

void run(const Config& config, Run& run) {
  report_thresholds(config, run);
  report_ratios(config, run);
  report_population(config, run);
  report_repairs(config, run);
  report_random_bits(config, run);
  report_least_squares(config, run);
}

}  // namespace
}  // namespace swamping

namespace {

/// The first format whose weight stays where it was, and how far from the whole way the repairs end, if all repair.
std::string swamping_finding(const ReportTables& tables) {
  for (const TableRow& plain : tables.rows("repairs", {{"method", "nearest-even"}})) {
    const std::string weight = in_words(plain.number("weight"));
    std::string exact;
    for (int digits = 4; digits < 10 && (exact.empty() || exact == weight); ++digits)
      exact = in_words(plain.number("exact"), digits);
    if (plain.number("arrived") != 0 || weight == exact) continue;
    double worst = 0;
    for (const TableRow& other : tables.rows("repairs", {{"format", plain["format"]}}))
      if (other.text("method") != "nearest-even") worst = std::max(worst, std::abs(other.number("arrived") - 1));
    return fmt::format("{} update{} a weight in {} at {}, not {}{}.", plain.whole("steps"),
                       plain.number("steps") == 1 ? " leaves" : "s leave", plain.text("format"), weight, exact,
                       worst > 0.5 ? "" : fmt::format("; repairs end within {} of the way", percent(worst)));
  }
  return {};
}

}  // namespace

Experiment swamping_experiment() {
  return {"swamping",
          "Updates swamped by their weights, and what repairs it",
          "When is w + lr*g just w again, and what repairs it?",
          swamping::parameters,
          swamping::run,
          swamping_finding,
          {"repairs", {"format", "method", "bits_per_weight", "exact", "weight", "error", "arrived"}}};
}

}  // namespace halfulp
