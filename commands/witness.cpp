#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/commands/witness.hpp>

#include <halfulp/hardware/unit_file.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/work.hpp>

#include <CLI/CLI.hpp>

#include <memory>

namespace halfulp::cli {
namespace {

struct WitnessArguments {
  std::string a, b;
  witness::Options search;
  bool strict_nan = false, json = false, quiet = false;
};

/// A subject by its text, or the matrix unit of a file.
witness::Subject subject_of(const std::string& text) {
  if (text.ends_with(".json")) return witness::unit_subject(text, read_unit_file(text));
  return witness::parse_subject(text);
}

void witness_command(const WitnessArguments& options) {
  const witness::Subject a = subject_of(options.a), b = subject_of(options.b);
  witness::Options search = options.search;
  search.any_nan = !options.strict_nan;
  note_interrupts();
  witness::Found found;
  {
    ProgressBar bar("witness", options.quiet);
    found = witness::search(a, b, search, [&](double fraction) {
      stop_if_interrupted();
      bar.show(fraction);
    });
  }
  write_output(options.json ? pretty(to_json(a, b, search, found)) + "\n" : witness_text(a, b, search, found));
}

}  // namespace

void add_witness_command(CLI::App& app, int&) {
  auto options = std::make_shared<WitnessArguments>();
  auto* command = app.add_subcommand("witness", "the smallest operands on which two configurations differ");
  command
      ->add_option("A", options->a,
                   "OP:FORMAT[:SETTING...], convert:FROM:TO[:SETTING...], PROFILE:FROM:TO, a matrix unit, FILE.json "
                   "with a unit of your own, dot:MODEL or sum:MODEL")
      ->required();
  command->add_option("B", options->b, "another with the same operands and result")->required();
  add_number_option(
      *command, "--cases", options->search.cases, 1, 1'000'000'000,
      "at most this many cases in a guided search, a quarter more at the ends of the range, and as many again "
      "to make the result smaller (default 4000000)");
  add_number_option(*command, "--longest", options->search.longest, 1, 4096,
                    "largest number of terms of a vector (default 40)");
  add_number_option(*command, "--seed", options->search.seed, 0, UINT64_MAX, "seed of a guided search (default 1)");
  command->add_flag("--strict-nan", options->strict_nan, "a NaN equals only the same NaN");
  command->add_flag("--any-zero", options->search.any_zero, "-0 equals +0");
  command->add_flag("--json", options->json, "as JSON");
  command->add_flag("--quiet", options->quiet, "no progress bar");
  command->footer(
      "The search looks at every case if the operands have at most 24 bits together, for add, sub, mul and div of two "
      "16-bit numbers, and for profiles. Otherwise it is guided, and the first line of the answer says so. Operands "
      "are small if they have few significant bits and are near 1. In a unit with scales, one scale holds for all of A "
      "and one for all of B.\n"
      "A SETTING is a rounding mode, saturate, flush-inputs, flush-outputs or tininess-before.\n"
      "A MODEL is a format, a matrix unit, or items such as "
      "mul=fp16,acc=fp32,order=blocked:128,comp=kahan,round=toward-zero.\n"
      "Exit status: 0 whether one is found or not; 2 bad usage, 130 interrupted.");
  command->callback([options] { witness_command(*options); });
}

}  // namespace halfulp::cli
