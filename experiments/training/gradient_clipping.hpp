// Clipping of gradients by their common norm.
#pragma once

#include <halfulp/experiments/training/loss_scaler.hpp>

namespace halfulp::training {

struct Clipping {
  double norm = 0;       ///< before clipping: sum and square root in fp64
  float coefficient = 1;  ///< what the gradients were multiplied by; below 1 where they were clipped
};

/// The square root of the sum of squares, in fp64, element after element and tensor after tensor: the same bits everywhere, and
/// no square overflows.
double gradient_norm(Gradients gradients);

/// Multiplies all gradients by min(1, most / (norm + 1e-6)), computed in fp32 as torch.nn.utils.clip_grad_norm_ does: an infinite
/// norm gives 0 (and NaN from Inf), a NaN gives NaN everywhere. torch's norm is in fp32, where squares overflow from 1.8e19 on.
/// Which gradients share a norm is the caller's choice: all, or the embedding's alone.
Clipping clip_gradients(Gradients gradients, float most);

}  // namespace halfulp::training
