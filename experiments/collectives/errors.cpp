// Errors of reductions against the number of ranks, and the laws by which they grow.
#include <halfulp/experiments/collectives/collectives.hpp>

#include <halfulp/data/elementary.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace halfulp::collectives {
namespace {

/// What theory says of one algorithm at one number of ranks: of errors divided by the sum of magnitudes.
struct Laws {
  double linear = 0, root = 0, proven = 0;  ///< as in ErrorBounds, the rounding of the result included
};

Laws laws(Algorithm a, const DotModel& model, double n) {
  if (a == Algorithm::exact) {
    const double u = unit_roundoff({model.input, {}});
    return {u, u, u};
  }
  const ErrorBounds b = error_bounds(model, n, false);
  if (!model.output || model.output->format == model.accumulator.format) return {b.linear, b.root, b.proven};
  const double u = unit_roundoff(*model.output);
  return {b.linear + u, std::sqrt(b.root * b.root + u * u), b.proven + u * (1 + b.proven)};
}

/// One algorithm, format, signal and number of ranks, over elements.
struct ReductionErrors {
  double errors = 0, sums = 0;  ///< squares of errors and of exact sums
  double largest = 0;           ///< error
  double backward = 0;          ///< error / sum of magnitudes: the largest
  double of_bound = 0;          ///< and divided by what is proven
  double of_one_rounding = 0;   ///< largest error / (one rounding of the exact sum and what FP32 may lose)
  std::size_t judged = 0, overflowed = 0, correct = 0;
  std::size_t summed = 0,
              bounded = 0;  ///< of those judged: with a number that is not zero, and of these where a theorem applies

