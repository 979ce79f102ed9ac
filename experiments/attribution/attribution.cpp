#include <halfulp/experiments/attribution/attribution.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/experiments/attribution/product.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/unit_file.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace halfulp::attribution {
namespace {

/// Whether a result has a row for a source: products and accumulation of a matrix unit are one source.
bool has_row(const ChoiceResult& r, std::size_t source) {
  return !(r.unit && source == static_cast<std::size_t>(ErrorSource::products));
}
std::string row_name(const ChoiceResult& r, std::size_t source) {
  return r.unit && source == static_cast<std::size_t>(ErrorSource::accumulation) ? "unit"
                                                                                 : std::string(source_names[source]);
}

}  // namespace

Choices choose(const Settings& s, Report& report) {
  Choices choices;
  Table& table = report.table("configurations", "Which formats meet which accumulators",
                              {{"formats", "", "Of A and B: one name for both, or A+B."},
                               {"a", "", "How A is stored, in full."},
                               {"b", "", "How B is stored, along k too."},
                               {"accumulator", "",
                                "What sums the products of a segment of k in which no scale changes; @N: after every N "
                                "products, the sum moves into fp32."},
                               {"not_measured", "", "Why there is no such product; empty if it is measured."},
                               {"no_reverse", "", "Why the reverse order has no meaning for it; empty if it has."}});
  const auto full = [](const OperandFormat& f) { return f.block ? description(*f.block) : format_name(f.grid); };
  for (std::size_t f = 0; f < s.formats.size(); ++f)
    for (std::size_t i = 0; i < s.accumulators.size(); ++i) {
      const FormatPair& pair = s.formats[f];
      const Inside& inside = s.accumulators[i];
      std::string why = refusal(inside, pair.a, pair.b);
      const std::string no_reverse = inside.unit() ? real_refusal(*inside.unit()) : "";
      if (why.empty() && !no_reverse.empty() && has(s.active, ErrorSource::accumulation) &&
          !has(s.active, ErrorSource::input))
        why = "sources: accumulation without input: " + no_reverse;
      table.row({pair.name, full(pair.a), full(pair.b), inside.name, why, why.empty() ? no_reverse : ""});
      if (why.empty()) choices.push_back({f, i});
    }
  if (choices.empty())
    throw std::invalid_argument("formats and accumulators: none go together; " +
                                refusal(s.accumulators[0], s.formats[0].a, s.formats[0].b));
  // Sorted by accumulator, so that formats can be compared.
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& x, const Choice& y) { return x.accumulator < y.accumulator; });
  return choices;
}

