// Functions of every element whose loops take most of an activation's time: vectors as wide as this CPU's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfulp::training {

// Gaussian error linear units (Hendrycks and Gimpel 2016).

enum class GeluForm : std::uint8_t {
  erf,   ///< x P(X <= x), X standard normal
  tanh,  ///< x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as torch.nn.GELU(approximate="tanh")
};

void gelu(GeluForm form, const float* x, float* y, std::size_t count);
void gelu(GeluForm form, const double* x, double* y, std::size_t count);
/// dx[i] = dy[i] times the slope at x[i].
void gelu_backward(GeluForm form, const float* x, const float* dy, float* dx, std::size_t count);
void gelu_backward(GeluForm form, const double* x, const double* dy, double* dx, std::size_t count);

/// e^x of every element; both may be the same memory.
void exponentials(const float* x, float* y, std::size_t count);
void exponentials(const double* x, double* y, std::size_t count);

}  // namespace halfulp::training
