#include <halfulp/data/elementary.hpp>
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/experiments/quantization/integers.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/training/layers/tensor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace halfulp::quantization {
namespace {

/// Values as the format has them; an amax of 0 is theirs.
std::vector<float> quantized(std::span<const float> values, float amax, const BlockFormat& format) {
  std::vector<float> out(values.size());
  BlockOptions options;
  if (amax > 0) options.amax = amax;
  quantize_block_values(format, {}, values, 1, values.size(), out, options);
  return out;
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  return training::fixed_order_sum<double>(a.size(), [&](std::size_t i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    return d * d;
  });
}

float mse_amax(std::span<const float> values, float largest, const BlockFormat& format) {
  float best = largest;
  double least = std::numeric_limits<double>::infinity();
  for (int percent = 100; percent >= 1; --percent) {
    const float amax = percent == 100 ? largest : largest * (static_cast<float>(percent) / 100);
    if (!(amax > 0)) break;
    const double error = squared_distance(values, quantized(values, amax, format));
    if (error < least) least = error, best = amax;
  }
  return best;
}

}  // namespace

std::string Calibration::name() const {
  return method == Method::percentile ? fmt::format("{}-{}", name_of(method), percent) : std::string(name_of(method));
}

BlockFormat integers(int bits, bool per_row) {
  BlockFormat f;
  f.element = {{}, bits, 0, IntegerRange::symmetric};
  f.rows = per_row ? 1 : 0;
  f.columns = 0;
  f.scale = fp32;
  f.use = ScaleUse::reciprocal;
  return f;
}

Histogram::Histogram(std::span<const float> values) : largest_(largest_magnitude(values)), counts_(bins) {
  const double width = static_cast<double>(largest_) / bins;
  for (const float v : values) {
    // The quotient rounds to an integer only if it is one: 24 bits by 24 bits are further apart from integers than a
    // double's last place.
    const double place = width > 0 ? std::ceil(std::fabs(static_cast<double>(v)) / width) - 1 : 0;
    ++counts_[place > 0 ? static_cast<std::size_t>(place) : 0];
  }
}

float Histogram::edge(std::size_t count) const {
  const double exact = static_cast<double>(largest_) / bins * static_cast<double>(count);
  const auto nearest = static_cast<float>(exact);
  return static_cast<double>(nearest) > exact ? std::nextafter(nearest, 0.0f) : nearest;
}

std::size_t entropy_bins(const Histogram& histogram, std::size_t levels) {
  constexpr std::size_t fewest = 128;
  std::vector<double> count(Histogram::bins), count_log(Histogram::bins);  // c and c ln c
  double total = 0;
  for (std::size_t b = 0; b < count.size(); ++b) {
    count[b] = static_cast<double>(histogram.counts()[b == 0 ? 1 : b]);
    count_log[b] = count[b] > 0 ? count[b] * deterministic_log(count[b]) : 0;
    total += count[b];
  }
  std::size_t best = Histogram::bins;
  double least = std::numeric_limits<double>::infinity(), kept = 0;
  for (std::size_t b = 0; b + 1 < fewest; ++b) kept += count[b];
  for (std::size_t bins = fewest; bins <= Histogram::bins; ++bins) {
    kept += count[bins - 1];
    const double beyond = total - kept, last = count[bins - 1];
    if (last == 0 && beyond > 0) continue;  // P has there what Q has not: infinitely far
    // sum p ln(p / q) with p = c / total, q = mean of c's level / kept. Counts are integers: their sums are exact.
    double sum = 0;
    for (std::size_t level = 0, b = 0; level < levels; ++level) {
      double in_level = 0, bins_in_level = 0;
      for (; b < bins && b * levels / bins == level; ++b) {
        in_level += count[b], bins_in_level += count[b] > 0;
        sum += count_log[b];
      }
      if (in_level > 0) {
        const double spread = deterministic_log(in_level / bins_in_level);
        sum -= (in_level + (b == bins ? beyond : 0)) * spread;
      }
    }
    if (beyond > 0) sum += (last + beyond) * deterministic_log(last + beyond) - count_log[bins - 1];
    const double divergence = total > 0 ? sum / total + deterministic_log(kept / total) : 0;
    if (divergence <= least) least = divergence, best = bins;
  }
  return best;
}

float percentile_amax(std::span<const float> values, double percent) {
  if (values.empty()) return 0;
  std::vector<float> magnitudes(values.size());
  std::transform(values.begin(), values.end(), magnitudes.begin(), [](float v) { return std::fabs(v); });
  const auto count = static_cast<double>(values.size());
  const auto rank = static_cast<std::size_t>(std::clamp(std::ceil(percent / 100 * count), 1.0, count));
  const auto at = magnitudes.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(magnitudes.begin(), at, magnitudes.end());
  return *at;
}

float calibrated_amax(const Calibration& by, std::span<const float> values, const BlockFormat& format) {
  const float largest = largest_magnitude(values);
  if (largest == 0) return 0;
  float amax = largest;
  if (by.method == Method::percentile) amax = percentile_amax(values, by.percent);
  if (by.method == Method::mse) amax = mse_amax(values, largest, format);
  if (by.method == Method::entropy) {
    const Histogram histogram(values);
    amax = histogram.edge(entropy_bins(histogram, static_cast<std::size_t>(format.element.most()) + 1));
  }
  return amax > 0 ? amax : largest;
}

double QuantizationLoss::sqnr() const {
  if (squared_error == 0) return std::numeric_limits<double>::infinity();
  return squares == 0 ? -std::numeric_limits<double>::infinity()
                      : deterministic_log(squares / squared_error) * (10 / ln_10);
}

QuantizationLoss loss_of(std::span<const float> values, float amax, const BlockFormat& format) {
  QuantizationLoss loss;
  loss.values = values.size();
  if (values.empty()) return loss;
  const std::vector<float> after = quantized(values, amax, format);
  const double half = static_cast<double>(amax) / format.element.most() / 2;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = std::fabs(static_cast<double>(values[i]) - static_cast<double>(after[i]));
    if (std::fabs(values[i]) > amax) ++loss.clipped;
    else if (half > 0) loss.largest_inside = std::max(loss.largest_inside, error / half);
  }
  loss.squared_error = squared_distance(values, after);
  loss.squares = training::fixed_order_sum<double>(
      values.size(), [&](std::size_t i) { return static_cast<double>(values[i]) * static_cast<double>(values[i]); });
  return loss;
}

