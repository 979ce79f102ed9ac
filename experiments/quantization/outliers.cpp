#include <halfulp/experiments/quantization/quantization.hpp>

#include <halfulp/emulation/product/product.hpp>
#include <halfulp/data/distributions.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/training/layers/tensor.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace halfulp::quantization {
namespace {

constexpr const char* paper = "Dettmers et al. 2022, LLM.int8(), arXiv:2208.07339";

double norm(std::span<const float> values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}
double norm(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

double share_in_int8(std::size_t outliers, std::size_t features) {
  return 1 - static_cast<double>(outliers) / static_cast<double>(features);
}

OutlierSample sample_of(const Config& config) {
  OutlierSample s;
  s.rows = static_cast<std::size_t>(config.integer("rows")),
  s.outputs = static_cast<std::size_t>(config.integer("outputs"));
  s.features = static_cast<std::size_t>(config.integer("features")),
  s.outliers = static_cast<std::size_t>(config.integer("outlier_features"));
  s.magnitude = config.real("outlier_magnitude"), s.share = config.real("outlier_rows");
  return s;
}

}  // namespace

LinearOperands draw(const OutlierSample& s, std::uint64_t seed) {
  std::vector<float> x(s.rows * s.features), w(s.outputs * s.features);
  const double width = 1 / std::sqrt(static_cast<double>(s.features));
  const auto fill = [&](std::vector<float>& values, std::size_t rows, unsigned which, double scale) {
    training::for_rows(rows, 50 * s.features, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        stop_if_interrupted();
        for (std::size_t i = row * s.features; i < (row + 1) * s.features; ++i)
          values[i] = static_cast<float>(scale * normal_sample(seed, which, i));
      }
    });
  };
  fill(x, s.rows, 1, 1);
  fill(w, s.outputs, 2, width);
  for (std::size_t o = 0; o < s.outliers; ++o) {
    const std::size_t column = (2 * o + 1) * s.features / (2 * s.outliers);
    for (std::size_t row = 0; row < s.rows; ++row) {
      if (uniform_sample(seed, 3, row * s.outliers + o) >= s.share) continue;
      const double size = s.magnitude * (1 + uniform_sample(seed, 4, row * s.outliers + o)) / 2;
      x[row * s.features + column] = static_cast<float>(o % 2 == 0 ? size : -size);
    }
  }
  return in_fp16(s.rows, s.outputs, s.features, x, w);
}

OutlierTables::OutlierTables(const Config& config, Report& report)
    : config_(config),
      outliers_(report.table(
          "outliers", "Products of activations and weights in INT8, and with outlier columns in FP16",
          {{"source", "", "Drawn activations, or a layer of a network of the first seed with its inputs."},
           {"method", "",
            "Both in FP16; int8 with one scale each; int8 with a scale a row of activations and an output "
            "(vector-wise); split: that, outlier columns in FP16."},
           {"threshold", "1", "Magnitude from which on a column is an outlier; null where none is."},
           {"features", "value", "Columns of the activations."},
           {"outliers", "value", "Columns in FP16."},
           {"in_int8", "1", "Share of activations, and of weights, in INT8."},
           {"error", "1", "Norm of the error of the product over the norm of the product of the FP16 operands."},
           {"to_fp16", "1", "That error over the error in FP16; null if FP16 is exact."}})),
      shares_(report.table(
          "shares", "The share of INT8 by the width of a model",
          {{"features", "value", "Width of the model: columns of the activations."},
           {"outliers", "value", "Columns with a magnitude of at least the threshold, found in drawn activations."},
           {"in_int8", "1", "Share of values in INT8 of a product that takes these activations."},
           {"in_block", "1",
            "The same of a block's weights, where the inputs of queries, keys, values and of the first feed-forward "
            "layer have outliers, those of the two others not."}})) {}

