// fp16 arithmetic by AVX512-FP16 and fp32 -> bf16 by AVX512-BF16.
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/x86/half_lanes.hpp>
#include <halfulp/hardware/x86/instructions.hpp>
#include <halfulp/hardware/x86/x86.hpp>

#include <algorithm>
#include <stdexcept>

namespace halfulp::x86 {

#if defined(__x86_64__)
namespace {

// What inline assembly of vectors may overwrite.
#define HALFULP_XMM_REGISTERS                                                                                         \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
      "xmm14", "xmm15"

// --- AVX512-FP16: the rounding mode is part of the instruction ------------------------------------------------------

using Word = HalfLanes::Word;
constexpr std::size_t half_lanes = 32;

#define HALFULP_HALVES(instruction, mode, registers)                                                          \
  [](const Word* a, const Word* b, const Word* c, Word* result) {                                             \
    asm volatile("vmovdqu16 (%0), %%zmm0\n\tvmovdqu16 (%1), %%zmm1\n\tvmovdqu16 (%2), %%zmm2\n\t" instruction \
                 " %{" mode "-sae%}, " registers "\n\tvmovdqu16 %%zmm0, (%3)\n\tvzeroupper"                   \
                 :                                                                                            \
                 : "r"(a), "r"(b), "r"(c), "r"(result)                                                        \
                 : "memory", HALFULP_XMM_REGISTERS);                                                          \
  }
// One instruction in the four modes, in the order of `mode_index`.
#define HALFULP_HALVES_MODES(instruction, registers)                                           \
  {HALFULP_HALVES(instruction, "rn", registers), HALFULP_HALVES(instruction, "rd", registers), \
   HALFULP_HALVES(instruction, "ru", registers), HALFULP_HALVES(instruction, "rz", registers)}
#define HALFULP_BINARY_HALVES(instruction) HALFULP_HALVES_MODES(instruction, "%%zmm2, %%zmm1, %%zmm0")

// Code words of 64 bits into those of the instruction and back, half_lanes of them.
void narrow_codes(const std::uint64_t* from, Word* to) {
  asm volatile(
      "vmovdqu64 (%0), %%zmm0\n\tvmovdqu64 64(%0), %%zmm1\n\tvmovdqu64 128(%0), %%zmm2\n\tvmovdqu64 192(%0), %%zmm3\n\t"
      "vpmovqw %%zmm0, %%xmm0\n\tvpmovqw %%zmm1, %%xmm1\n\tvpmovqw %%zmm2, %%xmm2\n\tvpmovqw %%zmm3, %%xmm3\n\t"
      // One store of the whole: the instruction's load of it would wait for several.
      "vinserti128 $1, %%xmm1, %%ymm0, %%ymm0\n\tvinserti128 $1, %%xmm3, %%ymm2, %%ymm2\n\t"
      "vinserti64x4 $1, %%ymm2, %%zmm0, %%zmm0\n\tvmovdqu64 %%zmm0, (%1)\n\tvzeroupper"
      :
      : "r"(from), "r"(to)
      : "memory", HALFULP_XMM_REGISTERS);
}
void widen_codes(const Word* from, std::uint64_t* to) {
  asm volatile(
      "vpmovzxwq (%0), %%zmm0\n\tvpmovzxwq 16(%0), %%zmm1\n\tvpmovzxwq 32(%0), %%zmm2\n\tvpmovzxwq 48(%0), %%zmm3\n\t"
      "vmovdqu64 %%zmm0, (%1)\n\tvmovdqu64 %%zmm1, 64(%1)\n\tvmovdqu64 %%zmm2, 128(%1)\n\tvmovdqu64 %%zmm3, 192(%1)\n\t"
      "vzeroupper"
      :
      : "r"(from), "r"(to)
      : "memory", HALFULP_XMM_REGISTERS);
}

int mode_index(RoundingMode mode) { return static_cast<int>(mxcsr_for(mode) >> 13 & 3); }

struct Row {
  Operation operation;
  std::string_view instruction;
  HalfLanes::Vector modes[4];
};

// Unary instructions compute op(c), binary ones b op c, FMA of the form 231 b * c + a: see HalfLanes::run for who is
// handed what.
constexpr Row rows[] = {
    {Operation::add, "VADDPH (AVX512-FP16)", HALFULP_BINARY_HALVES("vaddph")},
    {Operation::sub, "VSUBPH (AVX512-FP16)", HALFULP_BINARY_HALVES("vsubph")},
    {Operation::mul, "VMULPH (AVX512-FP16)", HALFULP_BINARY_HALVES("vmulph")},
    {Operation::div, "VDIVPH (AVX512-FP16)", HALFULP_BINARY_HALVES("vdivph")},
    {Operation::sqrt, "VSQRTPH (AVX512-FP16)", HALFULP_HALVES_MODES("vsqrtph", "%%zmm2, %%zmm0")},
    {Operation::fma, "VFMADD231PH (AVX512-FP16)", HALFULP_BINARY_HALVES("vfmadd231ph")},
};

const Row* find(Operation operation) {
  const auto row = std::find_if(std::begin(rows), std::end(rows),
                                [&](const Row& r) { return r.operation == operation; });
  return row == std::end(rows) ? nullptr : row;
}

}  // namespace

std::string_view HalfLanes::instruction(Operation operation) {
  const Row* row = find(operation);
  return row ? row->instruction : "";
}

HalfLanes::HalfLanes(const Task& task) {
  const Row* row = find(task.operation);
  if (!row) throw std::logic_error("AVX512-FP16: unsupported task");
  vector_ = row->modes[mode_index(task.rounding.mode)];
}

void HalfLanes::run(std::span<const Word> a, std::span<const Word> b, std::span<const Word> c,
                    std::span<Word> results) const {
  const ScopedMxcsr scope(mxcsr_for(RoundingMode::nearest_even));  // its rounding mode does not matter
  const Word zero[half_lanes] = {};
  Word ends[3][half_lanes] = {}, end[half_lanes];
  for (std::size_t begin = 0; begin < results.size(); begin += half_lanes) {
    const std::size_t count = std::min(half_lanes, results.size() - begin);
    const auto operand = [&](std::span<const Word> words, int k) -> const Word* {
      if (words.empty()) return zero;
      if (count == half_lanes) return words.data() + begin;
      std::copy_n(words.data() + begin, count, ends[k]);
      return ends[k];
    };
    const Word *x = operand(a, 0), *y = operand(b, 1), *z = operand(c, 2);
    Word* const result = count == half_lanes ? results.data() + begin : end;
    if (b.empty()) vector_(zero, zero, x, result);
    else vector_(z, x, y, result);
    if (result == end) std::copy_n(end, count, results.data() + begin);
  }
}

namespace {

class Avx512Fp16 final : public Route {
 public:
  std::string_view name() const override { return "x86.avx512fp16"; }

