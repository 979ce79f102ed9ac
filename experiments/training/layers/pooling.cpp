#include <halfulp/experiments/training/layers/pooling.hpp>

namespace halfulp::training {

template <class T>
const Tensor<T>& Pool2d<T>::forward(Pass<T>& pass, const Tensor<T>& x) {
  const Extents& e = x.extents();
  if (e.rank() != 4 || e[2] < size_ || e[3] < size_)
    this->refuse(e, "batch x channels x height x width, both at least " + std::to_string(size_));
  image_ = e;
  y_.resize({e[0], e[1], (e[2] - size_) / stride_ + 1, (e[3] - size_) / stride_ + 1});
  if (pooling_ == Pooling::maximum) places_.resize(y_.size());
  const std::size_t width = y_.extent(3), plane = y_.extent(2) * width;
  const T share = 1 / static_cast<T>(size_ * size_);
  for_rows(e[0] * e[1], 2 * e[2] * e[3], [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      const T* const from = x.values().data() + p * e[2] * e[3];
      for (std::size_t r = 0; r < plane; ++r) {
        const std::size_t corner = r / width * stride_ * e[3] + r % width * stride_;
        std::size_t best = corner;
        T sum = 0;
        for (std::size_t i = 0; i < size_; ++i)
          for (std::size_t j = 0; j < size_; ++j) {
            const std::size_t at = corner + i * e[3] + j;
            sum += from[at];
            if (from[at] > from[best] || from[at] != from[at]) best = at;
          }
        if (pooling_ == Pooling::maximum) places_[p * plane + r] = static_cast<std::uint32_t>(best);
        y_[p * plane + r] = pooling_ == Pooling::maximum ? from[best] : sum * share;
      }
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