OutlierTables::Errors OutlierTables::add(const std::string& source, const LinearOperands& o) {
  const std::vector<double> exact = exact_product(o);
  const double own = config_.real("threshold");
  Errors e{relative_error(fp16_product(o), exact), relative_error(int8_product(o, false), exact),
           relative_error(int8_product(o, true), exact), 0, 0};
  const auto row = [&](const char* method, const Json& threshold, std::size_t outliers, double in_int8, double error) {
    outliers_.row({source, method, threshold, o.features, outliers, number(in_int8), number(error),
                   e.fp16 > 0 ? number(error / e.fp16) : Json()});
  };
  row("fp16", nullptr, o.features, 0, e.fp16);
  row("int8 tensor", nullptr, 0, 1, e.per_tensor);
  row("int8 vector-wise", nullptr, 0, 1, e.vector_wise);
  std::vector<double> thresholds = config_.reals("thresholds");
  thresholds.push_back(own);
  std::sort(thresholds.begin(), thresholds.end());
  thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
  for (const double threshold : thresholds) {
    const SplitProduct split = split_product(o, threshold);
    const double error = relative_error(split.y, exact);
    row("split", number(threshold), split.outliers, share_in_int8(split.outliers, o.features), error);
    if (threshold == own) e.split = error, e.outliers = split.outliers;
  }
  return e;
}

