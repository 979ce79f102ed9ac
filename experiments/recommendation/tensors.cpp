// Formats for the tensors of a folder: gradients or weights of the user's own.
#include <halfulp/experiments/recommendation/recommendation.hpp>

#include <halfulp/data/quantized_tensor.hpp>
#include <halfulp/data/saved_gradients.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace halfulp::recommendation {
namespace {

/// Norm of the errors over that of the values; infinite if a value becomes Inf or NaN.
double relative_error(const FileTensor& tensor, const training::Storage& storage) {
  std::vector<float> values(tensor.values.begin(), tensor.values.end());
  training::store(storage, tensor.shape.empty() ? 0 : tensor.shape.back(), values);
  double largest = 0;  // squares of what it divides neither overflow nor vanish together
  for (const double v : tensor.values) largest = std::max(largest, std::fabs(v));
  if (largest == 0) return 0;
  int power = 0;
  std::frexp(largest, &power);
  double errors = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = std::ldexp(tensor.values[i], -power),
                 error = std::ldexp(static_cast<double>(values[i]), -power) - exact;
    errors += error * error, squares += exact * exact;
  }
  if (!std::isfinite(errors)) return std::numeric_limits<double>::infinity();
  return squares > 0 ? std::sqrt(errors / squares) : 0;
}

/// The narrowest option of each within the error; of equal bytes that with less.
Plan within_error(const std::vector<Subject>& subjects, double allowed) {
  Plan plan(subjects.size(), 0);
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const std::vector<Option>& options = subjects[i].options;
    for (std::size_t o = 1; o < options.size(); ++o) {
      const Option& best = options[plan[i]];
      if (options[o].error <= allowed &&
          (options[o].bytes < best.bytes || (options[o].bytes == best.bytes && options[o].error < best.error)))
        plan[i] = o;
    }
  }
  return plan;
}

Plan within_bytes(const std::vector<Subject>& subjects, double bytes) {
  const std::vector<Plan> all = plans(subjects);
  const auto fits = std::find_if(all.begin(), all.end(),
                                 [&](const Plan& plan) { return bytes_of(subjects, plan) <= bytes; });
  if (fits == all.end())
    throw std::invalid_argument(fmt::format(
        "budget: these tensors take {:.0f} bytes in the narrowest of these formats; accepted: at least that",
        std::ceil(bytes_of(subjects, all.back()))));
  return *fits;
}

}  // namespace

void recommend_for_tensors(const Config& config, const Budget& budget, Run& run) {
  const std::string folder = config.text("tensors");
  std::vector<training::Storage> formats = parse_formats(config);
  formats.insert(formats.begin(), training::Storage{});
  const GradientFolder found = read_gradients(folder);
  Table& table = run.report.table(
      "tensors", "A format for each tensor of the folder, the same in all steps",
      {{"tensor", "", "Name of the tensor."},
       {"elements", "value", "Numbers of the tensor, in one step."},
       {"format", "", "Format."},
       {"bits", "bit", "Of an element, with its share of a block's scale."},
       {"bytes", "byte", "Of the tensor in one step: codes, and the scales of all its blocks."},
       {"relative_error", "1",
        "Norm of the errors over that of the values, the largest of all steps, loss scales "
        "divided out; Inf if values become Inf or NaN."},
       {"chosen", "", "Whether it is recommended."},
       {"why", "", "Of what is recommended: why not the next narrower one."}});
  std::vector<Subject> subjects;
  for (std::size_t t = 0; t < found.gradients.size(); ++t) {
    const SavedGradient& gradient = found.gradients[t];
    FileTensor tensor = read_tensor(gradient.path);
    if (tensor.values.empty())
      throw std::invalid_argument(fmt::format("{}: no elements; accepted: at least one", gradient.path));
    if (gradient.scale == 0)
      throw std::invalid_argument(fmt::format(
          "{}: gradients.json gives {} the loss scale 0, which nothing can be divided by; accepted: above 0", folder,
          gradient.name));
    for (double& v : tensor.values) {
      v /= gradient.scale;
      if (!std::isfinite(v))
        throw std::invalid_argument(fmt::format("{}: an Inf or NaN; accepted: finite numbers", gradient.path));
    }
    const Place size{Part::gradient_of_weight,
                     training::OperatorKind::optimizer,
                     gradient.name,
                     tensor.values.size(),
                     {{tensor.shape.empty() ? 1 : tensor.values.size() / tensor.shape.back(),
                       tensor.shape.empty() ? 1 : tensor.shape.back()}}};
    auto subject = std::find_if(subjects.begin(), subjects.end(),
                                [&](const Subject& other) { return other.place.layer == gradient.name; });
    if (subject == subjects.end()) {
      subjects.push_back({{Part::gradient_of_weight, training::OperatorKind::optimizer, gradient.name}, {}});
      subject = std::prev(subjects.end());
      for (const training::Storage& format : formats) subject->options.push_back({format});
    }
    // A tensor of several steps has one format: its size is that of one step, its error the largest.
    subject->place.elements = std::max<std::uint64_t>(subject->place.elements, tensor.values.size());
    const std::vector<double> errors = parallel_map(formats.size(),
                                                    [&](std::size_t f) { return relative_error(tensor, formats[f]); });
    for (std::size_t f = 0; f < formats.size(); ++f) {
      Option& option = subject->options[f];
      option.bytes = std::max(option.bytes, bytes_of(formats[f], size));
      option.error = std::max(option.error, errors[f]);
    }
    run.progress(static_cast<double>(t + 1) / static_cast<double>(found.gradients.size()));
  }
  const Plan plan = budget.bytes ? within_bytes(subjects, *budget.bytes) : within_error(subjects, budget.accuracy);
  double largest = 0;
  std::string worst;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const auto& [place, options] = subjects[i];
    for (std::size_t o = 0; o < options.size(); ++o)
      table.row({place.layer, place.elements, text_of(options[o].storage), number(bits_of(options[o].storage)),
                 static_cast<std::uint64_t>(options[o].bytes), number(options[o].error), o == plan[i],
                 o == plan[i] ? Json(reason(subjects[i], o)) : Json()});
    if (options[plan[i]].error > largest || i == 0) largest = options[plan[i]].error, worst = place.layer;
  }
  const Citation source = "derived: the budget that was given";
  if (budget.bytes)
    run.report.claim({"tensors-keep-the-budget", "The tensors take no more bytes than the budget.", source},
                     at_most(*budget.bytes, bytes_of(subjects, plan), "oracle"));
  else
    run.report.claim(
        {"tensors-keep-the-budget", "Each tensor's relative error is within the budget.", source},
        at_most(budget.accuracy, largest, {"oracle", Verdict::differs, worst + ": fp32 itself loses more"}));
}

}  // namespace halfulp::recommendation
