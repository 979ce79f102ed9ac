#include <halfulp/hardware/compare.hpp>

#include <algorithm>

namespace halfulp {
namespace {

constexpr std::size_t chunk_size = std::size_t{1} << 16;
constexpr std::size_t max_witnesses = 8;

Witness witness(const Task& task, const Operands& operands, std::size_t i, std::uint64_t emulated, std::uint64_t device) {
  Witness w;
  w.arity = info(task.operation).arity;
  w.operands[0] = operands.a[i];
  if (w.arity > 1) w.operands[1] = operands.b[i];
  if (w.arity > 2) w.operands[2] = operands.c[i];
  w.emulated = emulated;
  w.device = device;
  return w;
}

std::string why_not(const Backend& backend, const Task& task) {
  if (std::string why = refusal(task); !why.empty()) return why;
  if (task.rounding.mode == RoundingMode::stochastic) return "stochastic: the random bits of a device are its own";
  if (const Support here = backend.available(); !here.yes) return here.reason;
  return backend.supports(task).reason;
}

}  // namespace

Comparison compare(const Backend& backend, Task task, const Operands& operands) {
  Comparison result;
  result.backend = backend.name();
  result.independence = backend.independence();
  task.rounding.nan = backend.nan_rule(task);
  result.skipped = why_not(backend, task);
  result.task = task;
  if (!result.skipped.empty()) return result;
  const Support support = backend.supports(task);
  result.route = support.route;
  result.approximate = support.approximate;

  std::vector<std::uint64_t> device(std::min(chunk_size, operands.size()));
  std::vector<char> known(device.size());
  for (std::size_t begin = 0; begin < operands.size(); begin += chunk_size) {
    const Operands chunk = operands.slice(begin, std::min(chunk_size, operands.size() - begin));
    try {
      backend.run(task, chunk, std::span(device).first(chunk.size()));
    } catch (const DeviceFailure& failure) {
      if (failure.lost) throw;
      Comparison nothing;
      nothing.backend = result.backend, nothing.independence = result.independence, nothing.task = result.task;
      nothing.skipped = failure.what();
      return nothing;
    }
    backend.answered(task, chunk, std::span(known).first(chunk.size()));
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      if (!known[i]) {
        ++result.unanswered;
        continue;
      }
      const auto at = [i](std::span<const std::uint64_t> s) { return s.empty() ? 0 : s[i]; };
      const std::uint64_t emulated = evaluate(task, at(chunk.a), at(chunk.b), at(chunk.c)).code;
      if (emulated == device[i]) continue;
      const Witness found = witness(task, chunk, i, emulated, device[i]);
      ++result.differing;
      result.farthest = std::max(result.farthest, units_apart(task, found));
      ++result.classes[std::string(difference_class(task, found))];
      if (result.witnesses.size() < max_witnesses) result.witnesses.push_back(found);
    }
  }
  result.compared = operands.size() - result.unanswered;
  if (result.compared == 0 && result.unanswered != 0)
    result.skipped = result.unanswered == 1 ? "the one operand is not recorded" : "none of the " + std::to_string(result.unanswered) + " operands are recorded";
  return result;
}

}  // namespace halfulp
