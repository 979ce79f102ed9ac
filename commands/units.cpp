#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/terminal.hpp>

#include <halfulp/emulation/text.hpp>
#include <halfulp/emulation/unit/unit.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/hardware/unit_file.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace halfulp::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using Units = std::vector<const MatrixUnit*>;

std::string shape(const MatrixUnit& u) { return fmt::format("{}x{}x{}", u.m, u.n, u.k); }

std::string least(const FusedSum& sum) {
  return sum.least_exponent == FusedSum::no_least_exponent ? "none" : fmt::format("{}", sum.least_exponent);
}

/// The columns L, F, e0 and out; empty where the rule itself says it.
std::vector<std::string> sum_columns(const MatrixUnit& u) {
  if (u.rule->takes == RuleTakes::length) return {fmt::format("{}", u.sum.length), "", "", ""};
  return {fmt::format("{}", u.sum.length), fmt::format("{}", u.sum.alignment_bits), least(u.sum),
          fmt::format("{} {}", format_name(u.sum.kept), name_of(u.sum.rounding))};
}

/// Numbers texts that occur in many rows, and gives a legend.
class Notes {
 public:
  std::string number(const std::string& text) {
    const auto at = std::find(texts_.begin(), texts_.end(), text) - texts_.begin();
    if (at == static_cast<std::ptrdiff_t>(texts_.size())) texts_.push_back(text);
    return fmt::format("[{}]", at + 1);
  }
  std::string legend() const {
    std::string out;
    for (std::size_t i = 0; i < texts_.size(); ++i)
      out += fmt::format("  {:<4} {}\n", fmt::format("[{}]", i + 1), texts_[i]);
    return out;
  }

 private:
  std::vector<std::string> texts_;
};

/// The part of a unit's name after its inputs is the accumulator, the part before them the architecture and
/// instruction.
struct Name {
  std::string prefix, inputs;
};
Name name_of(const MatrixUnit& u) {
  const std::size_t accumulator = u.name.rfind('.'), inputs = u.name.rfind('.', accumulator - 1);
  return {u.name.substr(0, inputs), u.name.substr(inputs + 1, accumulator - inputs - 1)};
}

/// Whether two units differ only in the formats of their operands.
bool alike(const MatrixUnit& u, const MatrixUnit& v) {
  return name_of(u).prefix == name_of(v).prefix && u.accumulator == v.accumulator && shape(u) == shape(v) &&
         u.rule == v.rule && u.sum == v.sum && u.scale == v.scale && u.scale_block == v.scale_block &&
         u.evidence == v.evidence;
}

/// "fp16 bf16", "e4m3 e4m3-e5m2"; "e4m3 e5m2 *" if any two of them multiply; many mixed pairs are only counted, "e4m3
/// +8 mixed".
std::string inputs_of(const Units& group) {
  std::vector<std::string> plain, all;
  for (const MatrixUnit* u : group) {
    all.push_back(name_of(*u).inputs);
    if (u->a == u->b) plain.push_back(all.back());
  }
  const bool any_two = plain.size() > 1 && all.size() == plain.size() * plain.size();
  if (any_two) return fmt::format("{} *", fmt::join(plain, " "));
  if (all.size() <= 4) return fmt::format("{}", fmt::join(all, " "));
  return fmt::format("{}{}+{} mixed", fmt::join(plain, " "), plain.empty() ? "" : " ", all.size() - plain.size());
}

std::string architecture(const MatrixUnit& u) { return u.name.substr(0, u.name.find('.')); }

/// "volta = V100; turing = T4", of the architectures of these units.
std::string devices_of(const Units& units) {
  std::string text;
  std::string_view last;
  for (const auto& [device, name] : architecture_devices) {
    if (std::none_of(units.begin(), units.end(),
                     [&, wanted = name](const MatrixUnit* u) { return architecture(*u) == wanted; }))
      continue;
    text += name == last ? fmt::format(", {}", device)
                         : fmt::format("{}{} = {}", text.empty() ? "" : "; ", name, device);
    last = name;
  }
  return text;
}

constexpr const char* legend =
    "L: products of one sum; F: bits that a term keeps below the largest exponent,\n"
    "which is at least e0; out: what a sum is rounded to, and how.";

