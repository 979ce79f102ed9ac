// The three products around a weight matrix, which linear layers, convolutions and LSTM cells share.
#pragma once

#include <halfulp/experiments/training/module.hpp>

namespace halfulp::training {

/// y = x W^T + bias: x rows x inputs, W outputs x inputs (only its first axis and its size matter), y rows x outputs.
template <class T>
void dense_forward(Pass<T>& pass, const Site& site, std::span<const T> x, const Tensor<T>& weight, std::span<const T> bias,
    std::span<T> y) {
  const std::size_t outputs = weight.extent(0), inputs = weight.size() / outputs;
  typename Numerics<T>::Operands o;
  o.m = x.size() / inputs, o.n = outputs, o.k = inputs;
  o.a = x, o.b = weight.values(), o.transpose_b = true;
  pass.numerics.product(site, Product::forward, o, bias, y);
}

/// dx = dy W.
template <class T>
void dense_to_input(Pass<T>& pass, const Site& site, std::span<const T> dy, const Tensor<T>& weight, std::span<T> dx) {
  const std::size_t outputs = weight.extent(0), inputs = weight.size() / outputs;
  typename Numerics<T>::Operands o;
  o.m = dy.size() / outputs, o.n = inputs, o.k = outputs;
  o.a = dy, o.b = weight.values();
  pass.numerics.product(site, Product::to_input, o, dx);
}

/// dw = dy^T x.
template <class T>
void dense_to_weight(Pass<T>& pass, const Site& site, std::span<const T> dy, std::span<const T> x, const Tensor<T>& weight,
    std::span<T> dw) {
  const std::size_t outputs = weight.extent(0), inputs = weight.size() / outputs;
  typename Numerics<T>::Operands o;
  o.m = outputs, o.n = inputs, o.k = dy.size() / outputs;
  o.a = dy, o.transpose_a = true, o.b = x;
  pass.numerics.product(site, Product::to_weight, o, dw);
}

}  // namespace halfulp::training
