// `halfulp ledger`: who agrees with whom, of files that `halfulp verify --ledger` wrote.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/commands/verification.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <compare>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace halfulp::cli {
namespace {

namespace fs = std::filesystem;

/// An entry, as far as it says who agrees with whom.
struct Verified {
  std::string operation, from, to, setting, reference, asked, digest, date;  ///< asked: "oracle", "x86", "cuda"
  std::string kind;     ///< of the inputs: all, pairs, or what is left out here
  std::string addends;  ///< of pairs
  std::uint64_t inputs = 0, compared = 0, differing = 0;
};

/// Who was asked, by name: "rationals", a GPU, the CPU of a machine.
std::string name_of_reference(const Json& entry) {
  const Json& against = entry.at("against");
  if (against.at("reference") == "oracle") return "rationals";
  if (against.contains("device")) {
    const auto device = against["device"].get<std::string>();
    return device.substr(0, device.find(','));
  }
  return entry.at("machine").get<std::string>();
}

/// Up to 2^48, as many as any device goes through.
std::uint64_t count_of(const Json& json) {
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > most_triples) throw std::invalid_argument("no count");
  return json.get<std::uint64_t>();
}

Verified verified_of(const Json& entry) {
  Verified v;
  const Json& task = entry.at("task");
  for (const auto& [name, text] : {std::pair("operation", &v.operation), {"from", &v.from}, {"to", &v.to}})
    *text = task.at(name).get<std::string>();
  v.setting = task.at("round").get<std::string>();  // and what is not the usual way
  if (task.at("overflow") != "ieee") v.setting += ", overflow " + task["overflow"].get<std::string>();
  if (task.value("flush_inputs", false)) v.setting += ", subnormal operands zero";
  if (task.value("tininess", "after") != "after") v.setting += ", tininess " + task["tininess"].get<std::string>();
  const Json& inputs = entry.at("inputs");
  v.kind = inputs.at("kind").get<std::string>();
  if (v.kind != "recorded") (void)operands_from_json(task_from_json(task), inputs);  // which refuses what cannot be
  v.inputs = count_of(inputs.at("count"));
  if (v.kind == "pairs") v.addends = inputs["addends"].dump();
  v.reference = name_of_reference(entry), v.asked = entry["against"]["reference"].get<std::string>();
  v.digest = entry.at("digest").get<std::string>(), v.date = entry.at("date").get<std::string>();
  v.compared = count_of(entry.at("compared")), v.differing = count_of(entry.at("differing"));
  const auto is_hex = [](unsigned char c) { return std::isxdigit(c) != 0; };
  if (v.compared > v.inputs || v.differing > v.compared || v.digest.size() != 32 ||
      !std::all_of(v.digest.begin(), v.digest.end(), is_hex))
    throw std::invalid_argument("numbers that cannot be");
  return v;
}

