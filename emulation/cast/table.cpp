// The cast profiles known, as tables of rules.
#include <halfulp/emulation/cast/rules.hpp>

#include <vector>

namespace halfulp::casts {

// Profiles of documents and of hardware: OCP, FNUZ as AMD converts to it, x86.

namespace {

constexpr CastEvidence by_text = CastEvidence::specification, read = CastEvidence::source_read;
constexpr CastSources f32 = source::fp32, f16 = source::fp16, b16 = source::bf16, f64 = source::fp64, all = source::all;

constexpr std::string_view open_nan = "the document leaves the NaN's code word open; here it is positive";
constexpr std::string_view open_special =
    "the document leaves NaN and infinities open; here NaN becomes +max, an infinity max of its sign";

constexpr CastRule ocp(const FloatFormat& to, BySign overflow, BySign infinity, std::string_view note) {
  return noted(
      known(rule(to, all, "conversion from a wider format", overflow, infinity, both(to.canonical_nan())), by_text),
      note);
}
constexpr CastRule ocp_saturate[] = {
    ocp(e4m3, largest(e4m3), largest(e4m3), open_nan),     ocp(e5m2, largest(e5m2), largest(e5m2), open_nan),
    ocp(e3m2, largest(e3m2), largest(e3m2), open_special), ocp(e2m3, largest(e2m3), largest(e2m3), open_special),
    ocp(e2m1, largest(e2m1), largest(e2m1), open_special),
};
constexpr CastRule ocp_nonsaturate[] = {
    ocp(e4m3, both(e4m3.canonical_nan()), both(e4m3.canonical_nan()), open_nan),
    ocp(e5m2, infinite(e5m2), infinite(e5m2), open_nan),
};

/// Whatever is larger than the largest value overflows, also what would round to it.
constexpr CastRule hip(const FloatFormat& to, bool saturate) {
  CastRule r = known(
      rule(to, all, saturate ? "__hip_cvt_float_to_fp8, __HIP_SATFINITE" : "__hip_cvt_float_to_fp8, __HIP_NOSAT",
           saturate ? largest(to) : nan(to), nan(to), nan(to)),
      read);
  r.overflow_above = to.value(to.max_finite());
  r.note =
      "the host code shifts by 64 bits and more for operands far below the range, which C++ leaves undefined; here "
      "they become zero";
  return r;
}
constexpr CastRule fnuz[] = {hip(e4m3fnuz, true), hip(e5m2fnuz, true)};
constexpr CastRule fnuz_nosat[] = {hip(e4m3fnuz, false), hip(e5m2fnuz, false)};

constexpr CastRule inputs_flushed(CastRule r) {
  r.flush_inputs = true;
  return r;
}
constexpr CastRule x86[] = {
    payload(rule(fp16, f32, "VCVTPS2PH", infinite(fp16), infinite(fp16), nan(fp16)), NanPayload::quieted),
    inputs_flushed(
        payload(rule(bf16, f32, "VCVTNEPS2BF16", infinite(bf16), infinite(bf16), nan(bf16)), NanPayload::quieted)),
    payload(rule(fp32, f64, "CVTSD2SS", infinite(fp32), infinite(fp32), nan(fp32)), NanPayload::quieted),
    known(rule(e4m3, f16, "VCVTPH2HF8", nan(e4m3), nan(e4m3), nan(e4m3)), by_text),
    known(payload(rule(e5m2, f16, "VCVTPH2BF8", infinite(e5m2), infinite(e5m2), nan(e5m2)), NanPayload::quieted),
          by_text),
};

constexpr Profile specification_rows[] = {
    {"ocp-saturate", "OCP's saturating conversion", "OFP8 1.0, MX 1.0, as cited; not run",
     "OCP 8-bit Floating Point Specification (OFP8) 1.0, 2023, section 5; OCP Microscaling Formats (MX) Specification "
     "1.0, section 5.3",
     ocp_saturate, "E8M0 scales come from blocks, not from conversions; FNUZ formats are not OCP's"},
    {"ocp-nonsaturate", "OCP's conversion without saturation", "OFP8 1.0, as cited; not run",
     "OCP 8-bit Floating Point Specification (OFP8) 1.0, 2023, section 5", ocp_nonsaturate,
     "formats without NaN (MX FP6, FP4) always saturate: ocp-saturate"},
    {"fnuz", "FNUZ formats as HIP's header converts to them, saturating", "ROCm/clr 0038705",
     "ROCm/clr, hipamd/include/hip/amd_detail/amd_hip_fp8.h, cast_to_f8; Noune et al. 2022, arXiv:2206.02915", fnuz,
     "FNUZ formats alone; an infinity is NaN although numbers saturate"},
    {"fnuz-nosat", "FNUZ formats as HIP's header converts to them, without saturation", "ROCm/clr 0038705",
     "ROCm/clr, hipamd/include/hip/amd_detail/amd_hip_fp8.h, cast_to_f8; Noune et al. 2022, arXiv:2206.02915",
     fnuz_nosat, "FNUZ formats alone; NaN begins right above the largest value, not half a unit later"},
    {"x86", "conversion instructions of x86 CPUs, subnormals kept, to nearest even",
     "an AMD EPYC; FP8 (AVX10.2) after the document, not run",
     "Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2; Intel AVX10.2 Architecture Specification "
     "(FP8)",
     x86, "FP8 from fp16 alone (AVX10.2); fp64 reaches 16 bits through fp32, or by AVX512-FP16"},
};

}  // namespace

// Profiles of the CUDA headers' host code.

namespace {

/// Shorter operands give one NaN; doubles keep sign and, in E5M2, leading bits of the payload.
constexpr CastRule cuda_narrow(const FloatFormat& to, std::string_view function, BySign overflow) {
  return rule(to, f32 | f16 | b16, function, overflow, overflow, both(to.magnitude_mask()));
}
constexpr CastRule of_double(const FloatFormat& to, BySign overflow) {
  const CastRule r = rule(to, f64, "__nv_cvt_double_to_fp8", overflow, overflow, nan(to));
  return to.nonfinite == NonFinite::ieee ? payload(r, NanPayload::quieted) : r;
}
constexpr CastRule scale(BySign overflow) {
  return noted(
      zero(ignore_sign(
               mode(rule(e8m0, f32 | b16 | f64, "__nv_cvt_*_to_e8m0, cudaRoundPosInf", overflow, overflow, both(0xff)),
                    RoundingMode::toward_positive)),
           both(0)),
      "the sign is not looked at; zero becomes 2^-127; the rounding is an argument, up is what __nv_fp8_e8m0 takes");
}
constexpr CastRule cuda_finite(const FloatFormat& to, std::string_view function) {
  return noted(rule(to, all, function, largest(to), largest(to), both(to.max_finite())),
               "no NaN: one of either sign becomes +max");
}

constexpr CastRule satfinite[] = {
    cuda_narrow(e4m3, "__nv_cvt_*_to_fp8, __NV_SATFINITE", largest(e4m3)),
    of_double(e4m3, largest(e4m3)),
    cuda_narrow(e5m2, "__nv_cvt_*_to_fp8, __NV_SATFINITE", largest(e5m2)),
    of_double(e5m2, largest(e5m2)),
    scale(both(0xfe)),
    cuda_finite(e3m2, "__nv_cvt_*_to_fp6"),
    cuda_finite(e2m3, "__nv_cvt_*_to_fp6"),
    cuda_finite(e2m1, "__nv_cvt_*_to_fp4"),
};
constexpr CastRule nosat[] = {
    cuda_narrow(e4m3, "__nv_cvt_*_to_fp8, __NV_NOSAT", nan_of_ones(e4m3)),
    of_double(e4m3, nan_of_ones(e4m3)),
    cuda_narrow(e5m2, "__nv_cvt_*_to_fp8, __NV_NOSAT", infinite(e5m2)),
    of_double(e5m2, infinite(e5m2)),
    scale(both(0xff)),
    rule(fp16, f32 | f64, "__float2half_rn, __double2half", infinite(fp16), infinite(fp16), both(0x7fff)),
    rule(bf16, f32 | f64, "__float2bfloat16_rn, __double2bfloat16", infinite(bf16), infinite(bf16), both(0x7fff)),
};

constexpr std::string_view citation =
    "NVIDIA CUDA 13.0, cuda_fp8.hpp, cuda_fp6.hpp, cuda_fp4.hpp, cuda_fp16.hpp, cuda_bf16.hpp: host code";

constexpr Profile cuda_rows[] = {
    {"cuda-satfinite", "CUDA's conversions with __NV_SATFINITE, which its types take by themselves",
     "CUDA headers 13.0", citation, satfinite,
     "no FNUZ; fp16 and bf16 do not saturate: cuda-nosat; fp16 reaches e8m0 through fp32"},
    {"cuda-nosat", "CUDA's conversions with __NV_NOSAT", "CUDA headers 13.0", citation, nosat,
     "no FNUZ; FP6 and FP4 always saturate: cuda-satfinite"},
};

}  // namespace

// Profiles of libraries that one calls from Python. Each rule was fitted to what the library answers:
// tests/peers/profiles.py.

namespace {

// --- ml_dtypes, and numpy's own float16 ---

/// From float64 these go through float32: a number near a midpoint is rounded twice.
constexpr CastRule narrow(const FloatFormat& to, std::string_view function, BySign overflow) {
  return through_fp32(rule(to, all, function, overflow, overflow, nan(to)), f64);
}
constexpr std::string_view no_nan = "no NaN: a positive one becomes -0, a negative one +0";
/// The two 6-bit formats and FP4 saturate; a NaN of either sign becomes a zero of the other.
constexpr CastRule finite_only(const FloatFormat& to, std::string_view function) {
  return noted(through_fp32(rule(to, all, function, largest(to), largest(to), {to.zero(true), to.zero(false)}), f64),
               no_nan);
}

/// Below 2^-126 everything above 2^-127 goes up, where nearest begins at 1.5 * 2^-127: the fraction's first bit, worth
/// half a unit elsewhere, is worth 2^-127 itself there.
constexpr CastException e8m0_subnormals[] = {{0x0040'0001, 0x005f'ffff, 0x01}};
constexpr CastRule ml_dtypes_e8m0() {
  CastRule r = mode(zero(narrow(e8m0, "astype(float8_e8m0fnu)", both(0xff)), both(0xff)), RoundingMode::nearest_away);
  r.exceptions = e8m0_subnormals;
  r.note = "zero and negative numbers become NaN; ties go up; from 2^-127 to 2^-126 everything inexact goes up";
  return r;
}

constexpr CastRule ml_dtypes[] = {
    narrow(e4m3, "astype(float8_e4m3fn)", nan(e4m3)),
    narrow(e5m2, "astype(float8_e5m2)", infinite(e5m2)),
    narrow(e4m3fnuz, "astype(float8_e4m3fnuz)", nan(e4m3fnuz)),
    narrow(e5m2fnuz, "astype(float8_e5m2fnuz)", nan(e5m2fnuz)),
    narrow(e4m3b11fnuz, "astype(float8_e4m3b11fnuz)", nan(e4m3b11fnuz)),
    narrow(e4m3ieee, "astype(float8_e4m3)", infinite(e4m3ieee)),
    narrow(e3m4, "astype(float8_e3m4)", infinite(e3m4)),
    ml_dtypes_e8m0(),
    finite_only(e3m2, "astype(float6_e3m2fn)"),
    finite_only(e2m3, "astype(float6_e2m3fn)"),
    finite_only(e2m1, "astype(float4_e2m1fn)"),
    through_fp32(rule(bf16, f32 | f16 | f64, "astype(bfloat16)", infinite(bf16), infinite(bf16), nan(bf16)), f64),
    payload(rule(fp16, f32 | f64, "astype(float16), numpy's own", infinite(fp16), infinite(fp16), nan(fp16)),
            NanPayload::kept),
    rule(fp16, b16, "astype(float16)", infinite(fp16), infinite(fp16), nan(fp16)),
};

// --- PyTorch ---

constexpr CastRule torch_e8m0() {
  CastRule r = zero(
      ignore_sign(mode(
          through_fp32(rule(e8m0, all, "Tensor.to(torch.float8_e8m0fnu)", both(0xff), both(0xff), both(0xff)), f64),
          RoundingMode::nearest_away)),
      both(0));
  r.exceptions = e8m0_subnormals;
  r.note =
      "the sign is not looked at; ties go up; from 2^-127 to 2^-126 everything inexact goes up; zero becomes 2^-127";
  return r;
}
constexpr CastRule torch8(const FloatFormat& to, std::string_view function, BySign overflow, BySign nan) {
  return through_fp32(rule(to, all, function, overflow, overflow, nan), f64);
}
constexpr CastRule pytorch[] = {
    torch8(e4m3, "Tensor.to(torch.float8_e4m3fn)", largest(e4m3), nan(e4m3)),
    torch8(e5m2, "Tensor.to(torch.float8_e5m2)", infinite(e5m2), nan_of_ones(e5m2)),
    torch8(e4m3fnuz, "Tensor.to(torch.float8_e4m3fnuz)", nan(e4m3fnuz), nan(e4m3fnuz)),
    torch8(e5m2fnuz, "Tensor.to(torch.float8_e5m2fnuz)", nan(e5m2fnuz), nan(e5m2fnuz)),
    torch_e8m0(),
    noted(through_fp32(rule(bf16, f32 | f64, "Tensor.to(torch.bfloat16)", infinite(bf16), infinite(bf16), both(0xffff)),
                       f64),
          "the vector code's NaN (AVX-512); the scalar code has 0x7fc0"),
    rule(bf16, f16, "Tensor.to(torch.bfloat16)", infinite(bf16), infinite(bf16), both(0x7fc0)),
    through_fp32(
        payload(rule(fp16, f32 | b16 | f64, "Tensor.to(torch.float16)", infinite(fp16), infinite(fp16), nan(fp16)),
                NanPayload::quieted),
        f64),
};
constexpr CastRule pytorch_legacy[] = {
    rule(e4m3, f32 | f16 | b16, "c10::Float8_e4m3fn(float)", nan(e4m3), nan(e4m3), nan(e4m3)),
    rule(e5m2, f32 | f16 | b16, "c10::Float8_e5m2(float)", infinite(e5m2), infinite(e5m2), nan_of_ones(e5m2)),
};

// --- ONNX ---

/// Cast's default rounding is up; every subnormal operand becomes 2^-126, also those up to 2^-127.
constexpr CastException e8m0_up[] = {{0x0000'0001, 0x0040'0000, 0x01}};
constexpr CastRule onnx_e8m0(BySign overflow) {
  CastRule r = zero(
      ignore_sign(mode(through_fp32(rule(e8m0, all, "Cast, round_mode up", overflow, both(0xff), both(0xff)), f64),
                       RoundingMode::toward_positive)),
      both(0));
  r.exceptions = e8m0_up;
  r.note = "the sign is not looked at; every subnormal goes up to 2^-126; zero becomes 2^-127";
  return r;
}
constexpr CastRule onnx[] = {
    narrow(e4m3, "Cast, saturate=1", largest(e4m3)),
    narrow(e5m2, "Cast, saturate=1", largest(e5m2)),
    narrow(e4m3fnuz, "Cast, saturate=1", largest(e4m3fnuz)),
    narrow(e5m2fnuz, "Cast, saturate=1", largest(e5m2fnuz)),
    onnx_e8m0(both(0xfe)),
    finite_only(e2m1, "Cast"),
    through_fp32(rule(bf16, f32 | f16 | f64, "Cast", infinite(bf16), infinite(bf16), nan(bf16)), f64),
    payload(rule(fp16, f32 | f64, "Cast", infinite(fp16), infinite(fp16), nan(fp16)), NanPayload::kept),
    rule(fp16, b16, "Cast", infinite(fp16), infinite(fp16), nan(fp16)),
};
constexpr CastRule onnx_nosaturate[] = {
    narrow(e4m3, "Cast, saturate=0", nan(e4m3)),
    narrow(e5m2, "Cast, saturate=0", infinite(e5m2)),
    narrow(e4m3fnuz, "Cast, saturate=0", nan(e4m3fnuz)),
    narrow(e5m2fnuz, "Cast, saturate=0", nan(e5m2fnuz)),
    onnx_e8m0(both(0xff)),
};

// --- TensorFlow ---

/// Kernels run with FTZ and DAZ, which conversions of doubles meet where they go through float32.
constexpr CastRule flushed(CastRule r) {
  r.flush_fp32 = true;
  r.note = "by way of float32 with FTZ: what is tiny there becomes zero";
  return r;
}
constexpr CastRule tensorflow[] = {
    rule(e4m3, all, "tf.cast(x, tf.float8_e4m3fn)", nan(e4m3), nan(e4m3), nan(e4m3)),
    rule(e5m2, f32 | b16 | f64, "tf.cast(x, tf.float8_e5m2)", infinite(e5m2), infinite(e5m2), nan(e5m2)),
    payload(rule(e5m2, f16, "tf.cast(x, tf.float8_e5m2)", infinite(e5m2), infinite(e5m2), nan(e5m2)),
            NanPayload::quieted),
    noted(rule(bf16, f32, "tf.cast(x, tf.bfloat16)", infinite(bf16), infinite(bf16), both(0x7fc0)),
          "the vector code's NaN"),
    rule(bf16, f16, "tf.cast(x, tf.bfloat16)", infinite(bf16), infinite(bf16), nan(bf16)),
    flushed(through_fp32(rule(bf16, f64, "tf.cast(x, tf.bfloat16)", infinite(bf16), infinite(bf16), nan(bf16)), f64)),
    through_fp32(
        payload(rule(fp16, f32 | b16 | f64, "tf.cast(x, tf.float16)", infinite(fp16), infinite(fp16), nan(fp16)),
                NanPayload::quieted),
        f64),
};

// --- microxcaling ---

/// log2 of the 44 largest floats rounds to 128, their scale 2^128 is an infinity of float32, and the quotient times it
/// NaN.
constexpr CastException largest_floats(std::uint64_t nan) { return {0x7f7f'ffd4, 0x7f7f'ffff, nan}; }
constexpr CastException mx_nan[] = {largest_floats(0x7f), largest_floats(0x7e),   largest_floats(0x1f),
                                    largest_floats(0x07), largest_floats(0x7fc0), largest_floats(0x7e00)};
constexpr CastRule mx(const FloatFormat& to, BySign overflow, BySign infinity, std::string_view note) {
  CastRule r = known(noted(zero(mode(rule(to, f32, "_quantize_elemwise_core, round nearest", overflow, infinity,
                                          both(to.canonical_nan())),
                                     RoundingMode::nearest_away),
                                both(0)),
                           note),
                     CastEvidence::rederived);
  for (const CastException& e : mx_nan)
    if (e.result == to.canonical_nan()) r.exceptions = {&e, 1};
  return r;
}
constexpr std::string_view in_float =
    "values stay in float32; ties go away from zero; -0 becomes +0; the 44 largest floats give NaN";
constexpr std::string_view no_code =
    "values stay in float32, infinities and NaN too, for which the format has no code (here NaN, or max); ties go away "
    "from zero; the 44 largest floats give NaN";
constexpr CastRule microxcaling[] = {
    mx(e4m3, largest(e4m3), nan(e4m3), no_code),        mx(e5m2, largest(e5m2), infinite(e5m2), in_float),
    mx(e3m2, largest(e3m2), largest(e3m2), no_code),    mx(e2m3, largest(e2m3), largest(e2m3), no_code),
    mx(e2m1, largest(e2m1), largest(e2m1), no_code),    mx(bf16, infinite(bf16), infinite(bf16), in_float),
    mx(fp16, infinite(fp16), infinite(fp16), in_float),
};

constexpr Profile library_rows[] = {
    {"ml_dtypes", "ml_dtypes' conversions in numpy: nearest even, never saturating where there is NaN or Inf",
     "ml_dtypes 0.6.0, numpy 2.4.6", "jax-ml/ml_dtypes, include/float8.h; issues 147, 260, 400", ml_dtypes,
     "all formats of the catalogue but tf32 and P3109's"},
    {"pytorch", "PyTorch tensors on the CPU: E4M3 saturates since pull request 178817",
     "torch 2.15.0, CPU with AVX-512",
     "pytorch/pytorch, torch/headeronly/util/Float8_*.h, aten/src/ATen/cpu/vec; pull request 178817 of April 2026",
     pytorch, "no fp6; float4_e2m1fn_x2 is storage, without conversions"},
    {"pytorch-legacy", "PyTorch before pull request 178817: E4M3 overflows to NaN",
     "torch 2.11.0 and 2.1.0, host code of the wheels' headers",
     "pytorch/pytorch, c10/util/Float8_e4m3fn.h and Float8_e5m2.h of releases 2.1.0 to 2.11.0", pytorch_legacy,
     "the other formats are converted as by pytorch; from fp64 not run"},
    {"onnx", "ONNX's Cast in the reference implementation, saturate=1 (the default)",
     "onnx 1.23.2, ml_dtypes 0.6.0, numpy 2.4.6",
     "onnx/onnx, onnx/reference/ops/op_cast.py; Cast-25; pull requests 4805, 7130; issue 6220", onnx,
     "no fp6, no e4m3ieee, e3m4, e4m3b11fnuz"},
    {"onnx-nosaturate", "ONNX's Cast in the reference implementation, saturate=0",
     "onnx 1.23.2, ml_dtypes 0.6.0, numpy 2.4.6",
     "onnx/onnx, onnx/reference/ops/op_cast.py; Cast-25; pull request 7085", onnx_nosaturate,
     "saturate is about FP8 and E8M0; the other formats are converted as by onnx"},
    {"tensorflow", "TensorFlow's tf.cast on the CPU", "tensorflow-cpu 2.21.0 with ml_dtypes 0.6.0",
     "tensorflow/tensorflow, core/kernels/cast_op*.cc; ml_dtypes and Eigen, from where its types are", tensorflow,
     "FNUZ types are there, without conversions; no fp6, fp4, e8m0"},
    {"microxcaling", "microxcaling's element-wise rule: ties away from zero, clamped",
     "microsoft/microxcaling 4adf988, re-derived",
     "microsoft/microxcaling, mx/elemwise_ops.py (_quantize_elemwise_core), mx/formats.py", microxcaling,
     "from fp32 alone, the format it computes in; scales belong to blocks"},
};

}  // namespace

}  // namespace halfulp::casts

namespace halfulp {

std::span<const Profile> profiles() {
  static const std::vector<Profile> all = [] {
    std::vector<Profile> list;
    for (const std::span<const Profile> part :
         {std::span<const Profile>(casts::specification_rows), std::span<const Profile>(casts::library_rows),
          std::span<const Profile>(casts::cuda_rows)})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

}  // namespace halfulp
