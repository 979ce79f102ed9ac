// How wrong sums and dot products are, by accumulator, rounding, order and length, and what theory promises.
#include <halfulp/experiments/accumulation/accumulation.hpp>
#include <halfulp/experiments/accumulation/matrix_units.hpp>

#include <halfulp/emulation/dot.hpp>
#include <halfulp/experiments/data/distributions.hpp>
#include <halfulp/experiments/run/parallel.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace halfulp {
namespace accumulation {
namespace {

const std::vector<std::string> methods{"sequential", "blocked", "pairwise", "kahan", "neumaier", "promoted"};

Settings read(const Config& config) {
  Settings s{config.formats("formats"), config.roundings("roundings"), config.choices("orders"), {}, config.text("distribution"),
             static_cast<std::size_t>(config.integer("trials")), static_cast<std::size_t>(config.integer("seeds")),
             static_cast<std::size_t>(config.integer("block")), static_cast<std::size_t>(config.integer("promote_every")),
             static_cast<std::uint64_t>(config.integer("seed")), static_cast<int>(config.integer("random_bits"))};
  for (const auto n : config.integers("lengths")) s.lengths.push_back(static_cast<std::size_t>(n));
  std::sort(s.lengths.begin(), s.lengths.end());
  s.lengths.erase(std::unique(s.lengths.begin(), s.lengths.end()), s.lengths.end());
  for (const FormatChoice& f : s.formats)
    if (!f.format.has_zero) throw std::invalid_argument(f.name + " holds scales: nothing is added in it; choose other formats");

  double terms = 0, runs = 0;
  for (const std::size_t n : s.lengths) terms += static_cast<double>(n);
  for (const RoundingMode mode : s.roundings) runs += static_cast<double>(s.repetitions(mode));
  const double work = terms * runs * static_cast<double>(s.trials * s.formats.size() * s.orders.size() * quantities.size());
  constexpr double limit = 2e9;
  if (work > limit)
    throw std::invalid_argument(fmt::format("lengths, formats, roundings, orders, trials and seeds ask for {:.2g} additions; at most {:.0e}", work, limit));
  return s;
}

DotModel model_of(const Settings& s, const FloatFormat& f, RoundingMode mode, std::string_view order, Quantity quantity) {
  Rounding rounding{mode};
  rounding.random_bits = s.random_bits;
  DotModel m{f, {}, {f, rounding}, {}, Order::sequential, 1, Compensation::none, s.seed};
  if (quantity == Quantity::dot) m.product = m.accumulator;
  if (order == "blocked") m.order = Order::blocked, m.block = s.block;
  if (order == "pairwise") m.order = Order::pairwise;
  if (order == "kahan") m.compensation = Compensation::kahan;
  if (order == "neumaier") m.compensation = Compensation::neumaier;
  if (order == "promoted") m.order = Order::blocked, m.block = s.promote_every, m.promoted = Stage{fp32};
  return m;
}

double draw(const Settings& s, std::uint64_t stream, std::uint64_t i) {
  if (s.distribution == "ones") return 1;
  if (s.distribution == "normal") return normal_sample(s.seed, stream, i);
  const double u = uniform_sample(s.seed, stream, i);
  return s.distribution == "uniform" ? u : 2 * u - 1;
}

/// Samples are rounded to fp32, as a program would have them, then into the format.
Inputs make_inputs(const Settings& s, const FloatFormat& f, std::size_t trial, std::size_t trace_limit) {
  Inputs in{{}, {}, {}, {}, 0, Trace(trace_limit)};
  Arithmetic arithmetic(f, {}, &in.trace);
  const auto sample = [&](std::uint64_t stream, std::size_t i) {
    return arithmetic.convert_from(fp32, encode(fp32, {}, draw(s, stream, i)).code);
  };
  const int scale = scale_of(f);
  Inputs::Exact sum, dot;
  for (std::size_t i = 0; i < s.lengths.back(); ++i) {
    in.a.push_back(sample(2 * trial, i));
    in.b.push_back(sample(2 * trial + 1, i));
    if (in.finite == i && f.is_finite(in.a[i]) && f.is_finite(in.b[i])) {
      const Units x = in_units(f.value(in.a[i]), scale), p = x * in_units(f.value(in.b[i]), scale);
      sum.sum += x, sum.magnitudes += abs(x);
      dot.sum += p, dot.magnitudes += abs(p);
      ++in.finite;
    }
    if (i + 1 == s.lengths[in.sums.size()]) in.sums.push_back(sum), in.dots.push_back(dot);
  }
  return in;
}

std::vector<Cell> measure(const Settings& s, const Curve& curve, const Inputs& in, std::size_t trial, Trace& trace) {
  const FloatFormat& f = s.formats[curve.format].format;
  const DotModel m = model_of(s, f, s.roundings[curve.rounding], curve.order, curve.quantity);
  Flags raised = 0;
  DotEngine<Arithmetic> engine(m, [&](const FloatFormat& format, const Rounding& rounding) { return Arithmetic(format, rounding, &trace, &raised); });
  const bool products = curve.quantity != Quantity::sum;
  const int scale = (products ? 2 : 1) * std::max(scale_of(f), scale_of(m.result()));  // every result is whole
  const int finer = scale - (products ? 2 : 1) * scale_of(f);

  std::vector<Cell> cells(s.lengths.size());
  for (std::size_t l = 0; l < cells.size(); ++l) {
    const std::size_t n = s.lengths[l];
    Cell& cell = cells[l];
    cell.bounds = error_bounds(m, static_cast<double>(n), products);
    const auto& exact = (products ? in.dots : in.sums)[l];
    const Units reference = exact.sum << static_cast<unsigned>(finer), magnitudes = exact.magnitudes << static_cast<unsigned>(finer);
    if (n > in.finite) {
      cell.runs = cell.overflowed = s.repetitions(s.roundings[curve.rounding]);
      continue;
    }
    if (magnitudes == 0) continue;  // nothing but zeros: no error to speak of
    const double underflow = products ? ratio(in_units(underflow_allowance(m, static_cast<double>(n)), scale), magnitudes) : 0;
    for (std::size_t seed = 0; seed < s.repetitions(s.roundings[curve.rounding]); ++seed) {
      const std::uint64_t stream = trial * s.seeds + seed;
      const auto a = std::span(in.a).first(n), b = std::span(in.b).first(n);
      raised = 0;
      const std::uint64_t code = products ? engine.dot(a, b, stream) : engine.sum(a, stream);
      ++cell.runs;
      if (raised & flag::overflow) {  // whatever came out, finite (saturated, cut off) or not: no bound covers it
        ++cell.overflowed;
        continue;
      }
      const double error = ratio(in_units(m.result().value(code), scale) - reference, magnitudes), size = std::fabs(error);
      cell.total += size, cell.bias += error, cell.squares += error * error;
      cell.largest = std::max(cell.largest, size);
      if (size <= cell.bounds.root + underflow) ++cell.within_root;
      const double proven = cell.bounds.proven + underflow;
      if (size > 0 && !std::isnan(proven)) cell.of_bound = std::max(cell.of_bound, size / proven);  // Infinity if none is allowed
    }
  }
  return cells;
}

std::vector<Parameter> parameters() {
  std::vector<Parameter> all{
      {"formats", ParameterType::formats, "fp16,bf16,e4m3,fp32", "accumulator formats; operands and products have the same"},
      {"roundings", ParameterType::roundings, "nearest-even,toward-zero,toward-positive,stochastic", "rounding modes of every operation"},
      {"orders", ParameterType::choices, "sequential,blocked,pairwise,kahan,neumaier,promoted",
       "how terms meet; blocked: `block` terms at a time; pairwise: a balanced tree; promoted: every `promote_every` terms the partial sum moves into FP32",
       -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), methods},
      {"lengths", ParameterType::integers, "16,64,256,1024,4096,16384,65536", "numbers of terms", 1, 1048576},
      {"distribution", ParameterType::choice, "uniform", "of the terms: uniform in (0,1), symmetric: uniform in (-1,1), normal: N(0,1), ones",
       -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), {"uniform", "symmetric", "normal", "ones"}},
      {"trials", ParameterType::integer, "4", "vectors, each with its own terms", 1, 64},
      {"seeds", ParameterType::integer, "8", "runs a vector with stochastic rounding", 1, 256},
      {"block", ParameterType::integer, "64", "terms a block of `blocked`", 1, 1048576},
      {"promote_every", ParameterType::integer, "128", "terms between promotions to FP32", 1, 1048576},
      {"random_bits", ParameterType::integer, "32", "of stochastic rounding", 1, max_random_bits},
      {"seed", ParameterType::integer, "2019", "of terms and of stochastic rounding", 0, largest_seed},
      {"known_formats", ParameterType::formats, "fp16,bf16,tf32,fp32,e4m3,e5m2,e3m4,e3m2,e2m3,e2m1", "formats of the harmonic series and of sums of ones"},
      {"ones", ParameterType::integer, "70000", "how many ones are added", 1, 1048576},
      {"harmonic_limit", ParameterType::integer, "4000000", "terms after which the harmonic series is given up", 1, 20000000},
  };
  for (Parameter& p : matrix_unit_parameters()) all.push_back(std::move(p));
  return all;
}

