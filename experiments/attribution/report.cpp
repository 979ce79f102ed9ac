#include <halfulp/experiments/attribution/report.hpp>

#include <halfulp/experiments/attribution/real_sums.hpp>

#include <algorithm>

namespace halfulp::attribution {
namespace {

/// Rows of a result: products and accumulation of a matrix unit are one.
bool has_row(const Result& r, std::size_t source) { return !(r.unit && source == static_cast<std::size_t>(Source::products)); }
std::string row_name(const Result& r, std::size_t source) {
  return r.unit && source == static_cast<std::size_t>(Source::accumulation) ? "unit" : std::string(source_names[source]);
}

}  // namespace

Choices choose(const Settings& s, Report& report) {
  Choices choices;
  Table& table = report.table("configurations", "Which formats meet which accumulators", {
      {"formats", "", "Of A and B: one name for both, or A+B."},
      {"a", "", "How A is stored, in full."},
      {"b", "", "How B is stored, along k too."},
      {"accumulator", "", "What sums products inside a segment of k in which no scale changes; @N: every N products an fp32 takes over."},
      {"not_measured", "", "Why there is no such product; empty if it is measured."},
      {"no_reverse", "", "Why the reverse order has no meaning for it; empty if it has."}});
  const auto full = [](const OperandFormat& f) { return f.block ? description(*f.block) : format_name(f.grid); };
  for (std::size_t f = 0; f < s.formats.size(); ++f)
    for (std::size_t i = 0; i < s.accumulators.size(); ++i) {
      const FormatPair& pair = s.formats[f];
      const Inside& inside = s.accumulators[i];
      std::string why = refusal(inside, pair.a, pair.b);
      const std::string no_reverse = inside.unit() ? real_refusal(*inside.unit()) : "";
      if (why.empty() && !no_reverse.empty() && has(s.active, Source::accumulation) && !has(s.active, Source::input))
        why = "sources: accumulation without input: " + no_reverse;
      table.row({pair.name, full(pair.a), full(pair.b), inside.name, why, why.empty() ? no_reverse : ""});
      if (why.empty()) choices.push_back({f, i});
    }
  if (choices.empty()) throw std::invalid_argument("formats and accumulators: none go together; " + refusal(s.accumulators[0], s.formats[0].a, s.formats[0].b));
  // Accumulator by accumulator, so that formats stand side by side.
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& x, const Choice& y) { return x.accumulator < y.accumulator; });
  return choices;
}

