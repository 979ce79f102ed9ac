// Profiles of the CUDA headers' host code.
#include <halfulp/emulation/profiles/tables.hpp>

namespace halfulp::casts {
namespace {

constexpr CastSources f32 = source::fp32, f16 = source::fp16, b16 = source::bf16, f64 = source::fp64, all = source::all;

/// Shorter operands give one NaN; doubles keep sign and, in E5M2, leading bits of the payload.
constexpr CastRule narrow(const FloatFormat& to, std::string_view function, BySign overflow) {
  return rule(to, f32 | f16 | b16, function, overflow, overflow, both(to.magnitude_mask()));
}
constexpr CastRule of_double(const FloatFormat& to, BySign overflow) {
  const CastRule r = rule(to, f64, "__nv_cvt_double_to_fp8", overflow, overflow, nan(to));
  return to.nonfinite == NonFinite::ieee ? payload(r, NanPayload::quieted) : r;
}
constexpr CastRule scale(BySign overflow) {
  return noted(zero(ignore_sign(mode(rule(e8m0, f32 | b16 | f64, "__nv_cvt_*_to_e8m0, cudaRoundPosInf", overflow, overflow, both(0xff)), RoundingMode::toward_positive)), both(0)),
               "the sign is not looked at; zero becomes 2^-127; the rounding is an argument, up is what __nv_fp8_e8m0 takes");
}
constexpr CastRule finite_only(const FloatFormat& to, std::string_view function) {
  return noted(rule(to, all, function, largest(to), largest(to), both(to.max_finite())), "no NaN: one of either sign becomes +max");
}

constexpr CastRule satfinite[] = {
  narrow(e4m3, "__nv_cvt_*_to_fp8, __NV_SATFINITE", largest(e4m3)),
  of_double(e4m3, largest(e4m3)),
  narrow(e5m2, "__nv_cvt_*_to_fp8, __NV_SATFINITE", largest(e5m2)),
  of_double(e5m2, largest(e5m2)),
  scale(both(0xfe)),
  finite_only(e3m2, "__nv_cvt_*_to_fp6"),
  finite_only(e2m3, "__nv_cvt_*_to_fp6"),
  finite_only(e2m1, "__nv_cvt_*_to_fp4"),
};
constexpr CastRule nosat[] = {
  narrow(e4m3, "__nv_cvt_*_to_fp8, __NV_NOSAT", nan_of_ones(e4m3)),
  of_double(e4m3, nan_of_ones(e4m3)),
  narrow(e5m2, "__nv_cvt_*_to_fp8, __NV_NOSAT", infinite(e5m2)),
  of_double(e5m2, infinite(e5m2)),
  scale(both(0xff)),
  rule(fp16, f32 | f64, "__float2half_rn, __double2half", infinite(fp16), infinite(fp16), both(0x7fff)),
  rule(bf16, f32 | f64, "__float2bfloat16_rn, __double2bfloat16", infinite(bf16), infinite(bf16), both(0x7fff)),
};

constexpr std::string_view citation = "NVIDIA CUDA 13.0, cuda_fp8.hpp, cuda_fp6.hpp, cuda_fp4.hpp, cuda_fp16.hpp, cuda_bf16.hpp: host code";

constexpr Profile rows[] = {
  {"cuda-satfinite", "CUDA's conversions with __NV_SATFINITE, which its types take by themselves", "CUDA headers 13.0", citation, satfinite,
   "no FNUZ; fp16 and bf16 do not saturate: cuda-nosat; fp16 reaches e8m0 through fp32"},
  {"cuda-nosat", "CUDA's conversions with __NV_NOSAT", "CUDA headers 13.0", citation, nosat, "no FNUZ; FP6 and FP4 always saturate: cuda-satfinite"},
};

}  // namespace

std::span<const Profile> cuda_headers() { return rows; }

}  // namespace halfulp::casts
