#include <halfulp/experiments/training/layers/conv2d.hpp>

#include <halfulp/experiments/training/dense.hpp>

namespace halfulp::training {
namespace {

std::size_t fan_in(const Conv2dShape& s) { return s.inputs * s.kernel * s.kernel; }

/// to[b][j][i] = from[b][i][j].
template <class T>
void swap_axes(std::size_t batch, std::size_t rows, std::size_t columns, std::span<const T> from, std::span<T> to) {
  for_rows(batch, rows * columns, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b)
      for (std::size_t j = 0; j < columns; ++j)
        for (std::size_t i = 0; i < rows; ++i) to[(b * columns + j) * rows + i] = from[(b * rows + i) * columns + j];
  });
}

}  // namespace

template <class T>
Conv2d<T>::Conv2d(std::string name, const Conv2dShape& shape, bool bias)
    : Module<T>(std::move(name)), shape_(shape),
      weight_(this->parameter_name("weight"), ParameterKind::weight, {shape.outputs, shape.inputs, shape.kernel, shape.kernel},
          width_of(fan_in(shape))),
      bias_(this->parameter_name("bias"), ParameterKind::bias, {bias ? shape.outputs : 0}, width_of(fan_in(shape))),
      has_bias_(bias) {}

template <class T>
template <class F>
void Conv2d<T>::each_seen(std::size_t row, std::size_t column, F&& f) const {
  const std::size_t height = image_[2], width = image_[3], kernel = shape_.kernel;
  for (std::size_t c = 0; c < shape_.inputs; ++c)
    for (std::size_t i = 0; i < kernel; ++i) {
      const std::size_t y = row * shape_.stride + i - shape_.padding;  // below 0 is far above height
      if (y >= height) continue;
      for (std::size_t j = 0; j < kernel; ++j) {
        const std::size_t x = column * shape_.stride + j - shape_.padding;
        if (x < width) f((c * height + y) * width + x, (c * kernel + i) * kernel + j);
      }
    }
}

template <class T>
const Tensor<T>& Conv2d<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  const Extents& e = x.extents();
  const std::size_t least = shape_.kernel > 2 * shape_.padding ? shape_.kernel - 2 * shape_.padding : 1;
  if (e.rank() != 4 || e[1] != shape_.inputs || e[2] < least || e[3] < least)
    this->refuse(e, "batch x " + std::to_string(shape_.inputs) + " x height x width, both at least " + std::to_string(least));
  image_ = e;
  height_ = shape_.result(e[2]);
  width_ = shape_.result(e[3]);
  const std::size_t places = height_ * width_, seen = fan_in(shape_), image = e.size() / e[0];
  unfolded_.resize({e[0] * places, seen});
  for_rows(unfolded_.rows(), 4 * seen, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      T* const to = unfolded_.row(r).data();
      const T* const from = x.values().data() + r / places * image;
      std::fill(to, to + seen, T{0});
      each_seen(r % places / width_, r % width_, [=](std::size_t in_image, std::size_t in_row) { to[in_row] = from[in_image]; });
    }
  });
  rows_.resize({e[0] * places, shape_.outputs});
  dense_forward<T>(pass, {OperatorKind::conv2d, this->name()}, unfolded_.values(), weight_.value, bias_.value.values(),
      rows_.values());
  y_.resize({e[0], shape_.outputs, height_, width_});
  swap_axes<T>(e[0], places, shape_.outputs, rows_.values(), y_.values());
  return y_;
}

template <class T>
const Tensor<T>& Conv2d<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  const Site site{OperatorKind::conv2d, this->name()};
  const std::size_t batch = image_[0], places = height_ * width_, seen = fan_in(shape_), image = image_.size() / batch;
  swap_axes<T>(batch, shape_.outputs, places, dy.values(), rows_.values());
  add_gradient(pass, site.kind, weight_,
               [&](std::span<T> dw) { dense_to_weight<T>(pass, site, rows_.values(), unfolded_.values(), weight_.value, dw); });
  if (has_bias_) add_bias_gradient(pass, site.kind, bias_, rows_);
  if (!input_gradient_) return dx_;
  // What forward unfolded has served: its memory takes the gradient.
  dense_to_input<T>(pass, site, rows_.values(), weight_.value, unfolded_.values());
  dx_.resize(image_);
  for_rows(batch, 4 * places * seen, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) {
      T* const to = dx_.values().data() + b * image;
      std::fill(to, to + image, T{0});
      for (std::size_t place = 0; place < places; ++place) {
        const T* const from = unfolded_.row(b * places + place).data();
        each_seen(place / width_, place % width_, [=](std::size_t in_image, std::size_t in_row) { to[in_image] += from[in_row]; });
      }
    }
  });
  pass.numerics.cast(site, Role::gradient_of_activation, dx_.values());
  return dx_;
}

template <class T>
void Conv2d<T>::collect(std::vector<Parameter<T>*>& all) {
  all.push_back(&weight_);
  if (has_bias_) all.push_back(&bias_);
}

template class Conv2d<float>;
template class Conv2d<double>;

}  // namespace halfulp::training
