// How wrong sums and dot products are, by accumulator, rounding, order and length, and what theory promises.
#include <halfulp/experiments/accumulation/accumulation.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace halfulp {
namespace accumulation {
namespace {

const std::vector<std::string> distribution_names{"uniform", "symmetric", "normal", "ones"};
const std::vector<std::string> methods{"sequential", "blocked", "pairwise", "kahan", "neumaier", "promoted"};

AccumulationSettings read(const Config& config) {
  AccumulationSettings s{config.formats("formats"),
                         config.roundings("roundings"),
                         config.choices("orders"),
                         {},
                         config.text("distribution"),
                         static_cast<std::size_t>(config.integer("trials")),
                         static_cast<std::size_t>(config.integer("seeds")),
                         static_cast<std::size_t>(config.integer("block")),
                         static_cast<std::size_t>(config.integer("promote_every")),
                         static_cast<std::uint64_t>(config.integer("seed")),
                         static_cast<int>(config.integer("random_bits"))};
  for (const auto n : config.integers("lengths")) s.lengths.push_back(static_cast<std::size_t>(n));
  std::sort(s.lengths.begin(), s.lengths.end());
  s.lengths.erase(std::unique(s.lengths.begin(), s.lengths.end()), s.lengths.end());
  for (const FormatChoice& f : s.formats)
    if (!f.format.has_zero)
      throw std::invalid_argument(f.name + " holds scales: nothing is added in it; choose other formats");

  double terms = 0, runs = 0;
  for (const std::size_t n : s.lengths) terms += static_cast<double>(n);
  for (const RoundingMode mode : s.roundings) runs += static_cast<double>(s.repetitions(mode));
  const double work = terms * runs *
                      static_cast<double>(s.trials * s.formats.size() * s.orders.size() * quantities.size());
  constexpr double limit = 2e9;
  if (work > limit)
    throw std::invalid_argument(fmt::format(
        "lengths, formats, roundings, orders, trials and seeds ask for {:.2g} additions; at most {:.0e}", work, limit));
  return s;
}

DotModel model_of(const AccumulationSettings& s, const FloatFormat& f, RoundingMode mode, std::string_view order,
                  Quantity quantity) {
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

double draw(const AccumulationSettings& s, std::uint64_t stream, std::uint64_t i) {
  if (s.distribution == "ones") return 1;
  if (s.distribution == "normal") return normal_sample(s.seed, stream, i);
  const double u = uniform_sample(s.seed, stream, i);
  return s.distribution == "uniform" ? u : 2 * u - 1;
}

/// Samples are rounded to fp32, as a program would have them, then into the format.
SumInputs make_inputs(const AccumulationSettings& s, const FloatFormat& f, std::size_t trial, std::size_t trace_limit) {
  SumInputs in{{}, {}, {}, {}, 0, Trace(trace_limit)};
  Arithmetic arithmetic(f, {}, &in.trace);
  const auto sample = [&](std::uint64_t stream, std::size_t i) {
    return arithmetic.convert_from(fp32, encode(fp32, {}, draw(s, stream, i)).code);
  };
  const int scale = scale_of(f);
  SumInputs::ExactSums sum, dot;
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

/// Short vectors from another distribution, for their condition numbers.
Drawn draw_inputs(const AccumulationSettings& s, const std::string& distribution) {
  constexpr std::size_t longest = 4096;
  Drawn drawn{s, {}};
  drawn.settings.distribution = distribution;
  std::erase_if(drawn.settings.lengths, [](std::size_t n) { return n > longest; });
  if (drawn.settings.lengths.empty()) return drawn;
  drawn.inputs = parallel_map(s.formats.size() * s.trials, [&](std::size_t i) {
    return make_inputs(drawn.settings, s.formats[i / s.trials].format, i % s.trials, 0);
  });
  return drawn;
}

/// Of each curve one for every pair of vectors.
std::vector<Trial> trials_of(const AccumulationSettings& s, const std::vector<ErrorCurve>& curves) {
  std::vector<Trial> all;
  for (const ErrorCurve& curve : curves)
    for (std::size_t trial = 0; trial < s.trials; ++trial) {
      const FormatChoice& f = s.formats[curve.format];
      const std::string_view rounding = name_of(s.roundings[curve.rounding]);
      all.push_back({fmt::format("{} {} {} {}", f.name, rounding, curve.order, trial),
                     {{"format", format_name(f.format)},
                      {"rounding", rounding},
                      {"quantity", static_cast<int>(curve.quantity)},
                      {"order", curve.order},
                      {"trial", trial},
                      {"lengths", s.lengths},
                      {"distribution", s.distribution},
                      {"seeds", s.seeds},
                      {"block", s.block},
                      {"promote_every", s.promote_every},
                      {"seed", s.seed},
                      {"random_bits", s.random_bits}}});
    }
  return all;
}

std::vector<LengthErrors> measure(const AccumulationSettings& s, const ErrorCurve& curve, const SumInputs& in,
                                  std::size_t trial, Trace& trace) {
  const FloatFormat& f = s.formats[curve.format].format;
  const DotModel m = model_of(s, f, s.roundings[curve.rounding], curve.order, curve.quantity);
  Flags raised = 0;
  DotEngine<Arithmetic> engine(m, [&](const FloatFormat& format, const Rounding& rounding) {
    return Arithmetic(format, rounding, &trace, &raised);
  });
  const bool products = curve.quantity != Quantity::sum;
  const int scale = (products ? 2 : 1) * std::max(scale_of(f), scale_of(m.result()));  // every result is whole
  const int finer = scale - (products ? 2 : 1) * scale_of(f);

  std::vector<LengthErrors> cells(s.lengths.size());
  for (std::size_t l = 0; l < cells.size(); ++l) {
    const std::size_t n = s.lengths[l];
    LengthErrors& cell = cells[l];
    cell.bounds = error_bounds(m, static_cast<double>(n), products);
    const auto& exact = (products ? in.dots : in.sums)[l];
    const Units reference = exact.sum << static_cast<unsigned>(finer),
                magnitudes = exact.magnitudes << static_cast<unsigned>(finer);
    if (n > in.finite) {
      cell.runs = cell.overflowed = s.repetitions(s.roundings[curve.rounding]);
      continue;
    }
    if (magnitudes == 0) continue;  // nothing but zeros: no error to speak of
    const double underflow = products
                                 ? ratio(in_units(underflow_allowance(m, static_cast<double>(n)), scale), magnitudes)
                                 : 0;
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
      const double error = ratio(in_units(m.result().value(code), scale) - reference, magnitudes),
                   size = std::fabs(error);
      cell.total += size, cell.bias += error, cell.squares += error * error;
      cell.largest = std::max(cell.largest, size);
      if (size <= cell.bounds.root + underflow) ++cell.within_root;
      const double proven = cell.bounds.proven + underflow;
      if (size > 0 && !std::isnan(proven))
        cell.of_bound = std::max(cell.of_bound, size / proven);  // Infinity if none is allowed
    }
  }
  return cells;
}

std::vector<Parameter> parameters() {
  std::vector<Parameter> all{
      {"formats", ParameterType::formats, "fp16,bf16,e4m3,fp32",
       "accumulator formats; operands and products have the same"},
      {"roundings", ParameterType::roundings, "nearest-even,toward-zero,toward-positive,stochastic",
       "rounding modes of every operation"},
      {"orders", ParameterType::choices, "sequential,blocked,pairwise,kahan,neumaier,promoted",
       "how terms meet; blocked: `block` terms at a time; pairwise: a balanced tree; promoted: every `promote_every` "
       "terms the partial sum moves into FP32",
       -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), methods},
      {"lengths", ParameterType::integers, "16,64,256,1024,4096,16384,65536", "numbers of terms", 1, 1048576},
      {"distribution", ParameterType::choice, "uniform",
       "of the terms: uniform in (0,1), symmetric: uniform in (-1,1), normal: N(0,1), ones",
       -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), distribution_names},
      {"trials", ParameterType::integer, "4", "vectors, each with its own terms", 1, 64},
      {"seeds", ParameterType::integer, "4", "runs a vector with stochastic rounding", 1, 256},
      {"block", ParameterType::integer, "64", "terms a block of `blocked`", 1, 1048576},
      {"promote_every", ParameterType::integer, "128", "terms between promotions to FP32", 1, 1048576},
      {"random_bits", ParameterType::integer, "32", "of stochastic rounding", 1, max_random_bits},
      {"seed", ParameterType::integer, "2019", "of terms and of stochastic rounding", 0, largest_seed},
      {"known_formats", ParameterType::formats, "fp16,bf16,tf32,fp32,e4m3,e5m2,e3m4,e3m2,e2m3,e2m1",
       "formats of the harmonic series and of sums of ones"},
      {"known_roundings", ParameterType::roundings,
       "nearest-even,nearest-away,nearest-to-zero,toward-zero,toward-positive,toward-negative,to-odd,stochastic",
       "roundings of those; of ones not stochastic"},
      {"ones", ParameterType::integer, "70000", "how many ones are added", 1, 1048576},
      {"harmonic_limit", ParameterType::integer, "4000000", "terms after which the harmonic series is given up", 1,
       20000000},
  };
  for (Parameter& p : matrix_unit_parameters()) all.push_back(std::move(p));
  return all;
}

void run_accumulation(const Config& config, Run& run) {
  const AccumulationSettings s = read(config);
  check_matrix_units(config);
  known_sums(config, run);
  run.progress(0.1);

  auto inputs = parallel_map(s.formats.size() * s.trials, [&](std::size_t i) {
    return make_inputs(s, s.formats[i / s.trials].format, i % s.trials, run.trace.limit());
  });
  for (SumInputs& in : inputs) {
    run.trace.append(in.trace);
    in.trace = Trace(0);
  }
  run.progress(0.2);

  std::vector<ErrorCurve> curves;
  for (std::size_t f = 0; f < s.formats.size(); ++f)
    for (std::size_t r = 0; r < s.roundings.size(); ++r)
      for (const Quantity quantity : quantities)
        for (const std::string& order : s.orders)
          if (quantity != Quantity::fused_dot || (order != "kahan" && order != "neumaier"))
            curves.push_back({f, r, quantity, order, std::vector<LengthErrors>(s.lengths.size())});

  const auto measured = trials<Measured>(
      run, {"sums", 1}, trials_of(s, curves), 0.2, 1.0, [&](std::size_t i, Trace& trace) {
        const ErrorCurve& curve = curves[i / s.trials];
        return Measured{measure(s, curve, inputs[curve.format * s.trials + i % s.trials], i % s.trials, trace)};
      });
  for (std::size_t i = 0; i < measured.size(); ++i) {
    ErrorCurve& curve = curves[i / s.trials];
    const DotModel model = model_of(s, s.formats[curve.format].format, s.roundings[curve.rounding], curve.order,
                                    curve.quantity);
    for (std::size_t l = 0; l < curve.cells.size(); ++l) {
      curve.cells[l].merge(measured[i].cells[l]);
      curve.cells[l].bounds = error_bounds(model, static_cast<double>(s.lengths[l]), curve.quantity != Quantity::sum);
    }
  }

  if (run.only_operands) return;
  std::vector<Drawn> distributions{{s, std::move(inputs)}};
  for (const std::string& name : distribution_names)
    if (name != s.distribution) distributions.push_back(draw_inputs(s, name));
  report_accumulation(s, curves, distributions, run);
  matrix_units_report(config, run);
}

}  // namespace
}  // namespace accumulation

