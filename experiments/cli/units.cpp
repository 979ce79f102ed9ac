#include <halfulp/experiments/cli/commands.hpp>
#include <halfulp/experiments/cli/output.hpp>

#include <halfulp/emulation/text.hpp>
#include <halfulp/experiments/report/json_text.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/formats/nearest.hpp>
#include <halfulp/hardware/matrix/unit_file.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace halfulp::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using Units = std::vector<const MatrixUnit*>;

std::string shape(const MatrixUnit& u) { return fmt::format("{}x{}x{}", u.m, u.n, u.k); }

std::string least(const FusedSum& sum) { return sum.least_exponent == FusedSum::no_least_exponent ? "none" : fmt::format("{}", sum.least_exponent); }

/// Of the columns L, F, e0 and out: what a rule states by itself stays empty.
std::vector<std::string> sum_columns(const MatrixUnit& u) {
  if (u.rule->takes == RuleTakes::length) return {fmt::format("{}", u.sum.length), "", "", ""};
  return {fmt::format("{}", u.sum.length), fmt::format("{}", u.sum.alignment_bits), least(u.sum),
          fmt::format("{} {}", format_name(u.sum.kept), name_of(u.sum.rounding))};
}

/// Texts that stand in many rows, as numbers with a legend.
class Notes {
 public:
  std::string number(const std::string& text) {
    const auto at = std::find(texts_.begin(), texts_.end(), text) - texts_.begin();
    if (at == static_cast<std::ptrdiff_t>(texts_.size())) texts_.push_back(text);
    return fmt::format("[{}]", at + 1);
  }
  std::string legend() const {
    std::string out;
    for (std::size_t i = 0; i < texts_.size(); ++i) out += fmt::format("  {:<4} {}\n", fmt::format("[{}]", i + 1), texts_[i]);
    return out;
  }

 private:
  std::vector<std::string> texts_;
};

/// The part of a unit's name after its inputs is the accumulator, the part before them the architecture and instruction.
struct Name {
  std::string prefix, inputs;
};
Name name_of(const MatrixUnit& u) {
  const std::size_t accumulator = u.name.rfind('.'), inputs = u.name.rfind('.', accumulator - 1);
  return {u.name.substr(0, inputs), u.name.substr(inputs + 1, accumulator - inputs - 1)};
}

/// Whether two units differ in the formats of their operands alone.
bool alike(const MatrixUnit& u, const MatrixUnit& v) {
  return name_of(u).prefix == name_of(v).prefix && u.accumulator == v.accumulator && shape(u) == shape(v) && u.rule == v.rule && u.sum == v.sum &&
         u.scale == v.scale && u.scale_block == v.scale_block && u.evidence == v.evidence;
}

/// "fp16 bf16"; where any two of them multiply, "e4m3 e5m2 *".
std::string inputs_of(const Units& group) {
  std::string plain;
  bool mixed = false;
  for (const MatrixUnit* u : group) {
    if (u->a == u->b) plain += (plain.empty() ? "" : " ") + name_of(*u).inputs;
    mixed = mixed || u->a != u->b;
  }
  return plain + (mixed ? " *" : "");
}

constexpr const char* legend =
    "L: products of one sum; F: bits that a term keeps below the largest exponent,\n"
    "which is at least e0; out: what a sum is rounded to, and how.";

/// All units, one row for those that differ in their operands alone.
std::string overview() {
  std::vector<Units> groups;
  for (const MatrixUnit& u : matrix_units()) {
    const auto at = std::find_if(groups.begin(), groups.end(), [&](const Units& group) { return alike(*group.front(), u); });
    if (at == groups.end()) groups.push_back({&u});
    else at->push_back(&u);
  }
  Rows rows{{"unit", "inputs", "D", "m x n x k", "rule", "L", "F", "e0", "out", "evidence"}};
  Notes notes;
  for (const Units& group : groups) {
    const MatrixUnit& u = *group.front();
    rows.push_back({name_of(u).prefix, inputs_of(group), format_name(u.accumulator), shape(u), std::string(u.rule->name)});
    for (std::string& column : sum_columns(u)) rows.back().push_back(std::move(column));
    rows.back().push_back(notes.number(u.evidence));
  }
  return fmt::format("{}\n*: A and B of any two of them. {}\n\n{}\n{} units, named UNIT.INPUTS.D: hopper.mma.fp16.fp32, hopper.wgmma.e4m3-e5m2.fp32.\n"
                     "`halfulp units PREFIX` lists those whose names begin so, `halfulp units NAME` describes one.\n",
                     aligned(rows, 0), legend, notes.legend(), matrix_units().size());
}

