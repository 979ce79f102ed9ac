// Sums whose terms everyone knows: the harmonic series, ones, uniform numbers, and the numbers people reported.
#include <halfulp/experiments/accumulation/accumulation.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/emulation/dot.hpp>
#include <halfulp/data/distributions.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace halfulp::accumulation {
namespace {

using Codes = std::vector<std::uint64_t>;

/// Plenty to see every operation on silicon, little enough to leave room for more varied operands.
constexpr std::size_t trace_limit = 5000;

/// Streams of random bits of the harmonic series: of n, of 1/n and of the sum.
enum Stream : std::uint64_t { number_stream = 7000, term_stream, sum_stream };

std::uint64_t add_up(const DotModel& model, const Codes& x, Trace& trace) {
  DotEngine<Arithmetic> engine(model,
                               [&](const FloatFormat& f, const Rounding& r) { return Arithmetic(f, r, &trace); });
  return engine.sum(x);
}

DotModel sequential(const FloatFormat& f, RoundingMode mode = RoundingMode::nearest_even) {
  return {f, {}, {f, {mode}}, {}};
}

/// Trials of every format under every mode; `rest` is what else they depend on.
std::vector<Trial> for_each(const std::vector<FormatChoice>& formats, const std::vector<RoundingMode>& modes,
                            const Json& rest) {
  std::vector<Trial> all;
  for (const FormatChoice& f : formats)
    for (const RoundingMode mode : modes) {
      Json item = rest;
      item["format"] = format_name(f.format);
      item["rounding"] = name_of(mode);
      all.push_back({fmt::format("{} {}", f.name, name_of(mode)), std::move(item)});
    }
  return all;
}

// The harmonic series.

struct Harmonic {
  std::uint64_t sum = 0, term = 0;
  std::int64_t stop = 0;  ///< the first n from which on no term changes anything; 0 if the limit came first
};
template <class V>
void fields(V& v, Harmonic& h) {
  v("sum", h.sum, hexadecimal);
  v("term", h.term, hexadecimal);
  v("stop", h.stop);
}

/// s = fl(s + fl(1 / fl(n))), from s = 0 and n = 1, until a term changes nothing. No later one does: they are no
/// larger. Only stochastic rounding may move again, as long as terms are not zero.
Harmonic harmonic(const FloatFormat& f, RoundingMode mode, std::int64_t limit, std::uint64_t seed, Trace& trace) {
  Harmonic h;
  Arithmetic arithmetic(f, {mode}, &trace);
  const bool random = mode == RoundingMode::stochastic;
  const auto bits = [&](std::uint64_t stream, std::int64_t n) {
    return random ? rounding_bits(seed, stream, static_cast<std::uint64_t>(n)) : 0;
  };
  const std::uint64_t one = arithmetic.convert_from(i32, 1);
  for (std::int64_t n = 1; n <= limit; ++n) {
    h.term = arithmetic.div(one, arithmetic.convert_from(i32, static_cast<std::uint64_t>(n), bits(number_stream, n)),
                            bits(term_stream, n));
    const std::uint64_t next = arithmetic.add(h.sum, h.term, bits(sum_stream, n));
    // A NaN stays one, however it is rounded.
    if (random ? f.is_zero(h.term) || (next == h.sum && f.is_nan(next)) : next == h.sum) {
      h.stop = n;
      return h;
    }
    h.sum = next;
  }
  return h;
}

void harmonic_series(const std::vector<FormatChoice>& formats, const std::vector<RoundingMode>& modes,
                     std::int64_t limit, std::uint64_t seed, Run& run) {
  Table& table = run.report.table(
      "harmonic", "The sum of 1/n stops growing",
      {{"format", "", "Format of n, 1/n and the sum."},
       {"rounding", "", "How each of the three is rounded."},
       {"sum", "1", "The sum when it stops, or at harmonic_limit."},
       {"stops_at", "term",
        "The first n from which on no term 1/n changes anything; null if harmonic_limit came first."},
       {"last_term", "1",
        "That term, rounded; 0 where n is beyond the format's range, NaN where the format has no infinity then."}});
  const auto results = trials<Harmonic>(
      run, {"harmonic_series", 1}, for_each(formats, modes, {{"limit", limit}, {"seed", seed}}), 0, 0,
      [&](std::size_t i, Trace& trace) {
        Trace own(std::min(trace_limit, trace.limit()));
        const Harmonic h = harmonic(formats[i / modes.size()].format, modes[i % modes.size()], limit, seed, own);
        trace.append(own);
        return h;
      });
  struct Published {
    FloatFormat format;
    std::string_view name;
    double sum;
    std::int64_t stop;
    Citation source;
  };
  const Citation higham{publications::harmonic_sums,
                        "Higham 2002, problem 4.2, and chop's demo_harmonic (Higham & Pranesh 2019)"};
  const std::array<Published, 3> published{
      {{fp16, "fp16", 7.0859375, 513, higham},
       {bf16, "bf16", 5.0625, 65, higham},
       {fp32,
        "fp32",
        15.403682708740234,
        2097152,
        {publications::harmonic_sums,
         "Malone, To what does the harmonic series converge?, Irish Math. Soc. Bulletin 71, 2013"}}}};
  // Cut off, a term is lost if it is below a spacing of the sum, 2^-k: none up to 1 / 2^k is.
  std::optional<double> earliest;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto& [name, f] = formats[i / modes.size()];
    const Harmonic& h = results[i];
    table.row({name, name_of(modes[i % modes.size()]), emulated(f, h.sum), h.stop ? Json(h.stop) : Json(),
               emulated(f, h.term)});
    const double sum = f.value(h.sum);
    if (modes[i % modes.size()] != RoundingMode::toward_zero || h.stop == 0 || f.is_zero(h.term) || sum < 1) continue;
    if (h.sum == f.max_finite()) continue;  // it stops at the end of the range
    const double cut = FloatFormat::power_of_two(f.fraction_bits - std::ilogb(sum)) + 1,
                 ratio = static_cast<double>(h.stop) / cut;
    earliest = std::min(earliest.value_or(ratio), ratio);
  }
  run.report.claim(
      {"harmonic-cut-off",
       "Toward zero the series stops at a term below the spacing of numbers near the sum, 2^-k: at n = 2^k + 1 or "
       "later. "
       "(The least n divided by that.)",
       "derived: what is left of a smaller term is cut off, and a larger one moves the sum"},
      !earliest ? skipped("no format here stops toward zero before n leaves its range, or known_roundings does not "
                          "contain toward-zero")
                : at_least(1.0, *earliest, "oracle"));
  const auto nearest = std::find(modes.begin(), modes.end(), RoundingMode::nearest_even);
  for (const Published& p : published) {
    const std::string id = fmt::format("harmonic-{}", p.name);
    const std::string statement = fmt::format("The harmonic series in {} stops growing at n = {}, with this sum.",
                                              p.name, p.stop);
    const auto at = std::find_if(formats.begin(), formats.end(),
                                 [&](const FormatChoice& c) { return c.format == p.format; });
    if (at == formats.end() || nearest == modes.end() || limit < p.stop) {
      run.report.claim({id, statement, p.source},
                       skipped(at == formats.end()      ? fmt::format("known_formats does not contain {}", p.name)
                               : nearest == modes.end() ? "known_roundings does not contain nearest-even"
                                                        : "harmonic_limit is below it"));
      continue;
    }
    const Harmonic& h = results[static_cast<std::size_t>(at - formats.begin()) * modes.size() +
                                static_cast<std::size_t>(nearest - modes.begin())];
    run.report.claim({id, statement, p.source},
                     exactly({{"sum", p.sum}, {"stops_at", p.stop}},
                             {{"sum", p.format.value(h.sum)}, {"stops_at", h.stop}}, "published"));
  }
}

