#include <halfulp/training/runs/model_report.hpp>

#include <halfulp/report/environment.hpp>
#include <halfulp/report/finding.hpp>
#include <halfulp/training/counting.hpp>
#include <halfulp/training/runs/tables.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <thread>

namespace halfulp::trainings {

using training::ProductErrors;

namespace {
constexpr std::size_t most_counted = 64;
}

ExponentRow& ExponentRow::operator+=(const ExponentRow& other) {
  zeros += other.zeros, non_finite += other.non_finite;
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  return *this;
}

bool ModelWatch::begin_step(std::uint64_t step, bool evaluates) {
  step_ = step;
  microscope_.pause(evaluates);
  microscope_.begin_step(step, step % every_ == 0);
  return counts();
}

void ModelWatch::end_step() {
  if (!counts()) return;
  counted_.push_back({step_, meter_.take(), microscope_.take_rows(), gradients_.take()});
  if (counted_.size() <= most_counted) return;
  every_ *= 2;
  std::erase_if(counted_, [&](const Counted& c) { return c.step % every_ != 0; });
}

void ModelWatch::before(const training::Site& site, training::Role role, const training::Storage&,
                        std::span<const float> values) {
  const bool gradient = role == training::Role::gradient_of_activation || role == training::Role::gradient_of_weight;
  if (!counts() || !gradient) return;
  ExponentRow& row = gradients_.at({site.kind, std::string(site.name), role},
                                   [&] { return ExponentRow{site.kind, std::string(site.name), role}; });
  training::count_rows(values.size(), 1, row, [=](std::size_t begin, std::size_t end, ExponentRow& own) {
    const std::span<const float> piece = values.subspan(begin, end - begin);
    std::array<std::uint64_t, 256> counts{};
    training::count_exponents(piece, counts.data());
    own.zeros += training::count_zeros(piece);
    if (counts[0] > own.zeros)
      for (const float value : piece)
        if (const auto magnitude = std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
            magnitude != 0 && magnitude < 0x00800000u)
          ++own.counts[static_cast<std::size_t>(std::bit_width(magnitude) - 1)];
    own.non_finite += counts[255];
    for (std::size_t e = 1; e < 255; ++e)
      own.counts[static_cast<std::size_t>(static_cast<int>(e) - 127 - lowest_exponent)] += counts[e];
  });
}

void ModelWatch::see(const training::Sighting& s) {
  microscope_.see(s);
  if (!saved_ || !counts() || s.operand || s.role != training::Role::gradient_of_activation) return;
  const std::uint64_t size = s.values.size();
  saved_->add_activation(step_, s.site.name, saved_scale_, {&size, 1}, s.values);
}

namespace {

std::vector<Parameter> parameters() {
  return {{"model", ParameterType::text, "", "the model's class"},
          {"policy", ParameterType::text, "", "the policy's name"},
          {"definition", ParameterType::text, "", "the policy as JSON, which emulate() takes again"},
          {"seed", ParameterType::text, "0", "seed of stochastic rounding and dropout"},
          {"steps", ParameterType::integer, "0", "steps that were taken", 0},
          {"every", ParameterType::integer, "0", "every which step was counted at the end; 0: none", 0}};
}

Config config_of(const ModelFacts& facts, std::uint64_t every) {
  Config config(parameters());
  config.set(Json{{"model", facts.model},
                  {"policy", facts.policy},
                  {"definition", facts.definition.dump()},
                  {"seed", std::to_string(facts.seed)},
                  {"steps", facts.steps},
                  {"every", every}});
  return config;
}

void add_rows(Table& table, const Json& rows) {
  for (const Json& row : rows) table.row({row.begin(), row.end()});
}

void add_products(Report& report, const ModelWatch& watch) {
  Table& table = report.table("products", "Where the error of each product comes from, in the counted steps",
                              {{"step", "step", "Steps before this one."},
                               {"layer", "", "Module, or operator within it."},
                               {"operator", "", "What it is."},
                               {"product", "", "forward, to-input (gradient of the input) or to-weight."},
                               {"count", "product", "Products of this size at once."},
                               {"m", "row", "Rows of the result."},
                               {"n", "column", "Columns of the result."},
                               {"k", "term", "Terms of each sum."},
                               {"elements", "value", "Elements of the result that were measured."},
                               {"non_finite", "value", "Elements left out for an Inf or a NaN."},
                               {"sqnr", "dB",
                                "Signal over error: the product of the operands as they came, in double, against what "
                                "was stored; null without error or without signal."},
                               {"quantization", "1", "Share of rounding the operands in the error, by squares."},
                               {"accumulation", "1", "Share of the sums."},
                               {"rounding", "1", "Share of rounding the result."},
                               {"amax_a", "1", "Largest magnitude of the first operand, as it came."},
                               {"amax_b", "1", "Largest magnitude of the second operand."},
                               {"amax_result", "1", "Largest magnitude of the result."}});
  for (const ModelWatch::Counted& at : watch.counted())
    for (const ProductErrors& e : at.products)
      table.row({at.step, e.name, name_of(e.kind), name_of(e.which), e.count, e.m, e.n, e.k, e.elements, e.non_finite,
                 or_null(std::isfinite(e.sqnr_db()) ? e.sqnr_db() : std::numeric_limits<double>::quiet_NaN()),
                 or_null(e.share(e.quantization)), or_null(e.share(e.accumulation)), or_null(e.share(e.rounding)),
                 number(static_cast<double>(e.largest_a)), number(static_cast<double>(e.largest_b)),
                 number(static_cast<double>(e.largest_d))});
}

void add_tensors(Report& report, const ModelWatch& watch) {
  Table& table = report.table("tensors", "What rounding did to each tensor in the counted steps",
                              tensor_columns("Steps before this one."));
  for (const ModelWatch::Counted& at : watch.counted())
    for (const auto& row : at.tensors) table.row(tensor_cells(at.step, row));
}

void add_exponents(Report& report, const ModelWatch& watch) {
  Table& table = report.table(
      "exponents", "Magnitudes of gradients before they are rounded, over all counted steps",
      {{"layer", "", "Module, or operator within it."},
       {"operator", "", "What it is."},
       {"role", "", "Gradient of an activation or of a weight."},
       {"exponent", "", "Binary exponent: magnitudes from 2^exponent up to twice that; null: zeros."},
       {"count", "value", "How many."}});
  ExponentRows sums;
  for (const ModelWatch::Counted& at : watch.counted())
    for (const ExponentRow& row : at.gradients) {
      sums.at({row.kind, row.name, row.role}, [&] { return ExponentRow{row.kind, row.name, row.role}; }) += row;
    }
  for (const ExponentRow& row : sums.take()) {
    if (row.zeros) table.row({row.name, name_of(row.kind), name_of(row.role), nullptr, row.zeros});
    for (std::size_t i = 0; i < row.counts.size(); ++i)
      if (row.counts[i])
        table.row(
            {row.name, name_of(row.kind), name_of(row.role), static_cast<int>(i) + lowest_exponent, row.counts[i]});
  }
}

/// The product with the least ratio of signal to error in the last counted step, and how much torch computed.
std::string finding_of_model(const ReportTables& tables) {
  std::string finding;
  // The first steps of a run may have delayed scales that know nothing yet.
  const auto all_products = tables.rows("products");
  std::vector<TableRow> products;
  for (const TableRow& row : all_products)
    if (row["step"] == all_products.back()["step"]) products.push_back(row);
  if (const TableRow* const least = smallest(products, "sqnr")) {
    const std::array<std::pair<const char*, const char*>, 3> parts{
        {{"quantization", "rounded operands"}, {"accumulation", "sums"}, {"rounding", "the rounded result"}}};
    const auto most = *std::max_element(parts.begin(), parts.end(), [&](const auto& x, const auto& y) {
      return least->number(x.first) < least->number(y.first);
    });
    finding = fmt::format("weakest product: {} of {}, {:.1f} dB, {} of its error from {}; ", least->text("product"),
                          least->text("layer").empty() ? "the model" : least->text("layer"), least->number("sqnr"),
                          percent(least->number(most.first)), most.second);
  }
  double outside = 0, all = 0;
  for (const TableRow& row : tables.rows("calls")) {
    all += row.number("calls");
    if (row["covered"] == Json(false)) outside += row.number("calls");
  }
  return finding + fmt::format("{:.0f} of {:.0f} calls by no operator of the policy", outside, all);
}

/// No order of fp32 sums is farther from the exact sum than Higham's bound.
void claim_bound(Report& report, const ModelWatch* watch) {
  std::uint64_t bounded = 0, beyond = 0;
  if (watch)
    for (const ModelWatch::Counted& at : watch->counted())
      for (const ProductErrors& e : at.products) bounded += e.bounded, beyond += e.beyond_bound;
  report.claim({"fp32-sums-within-bound",
                "Sums of k products in fp32 are within g times the sum of their magnitudes of the exact sum, with g = "
                "n u / (1 - n u) and n = 2k + 8.",
                "derived: Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1"},
               !watch         ? "no step was watched"
               : bounded == 0 ? "no product of a counted step sums in fp32"
                              : "",
               [&] { return exactly(0, beyond, "oracle"); });
}

}  // namespace

Experiment model_experiment() {
  return {"model",
          "A model of one's own under a policy",
          "What does a model of one's own lose under a policy, and where?",
          parameters,
          nullptr,
          finding_of_model,
          {"products", {"step", "layer", "product", "sqnr", "quantization", "accumulation"}, {}, {"layer", "product"}}};
}

Report model_report(const ModelWatch* watch, const ModelFacts& facts, const std::string& command) {
  Report report("model", "A model of one's own under the policy " + facts.policy,
                config_of(facts, watch ? watch->every() : 0));
  add_rows(report.table("calls", "What was computed under the policy, and what torch computed in fp32",
                        {{"function", "", "The function of torch."},
                         {"module", "", "The module that called it."},
                         {"calls", "call", "How often."},
                         {"covered", "", "Whether an operator of the policy computed it."}}),
           facts.calls);
  if (watch) {
    add_rows(report.table("steps", "The counted steps",
                          {{"step", "step", "Steps before this one."},
                           {"loss", "nat", "Sum of the losses by the policy's cross-entropy; null if there was none."},
                           {"scale", "1", "Loss scale; null without PolicyOptimizer."},
                           {"taken", "", "Whether PolicyOptimizer took the step; null without it."}}),
             facts.losses);
    add_products(report, *watch);
    add_tensors(report, *watch);
    add_exponents(report, *watch);
    add_rows(report.table("updates", "What became of each parameter in the update after a counted step",
                          {{"step", "step", "Steps before this one."},
                           {"parameter", "", "Parameter."},
                           {"elements", "value", "Its numbers."},
                           {"with_gradient", "value", "Those with a gradient other than zero."},
                           {"swamped", "1", "Share of these that stayed what they were."},
                           {"weight_norm", "1", "Norm of the weights before the update."},
                           {"gradient_to_weight", "1", "Norm of the gradient relative to it."},
                           {"update_to_weight", "1", "Norm of the change relative to it."}}),
             facts.updates);
    add_rows(report.table("scaler_events", "What PolicyOptimizer's loss scaler did",
                          {{"update", "update", "Updates before it."},
                           {"event", "", "What it was: grew, backed-off, skipped, collapsed, ..."},
                           {"before", "1", "Scale before."},
                           {"after", "1", "Scale after."},
                           {"description", "", "In words."}}),
             facts.events);
    Table& births = report.table("births", "The first tensors with an Inf and a NaN",
                                 {{"what", "", "An Inf or a NaN."},
                                  {"step", "step", "Steps before this one."},
                                  {"operator", "", "Operator of the policy, or function of torch."},
                                  {"layer", "", "Module, or operator within it."},
                                  {"role", "", "Which of its tensors; null of a function of torch."}});
    const auto born = [&](const char* what, const std::optional<training::FirstNonFinite>& first) {
      if (first) births.row({what, first->step, name_of(first->kind), first->name, name_of(first->role)});
    };
    born("an Inf", watch->microscope().first_infinite());
    if (facts.births.empty()) born("a NaN", watch->microscope().first_nan());  // else torch's was earlier
    add_rows(births, facts.births);
  }
  claim_bound(report, watch);
  report.finding(finding_of_model(ReportTables(report.results())));
  report.environment(
      describe_environment(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())), command));
  return report;
}

}  // namespace halfulp::trainings
