#include <halfulp/experiments/quantization/quantization.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/data/elementary.hpp>
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace halfulp::quantization {
namespace {

/// The signal to noise ratio of numbers evenly spread over the whole range of 2 most + 1 integers: (a^2 / 3) / (s^2 /
/// 12), a = most s.
double sqnr_of_uniform(int most) { return 20 * deterministic_log(2.0 * most) / ln_10; }

}  // namespace

std::vector<Calibration> calibrations_of(const Config& config) {
  std::vector<Calibration> all;
  for (const std::string& name : config.choices("methods")) {
    const Method method = value_named(methods, "method", name);
    if (method != Method::percentile) all.push_back({method});
    else
      for (const double percent : config.reals("percentiles")) all.push_back({method, percent});
  }
  return all;
}

Calibration aware_calibration(const Config& config) {
  Calibration by{value_named(methods, "method", config.text("qat_method"))};
  if (by.method == Method::percentile) by.percent = config.reals("percentiles").front();
  return by;
}

std::vector<int> bits_of(const Config& config) {
  std::vector<int> all;
  for (const std::int64_t bits : config.integers("bits")) all.push_back(static_cast<int>(bits));
  return all;
}

CalibrationTable::CalibrationTable(const Config& config, Report& report)
    : calibrations_(calibrations_of(config)),
      bits_(bits_of(config)),
      table_(report.table("calibration", "Magnitudes by calibration, one scale a tensor, and what they lose",
                          {{"network", "", "Network, of its first seed; sample: drawn from a distribution."},
                           {"layer", "", "Layer, or distribution."},
                           {"tensor", "", "Activations enter the layer's product with its weights."},
                           {"bits", "bit", "Bits of the integers, which are symmetric."},
                           {"method", "", "How the magnitude of the largest integer was chosen."},
                           {"values", "value", "Numbers that were looked at."},
                           {"amax", "1", "That magnitude; 0 if all numbers are 0."},
                           {"to_max", "1", "That magnitude divided by the largest magnitude of the numbers."},
                           {"clipped", "1", "Share of numbers whose magnitude is above it."},
                           {"mse", "1", "Mean squared error of the quantized numbers."},
                           {"sqnr", "dB", "Signal to quantization noise; Infinity if all numbers are exact."}})) {}

void CalibrationTable::add(const std::string& network, const std::string& layer, const std::string& tensor,
                           std::span<const float> values) {
  const float largest = largest_magnitude(values);
  ++tensors_;
  hundred_differs_ += percentile_amax(values, 100) != largest;
  const auto rows = parallel_map(bits_.size() * calibrations_.size(), [&](std::size_t i) {
    Row row{calibrations_[i % calibrations_.size()], bits_[i / calibrations_.size()], 0, {}};
    const BlockFormat format = integers(row.bits, false);
    row.amax = calibrated_amax(row.by, values, format);
    row.loss = loss_of(values, row.amax, format);
    row.allowed = values.size() -
                  static_cast<std::size_t>(std::ceil(row.by.percent / 100 * static_cast<double>(values.size())));
    if (row.by.method == Method::entropy && largest > 0) {
      const Histogram histogram(values);
      for (std::size_t b = entropy_bins(histogram, static_cast<std::size_t>(format.element.most()) + 1);
           b < Histogram::bins; ++b)
        row.in_tail += histogram.counts()[b];
    }
    return row;
  });
  for (const Row& row : rows) {
    table_.row({network, layer, tensor, row.bits, row.by.name(), row.loss.values, number(static_cast<double>(row.amax)),
                largest > 0 ? number(static_cast<double>(row.amax) / static_cast<double>(largest)) : Json(),
                share(row.loss.clipped, row.loss.values), number(row.loss.mse()), number(row.loss.sqnr())});
    half_steps_ = std::max(half_steps_, row.loss.largest_inside);
    counted_ += row.loss.values;
    if (row.by.method == Method::entropy) tail_differs_ += row.loss.clipped != row.in_tail;
    if (row.by.method == Method::percentile) too_many_clipped_ += row.loss.clipped > row.allowed;
    if (row.by.method == Method::mse) {
      const double by_max = loss_of(values, largest, integers(row.bits, false)).squared_error;
      if (by_max > 0) mse_ratio_ = std::max(mse_ratio_, row.loss.squared_error / by_max);
    }
  }
}

void CalibrationTable::add_samples(std::uint64_t seed) {
  constexpr std::size_t count = 1 << 16;
  const auto draw = [&](Shape shape, int degrees, bool rectified) {
    Distribution d;
    d.shape = shape;
    d.degrees = degrees;
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(d.sample(seed, i));
      if (rectified) values[i] = std::max(values[i], 0.0f);
    }
    return values;
  };
  const std::vector<float> uniform = draw(Shape::uniform, 1, false);
  add("sample", "uniform", "values", uniform);
  add("sample", "normal", "values", draw(Shape::normal, 1, false));
  add("sample", "normal, rectified", "values", draw(Shape::normal, 1, true));
  add("sample", "laplace", "values", draw(Shape::laplace, 1, false));
  add("sample", "student-t, 3 degrees", "values", draw(Shape::student_t, 3, false));
  for (const int bits : bits_) {
    const BlockFormat format = integers(bits, false);
    const double apart = loss_of(uniform, largest_magnitude(uniform), format).sqnr() -
                         sqnr_of_uniform(format.element.most());
    if (std::fabs(apart) > std::fabs(farthest_sqnr_)) farthest_sqnr_ = apart;
  }
}

