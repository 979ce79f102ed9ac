// What rounded position ids do to rotary angles and to ALiBi's biases, over every position.
#include <halfulp/experiments/position_ids/position_ids.hpp>
#include <halfulp/experiments/publications.hpp>
#include <halfulp/report/trials.hpp>

#include <halfulp/support/work.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

namespace halfulp::positions {
namespace {

/// What one set-up gets wrong over some positions.
struct PositionErrors {
  double value = 0, cosine = 0, cosine_sum = 0, cosine_change = 0;  ///< change: against FP32 instead of exact
  double worst = 0;                                                 ///< of cosine for angles, of value for biases
  std::int64_t worst_position = 0;
  std::size_t worst_factor = 0, count = 0, non_finite = 0;

  void take(double error, std::int64_t position, std::size_t factor) {
    if (error > worst) worst = error, worst_position = position, worst_factor = factor;
  }
  void merge(const PositionErrors& o) {
    take(o.worst, o.worst_position, o.worst_factor);
    value = std::max(value, o.value), cosine = std::max(cosine, o.cosine),
    cosine_change = std::max(cosine_change, o.cosine_change);
    cosine_sum += o.cosine_sum, count += o.count, non_finite += o.non_finite;
  }
  double cosine_mean() const { return count == non_finite ? 0 : cosine_sum / static_cast<double>(count - non_finite); }
};

template <class V>
void fields(V& v, PositionErrors& e) {
  v("value", e.value);
  v("cosine", e.cosine);
  v("cosine_sum", e.cosine_sum);
  v("cosine_change", e.cosine_change);
  v("worst", e.worst);
  v("worst_position", e.worst_position);
  v("worst_factor", e.worst_factor);
  v("count", e.count);
  v("non_finite", e.non_finite);
}

/// Errors by format and set-up. FP32's own are in the first format's row.
using Errors = std::vector<std::array<PositionErrors, setups.size()>>;

double rounded(const FloatFormat& f, double x) { return f.value(encode(f, {}, x).code); }

/// Cosines of a format's angles, rounded into it: once for each code word where those are few.
class AngleCosines {
 public:
  AngleCosines(const FloatFormat& f, double largest) : format_(f) {
    if (f.storage_bits() > 19) return;
    by_code_.resize(std::size_t{1} << f.storage_bits());
    for (std::size_t code = 0; code < by_code_.size(); ++code)
      if (const double angle = f.value(code); std::fabs(angle) <= largest) by_code_[code] = of(angle);
  }
  double operator()(std::uint64_t code) const { return by_code_.empty() ? of(format_.value(code)) : by_code_[code]; }

 private:
  double of(double angle) const { return rounded(format_, cosine({angle, 0})); }
  FloatFormat format_;
  std::vector<double> by_code_;
};

/// All formats at some positions; what they share, exact and FP32 values, is computed once.
class Sweep {
 public:
  Sweep(const std::vector<FormatChoice>& formats, const PositionFactors& factors, bool rotary, std::int64_t positions)
      : factors_(factors), rotary_(rotary) {
    for (const FormatChoice& choice : formats) {
      formats_.push_back(choice.format);
      // No angle is more than twice the last position: a narrow format may round up to the next power of two.
      if (rotary) cosines_.emplace_back(choice.format, 2.0 * static_cast<double>(positions));
    }
  }

  /// Errors at some positions, format after format.
  struct Piece {
    std::vector<PositionErrors> errors;
    const PositionErrors& at(std::size_t format, std::size_t setup) const {
      return errors[format * setups.size() + setup];
    }
    template <class V>
    friend void fields(V& v, Piece& p) {
      v("errors", p.errors);
    }
  };
  Piece look_at(std::int64_t first, std::int64_t end, Trace& trace) const {
    Piece piece{std::vector<PositionErrors>(formats_.size() * setups.size())};
    const std::size_t n = factors_.exact.size();
    Shared shared{std::vector<TwoDoubles>(n), std::vector<double>(n), std::vector<double>(n)};
    std::vector<Narrow> narrow;
    for (const FloatFormat& f : formats_) narrow.push_back({PositionTimesFactor(f, factors_, &trace), {}});
    for (std::int64_t position = first; position < end; ++position) {
      for (std::size_t i = 0; i < n; ++i) {
        shared.exact[i] = times(static_cast<double>(position), factors_.exact[i]);
        if (rotary_) shared.cosine[i] = cosine(shared.exact[i]);
      }
      for (std::size_t f = 0; f < formats_.size(); ++f)
        for (const auto& row : setups) {
          const bool own = row.value != Setup::fp32 || f == 0;
          if (own && (rotary_ || concerns_biases(row.value))) add(f, row.value, position, narrow[f], shared, piece);
        }
    }
    return piece;
  }

