#include <halfulp/commands/quantize.hpp>

#include <halfulp/commands/checkpoint.hpp>
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/options.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/data/npy.hpp>
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/data/quantized_tensor.hpp>
#include <halfulp/experiments/checkpoint/checkpoint.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/report.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/support/work.hpp>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

namespace halfulp::cli {

namespace {

std::string part_text(std::uint64_t part, std::uint64_t of) {
  return part == 0 ? "0"
                   : fmt::format("{} ({:.3g} %)", part, 100.0 * static_cast<double>(part) / static_cast<double>(of));
}

std::string name_of(const AnyFormat& f) {
  return std::visit([](const auto& x) { return format_name(x); }, f);
}
double decibels(double relative_error) { return 0.0 - 20 * std::log10(relative_error); }  // 0, not -0, of 1

std::string error_text(const Loss& l) {
  std::string text;
  const std::uint64_t lost = l.became_infinite + l.became_nan;
  const bool as_before = l.nan_before == l.nan_after && l.infinite_before == l.infinite_after;
  if (lost) {
    text = fmt::format("of {} finite element{}, {} became infinite, {} NaN", l.compared + lost,
                       l.compared + lost == 1 ? "" : "s", l.became_infinite, l.became_nan);
    if (l.compared == 0) return text;
    text += fmt::format("; of the {} that stay{} finite: ", l.compared, l.compared == 1 ? "s" : "");
  }
  if (l.largest_error == 0)
    return text + (!lost && as_before ? "exact" : "no error") + (lost || as_before ? "" : " in what stays finite");
  if (std::isinf(l.relative_error()))
    return text + fmt::format("relative error infinite, largest {:.4g}", l.largest_error);
  return text + fmt::format("relative error {:.4g} ({:.1f} dB), largest {:.4g}", l.relative_error(),
                            decibels(l.relative_error()), l.largest_error);
}

}  // namespace

std::string summary_line(const std::string& name, const FileTensor& tensor, const AnyFormat& format,
                         const Quantized& q) {
  std::string text = fmt::format(
      "{}: {} {}, {} to {}", name, tensor.shape.empty() ? "one" : fmt::format("{}", fmt::join(tensor.shape, " x ")),
      tensor.shape.size() > 1 ? "elements" : "element" + std::string(q.loss.elements == 1 ? "" : "s"),
      format_name(tensor.format), name_of(format));
  if (const auto* block = std::get_if<BlockFormat>(&format); block && find_named(*block))
    text += " (" + description(*block) + ")";
  text += fmt::format(", {:.4g} bits each: ", q.bits_per_element);
  const Loss& l = q.loss;
  text += error_text(l);
  const bool of_some = l.became_infinite + l.became_nan != 0 && l.compared != 0;
  text += of_some ? fmt::format("; of all {}:", l.elements) : ",";
  text += " saturated " + part_text(l.saturated, l.elements) + ", to zero " + part_text(l.to_zero, l.elements);
  if (l.nan_before || l.nan_after) text += fmt::format(", NaN {} before and {} after", l.nan_before, l.nan_after);
  if (l.infinite_before || l.infinite_after)
    text += fmt::format(", infinite {} before and {} after", l.infinite_before, l.infinite_after);
  return text + "\n";
}

nlohmann::ordered_json summary_json(const std::string& name, const FileTensor& tensor, const AnyFormat& format,
                                    const Rounding& rounding, const Quantized& q) {
  const Loss& l = q.loss;
  nlohmann::ordered_json j{
      {"input", name}, {"dtype", format_name(tensor.format)}, {"shape", tensor.shape}, {"format", name_of(format)}};
  if (const auto* block = std::get_if<BlockFormat>(&format)) {
    j["description"] = description(*block);
    j["scale_rule"] = halfulp::name_of(block->rule);
    j["scales"] = q.scales.size();
    j["scales_shape"] = q.scales_shape;
    if (q.tensor_scale) j["tensor_scale"] = *q.tensor_scale;
  }
  j["rounding"] = halfulp::name_of(rounding.mode);
  j["bits_per_element"] = q.bits_per_element;
  j["elements"] = l.elements;
  j["became_infinite"] = l.became_infinite;  // of finite elements
  j["became_nan"] = l.became_nan;
  j["elements_compared"] = l.compared;  // what the errors are of
  const bool none_left = l.compared == 0 && l.became_infinite + l.became_nan > 0;
  j["relative_error"] = none_left || std::isinf(l.relative_error())
                            ? nlohmann::ordered_json(nullptr)
                            : nlohmann::ordered_json(number(l.relative_error()));
  j["sqnr_db"] = l.relative_error() > 0 && std::isfinite(l.relative_error())
                     ? nlohmann::ordered_json(number(decibels(l.relative_error())))
                     : nlohmann::ordered_json(nullptr);
  j["largest_error"] = none_left ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(number(l.largest_error));
  j["saturated"] = l.saturated;
  j["to_zero"] = l.to_zero;
  j["nan_before"] = l.nan_before;
  j["nan_after"] = l.nan_after;
  j["infinite_before"] = l.infinite_before;
  j["infinite_after"] = l.infinite_after;
  return j;
}

namespace {

/// Options that only arrays, or only checkpoints, take.
constexpr std::array of_arrays{"--rule",         "--axis",          "--codes",    "--scales", "--zeros",
                               "--flush-inputs", "--flush-outputs", "--tininess", "--nan",    "--stochastic-variant",
                               "--random-bits"};
constexpr std::array of_checkpoints{"--mix",    "--layers", "--keep",    "--layout", "--dtype",
                                    "--report", "--set",    "--threads", "--quiet"};

struct QuantizeArguments {
  std::string input, format;
  std::optional<std::string> rule, axis, out, codes, scales, zeros, report;
  CheckpointArguments checkpoint;