/// A table of units; those that differ only in their operands share a row.
std::string overview(const Units& units) {
  std::vector<Units> groups;
  for (const MatrixUnit* u : units) {
    const auto at = std::find_if(groups.begin(), groups.end(),
                                 [&](const Units& group) { return alike(*group.front(), *u); });
    if (at == groups.end()) groups.push_back({u});
    else at->push_back(u);
  }
  Rows rows{{"unit", "inputs", "D", "m x n x k", "rule", "L", "F", "e0", "out", "evidence"}};
  Notes notes;
  for (const Units& group : groups) {
    const MatrixUnit& u = *group.front();
    rows.push_back(
        {name_of(u).prefix, inputs_of(group), format_name(u.accumulator), shape(u), std::string(u.rule->name)});
    for (std::string& column : sum_columns(u)) rows.back().push_back(std::move(column));
    rows.back().push_back(notes.number(clean(u.evidence)));
  }
  const std::string table = aligned(rows, 0), devices = devices_of(units);
  const std::string star = std::string(table.find(" *") == std::string::npos ? "" : "*: A and B of any two of them. ") +
                           (table.find(" mixed ") == std::string::npos ? "" : "mixed: A and B of two formats. ");
  return fmt::format(
      "{}\n{}{}\n\n{}\n{}{} unit{}, named UNIT.INPUTS.D: {}{}.\n"
      "`halfulp units WORD...` lists those whose names contain every word, or of a device; `halfulp units NAME` "
      "describes one.\n",
      table, star, legend, notes.legend(), devices.empty() ? "" : wrapped("Devices: " + devices + ".", 0), units.size(),
      units.size() == 1 ? "" : "s", units.front()->name, units.size() == 1 ? "" : ", " + units.back()->name);
}

std::string operand(const FloatFormat& f) {
  return fmt::format("{}, words of {} bits{}", format_name(f), word_bits(f),
                     f == tf32 ? " whose low 13 are ignored" : "");
}

std::string details(const MatrixUnit& u) {
  const FusedSum& s = u.sum;
  Rows rows{{"instruction", clean(u.instruction)},
            {"shape", fmt::format("m {}, n {}, k {}; an output does not depend on m and n", u.m, u.n, u.k)},
            {"A", operand(u.a)},
            {"B", operand(u.b)},
            {"C and D", operand(u.accumulator)}};
  if (u.scaled()) rows.push_back({"scales", fmt::format("{}, one for {} products", operand(u.scale), u.scale_block)});
  rows.push_back({"rule", fmt::format("{}: {}", u.rule->name, u.rule->description)});
  rows.push_back({"L", fmt::format("{}: products of one sum", s.length)});
  if (u.rule->takes != RuleTakes::length) {
    rows.push_back({"F", fmt::format("{}: a term is cut {} to a multiple of 2^(emax - {})", s.alignment_bits,
                                     name_of(s.alignment), s.alignment_bits)});
    rows.push_back({"e0", least(s) + (s.least_exponent == FusedSum::no_least_exponent
                                          ? ""
                                          : ": emax, the largest exponent of a term, is at least that")});
    rows.push_back(
        {"out", fmt::format("{}, rounded {}; overflow gives Inf", format_name(s.kept), name_of(s.rounding))});
    rows.push_back({"products", s.normalized_products ? "normalised" : "not normalised: significands in [0, 4)"});
    rows.push_back(
        {"subnormals", s.flush_inputs || s.flush_outputs
                           ? fmt::format("flushed: {}", s.flush_inputs && s.flush_outputs ? "operands and results"
                                                        : s.flush_inputs                  ? "operands"
                                                                                          : "results")
                           : "kept"});
    rows.push_back(
        {"zero sums", s.zero == ZeroSign::positive ? "+0" : "-0 where every term is, or a negative sum underflows"});
    if (u.depth() != s.length && u.rule->takes == RuleTakes::all)
      rows.push_back({"order", fmt::format("{} products, {}", name_in(groupings, s.grouping),
                                           s.descending ? "last sum first" : "first sum first")});
  }
  rows.push_back({"NaN", print_code(u.accumulator, s.nan)});
  rows.push_back({"evidence", clean(u.evidence)});
  rows.push_back({"source", clean(u.source)});
  return u.name + "\n\n" + aligned(rows, 2);
}

bool contains(const MatrixUnit& u, const std::string& word) { return u.name.find(word) != std::string::npos; }

