// Arrays in block formats: writes code words, scales and zero points into NumPy's memory, and reads values from them.
#include "module.hpp"

#include <halfulp/emulation/block/block.hpp>

#include <algorithm>

namespace halfulp::python {
namespace {

/// rows x columns; a 0 in either means an empty array.
struct Matrix {
  std::size_t rows, columns;
};
Matrix matrix_of(const In& x) {
  if (x.ndim() != 2) throw std::invalid_argument("x: a matrix is expected");
  return {x.shape(0), x.shape(1)};
}

float quantize_matrix(const BlockFormat& f, const Rounding& rounding, const In& x, const Draws& draws,
                      std::optional<float> amax, const Out& codes, const Out& scales, const std::optional<Out>& zeros) {
  const auto [rows, columns] = matrix_of(x);
  const auto in = read<float>(x);
  const auto out_codes = write<std::uint8_t>(codes);
  const auto out_scales = write<std::uint32_t>(scales);
  const auto out_zeros = zeros ? write<std::int16_t>(*zeros) : std::span<std::int16_t>();
  const nb::gil_scoped_release released;
  const std::size_t count = block_grid(f, rows, columns).count();
  if (out_codes.size() != in.size() || out_scales.size() != count ||
      (f.element.is_affine() && out_zeros.size() != count))
    throw std::invalid_argument("codes, scales or zeros: of another size than the array's blocks need");
  const BlockArray a = quantize_blocks(f, rounding, in, rows, columns, {stream_of(draws), amax});
  std::ranges::copy(a.codes, out_codes.begin());
  std::ranges::copy(a.scales, out_scales.begin());
  std::ranges::copy(a.zeros, out_zeros.begin());
  return a.tensor_scale;
}

void quantize_values(const BlockFormat& f, const Rounding& rounding, const In& x, const Draws& draws,
                     std::optional<float> amax, const Out& out) {
  const auto [rows, columns] = matrix_of(x);
  const auto in = read<float>(x);
  const auto values = write<float>(out);
  const nb::gil_scoped_release released;
  quantize_block_values(f, rounding, in, rows, columns, values, {stream_of(draws), amax});
}

void dequantize_matrix(const BlockFormat& f, const In& codes, const In& scales, const std::optional<In>& zeros,
                       float tensor_scale, const Out& out) {
  const auto [rows, columns] = matrix_of(codes);
  const auto in_codes = read<std::uint8_t>(codes);
  const auto in_scales = read<std::uint32_t>(scales);
  const auto in_zeros = zeros ? read<std::int16_t>(*zeros) : std::span<const std::int16_t>();
  const auto values = write<float>(out);
  const std::size_t count = block_grid(f, rows, columns).count();
  if (in_scales.size() != count || (f.element.is_affine() && in_zeros.size() != count))
    throw std::invalid_argument("scales or zeros: not as many as the array has blocks");
  check_codes<std::uint8_t>("codes", in_codes, (std::uint64_t{1} << f.element.bits()) - 1, element_name(f.element));
  check_codes<std::uint32_t>("scales", in_scales, f.scale.code_mask(), format_name(f.scale));
  const nb::gil_scoped_release released;
  BlockArray a{f,
               rows,
               columns,
               {in_codes.begin(), in_codes.end()},
               {in_scales.begin(), in_scales.end()},
               {in_zeros.begin(), in_zeros.end()},
               tensor_scale};
  dequantize_blocks(a, values);
}

}  // namespace

void add_blocks(nb::module_& m) {
  m.def(
      "block_counts",
      [](const BlockFormat& f, std::size_t rows, std::size_t columns) {
        const BlockGrid g = block_grid(f, rows, columns);
        return nb::make_tuple(g.down, g.across);
      },
      nb::arg("format"), nb::arg("rows"), nb::arg("columns"),
      nb::sig("def block_counts(format: BlockFormat, rows: int, columns: int) -> tuple[int, int]"),
      "How many blocks a matrix has, down and across.");
  m.def(
      "largest_magnitude",
      [](const In& x) {
        const auto in = read<float>(x);
        const nb::gil_scoped_release released;
        return largest_magnitude(in);
      },
      nb::arg("x"), "The largest magnitude of an array of float32: NaN if it holds one, 0 if it is empty.");
  m.def("quantize_matrix", &quantize_matrix, nb::arg("format"), nb::arg("rounding"), nb::arg("x"), nb::arg("draws"),
        nb::arg("amax").none(), nb::arg("codes"), nb::arg("scales"), nb::arg("zeros").none(),
        "A matrix of float32 in a block format: fills codes, scales and zeros, returns the tensor's scale.");
  m.def("quantize_matrix_values", &quantize_values, nb::arg("format"), nb::arg("rounding"), nb::arg("x"),
        nb::arg("draws"), nb::arg("amax").none(), nb::arg("out"), "The values alone.");
  m.def("dequantize_matrix", &dequantize_matrix, nb::arg("format"), nb::arg("codes"), nb::arg("scales"),
        nb::arg("zeros").none(), nb::arg("tensor_scale"), nb::arg("out"), "Values of a matrix in a block format.");
}

}  // namespace halfulp::python
