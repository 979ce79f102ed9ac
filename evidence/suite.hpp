// The questions of a recording: tasks and matrix shapes, and what they are asked on. The same on every machine.
#pragma once

#include <halfulp/hardware/backend.hpp>
#include <halfulp/hardware/matrix.hpp>

namespace halfulp::recording {

/// Raised when an existing source changes its operands (verify::sampled_inputs and tiles() are where they come from),
/// or is taken away: recordings made before can then not be read, and are made anew. A new source leaves them as they
/// are.
inline constexpr int suite_version = 1;

/// Operand columns; those that an operation does not take are empty.
struct Columns {
  std::vector<std::uint64_t> a, b, c;
  std::size_t size() const { return a.size(); }
  Operands view() const { return {a, b, c}; }
  void push(int arity, std::uint64_t x, std::uint64_t y = 0, std::uint64_t z = 0);
};

/// One kind of operands for tasks. No operands: the source has nothing to ask of that task.
struct TaskSource {
  std::string_view name;
  Columns (*operands)(const Task& task);  ///< of a canonical task; nullptr: handed to the recorder, and kept in the
                                          ///< recording beside the answers
};
/// One kind of operands for matrix instructions.
struct MatrixSource {
  std::string_view name;
  MatrixCases (*cases)(const MatrixShape& shape);
};

std::span<const TaskSource> task_sources();
std::span<const MatrixSource> matrix_sources();
/// The source of that name; nullptr if there is none.
const TaskSource* find_task_source(std::string_view name);
const MatrixSource* find_matrix_source(std::string_view name);

/// Every task that a device is asked, canonical, each once; it may refuse many.
std::vector<Task> suite_tasks();

/// The same, and what the backend has beyond them (Backend::own_tasks).
std::vector<Task> tasks_for(const Backend& backend);

/// The task with whatever cannot matter to its code words at its default, the NaN rule too, which is the device's own:
/// tasks of one canonical form have the same answers.
Task canonical(Task task);
bool same(const Task& x, const Task& y);

// What tasks are asked on: functions of the task alone.

/// Every operand of 8-bit types; every operand of 16-bit ones to nearest even, other settings at their defaults, where
/// the result is a root, a conversion between 16-bit types, or fp16 widened to fp32. Others would make recordings
/// large.
Columns every_code(const Task& task);
/// verify::sampled_inputs: boundary cases of operands and results, exponents that meet, fractions that make ties.
Columns sampled(const Task& task);
/// Of conversions from and to integers: the neighbours of powers of two, the lattice, numbers of every length.
Columns around_integers(const Task& task);

}  // namespace halfulp::recording