// Ones.

/// Where 1 + 1 + ... gets stuck in a format of precision p >= 2 whose range reaches that far: beyond 2^p, 1 is half the
/// spacing. (Without fraction bits the significand is always odd, and which of 2 and 4 takes the tie depends on the
/// bias.)
std::int64_t stuck_at(const FloatFormat& f, RoundingMode mode) {
  const std::int64_t all_exact = std::int64_t{1} << f.precision();
  switch (mode) {
    case RoundingMode::nearest_away: return 2 * all_exact;  // each tie goes up, until 1 is a quarter of the spacing
    case RoundingMode::to_odd: return all_exact + 2;        // 2^p is even and moves on; its neighbour is odd and stays
    default: return all_exact;
  }
}

struct Ones {
  std::uint64_t sum = 0;
};
template <class V>
void fields(V& v, Ones& r) {
  v("sum", r.sum, hexadecimal);
}

void ones(const std::vector<FormatChoice>& formats, std::vector<RoundingMode> modes, std::size_t count, Run& run) {
  std::erase(modes, RoundingMode::stochastic);  // no one result to speak of
  Table& table = run.report.table(
      "ones", fmt::format("{} ones, added one after the other", count),
      {{"format", "", "Format of the running sum."},
       {"rounding", "", "Rounding mode of every addition."},
       {"sum", "1", "What comes out."},
       {"exact_up_to", "1", "The largest number up to which every integer is a value of the format."}});
  const auto results = trials<Ones>(
      run, {"ones", 1}, for_each(formats, modes, {{"count", count}}), 0, 0, [&](std::size_t i, Trace& trace) {
        const FloatFormat& f = formats[i / modes.size()].format;
        Trace own(std::min(trace_limit, trace.limit()));
        const Ones r{add_up(sequential(f, modes[i % modes.size()]), Codes(count, encode(f, {}, 1).code), own)};
        trace.append(own);
        return r;
      });
  Json expected = Json::object(), measured = Json::object();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto& [name, f] = formats[i / modes.size()];
    const RoundingMode mode = modes[i % modes.size()];
    table.row({name, name_of(mode), emulated(f, results[i].sum), f.largest_consecutive_integer()});
    const auto stuck = static_cast<double>(stuck_at(f, mode));
    if (mode == RoundingMode::toward_positive || f.value(f.max_finite()) < stuck || f.emin() - f.fraction_bits > 0 ||
        f.fraction_bits == 0)
      continue;
    const std::string key = fmt::format("{} {}", name, name_of(mode));
    if (static_cast<double>(count) >= stuck || mode == RoundingMode::nearest_even)
      expected[key] = std::min(static_cast<double>(count), stuck), measured[key] = number(f.value(results[i].sum));
  }
  const std::string id = "ones-get-stuck";
  const Citation source{publications::ones_in_bf16, "derived: at 2^p the spacing becomes 2, and 1 is half of it"};
  const std::string statement =
      "In formats with fraction bits, ones add up to 2^p and no further to nearest even and toward zero, to 2^(p+1) to "
      "nearest away, to 2^p + 2 to odd.";
  run.report.claim({id, statement, source}, expected.empty()
                                                ? skipped("no format here has fraction bits and counts to 2^p")
                                                : exactly(expected, measured, "oracle"));
}