/// Whether a part of the name, between dots and dashes, begins with the word: "mx" is not part of "amx".
bool begins_a_part(const MatrixUnit& u, const std::string& word) {
  for (std::size_t at = u.name.find(word); at != std::string::npos; at = u.name.find(word, at + 1))
    if (at == 0 || u.name[at - 1] == '.' || u.name[at - 1] == '-') return true;
  return false;
}

/// Whether a word in lower case fits a unit: names a device that has it, or begins a part of its name. A word that
/// begins no part of any name may be anywhere in one.
bool fits(const MatrixUnit& u, const std::string& word) {
  if (const std::string_view of_device = architecture_of(word); !of_device.empty()) return architecture(u) == of_device;
  const auto all = matrix_units();
  const bool begins = std::any_of(all.begin(), all.end(), [&](const MatrixUnit& v) { return begins_a_part(v, word); });
  return begins ? begins_a_part(u, word) : contains(u, word);
}

/// Words that people look for: beginnings of names ("hopper", "hopper.mma", ...), parts between dots, devices.
std::vector<std::string> vocabulary() {
  std::vector<std::string> names;
  const auto add = [&](std::string name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  };
  for (const MatrixUnit& u : matrix_units())
    for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = u.name.find('.', begin);
      add(u.name.substr(begin, end - begin));
      add(u.name.substr(0, end));
    }
  for (const ArchitectureDevice& row : architecture_devices) add(std::string(row.device));
  return names;
}

/// Why no unit fits every word.
std::string no_unit(const std::vector<std::string>& words) {
  const std::string all = fmt::format("`halfulp units` lists all {} units", matrix_units().size());
  for (const std::string& word : words)
    if (std::none_of(matrix_units().begin(), matrix_units().end(), [&](const MatrixUnit& u) { return fits(u, word); }))
      return fmt::format("no unit has '{}' in its name; nearest: {}; {}", shown(word),
                         fmt::join(nearest_names(word, vocabulary(), 4), ", "), all);
  std::string together;
  for (const std::string& word : words) together += (together.empty() ? "'" : ", '") + shown(word) + "'";
  return fmt::format("no unit fits all of {}, though each fits some; {}", together, all);
}

struct UnitsArguments {
  std::vector<std::string> words;
  std::string file;
  bool json = false;
};

void show_one(const MatrixUnit& unit, bool json) { write_output(json ? pretty(unit_to_json(unit)) : details(unit)); }

void units_command(const UnitsArguments& options) {
  if (!options.file.empty()) {
    if (!options.words.empty())
      throw std::invalid_argument("--unit-file shows the unit of that file; accepted: no WORD beside it");
    return show_one(read_unit_file(options.file), options.json);
  }
  std::vector<std::string> words;
  if (std::ranges::any_of(options.words, &std::string::empty))
    throw std::invalid_argument("WORD is ''; accepted: a part of a unit's name, or a device");
  for (const std::string& word : options.words) words.push_back(spelled_as_in_units(word));
  Units chosen;
  for (const MatrixUnit& u : matrix_units()) {
    if (words.size() == 1 && u.name == words.front()) return show_one(u, options.json);
    if (std::all_of(words.begin(), words.end(), [&](const std::string& word) { return fits(u, word); }))
      chosen.push_back(&u);
  }
  if (chosen.empty()) throw std::invalid_argument(no_unit(words));
  if (!options.json) return write_output(overview(chosen));
  Json all = Json::array();
  for (const MatrixUnit* u : chosen) all.push_back(unit_to_json(*u));
  write_output(pretty(all));
}

}  // namespace

void add_units_command(CLI::App& app, int&) {
  auto options = std::make_shared<UnitsArguments>();
  auto* command = app.add_subcommand("units", "matrix units: instruction, shape, model, evidence");
  command->add_option("WORD", options->words,
                      "a unit's name, to show it in full; or words that its name contains, such as hopper e4m3; a "
                      "device, such as H100, stands for its architecture");
  add_text_option(*command, "--unit-file", options->file, "a unit of your own instead: JSON, as for mma", "a file")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "as JSON; for one unit, this is the JSON that `mma --unit-file` reads");
  command->footer(
      "m and n are the instruction's shape and do not affect results: an output depends on its row of A, its column of "
      "B and C.");
  command->callback([options] { units_command(*options); });
}

}  // namespace halfulp::cli
