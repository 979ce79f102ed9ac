#include <halfulp/hardware/x86/cpu.hpp>

#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace halfulp {

#if defined(__x86_64__)
namespace {

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

}  // namespace

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

}  // namespace halfulp