  /// Files beside --out.
  std::vector<std::pair<std::string, const std::optional<std::string>*>> parts() const {
    return {{"--codes", &codes}, {"--scales", &scales}, {"--zeros", &zeros}};
  }
  RoundingOptions rounding;
  bool json = false;
};

/// The rule that a format's text names itself, if it does: the last, as the parser reads them.
std::optional<std::string> rule_in(const std::string& format) {
  std::optional<std::string> found;
  for (std::size_t at = format.find('/'); at != std::string::npos;) {
    const std::size_t end = format.find('/', at + 1);
    const std::string word = CLI::detail::to_lower(
        format.substr(at + 1, end == std::string::npos ? end : end - at - 1));
    for (const auto& [name, rule] : scale_rules)
      if (word == name) found = word;
    at = end;
  }
  return found;
}

/// The format with --rule, which must be a scale rule.
AnyFormat format_of(const QuantizeArguments& options) {
  AnyFormat format = parse_any_format(options.format);
  if (!options.rule) return format;
  std::vector<std::string> names;
  for (const auto& [name, rule] : scale_rules) names.emplace_back(name);
  auto* block = std::get_if<BlockFormat>(&format);
  if (!block)
    throw std::invalid_argument("--rule is for block formats, and " + options.format +
                                " is none; accepted: a format such as mxfp4");
  for (const auto& [name, rule] : scale_rules)
    if (*options.rule == name) {
      if (const auto own = rule_in(options.format); own && *own != name)
        throw std::invalid_argument("--rule is " + *options.rule + ", and --format " + shown(options.format) +
                                    " says " + *own);
      return parse_block_format(description(*block) + "/" + *options.rule);
    }
  throw std::invalid_argument(unknown_name("scale rule", *options.rule, std::move(names)));
}

std::optional<int> axis_of(const QuantizeArguments& options) {
  if (!options.axis) return std::nullopt;
  int axis = 0;
  const char* const end = options.axis->data() + options.axis->size();
  const auto [rest, error] = std::from_chars(options.axis->data(), end, axis);
  if (error != std::errc{} || rest != end)
    throw std::invalid_argument("--axis is '" + shown(*options.axis) + "'; accepted: an integer, -1 for the last axis");
  return axis;
}

/// The code words of rounded values, which the format has: nothing is rounded again.
std::string codes_file(const FloatFormat& f, const Rounding& rounding, std::span<const std::uint64_t> shape,
                       std::span<const double> values) {
  const Task exact{Operation::convert, fp64, f, {.overflow = rounding.overflow, .nan = rounding.nan}};
  std::vector<std::uint64_t> words(values.size());
  std::transform(values.begin(), values.end(), words.begin(), [](double x) { return std::bit_cast<std::uint64_t>(x); });
  const auto as = [&]<class Code>(Code) {
    std::vector<Code> codes(words.size());
    compute<Code>(exact, std::span<const std::uint64_t>(words), {}, {}, codes);
    return npy_of<Code>(shape, codes);
  };
  switch (f.storage_bytes()) {
    case 1: return as(std::uint8_t{});
    case 2: return as(std::uint16_t{});
    case 4: return as(std::uint32_t{});
    default: return as(std::uint64_t{});
  }
}

/// A value that is a float; a NaN keeps its bits, which a cast would make quiet.
float as_float(double value) {
  if (!std::isnan(value)) return static_cast<float>(value);
  const std::uint64_t code = convert(fp64, fp32, {.nan = NanRule::keep}, std::bit_cast<std::uint64_t>(value)).code;
  return std::bit_cast<float>(static_cast<std::uint32_t>(code));
}

std::string scales_file(const FloatFormat& f, const Quantized& q) {
  switch (f.storage_bytes()) {
    case 1: return npy_of<std::uint8_t>(q.scales_shape, q.scales);
    case 2: return npy_of<std::uint16_t>(q.scales_shape, q.scales);
    default: return npy_of<std::uint32_t>(q.scales_shape, q.scales);
  }
}

/// What block formats do not heed must not be asked of them.
void check_rounding(const QuantizeArguments& options, const CLI::App& command) {
  const RoundingOptions& r = options.rounding;
  const auto refuse = [&](const std::string& what) {
    throw std::invalid_argument(what + " is for plain formats, and " + options.format + " is a block format");
  };
  if (command.count("--overflow") && r.rounding().overflow != Overflow::saturate) refuse("--overflow " + r.overflow);
  if (r.flush_inputs) refuse("--flush-inputs");
  if (r.flush_outputs) refuse("--flush-outputs");
  for (const char* name : {"--tininess", "--nan"})
    if (command.count(name)) refuse(name);
}

/// Throws unless every file can be written, each is another, and none is the input.
void check_files(const std::string& input, const std::vector<std::pair<std::string, std::string>>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& [name, path] = files[i];
    require_file(name, path);
    std::error_code absent;
    if (std::filesystem::equivalent(input, path, absent))
      throw std::invalid_argument(name + " is the input file: " + shown(path));
    for (std::size_t k = 0; k < i; ++k)
      if (same_file(path, files[k].second))
        throw std::invalid_argument(files[k].first + " and " + name + " are one file: " + shown(path));
    check_writable(path);
  }
}

/// Whether values need float64. They do if the array is of float64, if a format of a wider range may round floats up to
/// 2^128, and if numbers may become the format's largest number and that is no float. Beyond fp32's range only
/// infinities become it, where they saturate or the format has none.
bool needs_double(const FloatFormat& f, const Rounding& rounding, const FileTensor& tensor) {
  const double largest = f.value(f.max_finite());
  const bool rounds_up = f.emax() > fp32.emax() && f.fraction_bits < fp32.fraction_bits;
  if (tensor.format.storage_bytes() == 8 || rounds_up) return true;
  if (largest <= std::numeric_limits<float>::max()) return static_cast<double>(static_cast<float>(largest)) != largest;
  return rounding.overflow == Overflow::saturate || !f.has_infinity();
}

template <std::size_t N>
void refuse_options(const CLI::App& command, const std::array<const char*, N>& names, const std::string& why) {
  for (const char* const name : names)
    if (command.count(name)) throw std::invalid_argument(fmt::format("{} is for {}", name, why));
}

/// The report of a checkpoint that is written in another format.
int quantize_checkpoint(const QuantizeArguments& options, const CLI::App& command) {
  refuse_options(command, of_arrays, "arrays (.npy), and " + shown(options.input) + " is a checkpoint");
  if (options.json && options.report) throw std::invalid_argument("--json and --report: accepted: one of them");
  CheckpointArguments run = options.checkpoint;
  const auto set = [&](const char* parameter, const char* option, std::string value) {
    run.parameters[parameter] = {option, std::move(value)};
  };
  set("checkpoint", "FILE", options.input);
  if (options.out) set("output", "--out", *options.out);
  if (!options.format.empty()) set("format", "--format", options.format);
  if (command.count("--round"))
    set("round", "--round", std::string(halfulp::name_of(parse_rounding_mode(options.rounding.round))));
  if (command.count("--overflow")) set("overflow", "--overflow", options.rounding.overflow);
  if (command.count("--seed")) set("seed", "--seed", std::to_string(options.rounding.seed));
  if (options.json) run.out = "-";
  if (options.report) run.out = *options.report;
  static const Experiment experiment = checkpoint_quantized_experiment();
  RunHooks hooks;
  hooks.out = "--report";
  if (options.out) hooks.others = {{"--out", *options.out}};
  hooks.check = [&](const Config& config, const std::string& report) {
    const std::string out = config.text("output");
    if (out.empty()) throw std::invalid_argument("--out: a file is missing; accepted: the new file, OUT.safetensors");
    keep_inputs(config, {report, out});
    if (report != "-" && same_file(out, report))
      throw std::invalid_argument(fmt::format("--out: {} is the report's file; accepted: another", shown(report)));
  };
  std::string written;  // what is there even if its report cannot be written
  hooks.with = [&](const Report& report) {
    if (report.find_table("file")->to_json()["rows"][0][1] != 0) written = report.config().at("output");
    return std::vector<FileText>{};
  };
  try {
    return run_checkpoint(experiment, run, hooks);
  } catch (const std::invalid_argument& error) {
    if (written.empty()) throw;
    throw std::invalid_argument(fmt::format("{}; {} is written, and read back as it was meant", error.what(), written));
  }
}

void quantize_command(const QuantizeArguments& options, const CLI::App& command) {
  refuse_options(command, of_checkpoints,
                 "checkpoints (.safetensors, an index of shards, a folder), and " + shown(options.input) + " is none");
  if (options.format.empty())
    throw std::invalid_argument("--format: a format is missing; accepted: halfulp formats lists them");
  const AnyFormat format = format_of(options);
  const auto* block = std::get_if<BlockFormat>(&format);
  for (const auto& [name, path] : options.parts())
    if (*path && !block && path != &options.codes)
      throw std::invalid_argument(name + " is for block formats, and " + options.format + " is none");
  if (options.zeros && !block->element.is_affine())
    throw std::invalid_argument("--zeros is for formats with a zero point, and " + options.format + " has none");
  const std::optional<int> axis = axis_of(options);
  const Rounding rounding = options.rounding.rounding();
  if (block) check_rounding(options, command);
  const std::vector<std::pair<std::string, std::string>> files = [&] {
    std::vector<std::pair<std::string, std::string>> all;
    if (options.out) all.emplace_back("--out", *options.out);
    for (const auto& [name, path] : options.parts())
      if (*path) all.emplace_back(name, **path);
    return all;
  }();
  check_files(options.input, files);
  note_interrupts();
  FileTensor tensor = read_tensor(options.input);
  const bool wide = !block && needs_double(std::get<FloatFormat>(format), rounding, tensor);
  const FileTensor kind{tensor.format, tensor.shape, {}};  // all that the summary needs
  const Quantized q = quantize_tensor(std::move(tensor), format, rounding, options.rounding.seed, axis);
  std::vector<FileText> written;
  if (options.out)
    written.emplace_back(*options.out,
                         wide ? npy_of<double>(kind.shape, q.values) : npy_of<float>(kind.shape, q.values, as_float));
  if (options.codes)
    written.emplace_back(*options.codes,
                         block ? npy_of<std::uint8_t>(kind.shape, q.codes)
                               : codes_file(std::get<FloatFormat>(format), rounding, kind.shape, q.values));
  if (options.scales) written.emplace_back(*options.scales, scales_file(block->scale, q));
  if (options.zeros) written.emplace_back(*options.zeros, npy_of<std::int16_t>(q.scales_shape, q.zeros));
  stop_if_interrupted();
  write_files(written);
  write_output(options.json ? pretty(summary_json(options.input, kind, format, rounding, q)) + "\n"
                            : summary_line(options.input, kind, format, q));
}

}  // namespace