 private:
  struct Shared {
    std::vector<TwoDoubles> exact;
    std::vector<double> cosine, fp32_cosine;
  };
  /// Products and cosines of the last id of each set-up: neighbours that share an id share them.
  struct Latest {
    std::uint64_t id = ~std::uint64_t{0};
    std::vector<double> value, cosine;
  };
  struct Narrow {
    PositionTimesFactor times;
    std::array<Latest, setups.size()> latest;
  };

  void compute(std::size_t f, Setup setup, PositionTimesFactor& product, Latest& latest) const {
    const FloatFormat &cosines = product.cosine_format(setup), &format = product.format_of(setup);
    const bool own = format == formats_[f], floats = format == fp32;
    latest.value.resize(factors_.exact.size()), latest.cosine.resize(factors_.exact.size());
    for (std::size_t i = 0; i < factors_.exact.size(); ++i) {
      const std::uint64_t code = product(setup, latest.id, i);
      const double value = floats ? double{std::bit_cast<float>(static_cast<std::uint32_t>(code))} : format.value(code);
      latest.value[i] = value;
      if (!rotary_ || !std::isfinite(value)) continue;
      latest.cosine[i] = own ? cosines_[f](code) : rounded(cosines, cosine({value, 0}));
    }
  }

  void add(std::size_t f, Setup setup, std::int64_t position, Narrow& narrow, Shared& shared, Piece& piece) const {
    PositionErrors& sum = piece.errors[f * setups.size() + static_cast<std::size_t>(setup)];
    PositionErrors e = sum;  // registers, where compilers see that nothing else is written
    Latest& latest = narrow.latest[static_cast<std::size_t>(setup)];
    if (const std::uint64_t id = narrow.times.id(setup, position); id != latest.id) {
      latest.id = id;
      compute(f, setup, narrow.times, latest);
    }
    if (setup == Setup::fp32) shared.fp32_cosine = latest.cosine;
    for (std::size_t i = 0; i < factors_.exact.size(); ++i) {
      const double value = latest.value[i];
      ++e.count;
      if (!std::isfinite(value) || !std::isfinite(latest.cosine[i])) {
        ++e.non_finite;
        continue;
      }
      double off = (value - shared.exact[i].high) - shared.exact[i].low;
      if (setup == Setup::wrapped) off = std::remainder(off, 4 * half_pi_high);
      e.value = std::max(e.value, std::fabs(off));
      if (!rotary_) {
        e.take(std::fabs(off), position, i);
        continue;
      }
      const double error = std::fabs(latest.cosine[i] - shared.cosine[i]);
      e.take(error, position, i);
      e.cosine = std::max(e.cosine, error);
      e.cosine_sum += error;
      e.cosine_change = std::max(e.cosine_change, std::fabs(latest.cosine[i] - shared.fp32_cosine[i]));
    }
    sum = e;
  }