/// Ledger files, and those in folders.
std::vector<std::string> ledgers(const std::vector<std::string>& places) {
  std::vector<std::string> files;
  for (const std::string& place : places) {
    std::error_code error;
    if (!fs::exists(place, error))
      refuse_file(place, "no such file; accepted: a ledger of halfulp verify, or a folder");
    if (!fs::is_directory(place, error)) {
      files.push_back(place);
      continue;
    }
    const std::size_t before = files.size();
    for (fs::directory_iterator at(place, error), end; !error && at != end; at.increment(error))
      if (at->path().extension() == ".json" && at->is_regular_file(error)) files.push_back(at->path());
    if (error) refuse_file(place, "cannot be read: " + error.message());
    if (files.size() == before) refuse_file(place, "a folder without .json files; accepted: one with ledgers");
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

std::vector<Verified> entries_of(const std::vector<std::string>& files) {
  std::vector<Verified> all;
  std::set<fs::path> seen;  // a file that is named twice counts once
  for (const std::string& file : files) {
    std::error_code error;
    if (!fs::exists(file, error)) refuse_file(file, "cannot be read");
    if (!seen.insert(fs::weakly_canonical(file, error)).second) continue;
    const Json entries = read_ledger(file);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      try {
        all.push_back(verified_of(entries[i]));
      } catch (const std::exception&) {
        refuse_file(file, fmt::format("entries[{}] is no entry that halfulp verify --ledger wrote", i));
      }
    }
  }
  return all;
}

/// One operation over all its inputs, by one reference.
struct Row {
  std::set<std::string> settings;
  std::string asked, last;
};
/// An operation and the inputs that were gone through.
struct Operation {
  std::string name, from, to;
  std::uint64_t inputs = 0;
  std::string kind, addends;  ///< as in Verified
  auto operator<=>(const Operation&) const = default;
};

/// What all entries say together. Samples are only counted: a digest of one says less than this summary.
struct Summary {
  std::map<Operation, std::map<std::string, Row>> operations;
  std::map<std::pair<Operation, std::string>, std::vector<const Verified*>> settings;
  std::uint64_t compared = 0, differing = 0, samples = 0, several = 0;
  std::vector<std::string> contradictions;

  explicit Summary(const std::vector<Verified>& all) {
    for (const Verified& v : all) {
      if (v.kind != "all" && v.kind != "pairs") {
        ++samples;
        continue;
      }
      const Operation operation{v.operation, v.from, v.to, v.inputs, v.kind, v.addends};
      Row& row = operations[operation][v.reference];
      row.settings.insert(v.setting);
      row.asked = v.asked, row.last = std::max(row.last, v.date);
      settings[{operation, v.setting}].push_back(&v);
      compared += v.compared, differing += v.differing;
    }
    for (const auto& [place, verified] : settings) {
      std::set<std::string> asked;
      std::map<std::string, std::string> digests;
      for (const Verified* v : verified) asked.insert(v->reference), digests.emplace(v->digest, v->reference);
      several += asked.size() > 1;
      if (digests.size() < 2) continue;
      std::string line = fmt::format("{} {} {} {}: the digests differ:", place.first.name, place.first.from,
                                     place.first.to, place.second);
      for (const auto& [digest, reference] : digests) line += fmt::format(" {} ({})", digest, reference);
      contradictions.push_back(std::move(line));
    }
  }
};

std::string inputs_text(const Operation& operation) {
  const std::uint64_t count = operation.inputs;
  return (std::has_single_bit(count) ? fmt::format("2^{}", std::bit_width(count) - 1) : fmt::format("{}", count)) +
         (operation.kind == "pairs" ? "*" : "");
}

std::string text_of(const Summary& s) {
  std::vector<std::vector<std::string>> rows{{"operation", "from", "to", "inputs", "settings", "reference", "last"}};
  for (const auto& [operation, references] : s.operations)
    for (const auto& [reference, row] : references)
      rows.push_back({clean(operation.name), clean(operation.from), clean(operation.to), inputs_text(operation),
                      fmt::format("{}", row.settings.size()), clean(reference), clean(row.last.substr(0, 10))});
  std::string text = s.operations.empty() ? "" : aligned(rows, 0) + "\n";
  text += fmt::format(
      "{} setting{} of {} operation{}: of {} cases {} differ\n"
      "{} were compared with several references: the digests of {} setting{} differ{}\n",
      s.settings.size(), s.settings.size() == 1 ? "" : "s", s.operations.size(), s.operations.size() == 1 ? "" : "s",
      fmt::group_digits(s.compared), s.differing, s.several, s.contradictions.size(),
      s.contradictions.size() == 1 ? "" : "s", s.contradictions.size() == 1 ? "s" : "");
  if (std::any_of(s.operations.begin(), s.operations.end(), [](const auto& row) { return row.first.kind == "pairs"; }))
    text += "* every pair of the first two operands with some third ones; all others are all inputs\n";
  if (s.samples) text += fmt::format("{} entr{} of a sample left out\n", s.samples, s.samples == 1 ? "y" : "ies");
  for (const std::string& line : s.contradictions) text += clean(line) + "\n";
  return text;
}

Json json_of(const Summary& s) {
  Json json{{"operations", Json::array()},       {"settings", s.settings.size()}, {"compared", s.compared},
            {"differing", s.differing},          {"several", s.several},          {"samples", s.samples},
            {"contradictions", s.contradictions}};
  for (const auto& [operation, references] : s.operations) {
    std::set<std::string> settings;
    Json asked = Json::array();
    for (const auto& [reference, row] : references) {
      settings.insert(row.settings.begin(), row.settings.end());
      asked.push_back(
          {{"reference", reference}, {"asked", row.asked}, {"settings", row.settings.size()}, {"last", row.last}});
    }
    json["operations"].push_back({{"operation", operation.name},
                                  {"from", operation.from},
                                  {"to", operation.to},
                                  {"inputs", operation.inputs},
                                  {"kind", operation.kind},
                                  {"addends", operation.addends.empty() ? Json() : Json::parse(operation.addends)},
                                  {"settings", settings.size()},
                                  {"references", std::move(asked)}});
  }
  return json;
}

}  // namespace

void add_ledger_command(CLI::App& app, int& status) {
  struct Arguments {
    std::vector<std::string> places;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* ledger = app.add_subcommand("ledger", "who agrees with whom, of what verify --ledger kept");
  ledger->add_option("ledger", arguments->places, "ledgers of halfulp verify, and folders of them")
      ->type_name("FILE|FOLDER")
      ->option_text("FILE|FOLDER...")
      ->required();
  ledger->add_flag("--json", arguments->json, "as JSON");
  ledger->footer(
      "A setting is a rounding mode with its ways of overflow, flushing and tininess. Equal digests over all inputs "
      "are "
      "equal results.\nExit status: 0 no digests differ, 1 some do, 2 bad usage.");
  ledger->callback([arguments, &status] {
    const std::vector<Verified> entries = entries_of(ledgers(arguments->places));
    const Summary summary(entries);
    write_output(arguments->json ? pretty(json_of(summary)) : text_of(summary));
    status = summary.contradictions.empty() ? exit_status::done : exit_status::failed;
  });
}

}  // namespace halfulp::cli
