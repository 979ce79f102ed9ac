#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/x86/x86.hpp>

#include <array>
#include <cstring>
#include <stdexcept>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace halfulp {
namespace x86 {
namespace {

#if defined(__x86_64__)

struct Leaf {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf cpuid(std::uint32_t leaf, std::uint32_t subleaf = 0) {
  Leaf r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

bool bit(std::uint32_t word, int i) { return (word >> i & 1) != 0; }

/// XCR0: the register sets that the operating system saves.
std::uint32_t saved_registers() {
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

std::string brand_string() {
  if (cpuid(0x8000'0000).eax < 0x8000'0004) return "x86-64";
  std::array<char, 48> text{};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const Leaf part = cpuid(0x8000'0002 + i);
    std::memcpy(text.data() + 16 * i, &part, 16);
  }
  std::string brand(text.data(), strnlen(text.data(), text.size()));
  brand.erase(0, brand.find_first_not_of(' '));
  brand.erase(brand.find_last_not_of(' ') + 1);
  return brand;
}

// Bit positions: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID.
CpuFeatures detect_cpu() {
  CpuFeatures cpu;
  cpu.x86 = true;
  cpu.brand = brand_string();
  const Leaf basic = cpuid(1), extended = cpuid(7);
  cpu.sse41 = bit(basic.ecx, 19);
  const std::uint32_t saved = bit(basic.ecx, 27) ? saved_registers() : 0;
  if ((saved & 0x06) == 0x06 && bit(basic.ecx, 28)) {  // ymm registers
    cpu.fma = bit(basic.ecx, 12);
    cpu.f16c = bit(basic.ecx, 29);
  }
  if ((saved & 0xe6) == 0xe6 && bit(extended.ebx, 16)) {  // mask and zmm registers
    cpu.avx512fp16 = bit(extended.edx, 23);
    cpu.avx512bf16 = extended.eax >= 1 && bit(cpuid(7, 1).eax, 5);
  }
  constexpr std::uint32_t tiles = 1U << 17 | 1U << 18;  // configuration and data
  cpu.amxbf16 = (saved & tiles) == tiles && bit(extended.edx, 24) && bit(extended.edx, 22);
  return cpu;
}
#else
CpuFeatures detect_cpu() { return {}; }
#endif

}  // namespace

const CpuFeatures& cpu() {
  static const CpuFeatures features = detect_cpu();
  return features;
}

std::string common_refusal(const Task& task) {
  if (std::string why = refusal(task); !why.empty()) return why;
  const Rounding& rounding = task.rounding;
  switch (rounding.mode) {
    case RoundingMode::nearest_even:
    case RoundingMode::toward_zero:
    case RoundingMode::toward_positive:
    case RoundingMode::toward_negative: break;
    default: return "no x86 instruction offers the rounding mode " + std::string(name_of(rounding.mode));
  }
  if (const std::string_view why = info(task.operation).without_x86; !why.empty()) return std::string(why);
  const auto* from = std::get_if<IntegerType>(&task.from);
  const auto* to = std::get_if<IntegerType>(&task.to);
  if (from && *from == u64) return "no instruction before AVX-512 converts u64";
  if (to && !to->is_signed) return "no instruction before AVX-512 converts to unsigned integers";
  if (to && rounding.int_overflow != IntOverflow::x86)
    return "x86 gives the indefinite integer on overflow (int-overflow x86)";
  return {};
}

std::string Route::description() const { return cpu().x86 ? cpu().brand : "not an x86-64 CPU"; }

Support Route::available() const {
  const std::string_view set = missing(cpu());
  return set.empty() ? Support::by(std::string(name())) : Support::no("this CPU has no " + std::string(set));
}

Support Route::supports(const Task& task) const {
  if (Support here = available(); !here.yes) return here;
  if (std::string why = common_refusal(task); !why.empty()) return Support::no(std::move(why));
  return judge(task);
}

NanRule Route::nan_rule(const Task& task) const {
  // Formats that x86 does not know have no x86 rule.
  for (const NumberType& type : {task.from, task.to})
    if (const auto* f = std::get_if<FloatFormat>(&type); f && f->nonfinite != NonFinite::ieee)
      return NanRule::canonical;
  return NanRule::propagate;
}

}  // namespace x86

std::span<const Device* const> x86_routes() {
#if defined(__x86_64__)
  static const Device* const all[] = {&x86::avx512fp16_route(), &x86::avx512bf16_route(), &x86::f16c_route(),
                                      &x86::sse_route(), &x86::adder_route()};
  return all;
#else
  return {};
#endif
}

namespace {

class X86 final : public Device {
 public:
  std::string_view name() const override { return "x86"; }

  std::string description() const override {
    if (!x86::cpu().x86) return "not an x86-64 CPU";
    std::string text = x86::cpu().brand + ": SSE2";
    for (const auto& [here, set] :
         {std::pair(x86::cpu().sse41, " SSE4.1"), std::pair(x86::cpu().fma, " FMA3"),
          std::pair(x86::cpu().f16c, " F16C"), std::pair(x86::cpu().avx512bf16, " AVX512-BF16"),
          std::pair(x86::cpu().avx512fp16, " AVX512-FP16")})
      if (here) text += set;
    return text;
  }

  Support available() const override { return x86::cpu().x86 ? Support::by("SSE2") : Support::no("not an x86-64 CPU"); }

  Support supports(const Task& task) const override {
    if (!x86::cpu().x86) return available();
    if (std::string why = x86::common_refusal(task); !why.empty()) return Support::no(std::move(why));
    std::string reasons;
    for (const Device* route : x86_routes()) {
      Support support = route->supports(task);
      if (support.yes) return support;
      reasons += (reasons.empty() ? "" : "; ") + std::string(route->name().substr(4)) + ": " + support.reason;
    }
    return Support::no(std::move(reasons));
  }

  NanRule nan_rule(const Task& task) const override {
    const Device* route = find(task);
    return route ? route->nan_rule(task) : NanRule::propagate;
  }
  std::string_view independence() const override { return "silicon"; }

  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    const Device* route = find(task);
    if (!route) throw std::logic_error("x86: unsupported task: " + task.description());
    route->run(task, operands, results);
  }

  std::vector<MatrixTask> matrix_tasks() const override { return x86::matrix_tasks(); }
  void multiply(const MatrixTask& task, const MatrixCases& cases, std::span<std::uint64_t> d) const override {
    x86::multiply(task, cases, d);
  }

 private:
  static const Device* find(const Task& task) {
    for (const Device* route : x86_routes())
      if (route->supports(task).yes) return route;
    return nullptr;
  }
};

}  // namespace

const Device& x86_device() {
  static const X86 device;
  return device;
}

}  // namespace halfulp
