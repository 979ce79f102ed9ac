// Models of several operators: the cheapest precision of each operator of a model.
#include <halfulp/emulation/rounding.hpp>
#include <halfulp/experiments/operators/operators.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

namespace halfulp::operators {
namespace {

/// Inputs of a model and its exact outputs.
class Sample {
 public:
  Sample(const OperatorProgram& p, const OperatorSettings& s, std::uint64_t number)
      : program_(p), inputs_(draw_inputs(p, 1, s.seed, number)), exact_(compared_outputs(p, inputs_)) {}
  std::span<const double> inputs() const { return inputs_; }
  /// OperatorErrors::relative of outputs.
  double error(std::span<const double> results) const {
    OperatorErrors errors;
    for (std::size_t o = 0; o < results.size(); ++o) errors.add(results[o], exact_[o]);
    return errors.relative();
  }
  /// That of the outputs with these precisions.
  double error(const std::vector<Precision>& stages, const OperatorSettings& s) const {
    return error(Evaluator(program_, stages, s.rounding)(inputs_));
  }

 private:
  std::reference_wrapper<const OperatorProgram> program_;
  std::vector<double> inputs_;
  std::vector<ExactOutput> exact_;
};

constexpr double margin = 0.9;  ///< decisions keep to this share of the budget: other inputs err somewhat more

std::vector<Sample> some_samples(const OperatorProgram& p, const OperatorSettings& s, std::size_t first) {
  const auto made = parallel_map(deciding_samples(s),
                                 [&](std::size_t i) { return std::optional<Sample>(Sample(p, s, first + i)); });
  std::vector<Sample> samples;
  for (const auto& sample : made) samples.push_back(*sample);
  return samples;
}

/// The largest error over samples.
double largest_error(const std::vector<Sample>& samples, const std::vector<Precision>& stages,
                     const OperatorSettings& s) {
  const auto errors = parallel_map(samples.size(), [&](std::size_t i) { return samples[i].error(stages, s); });
  return *std::max_element(errors.begin(), errors.end());
}

/// What is found of one model: decisions, and the errors of every list of precisions.
struct ModelErrors {
  struct Pair {
    double deciding = 0, fresh = 0;
    template <class V>
    friend void fields(V& v, Pair& p) {
      v("deciding", p.deciding);
      v("fresh", p.fresh);
    }
  };
  std::vector<Decision> decisions;
  std::vector<Pair> lists;
};
template <class V>
void fields(V& v, ModelErrors& m) {
  v("decisions", m.decisions);
  v("lists", m.lists);
}

std::vector<std::size_t> operations_by_stage(const OperatorProgram& p) {
  std::vector<std::size_t> count(p.stages().size());
  for (const Node& n : p.nodes())
    count[n.stage] += n.step != ElementaryOperation::input && n.step != ElementaryOperation::constant;
  return count;
}

}  // namespace

std::vector<PrecisionChoice> choices(const std::vector<FormatChoice>& formats) {
  std::vector<PrecisionChoice> all;
  for (const FormatChoice& f : formats) {
    if (f.format == fp32) continue;
    for (const Where where : {Where::all, Where::tensors})
      all.push_back({f.name, where, Precision::of(where, f.format)});
  }
  std::stable_sort(all.begin(), all.end(), [](const PrecisionChoice& x, const PrecisionChoice& y) {
    const auto bits = [](const PrecisionChoice& c) {
      return std::pair(c.precision.tensors.storage_bits(), c.precision.operations.storage_bits());
    };
    return bits(x) < bits(y);
  });
  all.push_back({"fp32", Where::fp32, Precision::of(Where::fp32, fp32)});
  return all;
}

std::size_t deciding_samples(const OperatorSettings& s) { return std::min<std::size_t>(s.samples, 4); }

std::vector<Decision> cheapest(const OperatorProgram& p, const std::vector<PrecisionChoice>& choices,
                               const OperatorSettings& s, double budget) {
  const std::vector<Sample> samples = some_samples(p, s, 0);
  const std::vector<std::size_t> operations = operations_by_stage(p);
  std::vector<std::size_t> order(operations.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t x, std::size_t y) { return operations[x] > operations[y]; });

  // What a stage does not reach stays as it is, whatever its precision: each trial begins with the values so far.
  // (Where these are made, their errors are of no use.)
  const std::vector<Precision> stages(operations.size(), Precision::of(Where::fp32, fp32));
  std::vector<Evaluator> decided(samples.size(), Evaluator(p, stages, s.rounding));
  parallel_map(samples.size(), [&](std::size_t i) { return samples[i].error(decided[i](samples[i].inputs())); });
  std::vector<Decision> decisions;
  for (const std::size_t stage : order) {
    const OperatorProgram::Values depending = p.depending_on(stage);
    std::vector<double> errors(choices.size());
    const auto by_sample = parallel_map(choices.size() * samples.size(), [&](std::size_t i) {
      Evaluator tried = decided[i % samples.size()];
      return samples[i % samples.size()].error(tried.again(stage, choices[i / samples.size()].precision, depending));
    });
    for (std::size_t i = 0; i < by_sample.size(); ++i)
      errors[i / samples.size()] = std::max(errors[i / samples.size()], by_sample[i]);
    std::size_t chosen = 0;
    while (chosen + 1 < choices.size() && !(errors[chosen] <= budget)) ++chosen;
    parallel_map(samples.size(), [&](std::size_t k) {
      return samples[k].error(decided[k].again(stage, choices[chosen].precision, depending));
    });
    decisions.push_back({stage, chosen, errors[chosen]});
  }
  return decisions;
}

