// The compiler's own _Float16, with whatever instructions it finds for it on this CPU.
#include "peer.hpp"

namespace halfulp::bench {

#ifdef __FLT16_MANT_DIG__
Peer float16() {
  using Half = _Float16;
  constexpr std::string_view rne = "nearest-even";
  Peer peer{"_Float16", __VERSION__, {}};
  peer.kernels = {
      unary<float, float>("quantize", "fp16", rne, [](float x) { return static_cast<float>(static_cast<Half>(x)); }),
      unary<float, Half>("encode", "fp16", rne, [](float x) { return static_cast<Half>(x); }),
      unary<Half, float>("decode", "fp16", "exact", [](Half x) { return static_cast<float>(x); }),
      unary<Half, Half>("sqrt", "fp16", rne,
                        [](Half x) { return static_cast<Half>(__builtin_sqrtf(static_cast<float>(x))); }),
      binary<Half>("add", "fp16", rne, [](Half a, Half b) -> Half { return a + b; }),
      binary<Half>("mul", "fp16", rne, [](Half a, Half b) -> Half { return a * b; }),
      binary<Half>("div", "fp16", rne, [](Half a, Half b) -> Half { return a / b; }),
  };
  return peer;
}
#else
Peer float16() { return {"_Float16", "skipped: this compiler has none for this CPU", {}}; }
#endif

}  // namespace halfulp::bench
