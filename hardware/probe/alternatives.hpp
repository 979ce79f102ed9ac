// Settings of several parameters at once that give the same answers.
#pragma once

#include <halfulp/hardware/probe/answers.hpp>
#include <halfulp/hardware/probe/infer.hpp>

namespace halfulp::probe {

/// Other alignments, and products normalised or not, with the range of alignment bits that goes with each; the model's own
/// setting is not among them unless its range is wider together with the least exponent. Empty for other rules than fused.
std::vector<Alternative> alternatives(const Answers& answers, const MatrixUnit& model);

}  // namespace halfulp::probe