  void run(const Task& task, const Operands& x, std::span<std::uint64_t> results) const override {
    const HalfLanes lanes(task);
    constexpr std::size_t block = 16 * half_lanes;
    Word operands[3][block], result[block];
    for (std::size_t begin = 0; begin < x.size(); begin += block) {
      const std::size_t count = std::min(block, x.size() - begin);
      const auto narrowed = [&](std::span<const std::uint64_t> codes, Word* to) {
        if (codes.empty()) return std::span<const Word>();
        std::size_t i = 0;
        for (; i + half_lanes <= count; i += half_lanes) narrow_codes(codes.data() + begin + i, to + i);
        for (; i < count; ++i) to[i] = static_cast<Word>(codes[begin + i]);
        return std::span<const Word>(to, count);
      };
      lanes.run(narrowed(x.a, operands[0]), narrowed(x.b, operands[1]), narrowed(x.c, operands[2]), {result, count});
      std::size_t i = 0;
      for (; i + half_lanes <= count; i += half_lanes) widen_codes(result + i, results.data() + begin + i);
      for (; i < count; ++i) results[begin + i] = result[i];
    }
  }

 protected:
  std::string_view missing(const CpuFeatures& cpu) const override { return cpu.avx512fp16 ? "" : "AVX512-FP16"; }

  Support judge(const Task& task) const override {
    if (!is(task.from, fp16)) return Support::no("fp16 only");
    if (task.rounding.overflow == Overflow::saturate) return Support::no("AVX512-FP16 does not saturate");
    if (task.rounding.flush_inputs || task.rounding.flush_outputs)
      return Support::no("AVX512-FP16 always keeps subnormals");
    if (const std::string_view by = HalfLanes::instruction(task.operation); !by.empty())
      return Support::by(std::string(by));
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
                   :
                   : "r"(in), "r"(out)
                   : "memory", HALFULP_XMM_REGISTERS);
      for (std::size_t i = 0; i < count; ++i) results[begin + i] = out[i];
    }
  }

 protected:
  std::string_view missing(const CpuFeatures& cpu) const override { return cpu.avx512bf16 ? "" : "AVX512-BF16"; }

  Support judge(const Task& task) const override {
    if (task.operation != Operation::convert || !is(task.from, fp32) || !is(task.to, bf16))
      return Support::no("converts fp32 to bf16 only");
    if (task.rounding.mode != RoundingMode::nearest_even)
      return Support::no("VCVTNEPS2BF16 rounds to nearest even only");
    if (task.rounding.overflow == Overflow::saturate) return Support::no("VCVTNEPS2BF16 does not saturate");
    if (!task.rounding.flush_inputs) return Support::no("VCVTNEPS2BF16 always flushes subnormal inputs");
    // Normal inputs are never tiny in bf16, so flush_outputs changes nothing.
    return Support::by("VCVTNEPS2BF16 (AVX512-BF16)");
  }
};

}  // namespace

const Device& avx512fp16_route() {
  static const Avx512Fp16 route;
  return route;
}
const Device& avx512bf16_route() {
  static const Avx512Bf16 route;
  return route;
}
#endif

}  // namespace halfulp::x86
