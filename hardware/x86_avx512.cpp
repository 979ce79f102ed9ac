// fp16 arithmetic by AVX512-FP16 and fp32 -> bf16 by AVX512-BF16.
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/mxcsr.hpp>
#include <halfulp/hardware/x86.hpp>

#include <algorithm>
#include <stdexcept>

namespace halfulp::x86 {

#if defined(__x86_64__)
namespace {

// --- AVX512-FP16: the rounding mode is part of the instruction ------------------------------------------------------

using Word = std::uint32_t;
using Half = Word (*)(Word a, Word b, Word c);

#define HALFULP_HALF(instruction, mode)                                                                      \
  [](Word a, Word b, Word c) {                                                                               \
    asm volatile("vmovw %0, %%xmm0\n\tvmovw %1, %%xmm1\n\tvmovw %2, %%xmm2\n\t"                              \
                 instruction " %{" mode "-sae%}, %%xmm2, %%xmm1, %%xmm0\n\tvmovw %%xmm0, %0"                 \
                 : "+r"(a) : "r"(b), "r"(c) : "xmm0", "xmm1", "xmm2");                                       \
    return a;                                                                                                \
  }
// One instruction in the four modes, in the order of `mode_index`.
#define HALFULP_HALF_MODES(instruction)                                          \
  {HALFULP_HALF(instruction, "rn"), HALFULP_HALF(instruction, "rd"),             \
   HALFULP_HALF(instruction, "ru"), HALFULP_HALF(instruction, "rz")}

int mode_index(RoundingMode mode) { return static_cast<int>(mxcsr_for(mode) >> 13 & 3); }

struct Row {
  Operation operation;
  std::string_view route;
  Half modes[4];
};

// Unary instructions compute op(c), binary ones b op c, FMA of the form 231 b * c + a: see `run` for who is handed what.
constexpr Row rows[] = {
  {Operation::add, "VADDSH (AVX512-FP16)", HALFULP_HALF_MODES("vaddsh")},
  {Operation::sub, "VSUBSH (AVX512-FP16)", HALFULP_HALF_MODES("vsubsh")},
  {Operation::mul, "VMULSH (AVX512-FP16)", HALFULP_HALF_MODES("vmulsh")},
  {Operation::div, "VDIVSH (AVX512-FP16)", HALFULP_HALF_MODES("vdivsh")},
  {Operation::sqrt, "VSQRTSH (AVX512-FP16)", HALFULP_HALF_MODES("vsqrtsh")},
  {Operation::fma, "VFMADD231SH (AVX512-FP16)", HALFULP_HALF_MODES("vfmadd231sh")},
};

class Avx512Fp16 final : public Route {
 public:
  std::string_view name() const override { return "x86.avx512fp16"; }

  void run(const Task& task, const Operands& x, std::span<std::uint64_t> results) const override {
    const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.operation == task.operation; });
    if (row == std::end(rows)) throw std::logic_error("x86.avx512fp16: unsupported task");
    const Half instruction = row->modes[mode_index(task.rounding.mode)];
    const ScopedMxcsr scope(mxcsr_for(RoundingMode::nearest_even));  // its rounding mode is not looked at
    const auto word = [](std::span<const std::uint64_t> s, std::size_t i) { return static_cast<Word>(s[i]); };
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Word a = word(x.a, i);
      const Word result = x.b.empty()   ? instruction(0, 0, a)
                          : x.c.empty() ? instruction(0, a, word(x.b, i))
                                        : instruction(word(x.c, i), a, word(x.b, i));
      results[i] = result & 0xffff;
    }
  }

 protected:
  std::string_view missing(const CpuFeatures& cpu) const override { return cpu.avx512fp16 ? "" : "AVX512-FP16"; }

  Support judge(const Task& task) const override {
    if (!is(task.from, fp16)) return Support::no("fp16 only");
    if (task.rounding.overflow == Overflow::saturate) return Support::no("AVX512-FP16 does not saturate");
    if (task.rounding.flush_inputs || task.rounding.flush_outputs) return Support::no("AVX512-FP16 always keeps subnormals");
    for (const Row& row : rows)
      if (row.operation == task.operation) return Support::by(std::string(row.route));
    return Support::no("left to F16C: " + std::string(info(task.operation).name));
  }
};

// --- AVX512-BF16: always to nearest, subnormal operands are zero, MXCSR is not consulted -----------------------------

class Avx512Bf16 final : public Route {
 public:
  std::string_view name() const override { return "x86.avx512bf16"; }

  void run(const Task&, const Operands& x, std::span<std::uint64_t> results) const override {
    constexpr std::size_t lanes = 16;
    for (std::size_t begin = 0; begin < x.size(); begin += lanes) {
      std::uint32_t in[lanes] = {};
      std::uint16_t out[lanes];
      const std::size_t count = std::min(lanes, x.size() - begin);
      for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<std::uint32_t>(x.a[begin + i]);
      asm volatile("vmovups (%0), %%zmm0\n\tvcvtneps2bf16 %%zmm0, %%ymm0\n\tvmovups %%ymm0, (%1)\n\tvzeroupper"
                   : : "r"(in), "r"(out) : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                     "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
      for (std::size_t i = 0; i < count; ++i) results[begin + i] = out[i];
    }
  }

 protected:
  std::string_view missing(const CpuFeatures& cpu) const override { return cpu.avx512bf16 ? "" : "AVX512-BF16"; }

  Support judge(const Task& task) const override {
    if (task.operation != Operation::convert || !is(task.from, fp32) || !is(task.to, bf16))
      return Support::no("converts fp32 to bf16 only");
    if (task.rounding.mode != RoundingMode::nearest_even) return Support::no("VCVTNEPS2BF16 rounds to nearest even only");
    if (task.rounding.overflow == Overflow::saturate) return Support::no("VCVTNEPS2BF16 does not saturate");
    if (!task.rounding.flush_inputs) return Support::no("VCVTNEPS2BF16 always flushes subnormal inputs");
    // Normal inputs are never tiny in bf16, so flush_outputs changes nothing.
    return Support::by("VCVTNEPS2BF16 (AVX512-BF16)");
  }
};

}  // namespace

const Backend& avx512fp16_route() {
  static const Avx512Fp16 route;
  return route;
}
const Backend& avx512bf16_route() {
  static const Avx512Bf16 route;
  return route;
}
#endif

}  // namespace halfulp::x86
