// How many elements share a scale, and what that costs.
#include <halfulp/data/matrix.hpp>
#include <halfulp/experiments/scaling/scaling.hpp>
#include <halfulp/experiments/publications.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace halfulp::scaling {
namespace {

Quantized quantized(const TensorSample& sample, const ChosenFormat& format, const ScalingSettings& s) {
  try {
    return quantize_tensor(sample.tensor, format.format, s.rounding, s.seed, {});
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{} in {}: {}", sample.name, format.name, error.what()));
  }
}

/// Whether the scales of a format follow the tensor by any power of two within fp32.
bool follows_powers_of_two(const BlockFormat& f) { return f.tensor_scale || f.scale.exponent_bits >= 8; }

/// Divisions by the scale and conversions to elements of a tensor's first rows, for backends.
void record(const BlockFormat& f, const ScalingSettings& s, const FileTensor& tensor, Trace& trace) {
  if (f.element.is_integer() || s.rounding.mode == RoundingMode::stochastic || tensor.shape.size() != 2) return;
  const std::size_t columns = tensor.shape[1], rows = std::min<std::size_t>(tensor.shape[0], 4);
  const std::vector<float> in(tensor.values.begin(),
                              tensor.values.begin() + static_cast<std::ptrdiff_t>(rows * columns));
  const BlockArray array = quantize_blocks(f, s.rounding, in, rows, columns);
  const BlockGrid grid = block_grid(f, rows, columns);
  std::vector<float> largest(grid.count(), 0);
  for (std::size_t i = 0; i < in.size(); ++i) {
    float& amax = largest[grid.index(i / columns, i % columns)];
    amax = std::max(amax, std::fabs(in[i]));
  }
  Arithmetic single(fp32, {}, &trace);
  Channel& channel = trace.channel({Operation::convert, fp32, f.element.format, element_rounding(s.rounding)});
  for (std::size_t i = 0; i < in.size(); ++i) {
    const BlockStep step = block_step(f, largest[grid.index(i / columns, i % columns)], array.tensor_scale);
    const std::uint64_t v = block::bits_of(in[i]), factor = block::bits_of(step.factor);
    channel.record(step.divides ? single.div(v, factor) : single.mul(v, factor));
  }
}

}  // namespace