void report_sources(const Settings& s, const Choices& choices, const Curves& curves, Report& report) {
  Table& sources = report.table("sources", "The error of A B by source: switched on from scaling to output, in reverse, and each alone", {
      {"formats", "", "Of A and B."},
      {"accumulator", "", "What sums products."},
      {"source", "", "What is switched on, in the order of the rows; `unit`: a matrix unit's products and accumulation, which are one."},
      {"error", "1", "Frobenius norm of the part, divided by that of the exact product."},
      {"largest", "1", "Largest magnitude of the part in an output."},
      {"relative", "1", "Largest magnitude of the part, divided by the exact output, which may be near 0."},
      {"share", "1", "Share of the total: inner product with the total error over its square; the shares add up to 1."},
      {"bias", "1", "Sum of the part with the sign of the exact output over the sum of its magnitudes: 1 if all outputs grow, -1 if all shrink."},
      {"reverse_error", "1", "As `error`, switched on from output to scaling; null where configurations say why."},
      {"reverse_largest", "1", "As `largest`, in that order."},
      {"reverse_share", "1", "As `share`, in that order."},
      {"reverse_bias", "1", "As `bias`, in that order."},
      {"alone_error", "1", "As `error`, with this source alone."},
      {"overflowed", "output", "Outputs that are not finite in some state, in no part and no norm; where these are all, there is nothing to measure: null."}});
  for (std::size_t c = 0; c < choices.size(); ++c) {
    const Result& r = curves.main[c];
    const auto row = [&](const std::string& name, const Measure& m, const Measure* reverse, const Measure* alone) {
      const auto cell = [&](const Measure* of, double Measure::*what) { return of && r.measured() ? number(of->*what) : Json(); };
      sources.row({s.formats[choices[c].format].name, s.accumulators[choices[c].accumulator].name, name, cell(&m, &Measure::norm), cell(&m, &Measure::largest),
                   cell(&m, &Measure::relative), cell(&m, &Measure::share), cell(&m, &Measure::bias), cell(reverse, &Measure::norm), cell(reverse, &Measure::largest), cell(reverse, &Measure::share), cell(reverse, &Measure::bias),
                   cell(alone, &Measure::norm), r.overflowed});
    };
    for (std::size_t i = 0; i < source_count; ++i)
      if (has_row(r, i)) row(row_name(r, i), r.forward[i], r.has_reverse[i] ? &r.reverse[i] : nullptr, r.has_alone[i] ? &r.alone[i] : nullptr);
    row("total", r.total, &r.total, nullptr);
  }

  Table& lengths = report.table("lengths", "The same against the number of products k: Frobenius norms of parts over that of the exact product", {
      {"formats", "", "Of A and B."},
      {"accumulator", "", "What sums products."},
      {"terms", "term", "Number k of products in an output; the first 8 rows of A and columns of B."},
      {"scaling", "1", "Part of scaling, switched on first."},
      {"input", "1", "Part of input quantization, switched on second."},
      {"products", "1", "Part of rounded products, switched on third; null for matrix units."},
      {"accumulation", "1", "Part of accumulation (of a unit: with its products), switched on fourth."},
      {"output", "1", "Part of the output's rounding, switched on last."},
      {"total", "1", "The whole error."},
      {"reverse_scaling", "1", "Part of scaling, switched on last; null where configurations say why."},
      {"reverse_input", "1", "Part of input quantization, switched on last but one."},
      {"reverse_accumulation", "1", "Part of accumulation, switched on second."},
      {"overflowed", "output", "Outputs that are not finite in some state."}});
  for (std::size_t c = 0; c < choices.size(); ++c)
    for (std::size_t l = 0; l < curves.lengths.size(); ++l) {
      const Result& r = curves.by_length[l][c];
      std::vector<Json> cells{s.formats[choices[c].format].name, s.accumulators[choices[c].accumulator].name, curves.lengths[l]};
      for (std::size_t i = 0; i < source_count; ++i) cells.push_back(has_row(r, i) && r.measured() ? number(r.forward[i].norm) : Json());
      cells.push_back(r.measured() ? number(r.total.norm) : Json());
      for (const Source source : {Source::scaling, Source::input, Source::accumulation}) {
        const auto i = static_cast<std::size_t>(source);
        cells.push_back(r.has_reverse[i] && r.measured() ? number(r.reverse[i].norm) : Json());
      }
      cells.push_back(r.overflowed);
      lengths.row(std::move(cells));
    }

  std::size_t not_adding_up = 0, not_alone = 0, not_the_definition = 0, moved = 0, powers = 0;
  const auto count = [&](const std::vector<Result>& results) {
    for (const Result& r : results) {
      not_adding_up += r.not_adding_up, not_alone += r.not_alone, not_the_definition += r.not_the_definition;
      powers += r.powers_of_two, moved += r.powers_of_two && !r.scaling_is_zero;
    }
  };
  count(curves.main);
  for (const auto& results : curves.by_length) count(results);
  const std::string derived = "derived: definitions of the sources (experiments/attribution/product.hpp)";
  report.claim(exactly("parts-add-up", "Outputs, in either order, whose parts do not add up to the total error exactly, as rational numbers.", derived, 0, not_adding_up, "oracle"));
  report.claim(exactly("one-source-alone", "Outputs at which a part of another source is not exactly zero while one source alone is on, or at which that source's part is not the total.",
                       derived, 0, not_alone, "oracle"));
  const std::string all_on = "Outputs in first rows that, with everything on, are not word for word what scalar operations give.";
  if (s.active == all_sources) report.claim(exactly("everything-on", all_on, derived, 0, not_the_definition, "oracle"));
  else report.claim(skipped("everything-on", all_on, derived, "sources leaves some out"));
  const std::string power = "Products in which scales that are powers of two change anything before elements are rounded.";
  if (powers) report.claim(exactly("powers-of-two-move-nothing", power, "derived: fp32 numbers divided by a power of two are exact, short of underflow", 0, moved, "oracle"));
  else report.claim(skipped("powers-of-two-move-nothing", power, "derived: fp32 numbers divided by a power of two are exact, short of underflow", "formats has none with such scales on both sides"));
}

}  // namespace halfulp::attribution
