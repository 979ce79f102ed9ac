// What rounded position ids do to rotary angles and to ALiBi's biases.
#include <halfulp/experiments/position_ids/position_ids.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/support/work.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <boost/multiprecision/cpp_bin_float.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace halfulp::positions {
namespace {

using Precise = boost::multiprecision::cpp_bin_float_100;
constexpr std::int64_t dense = 8192, stride = 17;  // an odd stride: no favour to positions that are exact

TwoDoubles split(const Precise& x) {
  const auto high = static_cast<double>(x);
  return {high, static_cast<double>(Precise(x - high))};
}

/// What one set-up gets wrong over some positions.
struct PositionErrors {
  double value = 0, cosine = 0, cosine_sum = 0, cosine_change = 0;  ///< change: against FP32 instead of exact
  std::int64_t worst_position = 0;
  std::size_t worst_factor = 0, count = 0, non_finite = 0;

  void merge(const PositionErrors& o) {
    if (o.cosine > cosine || (cosine == 0 && o.cosine == 0 && o.value > value))
      worst_position = o.worst_position, worst_factor = o.worst_factor;
    value = std::max(value, o.value), cosine = std::max(cosine, o.cosine),
    cosine_change = std::max(cosine_change, o.cosine_change);
    cosine_sum += o.cosine_sum, count += o.count, non_finite += o.non_finite;
  }
};

struct Piece {
  std::array<PositionErrors, setups.size()> errors;
  Trace trace;
};

/// Positions first, first + step, ... below end, all factors, all set-ups. Cosines only where `rotary`.
Piece look_at(const FloatFormat& f, const PositionFactors& factors, bool rotary, std::int64_t first, std::int64_t end,
              std::int64_t step, std::size_t limit) {
  Piece piece{{}, Trace(limit)};
  PositionTimesFactor times_factor(f, factors, &piece.trace);
  for (std::int64_t position = first; position < end; position += step) {
    for (std::size_t i = 0; i < factors.exact.size(); ++i) {
      const TwoDoubles exact = times(static_cast<double>(position), factors.exact[i]);
      const double exact_cosine = rotary ? cosine(exact) : 0;
      double fp32_cosine = 0;
      for (const auto& row : setups) {
        PositionErrors& e = piece.errors[static_cast<std::size_t>(row.value)];
        const double value = times_factor.format_of(row.value).value(times_factor(row.value, position, i));
        ++e.count;
        if (!std::isfinite(value)) {
          ++e.non_finite;
          continue;
        }
        const double off = std::fabs((value - exact.high) - exact.low);
        if (!rotary) {
          if (off > e.value) e.worst_position = position, e.worst_factor = i;
          e.value = std::max(e.value, off);
          continue;
        }
        const double c = times_factor.rounded_cosine(row.value, value);
        if (row.value == Setup::fp32) fp32_cosine = c;
        const double error = std::fabs(c - exact_cosine);
        if (error > e.cosine) e.cosine = error, e.worst_position = position, e.worst_factor = i;
        e.value = std::max(e.value, off);
        e.cosine_sum += error;
        e.cosine_change = std::max(e.cosine_change, std::fabs(c - fp32_cosine));
      }
    }
  }
  return piece;
}

/// Errors of every set-up over positions 0 ... length - 1 for each length (ascending), pieces in parallel.
std::vector<std::array<PositionErrors, setups.size()>> sweep(const FloatFormat& f, const PositionFactors& factors,
                                                             bool rotary, const std::vector<std::int64_t>& lengths,
                                                             Trace& trace, const std::function<void()>& tick) {
  std::vector<std::array<PositionErrors, setups.size()>> by_length;
  std::array<PositionErrors, setups.size()> so_far{};
  constexpr std::int64_t piece_positions = 512;
  std::int64_t first = 0;
  for (const std::int64_t length : lengths) {
    struct Part {
      std::int64_t first, end, step;
    };
    std::vector<Part> parts;
    while (first < length) {
      const std::int64_t step = first < dense ? 1 : stride;
      const std::int64_t end = std::min({length, first + piece_positions * step, first < dense ? dense : length});
      parts.push_back({first, end, step});
      first += (end - first + step - 1) / step * step;
    }
    auto pieces = parallel_map(parts.size(), [&](std::size_t i) {
      return look_at(f, factors, rotary, parts[i].first, parts[i].end, parts[i].step, trace.limit() / 8);
    });
    for (const Piece& piece : pieces) {
      for (std::size_t s = 0; s < setups.size(); ++s) so_far[s].merge(piece.errors[s]);
      trace.append(piece.trace);
    }
    by_length.push_back(so_far);
    tick();
  }
  return by_length;
}

// Claims.

/// EleutherAI/gpt-neox #1003: dim 32, base 10000, positions 0 ... 2047, fp16 against FP32 on the same machine.
void gpt_neox(Run& run) {
  const Citation source{publications::rotary_angles, "EleutherAI/gpt-neox #1003"};
  const PositionFactors factors = rope_frequencies(32, 10000, run.trace);
  PositionTimesFactor at(fp16, factors, &run.trace);
  run.report.claim({"gpt-neox-angle-fp32",
                    "RoPE with 32 dimensions: the FP32 angle of position 1857, pair 1, is 1044.2678.", source},
                   within(1044.2678, 5e-5, fp32.value(at(Setup::fp32, 1857, 1)), may_differ()));
  run.report.claim(
      {"gpt-neox-angle-fp16", "With position, frequency and product in fp16 the same angle is 1045.", source},
      exactly(1045.0, fp16.value(at(Setup::all, 1857, 1)), "published"));
  const auto errors = sweep(fp16, factors, true, {2048}, run.trace, [] {}).back();
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

std::vector<std::int64_t> ascending(std::vector<std::int64_t> lengths) {
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

}  // namespace

PositionFactors rope_frequencies(int dim, double base, Trace& trace) {
  PositionFactors factors;
  Arithmetic arithmetic(fp32, {}, &trace);
  const std::uint64_t one = encode(fp32, {}, 1).code;
  for (int i = 0; i < dim / 2; ++i) {
    const Precise power = pow(Precise(base), Precise(2 * i) / dim);
    factors.exact.push_back(split(Precise(1 / power)));
    factors.fp32.push_back(arithmetic.div(one, encode(fp32, {}, static_cast<double>(power)).code));
  }
  return factors;
}

PositionFactors alibi_slopes(int heads) {
  PositionFactors factors;
  for (int h = 1; h <= heads; ++h) {
    factors.exact.push_back(split(pow(Precise(2), Precise(-8 * h) / heads)));
    factors.fp32.push_back(encode(fp32, {}, factors.exact.back().high).code);
  }
  return factors;
}

PositionTimesFactor::PositionTimesFactor(const FloatFormat& format, const PositionFactors& factors, Trace* trace)
    : narrow_(format, {}, trace), wide_(fp32, {}, trace), factors_(factors) {
  for (const std::uint64_t code : factors.fp32) narrow_factors_.push_back(narrow_.convert_from(fp32, code));
}

const FloatFormat& PositionTimesFactor::format_of(Setup setup) const {
  return setup == Setup::value || setup == Setup::all ? narrow_.format() : fp32;
}

std::uint64_t PositionTimesFactor::operator()(Setup setup, std::int64_t position, std::size_t factor) {
  const std::uint64_t id = wide_.convert_from(i32, static_cast<std::uint64_t>(position));
  switch (setup) {
    case Setup::fp32: return wide_.mul(id, factors_.fp32[factor]);
    case Setup::ids:
      return wide_.mul(wide_.convert_from(narrow_.format(), narrow_.convert_from(fp32, id)), factors_.fp32[factor]);
    case Setup::value: return narrow_.convert_from(fp32, wide_.mul(id, factors_.fp32[factor]));
    case Setup::all: break;
  }
  return narrow_.mul(narrow_.convert_from(fp32, id), narrow_factors_[factor]);
}

double PositionTimesFactor::rounded_cosine(Setup setup, double angle) {
  const FloatFormat& f = format_of(setup);
  return f.value(encode(f, {}, cosine({angle, 0})).code);
}

void position_errors(const Config& config, Run& run) {
  const auto formats = config.formats("formats");
  const auto lengths = ascending(config.integers("lengths"));
  const auto dim = static_cast<int>(config.integer("rope_dim")),
             heads = static_cast<int>(config.integer("alibi_heads"));
  const Column format{"format", "", "Low-precision format; FP32 alone appears once, as the repair."};
  const Column setup{"setup", "",
                     "What is rounded to it. ids: position ids rounded, the rest FP32; value: the FP32 product "
                     "rounded; all: ids, factors and product; fp32: nothing."};
  const Column tokens{"tokens", "token",
                      "Context length N: positions 0 to N - 1 (beyond 8192, every 17th is looked at)."};
  const Column lost{"non_finite", "1", "Share of values that are Infinity or NaN; they are left out of the errors."};
  Table& rope = run.report.table(
      "rope", fmt::format("Rotary embeddings of {} dimensions: errors of angles and cosines", dim),
      {format,
       setup,
       tokens,
       {"max_angle_error", "rad", "Largest |angle - exact angle|."},
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
  const auto steps = static_cast<double>(formats.size() * lengths.size() * 2);
  double done = 0;
  const auto tick = [&] { run.progress(0.3 + 0.7 * ++done / steps); };
  bool repair_shown = false;
  for (const FormatChoice& choice : formats) {
    if (choice.format == fp32 && formats.size() > 1) continue;  // shown beside each of the others
    const auto angles = sweep(choice.format, frequencies, true, lengths, run.trace, tick);
    const auto biases = sweep(choice.format, slopes, false, lengths, run.trace, tick);
    for (const auto& row : setups) {
      const bool repair = row.value == Setup::fp32;
      if (repair ? repair_shown : choice.format == fp32) continue;
      const std::string name = repair ? "fp32" : choice.name;
      for (std::size_t l = 0; l < lengths.size(); ++l) {
        const PositionErrors& a = angles[l][static_cast<std::size_t>(row.value)];
        const PositionErrors& b = biases[l][static_cast<std::size_t>(row.value)];
        rope.row({name, row.name, lengths[l], a.value, a.cosine,
                  a.cosine_sum / static_cast<double>(std::max<std::size_t>(1, a.count - a.non_finite)), a.cosine_change,
                  a.worst_position, a.worst_factor, share(a.non_finite, a.count)});
        alibi.row(
            {name, row.name, lengths[l], b.value, b.worst_position, b.worst_factor + 1, share(b.non_finite, b.count)});
        // Three roundings of at most half a unit: the power, its reciprocal, the product; the cosine itself is one
        // more.
        if (repair && l + 1 == lengths.size())
          run.report.claim(
              {"fp32-ids-repair-rope", "With FP32 ids, angles are off by at most 3 * 2^-24 of the longest context.",
               "derived: three roundings to nearest"},
              at_most(3.001 * FloatFormat::power_of_two(-24) * static_cast<double>(lengths[l]), a.value, "oracle"));
      }
      repair_shown = repair_shown || repair;
    }
  }
  gpt_neox(run);
  alibi_claims(run);
}

}  // namespace halfulp::positions