void report_granularity(const ScalingSettings& s, const std::vector<TensorSample>& samples, Run& run) {
  Table& table = run.report.table(
      "granularity", "Tensors in formats whose scales are for a tensor, a row, a column or a block",
      {{"tensor", "", "What is quantized: samples, or `input` for the user's file."},
       {"format", "", "Its format."},
       {"scale_for", "", "Elements that share a scale, as rows x columns; `none` for formats without scales."},
       {"bits", "bit", "Bits of an element with its share of scales."},
       {"relative_error", "1",
        "Frobenius norm of the errors over that of the values, of elements that stay finite; null if none does."},
       {"others_error", "1",
        "The same for all channels except the outlier, which would otherwise decide; null for tensors without one."},
       {"sqnr", "dB", "Signal to quantization noise: -20 log10 of the relative error; null where nothing was lost."},
       {"largest_error", "1", "Largest magnitude of an error."},
       {"zeros", "1", "Share of elements that became zero."},
       {"saturated", "1",
        "Share of elements beyond the largest value that their block can hold: often by the rounding of an fp32 scale "
        "alone."},
       {"not_finite", "1", "Share of elements that became NaN or infinite."}});
  Table& block = run.report.table("block", "The first values of a tensor's first row, before and after",
                                  {{"tensor", "", "The one with an outlier channel, if there is one, else the first."},
                                   {"format", "", "Its format."},
                                   {"index", "", "Place in the row, from 0."},
                                   {"value", "1", "Before."},
                                   {"stored", "1", "After: what the format keeps."}});
  struct OutlierCell {
    Loss loss;
    double bits = 0, others = NAN;
    std::vector<double> first = {};  ///< of the row, as they are stored
  };
  const auto outlier = std::find_if(samples.begin(), samples.end(), [](const TensorSample& t) { return t.outlier; });
  const TensorSample& shown = outlier == samples.end() ? samples.front() : *outlier;
  const std::size_t width = std::min<std::size_t>(
      32, shown.tensor.shape.empty() ? shown.tensor.values.size() : shown.tensor.shape.back());
  const std::size_t n = s.formats.size();
  for (const TensorSample& sample : samples) {
    const auto cells = parallel_map(n, [&](std::size_t i) {
      const Quantized q = quantized(sample, s.formats[i], s);
      return OutlierCell{
          q.loss,
          q.bits_per_element,
          sample.outlier ? column_loss(sample.tensor.values, q.values, sample.tensor.shape[1], 0).others : NAN,
          {q.values.begin(), q.values.begin() + static_cast<std::ptrdiff_t>(&sample == &shown ? width : 0)}};
    });
    for (std::size_t i = 0; i < n; ++i) {
      const auto& [loss, bits, others, first] = cells[i];
      table.row({sample.name, s.formats[i].name, s.formats[i].block() ? shape_name(*s.formats[i].block()) : "none",
                 number(bits), relative_error(loss), or_null(others), sqnr(loss),
                 loss.compared ? number(loss.largest_error) : Json(), share(loss.to_zero, loss.elements),
                 share(loss.saturated, loss.elements), share(loss.became_infinite + loss.became_nan, loss.elements)});
      for (std::size_t k = 0; k < first.size(); ++k)
        block.row({sample.name, s.formats[i].name, k, number(sample.tensor.values[k]), number(first[k])});
    }
  }
  for (const ChosenFormat& format : s.formats)
    for (const TensorSample& sample : samples)
      if (sample.ours && format.block()) {
        record(*format.block(), s, sample.tensor, run.trace);
        break;
      }

  // What a power of two does to the tensor it does to its scales.
  constexpr double factor = 0x1p20;
  std::size_t moved = 0, asked = 0;
  for (const ChosenFormat& format : s.formats) {
    if (!format.block() || !follows_powers_of_two(*format.block())) continue;
    if (format.block()->whole) continue;  // may not fit this shape
    TensorSample sample{"normal", as_tensor(32, 256, sample_matrix(Samples::normal, s.seed, 2, 32, 256).values)};
    const Quantized q = quantize_tensor(sample.tensor, format.format, s.rounding, s.seed, {});
    for (double& v : sample.tensor.values) v *= factor;
    const Quantized larger = quantize_tensor(sample.tensor, format.format, s.rounding, s.seed, {});
    ++asked;
    for (std::size_t i = 0; i < q.values.size(); ++i) moved += larger.values[i] != q.values[i] * factor;
  }
  const std::string statement =
      "Elements that are not 2^20 times what they were when the tensor is 2^20 times as large: scales take a power of "
      "two up whole.";
  const std::string source =
      "derived: scales of eight exponent bits, or under a tensor's scale, and IEEE 754 operations commute with powers "
      "of two short of the range's ends";
  run.report.claim({"powers-of-two-go-into-scales", statement, source},
                   asked ? exactly(0, moved, "oracle") : skipped("formats has no block format with such scales"));

  // Whatever the configuration: two formats of four bits, and what each element costs.
  const TensorSample gaussian{"normal",
                              as_tensor(64, 1024, sample_matrix(Samples::normal, s.seed, 0, 64, 1024).values)};
  ScalingSettings nearest = s;
  nearest.rounding = {};
  const auto in = [&](const char* name) { return quantized(gaussian, {name, parse_any_format(name)}, nearest); };
  const Quantized mx = in("mxfp4"), nv = in("nvfp4"), up = in("mxfp4/rceil"), mx8 = in("mxfp8e4m3");
  const Citation nvfp4{publications::nvfp4, "NVIDIA 2025, Pretraining LLMs with NVFP4, arXiv:2509.25149, section 2"};
  run.report.claim({"nvfp4-beats-mxfp4",
                    "NVFP4 loses less of N(0, 1) than MXFP4 does: its error over MXFP4's is below 1, with "
                    "scales rounded down as with scales rounded up.",
                    nvfp4},
                   at_most(1, nv.loss.relative_error() / std::min(mx.loss.relative_error(), up.loss.relative_error()),
                           may_differ("these samples give the other order")));
  run.report.claim({"bits-of-mx-elements",
                    "Code words and scales of 64 x 1024 elements in MXFP8 and MXFP4 take 8.25 and 4.25 bits each.",
                    {publications::mx_elements, "OCP MX 1.0, section 5.2: 8 bits of scale for 32 elements"}},
                   exactly({8.25, 4.25}, {mx8.bits_per_element, mx.bits_per_element}, "published"));
  run.report.claim({"bits-of-nvfp4-elements", "In NVFP4 they take 4.5 bits each, and 32 more a tensor.", nvfp4},
                   within(4.5, 32.0 / (64 * 1024), nv.bits_per_element, "published"));
}

