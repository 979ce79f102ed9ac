// halfulp's own kernels on a device against the same functions on the host.
#pragma once

#include <halfulp/cuda/gpu.hpp>
#include <halfulp/hardware/check.hpp>

namespace halfulp::cuda {

/// quantize and encode in every mode, and decode, of the 16-bit and narrower formats of the catalogue, on `count` floats (random
/// words, and what lies around the values of the format). Every element is compared.
/// Precondition: gpu.available().yes. Throws GpuError.
std::vector<Check> check_kernels(const Gpu& gpu, std::size_t count, const Progress& progress);

/// The sums and programs of program_check.hpp. As above.
std::vector<Check> check_programs_and_sums(const Gpu& gpu, const Progress& progress);

/// Every matrix instruction that runs there: whole tiles beside the same products on a diagonal. As above.
std::vector<Check> check_whole_tiles(const Gpu& gpu, const Progress& progress);

/// The device behind a backend, "cuda" or "rehearsal"; nullptr for others.
const Gpu* find_gpu(std::string_view backend);

}  // namespace halfulp::cuda
