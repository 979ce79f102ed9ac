#include <halfulp/evidence/check.hpp>

#include <halfulp/hardware/tiles.hpp>
#include <halfulp/evidence/suite.hpp>

#include <cstdio>

namespace halfulp {
namespace {

std::string hex(std::uint64_t word) {
  char text[20];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(word));
  return text;
}

std::string witness_text(const Witness& w) {
  std::string text;
  for (int i = 0; i < w.arity; ++i) text += hex(w.operands[static_cast<std::size_t>(i)]) + " ";
  return text + "-> " + hex(w.device) + ", emulated " + hex(w.emulated);
}

void add(Check& check, const Comparison& c) {
  check.route = c.route;
  check.approximate = c.approximate;
  if (c.compared == 0 && check.compared == 0) check.skipped = c.skipped;
  check.compared += c.compared;
  check.differing += c.differing;
  check.farthest = std::max(check.farthest, c.farthest);
  check.unanswered += c.unanswered;
  check.wild = check.wild || (c.differing != 0 && !is_approximation(c.classes, c.farthest));
  if (check.witness.empty() && !c.witnesses.empty()) check.witness = witness_text(c.witnesses.front());
}

/// "emulated:unit", "cuda:unit", "recorded:name:unit".
std::string unit_of(const MatrixDevice& device) {
  const std::string name = device.name();
  return name.substr(name.rfind(':') + 1);
}

void compare_tiles(const MatrixDevice& device, const MatrixUnit& unit, const MatrixCases& cases, Check& check) {
  std::vector<std::uint64_t> d(cases.size());
  std::vector<char> known(cases.size());
  device.run(cases, d);
  device.answered(cases, known);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!known[i]) {
      ++check.unanswered;
      continue;
    }
    const std::uint64_t model = mma(unit, cases.products(i), cases.c[i]);
    ++check.compared;
    if (d[i] == model) continue;
    if (check.differing++ != 0) continue;
    const Products x = cases.products(i);
    for (const auto part : {x.a, x.b}) {
      for (const std::uint64_t word : part) check.witness += hex(word) + " ";
      check.witness += "| ";
    }
    check.witness += hex(cases.c[i]) + " -> " + hex(d[i]) + ", model " + hex(model);
  }
}

}  // namespace

std::vector<Check> check_operations(const Backend& backend, const Progress& progress) {
  std::vector<Check> checks;
  const std::vector<Task> tasks = recording::tasks_for(backend);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    progress(static_cast<double>(i) / static_cast<double>(tasks.size()));
    if (!backend.supports(tasks[i]).yes) continue;
    const Rounding& r = tasks[i].rounding;
    Check check{.group = "operation",
                .name = tasks[i].description() + (r.overflow == Overflow::saturate ? " saturate" : "") +
                        (r.flush_inputs ? " flush-inputs" : "") + (r.flush_outputs ? " flush-outputs" : "") +
                        (std::holds_alternative<IntegerType>(tasks[i].to) && r.int_overflow == IntOverflow::x86
                             ? " int-overflow-x86"
                             : "")};
    for (const recording::TaskSource& source : recording::task_sources()) {
      if (!source.operands) continue;
      const recording::Columns columns = source.operands(tasks[i]);
      if (columns.size() != 0) add(check, compare(backend, tasks[i], columns.view()));
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

std::vector<Check> check_matrix_units(std::span<const MatrixDevice* const> devices, std::size_t count,
                                      const Progress& progress) {
  std::vector<Check> checks;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    progress(static_cast<double>(i) / static_cast<double>(devices.size()));
    const MatrixDevice& device = *devices[i];
    Check check{.group = "matrix unit", .name = unit_of(device), .route = device.description()};
    if (const Support here = device.available(); !here.yes) {
      check.skipped = here.reason;
    } else try {
        const MatrixUnit& unit = find_unit(check.name);
        const auto again = [&] {
          progress(static_cast<double>(i) / static_cast<double>(devices.size()));
        };  // where it may be interrupted
        for (const recording::MatrixSource& source : recording::matrix_sources())
          again(), compare_tiles(device, unit, source.cases(device.shape()), check);
        const auto k = static_cast<std::size_t>(unit.k);
        for (const auto& kind : tile_kinds)
          for (const std::size_t depth : {k, 5 * k / 2 + 1})
            again(), compare_tiles(device, unit, tiles(kind.value, device.shape(), depth, count, 1 + depth), check);
      } catch (const DeviceFailure& failure) {
        if (failure.lost) throw;
        check.skipped = failure.what();
        check.compared = check.differing = 0;
      }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace halfulp
