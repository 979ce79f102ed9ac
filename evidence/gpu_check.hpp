// halfulp's own kernels on a device against the same functions on the host.
#pragma once

#include <halfulp/cuda/gpu.hpp>
#include <halfulp/cuda/run_on.hpp>
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/evidence/check.hpp>

#include <string>
#include <vector>

namespace halfulp::cuda {

/// quantize and encode in every mode, and decode, of the 16-bit and narrower formats of the catalogue, on `count`
/// floats (random words, and what lies around the values of the format). Every element is compared. Precondition:
/// gpu.available().yes. Throws GpuError.
std::vector<Check> check_kernels(const Gpu& gpu, std::size_t count, const Progress& progress);

/// check_sums and check_programs. As above.
std::vector<Check> check_programs_and_sums(const Gpu& gpu, const Progress& progress);

/// Every matrix instruction that runs there: whole tiles beside the same products on a diagonal. As above.
std::vector<Check> check_whole_tiles(const Device& device, const Progress& progress);

/// Every element of `tiles` tiles of D, of the row of that number, beside the same products as a case of the device,
/// which takes diagonals. Precondition: the row runs there.
Comparison check_places(const Device& device, std::size_t row, std::size_t tiles, std::size_t k, std::uint64_t seed);

// Sums in every order, fp16, bf16 and fp32; programs, fp16 and bf16. The operands follow from the seed. Preconditions
// and exceptions as above.

std::vector<Check> check_sums(const Gpu& gpu, std::uint64_t seed);
std::vector<Check> check_programs(const Gpu& gpu, std::uint64_t seed);

/// Notes a case of a sum or program whose word is not the expected one; `where` says which case. Its class is
/// "unwritten", "nan" (a NaN on either side) or "other"; how far apart the words are is counted in code words on the
/// number line.
void note_word(Comparison& found, const FloatFormat& f, std::uint64_t device, std::uint64_t expected,
               const std::function<std::string()>& where);

/// Operands that follow from a seed.
class Drawn {
 public:
  Drawn(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  std::uint64_t word();
  int between(int low, int high) { return low + static_cast<int>(word() % static_cast<std::uint64_t>(high - low + 1)); }
  double unit() { return static_cast<double>(word() >> 11) * 0x1p-53; }  ///< [0, 1)
  double real(double low, double high) { return low + (high - low) * unit(); }
  /// A code word of either sign with this exponent, at the ends of the range what it rounds to. -1074 <= exponent <=
  /// 1023.
  std::uint64_t number(const FloatFormat& f, int exponent) {
    const double magnitude = (1 + unit()) * FloatFormat::power_of_two(exponent);
    return encode(f, {}, word() % 2 == 0 ? magnitude : -magnitude).code;
  }
  /// Any code word: zeros, subnormals, infinities and NaNs are met.
  std::uint64_t any(const FloatFormat& f);

 private:
  std::uint64_t seed_, stream_, index_ = 0;
};

}  // namespace halfulp::cuda
