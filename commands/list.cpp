#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/experiment.hpp>
#include <halfulp/support/json.hpp>

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

namespace halfulp::cli {
namespace {

Json described(const Parameter& parameter) {
  Json json = Json::object();
  json["name"] = parameter.name;
  json["type"] = type_name(parameter.type);
  json["default"] = parameter.default_value;
  json["accepted"] = accepted_values(parameter);
  json["help"] = parameter.help;
  return json;
}

std::string as_json() {
  Json list = Json::array();
  for (const Experiment& experiment : experiments()) {
    Json entry = Json::object();
    entry["name"] = experiment.name;
    entry["title"] = experiment.title;
    entry["question"] = experiment.question;
    entry["parameters"] = Json::array();
    for (const Parameter& parameter : experiment.parameters()) entry["parameters"].push_back(described(parameter));
    list.push_back(std::move(entry));
  }
  return pretty(list);
}

std::string as_text() {
  std::vector<std::vector<std::string>> rows;
  for (const Experiment& experiment : experiments())
    rows.push_back({std::string(experiment.name), std::string(experiment.question)});
  return aligned(rows, 0);
}

}  // namespace

void add_list_command(CLI::App& app, int&) {
  CLI::App* list = app.add_subcommand("list", "the experiments, one line each");
  const auto json = std::make_shared<bool>(false);
  list->add_flag("--json", *json, "names, titles, questions and parameters as JSON");
  list->callback([json] { write_output(*json ? as_json() : as_text()); });
}

}  // namespace halfulp::cli
