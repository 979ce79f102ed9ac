// Rows of matrix units to the kernels of their instructions.
#include <halfulp/cuda/device/matrix.cuh>

namespace halfulp::cuda {

void launch_matrix(Lane lane, std::size_t row, const MatrixArgs& x) {
  const MatrixRow& what = matrix_rows()[row];
  (what.made_of().kind == MatrixKind::mma ? mma_launcher : wgmma_launcher)(what.instruction)(stream_of(lane), x);
}

}  // namespace halfulp::cuda
