#include <halfulp/evidence/check.hpp>

#include <halfulp/evidence/suite.hpp>
#include <halfulp/hardware/operands.hpp>

#include <cstdio>

namespace halfulp {
namespace {

std::string hex(std::uint64_t word) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(word));
  return text;
}

/// A task and its settings, as `halfulp check` lists it.
std::string name_of_task(const Task& task) {
  const Rounding& r = task.rounding;
  const bool wraps = std::holds_alternative<IntegerType>(task.to) && r.int_overflow == IntOverflow::x86;
  return task.description() + (r.overflow == Overflow::saturate ? " saturate" : "") +
         (r.flush_inputs ? " flush-inputs" : "") + (r.flush_outputs ? " flush-outputs" : "") +
         (wraps ? " int-overflow-x86" : "");
}

}  // namespace

std::string Check::witness() const {
  if (found.witnesses.empty()) return {};
  const Mismatch& w = found.witnesses.front();
  if (!w.text.empty()) return w.text;
  std::string text;
  for (int i = 0; i < w.arity; ++i) text += hex(w.operands[static_cast<std::size_t>(i)]) + " ";
  return text + "-> " + hex(w.device) + ", emulated " + hex(w.emulated);
}

std::vector<Check> check_operations(const Device& device, const Progress& progress) {
  std::vector<Check> checks;
  const std::vector<Task> tasks = recording::tasks_for(device);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    progress(static_cast<double>(i) / static_cast<double>(tasks.size()));
    if (!device.supports(tasks[i]).yes) continue;
    Check check{"operation", name_of_task(tasks[i])};
    for (const recording::TaskSource& source : recording::task_sources()) {
      if (!source.operands) continue;
      const OperandColumns columns = source.operands(tasks[i]);
      if (columns.size() != 0) check.found += compare(device, tasks[i], columns.view());
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

std::vector<Check> check_matrix_units(const Device& device, std::size_t count, const Progress& progress) {
  std::vector<Check> checks;
  const std::vector<MatrixTask> tasks = device.matrix_tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto again = [&] { progress(static_cast<double>(i) / static_cast<double>(tasks.size())); };
    again();
    const MatrixTask& task = tasks[i];
    Check check{"matrix unit", task.unit};
    check.found.route = task.description;
    if (!task.here.yes) {
      check.found.skipped = task.here.reason;
    } else try {
        const MatrixUnit& unit = find_unit(task.unit);
        const auto add = [&](const MatrixCases& cases) {
          again();  // here it may be interrupted
          check.found += compare(device, task, unit, cases);
        };
        for (const recording::MatrixSource& source : recording::matrix_sources()) add(source.cases(task.shape));
        const auto k = static_cast<std::size_t>(unit.k);
        for (const auto& kind : tile_kinds)
          for (const std::size_t depth : {k, 5 * k / 2 + 1})
            add(tiles(kind.value, task.shape, depth, count, 1 + depth));
      } catch (const DeviceFailure& failure) {
        if (failure.lost) throw;
        check.found = {};
        check.found.route = task.description;
        check.found.skipped = failure.what();
      }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace halfulp
