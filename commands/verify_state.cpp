#include <halfulp/commands/verification.hpp>

#include <halfulp/report/environment.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/files.hpp>

#include <fmt/format.h>

#include <filesystem>

namespace halfulp::cli {
namespace {

constexpr int state_version = 1;
constexpr const char* state_kind = "halfulp verify state";

std::string checksum(const Json& runs) {
  const std::string text = runs.dump();
  return hex_word(verify::chunk_digest(std::as_bytes(std::span(text))));
}

[[noreturn]] void refuse_state(const std::string& path, const std::string& why) {
  throw std::invalid_argument(
      fmt::format("state file '{}' {}; give another --state, or remove it to start anew", path, why));
}

void fill(Verification& v, const Json& json) {
  v.seconds = json.at("seconds").get<double>();
  const std::uint64_t chunks = verify::number_of_chunks(v.operands);
  for (const Json& row : json.at("chunks")) {
    verify::Chunk chunk = chunk_from_json(row);
    if (chunk.index >= chunks || !v.chunks.emplace(chunk.index, chunk).second) throw std::invalid_argument("chunks");
  }
}

}  // namespace

Json question(const Verification& v) {
  return {{"task", task_to_json(v.task)}, {"inputs", operands_to_json(v.operands)}, {"against", v.reference->name()}};
}

std::string program(const Verification& v) {
  return version_text() + ", " + verify::verified_functions(*v.reference, v.task);
}

void load_state(const std::string& path, std::vector<Verification>& run) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  const Json json = read_json(path);
  if (!json.is_object() || json.value("kind", Json()) != Json(state_kind))
    refuse_state(path, "is no state file of halfulp verify");
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_integer()) refuse_state(path, "is damaged (no version)");
  if (*version > state_version)
    refuse_state(path,
                 fmt::format("is of version {}, newer than the {} of this program", version->dump(), state_version));
  const auto runs = json.find("runs");
  if (runs == json.end() || !runs->is_array() || json.value("checksum", Json()) != Json(checksum(*runs)))
    refuse_state(path, "is damaged (its checksum is wrong)");
  for (const Json& one : *runs)
    if (!one.is_object()) refuse_state(path, "is damaged (a run is no object)");
  const bool same_size = runs->size() == run.size();
  for (std::size_t i = 0; i < run.size(); ++i)
    if (!same_size || runs->at(i).value("question", Json()) != question(run[i]))
      refuse_state(path, "belongs to another task");
  for (std::size_t i = 0; i < run.size(); ++i)
    if (const Json theirs = runs->at(i).value("program", Json()); theirs != Json(program(run[i])))
      refuse_state(path, fmt::format("is of another program ({}, this is {})", theirs.dump(), program(run[i])));
  std::vector<Verification> filled = run;
  try {
    for (std::size_t i = 0; i < run.size(); ++i) fill(filled[i], runs->at(i));
  } catch (const std::invalid_argument&) { refuse_state(path, "is damaged"); } catch (const Json::exception&) {
    refuse_state(path, "is damaged");
  }
  run = std::move(filled);
}

void save_state(const std::string& path, const std::vector<Verification>& run) {
  Json runs = Json::array();
  for (const Verification& v : run) {
    Json json = Json::object();
    json["question"] = question(v);
    json["program"] = program(v);
    json["seconds"] = v.seconds;
    json["chunks"] = Json::array();
    for (const auto& [index, chunk] : v.chunks) json["chunks"].push_back(chunk_to_json(v.task, chunk));
    runs.push_back(std::move(json));
  }
  Json json = Json::object();
  json["kind"] = state_kind;
  json["version"] = state_version;
  json["checksum"] = checksum(runs);
  json["runs"] = std::move(runs);
  write_file(path, pretty(json));
}

}  // namespace halfulp::cli
