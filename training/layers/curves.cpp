// Plain loops, compiled for each instruction set; every step is an IEEE operation, so that all of them give the same
// bits. `flatten` puts the functions of data/elementary.hpp inside, where they become vectors too.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "training/layers/curves.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <halfulp/training/layers/curves.hpp>

#include <halfulp/data/elementary.hpp>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace halfulp::training::HWY_NAMESPACE {

constexpr double root_two_over_pi = 0.79788456080286535588, cubic = 0.044715;

template <class T>
T inside_tanh(T x) {
  return static_cast<T>(root_two_over_pi) * (x + static_cast<T>(cubic) * (x * x * x));
}

template <class T>
T tanh_slope(T x) {
  const T t = smooth_tanh(inside_tanh(x));
  return (1 + t) / 2 +
         x * (1 - t * t) / 2 * (static_cast<T>(root_two_over_pi) * (1 + 3 * static_cast<T>(cubic) * (x * x)));
}

/// y[i] = f(x[i]). Values are taken from `x` a block at a time: so compilers see vectors though `y` may be `x`.
template <class T, class F>
HWY_INLINE void each(const T* x, T* y, std::size_t count, F f) {
  constexpr std::size_t block = 64;
  T values[block];
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t size = std::min(block, count - begin);
    std::copy_n(x + begin, size, values);
    for (std::size_t i = 0; i < size; ++i) y[begin + i] = f(values[i]);
  }
}

template <class T>
[[gnu::flatten]] void gelu_of(GeluForm form, const T* x, T* y, std::size_t count) {
  if (form == GeluForm::erf) each(x, y, count, [](T v) { return v * smooth_normal_cdf(v); });
  else each(x, y, count, [](T v) { return v / 2 * (1 + smooth_tanh(inside_tanh(v))); });
}

template <class T>
[[gnu::flatten]] void gelu_backward_of(GeluForm form, const T* x, const T* dy, T* dx, std::size_t count) {
  if (form == GeluForm::erf)
    each(x, dx, count, [](T v) { return smooth_normal_cdf(v) + v * smooth_normal_density(v); });
  else each(x, dx, count, [](T v) { return tanh_slope(v); });
  for (std::size_t i = 0; i < count; ++i) dx[i] = dy[i] * dx[i];
}

template <class T>
[[gnu::flatten]] void exponentials_of(const T* x, T* y, std::size_t count) {
  each(x, y, count, [](T v) { return smooth_exp(v); });
}

void gelu_floats(GeluForm form, const float* x, float* y, std::size_t count) { gelu_of(form, x, y, count); }
void gelu_doubles(GeluForm form, const double* x, double* y, std::size_t count) { gelu_of(form, x, y, count); }
void gelu_backward_floats(GeluForm form, const float* x, const float* dy, float* dx, std::size_t count) {
  gelu_backward_of(form, x, dy, dx, count);
}
void gelu_backward_doubles(GeluForm form, const double* x, const double* dy, double* dx, std::size_t count) {
  gelu_backward_of(form, x, dy, dx, count);
}
void exponentials_floats(const float* x, float* y, std::size_t count) { exponentials_of(x, y, count); }
void exponentials_doubles(const double* x, double* y, std::size_t count) { exponentials_of(x, y, count); }

}  // namespace halfulp::training::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::training {

HWY_EXPORT(gelu_floats);
HWY_EXPORT(gelu_doubles);
HWY_EXPORT(gelu_backward_floats);
HWY_EXPORT(gelu_backward_doubles);
HWY_EXPORT(exponentials_floats);
HWY_EXPORT(exponentials_doubles);

void gelu(GeluForm form, const float* x, float* y, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_floats)(form, x, y, count);
}
void gelu(GeluForm form, const double* x, double* y, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_doubles)(form, x, y, count);
}
void gelu_backward(GeluForm form, const float* x, const float* dy, float* dx, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_backward_floats)(form, x, dy, dx, count);
}
void gelu_backward(GeluForm form, const double* x, const double* dy, double* dx, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_backward_doubles)(form, x, dy, dx, count);
}
void exponentials(const float* x, float* y, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(exponentials_floats)(x, y, count);
}
void exponentials(const double* x, double* y, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(exponentials_doubles)(x, y, count);
}

}  // namespace halfulp::training
#endif
