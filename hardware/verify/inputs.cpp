#include <halfulp/hardware/verify/inputs.hpp>

#include <halfulp/emulation/random.hpp>

#include <algorithm>
#include <array>

namespace halfulp::verify {
namespace {

/// The code with an exponent field near another one.
std::uint64_t moved_near(const FloatFormat& f, std::uint64_t code, std::int64_t field, int spread, std::uint32_t random) {
  const auto top = static_cast<std::int64_t>(f.magnitude_mask() >> f.fraction_bits);
  field += static_cast<std::int64_t>(random % static_cast<std::uint32_t>(2 * spread + 1)) - spread;
  return (code & (f.sign_mask() | f.fraction_mask())) | static_cast<std::uint64_t>(std::clamp<std::int64_t>(field, 0, top)) << f.fraction_bits;
}

std::array<std::uint64_t, 3> random_case(const FloatFormat& f, int arity, std::uint64_t seed, std::uint64_t index) {
  const auto low = philox(seed, 0, index), high = philox(seed, 1, index);
  const auto wide = [](std::uint32_t x, std::uint32_t y) { return x | static_cast<std::uint64_t>(y) << 32; };
  std::array<std::uint64_t, 3> x{wide(low[0], low[1]) & f.code_mask(), wide(low[2], low[3]) & f.code_mask(), wide(high[0], high[1]) & f.code_mask()};
  const std::uint32_t choice = high[2], spread = high[3];
  const auto field = [&](std::uint64_t code) { return static_cast<std::int64_t>(f.magnitude(code) >> f.fraction_bits); };
  if (arity > 1 && (choice & 1) != 0) x[1] = moved_near(f, x[1], field(x[0]), f.precision() + 2, spread >> 16);
  if (arity > 2 && (choice & 2) != 0) x[2] = moved_near(f, x[2], field(x[0]) + field(x[1]) - f.bias, 2 * f.precision() + 2, spread & 0xffff);
  for (std::size_t i = 0; i < 3; ++i)
    if ((choice & (4U << i)) != 0 && arity > 1) x[i] &= ~(f.fraction_mask() >> (choice >> 8) % 6);
  return x;
}

}  // namespace

void Inputs::fill(std::uint64_t begin, std::span<std::uint64_t> a, std::span<std::uint64_t> b, std::span<std::uint64_t> c) const {
  const std::size_t size = a.size();
  if (!exhaustive) {
    for (std::size_t i = 0; i < size; ++i) {
      const auto x = random_case(from, arity, seed, begin + i);
      a[i] = x[0];
      if (arity > 1) b[i] = x[1];
      if (arity > 2) c[i] = x[2];
    }
    return;
  }
  const int bits = from.storage_bits();
  const std::uint64_t mask = from.code_mask();
  const auto put = [&](std::span<std::uint64_t> to, int shift) {
    for (std::size_t i = 0; i < size; ++i) to[i] = (begin + i) >> shift & mask;
  };
  put(a, (arity - 1) * bits);
  if (arity > 1) put(b, (arity - 2) * bits);
  if (arity > 2) put(c, 0);
}

std::optional<std::uint64_t> number_of_inputs(const Task& task) {
  const int bits = std::get<FloatFormat>(task.from).storage_bits() * info(task.operation).arity;
  if (bits > 32) return std::nullopt;
  return std::uint64_t{1} << bits;
}

Inputs all_inputs(const Task& task) {
  return {std::get<FloatFormat>(task.from), info(task.operation).arity, true, *number_of_inputs(task), 0};
}

Inputs sampled_inputs(const Task& task, std::uint64_t count, std::uint64_t seed) {
  if (const auto all = number_of_inputs(task); all && *all <= count) return all_inputs(task);
  return {std::get<FloatFormat>(task.from), info(task.operation).arity, false, count, seed};
}

}  // namespace halfulp::verify
