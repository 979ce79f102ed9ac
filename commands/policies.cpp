// halfulp policies: the precision policies of trainings, and what one says of each operator.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/training/operand.hpp>
#include <halfulp/training/policy.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace halfulp::cli {
namespace {

using namespace training;

std::string list() {
  std::vector<std::vector<std::string>> rows;
  for (const Policy& policy : policies()) rows.push_back({policy.name, policy.title});
  return aligned(rows, 0);
}

/// "fp16", or one by one if they differ: "weight e4m3-tensor, activation e5m2-tensor".
template <std::size_t N>
std::string all_of(const std::array<std::string_view, N>& names, const std::array<std::string, N>& values) {
  if (std::all_of(values.begin(), values.end(), [&](const std::string& v) { return v == values[0]; })) return values[0];
  std::string text;
  for (std::size_t i = 0; i < N; ++i) text += fmt::format("{}{} {}", i ? ", " : "", names[i], values[i]);
  return text;
}

std::string described(const OperatorPrecision& p, bool products) {
  const auto operand = [&](Role role) { return text_of(p.operand(role)); };
  const auto result = [&](Role role) { return text_of(p.result(role)); };
  std::string text = "results " + all_of<3>({"activation", "gradient-of-activation", "gradient-of-weight"},
                                            {result(Role::activation), result(Role::gradient_of_activation),
                                             result(Role::gradient_of_weight)});
  if (products) {
    text += "\n    operands " +
            all_of<3>({"weight", "activation", "gradient-of-activation"},
                      {operand(Role::weight), operand(Role::activation), operand(Role::gradient_of_activation)});
    text += "\n    accumulate " + all_of<3>(product_names, p.accumulate);
  }
  if (p.straight_through)
    text += "\n    straight-through: backward products take weights and activations as forward rounded them";
  if (p.inside) text += "\n    inside " + text_of(Storage{*p.inside});
  return text;
}

/// The precision of each operator in a layer that no rule names. Operators with the same precision share an entry.
std::string operators(const Policy& policy) {
  std::vector<std::pair<std::string, std::string>> groups;
  for (std::size_t i = 0; i < operator_names.size(); ++i) {
    const auto kind = static_cast<OperatorKind>(i);
    if (kind == OperatorKind::optimizer) continue;
    const std::string what = described(policy.at(kind, ""), multiplies(kind));
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const auto& group) { return group.second == what; });
    if (same == groups.end()) groups.emplace_back(operator_names[i], what);
    else same->first += ", " + std::string(operator_names[i]);
  }
  std::string text;
  for (const auto& [names, what] : groups) text += fmt::format("  {}\n    {}\n", names, what);
  return text;
}

std::string described(const Policy& policy) {
  const UpdatePrecision& u = policy.update;
  std::string text = fmt::format("{}: {}\n", policy.name, policy.title);
  if (!policy.source.empty()) text += fmt::format("source: {}\n", policy.source);
  text += "\noperators (operands are rounded on their way into products, results when they arise)\n" +
          operators(policy);
  text += fmt::format("\nweights: {}{}{}\n", text_of(u.weights),
                      u.master_weights ? ", rounded from FP32 master weights" : "",
                      u.kahan ? ", updates added by Kahan summation" : "");
  text += fmt::format("optimizer: first moment {}, second moment {}, arithmetic {}{}\n", text_of(u.first),
                      text_of(u.second),
                      u.arithmetic ? text_of(Storage{u.arithmetic->format, u.arithmetic->rounding}) : "fp32",
                      u.rounded_constants ? ", constants rounded" : "");
  if (!policy.loss_scaling) text += "loss scaling: none\n";
  else if (const LossScalerSettings& s = *policy.loss_scaling; s.dynamic)
    text += fmt::format(
        "loss scaling: dynamic, from {:g}, times {:g} after {} steps without Inf or NaN, times {:g} with one\n",
        s.initial_scale, s.growth_factor, s.growth_interval, s.backoff_factor);
  else
    text += fmt::format("loss scaling: {:g}{}\n", s.initial_scale,
                        s.skip ? ", steps with Inf or NaN are left out" : "");
  for (const Policy::Rule& rule : policy.rules)
    if (!rule.layers.empty()) text += fmt::format("rule for layers: {}\n", rule.json.dump());
  return text;
}

}  // namespace

void add_policies_command(CLI::App& app, int&) {
  CLI::App* command = app.add_subcommand("policies",
                                         "precision policies of trainings, and what one says of each operator");
  struct Arguments {
    std::string name;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  add_text_option(*command, "NAME", arguments->name,
                  "a policy's name, or a file that ends in .json; without it, the list of policies",
                  "a policy's name, or a file that ends in .json");
  command->add_flag("--json", arguments->json,
                    "as JSON; save it to a file and change it to get a policy of your own (--set policies=FILE.json)");
  command->callback([arguments] {
    if (!arguments->name.empty()) {
      const Policy policy = find_policy(arguments->name);
      return write_output(arguments->json ? pretty(policy.json) : described(policy));
    }
    if (!arguments->json) return write_output(list());
    Json all = Json::array();
    for (const Policy& policy : policies()) all.push_back(policy.json);
    write_output(pretty(all));
  });
}

}  // namespace halfulp::cli