using training::OperatorKind;

void LinearProducts::product(const training::Site& site, training::Product which, const Operands& x,
                             std::span<const float> bias, std::span<float> d) {
  if ((site.kind != OperatorKind::linear && site.kind != OperatorKind::conv2d) || which != training::Product::forward) {
    training::Fp32Numerics::product(site, which, x, bias, d);
    return;
  }
  if (see) see(site, x);
  if (!multiply) {
    training::Fp32Numerics::product(site, which, x, bias, d);
    return;
  }
  multiply(site, x, d);
  for (std::size_t i = 0; i < x.m && !bias.empty(); ++i)
    for (std::size_t j = 0; j < x.n; ++j) d[i * x.n + j] += bias[j];
}

std::vector<LayerInputs> layer_inputs(training::Trainer& trainer, training::Examples& examples, std::size_t batches,
                                      std::size_t most) {
  std::vector<LayerInputs> layers;
  LinearProducts numerics;
  numerics.see = [&](const training::Site& site, const LinearProducts::Operands& x) {
    auto layer = std::find_if(layers.begin(), layers.end(), [&](const LayerInputs& l) { return l.name == site.name; });
    if (layer == layers.end()) layer = layers.insert(layers.end(), {site.kind, std::string(site.name), x.k});
    const std::size_t rows = std::min(x.m, std::max<std::size_t>(1, most / batches / x.k));
    layer->sample.insert(layer->sample.end(), x.a.begin(), x.a.begin() + static_cast<std::ptrdiff_t>(rows * x.k));
  };
  training::Batch batch;
  for (std::size_t i = 0; i < batches; ++i) {
    stop_if_interrupted();
    examples.training(trainer.settings().seed, i, batch);
    training::Pass<float> pass{numerics, false, trainer.settings().seed, 0};
    trainer.network().forward(pass, batch.x);
  }
  return layers;
}

