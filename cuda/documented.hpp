// Fragments as the PTX documentation defines them (PTX ISA 9.2), instruction by instruction and in its words. This
// shares only types with fragments.hpp: the rehearsal's instructions read and write registers by it, and a test
// compares the two.
#pragma once

#include <halfulp/cuda/fragments.hpp>

namespace halfulp::cuda::documented {

/// Element i of a thread's fragment; what the documentation calls ai, bi, ci or di.
TileElement a(const MatrixInstruction& instruction, int thread, int i);
TileElement b(const MatrixInstruction& instruction, int thread, int i);
TileElement d(const MatrixInstruction& instruction, int thread, int i);

/// A matrix descriptor's fields (9.7.15.5.1.2, "Matrix Descriptor Format"), in bytes.
struct Descriptor {
  unsigned start, leading, stride, base, swizzle;
};
Descriptor fields(std::uint64_t descriptor);

/// The address in shared memory of a byte along k of a row of A (a column of B): K-major, no swizzle (9.7.15.5.1.2).
unsigned address(const Descriptor& matrix, int row, int byte);

}  // namespace halfulp::cuda::documented
