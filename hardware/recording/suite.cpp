#include <halfulp/hardware/recording/suite.hpp>

#include <halfulp/emulation/dot.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/matrix/tiles.hpp>
#include <halfulp/hardware/probe/questions.hpp>
#include <halfulp/hardware/recording/operands.hpp>

#include <algorithm>

namespace halfulp::recording {
namespace {

// --- the tables: a section more is a line more ------------------------------------------------------------------------

constexpr TaskSource tasks_asked[] = {
  {"codes", every_code},           // of narrow formats
  {"sampled", sampled},            // boundary cases, exponents that meet, fractions that make ties
  {"integers", around_integers},   // of conversions from and to integers
  {"experiments", nullptr},        // what experiments ask at their defaults
};

constexpr std::size_t tiles_each = 1024;
template <Tiles kind>
MatrixCases asked(const MatrixShape& shape) {
  return tiles(kind, shape, static_cast<std::size_t>(shape.k), tiles_each, suite_version);
}
/// Several instructions and a part of one.
MatrixCases chained(const MatrixShape& shape) {
  return tiles(Tiles::near, shape, static_cast<std::size_t>(shape.k) * 5 / 2 + 1, tiles_each / 4, suite_version);
}

constexpr MatrixSource matrices_asked[] = {
  {"random", asked<Tiles::random>},
  {"near", asked<Tiles::near>},
  {"cancelling", asked<Tiles::cancelling>},
  {"aligned", asked<Tiles::aligned>},
  {"subnormal", asked<Tiles::subnormal>},
  {"special", asked<Tiles::special>},
  {"chained", chained},
  {"probe", probe::questions},
};

// --- tasks ------------------------------------------------------------------------------------------------------------

/// Whether every value of `from` is one of `to`.
bool widens(const NumberType& from, const NumberType& to) {
  const auto *f = std::get_if<FloatFormat>(&from), *t = std::get_if<FloatFormat>(&to);
  return f && t && holds(*t, *f);
}

/// The settings that devices have, of a mode.
std::vector<Rounding> settings(RoundingMode mode, bool to_integer) {
  std::vector<Rounding> all;
  Rounding r;
  r.mode = mode;
  if (to_integer) {
    for (const auto& rule : int_overflow_rules) {
      r.int_overflow = rule.value;
      all.push_back(r);
    }
    return all;
  }
  all.push_back(r);
  if (mode != RoundingMode::nearest_even) return all;
  r.overflow = Overflow::saturate;
  all.push_back(r);
  r.overflow = Overflow::ieee;
  r.flush_inputs = true;
  all.push_back(r);
  r.flush_outputs = true;
  all.push_back(r);
  return all;
}

void ask(std::vector<Task>& tasks, Operation operation, const NumberType& from, const NumberType& to) {
  for (const auto& mode : rounding_modes) {
    if (mode.value == RoundingMode::stochastic) continue;
    for (const Rounding& r : settings(mode.value, std::holds_alternative<IntegerType>(to))) {
      const Task task = canonical({operation, from, to, r});
      if (!refusal(task).empty() || std::any_of(tasks.begin(), tasks.end(), [&](const Task& t) { return same(t, task); })) continue;
      tasks.push_back(task);
    }
  }
}

}  // namespace

void Columns::push(int arity, std::uint64_t x, std::uint64_t y, std::uint64_t z) {
  a.push_back(x);
  if (arity > 1) b.push_back(y);
  if (arity > 2) c.push_back(z);
}

std::span<const TaskSource> task_sources() { return tasks_asked; }
std::span<const MatrixSource> matrix_sources() { return matrices_asked; }

const TaskSource* find_task_source(std::string_view name) {
  const auto at = std::find_if(std::begin(tasks_asked), std::end(tasks_asked), [&](const TaskSource& s) { return s.name == name; });
  return at == std::end(tasks_asked) ? nullptr : at;
}
const MatrixSource* find_matrix_source(std::string_view name) {
  const auto at = std::find_if(std::begin(matrices_asked), std::end(matrices_asked), [&](const MatrixSource& s) { return s.name == name; });
  return at == std::end(matrices_asked) ? nullptr : at;
}

std::vector<Task> suite_tasks() {
  const FloatFormat computed[] = {fp16, bf16, fp32, fp64, e4m3, e5m2};
  const NumberType converted[] = {fp16, bf16, fp32, e4m3, e5m2, i32, fp64};
  std::vector<Task> tasks;
  for (const OperationInfo& row : operations) {
    if (row.operation == Operation::convert) continue;
    for (const FloatFormat& f : computed) ask(tasks, row.operation, f, f);
  }
  for (const NumberType& from : converted)
    for (const NumberType& to : converted)
      if (from != to && (to != NumberType(fp64) || from == NumberType(fp16) || from == NumberType(fp32))) ask(tasks, Operation::convert, from, to);
  return tasks;
}

std::vector<Task> tasks_for(const Backend& backend) {
  std::vector<Task> tasks = suite_tasks();
  for (const Task& own : backend.own_tasks()) {
    const Task task = canonical(own);
    if (std::none_of(tasks.begin(), tasks.end(), [&](const Task& t) { return same(t, task); })) tasks.push_back(task);
  }
  return tasks;
}

Task canonical(Task task) {
  constexpr Rounding plain;
  Rounding& r = task.rounding;
  const OperationInfo& operation = info(task.operation);
  r.nan = plain.nan;
  r.integer_inexact = plain.integer_inexact;
  if (r.mode != RoundingMode::stochastic) {
    r.variant = plain.variant;
    r.random_bits = plain.random_bits;
  }
  if (!r.flush_outputs) r.tininess = plain.tininess;
  if (!std::holds_alternative<IntegerType>(task.to)) r.int_overflow = plain.int_overflow;
  const bool selects = operation.result == ResultKind::truth || task.operation == Operation::min || task.operation == Operation::max;
  if (selects || (task.operation == Operation::convert && widens(task.from, task.to))) r.mode = plain.mode;
  if (selects) r.overflow = plain.overflow;
  if (operation.result == ResultKind::truth) r.flush_outputs = plain.flush_outputs, r.tininess = plain.tininess;
  return task;
}

bool same(const Task& x, const Task& y) {
  return x.operation == y.operation && x.from == y.from && x.to == y.to && x.rounding == y.rounding;
}

}  // namespace halfulp::recording
