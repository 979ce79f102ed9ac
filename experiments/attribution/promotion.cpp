// DeepSeek-V3's promotion: Hopper's FP8 unit against its sums of 128 products added in fp32, apart from every other source.
#include <halfulp/experiments/attribution/attribution.hpp>

#include <halfulp/experiments/run/parallel.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace halfulp::attribution {
namespace {

constexpr std::size_t side = 16;
constexpr std::array<std::size_t, 4> lengths{128, 1024, 2048, 4096};
constexpr std::array<Samples, 2> kinds{Samples::uniform, Samples::normal};
constexpr std::array<std::string_view, 3> sums{"hopper.wgmma.e4m3.fp32", "hopper.wgmma.e4m3.fp32@128", "fp32,mul=exact"};

/// Factors that are E4M3 numbers already, so that no other source is there.
Matrix in_e4m3(Matrix m) {
  const OperandFormat e4m3 = parse_operand_format("e4m3");
  for (double& v : m.values) v = e4m3.grid.value(encode(e4m3.grid, {}, v).code);
  return m;
}

struct Cell {
  Measure unit;
  double others = 0;  ///< norms of the other sources' parts: 0
};

}  // namespace

void promotion_report(const Settings& s, Run& run) {
  const OperandFormat e4m3 = parse_operand_format("e4m3");
  const auto cells = parallel_map(kinds.size() * lengths.size() * sums.size(), [&](std::size_t i) {
    const Samples samples = kinds[i / sums.size() / lengths.size()];
    const std::size_t n = lengths[i / sums.size() % lengths.size()];
    const auto factor = [&](unsigned which) { return make_operand(e4m3, {}, in_e4m3(sample_matrix(samples, s.seed, which, side, n)).values, side, n); };
    const Operand a = factor(0), b = factor(1);
    Product product(a, b, parse_inside(std::string(sums[i % sums.size()])), std::nullopt);
    // f({}), f({scaling, input}), f(all): what is between the last two is the unit's, and before them there is nothing.
    const Outputs none = product.outputs(0), rounded = product.outputs(only(Source::scaling) | only(Source::input)), all = product.outputs(all_sources);
    Split parts;
    parts.exact = none.values;
    std::vector<Dyadic> others;
    for (std::size_t o = 0; o < product.count(); ++o) {
      parts.total.push_back(all.values[o] - rounded.values[o]);
      others.push_back(rounded.values[o] - none.values[o]);
    }
    const Cell c{measure(parts.total, parts, product.common()), measure(others, parts, product.common()).norm};
    return c;
  });
  const auto at = [&](Samples samples, std::size_t n, std::size_t sum) -> const Cell& {
    const auto kind = static_cast<std::size_t>(std::find(kinds.begin(), kinds.end(), samples) - kinds.begin());
    const auto l = static_cast<std::size_t>(std::find(lengths.begin(), lengths.end(), n) - lengths.begin());
    return cells[(kind * lengths.size() + l) * sums.size() + sum];
  };

  Table& table = run.report.table("promotion", "Accumulation alone: E4M3 factors without scales on Hopper's FP8 unit, and promoted to fp32 every 128 products", {
      {"factors", "", "Uniform in (0, 1), or N(0, 1), rounded to E4M3: 16 rows and 16 columns."},
      {"terms", "term", "Number k of products in an output."},
      {"accumulator", "", "What sums them; @128: every 128 products an fp32 takes over."},
      {"error", "1", "Frobenius norm of the unit's part, which is the whole error, over that of the exact product."},
      {"relative", "1", "Largest error of an output divided by the exact one, which may be near 0 where factors have both signs."},
      {"bias", "1", "As in `sources`: 1 if all outputs grow, -1 if all shrink."}});
  double others = 0;
  for (const Samples samples : kinds)
    for (const std::size_t n : lengths)
      for (std::size_t sum = 0; sum < sums.size(); ++sum) {
        const Cell& c = at(samples, n, sum);
        others += c.others;
        table.row({sample_names[static_cast<std::size_t>(samples)], n, sums[sum], number(c.unit.norm), number(c.unit.relative), number(c.unit.bias)});
      }

  run.report.claim(exactly("accumulation-alone", "Norms of all parts other than accumulation's, where factors are E4M3 numbers without scales and nothing rounds the output.",
                           "derived: nothing else is there to round", 0.0, others, "oracle"));
  const std::string source = "DeepSeek-V3, arXiv 2412.19437, section 3.3.2, with this project's model of Hopper's unit";
  const auto published = [&](std::string id, std::string statement, double expected, double tolerance, double measured) {
    Claim claim = within(std::move(id), std::move(statement), source, expected, tolerance, measured, "published", Verdict::differs);
    if (claim.verdict == Verdict::differs) claim.reason = "other samples: the paper names no distribution";
    run.report.claim(std::move(claim));
  };
  published("hopper-uniform-4096", "Factors uniform in (0, 1), K = 4096: the largest relative error is about 7 %.", 0.07, 0.005, at(Samples::uniform, 4096, 0).unit.relative);
  published("hopper-uniform-1024", "The same for K = 1024: about 1.5 %.", 0.015, 0.0015, at(Samples::uniform, 1024, 0).unit.relative);
  published("hopper-uniform-promoted", "Promoted to FP32 every 128 products, K = 4096: about 0.06 %.", 0.0006, 0.0001, at(Samples::uniform, 4096, 1).unit.relative);
  published("hopper-normal-4096", "Factors of N(0, 1), K = 4096: about 0.13 % RMS.", 0.0013, 0.0002, at(Samples::normal, 4096, 0).unit.norm);
  published("deepseek-nearly-2-percent", "The paper's own figure: with K = 4096 a largest relative error of nearly 2 %.", 0.02, 0.005, at(Samples::uniform, 4096, 0).unit.relative);
}

}  // namespace halfulp::attribution
