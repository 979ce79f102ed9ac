// Matrix devices by the name of their backend.
#pragma once

#include <halfulp/hardware/matrix.hpp>

#include <string>
#include <string_view>

namespace halfulp {

/// The matrix instructions of a backend, some of which may be missing here: ask available().
struct MatrixDevices {
  std::vector<std::shared_ptr<const MatrixDevice>> devices;
  std::string reason;  ///< why there are none; empty where there are
};

/// The matrix instructions of this machine that belong to a backend ("x86", "cuda", "rehearsal"), missing ones
/// included.
std::span<const MatrixDevice* const> native_matrix_devices(std::string_view backend);

/// All of a backend's, by its name: "x86", "recorded:NAME". Throws as the following does.
MatrixDevices matrix_devices_of(std::string_view backend);

/// emulated:UNIT is the model of a unit of the table; x86, cuda, rehearsal and recorded:NAME are devices, with :UNIT
/// behind it one of theirs. Throws std::invalid_argument in one line for other names, the nearest ones named.
MatrixDevices find_matrix_devices(std::string_view name);

}  // namespace halfulp
