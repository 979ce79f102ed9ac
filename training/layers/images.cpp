#include <halfulp/training/layers/images.hpp>

#include <halfulp/training/layers/module.hpp>

#include <algorithm>
#include <type_traits>

namespace halfulp::training {
namespace {

std::size_t fan_in(const Conv2dShape& s) { return s.inputs * s.kernel * s.kernel; }

/// to[b][j][i] = from[b][i][j]. Rows are taken in groups that stay in the first-level cache.
template <class T>
void swap_axes(std::size_t batch, std::size_t rows, std::size_t columns, std::span<const T> from, std::span<T> to) {
  constexpr std::size_t group = 16;
  for_rows(batch, rows * columns, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b)
      for (std::size_t first = 0; first < rows; first += group) {
        const std::size_t count = std::min(group, rows - first);
        const T* const in = from.data() + (b * rows + first) * columns;
        T* const out = to.data() + b * rows * columns + first;
        for (std::size_t j = 0; j < columns; ++j)
          for (std::size_t i = 0; i < count; ++i) out[j * rows + i] = in[i * columns + j];
      }
  });
}

/// Calls f(n). n is a compile-time constant for common kernel sizes, so that the compiler can unroll loops over them.
template <class F>
void with_constant(std::size_t kernel, F&& f) {
  if (kernel == 3) f(std::integral_constant<std::size_t, 3>());
  else if (kernel == 5) f(std::integral_constant<std::size_t, 5>());
  else f(kernel);
}

}  // namespace

template <class T>
Conv2d<T>::Conv2d(std::string name, const Conv2dShape& shape, bool bias)
    : Module<T>(std::move(name)),
      shape_(shape),
      weight_(this->parameter_name("weight"), ParameterKind::weight,
              {shape.outputs, shape.inputs, shape.kernel, shape.kernel}, uniform_width(fan_in(shape))),
      bias_(this->parameter_name("bias"), ParameterKind::bias, {bias ? shape.outputs : 0},
            uniform_width(fan_in(shape))),
      has_bias_(bias) {}

template <class T>
template <class F>
void Conv2d<T>::each_row(F&& f) {
  const std::size_t height = image_[2], width = image_[3], padding = shape_.padding;
  for_rows(image_[0] * shape_.inputs, height * width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t channel = begin; channel < end; ++channel)
      for (std::size_t y = 0; y < height; ++y)
        f((channel * height + y) * width, (channel * padded_height() + y + padding) * padded_width() + padding, width);
  });
}

template <class T>
template <class F>
void Conv2d<T>::each_window(F&& f) {
  const std::size_t height = padded_height(), width = padded_width(), stride = shape_.stride, seen = fan_in(shape_);
  with_constant(shape_.kernel, [&](auto kernel) {
    for_rows(image_[0], 2 * height_ * width_ * seen, [&](std::size_t begin, std::size_t end) {
      for (std::size_t b = begin; b < end; ++b)
        for (std::size_t row = 0; row < height_; ++row)
          for (std::size_t c = 0; c < shape_.inputs; ++c)
            for (std::size_t i = 0; i < kernel; ++i) {
              T* image = padded_.values().data() + ((b * shape_.inputs + c) * height + row * stride + i) * width;
              T* unfolded = unfolded_.values().data() + (b * height_ + row) * width_ * seen + (c * kernel + i) * kernel;
              for (std::size_t column = 0; column < width_; ++column, image += stride, unfolded += seen)
                f(image, unfolded, kernel);
            }
    });
  });
}

