// Rounding of arrays where they are: in the memory of a GPU, in the order of another library's work.
#include "addresses.hpp"
#include "module.hpp"

#include <halfulp/cuda/borrowed.hpp>

namespace halfulp::python {
namespace {

/// Where work is done: a GPU's queue, or this process's memory, in which the rehearsal does a kernel's work.
struct Queue {
  cuda::Stream stream;
  bool rehearsed = false;

  template <class Args>
  void put(const Args& x, void (*on_device)(const cuda::Stream&, const Args&),
           void (cuda::Kernels::*rehearsal)(cuda::Lane, const Args&) const) const {
    const nb::gil_scoped_release released;
    if (x.count == 0) return;
    constexpr Address alignment = 16;  // beyond which a kernel's fault would cost the process its device
    for (const void* const memory : {static_cast<const void*>(x.in), static_cast<const void*>(x.out)})
      if (reinterpret_cast<Address>(memory) % alignment != 0)
        throw std::invalid_argument("memory of a kernel is not aligned to 16 bytes");
    if (rehearsed) (cuda::rehearsal_gpu().kernels().*rehearsal)(cuda::Lane::first, x);
    else on_device(stream, x);
  }
};

/// A number of bytes that kernels know: of code words, or 0 for floats.
int accepted_bytes(const FloatFormat& f, int bytes, int least) {
  if (bytes < least || bytes > 2 || (bytes != 0 && f.storage_bits() > 8 * bytes))
    throw std::invalid_argument(format_name(f) + " has code words of " + std::to_string(f.storage_bits()) +
                                " bits; accepted on a GPU: at most 16");
  return bytes;
}

}  // namespace

void add_device(nb::module_& m) {
  m.def(
      "missing_gpu", [] { return cuda::native_gpu().available().reason; },
      "Why this build has no GPU to work on; empty if it has.");
  nb::class_<Queue>(m, "Queue", "A queue of a GPU's work.")
      .def(
          "__init__",
          [](Queue* queue, int device, Address handle, bool rehearsed) {
            new (queue)
                Queue{{device, reinterpret_cast<void*>(handle)}, rehearsed};  // NOLINT(performance-no-int-to-ptr)
          },
          nb::arg("device"), nb::arg("handle"), nb::arg("rehearsed") = false,
          "The CUDA runtime's number of a device, and a cudaStream_t. `rehearsed`: in this process's memory instead.")
      .def(
          "narrow",
          [](const Queue& queue, const FloatFormat& f, const Rounding& r, Address in, int bytes, Address out,
             std::size_t count, const Draws& draws) {
            const auto plan = array::narrow_plan<float>(f, r, array::Source::conversion);
            if (!plan)
              throw std::invalid_argument("format: " + format_name(f) +
                                          " under this rounding has no kernel; accepted on a GPU: formats within "
                                          "float32 with a sign and zeros, NaNs that are not kept");
            queue.put(cuda::NarrowArgs{*plan, read_at<float>(in, count).data(), write_at<float>(out, count).data(),
                                       accepted_bytes(f, bytes, 0), count, stream_of(draws)},
                      cuda::narrow_in, &cuda::Kernels::narrow);
          },
          nb::arg("format"), nb::arg("rounding"), nb::arg("x"), nb::arg("bytes"), nb::arg("out"), nb::arg("count"),
          nb::arg("draws"),
          "quantize() (bytes 0), or encode() to code words of so many bytes, by addresses of 16 bytes' alignment.")
      .def(
          "widen",
          [](const Queue& queue, const FloatFormat& f, int bytes, Address codes, Address out, std::size_t count) {
            const auto plan = array::widen_plan(f, false);
            if (!plan) throw std::invalid_argument("format: " + format_name(f) + " has no kernel");
            queue.put(cuda::WidenArgs{*plan, read_at<std::uint8_t>(codes, count).data(), accepted_bytes(f, bytes, 1),
                                      write_at<float>(out, count).data(), count},
                      cuda::widen_in, &cuda::Kernels::widen);
          },
          nb::arg("format"), nb::arg("bytes"), nb::arg("codes"), nb::arg("out"), nb::arg("count"),
          "decode() by addresses of 16 bytes' alignment.");
}

}  // namespace halfulp::python
