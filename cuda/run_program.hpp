// Programs on columns of code words, for kernels and the host alike. Beside what programs.hpp asks of it, an operations
// object here makes values of code words, value(word), and code words of values, word(value).
#pragma once

#include <halfulp/cuda/kernels.hpp>

namespace halfulp::cuda {

/// Element i of an element-wise program.
template <Program p, class O>
constexpr void run_element(const O& o, const ProgramArgs& x, std::size_t i) {
  using V = typename O::Value;
  const auto in = [&](int k) -> V { return o.value(x.inputs[k][i]); };
  const auto integer = [&] { return static_cast<std::int32_t>(static_cast<std::uint32_t>(x.inputs[0][i])); };
  const auto put = [&](int k, V v) { x.outputs[k][i] = o.word(v); };
  const auto put_pair = [&](Pair<V> v) { put(0, v.first), put(1, v.second); };
  if constexpr (p == Program::update) put(0, update(o, in(0), in(1), in(2)));
  else if constexpr (p == Program::update_fused) put(0, update_fused(o, in(0), in(1), in(2)));
  else if constexpr (p == Program::kahan_update) put_pair(kahan_update(o, in(0), in(1), in(2)));
  else if constexpr (p == Program::position_id) put(0, o.from_integer(integer()));
  else if constexpr (p == Program::rope_angle) put(0, rope_angle(o, integer(), in(1)));
  else if constexpr (p == Program::rope_rotation) put_pair(rope_rotation(o, in(0), in(1), in(2), in(3)));
}

/// A row of a program on rows.
template <Program p, class Team, class O>
constexpr void run_row(Team& team, const O& o, const ProgramArgs& args, std::size_t row) {
  using V = typename O::Value;
  const std::size_t n = args.length, start = row * n;
  const auto x = [&](std::size_t i) -> V { return o.value(args.inputs[0][start + i]); };
  const auto result = [&](std::size_t i) -> V { return o.value(args.outputs[0][start + i]); };
  const auto put = [&](std::size_t i, V v) { args.outputs[0][start + i] = o.word(v); };
  if constexpr (p == Program::softmax) {
    softmax(team, o, n, x, result, put);
  } else if constexpr (p == Program::softmax_naive) {
    softmax_naive(team, o, n, x, result, put);
  } else if constexpr (p == Program::layer_norm) {
    const auto scale = [&](std::size_t i) -> V { return o.value(args.inputs[1][i]); };
    const auto shift = [&](std::size_t i) -> V { return o.value(args.inputs[2][i]); };
    layer_norm(team, o, n, x, scale, shift, o.value(args.inputs[3][row]), result, put);
  }
}

/// f(p) with the program as a constant: f.template operator()<Program::update>().
template <class F>
constexpr void with_program(Program program, F&& f) {
  switch (program) {
    case Program::update: return f.template operator()<Program::update>();
    case Program::update_fused: return f.template operator()<Program::update_fused>();
    case Program::kahan_update: return f.template operator()<Program::kahan_update>();
    case Program::position_id: return f.template operator()<Program::position_id>();
    case Program::rope_angle: return f.template operator()<Program::rope_angle>();
    case Program::rope_rotation: return f.template operator()<Program::rope_rotation>();
    case Program::softmax: return f.template operator()<Program::softmax>();
    case Program::softmax_naive: return f.template operator()<Program::softmax_naive>();
    case Program::layer_norm: return f.template operator()<Program::layer_norm>();
  }
}

}  // namespace halfulp::cuda
