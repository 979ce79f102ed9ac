// Straight-line computations of models, each written once: kernels instantiate them with the device's instructions, the
// host with the emulation on code words.
//
// An operations object O computes on values O::Value of one format, each operation rounded to nearest by itself
// (nothing is contracted): add, sub, mul, fma, div, exp, rsqrt, max, from_integer, zero(), minus_infinity(). A row is
// read by lambdas that give element i, and written by one that takes (i, value).
#pragma once

#include <halfulp/cuda/sums.hpp>

#include <cstddef>
#include <cstdint>

namespace halfulp::cuda {

enum class Program : std::uint8_t {
  update,
  update_fused,
  kahan_update,
  position_id,
  rope_angle,
  rope_rotation,
  softmax,
  softmax_naive,
  layer_norm
};

struct ProgramInfo {
  Program program;
  std::string_view name;
  int inputs, outputs;
  bool rows;   ///< works on rows of many elements; else element by element
  bool exact;  ///< every operation in it is one that GPUs round correctly: exp, rsqrt and division are not
  std::string_view summary;
};

// clang-format off
inline constexpr std::array<ProgramInfo, 9> programs{{
  {Program::update,        "update",        3, 1, false, true,  "w, lr, g: w + lr * g, the product rounded"},
  {Program::update_fused,  "update-fused",  3, 1, false, true,  "w, lr, g: fma(lr, g, w)"},
  {Program::kahan_update,  "kahan-update",  3, 2, false, true,  "w, c, u: y = u - c; t = w + y; c = (t - w) - y; w = t"},
  {Program::position_id,   "position-id",   1, 1, false, true,  "n, an i32: n"},
  {Program::rope_angle,    "rope-angle",    2, 1, false, true,  "n, an i32, and a frequency: their product"},
  {Program::rope_rotation, "rope-rotation", 4, 2, false, true,  "x1, x2, c, s: x1 c - x2 s, x2 c + x1 s"},
  {Program::softmax,       "softmax",       1, 1, true,  false, "x: exp(x - max x), over their sum in the order of a block"},
  {Program::softmax_naive, "softmax-naive", 1, 1, true,  false, "x: exp(x), over their sum in the order of a block"},
  {Program::layer_norm,    "layer-norm",    4, 1, true,  false, "x, scale, shift, eps: (x - mean) / sqrt(variance + eps) * scale + shift"},
}};
// clang-format on
inline constexpr int max_inputs = 4, max_outputs = 2;

constexpr const ProgramInfo& info(Program program) { return programs[static_cast<std::size_t>(program)]; }

template <class V>
struct Pair {
  V first, second;
};

/// A step of gradient descent.
template <class O, class V>
constexpr V update(const O& o, V w, V lr, V g) {
  return o.add(w, o.mul(lr, g));
}
template <class O, class V>
constexpr V update_fused(const O& o, V w, V lr, V g) {
  return o.fma(lr, g, w);
}

/// Kahan 1965: adds u to w; c is what w has too much, zero at first.
template <class O, class V>
constexpr Pair<V> kahan_update(const O& o, V w, V c, V u) {
  const V y = o.sub(u, c), t = o.add(w, y);
  return {t, o.sub(o.sub(t, w), y)};
}

/// Rotary embeddings (Su et al. 2021): the angle of a position, all of it in the format, and the rotation by an angle
/// of which cosine and sine are given.
template <class O, class V>
constexpr V rope_angle(const O& o, std::int32_t position, V frequency) {
  return o.mul(o.from_integer(position), frequency);
}
template <class O, class V>
constexpr Pair<V> rope_rotation(const O& o, V x1, V x2, V cosine, V sine) {
  return {o.sub(o.mul(x1, cosine), o.mul(x2, sine)), o.add(o.mul(x2, cosine), o.mul(x1, sine))};
}

namespace detail {
/// Every element put(i, value) so far, over their sum.
template <class Team, class O, class Get, class Put>
constexpr void normalize(Team& team, const O& o, std::size_t n, Get&& get, Put&& put) {
  const auto total = sum_by(team, o, n, get);
  team.for_each(n, [&](std::size_t i) { put(i, o.div(get(i), total)); });
}
}  // namespace detail

/// x(i) gives the inputs; result(i) reads back what put(i, value) wrote last, by the same lane.
template <class Team, class O, class X, class Get, class Put>
constexpr void softmax(Team& team, const O& o, std::size_t n, X&& x, Get&& result, Put&& put) {
  const auto top = reduce(team, n, o.minus_infinity(), x, [&o](auto a, auto b) { return o.max(a, b); });
  team.for_each(n, [&](std::size_t i) { put(i, o.exp(o.sub(x(i), top))); });
  detail::normalize(team, o, n, result, put);
}

/// Without the maximum: overflows in fp16 from x = 11.09 on.
template <class Team, class O, class X, class Get, class Put>
constexpr void softmax_naive(Team& team, const O& o, std::size_t n, X&& x, Get&& result, Put&& put) {
  team.for_each(n, [&](std::size_t i) { put(i, o.exp(x(i))); });
  detail::normalize(team, o, n, result, put);
}

/// mean = sum x / n; d = x - mean; variance = sum d d / n; d rsqrt(variance + eps) scale + shift, each step rounded, n
/// too (fp16 has no 2049).
template <class Team, class O, class X, class Scale, class Shift, class V, class Get, class Put>
constexpr void layer_norm(Team& team, const O& o, std::size_t n, X&& x, Scale&& scale, Shift&& shift, V eps,
                          Get&& result, Put&& put) {
  const auto count = o.from_integer(static_cast<std::int32_t>(n));
  const auto mean = o.div(sum_by(team, o, n, x), count);
  team.for_each(n, [&](std::size_t i) { put(i, o.sub(x(i), mean)); });
  const auto variance = o.div(sum_by(team, o, n, [&](std::size_t i) { return o.mul(result(i), result(i)); }), count);
  const auto factor = o.rsqrt(o.add(variance, eps));
  team.for_each(n, [&](std::size_t i) { put(i, o.add(o.mul(o.mul(result(i), factor), scale(i)), shift(i))); });
}

}  // namespace halfulp::cuda
