// `halfulp probe`: which matrix unit is this? What was found, as text and as JSON.
#include <halfulp/commands/command_line.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/evidence/devices.hpp>
#include <halfulp/evidence/probe/infer.hpp>
#include <halfulp/evidence/probe/questions.hpp>
#include <halfulp/hardware/unit_file.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/report/runner.hpp>
#include <halfulp/support/json.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>

namespace halfulp::cli {

namespace {

using probe::Alternative, probe::Finding, probe::Identification, probe::ValueRange, probe::InferredModel,
    probe::Refutation, probe::info, probe::operands_text, probe::sentence, probe::text;

constexpr std::size_t width = 100;

std::string number_of(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string shape_text(const MatrixShape& s) {
  std::string text = fmt::format("{} x {} + {}, k = {}", format_name(s.a), format_name(s.b), format_name(s.accumulator),
                                 s.k);
  if (s.scale_block != 0) text += fmt::format(", {} scales of {} products", format_name(s.scale), s.scale_block);
  return text;
}

std::string together_text(const std::vector<Alternative>& alternatives) {
  std::string text;
  for (const Alternative& a : alternatives)
    text += fmt::format("{}{}{} with {}", text.empty() ? "" : "; ", name_of(a.alignment),
                        a.normalized ? ", products normalised," : "",
                        a.bits.first == a.bits.last ? number_of(static_cast<std::size_t>(a.bits.first), "bit")
                                                    : fmt::format("{} to {} bits", a.bits.first, a.bits.last)) +
            (a.exponent_moves ? " and as much more or less for the least exponent" : "");
  return text;
}

std::string model_text(const MatrixShape& shape, const MatrixCases& cases, const InferredModel& model) {
  std::string out = fmt::format("rule {}: {}\n\n", model.unit.rule->name, model.unit.rule->description);
  for (const Finding& f : model.findings) {
    out += wrapped(sentence(shape, f), 2, width);
    if (f.parameter == probe::SumParameter::nan || f.witnesses.empty()) continue;
    // One question that tells neighbouring values apart.
    const Refutation& w = f.witnesses.front();
    std::string why = fmt::format("{} gives {}", operands_text(shape, cases, w.question),
                                  print_code(shape.accumulator, w.answer));
    why += fmt::format("; {} would give {}", text(shape, f.parameter, w.other),
                       print_code(shape.accumulator, w.other_answer));
    out += wrapped(why, 6, width);
  }
  if (!model.alternatives.empty())
    out += wrapped("changed together, these give the same answers: " + together_text(model.alternatives), 2, width);
  return out;
}

Json intervals_json(const MatrixShape& shape, const Finding& f) {
  Json ranges = Json::array();
  for (const ValueRange& i : f.values)
    ranges.push_back({text(shape, f.parameter, i.first), text(shape, f.parameter, i.last)});
  return ranges;
}

Json witness_json(const MatrixShape& shape, const MatrixCases& cases, const Finding& f, const Refutation& w) {
  const DotOperands x = cases.products(w.question);
  const auto words = [](const FloatFormat& format, std::span<const std::uint64_t> all) {
    Json list = Json::array();
    for (const std::uint64_t word : all) list.push_back(fmt::format("0x{:0{}x}", word, (word_bits(format) + 3) / 4));
    return list;
  };
  Json json{{"question", w.question},
            {"a", words(shape.a, x.a)},
            {"b", words(shape.b, x.b)},
            {"c", print_code(shape.accumulator, cases.c[w.question])}};
  if (shape.scale_block != 0)
    json["scale_a"] = words(shape.scale, x.scale_a), json["scale_b"] = words(shape.scale, x.scale_b);
  json["answer"] = print_code(shape.accumulator, w.answer);
  json["other"] = text(shape, f.parameter, w.other);
  json["other_answer"] = print_code(shape.accumulator, w.other_answer);
  return json;
}

Json model_json(const MatrixShape& shape, const MatrixCases& cases, const InferredModel& model) {
  Json json{{"rule", model.unit.rule->name}, {"parameters", Json::array()}, {"together", Json::array()}};
  for (const Finding& f : model.findings) {
    Json row{{"name", info(f.parameter).name},
             {"value", text(shape, f.parameter, f.value)},
             {"values", intervals_json(shape, f)}};
    row["because"] = f.because, row["proven"] = f.proven;
    row["witnesses"] = Json::array();
    for (const Refutation& w : f.witnesses) row["witnesses"].push_back(witness_json(shape, cases, f, w));
    json["parameters"].push_back(std::move(row));
  }
  for (const Alternative& a : model.alternatives)
    json["together"].push_back({{"alignment", name_of(a.alignment)},
                                {"normalized_products", a.normalized},
                                {"alignment_bits", {a.bits.first, a.bits.last}},
                                {"least_exponent_moves", a.exponent_moves}});
  return json;
}

/// Which units of the table answer so.
std::string verdict_text(const Identification& found) {
  if (!found.rows.empty()) return fmt::format("answers as {}", fmt::join(found.rows, ", "));
  if (found.nearest.empty()) return "no unit of the table has this shape";
  return fmt::format("no unit of the table gives these answers; {} differs least, in {}", found.nearest,
                     number_of(found.nearest_differs, "answer"));
}

/// A short explained list, lines of about a hundred characters.
std::string probe_text(const Device& device, const MatrixTask& task, const MatrixCases& cases,
                       const Identification& found) {
  const MatrixShape& shape = task.shape;
  std::string out = fmt::format("{}: {}\n{}\n", matrix_name(device, task), task.description, shape_text(shape));
  out += fmt::format("{}, {} that no model explains\n\n", number_of(found.questions, "question"),
                     number_of(found.unexplained, "answer"));
  for (const InferredModel& model : found.models) {
    if (&model == &found.models.front()) {
      out += model_text(shape, cases, model);
      continue;
    }
    std::string values;
    for (const Finding& f : model.findings)
      values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", info(f.parameter).name,
                            text(shape, f.parameter, f.value));
    out += "\n" + wrapped(fmt::format("the rule {} gives every answer as well, with {}", model.unit.rule->name, values),
                          0, width);
  }
  if (found.models.empty()) {
    out += "none of the rules known gives these answers\n";
    for (const std::string& line : found.observed) out += wrapped(line, 2, width);
  }
  return out + "\n" + wrapped(verdict_text(found), 0, width);
}

/// The same for programs: code words in hexadecimal text, ranges as pairs.
Json probe_json(const Device& device, const MatrixTask& task, const MatrixCases& cases, const Identification& found) {
  const MatrixShape& shape = task.shape;
  Json json{{"device", matrix_name(device, task)}, {"description", task.description}};
  json["shape"] = {{"a", format_name(shape.a)},
                   {"b", format_name(shape.b)},
                   {"accumulator", format_name(shape.accumulator)},
                   {"k", shape.k}};
  if (shape.scale_block != 0)
    json["shape"]["scale"] = format_name(shape.scale), json["shape"]["scale_block"] = shape.scale_block;
  json["questions"] = found.questions, json["unexplained"] = found.unexplained;
  json["models"] = Json::array();
  for (const InferredModel& model : found.models) json["models"].push_back(model_json(shape, cases, model));
  json["observed"] = found.observed;
  json["units"] = found.rows;
  json["nearest"] = found.nearest.empty() ? Json(nullptr)
                                          : Json{{"unit", found.nearest}, {"differs", found.nearest_differs}};
  return json;
}

struct ProbeArguments {
  std::string backend, file;
  bool json = false, quiet = false;
};

MatrixTasks asked_for(const ProbeArguments& options) {
  if (options.backend.empty() == options.file.empty())
    throw std::invalid_argument("which unit? accepted: one of --backend BACKEND and --unit-file FILE");
  if (!options.backend.empty()) return find_matrix_tasks(options.backend);
  std::shared_ptr<const Device> model = emulated_device_with(read_unit_file(options.file));
  return {model, model->matrix_tasks(), ""};
}

void probe_command(const ProbeArguments& options) {
  const MatrixTasks here = asked_for(options);
  std::string text, reason = here.reason;
  Json list = Json::array();
  for (const MatrixTask& task : here.tasks) {
    const Device& device = *here.device;
    if (!task.here.yes) {
      reason = task.here.reason;
      continue;
    }
    const MatrixCases cases = probe::questions(task.shape);
    std::vector<std::uint64_t> answers(cases.size());
    std::vector<char> known(cases.size());
    device.answered(task, cases, known);
    if (const auto count = std::count(known.begin(), known.end(), 1); static_cast<std::size_t>(count) < cases.size()) {
      reason = matrix_name(device, task) + " answers " + std::to_string(count) + " of the probe's " +
               std::to_string(cases.size()) + " questions";
      continue;
    }
    device.multiply(task, cases, answers);
    const probe::Identification found = probe::infer(task.shape, cases, answers);
    if (options.json) list.push_back(probe_json(device, task, cases, found));
    else if (options.quiet) text += matrix_name(device, task) + ": " + verdict_text(found) + "\n";
    else text += (text.empty() ? "" : "\n") + probe_text(device, task, cases, found);
  }
  if (text.empty() && list.empty()) throw BackendMissing("backend '" + options.backend + "' is not here: " + reason);
  write_output(options.json ? pretty(list) + "\n" : text);
}

}  // namespace

void add_probe_command(CLI::App& app, int&) {
  const auto options = std::make_shared<ProbeArguments>();
  CLI::App* command = app.add_subcommand("probe",
                                         "find out how a matrix unit adds, from its answers to chosen operands");
  command
      ->add_option("--backend", options->backend,
                   "emulated:UNIT, x86, cuda, recorded:NAME or rehearsal; x86 and those after it may be followed by "
                   ":UNIT, which picks one of their units")
      ->type_name("BACKEND");
  command->add_option("--unit-file", options->file, "a unit of your own, as mma takes it")->type_name("FILE");
  command->add_flag("--json", options->json, "as JSON, with all operands");
  command->add_flag("--quiet", options->quiet,
                    "only which units of the table answer so, one line for each that is asked");
  command->callback([options] { probe_command(*options); });
}

}  // namespace halfulp::cli