// One channel far larger than the others: what it costs them, by granularity.

namespace {

constexpr std::size_t tokens = 32, channels = 1024, channel = 0;

struct OutlierCell {
  Quantized q;
  ColumnLoss loss;
  std::vector<double> before;
};

/// Samples with one channel times `factor`, in a format.
OutlierCell quantized(const Matrix& samples, const AnyFormat& format, const Rounding& rounding, std::uint64_t seed,
                      double factor) {
  Matrix a = samples;
  scale_channel(a, channel, factor);
  OutlierCell c;
  c.before = a.values;
  c.q = quantize_tensor(as_tensor(tokens, channels, std::move(a.values)), format, rounding, seed, {});
  c.loss = column_loss(c.before, c.q.values, channels, channel);
  return c;
}

/// Of one error over all seeds.
struct Range {
  double least = 0, mean = 0, largest = 0;
};

constexpr std::size_t seeds = 16;
constexpr std::array<double, 4> published_factors{1, 100, 1e4, 1e6};
/// Figures of zero: none is published, the rows are there to compare with.
struct PublishedLoss {
  std::string_view id, format, name;
  double at_1e4 = 0, at_1e6 = 0;
};
constexpr std::array<PublishedLoss, 5> published{
    {{"per-tensor", "e4m3-tensor", "one fp32 scale", 0.030, 1.00},
     {"1x128", "fp8-1x128", "an fp32 scale for 1 x 128", 0.026, 0.24},
     {"mx32", "mxfp8e4m3", "a power of two for 1 x 32 by the rule floor", 0.030, 0.12},
     {"", "mxfp8e4m3/rceil", ""},
     {"", "e4m3/1x32/fp32", ""}}};

/// Table `outlier_seeds`: the samples decide how large the largest are, and with them everything.
void published_claims(const ScalingSettings& s, Run& run) {
  const auto by_seed = parallel_map(seeds, [&](std::size_t seed) {
    const Matrix samples = sample_matrix(Samples::normal, s.seed + seed, 0, tokens, channels);
    std::vector<double> errors;
    for (const PublishedLoss& p : published)
      for (const double factor : published_factors)
        errors.push_back(quantized(samples, parse_any_format(std::string(p.format)), {}, 0, factor).loss.others);
    return errors;
  });
  const auto range = [&](std::size_t format, std::size_t factor) {
    Range r{by_seed[0][format * published_factors.size() + factor], 0, 0};
    for (const auto& errors : by_seed) {
      const double e = errors[format * published_factors.size() + factor];
      r.least = std::min(r.least, e), r.largest = std::max(r.largest, e), r.mean += e / seeds;
    }
    return r;
  };
  Table& table = run.report.table(
      "outlier_seeds",
      fmt::format("The others' error again, over {} seeds: {} x {} samples of N(0, 1), nearest even", seeds, tokens,
                  channels),
      {{"format", "", "How the samples are stored."},
       {"outlier", "1", "Factor of the outlier channel."},
       {"least", "1",
        "Frobenius norm of the other channels' errors over that of their values: the least of all seeds."},
       {"mean", "1", "Its mean."},
       {"largest", "1", "The largest."}});
  const Citation source{
      publications::outlier_channels,
      "this project: 32 x 1024 of N(0, 1), one channel scaled, E4M3, Frobenius norm of the other channels"};
  double spread = 0;
  for (std::size_t factor = 0; factor < 2; ++factor) {
    const auto [low, high] = std::minmax({range(0, factor).mean, range(1, factor).mean, range(2, factor).mean});
    spread = std::max(spread, high / low - 1);
  }
  for (std::size_t p = 0; p < published.size(); ++p)
    for (std::size_t f = 0; f < published_factors.size(); ++f) {
      const Range r = range(p, f);
      table.row(
          {published[p].format, number(published_factors[f]), number(r.least), number(r.mean), number(r.largest)});
      if (f < 2 || published[p].at_1e4 == 0) continue;
      // One seed's figure, given with as many digits: between the least and the largest, or within half a unit of its
      // last place.
      const double expected = f == 2 ? published[p].at_1e4 : published[p].at_1e6, half = f == 2 ? 0.0005 : 0.005;
      run.report.claim(
          {fmt::format("outlier-channel-{}-{:.0f}", published[p].id, published_factors[f]),
           fmt::format("Outlier channel x {:.0f}, {}: the other channels' error of {:.3g} % is within "
                       "the range that {} seeds give (measured: its middle).",
                       published_factors[f], published[p].name, 100 * expected, seeds),
           source},
          within(expected, half + (r.largest - r.least) / 2, (r.largest + r.least) / 2,
                 may_differ(fmt::format(
                     "these seeds give {:.3g} to {:.3g} %; blocks of 32 with scales of fp32 {:.3g} to {:.3g} %",
                     100 * r.least, 100 * r.largest, 100 * range(4, f).least, 100 * range(4, f).largest))));
    }
  run.report.claim({"outlier-of-100-is-harmless",
                    "Without an outlier, and with one of 100 times, the three mean errors are within a quarter of "
                    "each other: per-tensor FP8 does not break there.",
                    source},
                   at_most(0.25, spread, may_differ("the figure says nearly equal, not how nearly")));
}

/// A value of a tensor with one scale becomes zero where it is no more than half of the least element times the scale.
void zeros_claim(const ScalingSettings& s, Run& run) {
  const Matrix samples = sample_matrix(Samples::normal, s.seed, 0, tokens, channels);
  std::size_t wrong = 0;
  for (const double factor : published_factors) {
    const OutlierCell c = quantized(samples, parse_any_format("e4m3-tensor"), {}, 0, factor);
    double amax = 0;
    for (const double v : c.before) amax = std::max(amax, std::fabs(v));
    const double most = amax / 448 * 0x1p-10;  // E4M3: 448 is the largest, 2^-9 the least
    for (std::size_t i = 0; i < c.before.size(); ++i) {
      const double v = std::fabs(c.before[i]);
      if (std::fabs(v - most) <= most * 0x1p-20) continue;  // the scale itself is rounded
      wrong += (v < most) != (c.q.values[i] == 0);
    }
  }
  run.report.claim(
      {"outlier-zeroes-below-a-bound",
       "Values of E4M3 with one scale that become zero though they exceed 2^-10 amax / 448, or do not though "
       "they are below: whatever the outlier.",
       {publications::outlier_channels,
        "derived: half of E4M3's least number, 2^-9, rounds to the even 0, and amax / 448 is the scale"}},
      exactly(0, wrong, "oracle"));
}

}  // namespace

