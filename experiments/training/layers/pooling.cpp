#include <halfulp/experiments/training/layers/pooling.hpp>

#include <algorithm>
#include <type_traits>

namespace halfulp::training {

namespace {

/// One row of maxima and their places: the first square begins at `corner` of a plane whose rows are `step` apart. Loops over
/// columns become vectors where `stride` is a constant.
template <class T, class Stride>
void maxima(const T* from, std::size_t corner, std::size_t step, std::size_t size, Stride stride, T* y, std::uint32_t* places,
    std::size_t count) {
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
  // A row of the result at a time, with the squares' places outside: vectors take what is next to each other.
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
          for (std::size_t column = 0; column < width; ++column) y[column] += from[corner + i * e[3] + j + column * stride_];
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
