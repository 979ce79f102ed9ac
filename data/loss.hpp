// What is lost when values are rounded to a format: counts and sums of errors, of one value at a time or of many.
#pragma once

#include <halfulp/data/statistics.hpp>
#include <halfulp/formats/block_format.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace halfulp {

/// The least and the largest value that can be told apart from what is beyond.
struct ValueRange {
  double low = 0, high = 0;
};
/// Of an element before its scale.
ValueRange range_of(const BlockElement& element);

/// Errors are those of elements that are finite before and after.
struct Loss {
  std::uint64_t elements = 0;
  std::uint64_t saturated = 0;  ///< beyond the largest value of the format, in its block
  std::uint64_t to_zero = 0;    ///< not zero before
  std::uint64_t nan_before = 0, nan_after = 0, infinite_before = 0, infinite_after = 0;
  std::uint64_t became_infinite = 0, became_nan = 0;  ///< finite before
  std::uint64_t compared = 0;                         ///< finite before and after
  double largest_error = 0;                           ///< max |q - x|
  SumOfSquares errors, squares;                       ///< of q - x and of x

  /// sqrt(sum (q - x)^2 / sum x^2); 0 for nothing, infinite for zeros that became something.
  double relative_error() const;
  /// Whether infinities and NaN stay what they are, and nothing else becomes one.
  bool keeps_specials() const {
    return became_infinite == 0 && became_nan == 0 && nan_before == nan_after && infinite_before == infinite_after;
  }
  /// Whether every element stays what it is.
  bool is_lossless() const { return errors.is_zero() && keeps_specials(); }
  /// One element that became another, so many times. `range`: what its block can hold.
  void count(double before, double after, ValueRange range, std::uint64_t times = 1);
  /// What was lost of another tensor, added: both as if they were one.
  void add(const Loss& other);
};

// Many floats at once. Sums are those of eight partial sums, of the elements i, i + 8, ... of each run: the same with
// every instruction set.

/// What a run of elements, such as a block, has in common.
struct ElementRun {
  float scale = 1;          ///< a value is its element times this, rounded to fp32
  float low = 0, high = 0;  ///< an element beyond is saturated
};
/// A run whose elements lie within `range` before they are multiplied by `scale`, which is not NaN.
ElementRun element_run(ValueRange range, float scale);

/// Sums over runs.
struct RunSums {
  std::array<double, 8> errors{};   ///< sums of squares
  std::array<double, 8> largest{};  ///< max |q - x|
  std::uint64_t saturated = 0, to_zero = 0;
};

/// Adds consecutive runs of `run` elements, the last of which may be short: before[i] became elements[i] times its
/// run's scale. What is not finite makes the sums of errors so; its counts are not defined then. At most 2^24 elements.
void add_runs(RunSums& sums, const float* before, const float* elements, std::size_t run, std::size_t count,
              const ElementRun* runs);
/// The sum of the squares, in fp64.
double sum_of_squares(std::span<const float> values);

}  // namespace halfulp
