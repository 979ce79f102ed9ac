#include <halfulp/data/quantized_tensor.hpp>
#include <halfulp/experiments/attribution/attribution.hpp>
#include <halfulp/experiments/publications.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace halfulp::attribution {

FactorPair make_factors(const Config& config, std::size_t terms) {
  const std::string a = config.text("a"), b = config.text("b"), name = config.text("distribution");
  const auto seed = static_cast<std::uint64_t>(config.integer("seed"));
  const auto samples = static_cast<Samples>(std::find(sample_names.begin(), sample_names.end(), name) -
                                            sample_names.begin());
  FactorPair f{{},
               {},
               a.empty() && b.empty() ? name
               : a.empty()            ? name + ", " + b
               : b.empty()            ? a + ", " + name
                                      : a + ", " + b};
  if (!a.empty()) f.a = read_matrix("a", a);
  if (!b.empty()) f.b = transposed(read_matrix("b", b));
  if (!a.empty() && !b.empty() && f.a.columns != f.b.columns)
    throw std::invalid_argument(
        fmt::format("a and b do not multiply: {} x {} times {} x {}; the columns of a are to be the rows of b",
                    f.a.rows, f.a.columns, f.b.columns, f.b.rows));
  if (!a.empty()) terms = f.a.columns;
  else if (!b.empty()) terms = f.b.columns;
  if (a.empty()) f.a = sample_matrix(samples, seed, 0, static_cast<std::size_t>(config.integer("rows")), terms);
  if (b.empty()) f.b = sample_matrix(samples, seed, 1, static_cast<std::size_t>(config.integer("columns")), terms);
  if (const double outlier = config.real("outlier"); outlier != 1) {
    const auto channel = static_cast<std::size_t>(config.integer("outlier_channel"));
    if (channel >= terms)
      throw std::invalid_argument(
          fmt::format("outlier_channel: a has the channels 0 to {}, not {}", terms - 1, channel));
    scale_channel(f.a, channel, outlier);
  }
  return f;
}

// One channel that is far larger than the others, and the error that it causes in them, by granularity and rule of the
// scales.

namespace {

constexpr std::size_t tokens = 32, channels = 1024, outputs = 8, channel = 0;

struct Cell {
  ColumnLoss loss;
  double saturated = 0;
  ChannelPart part_of_others, part_of_outlier;
};
template <class V>
void fields(V& v, Cell& c) {
  v("others", c.loss.others);
  v("column", c.loss.column);
  v("others_zeroed", c.loss.others_zeroed);
  v("saturated", c.saturated);
  v("part_of_others", c.part_of_others);
  v("part_of_outlier", c.part_of_outlier);
}

Cell measure_channels(const OperandFormat& format, const Settings& s, double factor) {
  Matrix a = sample_matrix(Samples::normal, s.seed, 0, tokens, channels);
  scale_channel(a, channel, factor);
  const Matrix b = sample_matrix(Samples::normal, s.seed, 1, outputs, channels);
  const OperandStates x = make_operand(format, s.rounding, a.values, tokens, channels),
                      y = make_operand(format, s.rounding, b.values, outputs, channels);
  const std::vector<double> q = values(x, true, true);
  Cell c;
  c.loss = column_loss(x.exact, q, channels, channel);
  const double largest = format.grid.value(format.grid.max_finite());
  const auto beyond = std::count_if(x.scaled.begin(), x.scaled.end(), [&](double v) { return std::fabs(v) > largest; });
  c.saturated = static_cast<double>(beyond) / static_cast<double>(q.size());
  std::vector<std::uint8_t> chosen(channels, 0);
  chosen[channel] = 1;
  c.part_of_outlier = channel_part(x, y, chosen);
  for (std::uint8_t& chosen_one : chosen) chosen_one = !chosen_one;
  c.part_of_others = channel_part(x, y, chosen);
  return c;
}

}  // namespace

