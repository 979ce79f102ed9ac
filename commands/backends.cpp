#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/terminal.hpp>

#include <halfulp/support/json.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/evidence/devices.hpp>
#include <halfulp/evidence/recording.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>

namespace halfulp::cli {
namespace {

using Names = std::vector<std::string>;

/// Every end of a conversion: the catalogue, then the integers.
Names number_types() {
  Names names;
  for (const NamedFormat& row : catalogue()) names.emplace_back(row.name);
  for (const char* integer : {"i32", "i64", "u32", "u64"}) names.emplace_back(integer);
  return names;
}

/// What one backend does and why it does not do the rest, over every operation, catalogue format and rounding mode with
/// the other rules at their defaults (integer overflow as on x86, which is what devices do).
struct Abilities {
  struct Group {
    Operation operation;
    Names modes;
    std::string route;
    std::map<std::string, std::set<std::string>> types;  ///< of operands -> of results; empty ones outside conversions
  };
  struct Refusal {
    std::string reason, example;
    std::uint64_t count = 0;
  };
  std::vector<Group> groups;
  std::vector<Refusal> refusals;
};

Abilities abilities_of(const Device& device) {
  Abilities result;
  const auto ask = [&](Operation operation, const std::string& from, const std::string& to) {
    std::vector<std::pair<std::string, Names>> routes;  // route -> modes
    for (const auto& mode : rounding_modes) {
      Task task{operation, parse_number_type(from), parse_number_type(to), {}};
      task.rounding.mode = mode.value;
      task.rounding.int_overflow = IntOverflow::x86;
      Support support = device.supports(task);
      if (!support.yes && std::holds_alternative<IntegerType>(task.to)) {  // GPUs saturate
        task.rounding.int_overflow = IntOverflow::saturate;
        if (const Support other = device.supports(task); other.yes) support = other;
      }
      if (support.yes) {
        auto at = std::find_if(routes.begin(), routes.end(), [&](const auto& r) { return r.first == support.route; });
        if (at == routes.end()) at = routes.insert(at, {support.route, {}});
        at->second.emplace_back(mode.name);
      } else if (refusal(task).empty()) {  // what makes no sense anywhere is no shortcoming
        auto& all = result.refusals;
        auto at = std::find_if(all.begin(), all.end(), [&](const auto& r) { return r.reason == support.reason; });
        if (at == all.end()) at = all.insert(at, {support.reason, task.description(), 0});
        ++at->count;
      }
    }
    for (const auto& [route, modes] : routes) {
      auto& all = result.groups;
      auto at = std::find_if(all.begin(), all.end(), [&, &route = route, &modes = modes](const Abilities::Group& g) {
        return g.operation == operation && g.route == route && g.modes == modes;
      });
      if (at == all.end()) at = all.insert(at, {operation, modes, route, {}});
      at->types[from].insert(operation == Operation::convert ? to : "");
    }
  };
  const Names types = number_types();
  for (const OperationInfo& row : operations)
    for (const std::string& from : types)
      for (const std::string& to : types)
        if (row.operation == Operation::convert ? from != to : from == to) ask(row.operation, from, to);
  std::stable_sort(result.refusals.begin(), result.refusals.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  return result;
}

std::string joined(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

/// What a backend does of one operation: "17 x 4" types (of conversions: pairs of types) times rounding modes, "9 in 3
/// x 4" where not every mode is there for every type, "-" for nothing.
std::string extent(const Abilities& abilities, Operation operation) {
  std::set<std::pair<std::string, std::string>> types, tasks;
  std::set<std::string> modes;
  for (const auto& group : abilities.groups) {
    if (group.operation != operation) continue;
    for (const auto& [from, targets] : group.types)
      for (const std::string& to : targets) {
        types.insert({from, to});
        for (const std::string& mode : group.modes) tasks.insert({from + " " + to, mode});
      }
    modes.insert(group.modes.begin(), group.modes.end());
  }
  if (tasks.empty()) return "-";
  const std::string whole = fmt::format("{} x {}", types.size(), modes.size());
  return tasks.size() == types.size() * modes.size() ? whole : fmt::format("{} in {}", tasks.size(), whole);
}

/// Operations by backends: how much each one computes.
std::string matrix_text() {
  std::string out;
  std::vector<std::vector<std::string>> rows{{"operation"}};
  std::vector<Abilities> here;
  for (const Device* device : devices()) {
    const Support support = device->available();
    out += wrapped(fmt::format("{}: {}{}", device->name(), device->description(),
                               support.yes ? "" : "; not here: " + support.reason),
                   0);
    here.push_back(support.yes ? abilities_of(*device) : Abilities{});
    rows.front().emplace_back(device->name());
  }
  // Operations that differ only in their name share a row.
  std::vector<std::pair<Names, std::string>> extents;  // of each backend -> names of operations
  for (const OperationInfo& row : operations) {
    Names cells;
    for (const Abilities& abilities : here) cells.push_back(extent(abilities, row.operation));
    auto at = std::find_if(extents.begin(), extents.end(), [&](const auto& e) { return e.first == cells; });
    if (at == extents.end()) at = extents.insert(at, {std::move(cells), ""});
    at->second += (at->second.empty() ? "" : " ") + std::string(row.name);
  }
  for (const auto& [cells, names] : extents) {
    rows.push_back({names});
    rows.back().insert(rows.back().end(), cells.begin(), cells.end());
  }
  const Names recorded = recording::recording_names();
  if (!recorded.empty())
    out += wrapped(fmt::format("recorded:NAME: what devices answered earlier; NAME is {}, or the folder of a recording",
                               fmt::join(recorded, ", ")),
                   0);
  return out + "\n" + aligned(rows, 2) + "\n" +
         wrapped(fmt::format("m x n: m formats, or pairs of types to convert, times n rounding modes; there are {} "
                             "formats, {} integer types and "
                             "{} modes. Stochastic rounding cannot be compared: no backend shares our random bits.",
                             catalogue().size(), number_types().size() - catalogue().size(), rounding_modes.size()),
                 0) +
         "halfulp backends --routes names each format's instructions, or says why none.\n";
}

/// "every mode", "every mode but stochastic", or the names.
std::string mode_text(const Names& modes) {
  std::string missing;
  int count = 0;
  for (const auto& row : rounding_modes)
    if (std::find(modes.begin(), modes.end(), row.name) == modes.end()) {
      missing += (count++ ? ", " : "") + std::string(row.name);
    }
  if (count == 0) return "every mode";
  return count <= 2 ? "every mode but " + missing : joined(modes);
}

Names in_order(const std::set<std::string>& wanted) {
  Names names;
  for (const std::string& name : number_types())
    if (wanted.count(name) != 0) names.push_back(name);
  return names;
}

/// "fp16 bf16", with "every format" for the whole catalogue.
std::string set_text(const std::set<std::string>& wanted) {
  const Names all = number_types(), formats(all.begin(), all.end() - 4);
  Names names = in_order(wanted), with_e8m0 = in_order([&] {
                                    auto more = wanted;
                                    more.insert("e8m0");
                                    return more;
                                  }());
  if (names == all) return "every format and integer type";
  if (names == formats) return "every format";
  if (with_e8m0 == formats) return "every format but e8m0";
  return joined(names);
}

/// "fp32 fp64 to fp16", "e4m3 e5m2 to each other and to fp16 bf16".
std::string conversion_text(const std::map<std::string, std::set<std::string>>& targets) {
  // Types with the same targets share a line; so do types that differ only in not being converted to themselves.
  std::map<std::set<std::string>, std::set<std::string>> same, each_other;
  for (const auto& [from, to] : targets) same[to].insert(from);
  std::string text;
  const auto add = [&](const std::string& line) { text += (text.empty() ? "" : "; ") + line; };
  for (const auto& [to, from] : same) {
    if (from.size() > 1) {
      add(set_text(from) + " to " + set_text(to));
    } else {
      auto with_itself = to;
      with_itself.insert(*from.begin());
      each_other[with_itself].insert(*from.begin());
    }
  }
  for (const auto& [all, from] : each_other) {
    std::set<std::string> others;
    std::set_difference(all.begin(), all.end(), from.begin(), from.end(), std::inserter(others, others.end()));
    add(set_text(from) + " to " +
        (from.size() > 1 ? "each other" + std::string(others.empty() ? "" : " and to ") : "") + set_text(others));
  }
  return text;
}

std::string type_text(const Abilities::Group& group) {
  if (group.operation == Operation::convert) return conversion_text(group.types);
  std::set<std::string> names;
  for (const auto& row : group.types) names.insert(row.first);
  return set_text(names);
}

std::string text_of(const Device& device) {
  const Support here = device.available();
  std::string out = fmt::format("{}: {}\n", device.name(), device.description());
  if (!here.yes) return out + wrapped("not here: " + here.reason, 2, 100);
  const Abilities abilities = abilities_of(device);
  // Operations that differ only in their name share an entry.
  std::vector<std::pair<std::string, std::string>> entries;  // what -> names of operations
  for (const auto& group : abilities.groups) {
    const std::string what = wrapped(type_text(group), 6, 100) + wrapped(mode_text(group.modes), 6, 100) +
                             wrapped("route: " + group.route, 6, 100);
    const std::string name(info(group.operation).name);
    const auto at = std::find_if(entries.begin(), entries.end(),
                                 [&](const auto& entry) { return entry.first == what; });
    if (at == entries.end()) entries.emplace_back(what, name);
    else at->second += " " + name;
  }
  for (const auto& [what, names] : entries) out += "  " + names + "\n" + what;
  if (!abilities.refusals.empty()) out += "  not supported\n";
  for (const auto& refusal : abilities.refusals)
    out += wrapped(fmt::format("{} ({}{})", refusal.reason, refusal.example,
                               refusal.count == 1 ? "" : fmt::format(" and {} more", refusal.count - 1)),
                   6, 100);
  return out;
}

Json json_of(const Device& device) {
  const Support here = device.available();
  Json json{{"name", device.name()},
            {"description", device.description()},
            {"independence", device.independence()},
            {"available", here.yes},
            {"reason", here.yes ? Json(nullptr) : Json(here.reason)},
            {"supports", Json::array()},
            {"refuses", Json::array()}};
  if (!here.yes) return json;
  const Abilities abilities = abilities_of(device);
  for (const auto& group : abilities.groups) {
    Json types = Json::array();
    for (const auto& [from, targets] : group.types)
      for (const std::string& to : targets) types.push_back(to.empty() ? from : from + " to " + to);
    json["supports"].push_back({{"operation", info(group.operation).name},
                                {"types", types},
                                {"roundings", group.modes},
                                {"route", group.route}});
  }
  for (const auto& refusal : abilities.refusals)
    json["refuses"].push_back({{"reason", refusal.reason}, {"example", refusal.example}, {"tasks", refusal.count}});
  return json;
}

}  // namespace

void add_backends_command(CLI::App& app, int&) {
  struct Options {
    bool json = false, routes = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("backends", "which silicon is here, and what each backend supports");
  command->add_flag("--routes", options->routes,
                    "for every format: which instructions compute it, or why it is not supported");
  command->add_flag("--json", options->json, "everything, as JSON");
  command->callback([options] {
    if (!options->json && !options->routes) return write_output(matrix_text());
    std::string text;
    Json all = Json::array();
    for (const Device* device : devices()) {
      if (options->json) all.push_back(json_of(*device));
      else text += (text.empty() ? "" : "\n") + text_of(*device);
    }
    write_output(options->json ? pretty(all) + "\n" : text);
  });
}

}  // namespace halfulp::cli
