// An NVIDIA GPU as a backend. Building it needs nvcc; using it needs a driver, which is not looked for before the first call.
#pragma once

#include <halfulp/hardware/backend.hpp>

namespace halfulp {

/// "cuda": the device's own scalar instructions for fp16, bf16 and FP8. Without nvcc at build time: a stub that says so.
const Backend& cuda_backend();

}  // namespace halfulp
