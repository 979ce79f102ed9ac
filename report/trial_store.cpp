#include <halfulp/report/trial_store.hpp>

#include <halfulp/report/environment.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/input_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace halfulp {
namespace {

namespace fs = std::filesystem;

constexpr FramedFormat format{"halfulpT", 1, "a trial of a store", 2};
constexpr std::string_view marker = "halfulp-store.json", ending = ".trial";
constexpr int store_version = 1;

std::string digits_of(std::string_view kind, int version, const Json& item) {
  const std::string text = Json::array({kind, version, item}).dump();
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string folder_of(std::string_view kind, int version) { return fmt::format("{}-{}", kind, version); }

/// The whole of a regular file; nothing where there is none.
std::optional<std::string> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

bool is_hexadecimal(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The JSON of a file of this key. Throws std::invalid_argument without the file's name.
Json content_of(std::string_view file, const std::string& key) {
  Json content = parse_json(std::string(unframed(format, file)), "its text");
  for (const char* const name : {"kind", "version", "item", "made", "record"})
    if (!content.is_object() || !content.contains(name))
      throw std::invalid_argument(fmt::format("its text has no '{}'", name));
  if (!content["kind"].is_string() || !content["version"].is_number_integer())
    throw std::invalid_argument("its kind is no name with a version");
  const auto kind = content["kind"].get<std::string>();
  const auto version = content["version"].get<int>();
  if (folder_of(kind, version) + "/" + digits_of(kind, version, content["item"]) != key)
    throw std::invalid_argument("it is another trial than its name says");
  return content;
}

/// Where and by what a record was made. Nothing here differs between two runs of one program on one machine.
Json made_here() {
  static const Json made = [] {
    const Json all = describe_environment(1, "");
    Json some;
    for (const char* const name : {"version", "revision", "dirty", "compiler", "cpu", "cpu_features"})
      if (all.contains(name)) some[name] = all[name];
    return some;
  }();
  return made;
}

}  // namespace

std::string TrialKind::folder() const { return folder_of(name, version); }

std::string Trial::key(const TrialKind& kind) const {
  return kind.folder() + "/" + digits_of(kind.name, kind.version, item);
}

TrialStore::TrialStore(std::string folder, IfAbsent if_absent) : folder_(std::move(folder)) {
  const auto fail = [&](const std::string& why, const std::string& accepted) {
    throw std::invalid_argument(fmt::format("{}: {}; accepted: {}", folder_, why, accepted));
  };
  if (folder_.empty()) throw std::invalid_argument("the name of a store is empty; accepted: a folder");
  const bool makes = if_absent == IfAbsent::make;
  const std::string a_store = makes ? "a store, or a folder that is empty or not there" : "a store";
  const std::string path = (fs::path(folder_) / marker).string();
  std::error_code error;
  if (!fs::exists(folder_, error) && !makes) fail("there is no such folder", a_store);
  if (fs::exists(folder_, error) && !fs::is_directory(folder_, error)) fail("is no folder", a_store);
  if (fs::exists(path, error)) {
    Json json;
    try {
      json = read_json(path);
    } catch (const std::invalid_argument&) {}
    if (!json.is_object() || json.value("format", "") != "halfulp-store")
      fail(fmt::format("its {} is not that of a store", marker), a_store);
    if (json.value("version", Json()) != store_version)
      fail(fmt::format("a store of version {}", json.value("version", Json()).dump()),
           fmt::format("version {}", store_version));
    return;
  }
  // Hidden files may be those of another run that makes this store now.
  if (fs::exists(folder_, error))
    for (const auto& entry : fs::directory_iterator(folder_, error))
      if (!entry.path().filename().string().starts_with('.'))
        fail(fmt::format("no store of trials: it has no {}", marker), a_store);
  if (!makes) fail(fmt::format("no store of trials: it has no {}", marker), a_store);
  fs::create_directories(folder_, error);
  if (error) fail("cannot make the folder: " + error.message(), "a folder that can be written");
  write_file(path, Json{{"format", "halfulp-store"}, {"version", store_version}}.dump() + "\n");
}

std::string TrialStore::path_of(const std::string& key) const {
  const std::size_t slash = key.rfind('/');
  return (fs::path(folder_) / key.substr(0, slash) / key.substr(slash + 1, 2) / (key.substr(slash + 3).append(ending)))
      .string();
}

bool TrialStore::has(const TrialKind& kind, const Trial& trial) const {
  std::error_code error;
  return fs::is_regular_file(path_of(trial.key(kind)), error);
}

std::optional<Json> TrialStore::find(const TrialKind& kind, const Trial& trial) const {
  const std::string key = trial.key(kind), path = path_of(key);
  const std::optional<std::string> file = bytes_of(path);
  if (!file) return std::nullopt;
  try {
    return content_of(*file, key)["record"];
  } catch (const std::invalid_argument& problem) {
    if (damaged) damaged(fmt::format("{}: {}; it is computed again", path, problem.what()));
    return std::nullopt;
  }
}

void TrialStore::keep(const TrialKind& kind, const Trial& trial, const Json& record) const {
  const std::string path = path_of(trial.key(kind));
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error)
    throw std::invalid_argument(
        fmt::format("cannot make the folder {}: {}", fs::path(path).parent_path().string(), error.message()));
  const Json content{
      {"kind", kind.name}, {"version", kind.version}, {"item", trial.item}, {"made", made_here()}, {"record", record}};
  write_file(path, framed(format, 0, content.dump()));
}

namespace {

/// Calls `see` with every file two folders below, and with the name of the first folder.
void walk(const fs::path& store, const std::function<void(const std::string& kind, const fs::path& file)>& see) {
  std::error_code error;
  for (const auto& kind : fs::directory_iterator(store, error)) {
    if (!kind.is_directory(error)) continue;
    for (const auto& part : fs::directory_iterator(kind.path(), error)) {
      if (!part.is_directory(error)) continue;
      for (const auto& file : fs::directory_iterator(part.path(), error))
        see(kind.path().filename().string(), file.path());
    }
  }
}

/// The key that belongs to a file's name; empty where it is no record's.
std::string key_of(const std::string& kind, const fs::path& file) {
  const std::string digits = file.parent_path().filename().string() + file.stem().string();
  return file.extension() == ending && is_hexadecimal(digits, 32) ? kind + "/" + digits : "";
}

}  // namespace

std::vector<TrialStore::Entry> TrialStore::entries() const {
  std::vector<Entry> all;
  walk(folder_, [&](const std::string& kind, const fs::path& file) {
    if (std::string key = key_of(kind, file); !key.empty()) all.push_back({std::move(key), file.string()});
  });
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
  return all;
}

std::vector<std::string> TrialStore::left_behind() const {
  std::vector<std::string> all;
  walk(folder_, [&](const std::string& kind, const fs::path& file) {
    if (key_of(kind, file).empty()) all.push_back(file.string());
  });
  std::sort(all.begin(), all.end());
  return all;
}

Json TrialStore::read(const Entry& entry) {
  const std::optional<std::string> file = bytes_of(entry.path);
  if (!file) throw std::invalid_argument(entry.path + ": cannot be read");
  try {
    return content_of(*file, entry.key);
  } catch (const std::invalid_argument& problem) { throw std::invalid_argument(entry.path + ": " + problem.what()); }
}

}  // namespace halfulp
