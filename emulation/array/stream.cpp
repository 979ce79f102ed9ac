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

#include <fstream>
#include <string>

namespace halfulp::array {
namespace {

/// That of one processor, as Linux tells it ("32768K"); where it does not, a common size. (sysconf multiplies it by
/// processors that share none.)
std::size_t last_level_cache() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  std::size_t kibibytes = 0;
  std::string unit;
  if (file >> kibibytes >> unit && unit == "K" && kibibytes > 0) return kibibytes << 10;
  return std::size_t{32} << 20;
}

}  // namespace

bool leaves_caches(std::size_t bytes) {
  static const std::size_t cache = last_level_cache();
  return bytes >= cache;
}

HWY_EXPORT(stream_bytes);

void stream(const void* from, void* to, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream_bytes)(static_cast<const std::uint8_t*>(from), static_cast<std::uint8_t*>(to), bytes);
}

void wait_for_streams() { hwy::FlushStream(); }

}  // namespace halfulp::array
#endif
