// What becomes of attention scores when rotary embeddings are computed in low precision.
#include <halfulp/experiments/position_ids/position_ids.hpp>

#include <halfulp/support/work.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/data/distributions.hpp>

#include <fmt/format.h>

#include <cmath>

namespace halfulp::positions {
namespace {

/// Streams of random numbers, by what they are for.
enum Stream : std::uint64_t { queries = 1, keys, places, distances };
constexpr std::int64_t near = 64;  ///< keys are fewer tokens behind their query: attention looks there most

/// A query and a key before rotation, standard normal, and where their tokens stand.
struct Pair {
  std::vector<double> query, key;
  std::int64_t position = 0, distance = 0;
};

std::vector<Pair> draw(std::size_t count, int dim, std::int64_t tokens, std::uint64_t seed) {
  std::vector<Pair> pairs(count);
  for (std::size_t p = 0; p < count; ++p) {
    Pair& pair = pairs[p];
    for (int i = 0; i < dim; ++i) {
      const std::uint64_t index = p * static_cast<std::size_t>(dim) + static_cast<std::size_t>(i);
      pair.query.push_back(normal_sample(seed, queries, index));
      pair.key.push_back(normal_sample(seed, keys, index));
    }
    // In the second half of the context, so that the next token is in it too.
    const auto half = static_cast<std::uint64_t>(tokens / 2);
    pair.position = tokens - 2 -
                    static_cast<std::int64_t>(random_below(std::max<std::uint64_t>(1, half - 1), seed, places, p));
    const auto reach = static_cast<std::uint64_t>(std::min(near, pair.position + 1));
    pair.distance = static_cast<std::int64_t>(random_below(reach, seed, distances, p));
  }
  return pairs;
}

/// One set-up's rotations of one format.
class Rotations {
 public:
  Rotations(const FloatFormat& f, Setup setup, const PositionFactors& factors, Trace* trace)
      : times_(f, factors, trace), setup_(setup) {}

  /// The score of a pair whose query stands `shift` tokens further on; NaN where an angle is no number.
  double score(const Pair& pair, std::int64_t shift) {
    const std::uint64_t q = times_.id(setup_, pair.position + shift),
                        k = times_.id(setup_, pair.position + shift - pair.distance);
    double sum = 0;
    for (std::size_t i = 0; 2 * i < pair.query.size(); ++i) {
      const auto [qc, qs] = rotation(q, i);
      const auto [kc, ks] = rotation(k, i);
      const double q0 = pair.query[2 * i], q1 = pair.query[2 * i + 1], k0 = pair.key[2 * i], k1 = pair.key[2 * i + 1];
      sum += (q0 * qc - q1 * qs) * (k0 * kc - k1 * ks) + (q0 * qs + q1 * qc) * (k0 * ks + k1 * kc);
    }
    return sum / std::sqrt(static_cast<double>(pair.query.size()));
  }

 private:
  /// Cosine and sine of an id's angle, rounded as the set-up has it.
  std::array<double, 2> rotation(std::uint64_t id, std::size_t factor) {
    const double angle = times_.format_of(setup_).value(times_(setup_, id, factor));
    if (!std::isfinite(angle)) return {std::nan(""), std::nan("")};
    const FloatFormat& f = times_.cosine_format(setup_);
    return {f.value(encode(f, {}, cosine({angle, 0})).code), f.value(encode(f, {}, sine({angle, 0})).code)};
  }

  PositionTimesFactor times_;
  Setup setup_;
};

/// Only the distance counts: the sum over pairs of |q||k| cos(angle between them + frequency * distance).
double exact_score(const Pair& pair, const PositionFactors& factors) {
  double sum = 0;
  for (std::size_t i = 0; i < factors.exact.size(); ++i) {
    const TwoDoubles angle = times(static_cast<double>(pair.distance), factors.exact[i]);
    const double q0 = pair.query[2 * i], q1 = pair.query[2 * i + 1], k0 = pair.key[2 * i], k1 = pair.key[2 * i + 1];
    sum += (q0 * k0 + q1 * k1) * cosine(angle) + (q0 * k1 - q1 * k0) * sine(angle);
  }
  return sum / std::sqrt(static_cast<double>(pair.query.size()));
}

struct ScoreErrors {
  double squares = 0, largest = 0, shift_squares = 0;
  std::size_t count = 0;
  double chance = 0;  ///< sum over pairs of the expected square, where ids are rounded
  Trace trace;

