#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/lines.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/terminal.hpp>

#include <halfulp/emulation/product/model.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/hardware/operands.hpp>
#include <halfulp/hardware/unit_file.hpp>
#include <halfulp/support/work.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace halfulp::cli {
namespace {

struct MmaArguments {
  std::string unit, file;
  MmaOptions lines;
  std::uint64_t sample = 0, length = 0, seed = 1;  ///< 0: none; the unit's own
};

bool is_product_model(const std::string& name) {
  try {
    parse_product_model(name);
    return true;
  } catch (const std::invalid_argument&) { return false; }
}

MatrixUnit chosen_unit(const MmaArguments& options) {
  if (options.unit.empty() == options.file.empty())
    throw std::invalid_argument("which unit? accepted: one of --unit NAME (see halfulp units) and --unit-file FILE");
  if (!options.unit.empty()) {
    const auto is_one = [&](const MatrixUnit& unit) { return unit.name == options.unit; };
    if (std::ranges::none_of(matrix_units(), is_one) && is_product_model(options.unit))
      throw std::invalid_argument("'" + shown(options.unit) +
                                  "' is a product model, not a matrix unit; accepted: a unit "
                                  "(see halfulp units). Models multiply by gemm(), from Python halfulp.gemm()");
    return find_unit(options.unit);
  }
  return read_unit_file(options.file);
}

/// Cases of every kind in turn, as lines that --check reads.
void write_cases(MmaEvaluator& evaluator, const MatrixUnit& unit, const MmaArguments& options) {
  // Two steps and two blocks of scales, by default: shorter ones do not show the length of a step.
  const std::uint64_t usual = 2 * static_cast<std::uint64_t>(std::max(unit.depth(), unit.scale_block));
  const auto length = static_cast<std::size_t>(options.length != 0 ? options.length : usual);
  const std::size_t kinds = tile_kinds.size(), block = 64;  // of each kind, so that memory stays small
  std::string out;
  note_interrupts();
  for (std::uint64_t done = 0; done < options.sample;) {
    stop_if_interrupted();
    std::vector<MatrixCases> cases;
    for (const auto& kind : tile_kinds)
      cases.push_back(tiles(kind.value, shape_of(unit), length, block, options.seed + done / (block * kinds)));
    for (std::size_t i = 0; i < block * kinds && done < options.sample; ++i, ++done) {
      const MatrixCases& of_kind = cases[i % kinds];
      evaluator.answer(of_kind.products(i / kinds), of_kind.c[i / kinds], out);
    }
    write_output(out);
    out.clear();
  }
}

void mma_command(const MmaArguments& options, int& status) {
  if (options.file == "-" && options.sample == 0)
    throw std::invalid_argument("--unit-file is -, but standard input holds the operands; accepted: a file");
  require_check(options.lines);
  if (options.sample == 0 && options.length != 0) throw std::invalid_argument("--length belongs to --sample");
  if (options.sample != 0 && options.lines.check)
    throw std::invalid_argument("--sample makes the operands itself; accepted: one of --check and --sample N");
  const MatrixUnit unit = chosen_unit(options);
  MmaEvaluator evaluator(unit, options.lines);
  if (options.sample != 0) return write_cases(evaluator, unit, options);
  answer_cases(evaluator, options.lines, status);
  if (const std::string text = evaluator.overflows(); !text.empty()) print_error(text);
}

}  // namespace

void add_mma_command(CLI::App& app, int& status) {
  auto options = std::make_shared<MmaArguments>();
  auto* command = app.add_subcommand("mma", "outputs of a matrix unit, from operands on standard input");
  add_text_option(*command, "--unit", options->unit,
                  "a unit's name, such as hopper.wgmma.e4m3.fp32 (see halfulp units)", "a unit (see halfulp units)")
      ->type_name("UNIT");
  add_text_option(*command, "--unit-file", options->file,
                  "a unit of your own: JSON as `halfulp units NAME --json` writes it", "a file")
      ->type_name("FILE");
  command->add_flag("--values", options->lines.values,
                    "operands are numbers (0.1, 1/3, 2^-14), rounded to nearest even to the unit's formats; D is "
                    "written exactly, in decimal; standard error says how many overflow");
  add_number_option(*command, "--sample", options->sample, 1, most_operands,
                    "writes N cases as lines that --check reads: random words, terms that cancel, terms that lose "
                    "digits, subnormals and special values in turn");
  add_number_option(*command, "--length", options->length, 1, 65536,
                    "with --sample: products of a case (default: two steps of the unit, and two blocks of scales)");
  add_number_option(*command, "--seed", options->seed, 0, UINT64_MAX, "with --sample: the seed (default 1)");
  add_check_options(
      *command, options->lines,
      "the last group of each line is the D of your hardware or simulation: writes the lines that differ, "
      "and by how many code words");
  command->footer(
      "Each line is one output: K code words of a row of A | K of a column of B | one of C. Scaled units take two more "
      "groups: | scales of A | scales of B (the sign bit of an e4m3 scale is ignored). Words are hexadecimal, in the "
      "unit's formats; TF32 has 32-bit words.\n"
      "The output is the code word of D. K may be any number whose words fit into a line of 64 MiB: the last "
      "instruction is padded with zeros. In the "
      "example with "
      "scales, the fourth and fifth groups are 1 (38) and 2 (40).\n"
      "Exit status: 0 done, 1 in a check something differs, 2 bad usage or bad input.");
  command->callback([options, &status] { mma_command(*options, status); });
}

}  // namespace halfulp::cli
