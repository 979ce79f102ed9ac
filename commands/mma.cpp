#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/lines.hpp>

#include <halfulp/support/json.hpp>
#include <halfulp/hardware/unit_file.hpp>

#include <CLI/CLI.hpp>

#include <memory>
#include <stdexcept>

namespace halfulp::cli {
namespace {

struct MmaArguments {
  std::string unit, file;
  MmaOptions lines;
};

MatrixUnit chosen_unit(const MmaArguments& options) {
  if (options.unit.empty() == options.file.empty())
    throw std::invalid_argument("which unit? accepted: one of --unit NAME (see halfulp units) and --unit-file FILE");
  if (!options.unit.empty()) return find_unit(options.unit);
  return read_unit_file(options.file);
}

void mma_command(const MmaArguments& options, int& status) {
  if (options.file == "-")
    throw std::invalid_argument("--unit-file is -, but standard input holds the operands; accepted: a file");
  if (options.lines.strict_nan && !options.lines.check) throw std::invalid_argument("--strict-nan belongs to --check");
  const MatrixUnit unit = chosen_unit(options);
  MmaEvaluator evaluator(unit, options.lines);
  answer_input(evaluator);
  if (options.lines.check) conclude_check(evaluator.cases(), evaluator.differing(), status);
}

}  // namespace

void add_mma_command(CLI::App& app, int& status) {
  auto options = std::make_shared<MmaArguments>();
  auto* command = app.add_subcommand("mma", "outputs of a matrix unit, from operands on standard input");
  command->add_option("--unit", options->unit, "a unit's name, such as hopper.wgmma.e4m3.fp32 (see halfulp units)")
      ->type_name("UNIT");
  command->add_option("--unit-file", options->file, "a unit of your own: JSON as `halfulp units NAME --json` writes it")
      ->type_name("FILE");
  command->add_flag(
      "--values", options->lines.values,
      "operands are numbers, rounded to nearest even to the unit's formats; D is written exactly, in decimal");
  command->add_flag("--check", options->lines.check,
                    "a last group is the expected D: name the lines that differ, and by how many code words");
  command->add_flag("--strict-nan", options->lines.strict_nan, "in a check, a NaN equals only the same NaN");
  command->footer(
      "A line is one output: K code words of a row of A | K of a column of B | one of C, for scaled units also "
      "| scales of A | scales of B (unsigned: the sign bit of an e4m3 scale is ignored). Words are hexadecimal, in "
      "the unit's formats; TF32 comes in 32-bit words.\n"
      "Writes the code word of D. Any K: the last chunk is padded with zeros. The fourth and fifth group of the "
      "example with scales are 1 (38) and 2 (40).\n"
      "Exit status: 0 done, 1 in a check something differs, 2 bad usage or bad input.");
  command->callback([options, &status] { mma_command(*options, status); });
}

}  // namespace halfulp::cli
