#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/explanation.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/commands/profiles.hpp>

#include <halfulp/report/config.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/support/spelling.hpp>

#include <CLI/CLI.hpp>
#include <tbb/global_control.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

namespace halfulp::cli {
namespace {

struct ListOptions {
  std::optional<std::string> name;
  std::vector<std::string> values;
  std::string from = "fp32", to = "e4m3";
  bool json = false;
};

/// What every profile makes of some numbers.
CastTable cast_table(const ListOptions& options) {
  CastTable table{parse_format(options.from), parse_format(options.to), {}};
  const auto all = profiles();
  if (std::none_of(all.begin(), all.end(),
                   [&](const Profile& profile) { return find_rule(profile, table.from, table.to) != nullptr; }))
    throw std::invalid_argument(
        "no profile converts " + format_name(table.from) + " to " + format_name(table.to) +
        "; accepted: --from fp32, fp16, bf16 or fp64, and --to as `halfulp profiles` lists them");
  for (const std::string& given : options.values) {
    const Json values = value_from_text(ParameterType::choices, given);
    if (values.empty()) throw std::invalid_argument("--of is empty; accepted: numbers or code words, with commas");
    for (const Json& value : values)
      table.operands.push_back(explain(table.from, {}, value.get<std::string>(), 0).code);
  }
  return table;
}

void profiles_command(const ListOptions& options, const CLI::App& command) {
  for (const char* option : {"--from", "--to"})
    if (options.values.empty() && command.count(option))
      throw std::invalid_argument(fmt::format("{} is for --of; accepted: --of VALUE,... besides", option));
  if (!options.values.empty()) {
    if (options.name)
      throw std::invalid_argument("--of asks every profile; accepted: --of without '" + shown(*options.name) + "'");
    const CastTable table = cast_table(options);
    return write_output(options.json ? pretty(to_json(table)) + "\n" : casts_text(table));
  }
  if (options.name) {
    const Profile& profile = find_profile(*options.name);
    return write_output(options.json ? pretty(to_json(profile)) + "\n" : profile_text(profile));
  }
  if (!options.json) return write_output(profiles_table());
  Json all = Json::array();
  for (const Profile& profile : profiles()) all.push_back(to_json(profile));
  write_output(pretty(all) + "\n");
}

struct DiffOptions {
  std::string a, b, from = "fp32", to;
  bool any_nan = false, all = false, json = false, quiet = false;
  int threads = 0;
};

void diff_command(const DiffOptions& options) {
  ProfileDiff diff{&find_profile(options.a), &find_profile(options.b), {}, {}};
  const FloatFormat from = parse_format(options.from), to = parse_format(options.to);
  diff.question = {from, &rule_for(*diff.a, from, to), &rule_for(*diff.b, from, to), options.any_nan};
  note_interrupts();
  const int threads = options.threads > 0 ? options.threads
                                          : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  {
    ProgressBar bar("diff-profiles", options.quiet);
    diff.answer = differences(diff.question, [&](double fraction) {
      stop_if_interrupted();
      bar.show(fraction);
    });
  }
  const std::size_t most = options.all ? SIZE_MAX : 40;
  write_output(options.json ? pretty(to_json(diff, most)) + "\n" : diff_text(diff, most));
}

}  // namespace

void add_profiles_command(CLI::App& app, int&) {
  auto options = std::make_shared<ListOptions>();
  auto* command = app.add_subcommand(
      "profiles", "cast profiles: what libraries, specifications and CPUs make of a float in a narrower format");
  command->add_option("NAME", options->name, "one profile's rules in full");
  command
      ->add_option("--of", options->values,
                   "what every profile makes of these numbers or code words: --of 449,465,inf or --of=-1,0xffc00000")
      ->type_name("VALUE,...")
      ->allow_extra_args(false);
  command->add_option("--from", options->from, "with --of: the format of the numbers")
      ->type_name("FORMAT")
      ->capture_default_str();
  command->add_option("--to", options->to, "with --of: the format to which they are converted")
      ->type_name("FORMAT")
      ->capture_default_str();
  command->add_flag("--json", options->json, "as JSON");
  command->callback([options, command] { profiles_command(*options, *command); });
}

void add_diff_profiles_command(CLI::App& app, int&) {
  auto options = std::make_shared<DiffOptions>();
  auto* command = app.add_subcommand("diff-profiles", "every input on which two cast profiles differ");
  command->add_option("A", options->a, "a profile (see halfulp profiles)")->required();
  command->add_option("B", options->b, "another")->required();
  command->add_option("--from", options->from, "the format that is converted: fp32, fp16, bf16, fp64")
      ->type_name("FORMAT")
      ->capture_default_str();
  command->add_option("--to", options->to, "the format to which it is converted")->type_name("FORMAT")->required();
  command->add_flag("--any-nan", options->any_nan, "a NaN equals every NaN; otherwise signs and payloads count");
  command->add_flag("--all", options->all, "every range, not the first 40");
  add_number_option(*command, "--threads", options->threads, 1, 1024,
                    "number of threads (default: one per core; the results do not depend on it)");
  command->add_flag("--json", options->json, "as JSON");
  command->add_flag("--quiet", options->quiet, "no progress bar");
  command->footer(
      "The command compares all 2^16 or 2^32 inputs; for fp64 it compares a sample. The inputs of one range are all "
      "finite, all infinite or all NaN, and so are the results of each profile; ranges are as long as possible.\nExit "
      "status: 0, whether they differ or not; 2 bad usage, 130 interrupted.");
  command->callback([options] { diff_command(*options); });
}

}  // namespace halfulp::cli
