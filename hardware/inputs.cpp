#include <halfulp/hardware/inputs.hpp>

#include <halfulp/emulation/random.hpp>

#include <algorithm>
#include <array>

namespace halfulp::verify {
namespace {

/// The code with an exponent field near another one.
std::uint64_t moved_near(const FloatFormat& f, std::uint64_t code, std::int64_t field, int spread,
                         std::uint32_t random) {
  const auto top = static_cast<std::int64_t>(f.magnitude_mask() >> f.fraction_bits);
  field += static_cast<std::int64_t>(random % static_cast<std::uint32_t>(2 * spread + 1)) - spread;
  return (code & (f.sign_mask() | f.fraction_mask())) |
         static_cast<std::uint64_t>(std::clamp<std::int64_t>(field, 0, top)) << f.fraction_bits;
}

std::array<std::uint64_t, 3> random_case(const FloatFormat& f, int arity, std::uint64_t seed, std::uint64_t index) {
  const auto low = philox(seed, 0, index), high = philox(seed, 1, index);
  const auto wide = [](std::uint32_t x, std::uint32_t y) { return x | static_cast<std::uint64_t>(y) << 32; };
  std::array<std::uint64_t, 3> x{wide(low[0], low[1]) & f.code_mask(), wide(low[2], low[3]) & f.code_mask(),
                                 wide(high[0], high[1]) & f.code_mask()};
  const std::uint32_t choice = high[2], spread = high[3];
  const auto field = [&](std::uint64_t code) {
    return static_cast<std::int64_t>(f.magnitude(code) >> f.fraction_bits);
  };
  if (arity > 1 && (choice & 1) != 0) x[1] = moved_near(f, x[1], field(x[0]), f.precision() + 2, spread >> 16);
  if (arity > 2 && (choice & 2) != 0)
    x[2] = moved_near(f, x[2], field(x[0]) + field(x[1]) - f.bias, 2 * f.precision() + 2, spread & 0xffff);
  for (std::size_t i = 0; i < 3; ++i)
    if ((choice & (4U << i)) != 0 && arity > 1) x[i] &= ~(f.fraction_mask() >> (choice >> 8) % 6);
  return x;
}

/// Code words of `from` at and beside the values of `to`'s lattice, those half a unit further on, and what lies beyond
/// the largest.
void add_edges_of(const FloatFormat& to, const FloatFormat& from, std::vector<std::uint64_t>& codes) {
  const auto add = [&](double x) {
    const std::uint64_t code = encode(from, {.mode = RoundingMode::toward_zero}, x).code;
    for (const std::uint64_t near : {code - 1, code, code + 1})
      for (const bool negative : {false, true})
        if (near <= from.magnitude_mask()) codes.push_back(from.with_sign(near, negative));
  };
  for (const std::uint64_t code : lattice(to, 1)) {
    if (to.sign(code) || !to.is_finite(code)) continue;
    const double x = to.value(code), last_bit = FloatFormat::power_of_two(std::max(to.exponent(code), -1073));
    add(x);
    add(x + last_bit / 2);
  }
  if (to.min_positive() == 0) add(to.value(0) / 2);
}

/// What the boundary cases of a task are made of.
std::vector<std::uint64_t> boundary_points(const Task& task) {
  const auto& from = std::get<FloatFormat>(task.from);
  std::vector<std::uint64_t> points = lattice(from, info(task.operation).arity > 2 ? 0 : 1);
  if (task.operation == Operation::convert) add_edges_of(std::get<FloatFormat>(task.to), from, points);
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

/// The number of combinations of `arity` of them, or `most` if that is less.
std::uint64_t combinations(std::uint64_t points, int arity, std::uint64_t most) {
  std::uint64_t count = 1;
  for (int i = 0; i < arity && count <= most; ++i) count *= points;
  return std::min(count, most);
}

/// All combinations in order where the sample has room for them, else one drawn by the seed.
std::array<std::uint64_t, 3> boundary_case(const Inputs& inputs, std::uint64_t index) {
  const std::uint64_t n = inputs.points.size();
  std::array<std::uint64_t, 3> x{};
  if (combinations(n, inputs.arity, inputs.boundary + 1) == inputs.boundary) {
    for (int i = inputs.arity; i-- > 0; index /= n) x[static_cast<std::size_t>(i)] = inputs.points[index % n];
  } else {
    const auto random = philox(inputs.seed, 2, index);
    for (std::size_t i = 0; i < 3; ++i) x[i] = inputs.points[random[i] % n];
  }
  return x;
}

}  // namespace

void Inputs::fill(std::uint64_t begin, std::span<std::uint64_t> a, std::span<std::uint64_t> b,
                  std::span<std::uint64_t> c) const {
  const std::size_t size = a.size();
  if (!exhaustive) {
    for (std::size_t i = 0; i < size; ++i) {
      const auto x = begin + i < boundary ? boundary_case(*this, begin + i) : random_case(from, arity, seed, begin + i);
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
  if (bits > 48) return std::nullopt;
  return std::uint64_t{1} << bits;
}

Inputs all_inputs(const Task& task) {
  return {std::get<FloatFormat>(task.from), info(task.operation).arity, true, *number_of_inputs(task), 0};
}

Inputs sampled_inputs(const Task& task, std::uint64_t count, std::uint64_t seed) {
  if (const auto all = number_of_inputs(task); all && *all <= count) return all_inputs(task);
  Inputs inputs{
      std::get<FloatFormat>(task.from), info(task.operation).arity, false, count, seed, boundary_points(task)};
  inputs.boundary = combinations(inputs.points.size(), inputs.arity, count / 2);
  return inputs;
}

}  // namespace halfulp::verify