  std::vector<FloatFormat> formats_;
  PositionFactors factors_;
  bool rotary_;
  std::vector<AngleCosines> cosines_;
};

/// Errors over positions 0 ... length - 1 for each length (ascending), pieces in parallel. Progress goes from `from` to
/// `to`, unless they are equal.
std::vector<Errors> sweep(const std::vector<FormatChoice>& formats, const PositionFactors& factors, bool rotary,
                          const std::vector<std::int64_t>& lengths, Run& run, double from = 0, double to = 0) {
  constexpr std::int64_t piece_positions = 256;
  struct Range {
    std::int64_t begin, end;
  };
  std::vector<Range> ranges;
  for (const std::int64_t length : lengths)
    for (std::int64_t begin = ranges.empty() ? 0 : ranges.back().end; begin < length; begin = ranges.back().end)
      ranges.push_back({begin, std::min(length, begin + piece_positions)});

  Json shared{{"formats", Json::array()}, {"rotary", rotary}, {"positions", lengths.back()}};
  for (const FormatChoice& choice : formats) shared["formats"].push_back(format_name(choice.format));
  std::vector<double> numbers(factors.fp32.begin(), factors.fp32.end());
  for (const TwoDoubles& factor : factors.exact) numbers.insert(numbers.end(), {factor.high, factor.low});
  shared["factors"] = digest_of(numbers);
  std::vector<Trial> asked;
  for (const Range& range : ranges) {
    Json item = shared;
    item["begin"] = range.begin, item["end"] = range.end;
    asked.push_back({fmt::format("{} {}-{}", rotary ? "rotary" : "alibi", range.begin, range.end), std::move(item)});
  }
  const Sweep positions(formats, factors, rotary, lengths.back());
  const auto pieces = trials<Sweep::Piece>(run, {"positions", 1}, asked, from, to, [&](std::size_t i, Trace& trace) {
    // Every piece hands on as many operands, so that those replayed on devices come from the whole context.
    Trace own(trace.limit() / static_cast<std::size_t>(lengths.back() / piece_positions + 1) + 1);
    Sweep::Piece piece = positions.look_at(ranges[i].begin, ranges[i].end, own);
    trace.append(own);
    return piece;
  });

  std::vector<Errors> by_length;
  Errors so_far(formats.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    for (std::size_t f = 0; f < formats.size(); ++f)
      for (std::size_t s = 0; s < setups.size(); ++s) so_far[f][s].merge(pieces[i].at(f, s));
    if (ranges[i].end == lengths[by_length.size()]) by_length.push_back(so_far);
  }
  return by_length;
}

// Claims.

/// EleutherAI/gpt-neox #1003: dim 32, base 10000, positions 0 ... 2047, fp16 against FP32 on the same machine.
void gpt_neox(Run& run) {
  const Citation source{publications::rotary_angles, "EleutherAI/gpt-neox #1003"};
  const PositionFactors factors = rope_frequencies(32, 10000, run.trace);
  PositionTimesFactor times(fp16, factors, &run.trace);
  const auto angle = [&](Setup setup) { return times.format_of(setup).value(times(setup, times.id(setup, 1857), 1)); };
  run.report.claim({"gpt-neox-angle-fp32",
                    "RoPE with 32 dimensions: the FP32 angle of position 1857, pair 1, is 1044.2678.", source},
                   within(1044.2678, 5e-5, angle(Setup::fp32), may_differ()));
  run.report.claim(
      {"gpt-neox-angle-fp16", "With position, frequency and product in fp16 the same angle is 1045.", source},
      exactly(1045.0, angle(Setup::all), "published"));
  const auto errors = sweep({{"fp16", fp16}}, factors, true, {2048}, run).back().front();
  run.report.claim(
      {"gpt-neox-cosine-all-fp16",
       "Positions, frequencies, angles and cosines in fp16: the largest change of a cosine against FP32 is 0.7819.",
       source},
      within(0.7819, 5e-5, errors[static_cast<std::size_t>(Setup::all)].cosine_change, may_differ()));
  run.report.claim({"gpt-neox-cosine-angle-cast",
                    "If only the FP32 angle is cast to fp16 (and its cosine rounded), the largest change is 0.490.",
                    {publications::rotary_angles, source.text + ", its set-up with inv_freq left in FP32"}},
                   within(0.490, 5e-4, errors[static_cast<std::size_t>(Setup::value)].cosine_change, may_differ()));
}

void alibi_claims(Run& run) {
  Json slopes = Json::array(), expected = Json::array();
  for (const TwoDoubles& m : alibi_slopes(8).exact) slopes.push_back(m.high + m.low);
  for (int h = 1; h <= 8; ++h) expected.push_back(FloatFormat::power_of_two(-h));
  run.report.claim({"alibi-slopes-8-heads",
                    "ALiBi's slopes for 8 heads are 1/2, 1/4, ..., 1/256: powers of two.",
                    {publications::alibi_slopes, "Press, Smith & Lewis 2022, section 3"}},
                   exactly(expected, slopes, "published"));
}

/// What follows from the spacing of ids and, where phases are spread evenly, from chance.
class ErrorClaims {
 public:
  ErrorClaims(const PositionFactors& frequencies, const PositionFactors& slopes)
      : frequencies_(frequencies), slopes_(slopes) {}

