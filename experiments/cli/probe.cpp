// `halfulp probe`: which matrix unit is this?
#include <halfulp/experiments/cli/commands.hpp>
#include <halfulp/experiments/cli/output.hpp>
#include <halfulp/experiments/cli/probe_text.hpp>
#include <halfulp/experiments/report/json_text.hpp>
#include <halfulp/experiments/run/runner.hpp>
#include <halfulp/hardware/matrix/devices.hpp>
#include <halfulp/hardware/matrix/unit_file.hpp>
#include <halfulp/hardware/probe/questions.hpp>

#include <algorithm>
#include <memory>

namespace halfulp::cli {
namespace {

struct Options {
  std::string backend, file;
  bool json = false;
};

MatrixDevices devices(const Options& options) {
  if (options.backend.empty() == options.file.empty())
    throw std::invalid_argument("which unit? accepted: one of --backend BACKEND and --unit-file FILE");
  if (!options.backend.empty()) return find_matrix_devices(options.backend);
  return {{emulated_matrix_device(read_unit_file(options.file))}, ""};
}

void probe_command(const Options& options) {
  const MatrixDevices here = devices(options);
  std::string text, reason = here.reason;
  Json list = Json::array();
  for (const auto& device : here.devices) {
    if (const Support available = device->available(); !available.yes) {
      reason = available.reason;
      continue;
    }
    const MatrixCases cases = probe::questions(device->shape());
    std::vector<std::uint64_t> answers(cases.size());
    std::vector<char> known(cases.size());
    device->answered(cases, known);
    if (const auto count = std::count(known.begin(), known.end(), 1); static_cast<std::size_t>(count) < cases.size()) {
      reason = device->name() + " answers " + std::to_string(count) + " of the probe's " + std::to_string(cases.size()) + " questions";
      continue;
    }
    device->run(cases, answers);
    const probe::Findings found = probe::infer(device->shape(), cases, answers);
    if (options.json) list.push_back(probe_json(*device, cases, found));
    else text += (text.empty() ? "" : "\n") + probe_text(*device, cases, found);
  }
  if (text.empty() && list.empty()) throw BackendMissing("backend '" + options.backend + "' is not here: " + reason);
  write_output(options.json ? pretty(list) + "\n" : text);
}

}  // namespace

void add_probe_command(CLI::App& app, int&) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("probe", "which matrix unit is this? its parameters, by what it answers to chosen operands");
  command->add_option("--backend", options->backend, "emulated:UNIT, x86, cuda, recorded:NAME or rehearsal; behind each but the first :UNIT picks one of its units")->type_name("BACKEND");
  command->add_option("--unit-file", options->file, "a unit of your own, as mma takes it")->type_name("FILE");
  command->add_flag("--json", options->json, "as JSON, with all operands");
  command->callback([options] { probe_command(*options); });
}

}  // namespace halfulp::cli
