#include <halfulp/commands/verification.hpp>

#include <halfulp/cuda/gpu_device.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/environment.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

namespace halfulp::cli {
namespace {

/// A whole number from 0 on. (The JSON library converts any number, and what is beyond 2^64 is undefined.)
std::uint64_t unsigned_of(const Json& json) {
  if (!json.is_number_unsigned()) throw std::invalid_argument("a number that is not whole, from 0 on");
  return json.get<std::uint64_t>();
}

constexpr const char* ledger_kind = "halfulp ledger";
constexpr int ledger_version = 1;

bool same(const Json& x, const Json& y, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (x.value(key, Json()) != y.value(key, Json())) return false;
  return true;
}

/// Whether an entry has what `enter` looks at.
bool whole(const Json& entry) {
  const auto text = [&](const char* key) { return entry.contains(key) && entry[key].is_string(); };
  return entry.is_object() && entry.contains("task") && entry.contains("inputs") && text("date") && text("machine") &&
         text("digest") && entry.contains("against") && entry["against"].is_object() &&
         entry["against"].contains("reference");
}

}  // namespace

Json read_ledger(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return Json::array();
  Json json = read_json(path);
  const bool known = json.is_object() && json.value("kind", Json()) == Json(ledger_kind) &&
                     json.value("version", Json()) == Json(ledger_version);
  if (!known || !json.contains("entries") || !json["entries"].is_array())
    throw std::invalid_argument(fmt::format(
        "'{}' is no ledger of version {}; accepted: a file that verify --ledger wrote, or a new one for --ledger", path,
        ledger_version));
  for (std::size_t i = 0; i < json["entries"].size(); ++i)
    if (!whole(json["entries"][i]))
      throw std::invalid_argument(
          fmt::format("'{}': entries[{}] is no entry that verify --ledger wrote; accepted: a file that it wrote, or a "
                      "new one for --ledger",
                      path, i));
  return json["entries"];
}

std::vector<std::string> enter(const std::string& path, const Json& entry) {
  const FileLock lock(path, FileLock::IfTaken::wait);  // between reading and writing no other run may write
  Json entries = read_ledger(path);
  std::vector<std::string> contradictions;
  Json* place = nullptr;
  for (Json& other : entries) {
    if (!same(other, entry, {"task", "inputs"})) continue;
    const Json &theirs = other.at("against"), &mine = entry.at("against");
    const bool one_device = theirs.value("device", Json()) == mine.value("device", Json());
    if (same(other, entry, {"machine"}) && theirs.at("reference") == mine.at("reference") && one_device) {
      place = &other;
    } else if (!same(other, entry, {"digest"})) {
      contradictions.push_back(fmt::format("the digest differs from that of {} on {}: {}",
                                           other.at("date").get<std::string>(), other.at("machine").get<std::string>(),
                                           other.at("digest").get<std::string>()));
    }
  }
  if (place) *place = entry;
  else entries.push_back(entry);
  Json json = Json::object();
  json["kind"] = ledger_kind;
  json["version"] = ledger_version;
  json["entries"] = std::move(entries);
  write_file(path, pretty(json));
  return contradictions;
}

std::vector<std::string> recheck(const Json& entry, std::size_t most) {
  std::vector<std::string> wrong;
  try {
    const Task task = task_from_json(entry.at("task"));
    const OperandSet operands = operands_from_json(task, entry.at("inputs"));
    const Json& chunks = entry.at("chunks");
    const auto stride = unsigned_of(entry.at("chunk_stride"));
    if (stride == 0 || chunks.size() != (verify::number_of_chunks(operands) + stride - 1) / stride)
      throw std::invalid_argument("the chunks are not those of the inputs");
    // A chunk of all triples is more than a host computes in passing; all its digests are there
    // instead.
    const std::size_t count = operands.all_triples() ? 0 : std::min(most, chunks.size());
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = count < 2 ? 0 : k * (chunks.size() - 1) / (count - 1);
      const std::uint64_t index = i * stride, now = verify::verify_chunk(task, operands, nullptr, index).digest;
      if (Json(hex_word(now)) != chunks[i])
        wrong.push_back(fmt::format("{}, chunk {}: {} now, {} in the ledger", task.description(), index, hex_word(now),
                                    chunks[i].dump()));
    }
    // Short entries can be recomputed whole.
    if (stride == 1 || chunks.size() == verify::number_of_chunks(operands)) {
      std::vector<std::uint64_t> digests;
      for (const Json& chunk : chunks) digests.push_back(parse_hex_word(chunk));
      if (Json(verify::digest(digests)) != entry.at("digest"))
        wrong.push_back(task.description() + ": the digest is not that of its chunks");
    }
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string("an entry of the ledger cannot be read: ") + error.what());
  }
  return wrong;
}

