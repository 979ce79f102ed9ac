// What tasks are asked on: functions of the task alone.
#pragma once

#include <halfulp/hardware/recording/suite.hpp>

namespace halfulp::recording {

/// Every operand of 8-bit types; every operand of 16-bit ones to nearest even, other settings at their defaults, where the
/// result is a root, a conversion between 16-bit types, or fp16 widened to fp32. Others would make recordings large.
Columns every_code(const Task& task);
/// verify::sampled_inputs: boundary cases of operands and results, exponents that meet, fractions that make ties.
Columns sampled(const Task& task);
/// Of conversions from and to integers: the neighbours of powers of two, the lattice, numbers of every length.
Columns around_integers(const Task& task);

}  // namespace halfulp::recording