namespace {

/// Precisions of all operators of a model, and what the table `models` calls them.
struct PrecisionList {
  std::string_view name;
  Json format;
  std::vector<Precision> stages;
};

std::vector<PrecisionList> lists(const OperatorProgram& p, const OperatorSettings& s,
                                 const std::vector<PrecisionChoice>& choices, const std::vector<Decision>& decisions) {
  const std::size_t n = p.stages().size();
  std::vector<PrecisionList> all{{"fp32", {}, std::vector<Precision>(n, Precision::of(Where::fp32, fp32))}};
  all.push_back({"derived", {}, all.front().stages});
  for (const Decision& d : decisions) all.back().stages[d.stage] = choices[d.choice].precision;
  for (const FormatChoice& f : s.formats) {
    if (f.format == fp16 || f.format == bf16) all.push_back({autocast_lists[0].name, f.name, by_list(p, 0, f.format)});
    if (f.format == fp32) continue;
    for (const Where where : {Where::tensors, Where::all})
      all.push_back({name_of(where), f.name, std::vector<Precision>(n, Precision::of(where, f.format))});
  }
  return all;
}

}  // namespace

void graph_report(const OperatorSettings& s, double budget, Run& run) {
  Table& rows = run.report.table(
      "graph",
      fmt::format("Models within a relative error of {}: the cheapest precision of each operator, decided from the "
                  "most expensive on, with a tenth of that to spare",
                  budget),
      {{"model", "", "The model; its outputs are log-probabilities."},
       {"operator", "", "Operator of the model, in the order of decisions."},
       {"operations", "1", "Elementary operations in it; a fused multiply-add is one."},
       {"format", "",
        "The cheapest that keeps the model within the budget, by bits of a tensor, then of an operation."},
       {"where", "", "What is in that format: all (tensors and operations), tensors (FP32 inside), or nothing (fp32)."},
       {"error", "1",
        "Relative error of the model's outputs after this decision, against exact outputs on FP32 inputs; the largest "
        "over the samples that decide."}});
  Table& totals = run.report.table(
      "models", "Relative errors of models whose operators have the precisions of a list",
      {{"model", "", "The model; its outputs are log-probabilities."},
       {"precisions", "",
        "Of the operators: fp32; derived, those of the table graph; PyTorch's list for CUDA in a format; tensors or "
        "all in one format."},
       {"format", "", "The format that the list is applied with; null where there is none."},
       {"narrow_operations", "1", "Share of the operations whose tensors have fewer than 32 bits."},
       {"error", "1",
        "Relative error of the outputs, the largest over the samples that decide (four at most); Infinity if an output "
        "is not finite."},
       {"fresh_error", "1", "The same over as many samples of other inputs and weights, which decide nothing."}});
  const std::vector<PrecisionChoice> all = choices(s.formats);
  std::vector<Trial> asked;
  for (const OperatorModel& model : models()) {
    Json formats = Json::array();
    for (const FormatChoice& f : s.formats) formats.push_back(format_name(f.format));
    asked.push_back({std::string(model.name),
                     {{"model", model.name},
                      {"formats", formats},
                      {"budget", budget},
                      {"samples", deciding_samples(s)},
                      {"order", static_cast<int>(s.order)},
                      {"rounding", name_of(s.rounding.mode)},
                      {"seed", s.seed}}});
  }
  const auto found = trials<ModelErrors>(run, {"models", 1}, asked, 0.9, 1, [&](std::size_t m, Trace&) {
    OperatorProgram p(s.order);
    models()[m].build(p);
    const std::vector<Sample> first = some_samples(p, s, 0), fresh = some_samples(p, s, deciding_samples(s));
    ModelErrors errors{cheapest(p, all, s, margin * budget), {}};
    for (const PrecisionList& list : lists(p, s, all, errors.decisions))
      errors.lists.push_back({largest_error(first, list.stages, s), largest_error(fresh, list.stages, s)});
    return errors;
  });
  for (std::size_t m = 0; m < models().size(); ++m) {
    const OperatorModel& model = models()[m];
    OperatorProgram p(s.order);
    model.build(p);
    const std::vector<std::size_t> operations = operations_by_stage(p);
    const auto count = std::accumulate(operations.begin(), operations.end(), std::size_t{0});
    for (const Decision& d : found[m].decisions)
      rows.row({model.name, p.stages()[d.stage], operations[d.stage], all[d.choice].format,
                name_of(all[d.choice].where), number(d.error)});
    const std::vector<PrecisionList> of = lists(p, s, all, found[m].decisions);
    for (std::size_t i = 0; i < of.size(); ++i) {
      std::size_t narrow = 0;
      for (std::size_t k = 0; k < operations.size(); ++k) narrow += of[i].stages[k].tensors == fp32 ? 0 : operations[k];
      totals.row({model.name, of[i].name, of[i].format, static_cast<double>(narrow) / static_cast<double>(count),
                  number(found[m].lists[i].deciding), number(found[m].lists[i].fresh)});
    }
  }
}

}  // namespace halfulp::operators