std::string listed(const Units& units) {
  Rows rows{{"name", "m x n x k", "rule", "L", "F", "e0", "out", "evidence", "instruction"}};
  Notes notes;
  for (const MatrixUnit* u : units) {
    rows.push_back({u->name, shape(*u), std::string(u->rule->name)});
    for (std::string& column : sum_columns(*u)) rows.back().push_back(std::move(column));
    rows.back().push_back(notes.number(u->evidence));
    rows.back().push_back(u->instruction);
  }
  return fmt::format("{}\n{}\n\n{}", aligned(rows, 0), legend, notes.legend());
}

std::string operand(const FloatFormat& f) {
  return fmt::format("{}, words of {} bits{}", format_name(f), word_bits(f), f == tf32 ? " whose low 13 are ignored" : "");
}

std::string details(const MatrixUnit& u) {
  const FusedSum& s = u.sum;
  Rows rows{{"instruction", u.instruction}, {"shape", fmt::format("m {}, n {}, k {}", u.m, u.n, u.k)}, {"A", operand(u.a)}, {"B", operand(u.b)}, {"C and D", operand(u.accumulator)}};
  if (u.scaled()) rows.push_back({"scales", fmt::format("{}, one for {} products", operand(u.scale), u.scale_block)});
  rows.push_back({"rule", fmt::format("{}: {}", u.rule->name, u.rule->description)});
  rows.push_back({"L", fmt::format("{}: products of one sum", s.length)});
  if (u.rule->takes != RuleTakes::length) {
    rows.push_back({"F", fmt::format("{}: a term is cut {} to a multiple of 2^(emax - {})", s.alignment_bits, name_of(s.alignment), s.alignment_bits)});
    rows.push_back({"e0", least(s) + (s.least_exponent == FusedSum::no_least_exponent ? "" : ": emax, the largest exponent of a term, is at least that")});
    rows.push_back({"out", fmt::format("{}, rounded {}; overflow gives Inf", format_name(s.kept), name_of(s.rounding))});
    rows.push_back({"products", s.normalized_products ? "normalised" : "not normalised: significands in [0, 4)"});
    rows.push_back({"subnormals", s.flush_inputs || s.flush_outputs ? fmt::format("flushed: {}", s.flush_inputs && s.flush_outputs ? "operands and results" : s.flush_inputs ? "operands" : "results") : "kept"});
    rows.push_back({"zero sums", s.zero == ZeroSign::positive ? "+0" : "-0 where every term is, or a negative sum underflows"});
    if (u.depth() != s.length && u.rule->takes == RuleTakes::all) rows.push_back({"order", fmt::format("{} products, {}", name_in(groupings, s.grouping), s.descending ? "last sum first" : "first sum first")});
  }
  rows.push_back({"NaN", print_code(u.accumulator, s.nan)});
  rows.push_back({"evidence", u.evidence});
  rows.push_back({"source", u.source});
  return u.name + "\n\n" + aligned(rows, 2);
}

/// What a name may begin with, to the dots: "hopper", "hopper.mma", ...
std::vector<std::string> beginnings() {
  std::vector<std::string> names;
  for (const MatrixUnit& u : matrix_units())
    for (std::size_t end = u.name.find('.');; end = u.name.find('.', end + 1)) {
      std::string name = u.name.substr(0, end);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
      if (end == std::string::npos) break;
    }
  return names;
}

struct Options {
  std::string name;
  bool json = false;
};

void units_command(const Options& options) {
  Units chosen;
  for (const MatrixUnit& u : matrix_units()) {
    if (u.name == options.name) return write_output(options.json ? pretty(unit_to_json(u)) : details(u));
    if (u.name.rfind(options.name, 0) == 0) chosen.push_back(&u);
  }
  if (chosen.empty()) throw std::invalid_argument(unknown_name("unit", options.name, beginnings(), 6));
  if (!options.json) return write_output(options.name.empty() ? overview() : listed(chosen));
  Json all = Json::array();
  for (const MatrixUnit* u : chosen) all.push_back(unit_to_json(*u));
  write_output(pretty(all));
}

}  // namespace

void add_units_command(CLI::App& app, int&) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("units", "matrix units: instruction, shape, model, evidence");
  command->add_option("NAME", options->name, "one unit in full, or the beginning of several names, such as hopper or blackwell.tcgen05");
  command->add_flag("--json", options->json, "as JSON; of one unit, what `mma --unit-file` reads");
  command->callback([options] { units_command(*options); });
}

}  // namespace halfulp::cli