void report_sources(const Settings& s, const Choices& choices, const Curves& curves, Report& report) {
  Table& sources = report.table(
      "sources", "The error of A B by source: switched on from scaling to output, in reverse, and each alone",
      {{"formats", "", "Of A and B."},
       {"accumulator", "", "What sums products."},
       {"source", "",
        "What is switched on, in the order of the rows; `unit`: a matrix unit's products and accumulation, which are "
        "one."},
       {"error", "1", "Frobenius norm of the part, divided by that of the exact product."},
       {"largest", "1", "Largest magnitude of the part in an output."},
       {"relative", "1", "Largest magnitude of the part, divided by the exact output, which may be near 0."},
       {"share", "1",
        "Share of the total: inner product with the total error over its square; the shares add up to 1."},
       {"bias", "1",
        "Sum of the part with the sign of the exact output over the sum of its magnitudes: 1 if all outputs grow, -1 "
        "if all shrink."},
       {"reverse_error", "1", "As `error`, switched on from output to scaling; null where configurations say why."},
       {"reverse_largest", "1", "As `largest`, in that order."},
       {"reverse_share", "1", "As `share`, in that order."},
       {"reverse_bias", "1", "As `bias`, in that order."},
       {"alone_error", "1", "As `error`, with this source alone."},
       {"overflowed", "output",
        "Outputs that are not finite in some state, which all parts and norms leave out; if no output is left, these "
        "are null."}});
  for (std::size_t c = 0; c < choices.size(); ++c) {
    const ChoiceResult& r = curves.main[c];
    const auto row = [&](const std::string& name, const Measure& m, const Measure* reverse, const Measure* alone) {
      const auto cell = [&](const Measure* of, double Measure::* what) {
        return of && r.measured() ? number(of->*what) : Json();
      };
      sources.row({s.formats[choices[c].format].name, s.accumulators[choices[c].accumulator].name, name,
                   cell(&m, &Measure::norm), cell(&m, &Measure::largest), cell(&m, &Measure::relative),
                   cell(&m, &Measure::share), cell(&m, &Measure::bias), cell(reverse, &Measure::norm),
                   cell(reverse, &Measure::largest), cell(reverse, &Measure::share), cell(reverse, &Measure::bias),
                   cell(alone, &Measure::norm), r.overflowed});
    };
    for (std::size_t i = 0; i < source_count; ++i)
      if (has_row(r, i))
        row(row_name(r, i), r.forward[i], r.has_reverse[i] ? &r.reverse[i] : nullptr,
            r.has_alone[i] ? &r.alone[i] : nullptr);
    row("total", r.total, &r.total, nullptr);
  }

  Table& lengths = report.table(
      "lengths", "The same against the number of products k: Frobenius norms of parts over that of the exact product",
      {{"formats", "", "Of A and B."},
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
      const ChoiceResult& r = curves.by_length[l][c];
      std::vector<Json> cells{s.formats[choices[c].format].name, s.accumulators[choices[c].accumulator].name,
                              curves.lengths[l]};
      for (std::size_t i = 0; i < source_count; ++i)
        cells.push_back(has_row(r, i) && r.measured() ? number(r.forward[i].norm) : Json());
      cells.push_back(r.measured() ? number(r.total.norm) : Json());
      for (const ErrorSource source : {ErrorSource::scaling, ErrorSource::input, ErrorSource::accumulation}) {
        const auto i = static_cast<std::size_t>(source);
        cells.push_back(r.has_reverse[i] && r.measured() ? number(r.reverse[i].norm) : Json());
      }
      cells.push_back(r.overflowed);
      lengths.row(std::move(cells));
    }

  std::size_t not_adding_up = 0, not_alone = 0, not_the_definition = 0, moved = 0, powers = 0;
  const auto count = [&](const std::vector<ChoiceResult>& results) {
    for (const ChoiceResult& r : results) {
      not_adding_up += r.not_adding_up, not_alone += r.not_alone, not_the_definition += r.not_the_definition;
      powers += r.powers_of_two, moved += r.powers_of_two && !r.scaling_is_zero;
    }
  };
  count(curves.main);
  for (const auto& results : curves.by_length) count(results);
  const std::string derived = "derived: definitions of the sources (experiments/attribution/product.hpp)";
  report.claim(
      {"parts-add-up",
       "Outputs, in either order, whose parts do not add up to the total error exactly, as rational numbers.", derived},
      exactly(0, not_adding_up, "oracle"));
  report.claim({"one-source-alone",
                "Outputs at which a part of another source is not exactly zero while one source alone is on, or "
                "at which that source's part is not the total.",
                derived},
               exactly(0, not_alone, "oracle"));
  const std::string all_on =
      "Outputs in first rows that, with everything on, are not word for word what scalar operations give.";
  report.claim({"everything-on", all_on, derived},
               s.active == all_sources ? exactly(0, not_the_definition, "oracle") : skipped("sources leaves some out"));
  const std::string power =
      "Products in which scales that are powers of two change anything before elements are rounded.";
  report.claim({"powers-of-two-move-nothing", power,
                "derived: fp32 numbers divided by a power of two are exact, short of underflow"},
               powers ? exactly(0, moved, "oracle") : skipped("formats has none with such scales on both sides"));
}

}  // namespace halfulp::attribution

