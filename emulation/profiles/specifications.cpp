// Profiles of documents and of hardware: OCP, FNUZ as AMD converts to it, x86.
#include <halfulp/emulation/profiles/tables.hpp>

namespace halfulp::casts {
namespace {

constexpr CastEvidence by_text = CastEvidence::specification, read = CastEvidence::source_read;
constexpr CastSources f32 = source::fp32, f16 = source::fp16, f64 = source::fp64, all = source::all;

constexpr std::string_view open_nan = "the document leaves the NaN's code word open; here it is positive";
constexpr std::string_view open_special = "the document leaves NaN and infinities open; here NaN becomes +max, an infinity max of its sign";

constexpr CastRule ocp(const FloatFormat& to, BySign overflow, BySign infinity, std::string_view note) {
  return noted(known(rule(to, all, "conversion from a wider format", overflow, infinity, both(to.canonical_nan())), by_text), note);
}
constexpr CastRule ocp_saturate[] = {
  ocp(e4m3, largest(e4m3), largest(e4m3), open_nan),
  ocp(e5m2, largest(e5m2), largest(e5m2), open_nan),
  ocp(e3m2, largest(e3m2), largest(e3m2), open_special),
  ocp(e2m3, largest(e2m3), largest(e2m3), open_special),
  ocp(e2m1, largest(e2m1), largest(e2m1), open_special),
};
constexpr CastRule ocp_nonsaturate[] = {
  ocp(e4m3, both(e4m3.canonical_nan()), both(e4m3.canonical_nan()), open_nan),
  ocp(e5m2, infinite(e5m2), infinite(e5m2), open_nan),
};

/// Whatever is larger than the largest value overflows, also what would round to it.
constexpr CastRule hip(const FloatFormat& to, bool saturate) {
  CastRule r = known(rule(to, all, saturate ? "__hip_cvt_float_to_fp8, __HIP_SATFINITE" : "__hip_cvt_float_to_fp8, __HIP_NOSAT",
                          saturate ? largest(to) : nan(to), nan(to), nan(to)), read);
  r.overflow_above = to.value(to.max_finite());
  r.note = "the host code shifts by 64 bits and more for operands far below the range, which C++ leaves undefined; here they become zero";
  return r;
}
constexpr CastRule fnuz[] = {hip(e4m3fnuz, true), hip(e5m2fnuz, true)};
constexpr CastRule fnuz_nosat[] = {hip(e4m3fnuz, false), hip(e5m2fnuz, false)};

constexpr CastRule flushed(CastRule r) {
  r.flush_inputs = true;
  return r;
}
constexpr CastRule x86[] = {
  payload(rule(fp16, f32, "VCVTPS2PH", infinite(fp16), infinite(fp16), nan(fp16)), NanPayload::quieted),
  flushed(payload(rule(bf16, f32, "VCVTNEPS2BF16", infinite(bf16), infinite(bf16), nan(bf16)), NanPayload::quieted)),
  payload(rule(fp32, f64, "CVTSD2SS", infinite(fp32), infinite(fp32), nan(fp32)), NanPayload::quieted),
  known(rule(e4m3, f16, "VCVTPH2HF8", nan(e4m3), nan(e4m3), nan(e4m3)), by_text),
  known(payload(rule(e5m2, f16, "VCVTPH2BF8", infinite(e5m2), infinite(e5m2), nan(e5m2)), NanPayload::quieted), by_text),
};

constexpr Profile rows[] = {
  {"ocp-saturate", "OCP's saturating conversion", "OFP8 1.0, MX 1.0, as cited; not run",
   "OCP 8-bit Floating Point Specification (OFP8) 1.0, 2023, section 5; OCP Microscaling Formats (MX) Specification 1.0, section 5.3", ocp_saturate,
   "E8M0 scales come from blocks, not from conversions; FNUZ formats are not OCP's"},
  {"ocp-nonsaturate", "OCP's conversion without saturation", "OFP8 1.0, as cited; not run", "OCP 8-bit Floating Point Specification (OFP8) 1.0, 2023, section 5", ocp_nonsaturate,
   "formats without NaN (MX FP6, FP4) always saturate: ocp-saturate"},
  {"fnuz", "FNUZ formats as HIP's header converts to them, saturating", "ROCm/clr 0038705",
   "ROCm/clr, hipamd/include/hip/amd_detail/amd_hip_fp8.h, cast_to_f8; Noune et al. 2022, arXiv:2206.02915", fnuz,
   "FNUZ formats alone; an infinity is NaN although numbers saturate"},
  {"fnuz-nosat", "FNUZ formats as HIP's header converts to them, without saturation", "ROCm/clr 0038705",
   "ROCm/clr, hipamd/include/hip/amd_detail/amd_hip_fp8.h, cast_to_f8; Noune et al. 2022, arXiv:2206.02915", fnuz_nosat,
   "FNUZ formats alone; NaN begins right above the largest value, not half a unit later"},
  {"x86", "conversion instructions of x86 CPUs, subnormals kept, to nearest even", "an AMD EPYC; FP8 (AVX10.2) after the document, not run",
   "Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2; Intel AVX10.2 Architecture Specification (FP8)", x86,
   "FP8 from fp16 alone (AVX10.2); fp64 reaches 16 bits through fp32, or by AVX512-FP16"},
};

}  // namespace

std::span<const Profile> specifications() { return rows; }

}  // namespace halfulp::casts
