// fp16 by F16C: exact to fp32, the native fp32 instruction, back with one more rounding.
//
// add sub mul div sqrt: two roundings to nearest, to 24 and to 11 bits, equal one because 24 >= 2 * 11 + 2 (Figueroa
// 1995), and no result of two fp16 operands is subnormal in fp32; directed modes compose. fma and conversions from fp64
// and integers go through double and float, rounded to odd before the rounding to nearest (in_double.hpp).
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/x86/in_double.hpp>
#include <halfulp/hardware/x86/x86.hpp>

#include <algorithm>
#include <stdexcept>

namespace halfulp::x86 {

#if defined(__x86_64__)
namespace {

constexpr std::size_t lanes = 4;

/// Four cases at a time through `f(a, b, result)`, all pointers to arrays of four; missing cases are zero.
template <class In, class Out, class F>
void by_lanes(const Operands& x, std::span<std::uint64_t> results, F f) {
  const auto step = [&](std::size_t begin, auto count) {  // count: a constant where all lanes are used
    In a[lanes] = {}, b[lanes] = {};
    Out result[lanes];
    for (std::size_t i = 0; i < count; ++i) a[i] = static_cast<In>(x.a[begin + i]);
    if (!x.b.empty())
      for (std::size_t i = 0; i < count; ++i) b[i] = static_cast<In>(x.b[begin + i]);
    f(a, b, result);
    for (std::size_t i = 0; i < count; ++i) results[begin + i] = result[i];
  };
  std::size_t begin = 0;
  for (; begin + lanes <= x.size(); begin += lanes) step(begin, std::integral_constant<std::size_t, lanes>{});
  if (begin < x.size()) step(begin, x.size() - begin);
}

using U16 = std::uint16_t;
using U32 = std::uint32_t;

// The immediate 4 takes the rounding mode from MXCSR.
#define HALFULP_THROUGH_FLOAT(instruction)                                                                           \
  [](const U16* a, const U16* b, U16* result) {                                                                      \
    asm volatile("vcvtph2ps (%0), %%xmm0\n\tvcvtph2ps (%1), %%xmm1\n\t" instruction "\n\tvcvtps2ph $4, %%xmm0, (%2)" \
                 :                                                                                                   \
                 : "r"(a), "r"(b), "r"(result)                                                                       \
                 : "xmm0", "xmm1", "memory");                                                                        \
  }

void float_to_half(const U32* a, const U32*, U16* result) {
  asm volatile("vmovups (%0), %%xmm0\n\tvcvtps2ph $4, %%xmm0, (%1)" : : "r"(a), "r"(result) : "xmm0", "memory");
}
void half_to_float(const U16* a, const U16*, U32* result) {
  asm volatile("vcvtph2ps (%0), %%xmm0\n\tvmovups %%xmm0, (%1)" : : "r"(a), "r"(result) : "xmm0", "memory");
}

std::uint16_t half(float value) {
  std::uint32_t result;
  asm volatile("vcvtps2ph $4, %1, %%xmm0\n\tvmovd %%xmm0, %0" : "=r"(result) : "x"(value) : "xmm0");
  return static_cast<std::uint16_t>(result);
}

void through_double(const Task& task, const Operands& operands, std::span<std::uint64_t> results) {
  double wide[block_size];
  float narrow[block_size];
  const RoundingMode mode = task.rounding.mode;
  for (std::size_t begin = 0; begin < operands.size(); begin += block_size) {
    const std::size_t count = std::min(block_size, operands.size() - begin);
    compute_in_double(task, operands.slice(begin, count), wide);
    const ScopedMxcsr scope(mxcsr_before(mode));
    for (std::size_t i = 0; i < count; ++i) {
      narrow[i] = to_float(wide[i]);
      if (mode == RoundingMode::nearest_even) narrow[i] = odd_where_inexact(narrow[i]);
    }
    write_mxcsr(mxcsr_for(mode));
    for (std::size_t i = 0; i < count; ++i) results[begin + i] = half(narrow[i]);
  }
}

class F16c final : public Route {
 public:
  std::string_view name() const override { return "x86.f16c"; }