  void take(const FormatChoice& choice, std::int64_t tokens, const std::array<PositionErrors, setups.size()>& angles,
            const std::array<PositionErrors, setups.size()>& biases) {
    const auto of = [](const auto& errors, Setup setup) { return errors[static_cast<std::size_t>(setup)]; };
    const std::string key = fmt::format("{} {}", choice.name, tokens);
    const FloatFormat& f = choice.format;
    const double fp32_error = 3.001 * FloatFormat::power_of_two(-24) * static_cast<double>(tokens);
    if (f.is_signed && f.emin() < 0 && f.value(f.max_finite()) >= 4) {
      // Half a unit of the values from 1/2 to 1, and of those from 2 to 4.
      cosine_.take(of(angles, Setup::cosine).cosine, FloatFormat::power_of_two(-f.precision() - 1) + fp32_error);
      wrapped_.take(of(angles, Setup::wrapped).value, FloatFormat::power_of_two(1 - f.precision()) + fp32_error);
    }
    if (!counts_in_ones(f)) return;
    const RoundedIds ids = rounded_ids(f, tokens);
    const PositionErrors& e = of(angles, Setup::ids);
    lost_[key] = share(static_cast<std::uint64_t>(tokens - ids.finite), static_cast<std::uint64_t>(tokens));
    lost_measured_[key] = share(e.non_finite, e.count);
    if (ids.largest_error == 0) return;
    largest_[key] = ids.largest_error;
    largest_measured_[key] = e.value;
    // FP32 rounds the slope and the product.
    const double slope = slopes_.exact.front().high,
                 fp32_product = 2.001 * FloatFormat::power_of_two(-24) * slope * static_cast<double>(tokens);
    bias_.take(std::fabs(of(biases, Setup::ids).value - ids.largest_error * slope), fp32_product);
    // Formats without infinities and NaN make the largest value of all ids beyond it: one phase, not random ones.
    const bool clamped = ids.finite == tokens && f.value(f.max_finite()) < static_cast<double>(tokens - 1);
    if (tokens >= 2048 && ids.finite >= 256 && !clamped && frequencies_.exact.size() >= 16)
      mean_.take(std::fabs(e.cosine_mean() / by_chance(f, tokens) - 1), 0);
  }

  void make(Run& run) const {
    const std::string none = "no format here has rounded ids within these lengths";
    const auto claim = [&](const char* id, const char* statement, const char* source, bool any, Judgement judgement) {
      run.report.claim({id, statement, source}, any ? std::move(judgement) : skipped(none));
    };
    claim("ids-angle-error-is-half-a-spacing",
          "Rounded ids put the fastest angle (frequency 1) off by at most half the distance between neighbouring ids.",
          "derived: rounding to nearest; the last binade that the context reaches", !largest_.empty(),
          exactly(largest_, largest_measured_, "oracle"));
    claim("ids-beyond-the-range", "The share of angles that are lost is that of ids beyond the format's range.",
          "derived: ids from the largest value and half a unit on overflow", !lost_.empty(),
          exactly(lost_, lost_measured_, "oracle"));
    claim("ids-mean-cosine-error",
          "The mean error of cosines is that of random phases: an angle that is off by e at a random phase changes its "
          "cosine by 4/pi |sin(e/2)| on average. Relative difference at most 2 %.",
          "derived: the mean of |cos(x + e) - cos x| over x; contexts of 2048 tokens or more, 256 ids within the range",
          mean_.count > 0, at_most(0.02, mean_.worst, "oracle"));
    claim("ids-bias-error",
          "The first head's bias is off by its slope times half the distance between ids, and by no more than FP32's "
          "two roundings besides.",
          "derived: the slope and the product are rounded in FP32", bias_.count > 0,
          at_most(0.0, bias_.excess, "oracle"));
    claim(
        "cosine-alone-costs-half-a-unit",
        "If only cosine and sine are rounded, they are off by at most half a unit of the values below 1, and by FP32's "
        "own error.",
        "derived: |cos| <= 1", cosine_.count > 0, at_most(0.0, cosine_.excess, "oracle"));
    claim(
        "wrapped-angles-do-not-grow",
        "An angle reduced to [-pi, pi] before it is rounded is off by at most half the unit of values from 2 to 4, and "
        "by FP32's own error.",
        "derived: pi < 4", wrapped_.count > 0, at_most(0.0, wrapped_.excess, "oracle"));
  }

