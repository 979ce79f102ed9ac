// What a narrow format of one place does to the update of a step.
#include <halfulp/experiments/recommendation/recommendation.hpp>

#include <halfulp/report/config.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace halfulp::recommendation {

using training::NetworkValues;
using training::OperatorKind;
using training::Policy;
using training::Role;
using training::Storage;
using training::Trainer;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

const Policy& fp32_policy() {
  static const Policy policy = training::find_policy("fp32");
  return policy;
}

/// What is measured of an option.
struct Sensitive {
  double error = 0, loss_scale = 0;
};
template <class V>
void fields(V& v, Sensitive& s) {
  v("error", s.error);
  v("loss_scale", s.loss_scale);
}

struct Sums {
  double of_difference = 0, of_reference = 0, product = 0;
};

Sums sums(const std::vector<float>& of, const std::vector<float>& reference) {
  Sums s;
  for (std::size_t i = 0; i < of.size(); ++i) {
    const double a = static_cast<double>(of[i]), b = static_cast<double>(reference[i]);
    s.of_difference += (a - b) * (a - b), s.of_reference += b * b, s.product += a * b;
  }
  return s;
}

/// Root mean square of the relative errors of the parameters; one without a gradient has no say. Each counts alike, as
/// in Adam, whose updates do not depend on the size of gradients.
double relative_error(const std::vector<std::vector<float>>& of, const std::vector<std::vector<float>>& reference) {
  double sum = 0;
  int count = 0;
  for (std::size_t p = 0; p < reference.size(); ++p) {
    const Sums s = sums(of[p], reference[p]);
    if (!std::isfinite(s.of_difference)) return infinity;
    if (s.of_reference == 0) continue;
    sum += s.of_difference / s.of_reference;
    ++count;
  }
  return count ? std::sqrt(sum / count) : 0;
}

/// The part of the way that was lost: 0 where weights went as far in the reference's direction, 1 where they stayed.
/// The noise of stochastic rounding goes in no direction and hardly counts where there are many weights. So each
/// parameter counts by its size.
double lost_way(const std::vector<std::vector<float>>& of, const std::vector<std::vector<float>>& reference) {
  double sum = 0, count = 0;
  for (std::size_t p = 0; p < reference.size(); ++p) {
    const Sums s = sums(of[p], reference[p]);
    if (!std::isfinite(s.of_difference)) return infinity;
    if (s.of_reference == 0) continue;
    const double lost = 1 - s.product / s.of_reference, size = static_cast<double>(reference[p].size());
    sum += size * lost * lost;
    count += size;
  }
  return count > 0 ? std::sqrt(sum / count) : 0;
}

/// "fc1.bias" belongs to "fc1" if there is such a layer.
std::string layer_of(OperatorKind kind, const std::string& name,
                     const std::set<std::pair<OperatorKind, std::string>>& layers) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return name;
  const std::string layer = name.substr(0, dot);
  return layers.contains({kind, layer}) ? layer : name;
}

}  // namespace

Sensitivity::Sensitivity(const Config& config, const trainings::Data& data, const trainings::Job& job,
                         NetworkValues learned)
    : config_(config), data_(data), settings_(job.settings), identity_(trainings::identity_of(job, config, data)) {
  settings_.warmup = 0, settings_.cosine = false, settings_.test_every = 0;
  const auto examples = data.examples(config, settings_.network);
  states_ = {Trainer(settings_, fp32_policy(), *examples).values(), std::move(learned)};
  double squares = 0;
  for (const NetworkValues& state : states_) {
    gradients_.push_back(gradients(fp32_policy(), state, settings_.seed));
    displacements_.push_back(displacement(fp32_policy(), state));
    const double other = relative_error(gradients(fp32_policy(), state, settings_.seed + 1), gradients_.back());
    squares = std::max(squares, other * other);
  }
  noise_ = std::sqrt(squares);
}

