// Kernels on memory that another library of this process has on a GPU, as torch's tensors, in the order of its work.
#pragma once

#include <halfulp/cuda/kernels.hpp>

namespace halfulp::cuda {

/// A queue of work of another library: its device by the CUDA runtime's number, and its cudaStream_t (null: the default
/// stream). Runtimes of one process share devices' contexts and streams.
struct Stream {
  int device = 0;
  void* handle = nullptr;
};

/// Puts halfulp's own quantize or encode (narrow_in), or decode (widen_in), into a queue, and returns before it is
/// done. Floats and words are on the queue's device, aligned to 16 bytes. Preconditions: native_gpu().available(),
/// x.count above 0. Throw GpuError where the device refuses. Without nvcc they throw std::logic_error.
void narrow_in(const Stream& stream, const NarrowArgs& x);
void widen_in(const Stream& stream, const WidenArgs& x);

}  // namespace halfulp::cuda