void OutlierTables::add_samples(Run& run) {
  const OutlierSample sample = sample_of(config_);
  const auto seed = static_cast<std::uint64_t>(config_.integer("seed"));
  const double threshold = config_.real("threshold");
  const LinearOperands o = draw(sample, seed);
  Channel& channel = run.trace.channel({Operation::convert, fp32, fp16, {}});
  for (std::size_t i = 0; i < std::min<std::size_t>(4096, o.w.size()); ++i)
    channel.record(std::bit_cast<std::uint32_t>(
        static_cast<float>(normal_sample(seed, 2, i) / std::sqrt(static_cast<double>(sample.features)))));
  const Errors e = add("sample", o);

  // What remains without the outlier columns, and how large the two parts are that FP16 rounds.
  const std::vector<std::size_t> outliers = outlier_columns(o.x, o.features, threshold);
  std::vector<std::size_t> all(o.features), regular;
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::set_difference(all.begin(), all.end(), outliers.begin(), outliers.end(), std::back_inserter(regular));
  const LinearOperands without = columns_of(o, regular), only = columns_of(o, outliers);
  const std::vector<double> exact = exact_product(o), of_regular = exact_product(without),
                            of_outliers = exact_product(only);
  const std::vector<float> in_int8 = int8_product(without, true), in_fp16 = fp16_product(only);
  double lost = 0;
  for (std::size_t i = 0; i < in_int8.size(); ++i) {
    const double d = static_cast<double>(in_int8[i]) - of_regular[i];
    lost += d * d;
  }
  const double outputs = static_cast<double>(exact.size()), tiny = std::sqrt(outputs) * 0x1p-24, whole = norm(exact);
  const double roundings = 0x1p-11 *
                               (norm(std::span<const float>(in_int8)) + 2 * norm(std::span<const float>(in_fp16)) +
                                whole + std::sqrt(lost)) *
                               1.01 +
                           3 * tiny +
                           0x1p-24 * static_cast<double>(outliers.size()) * std::sqrt(outputs) *
                               norm(std::span<const float>(only.x)) * norm(std::span<const float>(only.w));
  const std::string bound =
                        "Split products lose what INT8 loses of the regular columns, and roundings to FP16, no more.",
                    source = "derived: triangle inequality; half an ulp of FP16 is 2^-11";
  run.report.claim(
      {"llm-int8-split-bound", bound, source},
      whole > 0 ? at_most((std::sqrt(lost) + roundings) / whole, e.split, "oracle") : skipped("the product is zero"));

  std::size_t planted = 0;
  for (std::size_t c = 0; c < o.features; ++c) {
    bool above = false;
    for (std::size_t r = 0; r < o.rows; ++r)
      above |= std::abs(static_cast<double>(o.x[r * o.features + c])) >= threshold;
    planted += above;
  }
  run.report.claim({"llm-int8-columns",
                    "Columns kept in FP16 are those with a magnitude of at least the threshold, counted one by one.",
                    fmt::format("{}, section 3.2", paper)},
                   exactly(planted, e.outliers, "oracle"));
  const auto share_claim = [&](const std::string& id, const std::string& statement, std::size_t outlier_count,
                               std::size_t features, std::string reason) {
    run.report.claim(
        {id, statement, fmt::format("{}, abstract: more than 99.9 % of values are multiplied in 8 bits", paper)},
        at_least(0.999, share_in_int8(outlier_count, features), may_differ(std::move(reason))));
  };
  share_claim(
      "llm-int8-share",
      fmt::format("Over 99.9 % of the values of {} columns are in INT8, {} outlier columns apart.", o.features,
                  e.outliers),
      e.outliers, o.features,
      fmt::format("{} of {} columns are {:.2f} %: 99.9 % takes a thousand columns for each outlier column; the table "
                  "`shares` has other widths",
                  e.outliers, o.features, 100 * static_cast<double>(e.outliers) / static_cast<double>(o.features)));
  std::vector<std::size_t> widths{1024, 2048, 4096, 5120, 8192, 12288};
  if (std::find(widths.begin(), widths.end(), sample.features) == widths.end()) widths.push_back(sample.features);
  std::sort(widths.begin(), widths.end());
  for (const std::size_t width : widths) {
    OutlierSample narrow = sample;
    narrow.features = width, narrow.outputs = 1;
    const std::size_t count = outlier_columns(draw(narrow, seed).x, width, threshold).size();
    // Weights of a block of width h: 3 h^2 of queries, keys and values, h^2 behind them, 4 h^2 and 4 h^2 of the
    // feed-forward layers.
    shares_.row({width, count, number(share_in_int8(count, width)),
                 number(1 - 7.0 / 12 * static_cast<double>(count) / static_cast<double>(width))});
  }
  OutlierSample smaller;
  smaller.features = 4096, smaller.outputs = 1;
  const std::size_t count = outlier_columns(draw(smaller, seed).x, smaller.features, 6.0).size();
  const double in_block = 7.0 / 12 * static_cast<double>(count) / 40.96;
  share_claim("llm-int8-share-of-6700m",
              "With the six outlier columns of a model of width 4096 (6.7B) over 99.9 % of values are in INT8.", count,
              smaller.features,
              fmt::format("{} of 4096 columns are {:.3f} %; over all weights of a block, of which 7 of 12 meet these "
                          "columns, it is {:.3f} %{}",
                          count, count / 40.96, in_block, in_block < 0.1 ? ", and the paper's figure holds" : ""));
  const std::string lost_by_outliers = "Outlier columns cost INT8 without a split more than INT8 with it.",
                    source_split = fmt::format("{}, sections 3.2 and 4", paper);
  const bool has_outliers = e.outliers > 0 && e.outliers < o.features;
  run.report.claim(
      {"llm-int8-split-helps", lost_by_outliers, source_split},
      !has_outliers
          ? skipped(e.outliers ? "every column is an outlier" : "no column is an outlier")
          : at_most(
                e.vector_wise, e.split,
                may_differ("the outliers are no larger than other numbers of their rows, and FP16 rounds the sum")));
}

void OutlierTables::add_network(const std::string& network, const LearnedNetwork& learned) {
  for (const LayerInputs& layer : learned.layers) {
    const std::vector<float>& w = learned.values.at(layer.name + ".weight");
    const std::size_t rows = std::min<std::size_t>(layer.rows(), 256);
    add(network + " " + layer.name, in_fp16(rows, w.size() / layer.features, layer.features,
                                            std::span(layer.sample).first(rows * layer.features), w));
  }
}

