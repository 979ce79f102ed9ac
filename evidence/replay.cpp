// Asking a device everything the suite has, and answering from what it said.
#include <halfulp/evidence/recording.hpp>

#include <halfulp/support/own_files.hpp>
#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

namespace halfulp::recording {
namespace {

using Words = std::vector<std::uint64_t>;

/// The canonical task with the device's NaN rule, where it has the task.
Support supported(const Device& device, Task& task) {
  task = canonical(task);
  task.rounding.nan = device.nan_rule(task);
  return task.rounding.mode == RoundingMode::stochastic ? Support::no("stochastic") : device.supports(task);
}

void ask(const Device& device, std::string source, Task task, OperandColumns operands, Recording& recording) {
  TaskSection section;
  const Support support = supported(device, task);
  if (operands.size() == 0 || !support.yes) return;
  section.route = support.route;
  section.approximate = support.approximate;
  section.source = std::move(source);
  section.task = task;
  section.operands = std::move(operands);
  section.answers.resize(section.operands.size());
  device.run(task, section.operands.view(), section.answers);
  recording.tasks.push_back(std::move(section));
}

void ask(const Device& device, const MatrixTask& task, const MatrixSource& source, Recording& recording) {
  MatrixSection section;
  section.source = source.name;
  section.unit = task.unit;
  section.description = task.description;
  section.shape = task.shape;
  section.cases = source.cases(section.shape);
  if (section.cases.size() == 0) return;
  section.answers.resize(section.cases.size());
  device.multiply(task, section.cases, section.answers);
  recording.matrices.push_back(std::move(section));
}

}  // namespace

Recording record(const Device& device, const std::vector<Asked>& asked, const std::function<void(double)>& progress) {
  Recording recording;
  recording.origin.backend = device.name();
  recording.origin.device = device.description();
  const std::vector<Task> tasks = tasks_for(device);
  const std::vector<MatrixTask> matrix_tasks = device.matrix_tasks();
  const auto steps = static_cast<double>(tasks.size() + asked.size() + matrix_tasks.size());
  double done = 0;
  for (const Task& task : tasks) {
    progress(done++ / steps);
    Task ours = task;
    if (!supported(device, ours).yes) continue;
    for (const TaskSource& source : task_sources())
      if (source.operands) ask(device, std::string(source.name), task, source.operands(task), recording);
  }
  for (const Asked& one : asked) {
    progress(done++ / steps);
    const TaskSource* source = find_task_source(one.source);
    if (!source || source->operands) throw std::logic_error("record: '" + one.source + "' takes no operands");
    ask(device, one.source, one.task, one.operands, recording);
  }
  for (const MatrixTask& task : matrix_tasks) {
    progress(done++ / steps);
    if (!task.here.yes) {
      recording.missing.push_back({std::string(device.name()) + ":" + task.unit, task.here.reason});
      continue;
    }
    for (const MatrixSource& source : matrix_sources()) ask(device, task, source, recording);
  }
  return recording;
}

// A recording as a device.

namespace {

std::uint64_t mixed(std::uint64_t x) {  // the finalizer of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11eb;
  return x ^ (x >> 31);
}

/// Any number of words as a key.
struct KeyHash {
  template <class Key>
  std::size_t operator()(const Key& key) const {
    std::uint64_t h = key.size();
    for (const std::uint64_t word : key) h = mixed(h + 0x9e37'79b9'7f4a'7c15 + word);
    return h;
  }
};

using Triple = std::array<std::uint64_t, 3>;

/// All operands of a case in one row.
void row_of(const MatrixCases& cases, std::size_t i, Words& row) {
  const DotOperands x = cases.products(i);
  row.assign(1, cases.k);
  for (const auto part : {x.a, x.b, x.scale_a, x.scale_b}) row.insert(row.end(), part.begin(), part.end());
  row.push_back(cases.c[i]);
}

}  // namespace

class Replay::Answers final : public Device {
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
    for (const MatrixSection& section : recording.matrices) {
      auto at = std::find_if(units_.begin(), units_.end(),
                             [&](const auto& unit) { return unit->first->unit == section.unit; });
      if (at == units_.end()) {
        units_.push_back(std::make_unique<Unit>());
        units_.back()->first = &section;
        at = std::prev(units_.end());
      }
      Words row;
      for (std::size_t i = 0; i < section.cases.size(); ++i) {
        row_of(section.cases, i, row);
        (*at)->answers.emplace(row, section.answers[i]);
      }
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
  /// What it was asked by the suite; of other tasks it has only experiments' operands.
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

  std::vector<MatrixTask> matrix_tasks() const override {
    std::vector<MatrixTask> tasks;
    for (const auto& unit : units_)
      tasks.push_back(
          {unit->first->unit, unit->first->shape, unit->first->description + ", recorded", Support::by("recorded")});
    return tasks;
  }
  void multiply(const MatrixTask& task, const MatrixCases& cases, std::span<std::uint64_t> d) const override {
    look_up(task, cases, [&](std::size_t i, const std::uint64_t* answer) { d[i] = answer ? *answer : 0; });
  }
  void answered(const MatrixTask& task, const MatrixCases& cases, std::span<char> known) const override {
    look_up(task, cases, [&](std::size_t i, const std::uint64_t* answer) { known[i] = answer != nullptr; });
  }

 private:
  /// Sections of one task, and their answers once they were asked for.
  struct Entry {
    Task key;
    std::vector<const TaskSection*> sections;
    std::once_flag once;
    std::unordered_map<Triple, std::uint64_t, KeyHash> answers;
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
        for (std::size_t i = 0; i < view.size(); ++i) found->answers.emplace(view[i], section->answers[i]);
      }
    });
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto at = found->answers.find(operands[i]);
      f(i, at == found->answers.end() ? nullptr : &at->second);
    }
  }

  /// A matrix instruction, and its answers by all operands of a case.
  struct Unit {
    const MatrixSection* first;
    std::unordered_map<Words, std::uint64_t, KeyHash> answers;
  };

  template <class F>
  void look_up(const MatrixTask& task, const MatrixCases& cases, F f) const {
    const auto unit = std::find_if(units_.begin(), units_.end(),
                                   [&](const auto& each) { return each->first->unit == task.unit; });
    if (unit == units_.end()) throw std::logic_error(name_ + ": no such matrix instruction: " + task.unit);
    Words row;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      row_of(cases, i, row);
      const auto at = (*unit)->answers.find(row);
      f(i, at == (*unit)->answers.end() ? nullptr : &at->second);
    }
  }

  std::string name_;
  const Recording& recording_;
  std::vector<std::unique_ptr<Entry>> tasks_;
  std::vector<std::unique_ptr<Unit>> units_;
};

Replay::Replay(std::string name, Recording recording)
    : recording_(std::move(recording)), device_(std::make_unique<Answers>(name, recording_)) {}

Replay::~Replay() = default;

OperandColumns Replay::operands(const Task& task) const {
  const Task key = canonical(task);
  std::vector<Triple> cases;
  for (const TaskSection& section : recording_.tasks)
    if (same(canonical(section.task), key))
      for (std::size_t i = 0; i < section.operands.size(); ++i) cases.push_back(section.operands.view()[i]);
  std::sort(cases.begin(), cases.end());
  cases.erase(std::unique(cases.begin(), cases.end()), cases.end());
  OperandColumns columns;
  for (const auto& [a, b, c] : cases) columns.push(info(task.operation).arity, a, b, c);
  return columns;
}

const Device& Replay::device() const { return *device_; }

// Finding them.

namespace {

namespace fs = std::filesystem;

/// The folder of committed recordings.
fs::path home() { return find_own({"recordings", HALFULP_INSTALLED_RECORDINGS, "evidence/recordings"}); }

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
