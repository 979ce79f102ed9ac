#include <halfulp/experiments/training/layers/positions.hpp>

#include <halfulp/experiments/data/cosine.hpp>
#include <halfulp/experiments/data/elementary.hpp>
#include <halfulp/experiments/training/rows.hpp>

#include <bit>

namespace halfulp::training {

template <class T>
void Rotation<T>::prepare(std::size_t length, std::size_t width, double base) {
  const std::size_t half = width / 2;
  if (cosines_.extents() == Extents{length, half}) return;
  cosines_.resize({length, half});
  sines_.resize({length, half});
  for (std::size_t p = 0; p < length; ++p)
    for (std::size_t i = 0; i < half; ++i) {
      const double turn = deterministic_exp2(deterministic_log2(base) * -2 * static_cast<double>(i) / static_cast<double>(width));
      const double angle = static_cast<double>(p) * turn;
      cosines_.row(p)[i] = static_cast<T>(cosine({angle, 0}));
      sines_.row(p)[i] = static_cast<T>(sine(angle));
    }
}

template <class T>
void Rotation<T>::turn(std::span<T> x, bool back) const {
  const std::size_t length = cosines_.extent(0), half = cosines_.extent(1);
  for_rows(x.size() / (2 * half), 4 * half, [&](std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const std::span<const T> c = cosines_.row(r % length), s = sines_.row(r % length);
      T *const first = x.data() + r * 2 * half, *const second = first + half;
      for (std::size_t i = 0; i < half; ++i) {
        const T a = first[i], b = second[i], sign = back ? -s[i] : s[i];
        first[i] = a * c[i] - b * sign;
        second[i] = b * c[i] + a * sign;
      }
    }
  });
}

double alibi_slope(std::size_t head, std::size_t heads) {
  const std::size_t below = std::bit_floor(heads);
  const double step = head < below ? static_cast<double>(head + 1) / static_cast<double>(below)
                                   : static_cast<double>(2 * (head - below) + 1) / static_cast<double>(2 * below);
  return deterministic_exp2(-8 * step);
}

template class Rotation<float>;
template class Rotation<double>;

}  // namespace halfulp::training
