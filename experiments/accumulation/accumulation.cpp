// What the experiment "accumulation" writes: its curves, and what theory says about them.
#include <halfulp/experiments/accumulation/accumulation.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace halfulp::accumulation {
namespace {

void write_curves(const AccumulationSettings& s, const std::vector<ErrorCurve>& curves, Run& run) {
  const auto columns = [] {
    return std::vector<Column>{
        {"accumulator", "", "Format of operands, products and running sums."},
        {"rounding", "",
         "Rounding mode of every operation; the FP32 accumulator of `promoted` rounds to nearest even."},
        {"order", "", "How terms meet: see the parameters `orders`, `block` and `promote_every`."},
        {"terms", "term", "Length n of the sum or dot product."},
        {"mean_error", "1",
         "Mean over vectors (and seeds) of |computed - exact| / sum of |terms|, runs that overflowed left out; null if "
         "all did."},
        {"max_error", "1", "The largest of these errors."},
        {"bias", "1", "Their signed mean: errors that average out leave a bias far below the mean error."},
        {"n_u", "1", "Number of roundings a term can meet times the unit roundoff u (2^-p to nearest, 2^(1-p) else)."},
        {"sqrt_n_u", "1",
         "The same with the root of that number: the typical size if rounding errors are independent with mean zero "
         "(Higham & Mary 2019)."},
        {"proven_bound", "1",
         "Proven bound for the error of a run without overflow, except for what products lose to underflow: (n - 1) u, "
         "or the bound of the order; Kahan: 6 u + 8 n u^2; Neumaier: u + gamma_(n-1)^2; null where no theorem "
         "applies."},
        {"overflowed", "run",
         "Runs in which an operation overflowed, whether to Infinity or NaN or to the largest finite value."}};
  };
  const auto row = [&](const ErrorCurve& c, std::size_t l) {
    const LengthErrors& cell = c.cells[l];
    const auto mean = [&](double total) { return cell.judged() ? number(cell.mean(total)) : Json(); };
    return std::vector<Json>{s.formats[c.format].name,
                             name_of(s.roundings[c.rounding]),
                             c.order,
                             s.lengths[l],
                             mean(cell.total),
                             cell.judged() ? number(cell.largest) : Json(),
                             mean(cell.bias),
                             number(cell.bounds.linear),
                             number(cell.bounds.root),
                             or_null(cell.bounds.proven),
                             cell.overflowed};
  };
  Table& sums = run.report.table("sums", "Errors of sums against their length", columns());
  auto with_product = columns();
  with_product.insert(
      with_product.begin() + 3,
      {"product", "", "How a*b enters: rounded and then added; or exact, in fma(a, b, s), which rounds once."});
  Table& dots = run.report.table("dots", "Errors of dot products against their length", with_product);
  for (const ErrorCurve& c : curves) {
    for (std::size_t l = 0; l < c.cells.size(); ++l) {
      auto cells = row(c, l);
      if (c.quantity == Quantity::sum) {
        sums.row(std::move(cells));
      } else {
        cells.insert(cells.begin() + 3, c.quantity == Quantity::dot ? "rounded" : "exact");
        dots.row(std::move(cells));
      }
    }
  }
}

void write_conditions(const AccumulationSettings& s, const std::vector<SumInputs>& inputs, Table& table) {
  for (std::size_t f = 0; f < s.formats.size(); ++f) {
    for (std::size_t l = 0; l < s.lengths.size(); ++l) {
      double sum = 0, dot = 0;
      bool finite = true;
      const auto condition = [](const SumInputs::ExactSums& e) {
        return e.sum == 0 ? std::numeric_limits<double>::infinity() : ratio(e.magnitudes, abs(e.sum));
      };
      for (std::size_t t = 0; t < s.trials; ++t) {
        const SumInputs& in = inputs[f * s.trials + t];
        finite = finite && in.finite >= s.lengths[l];
        sum += condition(in.sums[l]);
        dot += condition(in.dots[l]);
      }
      const auto mean = [&](double total) { return finite ? number(total / static_cast<double>(s.trials)) : Json(); };
      table.row({s.distribution, s.formats[f].name, s.lengths[l], mean(sum), mean(dot)});
    }
  }
}

void write_conditions(const std::vector<Drawn>& distributions, Run& run) {
  Table& table = run.report.table(
      "conditions", "What the relative error is: the error of the tables times this condition number",
      {{"distribution", "", "Of the terms: that of the tables first, then the others, up to 4096 terms."},
       {"format", "", "Format the operands were rounded into."},
       {"terms", "term", "Length n."},
       {"sum_condition", "1",
        "Mean over vectors of (sum of |x_i|) / |sum of x_i|; null if a term is not finite in the format."},
       {"dot_condition", "1",
        "Mean over vectors of (sum of |a_i b_i|) / |sum of a_i b_i|; null if a term is not finite in the format."}});
  for (const Drawn& drawn : distributions) write_conditions(drawn.settings, drawn.inputs, table);
}

void claim_bounds(const std::vector<ErrorCurve>& curves, const AccumulationSettings& s, Run& run) {
  struct Row {
    std::string_view order, statement, source;
    std::size_t above = 0;  ///< lengths up to this are sums of one block: sequential ones, judged there
  };
  const std::array<Row, 6> rows{
      {{"sequential", "No error of a sequential sum or dot product exceeds the proven n u bound.",
        "Jeannerod & Rump 2013; Higham 2002, section 4.2"},
       {"blocked",
        "Blocking replaces n by block + n / block, and no error of a sum longer than a block exceeds that bound.",
        "Higham 2002, section 4.2; Blanchard, Higham & Mary 2020", s.block},
       {"pairwise", "The error of pairwise summation stays below about log2(n) u.",
        "Higham 1993; Higham 2002, section 4.2"},
       {"kahan",
        "The error of Kahan's compensated sum stays below 6 u + 8 n u^2: while n u is small, n hardly matters.",
        "derived: the recurrence behind 2 u + O(n u^2) (Knuth; Higham 2002, section 4.3), with nothing left to O"},
       {"neumaier", "The error of Neumaier's compensated sum stays below u + gamma_(n-1)^2.",
        "Ogita, Rump & Oishi 2005"},
       {"promoted", "Promoted to FP32 every N terms, the error of a longer sum stays below N u plus FP32's own bound.",
        "derived: Higham 2002, section 4.2, applied to the two stages", s.promote_every}}};
  for (const Row& row : rows) {
    double worst = 0;
    bool any = false;
    for (const ErrorCurve& c : curves) {
      for (std::size_t l = 0; c.order == row.order && l < c.cells.size(); ++l) {
        const LengthErrors& cell = c.cells[l];
        if (s.lengths[l] <= row.above || cell.judged() == 0 || std::isnan(cell.bounds.proven)) continue;
        any = true;
        worst = std::max(worst, cell.of_bound);
      }
    }
    const std::string id = fmt::format("{}-error-below-proven-bound", row.order);
    run.report.claim({id,
                      std::string(row.statement) + (any ? " (Largest error divided by the bound.)" : ""),
                      {publications::error_bounds, std::string(row.source)}},
                     any ? at_most(1, worst, "oracle")
                         : skipped(std::find(s.orders.begin(), s.orders.end(), row.order) == s.orders.end()
                                       ? fmt::format("orders does not contain {}", row.order)
                                   : s.lengths.back() <= row.above
                                       ? fmt::format("no length exceeds a block of {} terms", row.above)
                                       : "no sum of this configuration is covered by a theorem and free of overflow"));
  }
}

void claim_stochastic(const std::vector<ErrorCurve>& curves, const AccumulationSettings& s, Run& run) {
  std::size_t within = 0, runs = 0;
  double drift = 0, nearest = 0, stochastic = 0;
  for (const ErrorCurve& c : curves) {
    const RoundingMode mode = s.roundings[c.rounding];
    if (c.order != "sequential") continue;
    const LengthErrors& last = c.cells.back();
    if (s.formats[c.format].format == bf16 && c.quantity == Quantity::sum && last.overflowed == 0) {
      if (mode == RoundingMode::nearest_even) nearest = last.mean(last.total);
      if (mode == RoundingMode::stochastic) stochastic = last.mean(last.total);
    }
    if (mode != RoundingMode::stochastic) continue;
    for (const LengthErrors& cell : c.cells) {
      if (cell.overflowed > 0 || cell.squares == 0) continue;
      within += cell.within_root, runs += cell.runs;
      drift = std::max(drift, std::fabs(cell.bias) / std::sqrt(cell.squares));
    }
  }
  const Citation source{publications::error_bounds, "Connolly, Higham & Mary 2021; Higham & Mary 2019"};
  const std::string root =
      "With stochastic rounding, sequential errors stay within sqrt(n) u in 99 % of the runs (share of runs, which may "
      "be "
      "three standard errors below).";
  const std::string unbiased = "Stochastic rounding is unbiased: the mean error lies within 5 standard errors of zero.";
  if (runs > 0 && s.random_bits >= 24) {
    const double n = static_cast<double>(runs);
    run.report.claim({"stochastic-within-sqrt-n-u", root, source},
                     at_least(0.99 - 3 * std::sqrt(0.99 * 0.01 / n), static_cast<double>(within) / n, "oracle"));
    run.report.claim({"stochastic-unbiased", unbiased, source},
                     s.trials * s.seeds >= 32 ? at_most(5, drift, "oracle")
                                              : skipped("fewer than 32 runs a length (trials times seeds)"));
  } else {
    const std::string why = runs > 0 ? "fewer than 24 random bits leave a bias" : "no stochastic sequential sums here";
    run.report.claim({"stochastic-within-sqrt-n-u", root, source}, skipped(why));
    run.report.claim({"stochastic-unbiased", unbiased, source}, skipped(why));
  }
  const std::string id = "nearest-stagnates-stochastic-does-not";
  const std::string statement =
      "Long bf16 sums stagnate to nearest; rounded stochastically they are at least ten times better (ratio of mean "
      "errors).";
  run.report.claim({id, statement, source},
                   s.distribution == "uniform" && s.lengths.back() >= 16384 && nearest > 0 && stochastic > 0
                       ? at_least(10, nearest / stochastic, "oracle")
                       : skipped("needs bf16, both roundings, sequential, uniform, a length of 16384 or more"));
}

void claim_typical(const std::vector<ErrorCurve>& curves, const AccumulationSettings& s, Run& run) {
  double worst = 0;
  for (const ErrorCurve& c : curves) {
    if (c.order != "sequential" || s.roundings[c.rounding] != RoundingMode::nearest_even) continue;
    for (const LengthErrors& cell : c.cells)
      if (cell.bounds.linear <= 0.125 && cell.judged() > 0)
        worst = std::max(worst, cell.mean(cell.total) / cell.bounds.root);
  }
  const std::string id = "nearest-typically-sqrt-n-u";
  const std::string statement =
      "While n u <= 1/8, mean errors to nearest stay below sqrt(n) u, far below n u (largest mean error / sqrt(n) u).";
  const Citation source{publications::error_bounds,
                        "Higham & Mary 2019; Blanchard, Higham, Lopez, Mary & Pranesh 2020"};
  run.report.claim({id, statement, source}, worst > 0
                                                ? at_most(1, worst, may_differ())
                                                : skipped("no inexact sequential sum to nearest even with n u <= 1/8"));
}

}  // namespace

void report_accumulation(const AccumulationSettings& s, const std::vector<ErrorCurve>& curves,
                         const std::vector<Drawn>& distributions, Run& run) {
  write_curves(s, curves, run);
  write_conditions(distributions, run);
  claim_bounds(curves, s, run);
  claim_typical(curves, s, run);
  claim_stochastic(curves, s, run);
}

}  // namespace halfulp::accumulation

// How wrong sums and dot products are, by accumulator, rounding, order and length, and what theory promises.

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
