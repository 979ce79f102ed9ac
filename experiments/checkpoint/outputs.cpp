#include <halfulp/experiments/checkpoint/outputs.hpp>

#include <halfulp/emulation/block/product.hpp>
#include <halfulp/experiments/checkpoint/parts.hpp>
#include <halfulp/experiments/checkpoint/shared.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/training/operand.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>

namespace halfulp::checkpoint {
namespace {

/// Rows of a weight that are looked at together.
constexpr std::uint64_t weights_at_once = std::uint64_t{1} << 22;

/// Sums of squares of what differs and of what is right; outputs that are not finite are only counted.
struct OutputErrors {
  double errors = 0, squares = 0;
  std::uint64_t not_finite = 0;
  void add(std::span<const double> right, std::span<const double> got) {
    for (std::size_t i = 0; i < right.size(); ++i) {
      if (!std::isfinite(right[i])) continue;
      if (!std::isfinite(got[i])) {
        ++not_finite;
        continue;
      }
      errors += (got[i] - right[i]) * (got[i] - right[i]), squares += right[i] * right[i];
    }
  }
  Json relative() const { return squares > 0 ? number(std::sqrt(errors / squares)) : Json(); }
  Json decibels() const { return squares > 0 && errors > 0 ? sqnr(std::sqrt(errors / squares)) : Json(); }
};

/// A B^T in fp64, every sum in the same eight parts: the same bits on every machine. The error of the result is far
/// below that of any format here.
std::vector<double> product(std::span<const float> a, std::span<const float> b, std::size_t m, std::size_t n,
                            std::size_t k) {
  std::vector<double> out(m * n);
  each_row(m, n * k, [&](std::size_t i) {
    for (std::size_t j = 0; j < n; ++j) {
      const float *const x = a.data() + i * k, *const y = b.data() + j * k;
      std::array<double, 8> sums{};
      std::size_t p = 0;
      for (; p + 8 <= k; p += 8)
        for (std::size_t lane = 0; lane < 8; ++lane)
          sums[lane] += static_cast<double>(x[p + lane]) * static_cast<double>(y[p + lane]);
      for (; p < k; ++p) sums[p % 8] += static_cast<double>(x[p]) * static_cast<double>(y[p]);
      double sum = 0;
      for (const double s : sums) sum += s;
      out[i * n + j] = sum;
    }
  });
  return out;
}

/// A layer and what goes into it.
struct Layer {
  const Entry* entry;
  const ModelTensor* inputs;
  std::size_t rows, columns, count;  ///< of the weight; of the inputs
};

/// Layers by their inputs' names: those of the weight's module or of the weight itself.
std::vector<Layer> layers_of(const ModelTensors& activations, const Entries& entries) {
  std::map<std::string_view, const Entry*> by_name;
  for (const Entry& e : entries.all()) {
    const std::string_view name = e.name();
    by_name[name] = &e;
    if (name.ends_with(".weight")) by_name[name.substr(0, name.size() - std::string_view(".weight").size())] = &e;
  }
  std::vector<Layer> layers;
  for (const ModelTensor& x : activations.tensors()) {
    const auto refuse = [&](const std::string& why) {
      throw std::invalid_argument(
          fmt::format("activations: tensor {} of {} {}", shown_name(x.name), activations.files().path(), why));
    };
    const auto found = by_name.find(x.name);
    if (found == by_name.end())
      refuse(fmt::format("is named like no weight that is looked at; accepted: names of modules or weights, such as {}",
                         shown_name(entries.all().empty() ? "" : entries.all()[0].name())));
    const ModelTensor& w = *found->second->survey.tensor;
    if (w.shape.size() != 2)
      refuse(fmt::format("goes into {} of {} axes; accepted: inputs of weights [outputs, inputs]", shown_name(w.name),
                         w.shape.size()));
    if (x.shape.empty() || x.shape.back() != w.shape[1] || x.count == 0)
      refuse(fmt::format("is [{}], and {} is [{}]; accepted: inputs [..., {}]", fmt::join(x.shape, ", "),
                         shown_name(w.name), fmt::join(w.shape, ", "), w.shape[1]));
    if (w.shape[0] > 0)
      layers.push_back({found->second, &x, static_cast<std::size_t>(w.shape[0]), static_cast<std::size_t>(w.shape[1]),
                        static_cast<std::size_t>(x.count / w.shape[1])});
  }
  return layers;
}

/// What one format does to a layer.
struct OutputRow {
  OutputErrors of_weights, of_both;
  std::string refused;  ///< why the product model does not take the format
  bool lossless = false;
};

/// The largest magnitude that sets a format's only scale.
std::optional<float> shared_amax(const ChosenFormat& f, float amax) {
  const bool shared = f.block() && !f.block()->element.is_affine() && (f.block()->tensor_scale || by_value(f.format));
  return shared ? std::optional(amax) : std::nullopt;
}

std::vector<OutputRow> look_at(const Layer& layer, const std::vector<ChosenFormat>& formats, const std::string& model,
                               Overflow overflow) {
  const std::size_t m = layer.count, k = layer.columns;
  std::vector<float> x(m * k);
  if (const auto beyond = beyond_fp32(*layer.inputs, 0, layer.inputs->count))
    throw std::invalid_argument(
        fmt::format("activations: tensor {}: {:g} is no float; accepted: inputs that fp32 holds",
                    shown_name(layer.inputs->name), *beyond));
  layer.inputs->read(0, x, RoundingMode::nearest_even);
  const ModelTensor& weight = *layer.entry->survey.tensor;
  const Facts& facts = layer.entry->survey.facts;
  const float amax = facts.infinite ? std::numeric_limits<float>::infinity() : static_cast<float>(facts.amax);

  struct Prepared {
    training::Storage storage;
    std::optional<ProductModel> product;
    training::PolicyOperand inputs;
  };
  std::vector<Prepared> prepared(formats.size());
  std::vector<OutputRow> rows(formats.size());
  std::vector<const AnyFormat*> all;
  for (std::size_t f = 0; f < formats.size(); ++f) {
    Prepared& p = prepared[f];
    all.push_back(&formats[f].format);
    p.storage.format = formats[f].format, p.storage.rounding.overflow = overflow;
    const Loss& loss = layer.entry->survey.kept[f].loss;
    rows[f].lossless = loss.errors.is_zero() && loss.became_infinite == 0 && loss.became_nan == 0;
    if (formats[f].block() && formats[f].block()->element.is_affine()) {
      rows[f].refused = "zero points are not multiplied here";
      continue;
    }
    p.inputs.take(p.storage, x, m, k, false, {}, {}, nullptr);
    try {
      p.product = training::operand_model(model, p.storage, p.storage, "product");
    } catch (const std::invalid_argument& error) {
      rows[f].refused = std::string(error.what()).substr(std::string_view("product: ").size());
    }
  }

  const MatrixView view = view_of(weight.shape);
  const std::vector<Part> parts = parts_of(view, all, false);
  std::vector<float> w, after;
  training::PolicyOperand weights;
  for (std::size_t i = 0; i < parts.size();) {
    Part part = parts[i++];
    while (i < parts.size() && (part.rows + parts[i].rows) * k <= weights_at_once) part.rows += parts[i++].rows;
    gather(view, part, w, [&](std::uint64_t at, auto some) { weight.read(at, some, RoundingMode::nearest_even); });
    const auto n = static_cast<std::size_t>(part.rows);
    const std::vector<double> right = product(x, w, m, n, k);
    for (std::size_t f = 0; f < formats.size(); ++f) {
      const Prepared& p = prepared[f];
      if (formats[f].block() && formats[f].block()->element.is_affine()) continue;
      weights.take(p.storage, w, n, k, false, {}, shared_amax(formats[f], amax), nullptr);
      weights.values(n, k, after);
      rows[f].of_weights.add(right, product(x, after, m, n, k));
      if (!p.product) continue;
      std::vector<float> d(m * n);
      training::multiply_scaled(*p.product, p.inputs, weights, m, n, k, 0, d);
      rows[f].of_both.add(right, std::vector<double>(d.begin(), d.end()));
    }
  }
  return rows;
}

}  // namespace

void check_outputs(const Config& config) {
  const training::Storage floats;  // any model takes these, but units that take others
  const std::string text = config.text("product");
  if (text.find('.') == std::string::npos) (void)training::operand_model(text, floats, floats, "product");
  else try {
      (void)parse_product_model(text);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("product: {}", error.what()));
    }
}