namespace {

/// Every 16th chunk digest is kept in the ledger: enough to find where two machines part, and small in git.
constexpr std::uint64_t chunk_stride = 16;

constexpr std::array<Named<Inputs>, 4> input_kinds{
    {{"all", Inputs::all}, {"pairs", Inputs::pairs}, {"sample", Inputs::sample}, {"recorded", Inputs::listed}}};

Json witness_to_json(const Task& task, const Mismatch& w) {
  Json json = Json::object();
  json["operands"] = Json::array();
  for (int i = 0; i < w.arity; ++i)
    json["operands"].push_back(operand_text(task, w.operands[static_cast<std::size_t>(i)]));
  json["ours"] = result_text(task, w.emulated);
  json["theirs"] = result_text(task, w.device);
  if (w.has_flags) json["flags"] = {w.emulated_flags, w.device_flags};
  return json;
}

/// The code word that a text such as "0x3c00 (1)" begins with.
std::uint64_t leading_code(const Json& json) {
  return parse_hex_word(json.get<std::string>().substr(0, json.get<std::string>().find(' ')));
}

Mismatch witness_from_json(const Json& json) {
  Mismatch w;
  for (const Json& operand : json.at("operands"))
    w.operands.at(static_cast<std::size_t>(w.arity++)) = leading_code(operand);
  w.emulated = leading_code(json.at("ours"));
  w.device = leading_code(json.at("theirs"));
  if (json.contains("flags")) {
    w.has_flags = true;
    w.emulated_flags = json.at("flags").at(0);
    w.device_flags = json.at("flags").at(1);
  }
  return w;
}

Json nans_to_json(const Verification& v) {
  if (!v.nans) return "the reference's NaN is the canonical one";
  Json json = Json::object();
  json["rule"] = name_of(v.nans->task.rounding.nan);
  json["compared"] = v.nans->compared;
  json["differing"] = v.nans->differing;
  json["classes"] = v.nans->classes;
  return json;
}

std::string classes_text(const std::map<std::string, std::uint64_t>& classes) {
  std::string text;
  for (const auto& [name, count] : classes) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count);
  return text;
}

std::string inputs_text(const OperandSet& operands) {
  switch (operands.kind) {
    case Inputs::all: return "all inputs";
    case Inputs::pairs:
      return fmt::format("all pairs with {} addend{}", operands.addends.size(),
                         operands.addends.size() == 1 ? "" : "s");
    case Inputs::sample:
      return fmt::format("a sample, the first {} boundary cases, seed {}", operands.boundary, operands.seed);
    case Inputs::listed: return "all that it was asked";
  }
  return "";
}

std::string mismatch_text(const Task& task, const Mismatch& w) {
  std::string operands;
  for (int i = 0; i < w.arity; ++i)
    operands += (i ? ", " : "") + operand_text(task, w.operands[static_cast<std::size_t>(i)]);
  std::string text = fmt::format("    {}: {} here, {} there", operands, result_text(task, w.emulated),
                                 result_text(task, w.device));
  if (w.has_flags) text += fmt::format(", flags {:02x} and {:02x}", w.emulated_flags, w.device_flags);
  return text + "\n";
}

}  // namespace

Comparison Verification::found() const {
  Comparison total;
  total.approximate = approximate;
  for (const auto& [index, chunk] : chunks) total += chunk.found;
  return total;
}

std::string Verification::digest() const {
  std::vector<std::uint64_t> digests;
  for (const auto& [index, chunk] : chunks) digests.push_back(chunk.digest);
  return verify::digest(digests);
}

std::string operand_text(const Task& task, std::uint64_t code) {
  const auto& f = std::get<FloatFormat>(task.from);
  return fmt::format("{} ({})", print_code(f, code), print(f, code));
}

std::string result_text(const Task& task, std::uint64_t code) {
  if (info(task.operation).result == ResultKind::truth) return fmt::format("0x{:x}", code);
  const auto& f = std::get<FloatFormat>(task.to);
  return fmt::format("{} ({})", print_code(f, code), print(f, code));
}