Sensitivity::Gradients Sensitivity::gradients(const Policy& policy, const NetworkValues& start,
                                              std::uint64_t seed) const {
  training::TrainerSettings settings = settings_;
  settings.seed = seed, settings.interval = 1, settings.steps = 2;  // the last step of all would be followed by a test
  const auto examples = data_.examples(config_, settings.network);
  Trainer trainer(settings, policy, *examples);
  trainer.start_from(start);
  Gradients all;
  trainer.after_backward = [&](Trainer& t) {
    for (const auto* const p : t.parameters()) {
      const auto values = p->gradient.values();
      all.emplace_back(values.begin(), values.end());
      for (float& g : all.back()) g /= static_cast<float>(t.scale());
    }
  };
  trainer.run_interval();
  return all;
}

Sensitivity::Gradients Sensitivity::displacement(const Policy& policy, const NetworkValues& start) const {
  training::TrainerSettings settings = settings_;
  settings.interval = std::clamp<std::uint64_t>(settings_.steps / 8, 10, 100), settings.steps = settings.interval + 1;
  const auto examples = data_.examples(config_, settings.network);
  Trainer trainer(settings, policy, *examples);
  trainer.start_from(start);
  Gradients moved;
  for (const auto* const p : trainer.parameters()) {
    const auto values = p->value.values();
    moved.emplace_back(values.begin(), values.end());
  }
  trainer.run_interval();
  if (trainer.record().diverged) return {};
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const auto values = std::as_const(trainer.parameters()[i]->value).values();
    for (std::size_t j = 0; j < values.size(); ++j) moved[i][j] = values[j] - moved[i][j];
  }
  return moved;
}

std::vector<Place> Sensitivity::places() const {
  training::TrainerSettings settings = settings_;
  settings.interval = 1, settings.steps = 2;
  const auto examples = data_.examples(config_, settings.network);
  Trainer trainer(settings, fp32_policy(), *examples);
  trainer.run_interval();
  std::uint64_t parameters = 0;
  for (const auto* const p : trainer.parameters()) parameters += p->value.size();
  std::vector<Extent> extents;
  for (const auto* const p : trainer.parameters()) extents.push_back({p->value.rows(), p->value.columns()});
  std::vector<Place> all{{Part::weights, OperatorKind::optimizer, {}, parameters, extents}};
  const training::OptimizerSettings& optimizer = settings_.optimizer;
  const bool adam = optimizer.kind != training::OptimizerKind::sgd;
  if (adam || optimizer.momentum != 0)
    all.push_back({Part::first_moments, OperatorKind::optimizer, {}, parameters, extents});
  if (adam) all.push_back({Part::second_moments, OperatorKind::optimizer, {}, parameters, extents});
  const auto& tensors = trainer.record().curve.front().tensors;
  std::set<std::pair<OperatorKind, std::string>> layers;
  for (const auto& row : tensors) layers.emplace(row.kind, row.name);
  for (const auto& row : tensors) {
    if (row.operand || row.kind == OperatorKind::optimizer) continue;
    Place place{Part::activation, row.kind, layer_of(row.kind, row.name, layers), row.elements};
    if (row.role == Role::gradient_of_activation) place.part = Part::gradient_of_activation;
    else if (row.role == Role::gradient_of_weight) place.part = Part::gradient_of_weight;
    else if (row.role != Role::activation) continue;
    const auto same = std::find_if(all.begin(), all.end(), [&](const Place& p) {
      return p.part == place.part && p.kind == place.kind && p.layer == place.layer;
    });
    if (same == all.end()) all.push_back(place);
    else same->elements += place.elements;
  }
  return all;
}