void add_quantize_command(CLI::App& app, int& status, std::string line) {
  auto options = std::make_shared<QuantizeArguments>();
  auto* command = app.add_subcommand("quantize", "a tensor (.npy) or a checkpoint in another format");
  options->checkpoint.command = std::move(line);
  command
      ->add_option("FILE", options->input,
                   "a .npy file of float16, float32 or float64; or a checkpoint: a .safetensors file, an index of "
                   "shards, a folder")
      ->required();
  command
      ->add_option("--format", options->format,
                   "a format (fp16, e5m2, e6m9finite) or a block format (mxfp8e4m3, nvfp4, e4m3/1x64/e8m0/rceil): "
                   "halfulp formats")
      ->type_name("FORMAT");
  command
      ->add_option("--rule", options->rule,
                   "how scales follow from blocks: amax, floor, ceil, even, rceil; without it, the rule of the format")
      ->type_name("RULE");
  command->add_option("--axis", options->axis, "the axis along which blocks 1xN run; without it, the last axis")
      ->type_name("N");
  command
      ->add_option("--out", options->out,
                   "the values, as float32 (float64 for a plain format of a float64 array, or one that may give more "
                   "than float32 holds); of a checkpoint the new one, OUT.safetensors")
      ->type_name("FILE");
  command
      ->add_option("--codes", options->codes,
                   "the elements' code words, as uint8, or as wide as a plain format is stored")
      ->type_name("FILE.npy");
  command->add_option("--scales", options->scales, "the scales' code words, as unsigned integers")
      ->type_name("FILE.npy");
  command->add_option("--zeros", options->zeros, "the zero points, as int16")->type_name("FILE.npy");
  options->rounding.add_to(*command);
  command->get_option("--overflow")
      ->default_str("ieee; of a checkpoint saturate")
      ->description("what overflow becomes in a plain format (elements of block formats saturate): ieee, saturate");
  command->add_flag("--json", options->json, "the summary as JSON; of a checkpoint its report");
  CheckpointArguments& checkpoint = options->checkpoint;
  checkpoint.add(*command, "--mix", "mix", "of a checkpoint: formats by tensor, as halfulp choose --mix writes them")
      ->type_name("FILE.json");
  checkpoint
      .add(*command, "--layers", "tensors", "of a checkpoint: tensors whose names match are rounded (default: *)")
      ->type_name("GLOB[,GLOB]");
  checkpoint.add(*command, "--keep", "keep", "of a checkpoint: these stay as they are, such as '*embed*,lm_head*'")
      ->type_name("GLOB[,GLOB]");
  checkpoint
      .add(*command, "--layout", "layout",
           "of a checkpoint: code words and scales as another program reads them, instead of values")
      ->type_name("WRITER");
  checkpoint
      .add(*command, "--dtype", "dtype", "of a checkpoint: what values are stored in (default: each tensor's own)")
      ->type_name("DTYPE");
  command->add_option("--report", options->report, "of a checkpoint: the report's file or folder (default: reports/)")
      ->type_name("FILE|DIR");
  add_setting_option(*command, checkpoint,
                     "of a checkpoint: a parameter of its report, such as axes=1; may be repeated");
  add_number_option(*command, "--threads", checkpoint.threads, 1, 1024,
                    "of a checkpoint: threads (default: one per core)");
  command->add_flag("--quiet", checkpoint.quiet, "of a checkpoint: no progress bar and no summary");
  command->footer(
      "Errors are those of the elements that stay finite; if some do not, the summary first says how many. Either all "
      "files are written, or none.\nAn element is saturated if it is beyond the format's largest value times its "
      "block's scale and became that; if the scale was rounded down, the largest element of a block is just beyond "
      "that, and counts "
      "too. If the format's scale can hold an infinity, an infinite element makes the others of its block "
      "zero.\nScales come in the order of their blocks; --json also prints NVFP4's tensor scale.\n"
      "In a checkpoint, tensors of two axes and more are rounded, and all others are copied as they are. The new file "
      "is read back and compared before it takes its place.");
  command->callback([options, command, &status] {
    if (names_checkpoint(options->input) || (options->out && options->out->ends_with(".safetensors")))
      status = quantize_checkpoint(*options, *command);
    else quantize_command(*options, *command);
  });
}

}  // namespace halfulp::cli