Json task_to_json(const Task& task) {
  const Rounding& r = task.rounding;
  Json json = Json::object();
  json["operation"] = info(task.operation).name;
  json["from"] = number_type_name(task.from);
  json["to"] = number_type_name(task.to);
  json["round"] = name_of(r.mode);
  json["overflow"] = name_of(r.overflow);
  json["flush_inputs"] = r.flush_inputs;
  json["tininess"] = name_in(tininess_rules, r.tininess);
  return json;
}

Task task_from_json(const Json& json) {
  const auto text = [&](const char* key) { return json.at(key).get<std::string>(); };
  Task task;
  task.operation = parse_operation(text("operation"));
  task.from = parse_format(text("from"));
  task.to = parse_format(text("to"));
  task.rounding.mode = value_named(rounding_modes, "rounding mode", text("round"));
  task.rounding.overflow = value_named(overflow_rules, "overflow rule", text("overflow"));
  task.rounding.flush_inputs = json.at("flush_inputs").get<bool>();
  task.rounding.tininess = value_named(tininess_rules, "tininess rule", text("tininess"));
  if (const std::string why = refusal(task); !why.empty()) throw std::invalid_argument(why);
  return task;
}

Json operands_to_json(const OperandSet& operands) {
  Json json = Json::object();
  json["kind"] = name_in(input_kinds, operands.kind);
  json["count"] = operands.count;
  switch (operands.kind) {
    case Inputs::all: break;
    case Inputs::pairs:
      json["addends"] = Json::array();
      for (const std::uint64_t c : operands.addends) json["addends"].push_back(print_code(operands.from, c));
      break;
    case Inputs::sample: json["boundary"] = operands.boundary, json["seed"] = operands.seed; break;
    case Inputs::listed: json["of"] = operands.origin; break;
  }
  return json;
}

OperandSet operands_from_json(const Task& task, const Json& json) {
  const auto count = unsigned_of(json.at("count"));
  const Inputs kind = value_named(input_kinds, "kind of inputs", json.at("kind").get<std::string>());
  OperandSet operands;
  switch (kind) {
    case Inputs::all:
      if (number_of_operands(task)) operands = all_operands(task);
      break;
    case Inputs::pairs: {
      std::vector<std::uint64_t> addends;
      for (const Json& c : json.at("addends")) addends.push_back(parse_hex_word(c.get<std::string>()));
      operands = pairs_with(task, std::move(addends));
      break;
    }
    case Inputs::sample:
      operands = sampled_operands(task, count, unsigned_of(json.at("seed")));
      if (operands.boundary != unsigned_of(json.at("boundary"))) operands.count = 0;
      break;
    case Inputs::listed: operands = verify::recorded_operands(task, json.at("of").get<std::string>()); break;
  }
  if (operands.kind != kind || operands.count != count || count == 0)
    throw std::invalid_argument("inputs of unknown number");
  return operands;
}

Json chunk_to_json(const Task& task, const verify::Chunk& chunk) {
  Json json = Json::object();
  json["index"] = chunk.index;
  json["digest"] = hex_word(chunk.digest);
  json["compared"] = chunk.found.compared;
  if (chunk.found.differing == 0) return json;
  json["differing"] = chunk.found.differing;
  if (chunk.found.farthest) json["farthest"] = chunk.found.farthest;
  json["classes"] = chunk.found.classes;
  for (const Mismatch& w : chunk.found.witnesses) json["witnesses"].push_back(witness_to_json(task, w));
  return json;
}

verify::Chunk chunk_from_json(const Json& json) {
  verify::Chunk chunk;
  chunk.index = unsigned_of(json.at("index"));
  chunk.digest = parse_hex_word(json.at("digest"));
  chunk.found.compared = unsigned_of(json.at("compared"));
  if (!json.contains("differing")) return chunk;
  chunk.found.differing = unsigned_of(json.at("differing"));
  if (json.contains("farthest")) chunk.found.farthest = unsigned_of(json.at("farthest"));
  for (const auto& [name, count] : json.at("classes").items()) chunk.found.classes[name] = unsigned_of(count);
  for (const Json& w : json.at("witnesses")) chunk.found.witnesses.push_back(witness_from_json(w));
  return chunk;
}

