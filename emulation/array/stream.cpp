#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/stream.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/stream.hpp>

#include <hwy/highway.h>

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Whole vectors: a line that comes in pieces of 16 bytes takes as long as one that is read first.
HWY_ATTR void stream_bytes(const std::uint8_t* from, std::uint8_t* to, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t size = hn::Lanes(d), head = std::min(bytes, before_vector(size, to));
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + size <= bytes; i += size) hn::Stream(hn::LoadU(d, from + i), d, to + i);
  std::memcpy(to + i, from + i, bytes - i);
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <hwy/cache_control.h>
#include <hwy/targets.h>

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

#include <algorithm>

#include <fstream>
#include <string>

namespace halfulp::array {
namespace {

/// A cache of one processor, as Linux tells it ("32768K"); where it does not, `usual`. (sysconf multiplies it by
/// processors that share none.)
std::size_t cache(int level, std::size_t usual) {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(level) + "/size");
  std::size_t kibibytes = 0;
  std::string unit;
  return file >> kibibytes >> unit && unit == "K" && kibibytes > 0 ? kibibytes << 10 : usual;
}

/// What one core can keep. The last level is shared: with other cores, and on a virtual machine, which may be told of
/// 480 MB, with the whole host. A core's share of it was sixteen times the second level on a Xeon with 2 MB of that,
/// and half of 32 MB on AMD's family 25 (Zen 3) with half a megabyte.
std::size_t kept_by_a_core() {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  return std::min(std::max(16 * cache(2, mebibyte), 16 * mebibyte), cache(3, 32 * mebibyte) / 2);
}

/// Whether ordinary stores of whole lines do not read them first: AMD's family 26 (Zen 5) with AVX-512, where 64 M
/// numbers are encoded in 0.14 ns each by ordinary stores and in 0.25 ns past the caches.
bool stores_whole_lines() {
#if HWY_ARCH_X86
  unsigned a = 0, b = 0, c = 0, d = 0;
  __cpuid(0, a, b, c, d);
  const bool amd = b == signature_AMD_ebx && c == signature_AMD_ecx && d == signature_AMD_edx;
  if (!amd || (hwy::SupportedTargets() & HWY_AVX3) == 0) return false;
  __cpuid(1, a, b, c, d);
  return (a >> 8 & 0xf) + (a >> 20 & 0xff) >= 26;
#else
  return false;
#endif
}

}  // namespace

bool leaves_caches(std::size_t bytes) {
  static const std::size_t kept = stores_whole_lines() ? ~std::size_t{0} : kept_by_a_core();
  return bytes >= kept;
}

HWY_EXPORT(stream_bytes);

void stream(const void* from, void* to, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream_bytes)(static_cast<const std::uint8_t*>(from), static_cast<std::uint8_t*>(to), bytes);
}

void wait_for_streams() { hwy::FlushStream(); }

}  // namespace halfulp::array
#endif
