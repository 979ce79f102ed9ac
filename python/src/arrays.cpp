// Rounding, encoding and decoding of whole arrays: emulation/array/array.hpp on NumPy's memory.
#include "module.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <bit>
#include <vector>

namespace halfulp::python {
namespace {

/// Calls f(first, last) on pieces of an array, on all cores.
template <class F>
void in_pieces(std::size_t size, F&& f) {
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, size, 4096),
                    [&](const auto& piece) { f(piece.begin(), piece.end()); });
}

void same_size(std::size_t in, std::size_t out) {
  if (in != out)
    throw std::invalid_argument("out has " + std::to_string(out) + " elements, and x " + std::to_string(in));
}

nb::dict dictionary(const Tally& t) {
  nb::dict d;
  d["elements"] = t.elements, d["nan"] = t.nan, d["overflow"] = t.overflow, d["underflow"] = t.underflow,
  d["inexact"] = t.inexact;
  d["to_zero"] = t.to_zero, d["subnormal"] = t.subnormal, d["flags"] = t.flags;
  return d;
}

nb::object quantize_array(const FloatFormat& f, const Rounding& rounding, const In& x, const Out& out,
                          const Draws& draws, bool tallied) {
  Tally tally;
  with_type<float, double>(x.dtype(), [&]<class T>(T) {
    const auto in = read<T>(x);
    const auto result = write<T>(out);
    const nb::gil_scoped_release released;
    quantize(f, rounding, in, result, stream_of(draws), tallied ? &tally : nullptr);
  });
  return tallied ? nb::object(dictionary(tally)) : nb::none();
}

/// Integers and doubles whose results have more than 32 bits are code words already; such floats become doubles first.
void encode_array(const FloatFormat& f, const Rounding& rounding, const In& x, const Out& out, const Draws& draws) {
  same_size(x.size(), out.size());
  const RandomStream random = stream_of(draws);
  const auto from_words = [&](const NumberType& from, const void* words) {
    with_words(out.dtype(), [&]<class Code>(Code) {
      const auto codes = write<Code>(out);
      if (static_cast<int>(sizeof(Code)) < f.storage_bytes())
        throw nb::type_error("out: its code words are too narrow");
      const nb::gil_scoped_release released;
      const std::span<const std::uint64_t> in(static_cast<const std::uint64_t*>(words), x.size());
      compute({Operation::convert, from, f, rounding}, in, {}, {}, codes, random);
    });
  };
  with_type<float, double, std::int64_t, std::uint64_t>(x.dtype(), [&]<class T>(T) {
    const auto in = read<T>(x);
    if constexpr (std::is_integral_v<T>) return from_words(std::is_signed_v<T> ? i64 : u64, x.data());
    else if (out.dtype() != nb::dtype<std::uint64_t>())
      return with_type<std::uint8_t, std::uint16_t, std::uint32_t>(out.dtype(), [&]<class Code>(Code) {
        const auto codes = write<Code>(out);
        const nb::gil_scoped_release released;
        encode(f, rounding, in, codes, random);
      });
    else if constexpr (std::is_same_v<T, double>) return from_words(fp64, x.data());
    else {
      std::vector<std::uint64_t> doubles(in.size());
      std::ranges::transform(in, doubles.begin(), [](T v) { return std::bit_cast<std::uint64_t>(double{v}); });
      from_words(fp64, doubles.data());
    }
  });
}

void decode_array(const FloatFormat& f, const In& x, const Out& out) {
  same_size(x.size(), out.size());
  with_words(x.dtype(), [&]<class Code>(Code) {
    const auto codes = read<Code>(x);
    check_codes("codes", codes, f.code_mask(), format_name(f));
    const auto value_by_value = [&]<class T>(T) {
      const auto values = write<T>(out);
      const nb::gil_scoped_release released;
      in_pieces(codes.size(), [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) values[i] = static_cast<T>(f.value(codes[i]));
      });
    };
    if constexpr (sizeof(Code) < 8) {
      if (out.dtype() == nb::dtype<float>()) {
        const auto values = write<float>(out);
        const nb::gil_scoped_release released;
        decode(f, codes, values);
        return;
      }
    }
    with_type<float, double>(out.dtype(), value_by_value);
  });
}

}  // namespace

void add_arrays(nb::module_& m) {
  m.def("quantize", &quantize_array, nb::arg("format"), nb::arg("rounding"), nb::arg("x"), nb::arg("out"),
        nb::arg("draws"), nb::arg("tally"),
        "out[i] = x[i] rounded to a format, float32 to float32 or float64 to float64; with a tally, a dictionary of "
        "what happened.");
  m.def("encode", &encode_array, nb::arg("format"), nb::arg("rounding"), nb::arg("x"), nb::arg("out"), nb::arg("draws"),
        "out[i] = the code word of x[i] (float32, float64, int64, uint64) rounded to a format.");
  m.def("decode", &decode_array, nb::arg("format"), nb::arg("x"), nb::arg("out"),
        "out[i] = the value of the code word x[i], as float32 or float64.");
}

}  // namespace halfulp::python
