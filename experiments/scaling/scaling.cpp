// The gradients of a training, tensor by tensor.
#include <halfulp/experiments/scaling/scaling.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/data/elementary.hpp>
#include <halfulp/data/matrix.hpp>
#include <halfulp/data/npy.hpp>
#include <halfulp/data/saved_gradients.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

namespace halfulp::scaling {

void report_folder(const std::string& folder, const ScalingSettings& s, Run& run) {
  const GradientFolder found = read_gradients(folder);
  for (const SavedGradient& tensor : found.gradients) {
    std::uint64_t count = 1;
    for (const std::uint64_t extent : tensor.shape) count *= extent;
    if (count == 0)
      throw std::invalid_argument(fmt::format("{}: an array of shape {} holds no gradients; accepted: at least one",
                                              tensor.path, shape_text(tensor.shape)));
    if (count > largest_file)
      throw std::invalid_argument(
          fmt::format("{} has {} elements; at most {} are taken", tensor.path, count, largest_file));
  }
  Table& table = run.report.table(
      "tensors", "The folder's gradients by tensor and step, divided by their loss scales, in every format",
      {{"tensor", "", "Name of the tensor; `all` are all of the kind together, each with scales of its own."},
       {"kind", "", "What the gradients are of: weights or activations; unknown where no gradients.json says so."},
       {"step", "step", "Step of the training; null for all steps together, and where none is known."},
       {"format", "", "Format of the tensor."},
       {"values", "value", "Elements."},
       {"relative_error", "1",
        "Frobenius norm of the errors over that of the values, of elements that stay finite; null if none does."},
       {"sqnr", "dB", "Signal to quantization noise: -20 log10 of the relative error; null where nothing was lost."},
       {"zeros", "1", "Share of elements that became zero."},
       {"saturated", "1",
        "Share of elements beyond the largest value that their block can hold: often by the rounding of an fp32 scale "
        "alone."},
       {"not_finite", "1", "Share of elements that became NaN or infinite, or were before."}});
  const auto row = [&](const std::string& name, GradientKind kind, const Json& step, std::size_t format,
                       const Loss& loss) {
    table.row({name, name_of(kind), step, s.formats[format].name, loss.elements, relative_error(loss), sqnr(loss),
               share(loss.to_zero, loss.elements), share(loss.saturated, loss.elements),
               share(loss.elements - loss.compared, loss.elements)});
  };
  std::vector<std::vector<Loss>> losses;
  std::array<std::vector<Loss>, gradient_kind_names.size()> together;
  for (std::size_t t = 0; t < found.gradients.size(); ++t) {
    const SavedGradient& gradient = found.gradients[t];
    FileTensor tensor = read_tensor(gradient.path);
    for (double& v : tensor.values) v /= gradient.scale;
    losses.push_back(parallel_map(s.formats.size(), [&](std::size_t f) {
      try {
        return quantize_tensor(tensor, s.formats[f].format, s.rounding, s.seed, {}).loss;
      } catch (const std::invalid_argument& error) {
        throw std::invalid_argument(fmt::format("{} in {}: {}", gradient.path, s.formats[f].name, error.what()));
      }
    }));
    std::vector<Loss>& all = together[static_cast<std::size_t>(gradient.kind)];
    all.resize(s.formats.size());
    for (std::size_t f = 0; f < s.formats.size(); ++f) all[f].add(losses.back()[f]);
    run.progress(0.2 + 0.8 * static_cast<double>(t + 1) / static_cast<double>(found.gradients.size()));
  }
  for (std::size_t kind = 0; kind < together.size(); ++kind)
    for (std::size_t f = 0; f < together[kind].size(); ++f)
      row("all", static_cast<GradientKind>(kind), {}, f, together[kind][f]);
  for (std::size_t t = 0; t < losses.size(); ++t) {
    const SavedGradient& gradient = found.gradients[t];
    for (std::size_t f = 0; f < s.formats.size(); ++f)
      row(gradient.name, gradient.kind, or_null(gradient.step), f, losses[t][f]);
  }
}

}  // namespace halfulp::scaling

// What a scale's granularity, its rule and its age do to a tensor in few bits.

