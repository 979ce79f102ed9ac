// What the probe found, as text and as JSON.
#pragma once

#include <halfulp/experiments/report/config.hpp>
#include <halfulp/hardware/matrix/device.hpp>
#include <halfulp/hardware/probe/infer.hpp>

#include <string>

namespace halfulp::cli {

/// A short explained list, lines of about a hundred characters.
std::string probe_text(const MatrixDevice& device, const MatrixCases& cases, const probe::Findings& found);

/// The same for programs: code words in hexadecimal text, ranges as pairs.
Json probe_json(const MatrixDevice& device, const MatrixCases& cases, const probe::Findings& found);

}  // namespace halfulp::cli
