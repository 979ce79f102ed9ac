#include <halfulp/evidence/recording.hpp>

#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include <dlfcn.h>

namespace halfulp::recording {
namespace {

using Words = std::vector<std::uint64_t>;

std::uint64_t mixed(std::uint64_t x) {  // the finalizer of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31);
}

/// Any number of words as a key.
struct Hash {
  template <class Key>
  std::size_t operator()(const Key& key) const {
    std::uint64_t h = key.size();
    for (const std::uint64_t word : key) h = mixed(h + 0x9e37'79b9'7f4a'7c15 + word);
    return h;
  }
};

using Triple = std::array<std::uint64_t, 3>;
Triple triple(const Operands& x, std::size_t i) {
  const auto at = [i](std::span<const std::uint64_t> s) { return s.empty() ? 0 : s[i]; };
  return {at(x.a), at(x.b), at(x.c)};
}

/// All operands of a case in one row.
void row_of(const MatrixCases& cases, std::size_t i, Words& row) {
  const Products x = cases.products(i);
  row.assign(1, cases.k);
  for (const auto part : {x.a, x.b, x.scale_a, x.scale_b}) row.insert(row.end(), part.begin(), part.end());
  row.push_back(cases.c[i]);
}

}  // namespace

class Replay::Answers final : public Backend {
 public:
  Answers(const std::string& name, const Recording& recording)
      : name_(std::string(prefix) + name), recording_(recording) {
    for (const TaskSection& section : recording.tasks) {
      const Task key = canonical(section.task);
      auto at = std::find_if(tasks_.begin(), tasks_.end(), [&](const auto& entry) { return same(entry->key, key); });
      if (at == tasks_.end()) {
        tasks_.push_back(std::make_unique<Entry>());
        tasks_.back()->key = key;
        at = std::prev(tasks_.end());
      }
      (*at)->sections.push_back(&section);
    }
  }

  std::string_view name() const override { return name_; }
  std::string description() const override {
    const Origin& o = recording_.origin;
    return o.device + ", recorded " + o.date + " by halfulp " + o.program;
  }
  Support available() const override { return Support::by("recorded"); }
  Support supports(const Task& task) const override {
    const Entry* entry = find(task);
    if (!entry) return Support::no("the recording does not have this task");
    return Support::by(entry->sections.front()->route + ", recorded", entry->sections.front()->approximate);
  }
  /// What it was asked by the suite; of other tasks it has experiments' operands alone.
  std::vector<Task> own_tasks() const override {
    std::vector<Task> tasks;
    for (const auto& entry : tasks_)
      if (std::any_of(entry->sections.begin(), entry->sections.end(),
                      [](const TaskSection* s) { return find_task_source(s->source)->operands; }))
        tasks.push_back(entry->key);
    return tasks;
  }
  NanRule nan_rule(const Task& task) const override {
    const Entry* entry = find(task);
    return entry ? entry->sections.front()->task.rounding.nan : NanRule::canonical;
  }
  /// What a rehearsal answered is the emulation, kept in a file.
  std::string_view independence() const override {
    return recording_.origin.backend == "rehearsal" ? "emulation" : "recorded";
  }

  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    look_up(task, operands, [&](std::size_t i, const std::uint64_t* answer) { results[i] = answer ? *answer : 0; });
  }
  void answered(const Task& task, const Operands& operands, std::span<char> known) const override {
    look_up(task, operands, [&](std::size_t i, const std::uint64_t* answer) { known[i] = answer != nullptr; });
  }

 private:
  struct Entry {
    Task key;
    std::vector<const TaskSection*> sections;
    std::once_flag once;
    std::unordered_map<Triple, std::uint64_t, Hash> answers;
  };

  const Entry* find(const Task& task) const { return entry(task); }
  Entry* entry(const Task& task) const {
    const Task key = canonical(task);
    for (const auto& each : tasks_)
      if (same(each->key, key)) return each.get();
    return nullptr;
  }

