// CPFloat where the user has given its source (cpfloat.c); it rounds, and has no code words.
#include "peer.hpp"

namespace halfulp::bench {

#ifdef HALFULP_HAS_CPFLOAT
extern "C" void halfulp_cpfloat(const float* a, float* x, std::size_t count, int precision, int emin, int emax,
                                int mode);

namespace {

/// mode: CPFloat's number of it.
template <int precision, int emin, int emax, int mode>
Kernel rounding(std::string_view format, std::string_view name) {
  return {"quantize", format, name, [](const void* const* in, void* out, std::size_t count) {
            halfulp_cpfloat(static_cast<const float*>(in[0]), static_cast<float*>(out), count, precision, emin, emax,
                            mode);
          }};
}
template <int precision, int emin, int emax>
void add_modes(Peer& peer, std::string_view format) {
  peer.kernels.insert(peer.kernels.end(), {rounding<precision, emin, emax, 1>(format, "nearest-even"),
                                           rounding<precision, emin, emax, -1>(format, "nearest-away"),
                                           rounding<precision, emin, emax, 0>(format, "nearest-to-zero"),
                                           rounding<precision, emin, emax, 4>(format, "toward-zero"),
                                           rounding<precision, emin, emax, 2>(format, "toward-positive"),
                                           rounding<precision, emin, emax, 3>(format, "toward-negative"),
                                           rounding<precision, emin, emax, 7>(format, "to-odd"),
                                           rounding<precision, emin, emax, 5>(format, "stochastic")});
}

}  // namespace

Peer cpfloat() {
  Peer peer{"CPFloat", "of " HALFULP_HAS_CPFLOAT, {}};
  add_modes<11, -14, 15>(peer, "fp16");
  add_modes<8, -126, 127>(peer, "bf16");
  add_modes<4, -6, 8>(peer, "e4m3");
  add_modes<3, -14, 15>(peer, "e5m2");
  add_modes<2, 0, 2>(peer, "e2m1");
  return peer;
}
#else
Peer cpfloat() {
  return {"CPFloat", "skipped: no registry has it; ./run bench --peer-source DIR takes its source", {}};
}
#endif

}  // namespace halfulp::bench
