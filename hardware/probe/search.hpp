// Finding a model whose answers are the device's.
#pragma once

#include <halfulp/hardware/probe/answers.hpp>

#include <optional>

namespace halfulp::probe {

/// A fused sum that gives every answer, if there is one among the candidates (parameter.hpp). NaN, zero's sign, flushed operands
/// and the layout are read off; bits, modes and the least exponent are searched, first where the last does not matter.
std::optional<MatrixUnit> find_fused(const Answers& answers);

/// The same for the other rules that are fused sums of their own kind (rules::halves_apart, rules::scaled_groups), and every
/// length of the rules that have no parameter but that.
std::vector<MatrixUnit> find_others(const Answers& answers);

}  // namespace halfulp::probe