// What people reported.

void reported(std::uint64_t seed, Run& run) {
  Trace trace(trace_limit);
  const auto claim = [&](std::string id, std::string statement, Citation source, double expected, double measured) {
    run.report.claim({std::move(id), std::move(statement), std::move(source)},
                     exactly(number(expected), number(measured), "published"));
  };
  const Codes bf16_ones(70000, encode(bf16, {}, 1).code), fp16_ones(20000, encode(fp16, {}, 1).code);
  claim("ones-bf16", "70,000 ones in bf16 add up to 256.", {publications::ones_in_bf16, "ml-explore/mlx #3909"}, 256,
        bf16.value(add_up(sequential(bf16), bf16_ones, trace)));
  claim("ones-fp16", "20,000 ones in fp16 add up to 2048.",
        {publications::ones_in_bf16, "huggingface/candle #3718; derived: 2^11"}, 2048,
        fp16.value(add_up(sequential(fp16), fp16_ones, trace)));
  DotModel lanes = sequential(fp16);
  lanes.order = Order::blocked, lanes.block = 2500;
  claim("ones-fp16-eight-partial-sums",
        "In eight partial sums, as SIMD code keeps them, 20,000 ones in fp16 add up to 8 * 2048.",
        {publications::ones_in_bf16, "ml-explore/mlx #3909"}, 16384, fp16.value(add_up(lanes, fp16_ones, trace)));
  const std::uint64_t wide = add_up({bf16, {}, {fp32}, {}}, bf16_ones, trace);
  claim("ones-bf16-repaired",
        "Accumulated in FP32 and rounded once, 70,000 bf16 ones are 70,144, the nearest bf16 number.",
        {publications::ones_in_bf16, "ml-explore/mlx #3909"}, 70144,
        bf16.value(Arithmetic(bf16, {}, &trace).convert_from(fp32, wide)));
  for (const std::size_t n : {10'000, 20'000}) {
    Codes x(n);
    Arithmetic arithmetic(bf16, {}, &trace);
    for (std::size_t i = 0; i < n; ++i)
      x[i] = arithmetic.convert_from(fp32, encode(fp32, {}, uniform_sample(seed, 0, i)).code);
    claim(fmt::format("uniform-bf16-{}", n),
          fmt::format("{} uniform numbers in (0, 1), added in bf16, give 256 (exactly: about {}).", n, n / 2),
          {publications::uniform_in_bf16, "jax-ml/ml_dtypes #63"}, 256, bf16.value(add_up(sequential(bf16), x, trace)));
  }
  run.trace.append(trace);
}

}  // namespace

void known_sums(const Config& config, Run& run) {
  const auto formats = config.formats("known_formats");
  for (const FormatChoice& f : formats)
    if (!f.format.has_zero)
      throw std::invalid_argument(f.name + " holds scales: nothing is added in it; choose other known_formats");
  const auto modes = config.roundings("known_roundings");
  harmonic_series(formats, modes, config.integer("harmonic_limit"), static_cast<std::uint64_t>(config.integer("seed")),
                  run);
  run.progress(0.05);
  ones(formats, modes, static_cast<std::size_t>(config.integer("ones")), run);
  reported(static_cast<std::uint64_t>(config.integer("seed")), run);
}

}  // namespace halfulp::accumulation
