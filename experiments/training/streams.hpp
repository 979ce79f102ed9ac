// Which random numbers belong to what: streams of the counter-based generator by name.
#pragma once

#include <cstdint>
#include <string_view>

namespace halfulp::training {

/// The stream of a name, or of one step of it: FNV-1a, 64 bits (Fowler, Noll, Vo), of the name and the eight bytes of the step.
constexpr std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  return hash;
}
constexpr std::uint64_t stream_of(std::string_view name, std::uint64_t step) {
  std::uint64_t hash = stream_of(name);
  for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (step >> 8 * byte & 0xff)) * 0x100'0000'01b3;
  return hash;
}

}  // namespace halfulp::training