template <class T>
const Tensor<T>& Conv2d<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  const Extents& e = x.extents();
  const std::size_t least = shape_.kernel > 2 * shape_.padding ? shape_.kernel - 2 * shape_.padding : 1;
  if (e.rank() != 4 || e[1] != shape_.inputs || e[2] < least || e[3] < least)
    this->refuse(
        e, "batch x " + std::to_string(shape_.inputs) + " x height x width, both at least " + std::to_string(least));
  image_ = e;
  height_ = shape_.result(e[2]);
  width_ = shape_.result(e[3]);
  const std::size_t places = height_ * width_;
  padded_.resize({e[0], e[1], padded_height(), padded_width()});
  std::fill(padded_.values().begin(), padded_.values().end(), T{0});
  each_row([from = x.values().data(), to = padded_.values().data()](std::size_t in_image, std::size_t in_padded,
                                                                    std::size_t width) {
    std::copy_n(from + in_image, width, to + in_padded);
  });
  unfolded_.resize({e[0] * places, fan_in(shape_)});
  each_window([](const T* from, T* to, auto kernel) {
    for (std::size_t j = 0; j < kernel; ++j) to[j] = from[j];
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
  const std::size_t batch = image_[0], places = height_ * width_;
  swap_axes<T>(batch, shape_.outputs, places, dy.values(), rows_.values());
  add_gradient(pass, site.kind, weight_, [&](std::span<T> dw) {
    dense_to_weight<T>(pass, site, rows_.values(), unfolded_.values(), weight_.value, dw);
  });
  if (has_bias_) add_bias_gradient(pass, site.kind, bias_, rows_);
  if (!input_gradient_) return dx_;
  // The images that forward unfolded are no longer needed, so their memory takes the gradient.
  dense_to_input<T>(pass, site, rows_.values(), weight_.value, unfolded_.values());
  std::fill(padded_.values().begin(), padded_.values().end(), T{0});
  each_window([](T* to, const T* from, auto kernel) {
    for (std::size_t j = 0; j < kernel; ++j) to[j] += from[j];
  });
  dx_.resize(image_);
  each_row([from = padded_.values().data(), to = dx_.values().data()](std::size_t in_image, std::size_t in_padded,
                                                                      std::size_t width) {
    std::copy_n(from + in_padded, width, to + in_image);
  });
  pass.numerics.cast(site, Role::gradient_of_activation, dx_.values());
  return dx_;
}

template <class T>
void Conv2d<T>::collect(std::vector<TrainedParameter<T>*>& all) {
  all.push_back(&weight_);
  if (has_bias_) all.push_back(&bias_);
}

template class Conv2d<float>;
template class Conv2d<double>;

namespace {

/// One row of maxima and their places. The first square begins at `corner` of a plane whose rows are `step` apart. The
/// compiler vectorises loops over columns where `stride` is a constant.
template <class T, class Stride>
void maxima(const T* from, std::size_t corner, std::size_t step, std::size_t size, Stride stride, T* y,
            std::uint32_t* places, std::size_t count) {
  constexpr std::size_t room = 64;
  T best[room];
  std::uint32_t at[room];
  for (std::size_t begin = 0; begin < count; begin += room) {
    const std::size_t columns = std::min(room, count - begin), start = corner + begin * stride;
    for (std::size_t column = 0; column < columns; ++column) {
      best[column] = from[start + column * stride];
      at[column] = static_cast<std::uint32_t>(start) + static_cast<std::uint32_t>(column * stride);
    }
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t j = 0; j < size; ++j) {
        const T* const in = from + start + i * step + j;
        const auto first = static_cast<std::uint32_t>(start + i * step + j);
        for (std::size_t column = 0; column < columns; ++column) {
          const T v = in[column * stride];
          const bool better = (v > best[column]) | (v != v);
          best[column] = better ? v : best[column];
          at[column] = better ? first + static_cast<std::uint32_t>(column * stride) : at[column];
        }
      }
    std::copy_n(best, columns, y + begin);
    std::copy_n(at, columns, places + begin);
  }
}

}  // namespace

template <class T>
const Tensor<T>& Pool2d<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  const Extents& e = x.extents();
  if (e.rank() != 4 || e[2] < size_ || e[3] < size_)
    this->refuse(e, "batch x channels x height x width, both at least " + std::to_string(size_));
  image_ = e;
  y_.resize({e[0], e[1], (e[2] - size_) / stride_ + 1, (e[3] - size_) / stride_ + 1});
  if (pooling_ == Pooling::maximum) places_.resize(y_.size());
  const std::size_t height = y_.extent(2), width = y_.extent(3);
  const T share = 1 / static_cast<T>(size_ * size_);
  // Takes a row of the result at a time, with the loop over the squares' places outside, so that vectors read
  // neighbours.
  for_rows(e[0] * e[1] * height, 2 * size_ * size_ * width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const std::size_t corner = r % height * stride_ * e[3];
      const T* const from = x.values().data() + r / height * e[2] * e[3];
      if (pooling_ == Pooling::maximum) {
        T* const y = y_.values().data() + r * width;
        std::uint32_t* const places = places_.data() + r * width;
        if (stride_ == 2) maxima(from, corner, e[3], size_, std::integral_constant<std::size_t, 2>(), y, places, width);
        else maxima(from, corner, e[3], size_, stride_, y, places, width);
        continue;
      }
      T* const y = y_.values().data() + r * width;
      std::fill(y, y + width, T{0});
      for (std::size_t i = 0; i < size_; ++i)
        for (std::size_t j = 0; j < size_; ++j)
          for (std::size_t column = 0; column < width; ++column)
            y[column] += from[corner + i * e[3] + j + column * stride_];
      for (std::size_t column = 0; column < width; ++column) y[column] *= share;
    }
  });
  pass.numerics.cast(site(), Role::activation, y_.values());
  return y_;
}

template <class T>
const Tensor<T>& Pool2d<T>::backward(Pass<T>& pass, const Tensor<T>& dy) {
  const Extents& e = image_;
  dx_.resize(e);
  const std::size_t width = y_.extent(3), plane = y_.extent(2) * width;
  const T share = 1 / static_cast<T>(size_ * size_);
  for_rows(e[0] * e[1], 2 * e[2] * e[3], [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      T* const to = dx_.values().data() + p * e[2] * e[3];
      std::fill(to, to + e[2] * e[3], T{0});
      for (std::size_t r = 0; r < plane; ++r) {
        const T d = dy[p * plane + r];
        if (pooling_ == Pooling::maximum) {
          to[places_[p * plane + r]] += d;
          continue;
        }
        const std::size_t corner = r / width * stride_ * e[3] + r % width * stride_;
        for (std::size_t i = 0; i < size_; ++i)
          for (std::size_t j = 0; j < size_; ++j) to[corner + i * e[3] + j] += d * share;
      }
    }
  });
  pass.numerics.cast(site(), Role::gradient_of_activation, dx_.values());
  return dx_;
}

template class Pool2d<float>;
template class Pool2d<double>;

}  // namespace halfulp::training
