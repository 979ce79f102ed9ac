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

/// The sums and programs of program_check.hpp. As above.
std::vector<Check> check_programs_and_sums(const Gpu& gpu, const Progress& progress);

/// Every matrix instruction that runs there: whole tiles beside the same products on a diagonal. As above.
std::vector<Check> check_whole_tiles(const Gpu& gpu, const Progress& progress);

/// The device behind a backend, "cuda" or "rehearsal"; nullptr for others.
const Gpu* find_gpu(std::string_view backend);

// What comes of holding a device's sums and programs against the emulation.

struct ProgramCheck {
  std::string name;           ///< "sum fp16 warp", "softmax bf16"
  std::string compared_with;  ///< "the emulation in the same order"
  bool must_agree =
      true;  ///< false where an operation in it is not correctly rounded by GPUs: differences are counted, no failure
  std::uint64_t compared = 0, differing = 0;
  std::uint64_t unlike = 0;  ///< of those that differ: a NaN against a number, two different NaNs, or nothing written
  std::uint64_t largest_distance = 0;  ///< of the others: how many code words lie between them, at most
  std::string witness = {};            ///< the first that differs; empty if none does

  bool passed() const { return compared != 0 && (differing == 0 || !must_agree); }

  /// One case; `where` says which, and is asked of the first that differs alone.
  template <class Where>
  void compare(const FloatFormat& f, std::uint64_t device, std::uint64_t expected, Where&& where) {
    ++compared;
    if (device != expected) add_difference(f, device, expected, differing == 0 ? where() : std::string());
  }
  /// The same where something else than equality is asked for: `agrees` says whether it is there.
  template <class Where>
  void judge(const FloatFormat& f, std::uint64_t device, std::uint64_t beside, bool agrees, Where&& where) {
    ++compared;
    measure(f, device, beside);
    if (!agrees) add_difference(f, device, beside, differing == 0 ? where() : std::string());
  }

 private:
  void add_difference(const FloatFormat& f, std::uint64_t device, std::uint64_t expected, const std::string& where);
  bool measure(const FloatFormat& f, std::uint64_t device, std::uint64_t expected);
};

/// Sums in every order, fp16, bf16 and fp32; programs, fp16 and bf16. The operands follow from the seed.
/// Precondition: the device is available. Throws GpuError.
std::vector<ProgramCheck> check_sums(const Gpu& gpu, std::uint64_t seed);
std::vector<ProgramCheck> check_programs(const Gpu& gpu, std::uint64_t seed);

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