 private:
  /// The worst of some deviations, and by how much any went beyond its bound.
  struct Worst {
    double worst = 0, excess = 0;
    std::size_t count = 0;
    void take(double x, double bound) { worst = std::max(worst, x), excess = std::max(excess, x - bound), ++count; }
  };

  /// Mean over positions with finite ids and over frequencies of 4/pi |sin(frequency (id - position) / 2)|.
  double by_chance(const FloatFormat& f, std::int64_t tokens) const {
    // Ids are off by few different distances: how often each occurs is enough.
    std::map<double, std::size_t> distances;
    std::size_t count = 0;
    for (std::int64_t n = 0; n < tokens; ++n) {
      const double id = rounded(f, static_cast<double>(n));
      if (std::isfinite(id)) ++distances[std::fabs(id - static_cast<double>(n))], ++count;
    }
    double sum = 0;
    for (const auto& [distance, times] : distances)
      for (const TwoDoubles& frequency : frequencies_.exact)
        sum += static_cast<double>(times) * std::fabs(sine({frequency.high * distance / 2, 0}));
    return 2 / half_pi_high * sum / static_cast<double>(count * frequencies_.exact.size());
  }

  const PositionFactors &frequencies_, &slopes_;
  Json largest_ = Json::object(), largest_measured_ = Json::object(), lost_ = Json::object(),
       lost_measured_ = Json::object();
  Worst mean_, bias_, cosine_, wrapped_;
};

}  // namespace

RoundedIds rounded_ids(const FloatFormat& f, std::int64_t tokens) {
  const double max = f.value(f.max_finite()), end = max + FloatFormat::power_of_two(f.emax() - f.fraction_bits) / 2;
  RoundedIds ids{0, tokens};
  std::int64_t last = tokens - 1;
  if (!f.has_infinity() && !f.has_nan()) {  // ids beyond the range are the largest value
    ids.largest_error = std::max(0.0, static_cast<double>(last) - max);
    last = std::min(last, static_cast<std::int64_t>(max));
  } else if (static_cast<double>(last) >= end) {
    const bool tie_stays = (f.max_finite() & 1) == 0 && end == std::floor(end);
    last = static_cast<std::int64_t>(std::ceil(end)) - (tie_stays ? 0 : 1);
    ids.finite = last + 1;
  }
  const int k = std::bit_width(static_cast<std::uint64_t>(last)) - 1;
  if (k < f.precision()) return ids;
  const std::int64_t spacing = std::int64_t{1} << (k - f.precision() + 1), binade = std::int64_t{1} << k;
  ids.largest_error = std::max(ids.largest_error,
                               static_cast<double>(std::max(spacing / 4, std::min(last - binade, spacing / 2))));
  return ids;
}

std::vector<std::int64_t> context_lengths(const Config& config) {
  std::vector<std::int64_t> lengths = config.integers("lengths");
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

void position_errors(const Config& config, Run& run) {
  std::vector<FormatChoice> formats = config.formats("formats");
  // FP32 is shown once, as set-up fp32 of the first format.
  if (formats.size() > 1) std::erase_if(formats, [](const FormatChoice& choice) { return choice.format == fp32; });
  const auto lengths = context_lengths(config);
  const auto dim = static_cast<int>(config.integer("rope_dim")),
             heads = static_cast<int>(config.integer("alibi_heads"));
  const Column format{"format", "", "Low-precision format; FP32 alone appears once, as the repair."};
  const Column setup{
      "setup", "",
      "What is rounded to it, the rest being FP32. ids: position ids; factors: frequencies or slopes; "
      "value: the product, and the cosine of an angle; wrapped: the same, the angle reduced to [-pi, pi] "
      "before; cosine: cosine and sine alone; all: ids, factors, product and cosine; fp32: nothing."};
  const Column tokens{"tokens", "token", "Context length N: positions 0 to N - 1, all of them."};
  const Column lost{"non_finite", "1", "Share of values that are Infinity or NaN; they are left out of the errors."};
  Table& rope = run.report.table(
      "rope", fmt::format("Rotary embeddings of {} dimensions: errors of angles and cosines", dim),
      {format,
       setup,
       tokens,
       {"max_angle_error", "rad", "Largest |angle - exact angle|, whole turns left out where angles are wrapped."},
       {"max_cos_error", "1", "Largest |cosine - exact cosine|."},
       {"mean_cos_error", "1", "Mean of |cosine - exact cosine| over positions and frequencies."},
       {"max_cos_change", "1", "Largest |cosine - the FP32 computation's cosine|."},
       {"worst_position", "token", "Position of the largest cosine error."},
       {"worst_pair", "1", "Number i of its pair of dimensions; the frequency is base^(-2i/dim)."},
       lost});
  Table& alibi = run.report.table(
      "alibi", fmt::format("ALiBi with {} heads: errors of the bias slope * distance", heads),
      {format,
       setup,
       tokens,
       {"max_bias_error", "logit",
        "Largest |bias - exact bias|; a logit that is off by x scales an attention weight by e^x."},
       {"worst_distance", "token", "Distance of the largest bias error."},
       {"worst_head", "1", "Number h of its head; the slope is 2^(-8h/heads)."},
       lost});

  Trace factors_trace(run.trace.limit());
  const PositionFactors frequencies = rope_frequencies(dim, config.real("rope_base"), factors_trace),
                        slopes = alibi_slopes(heads);
  run.trace.append(factors_trace);
  const auto angles = sweep(formats, frequencies, true, lengths, run, 0.2, 0.6);
  const auto biases = sweep(formats, slopes, false, lengths, run, 0.6, 0.8);
  ErrorClaims claims(frequencies, slopes);
  for (std::size_t f = 0; f < formats.size(); ++f) {
    for (const auto& row : setups) {
      const bool repair = row.value == Setup::fp32;
      if (repair ? f != 0 : formats[f].format == fp32) continue;
      const std::string name = repair ? "fp32" : formats[f].name;
      for (std::size_t l = 0; l < lengths.size(); ++l) {
        const PositionErrors& a = angles[l][f][static_cast<std::size_t>(row.value)];
        const PositionErrors& b = biases[l][f][static_cast<std::size_t>(row.value)];
        rope.row({name, row.name, lengths[l], a.value, a.cosine, a.cosine_mean(), a.cosine_change, a.worst_position,
                  a.worst_factor, share(a.non_finite, a.count)});
        if (concerns_biases(row.value))
          alibi.row({name, row.name, lengths[l], b.value, b.worst_position, b.worst_factor + 1,
                     share(b.non_finite, b.count)});
      }
    }
    if (formats[f].format == fp32) continue;
    for (std::size_t l = 0; l < lengths.size(); ++l) claims.take(formats[f], lengths[l], angles[l][f], biases[l][f]);
  }
  // Three roundings of at most half a unit: the power, its reciprocal, the product; the cosine itself is one more.
  run.report.claim(
      {"fp32-ids-repair-rope", "With FP32 ids, angles are off by at most 3 * 2^-24 of the longest context.",
       "derived: three roundings to nearest"},
      at_most(3.001 * FloatFormat::power_of_two(-24) * static_cast<double>(lengths.back()),
              angles.back().front()[static_cast<std::size_t>(Setup::fp32)].value, "oracle"));
  claims.make(run);
  gpt_neox(run);
  alibi_claims(run);
}

}  // namespace halfulp::positions
