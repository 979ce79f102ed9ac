// The questions of a recording: tasks and matrix shapes, and what they are asked on. The same on every machine.
#pragma once

#include <halfulp/hardware/device.hpp>

namespace halfulp::recording {

/// Raise it when an existing source changes its operands (sampled_operands and tiles() are where they come from),
/// or is taken away: recordings made before cannot be read then, and have to be made again. A new source does not
/// affect them.
inline constexpr int suite_version = 1;

/// One kind of operands for tasks. No operands: the source has nothing to ask of that task.
struct TaskSource {
  std::string_view name;
  OperandColumns (*operands)(const Task& task);  ///< of a canonical task; nullptr: handed to the recorder, and kept in
                                                 ///< the recording beside the answers
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

/// The same, and what the device has beyond them (Device::own_tasks).
std::vector<Task> tasks_for(const Device& device);

/// The task with every setting that cannot change its code words at its default: tasks with the same canonical form
/// have the same answers. The NaN rule is set to its default too, since it is the device's own.
Task canonical(Task task);
bool same(const Task& x, const Task& y);

// The operands of a task: they depend on nothing else.

/// Every operand of 8-bit types; every operand of 16-bit ones to nearest even, other settings at their defaults, where
/// the result is a root, a conversion between 16-bit types, or fp16 widened to fp32. Others would make recordings
/// large.
OperandColumns every_code(const Task& task);
/// sampled_operands: boundary cases of operands and results, exponents that meet, fractions that make ties.
OperandColumns sampled(const Task& task);
/// Of conversions from and to integers: the neighbours of powers of two, the lattice, numbers of every length.
OperandColumns around_integers(const Task& task);

}  // namespace halfulp::recording