namespace halfulp {
namespace scaling {

FileTensor as_tensor(std::size_t rows, std::size_t columns, std::vector<double> values) {
  return {fp32, {rows, columns}, std::move(values)};
}

namespace {

constexpr std::string_view outlier_channel = "outlier-channel";

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::string> modes, kinds{std::string(outlier_channel)};
  for (const auto& mode : rounding_modes) modes.emplace_back(mode.name);
  kinds.insert(kinds.end(), sample_names.begin(), sample_names.end());
  std::vector<Parameter> all{
      {"formats", Type::text, "e4m3-tensor,e4m3-row,e4m3/column/fp32,fp8-1x128,fp8-128x128,mxfp8e4m3,int8,mxfp4,nvfp4",
       "formats and block formats (halfulp formats lists them), separated by commas; blocks run along rows"},
      {"input", Type::path, "",
       "a .npy file (float16, float32 or float64), or a folder of them, as a training saves its gradients; empty: "
       "samples alone"},
      {"tensors", Type::choices, "outlier-channel,normal,heavy-tailed",
       "samples: N(0, 1), uniform in (0, 1), Student's t with 3 degrees of freedom, or N(0, 1) with one channel (a "
       "column) that is larger",
       -infinity, infinity, kinds},
      {"rows", Type::integer, "256", "rows of samples", 1, 4096},
      {"columns", Type::integer, "1024", "columns of samples", 1, 4096},
      {"outlier", Type::real, "10000", "factor of the outlier channel, the first column", 1e-30, 1e30},
      {"outliers", Type::reals, "1,10,100,1000,10000,100000,1000000", "its factors in the table `outliers`", 1e-30,
       1e30},
      {"elements", Type::formats, "e4m3,e5m2,e3m2,e2m3,e2m1", "elements of the table `rules`, in blocks of 32"},
      {"rounding", Type::choice, "nearest-even", "of elements", -infinity, infinity, modes},
      {"seed", Type::integer, "2024", "of samples and of stochastic rounding", 0, largest_seed}};
  for (Parameter& parameter : delayed_parameters()) all.push_back(std::move(parameter));
  return all;
}

ScalingSettings read(const Config& config) {
  ScalingSettings s;
  s.formats = chosen_formats(config.text("formats"), "formats");
  s.outliers = config.reals("outliers");
  std::sort(s.outliers.begin(), s.outliers.end());
  s.outliers.erase(std::unique(s.outliers.begin(), s.outliers.end()), s.outliers.end());
  if (s.outliers.size() > 64) throw std::invalid_argument("outliers: at most 64 factors");
  s.elements = config.formats("elements");
  for (const FormatChoice& element : s.elements) {
    require_arithmetic(element.format, "elements", element.name);
    if (element.format.storage_bits() > 8)
      throw std::invalid_argument(fmt::format("elements: {} has {} bits; accepted: formats of at most 8", element.name,
                                              element.format.storage_bits()));
    BlockFormat blocks = parse_block_format("mxfp8e4m3");
    blocks.element.format = element.format;
    if (const std::string why = defect(blocks); !why.empty())
      throw std::invalid_argument(fmt::format("elements: {} in blocks {}", element.name, why));
  }
  if (s.elements.size() > 32) throw std::invalid_argument("elements: at most 32");
  for (const auto& mode : rounding_modes)
    if (mode.name == config.text("rounding")) s.rounding.mode = mode.value;
  s.seed = static_cast<std::uint64_t>(config.integer("seed"));
  return s;
}

std::vector<TensorSample> draw(const Config& config, std::uint64_t seed) {
  std::vector<TensorSample> samples;
  const auto rows = static_cast<std::size_t>(config.integer("rows")),
             columns = static_cast<std::size_t>(config.integer("columns"));
  for (const std::string& name : config.choices("tensors")) {
    const bool outlier = name == outlier_channel;
    const auto kind = outlier ? sample_names.begin() : std::find(sample_names.begin(), sample_names.end(), name);
    Matrix m = sample_matrix(static_cast<Samples>(kind - sample_names.begin()), seed, 0, rows, columns);
    if (outlier) scale_channel(m, 0, config.real("outlier"));
    samples.push_back({name, as_tensor(rows, columns, std::move(m.values)), true, outlier});
  }
  return samples;
}

TensorSample read_input(const std::string& path) {
  const NpyHeader header = NpyReader(path).header();
  if (header.count == 0)
    throw std::invalid_argument(fmt::format("{}: an array of shape {} holds no values; accepted: at least one", path,
                                            shape_text(header.shape)));
  if (header.count > largest_file)
    throw std::invalid_argument(
        fmt::format("{} has {} elements; at most {} are taken", path, header.count, largest_file));
  return {"input", read_tensor(path), false};
}

void run_scaling(const Config& config, Run& run) {
  const ScalingSettings s = read(config);
  const std::string input = config.text("input");
  std::error_code error;
  const bool folder = std::filesystem::is_directory(input, error);
  std::vector<TensorSample> samples;
  if (!input.empty() && !folder) samples.push_back(read_input(input));  // the user's own first
  for (TensorSample& sample : draw(config, s.seed)) samples.push_back(std::move(sample));
  report_granularity(s, samples, run);
  run.progress(folder ? 0.1 : 0.4);
  report_outliers(s, run);
  report_rules(s, samples, run);
  run.progress(folder ? 0.2 : 0.8);
  report_delayed(config, s, run);
  if (folder) report_folder(input, s, run);
}

}  // namespace

}  // namespace scaling

namespace {

/// The worst and the best format of the user's tensor, or else beside an outlier channel.
std::string scaling_finding(const ReportTables& tables) {
  const auto given = tables.rows("granularity", {{"tensor", "input"}});
  if (const TableRow *const most = largest(given, "relative_error"), *const least = smallest(given, "relative_error");
      most && most != least)
    return fmt::format("The input has an error of {} in {} and of {} in {}.", percent(most->number("relative_error")),
                       most->text("format"), percent(least->number("relative_error")), least->text("format"));
  const auto rows = tables.rows("granularity", {{"tensor", "outlier-channel"}});
  const TableRow *const worst = largest(rows, "others_error"), *const best = smallest(rows, "others_error");
  if (!worst || worst == best) return {};
  return fmt::format("Next to outliers, the other values have an error of {} in {} and of {} in {}.",
                     percent(worst->number("others_error")), worst->text("format"),
                     percent(best->number("others_error")), best->text("format"));
}

}  // namespace

Experiment scaling_experiment() {
  return {"scaling",
          "Scales: granularity, rules and age",
          "Which scales keep a tensor with outliers accurate?",
          scaling::parameters,
          scaling::run_scaling,
          scaling_finding,
          {"granularity", {"tensor", "format", "bits", "relative_error", "others_error", "zeros"}, {"tensor"}, {}}};
}

}  // namespace halfulp