Option Sensitivity::measured(const Place& place, Option option) const {
  for (option.loss_scale = largest_loss_scale;; option.loss_scale /= 2) {
    Policy policy = policy_of({{place, {option}}}, {0}, "alone", "one format alone");
    if (policy.loss_scaling) policy.loss_scaling = training::static_scale(option.loss_scale);
    option.error = 0;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (is_state(place.part)) {
        const Gradients moved = displacement(policy, states_[i]);
        option.error = std::max(option.error, moved.empty() ? infinity : lost_way(moved, displacements_[i]));
      } else {
        option.error = std::max(option.error,
                                relative_error(gradients(policy, states_[i], settings_.seed), gradients_[i]));
      }
    }
    if (std::isfinite(option.error) || !policy.loss_scaling || option.loss_scale == 1) return option;
  }
}

Plan Sensitivity::narrowed_for_free(const std::vector<Subject>& subjects, Plan plan) const {
  const auto all_gradients = [&](const Plan& p) {
    const Policy policy = policy_of(subjects, p, "free", "free of charge");
    return parallel_map(states_.size(), [&](std::size_t i) { return gradients(policy, states_[i], settings_.seed); });
  };
  const auto before = all_gradients(plan);
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const std::vector<Option>& options = subjects[i].options;
    if (is_state(subjects[i].place.part)) continue;
    std::vector<std::size_t> narrower;
    for (std::size_t o = 0; o < options.size(); ++o)
      if (options[o].bytes < options[plan[i]].bytes && std::isfinite(options[o].error)) narrower.push_back(o);
    std::stable_sort(narrower.begin(), narrower.end(),
                     [&](std::size_t a, std::size_t b) { return options[a].bytes < options[b].bytes; });
    for (const std::size_t o : narrower) {
      Plan tried = plan;
      tried[i] = o;
      if (all_gradients(tried) != before) continue;
      plan = tried;
      break;
    }
  }
  return plan;
}

std::vector<Subject> Sensitivity::measure(const std::vector<Storage>& formats, Run& run, double from, double to) const {
  std::vector<Subject> subjects;
  for (const Place& place : places()) {
    Subject& subject = subjects.emplace_back(Subject{place, {{Storage{}, bytes_of(Storage{}, place), 0}}});
    // A test in a narrow format would judge by steps of that format.
    if (place.kind == OperatorKind::cross_entropy && place.part == Part::activation) continue;
    for (Storage storage : formats) {
      // Results of operators have no rows along which blocks could lie.
      if (storage.block() && !is_state(place.part)) continue;
      const double bytes = bytes_of(storage, place);
      subject.options.push_back({storage, bytes});
      if (!is_state(place.part)) continue;
      // What is added up over many steps may need it; it costs no byte.
      storage.rounding.mode = RoundingMode::stochastic;
      subject.options.push_back({storage, bytes});
    }
  }
  std::vector<std::pair<std::size_t, std::size_t>> questions;
  for (std::size_t i = 0; i < subjects.size(); ++i)
    for (std::size_t o = 1; o < subjects[i].options.size(); ++o) questions.emplace_back(i, o);
  std::vector<Trial> asked;
  for (const auto& [i, o] : questions) {
    const Place& place = subjects[i].place;
    const std::string storage = to_json(subjects[i].options[o].storage).dump();
    asked.push_back({fmt::format("{} {} {} {}", settings_.network, name_of(place.part), place.layer, storage),
                     {{"training", identity_},
                      {"part", name_of(place.part)},
                      {"operator", training::name_of(place.kind)},
                      {"layer", place.layer},
                      {"storage", storage}}});
  }
  const auto answers = trials<Sensitive>(run, {"sensitivities", 1}, asked, from, to, [&](std::size_t q, Trace&) {
    const auto [i, o] = questions[q];
    const Option option = measured(subjects[i].place, subjects[i].options[o]);
    return Sensitive{option.error, option.loss_scale};
  });
  for (std::size_t q = 0; q < questions.size(); ++q) {
    Option& option = subjects[questions[q].first].options[questions[q].second];
    option.error = answers[q].error, option.loss_scale = answers[q].loss_scale;
  }
  return subjects;
}

}  // namespace halfulp::recommendation
