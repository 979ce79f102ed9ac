// w + lr * g, rounded twice or once: over a sweep of ratios, and over random weights and gradients.
#include <halfulp/experiments/swamping/swamping.hpp>

#include <halfulp/emulation/random.hpp>
#include <halfulp/experiments/data/distributions.hpp>
#include <halfulp/experiments/run/parallel.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace halfulp {
namespace {

constexpr std::uint64_t product_stream = 600, sum_stream = 601;
constexpr std::size_t piece_size = 1024;

/// One update of the weight: two roundings, or one.
struct Step {
  Arithmetic& in;
  bool fused;
  std::uint64_t seed;
  std::uint64_t operator()(std::uint64_t w, std::uint64_t lr, std::uint64_t g, std::uint64_t index) const {
    const bool random = in.rounding().mode == RoundingMode::stochastic;
    const std::uint64_t last = random ? rounding_bits(seed, sum_stream, index) : 0;
    if (fused) return in.fma(lr, g, w, last);
    return in.add(w, in.mul(lr, g, random ? rounding_bits(seed, product_stream, index) : 0), last);
  }
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
  Table& table = run.report.table("ratios", "w + lr * g from w = 1 over a sweep of w / (lr * g)", {
      {"format", "", "Format of weight, gradient and learning rate."},
      {"rounding", "", "Rounding mode of product and sum."},
      {"form", "", "How w + lr * g is done: separate rounds the product, then the sum; fused rounds once."},
      {"asked_ratio", "1", "Ratio w / update asked for."},
      {"ratio", "1", "Ratio w / (lr * g) after lr and g were rounded to the format; null if nothing is left of them, or more than the format holds."},
      {"after_one", "1", "Weight after one step."},
      {"fate", "", "What became of the first update: moved; swamped, the sum rounded back; product-zero or gradient-zero, nothing was left to add; overflow, lr or g were beyond the range."},
      {"after_all", "1", "Weight after all steps."},
      {"exact", "1", "Exact weight: w + steps * lr * g without rounding the product or the sums; null where there is no finite update."},
      {"arrived", "1", "Share of the way: (after_all - w) / (exact - w); 1 is right, 0 is all lost; null where there is no finite update."},
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
          const bool zero_product = !fused && update != 0 && f.is_zero(evaluate(Operation::mul, f, rounding, lr, g).code);
          const bool usable = update != 0 && std::isfinite(update);
          const char* fate = !std::isfinite(update) ? "overflow" : f.is_zero(g) || update == 0 ? "gradient-zero" : first != one ? "moved" : zero_product ? "product-zero" : "swamped";
          if (mode == RoundingMode::nearest_even && usable && first == one) {
            ++swamped;
            stuck += w == one;
          }
          table.row({choice.name, name_of(mode), fused ? "fused" : "separate", number(asked), usable ? number(1 / update) : Json(), emulated(f, first), fate,
                     emulated(f, w), usable ? number(1 + way) : Json(), usable ? number((f.value(w) - 1) / way) : Json()});
        }
      run.progress(0.1);
    }
  }
  const std::string statement = "To nearest even an update lost once is lost for ever: after all steps the weight is where it was.";
  const char* source = "derived: w + u = w repeats; Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.1";
  if (swamped == 0) run.report.claim(skipped("lost-for-ever", statement, source, "no update is lost to nearest even in this configuration"));
  else run.report.claim(exactly("lost-for-ever", statement, source, swamped, stuck, "oracle"));
}

void report_population(const Config& config, Run& run) {
  Table& table = run.report.table("population", "Random weights and gradients: how many updates do nothing", {
      {"format", "", "Format of weight, gradient and learning rate."},
      {"rounding", "", "Rounding mode of product and sum."},
      {"weights", "value", "How many weights got one update each."},
      {"no_update", "1", "Share without an update: lr * g is zero in the format, or weight, lr or gradient are beyond its range."},
      {"separate_lost", "1", "Share of the others with fl(w + fl(lr * g)) = w; null if there are none."},
      {"fused_lost", "1", "Share of the others with fl(w + lr * g) = w; null if there are none."},
      {"differ", "1", "Share of the others on which separate and fused end in different weights; null if there are none."},
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
            const std::uint64_t w = encode(f, {}, weights.sample(seed + 1, i)).code, g = encode(f, {}, gradients.sample(seed, i)).code;
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
            if (mode == RoundingMode::stochastic || f.precision() > 26 || (raised & flag::overflow)) continue;  // there a weight stays for another reason
            ++piece.counts.checked;
            piece.counts.wrong += fused_lost != swamped_by_definition(f, mode, w, update);
          }
          return piece;
        });
        for (const auto& piece : pieces) {
          sum.merge(piece.counts);
          run.trace.append(piece.trace);
        }
        run.progress(0.1 + 0.6 * (done + static_cast<double>(start + n) / static_cast<double>(count)) / static_cast<double>(formats.size() * modes.size()));
      }
      done += 1;
      checked += sum.checked;
      wrong += sum.wrong;
      const auto share = [&](std::uint64_t part, std::uint64_t whole) {
        return whole ? number(static_cast<double>(part) / static_cast<double>(whole)) : Json();
      };
      const std::uint64_t updated = sum.total - sum.no_update;
      table.row({choice.name, name_of(mode), sum.total, share(sum.no_update, sum.total), share(sum.separate_lost, updated),
                 share(sum.fused_lost, updated), share(sum.differ, updated)});
    }
  const std::string statement = "A fused update of a random weight is lost exactly where the exact lr * g lies on the near side of the rounding mode's threshold, unless it overflows";
  const char* source = "derived: the definitions of the rounding modes on the gap between neighbouring numbers";
  if (checked != 0) run.report.claim(exactly("every-random-update", fmt::format("{} ({} updates).", statement, checked), source, 0, wrong, "oracle"));
  else run.report.claim(skipped("every-random-update", statement + ".", source, "no random update that is not zero, under a deterministic mode, in at most 26 bits, without overflow"));
}

}  // namespace halfulp
