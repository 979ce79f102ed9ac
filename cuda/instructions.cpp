#include <halfulp/cuda/instructions.hpp>

#include <halfulp/cuda/gpu.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/formats/catalogue.hpp>

namespace halfulp::cuda {
namespace {

constexpr Instruction rows[] = {
#define HALFULP_ROW(operation, from, to, mode, overflow, flush, nan, approximate, sm, route, expression) \
  {Operation::operation, from, to,   RoundingMode::mode, Overflow::overflow, flush != 0, NanRule::nan,   \
   approximate != 0,     sm,   route},
#include <halfulp/cuda/instructions.def>
};

}  // namespace

std::span<const Instruction> instructions() { return rows; }

bool Instruction::exact() const {
  if (info(operation).result == ResultKind::truth || operation == Operation::min || operation == Operation::max)
    return true;
  const auto *f = std::get_if<FloatFormat>(&from), *t = std::get_if<FloatFormat>(&to);
  return operation == Operation::convert && f && t && holds(*t, *f);
}

bool Instruction::computes(const Task& t) const {
  if (operation != t.operation || from != t.from || to != t.to) return false;
  if (t.rounding.flush_inputs != flush || t.rounding.flush_outputs != flush) return false;
  if (std::holds_alternative<IntegerType>(to) && t.rounding.int_overflow != IntOverflow::saturate) return false;
  if (exact() && !(operation == Operation::convert && t.rounding.overflow == Overflow::saturate))
    return true;  // which would move Inf to max
  return mode == t.rounding.mode && overflow == t.rounding.overflow;
}

Task Instruction::task() const {
  Task task{operation, from, to, {}};
  task.rounding.mode = mode;
  task.rounding.overflow = overflow;
  task.rounding.flush_inputs = task.rounding.flush_outputs = flush;
  task.rounding.nan = nan;
  return task;
}

std::string GpuProperties::description() const {
  if (name.empty()) return "no GPU";
  return name + ", sm_" + std::to_string(sm) + ", driver " + driver + ", runtime " + runtime;
}

}  // namespace halfulp::cuda
