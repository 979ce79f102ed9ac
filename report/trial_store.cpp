#include <halfulp/report/trial_store.hpp>

#include <halfulp/report/environment.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/support/input_file.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace halfulp {
namespace {

namespace fs = std::filesystem;

constexpr FramedFormat format{"halfulpT", 1, "a trial of a store", 2};
constexpr std::string_view marker_name = "halfulp-store.json", ending = ".trial";
constexpr int store_version = 1;

std::string digits_of(std::string_view kind, int version, const Json& item) {
  const std::string text = Json::array({kind, version, item}).dump();
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string folder_of(std::string_view kind, int version) { return fmt::format("{}-{}", kind, version); }

/// The whole of a regular file; nothing where there is none. Throws std::invalid_argument without its name.
std::optional<std::string> bytes_of(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return std::nullopt;
  try {
    const InputFile file(path, "a record");
    return file.text(0, file.size());
  } catch (const std::invalid_argument&) { throw std::invalid_argument("is no file, or cannot be read"); }
}

bool is_hexadecimal(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The JSON of a file of this key. Throws std::invalid_argument without the file's name where it is damaged.
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
    Json some = Json::object();
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

std::string TrialStore::marker() const { return (fs::path(folder_) / marker_name).string(); }

TrialStore::TrialStore(std::string folder, IfAbsent if_absent) : folder_(std::move(folder)) {
  const std::string a_store = if_absent == IfAbsent::refuse ? "a store"
                                                            : "a store, or a folder that is empty or not there";
  const auto fail = [&](const std::string& why, const std::string& accepted) {
    throw std::invalid_argument(fmt::format("{}: {}; accepted: {}", folder_, why, accepted));
  };
  if (folder_.empty()) throw std::invalid_argument("the name of a store is empty; accepted: a folder");
  std::error_code error;
  const fs::file_type type = fs::status(folder_, error).type();
  const bool there = type != fs::file_type::not_found;
  if (type == fs::file_type::none) fail(error.message(), a_store);
  if (there && type != fs::file_type::directory) fail("is no folder", a_store);
  if (!there && if_absent == IfAbsent::refuse) fail("there is no such folder", a_store);
  bool empty = true;
  if (there) {
    // What is hidden, and the marker, may be those of another run that makes this store now.
    for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error))
      if (const std::string name = at->path().filename().string(); !name.starts_with('.') && name != marker_name)
        empty = false;
    if (error) fail("cannot be read: " + error.message(), a_store);
  }
  if (there && fs::exists(marker(), error)) {
    Json json;
    try {
      json = read_json(marker());
    } catch (const std::invalid_argument&) {}  // what it is not is said below
    if (!json.is_object() || json.value("format", Json()) != "halfulp-store")
      fail(fmt::format("its {} is not that of a store", marker_name), a_store);
    if (json.value("version", Json()) != store_version)
      fail(fmt::format("a store of version {}", json.value("version", Json()).dump()),
           fmt::format("version {}", store_version));
  } else if (!empty || (there && if_absent == IfAbsent::refuse)) {
    fail(fmt::format("no store of trials: it has no {}", marker_name), a_store);
  }
  if (if_absent != IfAbsent::make) return;
  // Now, and not when the first hour of work is to be kept.
  fs::path above = fs::absolute(folder_, error);
  while (!fs::exists(above, error) && above.has_relative_path()) above = above.parent_path();
  if (::access(above.c_str(), W_OK | X_OK) != 0) fail(std::strerror(errno), "a folder that can be written");
}

void TrialStore::make() const {
  static std::mutex mutex;  // threads would write one temporary file
  const std::lock_guard lock(mutex);
  std::error_code error;
  if (fs::exists(marker(), error)) return;
  fs::create_directories(folder_, error);
  write_file(marker(), Json{{"format", "halfulp-store"}, {"version", store_version}}.dump() + "\n");
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
  try {
    const std::optional<std::string> file = bytes_of(path);
    if (file) return content_of(*file, key)["record"];
    return std::nullopt;
  } catch (const std::invalid_argument& problem) { throw std::invalid_argument(path + ": " + problem.what()); }
}

void TrialStore::keep(const TrialKind& kind, const Trial& trial, const Json& record) const {
  const std::string path = path_of(trial.key(kind));
  std::error_code error;
  if (!fs::exists(fs::path(path).parent_path(), error))
    make();  // first: a folder with records and no marker is no store
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error)
    throw std::invalid_argument(
        fmt::format("cannot make the folder {}: {}", fs::path(path).parent_path().string(), error.message()));
  if (fs::is_fifo(path, error))  // write_file would wait for a reader
    throw std::invalid_argument(path + ": is a pipe; accepted: a file, or nothing");
  const Json content{
      {"kind", kind.name}, {"version", kind.version}, {"item", trial.item}, {"made", made_here()}, {"record", record}};
  write_file(path, framed(format, 0, content.dump()), Sync::no);
}

namespace {

/// Calls `see` with every file in a folder of two digits in one of a kind. Follows no link: what is there belongs to
/// somebody else.
void walk(const fs::path& store, const std::function<void(const std::string& kind, const fs::path& file)>& see) {
  const auto each = [](const fs::path& folder, fs::file_type wanted, const auto& f) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      if (at->symlink_status(error).type() == wanted) f(at->path());
    if (error) throw std::invalid_argument(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  };
  if (std::error_code error; !fs::exists(store, error)) return;
  each(store, fs::file_type::directory, [&](const fs::path& kind) {
    const std::string name = kind.filename().string();
    const std::size_t dash = name.rfind('-');
    if (dash == std::string::npos || dash == 0 || dash + 1 == name.size() ||
        name.find_first_not_of("0123456789", dash + 1) != std::string::npos)
      return;
    each(kind, fs::file_type::directory, [&](const fs::path& part) {
      if (!is_hexadecimal(part.filename().string(), 2)) return;
      each(part, fs::file_type::regular, [&](const fs::path& file) { see(name, file); });
    });
  });
}

/// The key that belongs to a file's name; empty where it is no record's.
std::string key_of(const std::string& kind, const fs::path& file) {
  const std::string digits = file.parent_path().filename().string() + file.stem().string();
  return file.extension() == ending && is_hexadecimal(digits, 32) ? kind + "/" + digits : "";
}

/// Whether it is what write_file leaves of a record when it is killed: ".REST.trial.PROCESS.tmp", or .old.
bool is_unfinished(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.size() > 31 && name[0] == '.' && is_hexadecimal(name.substr(1, 30), 30) &&
         name.compare(31, ending.size(), ending) == 0 && (file.extension() == ".tmp" || file.extension() == ".old");
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
  walk(folder_, [&](const std::string&, const fs::path& file) {
    if (is_unfinished(file)) all.push_back(file.string());
  });
  std::sort(all.begin(), all.end());
  return all;
}

Json TrialStore::read(const Entry& entry) {
  const auto at = [&](const std::string& why) { return entry.path + ": " + why; };
  std::optional<std::string> file;
  try {
    file = bytes_of(entry.path);
  } catch (const std::invalid_argument& problem) { throw std::invalid_argument(at(problem.what())); }
  if (!file) throw std::invalid_argument(at("is not there any more"));
  try {
    return content_of(*file, entry.key);
  } catch (const std::invalid_argument& problem) { throw Damaged(at(problem.what())); }
}

}  // namespace halfulp