void CalibrationTable::claim(Report& report) const {
  const auto has = [&](Method method) {
    return std::any_of(calibrations_.begin(), calibrations_.end(),
                       [&](const Calibration& c) { return c.method == method; });
  };
  const auto without = [](Method method) { return fmt::format("methods does not contain {}", name_of(method)); };
  report.claim(
      {"percentile-100-is-max",
       fmt::format("100 percent of a tensor do not exceed its largest magnitude, and nothing smaller ({} tensors).",
                   tensors_),
       "derived: definition of a percentile"},
      exactly(0u, hundred_differs_, "oracle"));
  report.claim(
      {"uniform-sqnr", "Evenly spread numbers, scaled by the largest, keep 20 log10(2^b - 2) decibel in b bits.",
       "derived: (a^2 / 3) / (s^2 / 12) with a = (2^(b-1) - 1) s"},
      within(0, 0.1, farthest_sqnr_, "oracle"));
  report.claim({"error-is-half-a-step",
                "A number within the range is off by at most half a scale, except for the roundings of the "
                "division and the product in FP32.",
                "derived: rounding to nearest; 2^7 steps times a few 2^-24"},
               at_most(1 + 0x1p-14, half_steps_, "oracle"));
  const std::string
      mse =
          "The magnitude chosen by squared error has no larger squared error than the largest magnitude has, on every "
          "tensor and in every width.",
      tail = "Counting magnitudes above entropy's choice gives what lies in the histogram's bins behind it.",
      percent = "A method percentile-P clips at most 100 - P percent of a tensor's numbers.";
  report.claim({"mse-no-larger-than-max", mse, "derived: the largest magnitude is among what is tried"},
               has(Method::mse) ? at_most(1.0, mse_ratio_, "oracle") : skipped(without(Method::mse)));
  report.claim({"entropy-clips-its-tail", tail, "derived: edges of bins"},
               has(Method::entropy) ? exactly(0u, tail_differs_, "oracle") : skipped(without(Method::entropy)));
  report.claim(
      {"percentile-clips-its-share", percent, "derived: definition of a percentile"},
      has(Method::percentile) ? exactly(0u, too_many_clipped_, "oracle") : skipped(without(Method::percentile)));
}

}  // namespace halfulp::quantization

// quantization: a trained network in 8, 4 and fewer bits: calibration, granularity, outlier columns, and training that
// knows of the roundings.

