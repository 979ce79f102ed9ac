// `halfulp check`: everything a backend computes, beside the emulation.
#include <halfulp/cuda/gpu_device.hpp>
#include <halfulp/evidence/gpu_check.hpp>
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/evidence/check.hpp>
#include <halfulp/evidence/devices.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>

namespace halfulp::cli {
namespace {

struct CheckArguments {
  std::string backend;
  std::size_t tiles = 256, floats = std::size_t{1} << 20;
  bool all = false, json = false, quiet = false;
};

const Device& device_named(const std::string& name) {
  const Device& device = find_device(name, DeviceUse::check);
  if (device.name() == "emulated")
    throw std::invalid_argument(
        "--backend emulated: the emulation is what is compared with; accepted: x86, cuda, recorded:NAME, rehearsal");
  require_available(device);
  return device;
}

std::vector<Check> checks_of(const CheckArguments& options, const Device& device) {
  ProgressBar bar("check", options.quiet);
  double begin = 0;
  std::vector<Check> all;
  const auto part = [&](double share, auto&& run) {
    const std::vector<Check> some = run([&](double fraction) {
      stop_if_interrupted();
      bar.show(begin + share * fraction);
    });
    all.insert(all.end(), some.begin(), some.end());
    begin += share;
  };
  part(0.4, [&](const Progress& progress) { return check_operations(device, progress); });
  part(0.3, [&](const Progress& progress) { return check_matrix_units(device, options.tiles, progress); });
  if (const cuda::Gpu* gpu = cuda::gpu_of(device)) {
    part(0.05, [&](const Progress& progress) { return cuda::check_whole_tiles(device, progress); });
    part(0.05, [&](const Progress& progress) { return cuda::check_programs_and_sums(*gpu, progress); });
    part(0.2, [&](const Progress& progress) { return cuda::check_kernels(*gpu, options.floats, progress); });
  }
  return all;
}

std::string verdict(const Comparison& c) {
  if (c.compared == 0) return "skipped";
  if (c.differing == 0) return "agrees";
  return c.fails() ? "FAILS" : "differs";
}

Json to_json(const Check& check) {
  const Comparison& c = check.found;
  Json json{{"group", check.group},   {"name", check.name},
            {"route", c.route},       {"verdict", c.fails() ? "fails" : verdict(c)},
            {"compared", c.compared}, {"differing", c.differing}};
  if (c.farthest != 0) json["farthest"] = c.farthest;
  if (!c.witnesses.empty()) json["witness"] = check.witness();
  if (c.unanswered != 0) json["unanswered"] = c.unanswered;
  if (c.compared == 0) json["skipped"] = c.skipped;
  return json;
}

std::string text_of(const std::vector<Check>& checks, const Device& device, bool all, const Style& style) {
  std::string text = fmt::format("{} ({}): {}\nagainst the emulation\n\n", device.name(), device.independence(),
                                 device.description());
  std::vector<std::vector<std::string>> totals, rows;
  std::vector<std::string> groups;
  for (const Check& check : checks)
    if (std::find(groups.begin(), groups.end(), check.group) == groups.end()) groups.push_back(check.group);
  for (const std::string& group : groups) {
    std::size_t agree = 0, differ = 0, fail = 0, skipped = 0;
    std::uint64_t compared = 0, unanswered = 0;
    for (const Check& check : checks) {
      if (check.group != group) continue;
      const Comparison& c = check.found;
      compared += c.compared, unanswered += c.unanswered;
      ++(c.compared == 0 ? skipped : c.fails() ? fail : c.differing != 0 ? differ : agree);
    }
    const auto counted = [&](std::size_t number, const char* words, Paint paint) {
      const std::string shown = fmt::format("{} {}", number, words);
      return number == 0 ? shown : style.painted(shown, paint);
    };
    totals.push_back({group, counted(agree, "agree", Paint::pass), counted(fail, "fail", Paint::fail),
                      counted(differ, "differ as they may", Paint::differs),
                      counted(skipped, "skipped", Paint::skipped), fmt::format("{} cases", compared),
                      unanswered == 0 ? "" : fmt::format("{} more not recorded", unanswered)});
  }
  text += aligned(totals, 0);
  std::map<std::pair<std::string, std::string>, int> skipped;  // by group and reason: an architecture's units are many
  for (const Check& check : checks) {
    const Comparison& c = check.found;
    if (!all && c.compared == 0) ++skipped[{check.group, c.skipped}];
    if (!all && (c.compared == 0 || c.differing == 0)) continue;
    std::string note = c.compared == 0    ? c.skipped
                       : c.differing == 0 ? fmt::format("{} cases; {}", c.compared, c.route)
                                          : fmt::format("{} of {}", c.differing, c.compared);
    if (c.farthest != 0) note += fmt::format(", by {} unit{} at most", c.farthest, c.farthest == 1 ? "" : "s");
    const std::string witness = check.witness();
    if (!witness.empty() && witness.size() < 100) note += "; " + witness;
    rows.push_back({style.verdict(verdict(c)), check.name, note});
  }
  for (const auto& [what, count] : skipped)
    rows.push_back(
        {style.verdict("skipped"), fmt::format("{} {}{}", count, what.first, count == 1 ? "" : "s"), what.second});
  return rows.empty() ? text : text + "\n" + aligned(rows, 0);
}

void check_command(const CheckArguments& options, int& status) {
  const Device& device = device_named(options.backend);
  note_interrupts();
  const std::vector<Check> checks = checks_of(options, device);
  if (options.json) {
    Json json{{"backend", device.name()},
              {"device", device.description()},
              {"independence", device.independence()},
              {"checks", Json::array()}};
    for (const Check& c : checks) json["checks"].push_back(to_json(c));
    write_output(pretty(json));
  } else {
    write_output(text_of(checks, device, options.all, Style::of_output()));
  }
  if (std::any_of(checks.begin(), checks.end(), [](const Check& c) { return c.found.fails(); }))
    status = exit_status::failed;
}

}  // namespace

void add_check_command(CLI::App& app, int& status) {
  auto options = std::make_shared<CheckArguments>();
  auto* command = app.add_subcommand("check",
                                     "compare everything that a backend computes with the emulation, in one table");
  command
      ->add_option("--backend", options->backend,
                   "x86 (this CPU), cuda (a GPU), recorded:NAME, rehearsal (cuda's host code with the emulation in a "
                   "GPU's place)")
      ->type_name("BACKEND")
      ->required();
  add_number_option(*command, "--tiles", options->tiles, 1, 1'000'000,
                    "number of cases per matrix unit and kind of operands; there are twelve kinds (default 256)");
  add_number_option(*command, "--floats", options->floats, 16, std::uint64_t{1} << 26,
                    "number of floats that each of halfulp's own kernels rounds on a GPU (default 2^20)");
  command->add_flag("--all", options->all, "also lists what agrees, line by line");
  command->add_flag("--json", options->json, "JSON");
  command->add_flag("--quiet", options->quiet, "no progress bar");
  command->footer(
      "Operations take the operands of the recording suite; matrix units take random and adversarial tiles. GPUs also "
      "compute sums in several orders, small programs (softmax, layer norm, weight updates), and halfulp's own "
      "kernels.\nExit status: 0 all agree, except functions that need not be correctly rounded, 1 something fails, 2 "
      "bad usage, 3 the device is not here or broke down, 130 interrupted.");
  command->callback([options, &status] {
    try {
      check_command(*options, status);
    } catch (const Interrupted&) {
      print_error("interrupted");
      status = exit_status::interrupted;
    }
  });
}

}  // namespace halfulp::cli