namespace {

/// The longest sum of the first format, one by one and in the best order.
std::string accumulation_finding(const ReportTables& tables) {
  const auto plain = tables.rows("sums", {{"rounding", "nearest-even"}, {"order", "sequential"}});
  const TableRow* const longest = largest(plain, "terms");
  if (!longest) return {};
  const auto orders = tables.rows(
      "sums",
      {{"rounding", "nearest-even"}, {"accumulator", (*longest)["accumulator"]}, {"terms", (*longest)["terms"]}});
  const TableRow* const best = smallest(orders, "mean_error");
  if (!best) return {};
  return fmt::format("{} terms added one by one in {} have an error of {}; the best order ({}) has {}.",
                     longest->whole("terms"), longest->text("accumulator"), percent(longest->number("mean_error")),
                     best->text("order"), percent(best->number("mean_error")));
}

}  // namespace

Experiment accumulation_experiment() {
  return {"accumulation",
          "Sums and dot products in low precision",
          "How fast does a sum's error grow, and what repairs it?",
          accumulation::parameters,
          accumulation::run_accumulation,
          accumulation_finding,
          {"sums",
           {"accumulator", "order", "terms", "mean_error", "max_error", "n_u", "overflowed"},
           {"rounding"},
           {"accumulator", "order"}}};
}

}  // namespace halfulp
