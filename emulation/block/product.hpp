// Products of operands whose elements share scales in blocks, every rounding stated.
//
// The blocks of both operands cut k into segments in which no scale changes. A product model, or an exact sum, adds the
// products of a segment's elements; the scales multiply that sum; and the sums of segments are added, one after the
// other. "Promoted every 128" (DeepSeek-V3, section 3.3.2) is blocks of 128, a unit or a narrow accumulator inside,
// fp32 outside.
#pragma once

#include <halfulp/emulation/block/block.hpp>
#include <halfulp/emulation/product/model.hpp>
#include <halfulp/emulation/matrix.hpp>

#include <functional>

namespace halfulp {

/// How scales meet the sum p of a segment.
enum class ScaleOrder : std::uint8_t {
  after,    ///< (p sa) sb, two roundings: DeepSeek-V3's fp8_gemm_kernel
  product,  ///< p (sa sb), two roundings
};

/// A dot product along k of arrays in block formats.
///
/// The sum of a segment is converted into the outer format, multiplied by the scales and added to those before, each
/// operation rounded there; the first is no addition. Scales are converted into the outer format first. Tensor scales
/// come last: (sum ta) tb.
struct BlockDot {
  Stage outer{FloatFormat{8, 23, 127, NonFinite::ieee}, {}};  ///< the sum of the blocks' sums: its format and rounding
  ScaleOrder order = ScaleOrder::after;                       ///< when the scales come in
  /// What sums a segment's elements. A DotModel takes float elements, and its `input` is replaced by their format, the
  /// same for both operands; a unit takes these formats and no scales of its own; C is 0. Absent: the sum is exact and
  /// rounded once.
  std::optional<ProductModel> inside = {};
  std::uint64_t seed = 0;  ///< of stochastic roundings outside
};

/// Why two formats cannot be multiplied so, in one line; empty if they can. Integers and affine elements are summed
/// exactly.
std::string refusal(const BlockDot& dot, const BlockFormat& a, const BlockFormat& b);

/// Row `row_a` of a times row `row_b` of b, both along their columns, as a code word of the outer format; +0 for no
/// columns. `stream` tells apart random bits. Throws std::invalid_argument for what refusal() names, other lengths,
/// rows that are not there.
std::uint64_t block_dot(const BlockDot& dot, const BlockArray& a, std::size_t row_a, const BlockArray& b,
                        std::size_t row_b, std::uint64_t stream = 0);

/// c = a b^T: c[i * b.rows + j] is block_dot of row i of a and row j of b, with the stream i * b.rows + j.
void block_gemm(const BlockDot& dot, const BlockArray& a, const BlockArray& b, std::span<std::uint64_t> c);

// The same for operands whose scales are floats already.

/// The scales of one operand, whose rows lie along k: a row of A, a column of B.
struct OperandScales {
  BlockGrid grid = {};                    ///< where the blocks are
  std::span<const float> of_blocks = {};  ///< row by row of blocks; empty: there are none
  float of_tensor = 1;                    ///< of the whole operand
};

/// D = A B in fp32: segments as `model` sums their elements, (p sa) sb and additions in fp32, at last (sum ta) tb. The
/// model's results are values of fp32. D is m x n without gaps, zeros for k = 0; a NaN is float's canonical one. There
/// is no C. Output o of the segment that begins at k draws random bits from the stream first_stream + k m n + o. Throws
/// what gemm (emulation/product/product.hpp) throws.
void block_gemm(const ProductModel& model, const FloatOperands& elements, const OperandScales& a,
                const OperandScales& b, std::span<float> d, std::uint64_t first_stream = 0);

// How segments are cut and put together, whatever sums them.

/// Products [begin, end) along k, among which no scale changes.
struct Segment {
  std::size_t begin;  ///< the first product
  std::size_t end;    ///< the one behind the last
  bool last;          ///< whether the next segment, if any, has other scales
};

/// k cut after every block_a and every block_b products (0: never), where the scales of A and B change; and between
/// these after every `promote_every` products (0: never), where only a sum is handed on.
std::vector<Segment> segments_of(std::size_t k, std::size_t block_a, std::size_t block_b,
                                 std::size_t promote_every = 0);

/// f(row) for all rows, on all threads where they take long (`cost`: steps of a row), in the default floating-point
/// environment.
void each_row(std::size_t rows, std::size_t cost, const std::function<void(std::size_t)>& f);

/// total, m x n, becomes the sum over segments: sums(segment, to) gives their sums, m x n; those that share their
/// scales are added; then scale(segment, i, row) multiplies row i of them by the scales. add(i, to, x) adds row i: to =
/// to + x.
template <class T, class Sums, class Scale, class Add>
void add_segments(std::span<const Segment> segments, std::size_t m, std::size_t n, std::span<T> total, Sums sums,
                  Scale scale, Add add) {
  std::vector<T> sum(m * n), part;
  std::fill(total.begin(), total.end(), T{});
  bool begun = false, first = true;
  for (const Segment& s : segments) {
    if (begun) part.resize(m * n);
    sums(s, std::span<T>(begun ? part : sum));
    each_row(m, n, [&](std::size_t i) {
      T *const row = sum.data() + i * n, *const to = total.data() + i * n;
      if (begun) add(i, row, part.data() + i * n);
      if (!s.last) return;
      scale(s, i, row);
      if (first) std::copy_n(row, n, to);
      else add(i, to, row);
    });
    begun = !s.last, first = first && begun;
  }
}

/// The same with additions in fp32.
template <class Sums, class Scale>
void add_segments(std::span<const Segment> segments, std::size_t m, std::size_t n, std::span<float> total, Sums sums,
                  Scale scale) {
  add_segments<float>(segments, m, n, total, sums, scale, [n](std::size_t, float* to, const float* x) {
    for (std::size_t j = 0; j < n; ++j) to[j] += x[j];
  });
}

}  // namespace halfulp
