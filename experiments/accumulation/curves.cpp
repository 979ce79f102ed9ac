// What the experiment "accumulation" writes: its curves, and what theory says about them.
#include <halfulp/experiments/accumulation/accumulation.hpp>
#include <halfulp/experiments/publications.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
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
