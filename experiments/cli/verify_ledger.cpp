#include <halfulp/experiments/cli/verify_ledger.hpp>

#include <halfulp/experiments/cli/kept_file.hpp>
#include <halfulp/experiments/report/json_text.hpp>
#include <halfulp/experiments/report/output_file.hpp>

#include <fmt/format.h>

#include <filesystem>

namespace halfulp::cli {
namespace {

constexpr const char* kind = "halfulp ledger";
constexpr int ledger_version = 1;

bool same(const Json& x, const Json& y, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (x.value(key, Json()) != y.value(key, Json())) return false;
  return true;
}

/// Whether an entry has what `enter` looks at.
bool whole(const Json& entry) {
  const auto text = [&](const char* key) { return entry.contains(key) && entry[key].is_string(); };
  return entry.is_object() && entry.contains("task") && entry.contains("inputs") && text("date") && text("machine") && text("digest") &&
         entry.contains("against") && entry["against"].is_object() && entry["against"].contains("reference");
}

}  // namespace

Json read_ledger(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return Json::array();
  Json json = read_json(path);
  const bool known = json.is_object() && json.value("kind", Json()) == Json(kind) && json.value("version", Json()) == Json(ledger_version);
  if (!known || !json.contains("entries") || !json["entries"].is_array())
    throw std::invalid_argument(fmt::format("'{}' is no ledger of version {}; give the name of a new file, or of one that --ledger wrote", path, ledger_version));
  for (std::size_t i = 0; i < json["entries"].size(); ++i)
    if (!whole(json["entries"][i]))
      throw std::invalid_argument(fmt::format("'{}': entries[{}] is no entry that --ledger wrote; give the name of a new file, or mend it", path, i));
  return json["entries"];
}

std::vector<std::string> enter(const std::string& path, const Json& entry) {
  const FileLock lock(path, FileLock::IfTaken::wait);  // between reading and writing no other run may write
  Json entries = read_ledger(path);
  std::vector<std::string> contradictions;
  Json* place = nullptr;
  for (Json& other : entries) {
    if (!same(other, entry, {"task", "inputs"})) continue;
    if (same(other, entry, {"machine"}) && other.at("against").at("reference") == entry.at("against").at("reference")) {
      place = &other;
    } else if (!same(other, entry, {"digest"})) {
      contradictions.push_back(fmt::format("the digest differs from that of {} on {}: {}", other.at("date").get<std::string>(),
                                           other.at("machine").get<std::string>(), other.at("digest").get<std::string>()));
    }
  }
  if (place) *place = entry;
  else entries.push_back(entry);
  Json json;
  json["kind"] = kind;
  json["version"] = ledger_version;
  json["entries"] = std::move(entries);
  write_file(path, pretty(json));
  return contradictions;
}

std::vector<std::string> recheck(const Json& entry, std::size_t most) {
  std::vector<std::string> wrong;
  try {
    const Task task = task_from_json(entry.at("task"));
    const verify::Inputs inputs = inputs_from_json(task, entry.at("inputs"));
    const Json& chunks = entry.at("chunks");
    const auto stride = entry.at("chunk_stride").get<std::uint64_t>();
    if (stride == 0 || chunks.size() != (verify::number_of_chunks(inputs) + stride - 1) / stride) throw std::invalid_argument("the chunks are not those of the inputs");
    // A chunk of triples beyond most_inputs is more than a host computes in passing; all its digests are there instead.
    const std::size_t count = inputs.count > verify::most_inputs ? 0 : std::min(most, chunks.size());
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = count < 2 ? 0 : k * (chunks.size() - 1) / (count - 1);
      const std::uint64_t index = i * stride, now = verify::verify_chunk(task, inputs, nullptr, index).digest;
      if (hex_word(now) != chunks[i]) wrong.push_back(fmt::format("{}, chunk {}: {} now, {} in the ledger", task.description(), index, hex_word(now), chunks[i].dump()));
    }
    // Short entries can be recomputed whole.
    if (stride == 1 || chunks.size() == verify::number_of_chunks(inputs)) {
      std::vector<std::uint64_t> digests;
      for (const Json& chunk : chunks) digests.push_back(parse_hex_word(chunk));
      if (verify::digest(digests) != entry.at("digest")) wrong.push_back(task.description() + ": the digest is not that of its chunks");
    }
  } catch (const Json::exception& error) {
    throw std::invalid_argument(std::string("an entry of the ledger cannot be read: ") + error.what());
  }
  return wrong;
}

}  // namespace halfulp::cli
