// The conversions that CUDA's headers implement for the host: third-party code, compiled only where the headers are.
#include <halfulp/evidence/verify/reference.hpp>

#include <halfulp/formats/catalogue.hpp>

#if HALFULP_CUDA_HEADERS
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

#include <bit>

namespace halfulp::verify {
namespace {

using Convert = std::uint64_t (*)(float);

struct Row {
  FloatFormat to;
  RoundingMode mode;
  Overflow overflow;
  std::string_view function;
  Convert convert;
};

#if HALFULP_CUDA_HEADERS
template <class Half>
std::uint64_t bits(Half half) {
  return std::bit_cast<std::uint16_t>(half);
}

#define HALFULP_HALF(format, mode, function) \
  {format, RoundingMode::mode, Overflow::ieee, #function, [](float x) { return bits(function(x)); }}
#define HALFULP_FP8(format, overflow, saturation, kind)                                          \
  {format, RoundingMode::nearest_even, Overflow::overflow, "__nv_cvt_float_to_fp8 " #saturation, \
   [](float x) -> std::uint64_t { return __nv_cvt_float_to_fp8(x, saturation, kind); }}
constexpr Row rows[] = {
    HALFULP_HALF(fp16, nearest_even, __float2half_rn),        HALFULP_HALF(fp16, toward_zero, __float2half_rz),
    HALFULP_HALF(fp16, toward_positive, __float2half_ru),     HALFULP_HALF(fp16, toward_negative, __float2half_rd),
    HALFULP_HALF(bf16, nearest_even, __float2bfloat16_rn),    HALFULP_HALF(bf16, toward_zero, __float2bfloat16_rz),
    HALFULP_HALF(bf16, toward_positive, __float2bfloat16_ru), HALFULP_HALF(bf16, toward_negative, __float2bfloat16_rd),
    HALFULP_FP8(e4m3, saturate, __NV_SATFINITE, __NV_E4M3),   HALFULP_FP8(e5m2, ieee, __NV_NOSAT, __NV_E5M2),
    HALFULP_FP8(e5m2, saturate, __NV_SATFINITE, __NV_E5M2),
};
constexpr std::span<const Row> all_rows = rows;
constexpr bool compiled = true;
#else
constexpr std::span<const Row> all_rows;
constexpr bool compiled = false;
#endif

const Row* find(const Task& task) {
  if (task.operation != Operation::convert || task.from != NumberType(fp32) || task.rounding.flush_inputs ||
      task.rounding.flush_outputs)
    return nullptr;
  for (const Row& row : all_rows)
    if (task.to == NumberType(row.to) && task.rounding.mode == row.mode && task.rounding.overflow == row.overflow)
      return &row;
  return nullptr;
}

class CudaHeaders final : public Backend {
 public:
  std::string_view name() const override { return "cuda-headers"; }
  std::string description() const override {
#if HALFULP_CUDA_HEADERS
    return "host code of the CUDA " + std::to_string(CUDART_VERSION / 1000) + "." +
           std::to_string(CUDART_VERSION / 10 % 100) + " headers";
#else
    return "host code of the CUDA headers";
#endif
  }
  Support available() const override {
    return compiled ? Support::by("host code") : Support::no("built without the CUDA headers");
  }
  Support supports(const Task& task) const override {
    if (!compiled) return available();
    const Row* row = find(task);
    if (row) return Support::by(std::string(row->function) + " (" + description() + ")");
    return Support::no(
        "the CUDA headers convert fp32 to fp16 and bf16 in the four IEEE modes with overflow ieee, to e5m2 "
        "nearest-even and to "
        "e4m3 nearest-even with overflow saturate (without, their NaN has the sign of what overflowed, a rule that "
        "halfulp has not)");
  }
  NanRule nan_rule(const Task&) const override { return NanRule::cuda; }
  std::string_view independence() const override { return "third-party"; }
  void run(const Task& task, const Operands& x, std::span<std::uint64_t> results) const override {
    const Convert convert = find(task)->convert;
    for (std::size_t i = 0; i < x.size(); ++i)
      results[i] = convert(std::bit_cast<float>(static_cast<std::uint32_t>(x.a[i])));
  }
};

}  // namespace

const Backend& cuda_headers() {
  static const CudaHeaders backend;
  return backend;
}

}  // namespace halfulp::verify
