// The matrix instructions of a GPU as devices that answer cases; and whole tiles, which show that answers do not depend
// on where in a tile they are computed.
#pragma once

#include <halfulp/cuda/gpu.hpp>
#include <halfulp/cuda/matrix_instructions.hpp>
#include <halfulp/hardware/matrix.hpp>

#include <memory>
#include <vector>

namespace halfulp::cuda {

/// Bytes of operands and results that are on the device at once.
inline constexpr std::size_t matrix_chunk = std::size_t{1} << 26;

/// One device for each of matrix_rows(), "cuda:hopper.wgmma.e4m3.fp32"; available() says which this GPU has. Any depth:
/// k is padded with zeros to a multiple of the instruction's, and the instructions are chained. The GPU must outlive
/// them; run() throws GpuError. They take its first lane: one at a time.
std::vector<std::unique_ptr<const MatrixDevice>> cuda_matrix_devices(const Gpu& gpu, std::size_t chunk = matrix_chunk);

/// Why a GPU does not run a row: "a unit of another architecture, sm_90a; this is sm_80"; or that it does.
Support runs(const Gpu& gpu, const MatrixRow& row);

/// Whole tiles as memory holds them: words of A, tiles x m rows of k; of B, tiles x n columns of k; of C, tiles x m x
/// n.
struct WholeTiles {
  std::size_t tiles = 0, k = 0;
  std::vector<std::uint64_t> a, b, c;
};
/// D, tiles x m x n words, of the row of that number. Preconditions: it runs there; the sizes fit. Throws GpuError.
std::vector<std::uint64_t> whole_tiles(const Gpu& gpu, std::size_t row, const WholeTiles& operands,
                                       std::size_t chunk = matrix_chunk);

/// Every element of `tiles` tiles of D beside the same products as a case of the row's device, which takes the
/// diagonals.
struct PlaceCheck {
  std::size_t compared = 0, differing = 0;
  std::string first;  ///< "tile 0, row 9, column 3: 3f800000 there, 3f800200 on the diagonal"
};
PlaceCheck check_places(const Gpu& gpu, std::size_t row, std::size_t tiles, std::size_t k, std::uint64_t seed);

}  // namespace halfulp::cuda
