// This CPU's matrix instructions.
#pragma once

#include <halfulp/hardware/matrix/device.hpp>

#include <span>

namespace halfulp {

/// x86:x86.avx512.bf16.fp32 (VDPBF16PS) and x86:x86.amx.bf16.fp32 (TDPBF16PS), here or not: ask available(). Any depth: k is
/// padded with zeros to a multiple of the instruction's, and the instructions are chained.
std::span<const MatrixDevice* const> x86_matrix_devices();

}  // namespace halfulp