Json entry_of(const Verification& v) {
  const Comparison found = v.found();
  const Json environment = describe_environment(0, "");
  Json json = Json::object();
  json["task"] = task_to_json(v.task);
  json["inputs"] = operands_to_json(v.operands);
  json["against"] = {{"reference", v.reference->name()},
                     {"independence", v.reference->independence()},
                     {"route", v.reference->supports(v.task).route}};
  if (cuda::gpu_of(*v.reference) || verify::is_recorded(*v.reference))
    json["against"]["device"] = v.reference->description();  // `machine` is not what answered
  if (!v.skipped.empty()) {
    json["skipped"] = v.skipped;
    return json;
  }
  json["verified"] = verify::verified_functions(*v.reference, v.task);
  json["flags_compared"] = verify::make_reference(*v.reference, v.task, v.operands)->knows_flags();
  json["compared"] = found.compared;
  json["differing"] = found.differing;
  if (v.approximate) json["approximate"] = true;
  if (found.farthest) json["farthest"] = found.farthest;
  json["classes"] = found.classes;
  json["witnesses"] = Json::array();
  for (const Mismatch& w : found.witnesses) json["witnesses"].push_back(witness_to_json(v.task, w));
  json["nan"] = nans_to_json(v);
  json["digest"] = v.digest();
  const std::uint64_t stride = v.operands.all_triples() ? 1 : chunk_stride;
  json["chunk_stride"] = stride;
  json["chunks"] = Json::array();
  for (const auto& [index, chunk] : v.chunks)
    if (index % stride == 0) json["chunks"].push_back(hex_word(chunk.digest));
  json["machine"] = environment.at("cpu");
  json["compiler"] = environment.at("compiler");
  json["version"] = environment.at("version");
  json["revision"] = environment.at("revision").get<std::string>() +
                     (environment.at("dirty") == Json(true) ? ", modified" : "");
  json["date"] = environment.at("date");
  json["seconds"] = std::round(v.seconds * 100) / 100;
  return json;
}

std::string text_of(const Verification& v, const Style& style) {
  const auto& reference = *v.reference;
  const std::string overflow = v.task.rounding.overflow == Overflow::saturate ? " saturate" : "";
  const std::string independence = reference.name() == reference.independence()
                                       ? ""
                                       : fmt::format(" ({})", reference.independence());
  std::string text = fmt::format("{}{}{} against {}{}\n", v.task.description(), overflow,
                                 v.task.rounding.flush_inputs ? " flush-inputs" : "", reference.name(), independence);
  if (!v.skipped.empty()) return text + "  " + style.verdict("skipped") + ": " + v.skipped + "\n";
  const Comparison found = v.found();
  const bool flags = verify::make_reference(reference, v.task, v.operands)->knows_flags();
  text += fmt::format("  verified {}{}; reference: {}\n", verify::verified_functions(reference, v.task),
                      flags ? " and the flags of the scalar functions" : "", reference.supports(v.task).route);
  const std::string differ = style.painted(fmt::format("{} differ", found.differing), !found.differing ? Paint::pass
                                                                                      : v.approximate  ? Paint::differs
                                                                                                       : Paint::fail);
  text += fmt::format(
      "  compared {} ({}), {}{}, {:.1f} s, {:.3f} G/s\n", found.compared, inputs_text(v.operands), differ,
      found.differing
          ? " (" + classes_text(found.classes) +
                (found.farthest ? fmt::format("; farthest {} unit{}", found.farthest, found.farthest == 1 ? "" : "s")
                                : "") +
                ")"
          : "",
      v.seconds, static_cast<double>(found.compared) / std::max(v.seconds, 1e-9) * 1e-9);
  if (found.differing && v.approximate)
    text += "  this route need not be correctly rounded, so differences are no failure\n";
  for (const Mismatch& w : found.witnesses) text += mismatch_text(v.task, w);
  if (v.nans) {
    text += fmt::format(
        "  NaN: canonical above; by the reference's rule ({}) on {} NaN results of {} {} inputs {} differ{}\n",
        name_of(v.nans->task.rounding.nan), v.nans->compared,
        v.operands.count > verify::nan_operands ? "a sample of" : "the",
        std::min(v.operands.count, verify::nan_operands), v.nans->differing,
        v.nans->differing ? " (" + classes_text(v.nans->classes) + ")" : "");
    for (const Mismatch& w : v.nans->witnesses) text += mismatch_text(v.task, w);
  }
  return text + "  digest " + v.digest() + "\n";
}

std::string hex_word(std::uint64_t word) { return fmt::format("0x{:016x}", word); }

std::uint64_t parse_hex_word(const std::string& text) {
  std::uint64_t word = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data() + std::min<std::size_t>(2, text.size()), end, word, 16);
  if (text.substr(0, 2) != "0x" || error != std::errc{} || stopped != end)
    throw std::invalid_argument("not a hexadecimal word: '" + text + "'");
  return word;
}

}  // namespace halfulp::cli
