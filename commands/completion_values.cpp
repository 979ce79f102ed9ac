// The values of options, by the name of the option or of its kind of value.
#include <halfulp/commands/completion.hpp>

#include <halfulp/commands/tables.hpp>
#include <halfulp/commands/manual.hpp>

#include <halfulp/support/spelling.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/cast/profile.hpp>
#include <halfulp/emulation/unit/unit.hpp>
#include <halfulp/data/distributions.hpp>
#include <halfulp/experiments/checkpoint/checkpoint.hpp>
#include <halfulp/report/experiment.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/training/networks.hpp>
#include <halfulp/training/policy.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/evidence/devices.hpp>
#include <halfulp/evidence/recording.hpp>
#include <halfulp/evidence/verify/reference.hpp>

#include <CLI/CLI.hpp>

#include <stdexcept>

namespace halfulp::cli {
namespace {

Completions free_text(const ValueContext&) { return {}; }
Completions files(const ValueContext&) { return {{}, true}; }

template <class Table>
void add_titled(Completions& all, const Table& table) {
  for (const auto& row : table) all.words.push_back({std::string(row.name), std::string(row.title)});
}
template <class Table>
Completions named(const Table& table) {
  Completions all;
  for (const auto& row : table) all.words.push_back({std::string(row.name), ""});
  return all;
}
Completions modes(const ValueContext&) { return named(rounding_modes); }
Completions overflow(const ValueContext&) { return named(overflow_rules); }
Completions tininess(const ValueContext&) { return named(tininess_rules); }
Completions nans(const ValueContext&) { return named(nan_rules); }
Completions int_overflow(const ValueContext&) { return named(int_overflow_rules); }
Completions variants(const ValueContext&) { return named(stochastic_variants); }
Completions distributions(const ValueContext&) { return named(halfulp::shapes); }
Completions operation_names(const ValueContext&) { return named(operations); }

Completions scale_rule_names(const ValueContext&) {
  Completions all;
  for (const auto& [name, rule] : scale_rules) all.words.push_back({std::string(name), ""});
  return all;
}

/// What a parameter of `halfulp quantize` for checkpoints accepts.
Completions accepted_of(std::string_view parameter) {
  Completions all;
  for (const Parameter& p : checkpoint_quantized_experiment().parameters())
    if (p.name == parameter)
      for (const std::string& word : p.accepted) all.words.push_back({word, ""});
  return all;
}
Completions layouts_of_writers(const ValueContext&) { return accepted_of("layout"); }
Completions dtypes(const ValueContext&) { return accepted_of("dtype"); }

Completions modes_or_all(const ValueContext& context) {
  Completions all = modes(context);
  all.words.push_back({"all", "every deterministic one"});
  return all;
}

Completions formats(const ValueContext&) {
  Completions all;
  add_titled(all, catalogue());
  return all;
}

Completions formats_and_blocks(const ValueContext& context) {
  Completions all = formats(context);
  add_titled(all, block_catalogue());
  return all;
}

Completions number_types(const ValueContext& context) {
  Completions all = formats(context);
  for (const char* name : {"i32", "i64", "u32", "u64"}) all.words.push_back({name, "integer"});
  return all;
}

Completions experiment_names(const ValueContext&) {
  Completions all;
  for (const Experiment& experiment : experiments())
    all.words.push_back({std::string(experiment.name), std::string(experiment.question)});
  return all;
}

Completions experiments_or_all(const ValueContext& context) {
  Completions all = experiment_names(context);
  all.words.push_back({"all", "one after the other"});
  return all;
}

Completions units(const ValueContext&) {
  Completions all;
  for (const MatrixUnit& unit : matrix_units()) all.words.push_back({unit.name, unit.instruction});
  return all;
}

Completions profile_names(const ValueContext&) { return named(profiles()); }

Completions policies(const ValueContext&) {
  Completions all{{}, true};  // or a file
  add_titled(all, training::policies());
  return all;
}

/// Completes the last item of a list.
Completions listed(const ValueContext& context, Completions items) {
  const std::string before(context.begun.substr(0, context.begun.rfind(',') + 1));  // npos + 1 is 0
  for (Candidate& item : items.words) item.word = before + item.word;
  return items;
}
Completions policy_list(const ValueContext& context) { return listed(context, policies(context)); }
Completions format_list(const ValueContext& context) { return listed(context, formats_and_blocks(context)); }

Completions network_list(const ValueContext& context) {
  Completions all;
  for (const training::NetworkInfo& info : training::networks())
    all.words.push_back({std::string(info.name), std::string(info.summary)});
  return listed(context, std::move(all));
}

void add_recordings(Completions& all) {
  for (const std::string& name : recording::recording_names()) all.words.push_back({"recorded:" + name, ""});
}

Completions references(const ValueContext&) {
  Completions all;
  for (const Device* reference : verify::reference_devices()) all.words.push_back({std::string(reference->name()), ""});
  add_recordings(all);
  return all;
}

Completions backend_names(const ValueContext&) {
  Completions all;
  for (const Device* device : devices()) all.words.push_back({std::string(device->name()), ""});
  add_recordings(all);
  return all;
}

Completions probed(const ValueContext& context) {
  Completions all = backend_names(context);
  for (const MatrixUnit& unit : matrix_units()) all.words.push_back({"emulated:" + unit.name, ""});
  return all;
}

Completions backend_list(const ValueContext& context) { return listed(context, backend_names(context)); }

/// The operands of witness: units, and the beginnings of the other configurations.
Completions configurations(const ValueContext& context) {
  Completions all = units(context);
  for (const OperationInfo& operation : operations) all.words.push_back({std::string(operation.name) + ":", ""});
  for (const Profile& profile : profiles()) all.words.push_back({std::string(profile.name) + ":", ""});
  for (const char* kind : {"dot:", "sum:"}) all.words.push_back({kind, ""});
  return all;
}

/// The values of a parameter, each after "NAME=".
Completions parameter_values(const Parameter& parameter, const ValueContext& context) {
  const std::string before = parameter.name + "=";
  const ValueContext value{context.root, context.command, context.arguments, context.begun.substr(before.size())};
  Completions all;
  switch (parameter.type) {
    case ParameterType::formats: all = listed(value, formats(value)); break;
    case ParameterType::roundings: all = listed(value, modes(value)); break;
    case ParameterType::boolean: all.words = {{"true"}, {"false"}}; break;
    case ParameterType::path: all.files = true; break;
    case ParameterType::choice:
    case ParameterType::choices:
      for (const std::string& word : parameter.accepted) all.words.push_back({word});
      if (parameter.type == ParameterType::choices) all = listed(value, std::move(all));
      break;
    default:
      if (parameter.name == "policies") all = listed(value, policies(value));
      if (parameter.name == "units") all = listed(value, units(value));
  }
  for (Candidate& candidate : all.words) candidate.word = before + candidate.word;
  return all;
}

/// NAME=VALUE for the experiment on the command line, or for all experiments.
Completions settings(const ValueContext& context) {
  const std::string wanted = context.arguments.empty() ? "all" : context.arguments.front();
  const std::size_t equals = context.begun.find('=');
  Completions all;
  for (const Experiment& experiment : experiments()) {
    if (wanted != "all" && wanted != experiment.name) continue;
    for (const Parameter& parameter : experiment.parameters()) {
      if (equals != std::string_view::npos && parameter.name == context.begun.substr(0, equals))
        return parameter_values(parameter, context);
      const auto same = [&](const Candidate& candidate) { return candidate.word == parameter.name + "="; };
      if (equals == std::string_view::npos && std::none_of(all.words.begin(), all.words.end(), same))
        all.words.push_back({parameter.name + "=", parameter.help});
    }
  }
  return all;
}

/// A member of a report, which may be broken.
std::string text_in(const Json& object, const char* member) {
  const auto at = object.is_object() ? object.find(member) : object.end();
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

/// The tables of the named report; none where the file cannot be read or is not a report.
Json tables_of(const ValueContext& context) {
  try {
    return context.arguments.empty() || context.arguments.front() == "-"
               ? Json::object()
               : tables_with_claims(read_json(context.arguments.front()));
  } catch (const std::exception&) { return Json::object(); }
}

Completions tables(const ValueContext& context) {
  Completions all;
  const Json found = tables_of(context);
  for (const auto& [name, table] : found.items()) all.words.push_back({name, text_in(table, "title")});
  return all;
}

/// The table that the command line names; null where it does not exist or is not a table.
Json table_of(const ValueContext& context) {
  const Json tables = tables_of(context);
  if (context.arguments.size() < 2 || !tables.contains(context.arguments[1])) return {};
  try {
    Json table = tables[context.arguments[1]];
    for (const Json& row : table.at("rows"))
      if (row.size() != table.at("columns").size()) return {};
    return table;
  } catch (const std::exception&) {  // a broken report
    return {};
  }
}

Completions columns(const ValueContext& context) {
  Completions all;
  const Json table = table_of(context);
  if (!table.is_null())
    for (const Json& column : table["columns"])
      all.words.push_back({text_in(column, "name"), text_in(column, "description")});
  return all;
}
Completions column_list(const ValueContext& context) { return listed(context, columns(context)); }
/// COLUMN=, then the contents of the column's cells.
Completions conditions(const ValueContext& context) {
  Completions all = columns(context);
  const std::size_t equals = context.begun.find('=');
  if (equals == std::string_view::npos) {
    for (Candidate& candidate : all.words) candidate.word += "=";
    return all;
  }
  const auto column = std::find_if(all.words.begin(), all.words.end(),
                                   [&](const Candidate& c) { return c.word == context.begun.substr(0, equals); });
  const std::ptrdiff_t index = column - all.words.begin();
  Completions values;
  if (column == all.words.end()) return values;
  const Json table = table_of(context);
  for (const Json& row : table["rows"]) {
    const Json& cell = row.at(static_cast<std::size_t>(index));
    if (!cell.is_string() && !cell.is_number_integer() && !cell.is_boolean()) continue;  // as a table shows them
    const std::string word = column->word + "=" + (cell.is_string() ? cell.get<std::string>() : cell.dump());
    if (std::none_of(values.words.begin(), values.words.end(), [&](const Candidate& c) { return c.word == word; }))
      values.words.push_back({word, ""});
  }
  return values;
}

Completions shells(const ValueContext&) {
  Completions all;
  for (const CompletionScript& script : completion_scripts) all.words.push_back({std::string(script.shell), ""});
  return all;
}

Completions pages(const ValueContext& context) {
  Completions all = experiment_names(context);
  for (const CLI::App* command : context.root.get_subcommands([](const CLI::App*) { return true; }))
    all.words.push_back({command->get_name(), command->get_description()});
  return all;
}

/// Looks for "COMMAND NAME" first, then for the name of the option or argument, then for the name of its value.
constexpr struct {
  std::string_view key;
  Completions (*values)(const ValueContext&);
} kinds[] = {
    {"formats NAME", formats_and_blocks},
    {"quantize --format", formats_and_blocks},
    {"eval --format", number_types},
    {"eval --to", number_types},
    {"eval OP", operation_names},
    {"verify OP", operation_names},
    {"verify --round", modes_or_all},
    {"trials experiment", experiment_names},
    {"trial experiment", experiment_names},
    {"KEY", free_text},
    {"I/N|auto", free_text},
    {"KIND", free_text},
    {"policies NAME", policies},
    {"N[,N]", network_list},
    {"P[,P]", policy_list},
    {"F[,F]", format_list},
    {"LOSS|BYTES", free_text},
    {"BYTES|SHARE", free_text},
    {"DB", free_text},
    {"GLOB[,GLOB]", free_text},
    {"ROLE=GLOB[;...]", free_text},
    {"FOLDER", files},
    {"profiles NAME", profile_names},
    {"diff-profiles A", profile_names},
    {"diff-profiles B", profile_names},
    {"witness A", configurations},
    {"witness B", configurations},
    {"probe --backend", probed},
    {"units WORD", units},
    {"show TABLE", tables},
    {"completion SHELL", shells},
    {"man NAME", pages},
    {"quantize --rule", scale_rule_names},
    {"DISTRIBUTION", distributions},
    {"SIZE[,SIZE]", free_text},
    {"EXPONENT", free_text},
    {"BINADES", free_text},
    {"--overflow", overflow},
    {"--tininess", tininess},
    {"--nan", nans},
    {"--int-overflow", int_overflow},
    {"FORMAT", formats},
    {"MODE", modes},
    {"VARIANT", variants},
    {"EXPERIMENT", experiments_or_all},
    {"BACKEND", backend_names},
    {"B[,B]", backend_list},
    {"UNIT", units},
    {"MODEL", units},
    {"REFERENCE", references},
    {"KEY=VALUE", settings},
    {"COLUMN=VALUE", conditions},
    {"NAME[,NAME...]", column_list},
    {"FILE", files},
    {"FILE.npy", files},
    {"FILE.json", files},
    {"FILE|FOLDER", files},
    {"FILE|DIR", files},
    {"CHECKPOINT", files},
    {"WRITER", layouts_of_writers},
    {"DTYPE", dtypes},
    {"FILE|DIR|-", files},
    {"DIR", files},
    {"REPORT", files},
    {"REPORT...", files},
    {"N", free_text},
    {"VALUE", free_text},
    {"VALUE,...", free_text},
    {"OPERAND", free_text},
    {"WORD", free_text},
    {"TEXT", free_text},
    {"PROGRAM", files},
};

}  // namespace

Completions values_of(const CLI::Option& option, const ValueContext& context) {
  const std::string name = option.get_positional() ? option.get_single_name() : "--" + option.get_lnames().front();
  for (const std::string& key : {context.command.get_name() + " " + name, name, value_name(option)})
    for (const auto& [known, values] : kinds)
      if (known == key) return values(context);
  throw std::logic_error("no completion for " + context.command.get_name() + " " + name +
                         ": completion_values.cpp does not know its kind of value, " + value_name(option));
}

}  // namespace halfulp::cli