namespace halfulp {
namespace attribution {

FormatPair parse_pair(const std::string& text) {
  const std::size_t plus = text.find('+');
  const OperandFormat a = parse_operand_format(text.substr(0, plus));
  return {text, a, plus == std::string::npos ? a : parse_operand_format(text.substr(plus + 1))};
}

Json identity_of_unit(const Inside& inside) { return inside.unit() ? unit_to_json(*inside.unit()) : Json(); }

ChoiceResult attribute(const OperandStates& a, const OperandStates& b, const Inside& inside, const Settings& s,
                       Trace& trace) {
  SwitchedProduct product(a, b, inside, s.output);
  const Split parts = split(product, s.active);
  ChoiceResult r;
  r.separate_products = product.separate_products(), r.unit = inside.unit() != nullptr,
  r.no_reverse = product.real_refusal();
  r.outputs = product.count();
  r.overflowed = static_cast<std::size_t>(std::count(parts.finite.begin(), parts.finite.end(), 0));
  r.has_reverse = parts.has_reverse, r.has_alone = parts.has_alone;
  const std::int64_t common = product.common();
  for (std::size_t i = 0; i < source_count; ++i) {
    r.forward[i] = measure(parts.forward[i], parts, common);
    if (r.has_reverse[i]) r.reverse[i] = measure(parts.reverse[i], parts, common);
    if (r.has_alone[i]) r.alone[i] = measure(parts.alone[i], parts, common);
  }
  r.total = measure(parts.total, parts, common);

  const auto defined = [](const std::array<bool, source_count>& has) {
    return std::all_of(has.begin(), has.end(), [](bool h) { return h; });
  };
  r.not_adding_up = parts.not_adding_up(parts.forward) +
                    (defined(parts.has_reverse) ? parts.not_adding_up(parts.reverse) : 0);
  for (std::size_t i = 0; i < source_count; ++i) {
    if (!parts.has_alone[i]) continue;
    const Split one = split(product, only(static_cast<ErrorSource>(i)));
    for (std::size_t o = 0; o < product.count(); ++o)
      for (std::size_t other = 0; other < source_count; ++other) {
        const bool it = other == i;
        r.not_alone += it ? !(one.forward[i][o] == one.total[o] && one.reverse[i][o] == one.total[o])
                          : !(one.forward[other][o].is_zero() && one.reverse[other][o].is_zero());
      }
  }
  // It is a theorem for fp32 numbers whose quotients do not underflow.
  const auto power = [](const OperandStates& x) {
    if (x.has_scales() && x.format.block->rule == ScaleRule::amax) return false;
    for (std::size_t i = 0; x.has_scales() && i < x.size(); ++i)
      if (x.exact[i] != double{static_cast<float>(x.exact[i])} ||
          (x.exact[i] != 0 && std::fabs(x.scaled[i]) < 0x1p-126))
        return false;
    return true;
  };
  r.powers_of_two = power(a) && power(b) && (a.has_scales() || b.has_scales());
  r.scaling_is_zero = std::all_of(parts.forward[0].begin(), parts.forward[0].end(),
                                  [](const Dyadic& d) { return d.is_zero(); });
  if (s.active == all_sources) {
    const std::vector<std::uint64_t> words = product.words();
    for (std::size_t j = 0; j < b.rows; ++j) {
      const std::uint64_t word = defined_output(a, 0, b, j, inside, s.output, j == 0 ? &trace : nullptr);
      const FloatFormat& f = product.result();
      r.not_the_definition += word != words[j] && !(f.is_nan(word) && f.is_nan(words[j]));
    }
  }
  return r;
}

namespace {

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::string> sources(source_names.begin(), source_names.end()),
      samples(sample_names.begin(), sample_names.end());
  std::vector<std::string> modes;
  for (const auto& mode : rounding_modes)
    if (mode.value != RoundingMode::stochastic) modes.emplace_back(mode.name);
  return {
      {"formats", Type::text, "e4m3-tensor,fp8-1x128,fp8-1x128+fp8-128x128,mxfp8e4m3,mxfp8e4m3/rceil,nvfp4,int8",
       "how factors are stored: formats and block formats (halfulp formats lists them), A+B where they differ; blocks "
       "run along k"},
      {"accumulators", Type::text, "fp32,mul=exact; hopper.wgmma.e4m3.fp32; hopper.wgmma.e4m3.fp32@128; exact",
       "how products are summed, separated by semicolons: a model as in fp16,acc=fp32, a matrix unit, or exact "
       "(rounded to fp32 once); @N: sums of N products are added in fp32"},
      {"output", Type::text, "bf16", "format of the result, or none: as it was summed"},
      {"rounding", Type::choice, "nearest-even", "of elements", -infinity, infinity, modes},
      {"sources", Type::choices, "scaling,input,products,accumulation,output",
       "sources that are active; others are off everywhere, and their parts zero", -infinity, infinity, sources},
      {"a", Type::path, "", "a .npy file (float16, float32 or float64) with A, m x k; empty: samples"},
      {"b", Type::path, "", "a .npy file with B, k x n; empty: samples"},
      {"distribution", Type::choice, "normal",
       "of samples: N(0, 1), uniform in (0, 1), or Student's t with 3 degrees of freedom", -infinity, infinity,
       samples},
      {"rows", Type::integer, "16", "m, of samples", 1, 1024},
      {"columns", Type::integer, "16", "n, of samples", 1, 1024},
      {"terms", Type::integer, "1024", "k, of samples", 1, 65536},
      {"outlier", Type::real, "1", "factor of one channel of A: a column, one of the k", 1e-30, 1e30},
      {"outlier_channel", Type::integer, "0", "which one", 0, 16777215},
      {"lengths", Type::integers, "128,512,1024,4096",
       "numbers of products k of the table `lengths`, of the first 8 rows and columns; files: up to their own", 1,
       65536},
      {"outliers", Type::reals, "1,100,1000,10000,100000,1000000",
       "factors of the outlier channel in the table `channels`", 1e-30, 1e30},
      {"seed", Type::integer, "2024", "of samples", 0, largest_seed},
  };
}

Settings read(const Config& config) {
  Settings s;
  for (const std::string& name : name_list(config.text("formats"), ',', "formats"))
    s.formats.push_back(parse_pair(name));
  for (const std::string& name : name_list(config.text("accumulators"), ';', "accumulators"))
    s.accumulators.push_back(parse_inside(name));
  if (const std::string output = config.text("output"); output != "none") {
    try {
      s.output = parse_format(output);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("output: " + std::string(error.what()) + "; or none");
    }
    if (!s.output->has_zero || !s.output->is_signed)
      throw std::invalid_argument("output: " + output + " has no zero or no sign: no matrix is stored in it");
  }
  const std::string mode = config.text("rounding");
  for (const auto& m : rounding_modes)
    if (m.name == mode) s.rounding.mode = m.value;
  s.active = 0;
  for (const std::string& name : config.choices("sources"))
    s.active |= only(
        static_cast<ErrorSource>(std::find(source_names.begin(), source_names.end(), name) - source_names.begin()));
  for (const std::int64_t n : config.integers("lengths")) s.lengths.push_back(static_cast<std::size_t>(n));
  s.outliers = config.reals("outliers");
  const auto in_order = [](auto& all) {
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
  };
  in_order(s.lengths), in_order(s.outliers);
  s.seed = static_cast<std::uint64_t>(config.integer("seed"));
  return s;
}

/// Records the rounding of elements for backends: from fp32 (fp64 where there are no scales) to the element's format.
void record_conversions(const OperandStates& o, const Rounding& rounding, Trace& trace) {
  if (o.format.integers()) return;
  Channel& channel = trace.channel({Operation::convert, o.has_scales() ? fp32 : fp64, o.format.grid,
                                    o.has_scales() ? element_rounding(rounding) : rounding});
  for (const double q : o.scaled) channel.record(encode(o.has_scales() ? fp32 : fp64, {}, q).code);
}

Matrix corner(const Matrix& m, std::size_t rows, std::size_t columns) {
  Matrix c = m.first_columns(columns);
  c.rows = std::min(rows, c.rows);
  c.values.resize(c.rows * c.columns);
  return c;
}

void run_attribution(const Config& config, Run& run) {
  Settings s = read(config);
  const bool files = !config.text("a").empty() || !config.text("b").empty();
  const auto terms = static_cast<std::size_t>(config.integer("terms"));
  const auto require_work = [&](double outputs, std::size_t products) {
    double work = outputs * static_cast<double>(products);
    for (const std::size_t n : s.lengths)
      work += std::min(outputs, 64.0) * static_cast<double>(files ? std::min(n, products) : n);
    work *= static_cast<double>(s.formats.size() * s.accumulators.size());
    constexpr double limit = 2e9;
    if (work > limit)
      throw std::invalid_argument(fmt::format(
          "matrices, lengths, formats and accumulators ask for {:.2g} multiplications; at most {:.0e}", work, limit));
  };
  if (!files) require_work(static_cast<double>(config.integer("rows") * config.integer("columns")), terms);
  const FactorPair factors = make_factors(config, terms);
  require_work(static_cast<double>(factors.a.rows * factors.b.rows), factors.a.columns);
  if (files && s.lengths.back() > factors.a.columns) {  // lengths that a file does not reach become its own
    while (!s.lengths.empty() && s.lengths.back() >= factors.a.columns) s.lengths.pop_back();
    s.lengths.push_back(factors.a.columns);
  }
  const FactorPair growing = files ? factors : make_factors(config, s.lengths.back());

  Choices choices = choose(s, run.report);
  // A and B of every pair of formats; all accumulators share them.
  const auto operands = [&](const Matrix& a, const Matrix& b) {
    return parallel_map(s.formats.size() * 2, [&](std::size_t i) {
      const FormatPair& pair = s.formats[i / 2];
      const Matrix& m = i % 2 == 0 ? a : b;
      try {
        return make_operand(i % 2 == 0 ? pair.a : pair.b, s.rounding, m.values, m.rows, m.columns);
      } catch (const std::invalid_argument& error) {
        throw std::invalid_argument((i % 2 == 0 ? "A holds " : "B holds ") + std::string(error.what()));
      }
    });
  };
  const auto attribute_all = [&](const Matrix& a, const Matrix& b, const std::vector<OperandStates>& all, double from,
                                 double to) {
    std::vector<Trial> asked;
    for (const Choice& c : choices) {
      const std::string &formats = s.formats[c.format].name, &accumulator = s.accumulators[c.accumulator].name;
      asked.push_back({fmt::format("{} {} {} terms", formats, accumulator, a.columns),
                       {{"a", digest_of(a.values)},
                        {"b", digest_of(b.values)},
                        {"rows", a.rows},
                        {"columns", b.rows},
                        {"formats", formats},
                        {"accumulator", accumulator},
                        {"unit", identity_of_unit(s.accumulators[c.accumulator])},
                        {"output", config.text("output")},
                        {"rounding", config.text("rounding")},
                        {"sources", s.active}}});
    }
    return trials<ChoiceResult>(run, {"parts", 1}, asked, from, to, [&](std::size_t i, Trace& trace) {
      const Choice& c = choices[i];
      return attribute(all[2 * c.format], all[2 * c.format + 1], s.accumulators[c.accumulator], s, trace);
    });
  };

  const std::vector<OperandStates> main = operands(factors.a, factors.b);
  for (const OperandStates& o : main) record_conversions(o, s.rounding, run.trace);
  Curves curves;
  curves.main = attribute_all(factors.a, factors.b, main, 0, 0.4);
  for (std::size_t l = 0; l < s.lengths.size(); ++l) {
    const double share = 0.4 / static_cast<double>(s.lengths.size());
    curves.lengths.push_back(s.lengths[l]);
    const Matrix a = corner(growing.a, 8, s.lengths[l]), b = corner(growing.b, 8, s.lengths[l]);
    curves.by_length.push_back(attribute_all(a, b, operands(a, b), 0.4 + share * static_cast<double>(l),
                                             0.4 + share * static_cast<double>(l + 1)));
  }
  report_sources(s, choices, curves, run.report);
  channels_report(s, run);
  promotion_report(s, run);
}

}  // namespace
}  // namespace attribution

namespace {

/// The parts of the first configuration.
std::string attribution_finding(const ReportTables& tables) {
  for (const TableRow& total : tables.rows("sources", {{"source", "total"}})) {
    const auto parts = tables.rows("sources", {{"formats", total["formats"]}, {"accumulator", total["accumulator"]}});
    const auto part = [&](const char* source) {
      for (const TableRow& row : parts)
        if (row.text("source") == source) return percent(row.number("error"));
      return std::string("-");
    };
    return fmt::format("A product in {} has an error of {}: inputs {}, sums {}.", total.text("formats"),
                       percent(total.number("error")), part("input"), part("accumulation"));
  }
  return {};
}

}  // namespace

Experiment attribution_experiment() {
  return {"attribution",
          "Where the error of a matrix product comes from",
          "Which step of a matrix product makes its error?",
          attribution::parameters,
          attribution::run_attribution,
          attribution_finding,
          {"sources", {"formats", "source", "error", "share", "reverse_error"}, {"accumulator"}, {}}};
}

}  // namespace halfulp
