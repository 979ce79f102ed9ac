// Matrix units as JSON: what `halfulp units --json` writes and `--unit-file` reads.
#pragma once

#include <halfulp/emulation/unit/unit.hpp>
#include <halfulp/support/json_fwd.hpp>

#include <string>

namespace halfulp {

/// Everything about a unit that its rule looks at, one member a parameter; unit_of_json reads it back.
Json unit_to_json(const MatrixUnit& unit);

/// The unit that an object describes. `based_on` names a unit of the table whose parameters hold where none are given,
/// and whose name with a * behind it is the unit's where it has none; without it, name, a, b, accumulator and k are
/// there, and the rest has these defaults: m and n 1, rule fused, length k, alignment_bits 0, least_exponent null
/// (none), alignment and rounding toward-zero, kept the accumulator, nan all ones below a clear sign, flags false.
/// Throws std::invalid_argument in one line that begins with `file`: a member that is unknown, of another type or out
/// of range, that the rule does not look at, or a unit that cannot be computed (`refusal`).
MatrixUnit unit_of_json(const Json& object, const std::string& file);
/// The same for the file itself, "-" being standard input; what read_json refuses too.
MatrixUnit read_unit_file(const std::string& path);

}  // namespace halfulp