void report_outliers(const ScalingSettings& s, Run& run) {
  Table& table = run.report.table(
      "outliers",
      fmt::format("One outlier channel among {} x {} samples of N(0, 1): what becomes of the others", tokens, channels),
      {{"format", "", "How the samples are stored; blocks run along the channels."},
       {"outlier", "1", "Factor of the outlier channel, the first column."},
       {"others_error", "1",
        "Frobenius norm of the other channels' errors over that of their values; null if none stays finite."},
       {"outlier_error", "1", "The same of the outlier channel."},
       {"others_zeroed", "1", "Share of the other channels' values that become zero."},
       {"saturated", "1",
        "Share of all values beyond the largest that their block can hold: often by the rounding of an fp32 scale "
        "alone."}});
  const Matrix samples = sample_matrix(Samples::normal, s.seed, 0, tokens, channels);
  const std::size_t n = s.outliers.size();
  const auto cells = parallel_map(s.formats.size() * n, [&](std::size_t i) {
    OutlierCell c = quantized(samples, s.formats[i / n].format, s.rounding, s.seed, s.outliers[i % n]);
    return std::pair(c.loss, c.q.loss);
  });
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto& [columns, all] = cells[i];
    table.row({s.formats[i / n].name, number(s.outliers[i % n]), or_null(columns.others), or_null(columns.column),
               number(columns.others_zeroed), share(all.saturated, all.elements)});
  }
  published_claims(s, run);
  zeros_claim(s, run);
}

}  // namespace halfulp::scaling
