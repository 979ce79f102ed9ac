// GPUs as references of verify: halfulp's arithmetic and the device's instruction side by side on the device.
#pragma once

#include <halfulp/cuda/gpu.hpp>
#include <halfulp/hardware/verify/reference.hpp>
#include <halfulp/hardware/verify/triples.hpp>

#include <memory>

namespace halfulp::verify {

/// "cuda" and "rehearsal".
const Reference& cuda_reference();
const Reference& rehearsal_reference();

/// The judge of all 2^48 triples of a 16-bit fma to nearest, `pairs` pairs of magnitudes a chunk. The device has to outlive it.
std::unique_ptr<Judge> make_triples_judge(const cuda::Gpu& gpu, const Task& task, std::uint64_t pairs = pairs_per_chunk);

/// A device, which has to outlive the reference, with the backend on it.
std::unique_ptr<Reference> make_reference(const cuda::Gpu& gpu, const Backend& backend);

}  // namespace halfulp::verify