training::Policy policy_of(const Variant& v, const LearnedNetwork& network, const std::string& only,
                           bool straight_through) {
  Json rules = Json::array();
  for (const LayerInputs& layer : network.layers) {
    if (!only.empty() && layer.name != only) continue;
    Json activation{{"format", format_name(integers(v.bits, false))}};
    const float amax = network.activation_amax.at({layer.name, v.bits, v.activations});
    if (amax > 0) activation["amax"] = static_cast<double>(amax);
    rules.push_back(
        {{"operators", {name_of(layer.kind)}},
         {"layers", {layer.name}},
         {"straight_through", straight_through},
         {"operands",
          {{"activation", std::move(activation)}, {"weight", format_name(integers(v.bits, v.per_channel))}}}});
  }
  const std::string name = fmt::format("int{}-{}-{}-{}", v.bits, v.granularity(), name_of(v.weights),
                                       v.activations.name());
  return training::parse_policy({{"name", name}, {"rules", std::move(rules)}}, name);
}

training::NetworkValues values_of(const Variant& v, const LearnedNetwork& network, const std::string& only) {
  training::NetworkValues values = network.values;
  if (v.weights == Method::max) return values;
  const BlockFormat format = integers(v.bits, false);
  for (const LayerInputs& layer : network.layers) {
    if (!only.empty() && layer.name != only) continue;
    std::vector<float>& weights = values.at(layer.name + ".weight");
    const std::size_t row = v.per_channel ? layer.features : weights.size();
    for (std::size_t begin = 0; begin < weights.size(); begin += row) {
      const std::span<float> one = std::span(weights).subspan(begin, row);
      const float amax = calibrated_amax({v.weights}, one, format);
      for (float& w : one) w = std::clamp(w, -amax, amax);
    }
  }
  return values;
}

bool sums_are_exact(std::size_t features, int bits) {
  const auto most = static_cast<std::size_t>(integers(bits, false).element.most());
  return features * most * most < std::size_t{1} << 24;
}

IntegerCheck check_integers(const Variant& v, const LearnedNetwork& network, const LayerInputs& layer,
                            std::size_t most_rows) {
  const training::NetworkValues values = values_of(v, network);
  const std::vector<float>& weights = values.at(layer.name + ".weight");
  const std::size_t rows = std::min(most_rows, layer.rows()), outputs = weights.size() / layer.features;
  const training::Policy policy = policy_of(v, network);
  training::PolicyNumerics numerics(policy, 1);
  training::PolicyNumerics::Operands o;
  o.m = rows, o.n = outputs, o.k = layer.features;
  o.a = std::span(layer.sample).first(rows * layer.features), o.b = weights, o.transpose_b = true;
  std::vector<float> by_policy(rows * outputs);
  numerics.product({layer.kind, layer.name}, training::Product::forward, o, {}, by_policy);

  BlockOptions options;
  if (const float amax = network.activation_amax.at({layer.name, v.bits, v.activations}); amax > 0) options.amax = amax;
  const std::vector<float> by_integers = integer_product(
      quantize_blocks(integers(v.bits, false), {}, o.a, rows, layer.features, options),
      quantize_blocks(integers(v.bits, v.per_channel), {}, weights, outputs, layer.features));
  IntegerCheck check{by_policy.size()};
  for (std::size_t i = 0; i < by_policy.size(); ++i) check.differ += by_policy[i] != by_integers[i];
  return check;
}

}  // namespace halfulp::quantization
