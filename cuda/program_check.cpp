#include <halfulp/cuda/program_check.hpp>

#include <halfulp/emulation/comparison.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/hardware/verify/lattice.hpp>

#include <algorithm>
#include <sstream>

namespace halfulp::cuda {

bool ProgramCheck::measure(const FloatFormat& f, std::uint64_t device, std::uint64_t expected) {
  if (device > f.code_mask() || f.is_nan(device) || f.is_nan(expected)) return false;
  const std::int64_t x = order(f, {}, device), y = order(f, {}, expected);
  largest_distance = std::max(largest_distance, static_cast<std::uint64_t>(x < y ? y - x : x - y));
  return true;
}

void ProgramCheck::add_difference(const FloatFormat& f, std::uint64_t device, std::uint64_t expected, const std::string& where) {
  unlike += !measure(f, device, expected);
  if (differing++ != 0) return;
  std::ostringstream text;
  text << std::hex << where << ": device " << device << ", expected " << expected;
  witness = text.str();
}

std::uint64_t Drawn::word() { return random_word(seed_, stream_, index_++); }

std::uint64_t Drawn::any(const FloatFormat& f) {
  if (word() % 2 == 0) return word() & f.code_mask();
  const std::vector<std::uint64_t> points = verify::lattice(f, 0);
  return points[word() % points.size()];
}

}  // namespace halfulp::cuda
