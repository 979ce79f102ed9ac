// Matrix units as JSON: what `halfulp units --json` writes and `--unit-file` reads.
#pragma once

#include <halfulp/emulation/unit/unit.hpp>
#include <halfulp/support/json_fwd.hpp>

#include <string>

namespace halfulp {

/// Every parameter of a unit that its rule looks at, one member each; unit_of_json reads it back.
Json unit_to_json(const MatrixUnit& unit);

/// The unit that an object describes. `based_on` names a unit of the table: its parameters are the defaults, and its
/// name with a * appended is the default name, as it is of a unit that has the name of another. Without `based_on`,
/// name, a, b, accumulator and k are needed, and the defaults are: m and n 1, rule fused, length k, alignment_bits 0,
/// least_exponent null (none), alignment and rounding toward-zero, kept the accumulator, nan all ones below a clear
/// sign, flags false. Throws std::invalid_argument in one line that begins with `file` for a member that is unknown,
/// has another type, is out of range or does not concern the rule, and for a unit that cannot be computed (`refusal`).
MatrixUnit unit_of_json(const Json& object, const std::string& file);
/// The same for a file, "-" being standard input. Also throws what read_json throws.
MatrixUnit read_unit_file(const std::string& path);

}  // namespace halfulp
