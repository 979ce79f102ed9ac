// halfulp inspect and halfulp choose: what is in a checkpoint, what formats would keep of it, and the mix that keeps a
// budget, as reports.
#include <halfulp/commands/checkpoint.hpp>

#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/guard.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/run.hpp>
#include <halfulp/data/tensor_files.hpp>
#include <halfulp/experiments/checkpoint/checkpoint.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <system_error>

namespace halfulp::cli {

CLI::Option* CheckpointArguments::add(CLI::App& app, const std::string& option, const std::string& parameter,
                                      const std::string& help) {
  Setting& setting = parameters[parameter];
  setting.option = option;
  return app.add_option(option, setting.value, help);
}

bool names_checkpoint(const std::string& path) {
  std::error_code error;
  return path.ends_with(".safetensors") || path.ends_with(".safetensors.index.json") ||
         std::filesystem::is_directory(path, error);
}

void keep_inputs(const Config& config, const std::vector<std::string>& written, const char* parameter) {
  if (config.text(parameter).empty()) return;  // which the experiment refuses
  const TensorFiles files(config.text(parameter));
  for (const std::string& input : files.paths())
    for (const std::string& file : written)
      if (file != "-" && same_file(input, file))
        throw std::invalid_argument(
            fmt::format("{} is a file of the checkpoint, and would be overwritten; accepted: another", shown(file)));
}

int run_checkpoint(const Experiment& experiment, CheckpointArguments options, const RunHooks& hooks) {
  std::vector<std::string> settings;
  for (const auto& [parameter, setting] : options.parameters)
    if (setting.value) settings.push_back(fmt::format("{}={}", parameter, *setting.value));
  options.settings.insert(options.settings.begin(), settings.begin(), settings.end());
  if (!options.backends) options.backends = "emulated";  // nothing here is done by a device
  try {
    return run_experiments({&experiment}, options, hooks);
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what();
    for (const auto& [parameter, setting] : options.parameters) {
      if (!setting.value || !setting.option.starts_with('-')) continue;
      for (const std::string& begin : {parameter + ": ", "parameter '" + parameter + "': "})
        if (text.starts_with(begin)) throw std::invalid_argument(setting.option + ": " + text.substr(begin.size()));
    }
    throw;
  }
}

int compare_checkpoints(CheckpointArguments options, const std::string& against) {
  static const Experiment experiment = checkpoint_difference_experiment();
  options.parameters["against"] = {"--against", against};
  RunHooks hooks;
  hooks.check = [](const Config& config, const std::string& report) {
    keep_inputs(config, {report});
    keep_inputs(config, {report}, "against");
  };
  bool differ = false;
  hooks.then = [&](const Report& report) {
    const Json row = report.find_table("totals")->to_json()["rows"][0];  // tensors, different, unexplained, apart, ...
    differ = row[1] != 0 || row[3] != 0;
  };
  const int status = run_checkpoint(experiment, std::move(options), hooks);
  return status == exit_status::done && differ ? exit_status::failed : status;
}

namespace {

/// What both commands take.
void add_checkpoint_options(CLI::App& command, CheckpointArguments& options, const std::string& formats) {
  options
      .add(command, "CHECKPOINT", "checkpoint",
           "a .safetensors file, an index of shards (NAME.safetensors.index.json), a .npy file, or a folder of these")
      ->type_name("FILE|FOLDER")
      ->option_text("CHECKPOINT");
  options
      .add(command, "--formats", "formats",
           "formats and block formats (default: " + formats + "; --parameters lists them)")
      ->type_name("F[,F]");
  options.add(command, "--layers", "tensors", "tensors whose names match, such as 'model.layers.0.*' (default: *)")
      ->type_name("GLOB[,GLOB]");
  options.add(command, "--roles", "roles", "what tensors are for, by their names: attention=*attn*;mlp=*ffn*")
      ->type_name("ROLE=GLOB[;...]");
}

}  // namespace

void add_inspect_command(CLI::App& app, int& status, std::string command) {
  const auto options = std::make_shared<CheckpointArguments>();
  options->command = std::move(command);
  CLI::App* inspect = app.add_subcommand("inspect", "a checkpoint (.safetensors), and what formats would keep of it");
  add_checkpoint_options(*inspect, *options, "eight from fp16 to int4");
  options
      ->add(*inspect, "--activations", "activations",
            "inputs of layers by module name (.safetensors, a folder of .npy): the errors of outputs, too")
      ->type_name("FILE|FOLDER");
  options
      ->add(*inspect, "--product", "product",
            "of these outputs: a product model, or a matrix unit (default: mul=exact,acc=fp32)")
      ->type_name("MODEL");
  const auto against = std::make_shared<std::optional<std::string>>();
  inspect
      ->add_option("--against", *against,
                   "the checkpoint that it was made of: what differs, and which cast explains it, instead of what "
                   "formats would keep")
      ->type_name("CHECKPOINT");
  add_run_options(*inspect, *options);
  inspect->footer(
      "Tensors are rounded to nearest even; infinities and what is beyond a format\n"
      "become its largest value (--set overflow=ieee: they overflow). A tensor of two\n"
      "axes has its blocks along rows, one of four or more (a convolution) is seen as\n"
      "rows of all but the first axis. halfulp show REPORT losses lists every tensor,\n"
      "the worst first; halfulp page draws the report.");
  inspect->callback([options, against, &status] {
    if (*against) {
      for (const char* name : {"roles", "activations", "product"})
        if (options->parameters[name].value)
          throw std::invalid_argument(fmt::format("--{} is for what formats would keep, and --against compares", name));
      return void(status = compare_checkpoints(*options, **against));
    }
    static const Experiment experiment = checkpoint_experiment();
    RunHooks hooks;
    hooks.check = [](const Config& config, const std::string& report) {
      for (const char* files : {"checkpoint", "activations"}) keep_inputs(config, {report}, files);
    };
    status = run_checkpoint(experiment, *options, hooks);
  });
}

void add_choose_command(CLI::App& app, int& status, std::string command) {
  struct Options : CheckpointArguments {
    std::optional<std::string> mix;
  };
  const auto options = std::make_shared<Options>();
  options->command = std::move(command);
  CLI::App* choose = app.add_subcommand("choose", "a format for each tensor of a checkpoint, within a budget");
  add_checkpoint_options(*choose, *options, "seven from e4m3-row to int4");
  options->add(*choose, "--bytes", "bytes", "the most bytes: 900MB, 1.5GiB, or a share of what the tensors take (0.3)")
      ->type_name("BYTES|SHARE");
  options->add(*choose, "--bits", "bits", "the most bits an element, on average over all tensors")->type_name("N");
  options->add(*choose, "--sqnr", "sqnr", "the least ratio of signal to error, in dB; the fewest bytes are sought")
      ->type_name("DB");
  options->add(*choose, "--keep", "keep", "tensors that stay as they are stored, such as 'lm_head*'")
      ->type_name("GLOB[,GLOB]");
  options
      ->add(*choose, "--layout", "layout",
            "count the bytes of this layout (torchao, ...), and take only formats that it holds")
      ->type_name("WRITER");
  choose->add_option("--mix", options->mix, "the choice as JSON: the format of each tensor that is rounded")
      ->type_name("FILE.json");
  add_run_options(*choose, *options);
  choose->footer(
      "Tensors of one axis (norms, biases) stay as they are (--set axes=1: they do not).\n"
      "Squared errors add up as they are (--set measure=relative: in proportion to each\n"
      "tensor's own mean square). The choice is the best there is, or the report says\n"
      "how much better another could be.");
  choose->callback([options, &status] {
    static const Experiment experiment = checkpoint_choice_experiment();
    RunHooks hooks;
    hooks.check = [](const Config& config, const std::string& report) { keep_inputs(config, {report}); };
    if (options->mix) {
      if (options->mix->empty()) throw std::invalid_argument("--mix: a file is missing; accepted: the name of a file");
      require_file("--mix", *options->mix);
      check_writable(*options->mix);
      hooks.others = {{"--mix", *options->mix}};
      hooks.check = [&](const Config& config, const std::string& report) {
        keep_inputs(config, {report, *options->mix});
        if (report != "-" && same_file(*options->mix, report))
          throw std::invalid_argument(
              fmt::format("--mix: {} is the report's file; accepted: another", shown(*options->mix)));
      };
      hooks.with = [&](const Report& report) {
        const Json mix = report.find_table("mix")->to_json()["rows"][0][0];
        return std::vector<FileText>{{*options->mix, pretty(Json::parse(mix.get<std::string>())) + "\n"}};
      };
    }
    status = run_checkpoint(experiment, *options, hooks);
  });
}

}  // namespace halfulp::cli