std::vector<Parameter> output_parameters() {
  return {{"activations", ParameterType::path, "",
           "inputs of layers as the user saved them, [..., inputs], by the name of the module or its weight: what "
           "checkpoint takes. With them the errors of outputs are computed"},
          {"product", ParameterType::text, "mul=exact,acc=fp32",
           "of these outputs: a product model without the operands' formats, or a matrix unit (halfulp units)"}};
}

void report_outputs(const Config& config, Run& run, const Entries& entries) {
  if (config.text("activations").empty()) return;
  const ModelTensors activations(config.text("activations"));
  const std::vector<Layer> layers = layers_of(activations, entries);
  const Overflow overflow = config.text("overflow") == "ieee" ? Overflow::ieee : Overflow::saturate;
  Table& table = run.report.table(
      "outputs", "Errors of layers' outputs, with the inputs that were given",
      {{"tensor", "", "Name of the weight."},
       {"format", "", "Format of the weight, and of the inputs where both are rounded."},
       {"inputs", "", "How many rows of inputs."},
       {"weights_error", "1", "Relative error of the outputs with rounded weights, and everything else exact."},
       {"weights_sqnr", "dB", "The same as signal to noise; null where nothing is lost."},
       {"error", "1",
        "Relative error with rounded weights and inputs, multiplied by the product model; null where it "
        "does not take the format."},
       {"sqnr", "dB", "The same as signal to noise."},
       {"not_finite", "value", "Outputs that became infinite or NaN; null likewise."},
       {"refused", "", "Why the product model does not take the format; null where it does."}});
  std::uint64_t lossless = 0, changed = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    stop_if_interrupted();
    if (run.note) run.note(fmt::format("outputs of layer {} of {}", i + 1, layers.size()));
    const std::vector<OutputRow> rows = look_at(layer, entries.formats(), config.text("product"), overflow);
    for (std::size_t f = 0; f < rows.size(); ++f) {
      const OutputRow& r = rows[f];
      table.row({layer.entry->name(), entries.formats()[f].name, layer.count, r.of_weights.relative(),
                 r.of_weights.decibels(), r.refused.empty() ? r.of_both.relative() : Json(),
                 r.refused.empty() ? r.of_both.decibels() : Json(),
                 r.refused.empty() ? Json(r.of_both.not_finite) : Json(),
                 r.refused.empty() ? Json() : Json(r.refused)});
      if (r.lossless && r.of_weights.squares > 0) ++lossless, changed += r.of_weights.errors != 0;
    }
  }
  activations.files().check_unchanged();
  run.report.claim({"lossless-weights-keep-outputs",
                    "Where a format holds every weight, outputs with rounded weights are "
                    "those of the weights themselves.",
                    "derived: the same numbers in the same order"},
                   lossless == 0 ? "no format holds every weight of a layer with inputs" : "",
                   [&] { return exactly(0, changed, "oracle"); });
}

}  // namespace halfulp::checkpoint