PlantedNetwork plant_outliers(const LearnedNetwork& learned, std::size_t units, double ratio) {
  const LayerInputs &hidden = learned.layers[learned.layers.size() - 2], &last = learned.layers.back();
  // The units that are above zero most often, and the power of two that brings their largest output that far.
  std::vector<std::size_t> active(last.features), order(last.features);
  std::vector<float> largest(last.features);
  for (std::size_t i = 0; i < last.sample.size(); ++i) {
    active[i % last.features] += last.sample[i] > 0;
    largest[i % last.features] = std::max(largest[i % last.features], last.sample[i]);
  }
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return active[a] > active[b]; });
  PlantedNetwork result{learned.values};
  std::vector<float>&from = result.values.at(hidden.name + ".weight"), &bias = result.values.at(hidden.name + ".bias"),
  &to = result.values.at(last.name + ".weight");
  units = std::min(units, order.size());
  float others = 0;
  for (std::size_t i = units; i < order.size(); ++i) others = std::max(others, largest[order[i]]);
  for (std::size_t i = 0; i < units; ++i) {
    const std::size_t unit = order[i];
    if (largest[unit] == 0) continue;
    int power = 0;
    while (power < 40 && std::ldexp(static_cast<double>(largest[unit]), power) < ratio * static_cast<double>(others))
      ++power;
    const auto factor = static_cast<float>(std::ldexp(1.0, power));
    for (std::size_t c = 0; c < hidden.features; ++c) from[unit * hidden.features + c] *= factor;
    bias[unit] *= factor;
    for (std::size_t row = 0; row < to.size() / last.features; ++row) to[row * last.features + unit] /= factor;
  }
  for (const std::vector<float>* const all : {&from, &bias, &to})
    for (const float v : *all) result.exact &= v == 0 || (std::fabs(v) > 0x1p-60f && std::fabs(v) < 0x1p60f);
  return result;
}

MethodResults by_method(training::Trainer& trainer, const training::NetworkValues& values, double threshold,
                        const training::Examples& examples, const std::string& counted) {
  trainer.start_from(values);
  LinearProducts numerics;
  MethodResults result;
  result.fp32 = training::test_network(numerics, trainer.network(), examples);
  const auto with = [&](auto&& product) {
    numerics.multiply = [&](const training::Site& site, const LinearProducts::Operands& x, std::span<float> d) {
      const std::vector<float> y = product(in_fp16(x.m, x.n, x.k, x.a, x.b), counted.empty() || site.name == counted);
      std::copy(y.begin(), y.end(), d.begin());
    };
    return training::test_network(numerics, trainer.network(), examples);
  };
  result.fp16 = with([](const LinearOperands& o, bool) { return fp16_product(o); });
  result.per_tensor = with([](const LinearOperands& o, bool) { return int8_product(o, false); });
  result.vector_wise = with([](const LinearOperands& o, bool) { return int8_product(o, true); });
  std::size_t outliers = 0, columns = 0, products = 0;
  result.split = with([&](const LinearOperands& o, bool counts) {
    SplitProduct split = split_product(o, threshold);
    if (counts) outliers += split.outliers, columns += o.features, ++products;
    return std::move(split.y);
  });
  if (products) {
    result.columns = static_cast<double>(columns) / static_cast<double>(products);
    result.outliers = static_cast<double>(outliers) / static_cast<double>(products);
    result.in_int8 = 1 - static_cast<double>(outliers) / static_cast<double>(columns);
  }
  return result;
}

MethodSpreads::MethodSpreads(const std::vector<MethodResults>& of_seeds) {
  const auto n = static_cast<double>(of_seeds.size());
  for (const MethodResults& r : of_seeds) {
    fp32.add(r.fp32), fp16.add(r.fp16), per_tensor.add(r.per_tensor);
    vector_wise.add(r.vector_wise), split.add(r.split);
    columns += r.columns / n, outliers += r.outliers / n, in_int8 += r.in_int8 / n;
  }
}

}  // namespace halfulp::quantization
