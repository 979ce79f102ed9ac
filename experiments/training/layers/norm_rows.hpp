// What normalisations of rows share.
#pragma once

#include <halfulp/experiments/training/module.hpp>

namespace halfulp::training {

/// One intermediate number, rounded where the policy is strict about them.
template <class T>
T rounded_inside(const Numerics<T>& numerics, const Site& site, T value) {
  numerics.inner(site, {&value, 1});
  return value;
}

/// 1 / sqrt(mean of squares + eps) of a row; `squares` is scratch memory of its size.
template <class T>
T reciprocal_root(const Numerics<T>& numerics, const Site& site, std::span<const T> row, std::span<T> squares, T eps) {
  for (std::size_t j = 0; j < row.size(); ++j) squares[j] = row[j] * row[j];
  numerics.inner(site, squares);
  const T mean = rounded_inside(numerics, site, numerics.sum(site, squares) / static_cast<T>(row.size()));
  return rounded_inside(numerics, site, 1 / std::sqrt(rounded_inside(numerics, site, mean + eps)));
}

/// dgain = sum over rows of dy h. `products` is scratch memory.
template <class T>
void add_gain_gradient(Pass<T>& pass, OperatorKind kind, Parameter<T>& gain, const Tensor<T>& dy, const Tensor<T>& h,
    Tensor<T>& products) {
  const Site site{kind, gain.name};
  products.resize(dy.extents());
  for_elements(products.values(), 1, [d = dy.values().data(), n = h.values().data()](std::size_t i) { return d[i] * n[i]; });
  pass.numerics.inner(site, products.values());
  add_bias_gradient(pass, kind, gain, products);
}

/// dx = (g - mean(g) - h mean(g h)) r for each row, with g = dy gain and r = 1 / s; without mean(g) where forward has not
/// subtracted the mean.
template <class T>
void norm_rows_backward(Pass<T>& pass, const Site& site, const Tensor<T>& dy, const Tensor<T>& normal, const Tensor<T>& reciprocal,
                        const Tensor<T>& gain, bool centred, Tensor<T>& dx) {
  const Numerics<T>& numerics = pass.numerics;
  const std::size_t width = gain.size();
  for_rows(dy.rows(), 8 * width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const T> from = dy.row(i), h = normal.row(i);
      const std::span<T> to = dx.row(i);
      for (std::size_t j = 0; j < width; ++j) to[j] = from[j] * gain[j] * h[j];
      numerics.inner(site, to);
      const T along = rounded_inside(numerics, site, numerics.sum(site, to) / static_cast<T>(width));
      for (std::size_t j = 0; j < width; ++j) to[j] = from[j] * gain[j];
      numerics.inner(site, to);
      const T mean = centred ? rounded_inside(numerics, site, numerics.sum(site, to) / static_cast<T>(width)) : T{0};
      for (std::size_t j = 0; j < width; ++j) to[j] = (to[j] - mean - h[j] * along) * reciprocal[i];
    }
  });
  pass.numerics.cast(site, Role::gradient_of_activation, dx.values());
}

}  // namespace halfulp::training