void channels_report(const Settings& s, Run& run) {
  std::vector<OperandFormat> formats;
  const auto put = [&](const OperandFormat& format) {
    for (const OperandFormat& f : formats)
      if (f.grid == format.grid && f.block == format.block) return;
    if (format.block) formats.push_back(format);
  };
  for (const FormatPair& pair : s.formats) put(pair.a);
  const std::vector<double>& factors = s.outliers;
  std::vector<Trial> asked;
  for (const OperandFormat& format : formats)
    for (const double factor : factors)
      asked.push_back({fmt::format("channels {} {}", format.name, factor),
                       {{"format", format.name},
                        {"rounding", name_in(rounding_modes, s.rounding.mode)},
                        {"seed", s.seed},
                        {"factor", number(factor)}}});
  const auto cells = trials<Cell>(run, {"channels", 1}, asked, 0.8, 0.9, [&](std::size_t i, Trace&) {
    return measure_channels(formats[i / factors.size()], s, factors[i % factors.size()]);
  });

  Table& table = run.report.table(
      "channels",
      fmt::format("One outlier channel among {} x {} samples of N(0, 1): what becomes of the others", tokens, channels),
      {{"format", "", "How the samples are stored; blocks run along the channels."},
       {"outlier", "1", "Factor of the outlier channel, the first."},
       {"others_error", "1",
        "Frobenius norm of the other channels' errors, scaling and input together, over that of their values."},
       {"outlier_error", "1", "The same of the outlier channel."},
       {"others_zeroed", "1", "Share of the other channels' values that become zero."},
       {"saturated", "1", "Share of all values that lie beyond the largest element after scaling."},
       {"scaling_by_others", "1",
        "Times N(0, 1) of 8 columns, stored alike, summed exactly: norm of the part that the other channels' scaling "
        "has in the error, over the product's."},
       {"input_by_others", "1", "The same of their rounding to elements."},
       {"scaling_by_outlier", "1", "The same of the outlier channel's scaling."},
       {"input_by_outlier", "1", "And of its rounding to elements."}});
  for (std::size_t f = 0; f < formats.size(); ++f)
    for (std::size_t o = 0; o < factors.size(); ++o) {
      const Cell& c = cells[f * factors.size() + o];
      table.row({formats[f].name, number(factors[o]), number(c.loss.others), number(c.loss.column),
                 number(c.loss.others_zeroed), number(c.saturated), number(c.part_of_others.scaling),
                 number(c.part_of_others.input), number(c.part_of_outlier.scaling), number(c.part_of_outlier.input)});
    }

  // microsoft/microxcaling, issue 4: the largest value of a block at 957.
  std::vector<double> block(32, 1.0);
  block[0] = 957;
  const OperandStates mx = make_operand(parse_operand_format("mxfp8e4m3"), {}, block, 1, 32),
                      up = make_operand(parse_operand_format("mxfp8e4m3/rceil"), {}, block, 1, 32);
  run.report.claim(
      {"mx-floor-cuts-957",
       "The largest of a block, 957, becomes 896 in MXFP8 E4M3 by the rule floor: it lies beyond 448 times the scale.",
       {publications::mx_elements, "microsoft/microxcaling issue 4; OCP MX 1.0, section 6.3"}},
      exactly(896, values(mx, true, true)[0], "published"));
  run.report.claim({"mx-rceil-keeps-957",
                    "By the rule rceil it becomes 960, its neighbour in E4M3 times 4.",
                    {publications::mx_elements, "derived: the least power of two that is no less than 957 / 448 is 4"}},
                   exactly(960, values(up, true, true)[0], "oracle"));
}

// DeepSeek-V3's promotion: Hopper's FP8 unit with and without adding its sums of 128 products in fp32. No other source
// is on.

namespace {

constexpr std::size_t side = 16;
constexpr std::array<std::size_t, 4> lengths{128, 1024, 2048, 4096};
constexpr std::array<Samples, 2> kinds{Samples::uniform, Samples::normal};
constexpr std::array<std::string_view, 3> sums{"hopper.wgmma.e4m3.fp32", "hopper.wgmma.e4m3.fp32@128",
                                               "fp32,mul=exact"};

/// Factors that are E4M3 numbers, so that there is no other source of error.
Matrix in_e4m3(Matrix m) {
  const OperandFormat e4m3 = parse_operand_format("e4m3");
  for (double& v : m.values) v = e4m3.grid.value(encode(e4m3.grid, {}, v).code);
  return m;
}

struct Promoted {
  Measure unit;
  double others = 0;  ///< norm of the other sources' parts: 0
};
template <class V>
void fields(V& v, Promoted& p) {
  v("unit", p.unit);
  v("others", p.others);
}

}  // namespace