void run_accumulation(const Config& config, Run& run) {
  const Settings s = read(config);
  check_matrix_units(config);
  known_sums(config, run);
  run.progress(0.1);

  // In waves, so that progress is reported and traces do not pile up.
  const auto waves = [&](std::size_t count, double from, double to, auto&& f, auto&& take) {
    constexpr std::size_t wave = 8;
    for (std::size_t begin = 0; begin < count; begin += wave) {
      auto results = parallel_map(std::min(wave, count - begin), [&](std::size_t i) { return f(begin + i); });
      for (std::size_t i = 0; i < results.size(); ++i) take(begin + i, std::move(results[i]));
      run.progress(from + (to - from) * static_cast<double>(std::min(count, begin + wave)) / static_cast<double>(count));
    }
  };

  std::vector<Inputs> inputs;
  waves(s.formats.size() * s.trials, 0.1, 0.2,
        [&](std::size_t i) { return make_inputs(s, s.formats[i / s.trials].format, i % s.trials, run.trace.limit()); },
        [&](std::size_t, Inputs&& in) {
          run.trace.append(in.trace);
          in.trace = Trace(0);
          inputs.push_back(std::move(in));
        });

  std::vector<Curve> curves;
  for (std::size_t f = 0; f < s.formats.size(); ++f)
    for (std::size_t r = 0; r < s.roundings.size(); ++r)
      for (const Quantity quantity : quantities)
        for (const std::string& order : s.orders)
          if (quantity != Quantity::fused_dot || (order != "kahan" && order != "neumaier"))
            curves.push_back({f, r, quantity, order, std::vector<Cell>(s.lengths.size())});

  struct Measured {
    std::vector<Cell> cells;
    Trace trace;
  };
  waves(curves.size() * s.trials, 0.2, 1.0,
        [&](std::size_t i) {
          const Curve& curve = curves[i / s.trials];
          Measured m{{}, Trace(run.trace.limit())};
          m.cells = measure(s, curve, inputs[curve.format * s.trials + i % s.trials], i % s.trials, m.trace);
          return m;
        },
        [&](std::size_t i, Measured&& m) {
          Curve& curve = curves[i / s.trials];
          for (std::size_t l = 0; l < m.cells.size(); ++l) curve.cells[l].merge(m.cells[l]);
          run.trace.append(m.trace);
        });

  report_accumulation(s, curves, inputs, run);
  matrix_units_report(config, run);
}

}  // namespace
}  // namespace accumulation

Experiment accumulation_experiment() {
  return {"accumulation", "Sums and dot products in low precision",
          "How fast does the error of a sum grow, where does it stop growing, and which order or compensation repairs it?",
          accumulation::parameters, accumulation::run_accumulation,
          {"sums", {"accumulator", "order", "terms", "mean_error", "max_error", "n_u", "overflowed"}, {"rounding"}, {"accumulator", "order"}}};
}

}  // namespace halfulp
