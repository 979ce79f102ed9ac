// Profiles of libraries that one calls from Python. Each rule was fitted to what the library answers: tests/peers/profiles.py.
#include <halfulp/emulation/profiles/tables.hpp>

namespace halfulp::casts {
namespace {

constexpr CastSources f32 = source::fp32, f16 = source::fp16, b16 = source::bf16, f64 = source::fp64, all = source::all;

// --- ml_dtypes, and numpy's own float16 -----------------------------------------------------------------------------------

/// From float64 these go through float32: a number near a midpoint is rounded twice.
constexpr CastRule narrow(const FloatFormat& to, std::string_view function, BySign overflow) {
  return through_fp32(rule(to, all, function, overflow, overflow, nan(to)), f64);
}
constexpr std::string_view no_nan = "no NaN: a positive one becomes -0, a negative one +0";
/// The two 6-bit formats and FP4 saturate; a NaN of either sign becomes a zero of the other.
constexpr CastRule finite_only(const FloatFormat& to, std::string_view function) {
  return noted(through_fp32(rule(to, all, function, largest(to), largest(to), {to.zero(true), to.zero(false)}), f64), no_nan);
}

/// Below 2^-126 everything above 2^-127 goes up, where nearest begins at 1.5 * 2^-127: the fraction's first bit, worth half a unit
/// elsewhere, is worth 2^-127 itself there.
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
  payload(rule(fp16, f32 | f64, "astype(float16), numpy's own", infinite(fp16), infinite(fp16), nan(fp16)), NanPayload::kept),
  rule(fp16, b16, "astype(float16)", infinite(fp16), infinite(fp16), nan(fp16)),
};

// --- PyTorch ---------------------------------------------------------------------------------------------------------------

constexpr CastRule torch_e8m0() {
  CastRule r = zero(ignore_sign(mode(through_fp32(rule(e8m0, all, "Tensor.to(torch.float8_e8m0fnu)", both(0xff), both(0xff), both(0xff)), f64), RoundingMode::nearest_away)), both(0));
  r.exceptions = e8m0_subnormals;
  r.note = "the sign is not looked at; ties go up; from 2^-127 to 2^-126 everything inexact goes up; zero becomes 2^-127";
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
  noted(through_fp32(rule(bf16, f32 | f64, "Tensor.to(torch.bfloat16)", infinite(bf16), infinite(bf16), both(0xffff)), f64),
        "the vector code's NaN (AVX-512); the scalar code has 0x7fc0"),
  rule(bf16, f16, "Tensor.to(torch.bfloat16)", infinite(bf16), infinite(bf16), both(0x7fc0)),
  through_fp32(payload(rule(fp16, f32 | b16 | f64, "Tensor.to(torch.float16)", infinite(fp16), infinite(fp16), nan(fp16)), NanPayload::quieted), f64),
};
constexpr CastRule pytorch_legacy[] = {
  rule(e4m3, f32 | f16 | b16, "c10::Float8_e4m3fn(float)", nan(e4m3), nan(e4m3), nan(e4m3)),
  rule(e5m2, f32 | f16 | b16, "c10::Float8_e5m2(float)", infinite(e5m2), infinite(e5m2), nan_of_ones(e5m2)),
};

// --- ONNX ------------------------------------------------------------------------------------------------------------------

/// Cast's default rounding is up; every subnormal operand becomes 2^-126, also those up to 2^-127.
constexpr CastException e8m0_up[] = {{0x0000'0001, 0x0040'0000, 0x01}};
constexpr CastRule onnx_e8m0(BySign overflow) {
  CastRule r = zero(ignore_sign(mode(through_fp32(rule(e8m0, all, "Cast, round_mode up", overflow, both(0xff), both(0xff)), f64), RoundingMode::toward_positive)), both(0));
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

// --- TensorFlow --------------------------------------------------------------------------------------------------------------

/// Kernels run with FTZ and DAZ, which conversions of doubles meet where they go through float32.
constexpr CastRule flushed(CastRule r) {
  r.flush_fp32 = true;
  r.note = "by way of float32 with FTZ: what is tiny there becomes zero";
  return r;
}
constexpr CastRule tensorflow[] = {
  rule(e4m3, all, "tf.cast(x, tf.float8_e4m3fn)", nan(e4m3), nan(e4m3), nan(e4m3)),
  rule(e5m2, f32 | b16 | f64, "tf.cast(x, tf.float8_e5m2)", infinite(e5m2), infinite(e5m2), nan(e5m2)),
  payload(rule(e5m2, f16, "tf.cast(x, tf.float8_e5m2)", infinite(e5m2), infinite(e5m2), nan(e5m2)), NanPayload::quieted),
  noted(rule(bf16, f32, "tf.cast(x, tf.bfloat16)", infinite(bf16), infinite(bf16), both(0x7fc0)), "the vector code's NaN"),
  rule(bf16, f16, "tf.cast(x, tf.bfloat16)", infinite(bf16), infinite(bf16), nan(bf16)),
  flushed(through_fp32(rule(bf16, f64, "tf.cast(x, tf.bfloat16)", infinite(bf16), infinite(bf16), nan(bf16)), f64)),
  through_fp32(payload(rule(fp16, f32 | b16 | f64, "tf.cast(x, tf.float16)", infinite(fp16), infinite(fp16), nan(fp16)), NanPayload::quieted), f64),
};

// --- microxcaling ------------------------------------------------------------------------------------------------------------

/// log2 of the 44 largest floats rounds to 128, their scale 2^128 is an infinity of float32, and the quotient times it NaN.
constexpr CastException largest_floats(std::uint64_t nan) { return {0x7f7f'ffd4, 0x7f7f'ffff, nan}; }
constexpr CastException mx_nan[] = {largest_floats(0x7f), largest_floats(0x7e), largest_floats(0x1f), largest_floats(0x07), largest_floats(0x7fc0), largest_floats(0x7e00)};
constexpr CastRule mx(const FloatFormat& to, BySign overflow, BySign infinity, std::string_view note) {
  CastRule r = known(noted(zero(mode(rule(to, f32, "_quantize_elemwise_core, round nearest", overflow, infinity, both(to.canonical_nan())), RoundingMode::nearest_away), both(0)), note), CastEvidence::rederived);
  for (const CastException& e : mx_nan)
    if (e.result == to.canonical_nan()) r.exceptions = {&e, 1};
  return r;
}
constexpr std::string_view in_float = "values stay in float32; ties go away from zero; -0 becomes +0; the 44 largest floats give NaN";
constexpr std::string_view no_code = "values stay in float32, infinities and NaN too, for which the format has no code (here NaN, or max); ties go away from zero; the 44 largest floats give NaN";
constexpr CastRule microxcaling[] = {
  mx(e4m3, largest(e4m3), nan(e4m3), no_code),
  mx(e5m2, largest(e5m2), infinite(e5m2), in_float),
  mx(e3m2, largest(e3m2), largest(e3m2), no_code),
  mx(e2m3, largest(e2m3), largest(e2m3), no_code),
  mx(e2m1, largest(e2m1), largest(e2m1), no_code),
  mx(bf16, infinite(bf16), infinite(bf16), in_float),
  mx(fp16, infinite(fp16), infinite(fp16), in_float),
};

constexpr Profile rows[] = {
  {"ml_dtypes", "ml_dtypes' conversions in numpy: nearest even, never saturating where there is NaN or Inf", "ml_dtypes 0.6.0, numpy 2.4.6",
   "jax-ml/ml_dtypes, include/float8.h; issues 147, 260, 400", ml_dtypes, "all formats of the catalogue but tf32 and P3109's"},
  {"pytorch", "PyTorch tensors on the CPU: E4M3 saturates since pull request 178817", "torch 2.15.0, CPU with AVX-512",
   "pytorch/pytorch, torch/headeronly/util/Float8_*.h, aten/src/ATen/cpu/vec; pull request 178817 of April 2026", pytorch,
   "no fp6; float4_e2m1fn_x2 is storage, without conversions"},
  {"pytorch-legacy", "PyTorch before pull request 178817: E4M3 overflows to NaN", "torch 2.11.0 and 2.1.0, host code of the wheels' headers",
   "pytorch/pytorch, c10/util/Float8_e4m3fn.h and Float8_e5m2.h of releases 2.1.0 to 2.11.0", pytorch_legacy,
   "the other formats are converted as by pytorch; from fp64 not run"},
  {"onnx", "ONNX's Cast in the reference implementation, saturate=1 (the default)", "onnx 1.23.2, ml_dtypes 0.6.0, numpy 2.4.6",
   "onnx/onnx, onnx/reference/ops/op_cast.py; Cast-25; pull requests 4805, 7130; issue 6220", onnx, "no fp6, no e4m3ieee, e3m4, e4m3b11fnuz"},
  {"onnx-nosaturate", "ONNX's Cast in the reference implementation, saturate=0", "onnx 1.23.2, ml_dtypes 0.6.0, numpy 2.4.6",
   "onnx/onnx, onnx/reference/ops/op_cast.py; Cast-25; pull request 7085", onnx_nosaturate, "saturate is about FP8 and E8M0; the other formats are converted as by onnx"},
  {"tensorflow", "TensorFlow's tf.cast on the CPU", "tensorflow-cpu 2.21.0 with ml_dtypes 0.6.0",
   "tensorflow/tensorflow, core/kernels/cast_op*.cc; ml_dtypes and Eigen, from where its types are", tensorflow, "FNUZ types are there, without conversions; no fp6, fp4, e8m0"},
  {"microxcaling", "microxcaling's element-wise rule: ties away from zero, clamped", "microsoft/microxcaling 4adf988, re-derived",
   "microsoft/microxcaling, mx/elemwise_ops.py (_quantize_elemwise_core), mx/formats.py", microxcaling, "from fp32 alone, the format it computes in; scales belong to blocks"},
};

}  // namespace

std::span<const Profile> python_libraries() { return rows; }

}  // namespace halfulp::casts