  void run(const Task& task, const Operands& x, std::span<std::uint64_t> results) const override {
    if (doubles(task)) return through_double(task, x, results);
    const ScopedMxcsr scope(mxcsr_for(task.rounding.mode, task.rounding.flush_inputs));
    switch (task.operation) {
      case Operation::add:
        return by_lanes<U16, U16>(x, results, HALFULP_THROUGH_FLOAT("vaddps %%xmm1, %%xmm0, %%xmm0"));
      case Operation::sub:
        return by_lanes<U16, U16>(x, results, HALFULP_THROUGH_FLOAT("vsubps %%xmm1, %%xmm0, %%xmm0"));
      case Operation::mul:
        return by_lanes<U16, U16>(x, results, HALFULP_THROUGH_FLOAT("vmulps %%xmm1, %%xmm0, %%xmm0"));
      case Operation::div:
        return by_lanes<U16, U16>(x, results, HALFULP_THROUGH_FLOAT("vdivps %%xmm1, %%xmm0, %%xmm0"));
      case Operation::sqrt: return by_lanes<U16, U16>(x, results, HALFULP_THROUGH_FLOAT("vsqrtps %%xmm0, %%xmm0"));
      case Operation::convert:
        if (is(task.from, fp32)) return by_lanes<U32, U16>(x, results, float_to_half);
        return by_lanes<U16, U32>(x, results, half_to_float);
      default: throw std::logic_error("x86.f16c: unsupported task");
    }
  }

 protected:
  std::string_view missing(const CpuFeatures& cpu) const override { return cpu.f16c ? "" : "F16C"; }

  Support judge(const Task& task) const override {
    const Rounding& rounding = task.rounding;
    const bool narrows = task.operation == Operation::convert && is(task.to, fp16);
    if (rounding.overflow == Overflow::saturate) return Support::no("VCVTPS2PH does not saturate");
    if (rounding.flush_outputs) return Support::no("fp16 subnormals are always kept");
    if (rounding.flush_inputs && !(narrows && is(task.from, fp32)))
      return Support::no("DAZ works on fp32 operands only");
    if (narrows && is(task.from, fp32)) return Support::by("VCVTPS2PH (F16C)");
    if (narrows && !is(task.from, fp16) && (is(task.from, fp64) || std::holds_alternative<IntegerType>(task.from)))
      return Support::by("CVTSD2SS, VCVTPS2PH (SSE2, F16C)");
    if (!is(task.from, fp16)) return Support::no("fp16 only");
    switch (task.operation) {
      case Operation::add: return Support::by("VADDPS, VCVTPS2PH (F16C)");
      case Operation::sub: return Support::by("VSUBPS, VCVTPS2PH (F16C)");
      case Operation::mul: return Support::by("VMULPS, VCVTPS2PH (F16C)");
      case Operation::div: return Support::by("VDIVPS, VCVTPS2PH (F16C)");
      case Operation::sqrt: return Support::by("VSQRTPS, VCVTPS2PH (F16C)");
      case Operation::fma:
        return cpu().fma ? Support::by("VFMADD231SD, CVTSD2SS, VCVTPS2PH (FMA3, F16C)")
                         : Support::no("this CPU has no FMA");
      case Operation::convert:
        if (is(task.to, fp32)) return Support::by("VCVTPH2PS (F16C)");
        return Support::no("converts fp16 to fp32 only");
      default: return Support::no("F16C converts and computes: no " + std::string(info(task.operation).name));
    }
  }

 private:
  static bool doubles(const Task& task) {
    return task.operation == Operation::fma ||
           (task.operation == Operation::convert && !is(task.from, fp32) && !is(task.from, fp16));
  }
};

}  // namespace

const Device& f16c_route() {
  static const F16c route;
  return route;
}
#endif

}  // namespace halfulp::x86
