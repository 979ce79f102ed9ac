// The emulation as a backend: the reference that the devices are held against.
#pragma once

#include <halfulp/hardware/backend.hpp>

namespace halfulp {

const Backend& emulated_backend();

}  // namespace halfulp
