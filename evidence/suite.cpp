#include <halfulp/evidence/suite.hpp>

#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/evidence/probe/questions.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/operands.hpp>

#include <algorithm>

namespace halfulp::recording {
namespace {

bool by_default(const Rounding& r) { return r == Rounding{}; }

bool has_every_code(const Task& task) {
  const int bits = storage_bits(task.from);
  if (info(task.operation).arity != 1) return false;
  if (bits <= 8) return true;
  const bool narrow = storage_bits(task.to) == bits || (task.from == NumberType(fp16) && task.to == NumberType(fp32));
  return bits <= 16 && by_default(task.rounding) && narrow && task.operation != Operation::round_to_integral;
}

bool has_integers(const Task& task) {
  return std::holds_alternative<IntegerType>(task.from) || std::holds_alternative<IntegerType>(task.to);
}

/// How many operands of a task; fewer where they ask about one setting among many.
std::size_t enough(const Task& task) {
  Rounding r = task.rounding;
  r.overflow = Overflow::ieee;
  r.int_overflow = IntOverflow::saturate;
  return by_default(r) ? 1024 : 320;
}

std::uint64_t mask(const NumberType& type) {
  const int bits = storage_bits(type);
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

/// A random integer of random length and sign.
std::uint64_t integer(std::uint64_t index, int bits) {
  const auto word = static_cast<std::int64_t>(random_word(suite_version, 0, 2 * index));
  const auto length = random_word(suite_version, 0, 2 * index + 1) % static_cast<std::uint64_t>(bits);
  return static_cast<std::uint64_t>(word >> (63 - length));
}

}  // namespace

OperandColumns every_code(const Task& task) {
  OperandColumns x;
  if (!has_every_code(task)) return x;
  for (std::uint64_t code = 0; code <= mask(task.from); ++code) x.push(1, code);
  return x;
}

OperandColumns sampled(const Task& task) {
  OperandColumns x;
  if (has_every_code(task) || has_integers(task)) return x;
  const OperandSet operands = sampled_operands(task, enough(task), suite_version);
  const int arity = operands.arity;
  x.a.resize(operands.count);
  if (arity > 1) x.b.resize(operands.count);
  if (arity > 2) x.c.resize(operands.count);
  operands.fill(0, x.a, x.b, x.c);
  return x;
}

OperandColumns around_integers(const Task& task) {
  OperandColumns x;
  if (has_every_code(task) || !has_integers(task)) return x;
  const auto* from = std::get_if<FloatFormat>(&task.from);
  const int bits = storage_bits(from ? task.to : task.from);
  const auto add = [&](std::uint64_t integer) {
    x.push(1, from ? convert(fp64, *from, {},
                             std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(integer)) / 2))
                         .code
                   : integer & mask(task.from));
  };
  if (from) x.a = lattice(*from, 1);
  for (int i = 0; i <= bits; ++i)  // one beyond the largest: halves of them are taken where integers come out
    for (const std::uint64_t d : {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{1}})
      for (const std::uint64_t integer : {(std::uint64_t{1} << i % 64) + d, 0 - ((std::uint64_t{1} << i % 64) + d)})
        add(integer);
  for (std::uint64_t i = 0; x.size() < enough(task); ++i) add(integer(i, std::min(bits + 2, 64)));
  return x;
}

namespace {

// The tables: one line per section.

constexpr TaskSource tasks_asked[] = {
    {"codes", every_code},          // of narrow formats
    {"sampled", sampled},           // boundary cases, exponents that meet, fractions that make ties
    {"integers", around_integers},  // of conversions from and to integers
    {"experiments", nullptr},       // what experiments ask at their defaults
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

// Tasks.

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
      if (!refusal(task).empty() ||
          std::any_of(tasks.begin(), tasks.end(), [&](const Task& t) { return same(t, task); }))
        continue;
      tasks.push_back(task);
    }
  }
}

}  // namespace

std::span<const TaskSource> task_sources() { return tasks_asked; }
std::span<const MatrixSource> matrix_sources() { return matrices_asked; }

const TaskSource* find_task_source(std::string_view name) {
  const auto at = std::find_if(std::begin(tasks_asked), std::end(tasks_asked),
                               [&](const TaskSource& s) { return s.name == name; });
  return at == std::end(tasks_asked) ? nullptr : at;
}
const MatrixSource* find_matrix_source(std::string_view name) {
  const auto at = std::find_if(std::begin(matrices_asked), std::end(matrices_asked),
                               [&](const MatrixSource& s) { return s.name == name; });
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
      if (from != to && (to != NumberType(fp64) || from == NumberType(fp16) || from == NumberType(fp32)))
        ask(tasks, Operation::convert, from, to);
  return tasks;
}

std::vector<Task> tasks_for(const Device& device) {
  std::vector<Task> tasks = suite_tasks();
  for (const Task& own : device.own_tasks()) {
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
  const bool selects = operation.result == ResultKind::truth || task.operation == Operation::min ||
                       task.operation == Operation::max;
  if (selects || (task.operation == Operation::convert && widens(task.from, task.to))) r.mode = plain.mode;
  if (selects) r.overflow = plain.overflow;
  if (operation.result == ResultKind::truth) r.flush_outputs = plain.flush_outputs, r.tininess = plain.tininess;
  return task;
}

bool same(const Task& x, const Task& y) {
  return x.operation == y.operation && x.from == y.from && x.to == y.to && x.rounding == y.rounding;
}

}  // namespace halfulp::recording
