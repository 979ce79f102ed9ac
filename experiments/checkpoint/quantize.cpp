// A checkpoint written as a new file, in one format or a mix of formats, and read back.
#include <halfulp/experiments/checkpoint/checkpoint.hpp>

#include <halfulp/data/layout_writing.hpp>
#include <halfulp/experiments/checkpoint/shared.hpp>
#include <halfulp/experiments/checkpoint/write.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <stdexcept>

namespace halfulp {
namespace checkpoint {
namespace {

constexpr const char *as_values = "values", *own_dtype = "own";

std::vector<std::string> storable_dtypes() {
  std::vector<std::string> names{own_dtype};
  for (const ElementType& t : element_types())
    if (t.format && t.bits >= 8 && t.format->is_signed) names.emplace_back(t.name);
  return names;
}

std::vector<Parameter> quantize_parameters() {
  using Type = ParameterType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::string> stores{as_values};
  for (const std::string_view writer : layout_writers()) stores.emplace_back(writer);
  const auto choice = [&](const char* name, const char* value, const char* help, std::vector<std::string> accepted) {
    return Parameter{name, Type::choice, value, help, -infinity, infinity, std::move(accepted)};
  };
  return {
      checkpoint_parameter(),
      {"output", Type::path, "", "the .safetensors file to be written"},
      {"format", Type::text, "", "the format or block format of all tensors that are rounded"},
      {"mix", Type::path, "", "a file of formats by tensor, as halfulp choose --mix writes it, instead of one format"},
      {"tensors", Type::text, "*", "with a format: globs of the tensors that are rounded, separated by commas"},
      {"keep", Type::text, "", "with a format: globs of tensors that stay as they are stored"},
      {"axes", Type::integer, "2", "with a format: tensors of fewer axes (norms, biases) stay as they are stored", 0,
       8},
      choice("layout", as_values, "rounded tensors as values, or as code words and scales in somebody's layout",
             stores),
      choice("dtype", own_dtype, "of values: each tensor's own (BF16 where that has less than 8 bits), or one for all",
             storable_dtypes()),
      choice("round", "nearest-even", "how elements are rounded", names_of(rounding_modes)),
      choice("overflow", "saturate", "what becomes of values beyond a plain format", names_of(overflow_rules)),
      {"seed", Type::integer, "1", "of stochastic rounding", 0, 9007199254740992.0}};
}

/// A mix: the format of each tensor that is rounded, by its name.
std::map<std::string, std::string> read_mix(const std::string& path) {
  const InputFile file(path, "a mix, as halfulp choose --mix writes it");
  if (file.size() > longest_safetensors_header)
    refuse_file(path, fmt::format("{} bytes; accepted: a mix of at most {}", file.size(), longest_safetensors_header));
  const nlohmann::json json = parse_large_json(file.text(0, static_cast<std::size_t>(file.size())), path);
  const bool is_mix = json.is_object() && json.value("version", nlohmann::json()) == 1 && json.contains("tensors") &&
                      json["tensors"].is_object();
  if (!is_mix)
    refuse_file(path, R"(not a mix; accepted: {"version": 1, "tensors": {NAME: FORMAT, ...}}, as halfulp choose --mix )"
                      "writes it");
  std::map<std::string, std::string> mix;
  for (const auto& [name, format] : json["tensors"].items()) {
    if (!format.is_string()) refuse_file(path, fmt::format("tensor {}: its format is no text", shown_name(name)));
    mix[name] = format.get<std::string>();
  }
  return mix;
}

/// What is rounded to what. Formats lie in `formats`, each once.
std::vector<Rewritten> chosen_tensors(const Config& config, const ModelTensors& model,
                                      std::deque<ChosenFormat>& formats) {
  std::vector<Rewritten> chosen;
  const std::string one = config.text("format"), mix_path = config.text("mix");
  if (one.empty() == mix_path.empty())
    throw std::invalid_argument(
        fmt::format("{}; accepted: one of a format (such as mxfp8e4m3) and a mix (a file)",
                    one.empty() ? "neither a format nor a mix is given" : "both a format and a mix are given"));
  const auto format = [&](const std::string& name, const std::string& where) -> const ChosenFormat* {
    for (const ChosenFormat& f : formats)
      if (f.name == name) return &f;
    const std::vector<ChosenFormat> parsed = chosen_formats(name, where);
    if (parsed.size() != 1)
      throw std::invalid_argument(fmt::format("{}: {} formats; accepted: one", where, parsed.size()));
    formats.push_back(parsed.front());
    return &formats.back();
  };
  if (!one.empty()) {
    const ChosenFormat* const f = format(one, "format");
    const NameGlobs tensors(config, "tensors", model), keep(config, "keep", model);
    for (const ModelTensor& t : model.tensors())
      if (tensors.match(t.name) && !keep.match(t.name) &&
          t.shape.size() >= static_cast<std::size_t>(config.integer("axes")) && t.count > 0)
        chosen.push_back({&t, f});
    if (chosen.empty())
      throw std::invalid_argument(
          fmt::format("tensors: no tensor of floats of {} is left to be rounded; accepted: globs "
                      "that match one of {} axes or more, and some elements",
                      model.files().path(), config.integer("axes")));
    return chosen;
  }
  const Json given = config.to_json(), defaults = Config(quantize_parameters()).to_json();
  for (const char* name : {"tensors", "keep", "axes"})
    if (given[name] != defaults[name])
      throw std::invalid_argument(fmt::format("{}: goes with a format; a mix says itself what is rounded", name));
  std::map<std::string, std::string> mix = read_mix(mix_path);
  for (const ModelTensor& t : model.tensors())
    if (const auto found = mix.find(t.name); found != mix.end()) {
      chosen.push_back({&t, format(found->second, fmt::format("{}: tensor {}", mix_path, shown_name(t.name)))});
      mix.erase(found);
    }
  if (!mix.empty())
    refuse_file(mix_path, fmt::format("tensor {} is no tensor of floats in {}", shown_name(mix.begin()->first),
                                      model.files().path()));
  return chosen;
}

Destination destination_of(const Config& config) {
  Destination to;
  to.path = config.text("output");
  if (!to.path.ends_with(".safetensors") || to.path == ".safetensors")
    throw std::invalid_argument(fmt::format("output: {}; accepted: the name of a .safetensors file",
                                            to.path.empty() ? "a file is missing" : shown(to.path)));
  const std::string layout = config.text("layout"), dtype = config.text("dtype");
  for (const std::string_view writer : layout_writers())
    if (writer == layout) to.writer = writer;
  to.dtype = find_element_type(dtype);
  if (to.dtype && !to.writer.empty()) throw std::invalid_argument("dtype is for values, and a layout has its own");
  to.rounding.mode = parse_rounding_mode(config.text("round"));
  to.rounding.overflow = value_named(overflow_rules, "overflow", config.text("overflow"));
  to.seed = static_cast<std::uint64_t>(config.integer("seed"));
  return to;
}

void report_tensors(Run& run, const std::vector<Rewritten>& tensors) {
  Table& table = run.report.table(
      "tensors", "What became of each rounded tensor",
      {{"tensor", "", "Name of the tensor."},
       {"was", "", "Its dtype in the checkpoint, or the block format of its code words and scales."},
       {"format", "", "The format to which it was rounded."},
       {"stored_as", "", "The dtype of its values in the new file, or the layout of its code words and scales."},
       {"bytes_before", "byte", "Of all that was stored for it."},
       {"bytes", "byte", "Of all that is."},
       {"relative_error", "1", "Norm of the errors over that of the values; null where nothing stays finite."},
       {"sqnr", "dB", "Signal to quantization noise; null where nothing was lost."},
       {"largest_error", "1", "Largest error of an element; null where nothing stays finite."},
       {"saturated", "value", "Elements beyond the largest value that their block can hold."},
       {"to_zero", "value", "Elements that became zero."},
       {"not_finite", "value", "Finite elements that became infinite or NaN."},
       {"rounded_again", "value", "Elements that the dtype does not hold as the format made them; null in a layout."}});
  for (const Rewritten& t : tensors)
    table.row({t.tensor->name, t.tensor->stored_as(), t.format->name, t.stored_as, t.tensor->bytes, t.bytes,
               relative_error(t.loss), sqnr(t.loss), t.loss.compared ? number(t.loss.largest_error) : Json(),
               t.loss.saturated, t.loss.to_zero, t.loss.became_infinite + t.loss.became_nan,
               t.layout ? Json() : Json(t.rounded_again)});
}

void report_formats(Run& run, const std::vector<Rewritten>& tensors, const Copies& copies) {
  struct Sum {
    std::uint64_t tensors = 0, elements = 0, before = 0, bytes = 0, lossless = 0;
    Loss loss;
  };
  Table& table = run.report.table(
      "formats", "What was written",
      {{"format", "", "Of rounded tensors; `copied`: tensors that are what they were; `all` of both."},
       {"tensors", "tensor", "How many; of copied ones as safetensors counts them."},
       {"bytes_before", "byte", "Of them in the checkpoint."},
       {"bytes", "byte", "Of them in the new file."},
       {"bits", "bit", "Of an element in the new file; null where copied tensors are among them."},
       {"sqnr", "dB", "Signal to quantization noise; null where nothing was lost."},
       {"not_finite", "value", "Finite elements that became infinite or NaN; the ratio leaves them out."},
       {"lossless", "tensor", "Tensors of which every element stays what it is."}});
  std::vector<std::pair<std::string, Sum>> sums;
  const Sum copied{copies.tensors, 0, copies.bytes, copies.bytes, copies.tensors, {}};
  Sum all = copied;
  for (const Rewritten& t : tensors) {
    auto found = std::find_if(sums.begin(), sums.end(), [&](const auto& s) { return s.first == t.format->name; });
    if (found == sums.end()) found = sums.emplace(sums.end(), t.format->name, Sum{});
    for (Sum* const s : {&found->second, &all})
      ++s->tensors, s->elements += t.tensor->count, s->before += t.tensor->bytes, s->bytes += t.bytes,
          s->lossless += t.loss.is_lossless(), s->loss.add(t.loss);
  }
  const auto row = [&](const std::string& name, const Sum& s) {
    table.row({name, s.tensors, s.before, s.bytes,
               s.elements && name != "all" ? number(8 * static_cast<double>(s.bytes) / static_cast<double>(s.elements))
                                           : Json(),
               s.elements ? sqnr(s.loss) : Json(), s.loss.became_infinite + s.loss.became_nan, s.lossless});
  };
  for (const auto& [name, sum] : sums) row(name, sum);
  row("copied", copied);
  row("all", all);
}

void quantize_checkpoint(const Config& config, Run& run) {
  const Destination to = destination_of(config);
  const ModelTensors model(checkpoint_path(config));
  std::deque<ChosenFormat> formats;
  std::vector<Rewritten> tensors = chosen_tensors(config, model, formats);
  for (const ChosenFormat& f : formats)
    if (const auto* const plain = std::get_if<FloatFormat>(&f.format);
        plain &&
        (plain->fraction_bits > fp32.fraction_bits || plain->emax() > fp32.emax() || plain->emin() < fp32.emin()))
      throw std::invalid_argument(fmt::format(
          "format: {} is wider than fp32, and tensors are rounded as floats; accepted: what fp32 holds", f.name));
  if (to.writer.empty())
    for (const ChosenFormat& f : formats)
      if (const BlockFormat* const block = f.block(); block && block->whole)
        throw std::invalid_argument(
            fmt::format("format: {} refuses blocks that a tensor's edge cuts short; accepted: without /whole", f.name));
  TimedProgress progress(run);
  const Copies copies = write_checkpoint(model, tensors, to, [&](double share) { progress.advance(share); });

  report_formats(run, tensors, copies);
  Table& file = run.report.table(
      "file", "The new file",
      {{"bytes", "byte", "Of all of it, the header included."},
       {"written", "", "1, or 0: not everything read back as it was meant, so there is no file."}});
  file.row({copies.file, copies.placed ? 1 : 0});
  report_tensors(run, tensors);
  std::vector<const StorageLayout*> layouts;
  for (const Rewritten& t : tensors)
    if (t.layout) layouts.push_back(t.layout);
  report_layouts(run, layouts);
  std::uint64_t misread = 0;
  for (const Rewritten& t : tensors) misread += t.misread;
  run.report.claim({"rounded-values-read-back",
                    "Every rounded value reads back from the new file as it was computed, by the layout or the dtype.",
                    "derived: the values before they were written; huggingface/safetensors, README.md, Format"},
                   tensors.empty() ? "no tensor is rounded" : "", [&] { return exactly(0, misread, "oracle"); });
  run.report.claim({"copied-tensors-are-the-same", "Every other tensor has the bytes, dtype and shape that it had.",
                    "derived: the checkpoint's own bytes"},
                   copies.tensors == 0 ? "every tensor is rounded" : "",
                   [&] { return exactly(0, copies.differing, "oracle"); });
}

std::string finding_of_quantized(const ReportTables& tables) {
  const auto rows = tables.rows("formats");
  if (rows.empty()) return {};
  const TableRow& all = rows.back();
  const auto totals = tables.rows("file");
  if (!totals.empty() && totals[0].number("written") == 0)
    return "nothing was written: not everything read back as it was meant";
  const double percent = 100 * all.number("bytes") / std::max(1.0, all.number("bytes_before"));
  const std::string why = percent == 100 && all["sqnr"].is_number() ? ", without a layout of code words" : "";
  if (all.number("not_finite") > 0)
    return fmt::format("{:.3g} % of the bytes; {} finite values became infinite or NaN", percent,
                       all.whole("not_finite"));
  if (all["sqnr"].is_null())
    return fmt::format("{:.3g} % of the bytes{}", percent,
                       all.number("lossless") == all.number("tensors")
                           ? ", and every value is kept"
                           : "; every finite value is kept, infinities and NaN are not");
  return fmt::format("{:.3g} % of the bytes{}; rounded tensors keep {:.1f} dB", percent, why, all.number("sqnr"));
}

}  // namespace
}  // namespace checkpoint

Experiment checkpoint_quantized_experiment() {
  return {"checkpoint_quantized",
          "A checkpoint written in other formats",
          "What does the new file keep, and is every byte of it as it was meant?",
          checkpoint::quantize_parameters,
          checkpoint::quantize_checkpoint,
          checkpoint::finding_of_quantized,
          {"formats", {"format", "tensors", "bytes_before", "bytes", "bits", "sqnr"}, {}, {}}};
}

}  // namespace halfulp
