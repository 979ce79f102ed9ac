// From the errors of single formats to plans, and from plans to policies.
#include <halfulp/experiments/recommendation/recommendation.hpp>

#include <halfulp/experiments/byte_count.hpp>
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

namespace halfulp::recommendation {

using training::Policy;
using training::Role;
using training::Storage;

double bits_of(const Storage& storage) {
  return storage.plain() ? storage.plain()->storage_bits() : storage.block()->bits_per_element();
}

double bytes_of(const Storage& storage, const Place& place) {
  const BlockFormat* const block = storage.block();
  const std::vector<Extent> one{{1, place.elements}};
  double bytes = 0;
  for (const Extent& e : place.tensors.empty() ? one : place.tensors) {
    const std::uint64_t elements = e.rows * e.columns,
                        bits = static_cast<std::uint64_t>(block ? block->element.bits()
                                                                : storage.plain()->storage_bits());
    bytes += static_cast<double>((elements * bits + 7) / 8);
    if (!block) continue;
    const auto shared = static_cast<std::uint64_t>(block->scale.storage_bits() +
                                                   (block->element.is_affine() ? block->element.bits() : 0));
    bytes += static_cast<double>((block_grid(*block, e.rows, e.columns).count() * shared + 7) / 8) +
             (block->tensor_scale ? 4 : 0);
  }
  return bytes;
}

double bytes_of(const std::vector<Subject>& subjects, const Plan& plan) {
  double bytes = 0;
  for (std::size_t i = 0; i < subjects.size(); ++i) bytes += subjects[i].options[plan[i]].bytes;
  return bytes;
}

double error_of(const std::vector<Subject>& subjects, const Plan& plan) {
  double squares = 0;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const double error = subjects[i].options[plan[i]].error;
    squares += error * error;
  }
  return std::sqrt(squares);
}

namespace {

Role role_of(Part part) {
  switch (part) {
    case Part::activation: return Role::activation;
    case Part::gradient_of_activation: return Role::gradient_of_activation;
    case Part::gradient_of_weight: return Role::gradient_of_weight;
    default: throw std::logic_error("a state has no role in a rule");
  }
}

double stored_bytes(const Policy& policy, const Place& place) {
  const training::UpdatePrecision& update = policy.update;
  switch (place.part) {
    case Part::weights:
      return bytes_of(update.weights, place) * (update.kahan ? 2 : 1) +
             (update.master_weights ? bytes_of(Storage{}, place) : 0);
    case Part::first_moments: return bytes_of(update.first, place);
    case Part::second_moments: return bytes_of(update.second, place);
    default: return bytes_of(policy.at(place.kind, place.layer).result(role_of(place.part)), place);
  }
}

/// A place takes another format.
struct Move {
  std::size_t subject, option;
  double saved, added;  ///< bytes; squared error
  /// Whether it saves more for the error it adds. What adds none comes first.
  bool better_than(const Move& other) const { return saved * other.added > other.saved * added; }
};

}  // namespace

double bytes_of(const std::vector<Subject>& subjects, const Policy& policy) {
  double bytes = 0;
  for (const Subject& subject : subjects) bytes += stored_bytes(policy, subject.place);
  return bytes;
}

std::vector<Plan> plans(const std::vector<Subject>& subjects) {
  std::vector<Move> moves;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const std::vector<Option>& options = subjects[i].options;
    for (std::size_t now = 0;;) {
      std::optional<Move> best;
      for (std::size_t o = 0; o < options.size(); ++o) {
        if (!(options[o].bytes < options[now].bytes) || !std::isfinite(options[o].error)) continue;
        const double added = options[o].error * options[o].error - options[now].error * options[now].error;
        const Move move{i, o, options[now].bytes - options[o].bytes, std::max(added, 0.0)};
        if (!best || move.better_than(*best) || (!best->better_than(move) && move.saved > best->saved)) best = move;
      }
      if (!best) break;
      moves.push_back(*best);
      now = best->option;
    }
  }
  // Within a place each move is worse than the one before it, so that sorting keeps their order.
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.better_than(b); });
  std::vector<Plan> all{Plan(subjects.size(), 0)};
  for (const Move& move : moves) {
    all.push_back(all.back());
    all.back()[move.subject] = move.option;
  }
  return all;
}

