// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: VDPBF16PS, TDPBF16PS, LDTILECFG. Neither
// consults MXCSR. Inline assembly: no compiler flag is needed, and a CPU without them runs the rest of the program.
#include <halfulp/hardware/x86/x86.hpp>

#include <algorithm>
#include <array>

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace halfulp::x86 {
namespace {

/// What both share: sixteen cases at a time, operands in pairs along k.
class DotInstruction {
 public:
  explicit DotInstruction(const char* unit) : unit_(find_unit(unit)) {}
  virtual ~DotInstruction() = default;
  const MatrixUnit& unit() const { return unit_; }
  virtual Support available() const = 0;

  void run(const MatrixCases& cases, std::span<std::uint64_t> d) const {
    const auto k = static_cast<std::size_t>(unit_.k);
    for (std::size_t begin = 0; begin < cases.size(); begin += lanes) {
      const std::size_t count = std::min(lanes, cases.size() - begin);
      Words c{};
      for (std::size_t i = 0; i < count; ++i) c[i] = static_cast<std::uint32_t>(cases.c[begin + i]);
      block(Block{cases, begin, count}, (cases.k + k - 1) / k, c);
      for (std::size_t i = 0; i < count; ++i) d[begin + i] = c[i];
    }
  }

 protected:
  static constexpr std::size_t lanes = 16;
  using Words = std::array<std::uint32_t, lanes>;

  /// Up to sixteen cases.
  struct Block {
    const MatrixCases& cases;
    std::size_t begin, count;
    /// Operands 2 * pair and 2 * pair + 1 of case i, the first in the low half; zeros beyond the last.
    std::uint32_t operands(const std::vector<std::uint64_t>& words, std::size_t i, std::size_t pair) const {
      const auto at = [&](std::size_t j) {
        return i < count && j < cases.k ? static_cast<std::uint32_t>(words[(begin + i) * cases.k + j]) : 0U;
      };
      return at(2 * pair) | at(2 * pair + 1) << 16;
    }
    std::uint32_t a(std::size_t i, std::size_t pair) const { return operands(cases.a, i, pair); }
    std::uint32_t b(std::size_t i, std::size_t pair) const { return operands(cases.b, i, pair); }
  };

  /// c[i] = case i, by `steps` instructions.
  virtual void block(const Block& block, std::size_t steps, Words& c) const = 0;

 private:
  const MatrixUnit& unit_;
};

class Avx512Bf16Dot final : public DotInstruction {
 public:
  Avx512Bf16Dot() : DotInstruction("x86.avx512.bf16.fp32") {}
  Support available() const override {
    return cpu().avx512bf16 ? Support::by("VDPBF16PS (AVX512-BF16)") : Support::no("this CPU has no AVX512-BF16");
  }

 protected:
  void block([[maybe_unused]] const Block& x, [[maybe_unused]] std::size_t steps,
             [[maybe_unused]] Words& c) const override {
#if defined(__x86_64__)
    for (std::size_t step = 0; step < steps; ++step) {
      Words a, b;
      for (std::size_t i = 0; i < lanes; ++i) a[i] = x.a(i, step), b[i] = x.b(i, step);
      asm volatile(
          "vmovups (%0), %%zmm0\n\tvmovups (%1), %%zmm1\n\tvmovups (%2), %%zmm2\n\tvdpbf16ps %%zmm2, %%zmm1, %%zmm0\n\t"
          "vmovups %%zmm0, (%0)\n\tvzeroupper"
          :
          : "r"(c.data()), "r"(a.data()), "r"(b.data())
          : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
            "xmm12", "xmm13", "xmm14", "xmm15");
    }
#endif
  }
};

#if defined(__x86_64__)
/// Asks Linux for the tile registers, once; they are not there without asking (Documentation/arch/x86/xstate.rst).
bool tiles_permitted() {
  constexpr int request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool permitted = ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  return permitted;
}

/// Three tiles of 16 rows of 64 bytes, for a scope: 0 is C, 1 is A, 2 is B.
class Tiles16 {
 public:
  Tiles16() {
    struct alignas(64) {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t bytes[16] = {64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16};
    } config;
    static_assert(sizeof config == 64);
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  ~Tiles16() { asm volatile("tilerelease"); }
  Tiles16(const Tiles16&) = delete;
  Tiles16& operator=(const Tiles16&) = delete;
};
#endif

/// The i-th case is row i of A and column i of B: the diagonal of D holds the results.
class AmxBf16 final : public DotInstruction {
 public:
  AmxBf16() : DotInstruction("x86.amx.bf16.fp32") {}
  Support available() const override {
#if defined(__x86_64__)
    if (cpu().amxbf16 && !tiles_permitted())
      return Support::no("the operating system does not grant AMX's tile registers");
#endif
    return cpu().amxbf16 ? Support::by("TDPBF16PS (AMX-BF16)") : Support::no("this CPU has no AMX-BF16");
  }

 protected:
  void block([[maybe_unused]] const Block& x, [[maybe_unused]] std::size_t steps,
             [[maybe_unused]] Words& c) const override {
#if defined(__x86_64__)
    alignas(64) std::array<Words, lanes> d{}, a, b;
    for (std::size_t i = 0; i < lanes; ++i) d[i][i] = c[i];
    const Tiles16 scope;
    const std::size_t row = sizeof(Words);
    for (std::size_t step = 0; step < steps; ++step) {
      for (std::size_t i = 0; i < lanes; ++i)
        for (std::size_t pair = 0; pair < lanes; ++pair)
          a[i][pair] = x.a(i, step * lanes + pair), b[pair][i] = x.b(i, step * lanes + pair);
      asm volatile(
          "tileloadd (%0, %3), %%tmm0\n\ttileloadd (%1, %3), %%tmm1\n\ttileloadd (%2, %3), %%tmm2\n\t"
          "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\ttilestored %%tmm0, (%0, %3)"
          :
          : "r"(d.data()), "r"(a.data()), "r"(b.data()), "r"(row)
          : "memory");
    }
    for (std::size_t i = 0; i < lanes; ++i) c[i] = d[i][i];
#endif
  }
};

std::span<const DotInstruction* const> instructions() {
  static const Avx512Bf16Dot avx512;
  static const AmxBf16 amx;
  static const DotInstruction* const all[] = {&avx512, &amx};
  return all;
}

}  // namespace

std::vector<MatrixTask> matrix_tasks() {
  std::vector<MatrixTask> tasks;
  for (const DotInstruction* x : instructions())
    tasks.push_back({x->unit().name, shape_of(x->unit()),
                     x->unit().instruction + ", " + (cpu().x86 ? cpu().brand : "not an x86-64 CPU"), x->available()});
  return tasks;
}

void multiply(const MatrixTask& task, const MatrixCases& cases, std::span<std::uint64_t> d) {
  for (const DotInstruction* x : instructions())
    if (x->unit().name == task.unit) return x->run(cases, d);
  throw std::logic_error("x86 has no matrix instruction " + task.unit);
}

}  // namespace halfulp::x86
