#include <halfulp/emulation/random.hpp>

#include <halfulp/emulation/philox.hpp>

namespace halfulp {

std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto words = inlined::philox(seed, stream, index);
  return {words[0], words[1], words[2], words[3]};
}

std::uint64_t random_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto words = inlined::philox(seed, stream, index);
  return words[0] | static_cast<std::uint64_t>(words[1]) << 32;
}

std::uint32_t rounding_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return inlined::rounding_bits(seed, stream, index);
}

std::uint32_t RandomStream::bits(std::uint64_t i) const { return inlined::bits_of(*this, i); }

}  // namespace halfulp
