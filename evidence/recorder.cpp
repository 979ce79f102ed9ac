#include <halfulp/evidence/recorder.hpp>

#include <halfulp/evidence/devices.hpp>

#include <stdexcept>

namespace halfulp::recording {
namespace {

/// The canonical task with the backend's NaN rule, where it has the task.
Support supported(const Backend& backend, Task& task) {
  task = canonical(task);
  task.rounding.nan = backend.nan_rule(task);
  return task.rounding.mode == RoundingMode::stochastic ? Support::no("stochastic") : backend.supports(task);
}

void ask(const Backend& backend, std::string source, Task task, Columns operands, Recording& recording) {
  TaskSection section;
  const Support support = supported(backend, task);
  if (operands.size() == 0 || !support.yes) return;
  section.route = support.route;
  section.approximate = support.approximate;
  section.source = std::move(source);
  section.task = task;
  section.operands = std::move(operands);
  section.answers.resize(section.operands.size());
  backend.run(task, section.operands.view(), section.answers);
  recording.tasks.push_back(std::move(section));
}

void ask(const MatrixDevice& device, const MatrixSource& source, Recording& recording) {
  MatrixSection section;
  section.source = source.name;
  section.unit = device.name().substr(device.name().find(':') + 1);
  section.description = device.description();
  section.shape = device.shape();
  section.cases = source.cases(section.shape);
  if (section.cases.size() == 0) return;
  section.answers.resize(section.cases.size());
  device.run(section.cases, section.answers);
  recording.matrices.push_back(std::move(section));
}

}  // namespace

Recording record(const Backend& backend, const std::vector<Asked>& asked, const std::function<void(double)>& progress) {
  Recording recording;
  recording.origin.backend = backend.name();
  recording.origin.device = backend.description();
  const std::vector<Task> tasks = tasks_for(backend);
  const auto devices = native_matrix_devices(backend.name());
  const auto steps = static_cast<double>(tasks.size() + asked.size() + devices.size());
  double done = 0;
  for (const Task& task : tasks) {
    progress(done++ / steps);
    Task ours = task;
    if (!supported(backend, ours).yes) continue;
    for (const TaskSource& source : task_sources())
      if (source.operands) ask(backend, std::string(source.name), task, source.operands(task), recording);
  }
  for (const Asked& one : asked) {
    progress(done++ / steps);
    const TaskSource* source = find_task_source(one.source);
    if (!source || source->operands) throw std::logic_error("record: '" + one.source + "' takes no operands");
    ask(backend, one.source, one.task, one.operands, recording);
  }
  for (const MatrixDevice* device : devices) {
    progress(done++ / steps);
    if (const Support here = device->available(); !here.yes) {
      recording.missing.push_back({device->name(), here.reason});
      continue;
    }
    for (const MatrixSource& source : matrix_sources()) ask(*device, source, recording);
  }
  return recording;
}

}  // namespace halfulp::recording