training::Policy policy_of(const std::vector<Subject>& subjects, const Plan& plan, const std::string& name,
                           const std::string& title) {
  Json update_weights = Json::object(), optimizer = Json::object();
  std::optional<double> loss_scale;
  // Of each operator of a layer what is not FP32; then layers that agree share a rule.
  std::map<std::pair<training::OperatorKind, std::string>, Json> results;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const Place& place = subjects[i].place;
    const Storage& storage = subjects[i].options[plan[i]].storage;
    if (storage.keeps_floats()) continue;
    const Json json = to_json(storage);
    switch (place.part) {
      case Part::weights: update_weights["storage"] = json; break;
      case Part::first_moments: optimizer["first"] = json; break;
      case Part::second_moments: optimizer["second"] = json; break;
      default:
        results[{place.kind, place.layer}][std::string(name_of(role_of(place.part)))] = json;
        // A format with less range than FP32 loses small gradients.
        if (place.part != Part::activation && storage.plain() && storage.plain()->emin() > fp32.emin())
          loss_scale = std::min(loss_scale.value_or(largest_loss_scale), subjects[i].options[plan[i]].loss_scale);
    }
  }
  std::map<std::pair<training::OperatorKind, std::string>, std::vector<std::string>> alike;
  for (const auto& [at, result] : results) alike[{at.first, result.dump()}].push_back(at.second);
  Json rules = Json::array();
  for (const auto& [what, layers] : alike)
    rules.push_back(
        {{"operators", {training::name_of(what.first)}}, {"layers", layers}, {"results", Json::parse(what.second)}});
  Json policy{{"name", name}, {"title", title}, {"source", "halfulp recommend"}, {"base", "fp32"}, {"rules", rules}};
  if (!update_weights.empty()) policy["weights"] = update_weights;
  if (!optimizer.empty()) policy["optimizer"] = optimizer;
  if (loss_scale) policy["loss_scaling"] = {{"kind", "dynamic"}, {"scale", *loss_scale}};
  return training::parse_policy(policy, name);
}

Budget parse_budget(const std::string& text) {
  const auto written = parse_written_number(text);
  if (!written || (!written->is_bytes && written->value > 1))
    throw std::invalid_argument(
        "budget: " + shown(text) +
        "; accepted: what may be lost, from 0 to 1 such as 0.005, or bytes such as 400kB, 1.5MB, 77B");
  if (written->is_bytes) return {0, written->value};
  return {written->value, {}};
}

std::vector<Storage> parse_formats(const Config& config) {
  std::vector<Storage> all;
  for (const std::string& name : name_list(config.text("formats"), ',', "formats"))
    all.push_back(training::parse_storage(name, "formats"));
  for (const training::Storage& one : all)
    if (one.plain() && *one.plain() == fp32)
      throw std::invalid_argument("formats: fp32 is always offered; accepted: others");
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (text_of(all[i]) == text_of(all[j]))
        throw std::invalid_argument(fmt::format("formats: {} is there twice", text_of(all[i])));
  if (all.empty()) throw std::invalid_argument("formats is empty; accepted: names of formats, separated by commas");
  return all;
}

std::string reason(const Subject& subject, std::size_t chosen) {
  const Option& option = subject.options[chosen];
  const Option* narrower = nullptr;
  for (const Option& other : subject.options)
    if (other.bytes < option.bytes && (!narrower || other.error < narrower->error)) narrower = &other;
  const auto percent = [](double error) {
    return std::isfinite(error)
               ? error < 1 ? fmt::format("{:.2g} %", 100 * error) : fmt::format("{:.0f} %", 100 * error)
               : "all there is";
  };
  if (subject.options.size() == 1)
    return subject.place.kind == training::OperatorKind::cross_entropy && subject.place.part == Part::activation
               ? "not made narrower, because everything else is judged by it"
               : "none of the formats is for it: block formats are for weights and moments";
  if (!narrower) return fmt::format("the narrowest; its own error is {}", percent(option.error));
  if (!std::isfinite(narrower->error))
    return fmt::format("in each narrower format numbers become Inf or NaN; the error of this one is {}",
                       percent(option.error));
  return fmt::format("{} would save {:.0f} bytes more, with an error of {} instead of {}", text_of(narrower->storage),
                     option.bytes - narrower->bytes, percent(narrower->error), percent(option.error));
}

}  // namespace halfulp::recommendation