  template <class F>
  void look_up(const Task& task, const Operands& operands, F f) const {
    Entry* found = entry(task);
    if (!found) throw std::logic_error(name_ + ": unsupported task: " + task.description());
    std::call_once(found->once, [&] {
      for (const TaskSection* section : found->sections) {
        const Operands view = section->operands.view();
        for (std::size_t i = 0; i < view.size(); ++i) found->answers.emplace(triple(view, i), section->answers[i]);
      }
    });
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto at = found->answers.find(triple(operands, i));
      f(i, at == found->answers.end() ? nullptr : &at->second);
    }
  }

  std::string name_;
  const Recording& recording_;
  std::vector<std::unique_ptr<Entry>> tasks_;
};

class Replay::Device final : public MatrixDevice {
 public:
  Device(std::string name, const MatrixSection& section) : name_(std::move(name)), first_(section) {}
  void add(const MatrixSection& section) {
    Words row;
    for (std::size_t i = 0; i < section.cases.size(); ++i) {
      row_of(section.cases, i, row);
      answers_.emplace(row, section.answers[i]);
    }
  }
  const std::string& unit() const { return first_.unit; }

  std::string name() const override { return name_; }
  std::string description() const override { return first_.description + ", recorded"; }
  Support available() const override { return Support::by("recorded"); }
  MatrixShape shape() const override { return first_.shape; }
  void run(const MatrixCases& cases, std::span<std::uint64_t> d) const override {
    look_up(cases, [&](std::size_t i, const std::uint64_t* answer) { d[i] = answer ? *answer : 0; });
  }
  void answered(const MatrixCases& cases, std::span<char> known) const override {
    look_up(cases, [&](std::size_t i, const std::uint64_t* answer) { known[i] = answer != nullptr; });
  }

 private:
  template <class F>
  void look_up(const MatrixCases& cases, F f) const {
    Words row;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      row_of(cases, i, row);
      const auto at = answers_.find(row);
      f(i, at == answers_.end() ? nullptr : &at->second);
    }
  }

  std::string name_;
  const MatrixSection& first_;
  std::unordered_map<Words, std::uint64_t, Hash> answers_;
};

Replay::Replay(std::string name, Recording recording)
    : recording_(std::move(recording)), backend_(std::make_unique<Answers>(name, recording_)) {
  for (const MatrixSection& section : recording_.matrices) {
    auto at = std::find_if(devices_.begin(), devices_.end(),
                           [&](const auto& device) { return device->unit() == section.unit; });
    if (at == devices_.end()) {
      devices_.push_back(std::make_unique<Device>(std::string(prefix) + name + ":" + section.unit, section));
      at = std::prev(devices_.end());
    }
    (*at)->add(section);
  }
  for (const auto& device : devices_) views_.push_back(device.get());
}

Replay::~Replay() = default;
const Backend& Replay::backend() const { return *backend_; }
std::span<const MatrixDevice* const> Replay::matrix_devices() const { return views_; }

// --- finding them
// -----------------------------------------------------------------------------------------------------

namespace {

namespace fs = std::filesystem;

/// The folder of committed recordings: of the source tree this was built from, else in the folder of the Python package
/// this is part of, else beside the installed program.
fs::path home() {
  std::error_code error;
  if (fs::path source = HALFULP_RECORDINGS; fs::is_directory(source, error)) return source;
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&home), &here) != 0)
    if (const fs::path beside = fs::path(here.dli_fname).parent_path() / "recordings"; fs::is_directory(beside, error))
      return beside;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / HALFULP_INSTALLED_RECORDINGS;
}

}  // namespace

std::vector<std::string> recording_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(home(), error), end; !error && at != end; at.increment(error))
    if (fs::is_regular_file(at->path() / manifest_file, error)) names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

const Replay& find_recording(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Replay>> kept;
  const std::scoped_lock lock(mutex);
  if (const auto at = kept.find(name); at != kept.end()) return *at->second;
  const std::vector<std::string> names = recording_names();
  fs::path folder = name;
  std::error_code error;
  if (std::find(names.begin(), names.end(), name) != names.end()) folder = home() / name;
  else if (name.find('/') == std::string::npos && !fs::exists(folder, error))
    throw std::invalid_argument(unknown_name("recording", name, names) +
                                (names.empty() ? "; accepted: the path of one" : ", or the path of one"));
  return *kept.emplace(name, std::make_unique<Replay>(name, read_recording(folder))).first->second;
}

}  // namespace halfulp::recording