namespace halfulp {
namespace quantization {
namespace {

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<Parameter> all = trainings::parameters({"mlp", "fp32", "2"});
  std::erase_if(all, [](const Parameter& p) { return p.name == "policies"; });
  for (Parameter& p : all) {
    if (p.name == "networks")
      p.accepted = {"mlp", "cnn", "transformer"}, p.help =
                                                      "what is trained in FP32 and then quantized: mlp in seconds, cnn "
                                                      "and transformer, or the preset full, in minutes";
    if (p.name == "seeds") p.help = "trainings of each network, with seeds seed, seed + 1, ...";
    if (p.name == "intervals") p.default_value = "2";
  }
  std::vector<std::string> names;
  for (const auto& method : methods) names.emplace_back(method.name);
  const std::vector<Parameter> own{
      {"bits", Type::integers, "8,4,2", "bits of weights and activations", 2, 8},
      {"methods", Type::choices, "max,percentile,mse,entropy",
       "how the range of activations is calibrated; percentile once for each of percentiles", -infinity, infinity,
       names},
      {"weight_methods",
       Type::choices,
       "max,mse",
       "how the range of weights is calibrated",
       -infinity,
       infinity,
       {"max", "mse"}},
      {"granularity",
       Type::choices,
       "tensor,channel",
       "one scale for all weights of a layer, or one an output; activations have one a layer",
       -infinity,
       infinity,
       {"tensor", "channel"}},
      {"percentiles", Type::reals, "99.9,99,97",
       "percents P of values that the methods percentile-P do not clip; qat_method takes the first", 50, 100},
      {"calibration_batches", Type::integer, "4", "training batches that calibration looks at", 1, 64},
      {"qat_method", Type::choice, "mse",
       "calibration of quantization-aware training, and of the table layers; of weights too where it is mse, else max",
       -infinity, infinity, names},
      {"qat_lr", Type::real, "5e-4", "learning rate of quantization-aware training", 0, 100},
      {"qat_epochs", Type::real, "1", "its epochs, but at least one step", 0, 1000},
      {"qat_steps", Type::integer, "0",
       "its steps, instead of epochs; 0: qat_epochs says (of text, as many as of the first training)", 0, 1e8},
      {"threshold", Type::real, "6", "magnitude from which on LLM.int8() keeps a column of activations in FP16", 0,
       1e6},
      {"thresholds", Type::reals, "2,4,10,30,100", "others for the table outliers", 0, 1e6},
      {"features", Type::integer, "12288",
       "columns of drawn activations: the width of a model; 65536 with 256 rows and 256 outputs takes minutes", 2,
       65536},
      {"outlier_features", Type::integer, "6",
       "outlier columns of drawn activations, and units of the perceptron that are made such", 0, 1024},
      {"outlier_magnitude", Type::real, "60", "largest magnitude of drawn ones", 0, 1000},
      {"outlier_rows", Type::real, "0.75", "share of rows with outliers", 0, 1},
      {"planted", Type::reals, "20,200", "outliers planted in the perceptron: times the largest of the other values", 1,
       1e6},
      {"rows", Type::integer, "64", "rows of drawn activations; time grows with rows x outputs x features", 1, 256},
      {"outputs", Type::integer, "64", "outputs of drawn weights", 1, 256},
  };
  all.insert(all.begin() + 2, own.begin(), own.end());
  return all;
}

void run_quantization(const Config& config, Run& run) {
  if (config.integer("outlier_features") > config.integer("features"))
    throw std::invalid_argument(fmt::format("outlier_features is {}; accepted: at most features, {}",
                                            config.integer("outlier_features"), config.integer("features")));
  if (const std::size_t count = config.reals("percentiles").size(); count > 16)
    throw std::invalid_argument(fmt::format("percentiles: {} of them; at most 16", count));
  const std::vector<std::string> networks = config.choices("networks");
  const trainings::Data data(config, networks);
  ResultTables tables(run.report);
  CalibrationTable calibration(config, run.report);
  OutlierTables outliers(config, run.report);
  data.report(run.report);
  trainings::Tables runs(run.report, "variant",
                         "Training in FP32, or from there on: in FP32 (fp32-on) or quantization-aware (bits, scales of "
                         "weights, calibration of weights and of activations).");
  calibration.add_samples(static_cast<std::uint64_t>(config.integer("seed")));
  outliers.add_samples(run);
  if (run.only_operands) return;  // networks are trained in FP32 and in integers, for which devices have no conversions
  constexpr double samples = 0.1;
  run.progress(samples);
  for (std::size_t i = 0; i < networks.size(); ++i) {
    const auto part = [&](std::size_t n) {
      return samples + (1 - samples) * static_cast<double>(n) / static_cast<double>(networks.size());
    };
    const NetworkOutcome outcome = run_network(config, data, networks[i], run, part(i), part(i + 1),
                                               {tables, calibration, outliers, runs});
    claim_network(config, networks[i], outcome, run.report);
  }
  calibration.claim(run.report);
}

}  // namespace
}  // namespace quantization

namespace {

/// The network that gains most by training on.
std::string quantization_finding(const ReportTables& tables) {
  const auto rows = tables.rows("qat");
  const TableRow* const most = largest(rows, "recovered");
  if (!most || !(most->number("recovered") > 0)) return {};
  return fmt::format("{} falls from {} to {} in {} bits; further training in them gives {}.", most->text("network"),
                     percent(most->number("fp32")), percent(most->number("ptq")), most->whole("bits"),
                     percent(most->number("qat")));
}

}  // namespace

Experiment quantization_experiment() {
  return {"quantization",
          "Trained networks in 8, 4 and 2 bits",
          "What does a network lose in INT8, INT4 and INT2?",
          quantization::parameters,
          quantization::run_quantization,
          quantization_finding,
          {"qat", {"network", "bits", "granularity", "fp32", "ptq", "qat", "to_continued", "doubt"}},
          false,
          &publications::integer_formats};
}

}  // namespace halfulp