  double rms() const { return std::sqrt(squares / static_cast<double>(count)); }
  double shift_rms() const { return std::sqrt(shift_squares / static_cast<double>(count)); }
};

ScoreErrors measure(const FloatFormat& f, Setup setup, const PositionFactors& factors, const std::vector<Pair>& pairs,
                    std::size_t trace_limit) {
  ScoreErrors e;
  e.trace = Trace(trace_limit);
  Rotations rotations(f, setup, factors, &e.trace);
  const auto id = [&](std::int64_t n) { return f.value(encode(f, {}, static_cast<double>(n)).code); };
  for (const Pair& pair : pairs) {
    const double exact = exact_score(pair, factors), here = rotations.score(pair, 0), there = rotations.score(pair, 1);
    if (!std::isfinite(here) || !std::isfinite(there)) continue;
    ++e.count;
    e.squares += (here - exact) * (here - exact);
    e.largest = std::max(e.largest, std::fabs(here - exact));
    e.shift_squares += (there - here) * (there - here);
    // A random pair's score changes with variance 4 sin^2(frequency (distance's error) / 2), the mean over pairs.
    const std::int64_t key = pair.position - pair.distance;
    const double off = id(pair.position) - id(key) - static_cast<double>(pair.distance);
    for (const TwoDoubles& frequency : factors.exact) {
      const double s = sine({frequency.high * off / 2, 0});
      e.chance += 4 * s * s / static_cast<double>(factors.exact.size());
    }
  }
  return e;
}

}  // namespace

void attention_scores(const Config& config, Run& run) {
  const auto formats = config.formats("formats");
  const auto lengths = context_lengths(config);
  const auto dim = static_cast<int>(config.integer("rope_dim")) / 2 * 2;
  const auto count = static_cast<std::size_t>(config.integer("score_pairs"));
  Table& table = run.report.table(
      "scores",
      fmt::format("Attention scores after rotation: {} random pairs of query and key, {} dimensions", count, dim),
      {{"format", "", "Low-precision format; plain FP32 appears once, as the repair."},
       {"setup", "", "What is rounded to it, as in table rope."},
       {"tokens", "token",
        fmt::format("Context length N: queries stand in its second half, keys fewer than {} tokens before them.",
                    near)},
       {"rms_error", "logit",
        "Root mean square of score - exact score, where score = q.k / sqrt(dimensions) has standard deviation 1."},
       {"max_error", "logit", "Largest |score - exact score|; an attention weight is off by that power of e."},
       {"shift_error", "logit",
        "Root mean square of the change when both tokens move on by one; exactly, it is 0: only their distance "
        "counts."},
       {"non_finite", "1", "Share of scores that are no numbers; they are left out of the errors."}});
  const PositionFactors frequencies = rope_frequencies(dim, config.real("rope_base"), run.trace);
  double worst_by_chance = 0, worst_repair = 0;
  std::size_t by_chance = 0, repaired = 0;
  for (const std::int64_t tokens : lengths) {
    if (tokens < 4) continue;  // no room for a query, a key and the next token
    const std::vector<Pair> pairs = draw(count, dim, tokens, static_cast<std::uint64_t>(config.integer("seed")));
    struct Part {
      const FormatChoice* choice;
      Setup setup;
      std::string_view name;
    };
    std::vector<Part> parts;
    for (const FormatChoice& choice : formats)
      for (const auto& row : setups)
        if (row.value == Setup::fp32 ? &choice == &formats.front() : choice.format != fp32)
          parts.push_back({&choice, row.value, row.name});
    const auto errors = parallel_map(parts.size(), [&](std::size_t i) {
      return measure(parts[i].choice->format, parts[i].setup, frequencies, pairs, run.trace.limit() / 64);
    });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const ScoreErrors& e = errors[i];
      const bool any = e.count != 0;
      table.row({parts[i].setup == Setup::fp32 ? "fp32" : parts[i].choice->name, parts[i].name, tokens,
                 any ? number(e.rms()) : Json(), any ? number(e.largest) : Json(), any ? number(e.shift_rms()) : Json(),
                 share(count - e.count, count)});
      run.trace.append(e.trace);
      const FloatFormat& f = parts[i].choice->format;
      if (parts[i].setup == Setup::ids && e.count >= 200 && dim >= 64 &&
          e.chance > 0.01 * static_cast<double>(e.count)) {
        worst_by_chance = std::max(worst_by_chance, std::fabs(std::sqrt(e.squares / e.chance) - 1));
        ++by_chance;
      }
      if (parts[i].setup == Setup::cosine && f.is_signed && f.emin() < 0) {
        // Four factors a product, each off by a random part of half a unit: well below two units of values below 1.
        const double fp32_error = 3.001 * FloatFormat::power_of_two(-24) * static_cast<double>(tokens);
        worst_repair = std::max(worst_repair,
                                e.rms() / (FloatFormat::power_of_two(1 - f.precision()) + 2 * fp32_error));
        ++repaired;
      }
    }
    run.progress(0.8 + 0.2 * static_cast<double>(&tokens - lengths.data() + 1) / static_cast<double>(lengths.size()));
  }
  run.report.claim(
      {"scores-by-chance",
       "With rounded ids, the errors of scores are random: their variance is 4 sin^2(frequency e / 2), averaged over "
       "frequencies, where e is the error of the distance. Relative difference at most 20 %.",
       "derived: random queries and keys are independent of the angles"},
      by_chance ? at_most(0.2, worst_by_chance, "oracle")
                : skipped("no 200 pairs of 64 dimensions or more have scores here that are off by more than a tenth"));
  run.report.claim({"rounded-cosines-keep-scores",
                    "If only cosine and sine are rounded, scores are off by less than a unit of the values below 1 on "
                    "average, and by twice FP32's own error.",
                    "derived: each of four factors is off by at most half a unit"},
                   repaired ? at_most(1.0, worst_repair, "oracle")
                            : skipped("formats contains no format with a sign and values below 1"));
}

}  // namespace halfulp::positions