  void merge(const ReductionErrors& o) {
    errors += o.errors, sums += o.sums, judged += o.judged, overflowed += o.overflowed, correct += o.correct,
        summed += o.summed, bounded += o.bounded;
    largest = std::max(largest, o.largest), backward = std::max(backward, o.backward),
    of_bound = std::max(of_bound, o.of_bound), of_one_rounding = std::max(of_one_rounding, o.of_one_rounding);
  }
  /// Divided by the root mean square of the exact sums: the root mean square of errors, and the largest.
  double rms() const { return sums > 0 ? std::sqrt(errors / sums) : 0; }
  double worst() const { return sums > 0 ? largest / std::sqrt(sums / static_cast<double>(judged)) : 0; }
};

/// Cells by signal, format, algorithm, ranks, in this order.
struct Layout {
  std::size_t signals, formats, algorithms, ranks;
  std::size_t size() const { return signals * formats * algorithms * ranks; }
  std::size_t at(std::size_t s, std::size_t f, std::size_t a, std::size_t n) const {
    return ((s * formats + f) * algorithms + a) * ranks + n;
  }
};

template <class V>
void fields(V& v, ReductionErrors& e) {
  v("errors", e.errors);
  v("sums", e.sums);
  v("largest", e.largest);
  v("backward", e.backward);
  v("of_bound", e.of_bound);
  v("of_one_rounding", e.of_one_rounding);
  v("judged", e.judged);
  v("overflowed", e.overflowed);
  v("correct", e.correct);
  v("summed", e.summed);
  v("bounded", e.bounded);
}

/// All cells of one element.
struct Piece {
  std::vector<ReductionErrors> cells;
};
template <class V>
void fields(V& v, Piece& p) {
  v("cells", p.cells);
}

Piece reduce_element(const CollectiveSettings& s, const Layout& layout, std::size_t element, Trace& operands) {
  Piece piece{std::vector<ReductionErrors>(layout.size())};
  Trace* trace = element < 2 ? &operands : nullptr;
  const std::uint32_t most = s.ranks.back();
  for (std::size_t g = 0; g < s.signals.size(); ++g) {
    std::vector<std::uint64_t> fp32_codes(most);
    for (std::uint32_t r = 0; r < most; ++r)
      fp32_codes[r] = encode(fp32, {}, rank_gradient(s, s.signals[g], r, element)).code;
    for (std::size_t f = 0; f < s.formats.size(); ++f) {
      const FloatFormat& format = s.formats[f].format;
      Arithmetic in_format(format, {}, trace);
      std::vector<std::uint64_t> codes(most);
      for (std::uint32_t r = 0; r < most; ++r) codes[r] = in_format.convert_from(fp32, fp32_codes[r]);

      const int scale = scale_of(format);
      const Units one = in_units(1, std::max(scale, 0));
      struct ExactReduction {
        Units sum = 0, magnitudes = 0;
        bool finite = true;
      };
      std::vector<ExactReduction> exact;  // of the first ranks[n] numbers
      ExactReduction so_far;
      for (std::uint32_t r = 0; r < most; ++r) {
        so_far.finite = so_far.finite && format.is_finite(codes[r]);
        if (so_far.finite) {
          const Units x = in_units(format.value(codes[r]), scale);
          so_far.sum += x, so_far.magnitudes += abs(x);
        }
        if (r + 1 == s.ranks[exact.size()]) exact.push_back(so_far);
      }
      for (std::size_t a = 0; a < s.algorithms.size(); ++a) {
        Collective collective(s.algorithms[a], format, s.node, s.seed, trace);
        for (std::size_t n = 0; n < s.ranks.size(); ++n) {
          const std::uint32_t ranks = s.ranks[n];
          ReductionErrors& cell = piece.cells[layout.at(g, f, a, n)];
          // The element's place in a buffer of all elements decides its chunk.
          const auto chunk = static_cast<std::uint32_t>(element * ranks / s.elements);
          const auto order = order_of(s.algorithms[a], ranks, chunk);
          std::vector<std::uint64_t> numbers(ranks);
          for (std::uint32_t r = 0; r < ranks; ++r) numbers[r] = codes[order[r]];
          const auto [code, overflowed] = collective(numbers, element);
          if (overflowed || !exact[n].finite) {
            ++cell.overflowed;
            continue;
          }
          ++cell.judged;
          if (exact[n].magnitudes == 0) {
            ++cell.correct;
            continue;
          }
          const Units error = in_units(format.value(code), scale) - exact[n].sum;
          const double off = ratio(abs(error), one), sum = ratio(abs(exact[n].sum), one),
                       relative = ratio(abs(error), exact[n].magnitudes);
          cell.errors += off * off, cell.sums += sum * sum;
          cell.largest = std::max(cell.largest, off), cell.backward = std::max(cell.backward, relative);
          if (format.value(code) == format.value(rounded(format, {}, exact[n].sum, Units(1), -scale))) ++cell.correct;
          const double bound = laws(s.algorithms[a], collective.model(), ranks).proven;
          ++cell.summed, cell.bounded += std::isfinite(bound);
          if (relative > 0 && std::isfinite(bound)) cell.of_bound = std::max(cell.of_bound, relative / bound);
          if (s.algorithms[a] == Algorithm::one_shot_fp32 && off > 0) {
            const double u = unit_roundoff({format, {}}), b = error_bounds(collective.model(), ranks, false).proven;
            cell.of_one_rounding = std::max(cell.of_one_rounding,
                                            off / (u * sum + b * (1 + u) * ratio(exact[n].magnitudes, one)));
          }
        }
      }
    }
  }
  return piece;
}

/// Slope of log2 y against log2 x by least squares; nothing for fewer than three points.
std::optional<double> slope(const std::vector<std::pair<double, double>>& points) {
  if (points.size() < 3) return {};
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(points.size());
  for (const auto& [ranks, error] : points) {
    const double a = deterministic_log2(ranks), b = deterministic_log2(error);
    x += a, y += b, xx += a * a, xy += a * b;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

/// Whether a number of typical size is at least a spacing of the typical sum that it meets, so that it is not rounded
/// away: beyond, sums begin to stagnate and errors are no random walk. Numbers are signal * G + noise, both of size 1:
/// k of them add up to about sqrt((k signal)^2 + k), and values near x are at most 2 u x apart. In a tree single
/// numbers meet single numbers.
bool moves(const CollectiveSettings& s, Algorithm a, const DotModel& model, double signal, std::uint32_t ranks) {
  const double k = a == Algorithm::tree || a == Algorithm::exact ? 1
                   : a == Algorithm::node_tree                   ? std::min<double>(ranks, static_cast<double>(s.node))
                                                                 : ranks;
  return 2 * unit_roundoff(model.accumulator) * std::sqrt(k * k * signal * signal + k) <=
         std::sqrt(signal * signal + 1);
}

struct Growth {
  std::optional<double> exponent, root, linear, beyond;  ///< measured; by both laws; where sums stagnate
  std::uint32_t first = 0, last = 0;
  std::size_t points = 0;
};

Growth growth(const CollectiveSettings& s, const std::vector<ReductionErrors>& cells, const Layout& layout,
              std::size_t g, std::size_t f, std::size_t a) {
  std::vector<std::pair<double, double>> measured, root, linear, beyond;
  Growth result;
  const DotModel model = model_of(s.algorithms[a], s.formats[f].format, s.node, s.seed);
  for (std::size_t n = 0; n < s.ranks.size(); ++n) {
    const ReductionErrors& cell = cells[layout.at(g, f, a, n)];
    const double ranks = s.ranks[n];
    if (ranks < 4 || cell.overflowed > 0 || cell.rms() == 0) continue;
    const Laws law = laws(s.algorithms[a], model, ranks);
    if (!moves(s, s.algorithms[a], model, s.signals[g], s.ranks[n])) {
      beyond.emplace_back(ranks, cell.rms());
      continue;
    }
    measured.emplace_back(ranks, cell.rms()), root.emplace_back(ranks, law.root),
        linear.emplace_back(ranks, law.linear);
    if (result.first == 0) result.first = s.ranks[n];
    result.last = s.ranks[n];
  }
  result.points = measured.size();
  result.exponent = slope(measured), result.root = slope(root), result.linear = slope(linear),
  result.beyond = slope(beyond);
  return result;
}

void claims(const CollectiveSettings& s, const std::vector<ReductionErrors>& cells, const Layout& layout, Run& run) {
  const auto index_of = [](const auto& list, auto&& same) {
    return static_cast<std::size_t>(std::find_if(list.begin(), list.end(), same) - list.begin());
  };
  const auto has = [&](Algorithm a) {
    return std::find(s.algorithms.begin(), s.algorithms.end(), a) != s.algorithms.end();
  };
  const auto at = [&](Algorithm a) { return index_of(s.algorithms, [&](Algorithm x) { return x == a; }); };
  const std::size_t bf = index_of(s.formats, [](const FormatChoice& c) { return c.format == bf16; });

  double worst = 0, tree = 0, once = 0;
  std::size_t any = 0, trees = 0, onces = 0;
  for (std::size_t g = 0; g < layout.signals; ++g)
    for (std::size_t f = 0; f < layout.formats; ++f)
      for (std::size_t a = 0; a < layout.algorithms; ++a)
        for (std::size_t n = 0; n < layout.ranks; ++n) {
          const ReductionErrors& cell = cells[layout.at(g, f, a, n)];
          any += cell.bounded, worst = std::max(worst, cell.of_bound);
          if (s.algorithms[a] == Algorithm::tree) {
            double levels = 0;
            for (std::uint32_t reached = 1; reached < s.ranks[n]; reached *= 2) ++levels;
            const double u = unit_roundoff({s.formats[f].format, {}}), bound = levels * u / (1 - levels * u);
            if (levels * u < 1) trees += cell.summed, tree = std::max(tree, cell.backward / bound);
          }
          if (s.algorithms[a] == Algorithm::one_shot_fp32)
            onces += cell.summed, once = std::max(once, cell.of_one_rounding);
        }
  const auto bounded = [&](bool there, std::string id, std::string statement, std::string source, double largest,
                           std::string none) {
    run.report.claim({id, statement + (there ? " (Largest error divided by the bound.)" : ""), source},
                     there ? at_most(1, largest, "oracle") : skipped(none));
  };
  bounded(any > 0, "errors-within-proven-bounds",
          "No reduction is further from the exact sum than its number of roundings allows.",
          "Higham 2002, section 4.2; Jeannerod & Rump 2013", worst,
          "every reduction overflowed, is of zeros, or is longer than the bound holds for");
  bounded(trees > 0, "tree-error-below-log2-n-u",
          "In a tree every number meets log2 N roundings: the error stays below about log2(N) u times the sum of "
          "magnitudes.",
          "Higham 2002, section 4.2", tree,
          has(Algorithm::tree) ? "every tree overflowed, is of zeros, or is higher than the bound holds for"
                               : "algorithms does not contain tree");
  bounded(onces > 0, "one-shot-fp32-rounds-once",
          "Added in FP32, a sum loses one rounding to its format, and what FP32 loses, at any number of ranks.",
          "derived: one rounding of a sum with FP32's error; NVIDIA/Megatron-LM #1967, #6199", once,
          has(Algorithm::one_shot_fp32) ? "every sum overflowed or is of zeros"
                                        : "algorithms does not contain one-shot-fp32");

  // "Rounds the partial sum at every one of its N - 1 hops, so BF16 gradient error grows as sqrt(N)": said without a
  // measurement and of no range. A random walk of hops has it in both cases, as long as no number is rounded away: what
  // table `growth` fits.
  const auto square_root = [&](std::string id, std::string which, double signal, std::string why_not) {
    const std::string source = "NVIDIA/Megatron-LM #6199; Higham & Mary 2019";
    const std::string statement = fmt::format(
        "{} the error of a bf16 ring grows as the root of N (table growth: exponent).", which);
    const std::size_t g = index_of(s.signals, [&](double x) { return x == signal; });
    const bool here = has(Algorithm::ring) && bf < s.formats.size() && g < s.signals.size();
    const Growth law = here ? growth(s, cells, layout, g, bf, at(Algorithm::ring)) : Growth{};
    if (law.points >= 5 && s.elements >= 16) {
      return run.report.claim({id, statement, source}, within(0.5, 0.1, *law.exponent, may_differ(why_not)));
    }
    run.report.claim({id, statement, source},
                     skipped(!has(Algorithm::ring)    ? "algorithms does not contain ring"
                             : bf == s.formats.size() ? "formats does not contain bf16"
                             : g == s.signals.size()  ? fmt::format("signals does not contain {}", signal)
                                                      : "fewer than five numbers of ranks from 4 on without overflow "
                                                        "and before sums stagnate, or fewer than 16 elements"));
  };
  square_root(
      "bf16-ring-grows-as-sqrt-n", "Where gradients have nothing in common,", 0,
      "rounding errors of these elements are no random walk, or are too few to show one; table errors has them");
  square_root(
      "bf16-ring-with-signal-grows-as-sqrt-n",
      "Where gradients have half in common (signal 1), before the sum stagnates,", 1,
      "rounding errors of these elements are no random walk, or are too few to show one; table errors has them");

  const std::string stable_id = "tree-beats-ring", stable_source = "NVIDIA/nccl #1026, #1055";
  const std::string stable =
      "In bf16 a tree is more accurate than a ring (error of the ring divided by the tree's, most ranks).";
  if (has(Algorithm::ring) && has(Algorithm::tree) && bf < s.formats.size() && s.ranks.back() >= 64 &&
      s.elements >= 16) {
    const double ring = cells[layout.at(0, bf, at(Algorithm::ring), layout.ranks - 1)].rms(),
                 balanced = cells[layout.at(0, bf, at(Algorithm::tree), layout.ranks - 1)].rms();
    if (ring > 0 && balanced > 0) {
      return run.report.claim(
          {stable_id, stable, stable_source},
          at_least(1, ring / balanced,
                   may_differ("on these gradients the ring's errors happen to be smaller; the table errors has them")));
    }
  }
  run.report.claim({stable_id, stable, stable_source},
                   skipped("needs ring and tree in bf16, 64 ranks or more and 16 elements or more, without overflow"));
}

}  // namespace

void reduction_errors(const CollectiveSettings& s, Run& run) {
  const Layout layout{s.signals.size(), s.formats.size(), s.algorithms.size(), s.ranks.size()};
  std::vector<ReductionErrors> cells(layout.size());
  std::vector<Trial> asked;
  for (std::size_t i = 0; i < s.elements; ++i) {
    Json item = trial_item(s);
    item["element"] = i;
    asked.push_back({fmt::format("element {}", i), std::move(item)});
  }
  const auto pieces = trials<Piece>(run, {"reductions", 1}, asked, 0, 0.6,
                                    [&](std::size_t i, Trace& trace) { return reduce_element(s, layout, i, trace); });
  for (const Piece& piece : pieces)
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i].merge(piece.cells[i]);

  Table& errors = run.report.table(
      "errors", "Errors of reductions over N ranks",
      {{"algorithm", "", "How ranks add: see the parameter `algorithms`."},
       {"format", "", "Format of gradients, results, and of what travels (ring-fp32: FP32 travels)."},
       {"signal", "1", "What ranks have in common: their gradients are signal * G + noise."},
       {"ranks", "rank", "Number of ranks N."},
       {"rms_error", "1",
        "Root mean square of errors over elements, divided by that of the exact sums; null if all overflowed."},
       {"largest_error", "1", "Largest error over elements, divided by the same root mean square of the exact sums."},
       {"backward_error", "1",
        "Largest of each element's error divided by its sum of magnitudes over ranks, which is greater than its sum "
        "where signs differ."},
       {"proven_bound", "1",
        "No backward_error is larger. With k roundings to nearest, k = N - 1 in a ring and log2(N) in a tree: k u / (1 "
        "- k u), or (N - 1) u where that is less; u is twice as large if rounding is stochastic; null where no theorem "
        "applies."},
       {"correctly_rounded", "1", "Share of results that are the exact sum rounded once, to nearest even."},
       {"overflowed", "value",
        "Elements whose sum overflowed on the way, or whose gradients do; all errors leave them out."}});
  Table& grown = run.report.table(
      "growth", "By which power of N errors grow",
      {{"algorithm", "", "How ranks add: see the parameter `algorithms`."},
       {"format", "", "Format of gradients and results."},
       {"signal", "1", "What ranks have in common."},
       {"first_ranks", "rank", "Fewest ranks of the fit: 4 or more; null if there is none."},
       {"last_ranks", "rank",
        "Most: while a number of typical size is at least a spacing of the typical sum it meets; beyond, sums begin to "
        "stagnate."},
       {"exponent", "1", "Slope of log rms_error against log N; null for fewer than three points."},
       {"by_square_root", "1",
        "Slope of the square root of the number of roundings, each weighted by its unit roundoff, the typical law "
        "(Higham & Mary 2019). FP32 sums rounded once at the end have a slope near 0."},
       {"by_bound", "1", "Slope of the number of roundings, weighted likewise, the worst case."},
       {"beyond", "1", "Slope of log rms_error over more ranks than last_ranks; null for fewer than three points."}});
  for (std::size_t g = 0; g < layout.signals; ++g)
    for (std::size_t f = 0; f < layout.formats; ++f)
      for (std::size_t a = 0; a < layout.algorithms; ++a) {
        const DotModel model = model_of(s.algorithms[a], s.formats[f].format, s.node, s.seed);
        for (std::size_t n = 0; n < layout.ranks; ++n) {
          const ReductionErrors& cell = cells[layout.at(g, f, a, n)];
          const double proven = laws(s.algorithms[a], model, s.ranks[n]).proven;
          const bool any = cell.judged > 0;
          errors.row({name_of(s.algorithms[a]), s.formats[f].name, s.signals[g], s.ranks[n],
                      any ? number(cell.rms()) : Json(), any ? number(cell.worst()) : Json(),
                      any ? number(cell.backward) : Json(), or_null(proven),
                      any ? number(static_cast<double>(cell.correct) / static_cast<double>(cell.judged)) : Json(),
                      cell.overflowed});
        }
        const Growth law = growth(s, cells, layout, g, f, a);
        grown.row({name_of(s.algorithms[a]), s.formats[f].name, s.signals[g], law.first ? Json(law.first) : Json(),
                   law.last ? Json(law.last) : Json(), or_null(law.exponent), or_null(law.root), or_null(law.linear),
                   or_null(law.beyond)});
      }
  claims(s, cells, layout, run);
}

}  // namespace halfulp::collectives
