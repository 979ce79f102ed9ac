// A step of an optimizer, loop after loop, compiled for each instruction set: every operation is IEEE 754's, so that
// all of them give the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "training/update_piece.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <halfulp/training/update.hpp>

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace halfulp::training::HWY_NAMESPACE {
using namespace update_steps;

void update_here(const StepNumbers& n, bool kahan, const OperationRounding& rounding, const UpdatePiece& p) {
  const std::size_t count = p.weights.size();
  const auto round = [&](Step step, float* values) { rounding(step, p.begin, {values, count}); };
  float decayed[largest_piece], x[largest_piece];
  const float* d = p.gradient.data();
  float* const w = p.weights.data();
  float* const m = p.first.data();
  float* const v = p.second.data();

  if (n.weight_decay != 0) {
    for (std::size_t i = 0; i < count; ++i) decayed[i] = d[i] + n.weight_decay * w[i];
    round(decayed_gradient, decayed);
    d = decayed;
  }

  if (n.adam) {
    // lerp starts from the nearer end, so that weight 1 gives the gradient itself.
    if (n.weight1 < 0.5f) {
      for (std::size_t i = 0; i < count; ++i) m[i] = m[i] + n.weight1 * (d[i] - m[i]);
    } else {
      for (std::size_t i = 0; i < count; ++i) m[i] = d[i] + (n.weight1 - 1) * (d[i] - m[i]);
    }
    round(first, m);
    for (std::size_t i = 0; i < count; ++i) v[i] = v[i] * n.beta2;
    round(scaled_second, v);
    for (std::size_t i = 0; i < count; ++i) v[i] = v[i] + n.weight2 * d[i] * d[i];
    round(second, v);
    for (std::size_t i = 0; i < count; ++i) x[i] = std::sqrt(v[i]);
    round(root, x);
    for (std::size_t i = 0; i < count; ++i) x[i] = x[i] / n.root;
    round(corrected, x);
    for (std::size_t i = 0; i < count; ++i) x[i] = x[i] + n.eps;
    round(denominator, x);
    for (std::size_t i = 0; i < p.denominators.size(); ++i) p.denominators[i] = x[i];
    for (std::size_t i = 0; i < count; ++i) x[i] = n.step * m[i] / x[i];
  } else {
    if (!p.first.empty()) {
      if (n.first_momentum) {
        for (std::size_t i = 0; i < count; ++i) m[i] = d[i];
      } else {
        for (std::size_t i = 0; i < count; ++i) m[i] = m[i] * n.momentum;
        round(scaled_first, m);
        for (std::size_t i = 0; i < count; ++i) m[i] = m[i] + d[i];
        round(first, m);
      }
      if (n.nesterov) {
        for (std::size_t i = 0; i < count; ++i) decayed[i] = d[i] + n.momentum * m[i];
        round(lookahead, decayed);
        d = decayed;
      } else {
        d = m;
      }
    }
    for (std::size_t i = 0; i < count; ++i) x[i] = n.step * d[i];
  }

  // x: the update. An operation that adds it to the weights computes it inside and does not round it.
  if (kahan) {
    round(update, x);
    if (n.decoupled) {
      for (std::size_t i = 0; i < count; ++i) x[i] = x[i] + n.shrunk * w[i];
      round(decayed_update, x);
    }
    for (std::size_t i = 0; i < count; ++i) p.update[i] = x[i];
    return;
  }
  for (std::size_t i = 0; i < p.update.size(); ++i) p.update[i] = n.decoupled ? x[i] + n.shrunk * w[i] : x[i];
  if (n.decoupled) {
    for (std::size_t i = 0; i < count; ++i) w[i] = w[i] * n.shrink;
    round(shrunk, w);
  }
  // The last operation writes the weights and rounds once, to their storage.
  for (std::size_t i = 0; i < count; ++i) w[i] = w[i] + x[i];
}

}  // namespace halfulp::training::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::training {

HWY_EXPORT(update_here);

void update_piece(const StepNumbers& n, bool kahan, const OperationRounding& rounding, const UpdatePiece& p) {
  HWY_DYNAMIC_DISPATCH(update_here)(n, kahan, rounding, p);
}

}  // namespace halfulp::training
#endif
