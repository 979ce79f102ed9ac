// Packed code words of few bits: element i occupies bits i b to i b + b - 1 of a stream that begins with the lowest bit
// of byte 0.
//
// Two FP4 or INT4 share a byte, the first in its low nibble, as in torchao's and ONNX's arrays, CUDA's
// __nv_fp4x2_e2m1 and PTX's e2m1x2; four FP6 take three bytes, as the operands of AMD's CDNA4 matrix instructions do.
// OCP MX 1.0 leaves the layout open. (torchao once packed FP6 otherwise: two bytes of upper nibbles, then one of lower
// bit pairs. CUDA's registers and shared memory hold an FP6 in a byte each, or sixteen in sixteen bytes of which four
// are padding.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace halfulp {

/// Bytes of `count` elements of `bits` bits each.
constexpr std::size_t packed_size(std::size_t count, int bits) {
  const auto b = static_cast<std::size_t>(bits);
  return count / 8 * b + (count % 8 * b + 7) / 8;
}

/// The bytes of code words whose upper bits are zero; the last byte's unused bits are zero. 1 <= bits <= 8.
inline std::vector<std::uint8_t> pack_codes(std::span<const std::uint8_t> codes, int bits) {
  std::vector<std::uint8_t> bytes(packed_size(codes.size(), bits));
  std::size_t next = 0;
  unsigned held = 0, stream = 0;
  for (const std::uint8_t code : codes) {
    stream |= static_cast<unsigned>(code) << held;
    for (held += static_cast<unsigned>(bits); held >= 8; held -= 8, stream >>= 8)
      bytes[next++] = static_cast<std::uint8_t>(stream);
  }
  if (held) bytes[next] = static_cast<std::uint8_t>(stream);
  return bytes;
}

/// Unpacks code words. Throws std::invalid_argument if there are not packed_size(count, bits) bytes.
inline std::vector<std::uint8_t> unpack_codes(std::span<const std::uint8_t> bytes, std::size_t count, int bits) {
  if (bytes.size() != packed_size(count, bits))
    throw std::invalid_argument(std::to_string(count) + " code words of " + std::to_string(bits) + " bits take " +
                                std::to_string(packed_size(count, bits)) + " bytes, not " +
                                std::to_string(bytes.size()));
  std::vector<std::uint8_t> codes(count);
  std::size_t next = 0;
  unsigned held = 0, stream = 0;
  for (std::uint8_t& code : codes) {
    if (held < static_cast<unsigned>(bits)) stream |= static_cast<unsigned>(bytes[next++]) << held, held += 8;
    code = static_cast<std::uint8_t>(stream & ((1u << bits) - 1));
    stream >>= bits, held -= static_cast<unsigned>(bits);
  }
  return codes;
}

}  // namespace halfulp