void promotion_report(const Settings& s, Run& run) {
  const OperandFormat e4m3 = parse_operand_format("e4m3");
  std::vector<Trial> asked;
  for (const Samples samples : kinds)
    for (const std::size_t n : lengths)
      for (const std::string_view sum : sums) {
        const std::string_view name = sample_names[static_cast<std::size_t>(samples)];
        asked.push_back({fmt::format("promotion {} {} {}", name, n, sum),
                         {{"factors", name},
                          {"terms", n},
                          {"accumulator", sum},
                          {"unit", identity_of_unit(parse_inside(std::string(sum)))},
                          {"seed", s.seed}}});
      }
  const auto cells = trials<Promoted>(run, {"promotion", 1}, asked, 0.9, 1, [&](std::size_t i, Trace&) {
    const Samples samples = kinds[i / sums.size() / lengths.size()];
    const std::size_t n = lengths[i / sums.size() % lengths.size()];
    const auto factor = [&](unsigned which) {
      return make_operand(e4m3, {}, in_e4m3(sample_matrix(samples, s.seed, which, side, n)).values, side, n);
    };
    const OperandStates a = factor(0), b = factor(1);
    SwitchedProduct product(a, b, parse_inside(std::string(sums[i % sums.size()])), std::nullopt);
    // f({}), f({scaling, input}) and f(all): the difference of the last two is the unit's, that of the first two is 0.
    const Outputs none = product.outputs(0),
                  rounded = product.outputs(only(ErrorSource::scaling) | only(ErrorSource::input)),
                  all = product.outputs(all_sources);
    Split parts;
    parts.exact = none.values;
    std::vector<Dyadic> others;
    for (std::size_t o = 0; o < product.count(); ++o) {
      parts.total.push_back(all.values[o] - rounded.values[o]);
      others.push_back(rounded.values[o] - none.values[o]);
    }
    const Promoted c{measure(parts.total, parts, product.common()), measure(others, parts, product.common()).norm};
    return c;
  });
  const auto at = [&](Samples samples, std::size_t n, std::size_t sum) -> const Promoted& {
    const auto kind = static_cast<std::size_t>(std::find(kinds.begin(), kinds.end(), samples) - kinds.begin());
    const auto l = static_cast<std::size_t>(std::find(lengths.begin(), lengths.end(), n) - lengths.begin());
    return cells[(kind * lengths.size() + l) * sums.size() + sum];
  };

  Table& table = run.report.table(
      "promotion",
      "Accumulation alone: E4M3 factors without scales on Hopper's FP8 unit, and promoted to fp32 every 128 products",
      {{"factors", "", "Uniform in (0, 1), or N(0, 1), rounded to E4M3: 16 rows and 16 columns."},
       {"terms", "term", "Number k of products in an output."},
       {"accumulator", "", "What sums them; @128: every 128 products an fp32 takes over."},
       {"error", "1", "Frobenius norm of the unit's part, which is the whole error, over that of the exact product."},
       {"relative", "1",
        "Largest error of an output divided by the exact one, which may be near 0 where factors have both signs."},
       {"bias", "1", "As in `sources`: 1 if all outputs grow, -1 if all shrink."}});
  double others = 0;
  for (const Samples samples : kinds)
    for (const std::size_t n : lengths)
      for (std::size_t sum = 0; sum < sums.size(); ++sum) {
        const Promoted& c = at(samples, n, sum);
        others += c.others;
        table.row({sample_names[static_cast<std::size_t>(samples)], n, sums[sum], number(c.unit.norm),
                   number(c.unit.relative), number(c.unit.bias)});
      }

  run.report.claim({"accumulation-alone",
                    "Norms of all parts other than accumulation's, where factors are E4M3 numbers without "
                    "scales and nothing rounds the output.",
                    "derived: nothing else is there to round"},
                   exactly(0.0, others, "oracle"));
  const Citation paper{publications::hopper_fp8, "DeepSeek-V3, arXiv 2412.19437, section 3.3.2"},
      model{publications::hopper_fp8,
            "this project's model of Hopper's unit, measured before, for DeepSeek-V3, section 3.3.2"};
  const auto near = [&](std::string id, std::string statement, double expected, double tolerance, double measured,
                        const Citation& source) {
    run.report.claim(
        {std::move(id), std::move(statement), source},
        within(expected, tolerance, measured, may_differ("other samples: the paper names no distribution")));
  };
  near("hopper-uniform-4096", "Factors uniform in (0, 1), K = 4096: the largest relative error is about 7 %.", 0.07,
       0.005, at(Samples::uniform, 4096, 0).unit.relative, model);
  near("hopper-uniform-1024", "The same for K = 1024: about 1.5 %.", 0.015, 0.0015,
       at(Samples::uniform, 1024, 0).unit.relative, model);
  near("hopper-uniform-promoted", "Promoted to FP32 every 128 products, K = 4096: about 0.06 %.", 0.0006, 0.0001,
       at(Samples::uniform, 4096, 1).unit.relative, model);
  near("hopper-normal-4096", "Factors of N(0, 1), K = 4096: about 0.13 % RMS.", 0.0013, 0.0002,
       at(Samples::normal, 4096, 0).unit.norm, model);
  near("deepseek-nearly-2-percent", "The paper's own figure: with K = 4096 a largest relative error of nearly 2 %.",
       0.02, 0.005, at(Samples::uniform, 4096, 0).unit.relative, paper);
}

}  // namespace halfulp::attribution
