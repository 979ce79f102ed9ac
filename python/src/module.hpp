// Shared by the parts of halfulp._core: NumPy's arrays, and one function per part that fills the module.
//
// The module takes contiguous arrays of the right types; python/halfulp makes them from users' arguments. Every
// function releases the GIL while it computes. Errors: std::invalid_argument becomes ValueError with the same text.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/product/product.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/formats/format.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>

namespace halfulp::python {

namespace nb = nanobind;

/// The signature of __eq__ for type checkers: it takes any object.
inline const nb::sig equality{"def __eq__(self, other: object, /) -> bool"};

/// Notices Ctrl-C between pieces of work that do not hold the GIL.
inline void stop_if_asked() {
  const nb::gil_scoped_acquire acquired;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// An argument that must be text. TypeError names it otherwise; ValueError refuses lone surrogates, which UTF-8 cannot
/// write.
inline std::string text_of(nb::handle x, const char* argument) {
  if (!PyUnicode_Check(x.ptr()))
    throw nb::type_error(
        (std::string(argument) + ": " + nb::cast<std::string>(nb::repr(x.type().attr("__name__"))) + "; accepted: text")
            .c_str());
  Py_ssize_t size = 0;
  const char* const utf8 = PyUnicode_AsUTF8AndSize(x.ptr(), &size);
  if (!utf8) {
    PyErr_Clear();
    throw std::invalid_argument(std::string(argument) + ": text with a lone surrogate; accepted: what UTF-8 can write");
  }
  return {utf8, static_cast<std::size_t>(size)};
}

/// Where the bits of stochastic roundings come from, _arrays.Draws: seed, stream, first, roundings per word.
using Draws = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, int>;
inline RandomStream stream_of(const Draws& draws) {
  const auto& [seed, stream, first, roundings_per_word] = draws;
  return {seed, stream, first, roundings_per_word};
}

/// Arrays that are read, and arrays that are written.
using In = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> read(const In& x) {
  if (x.dtype() != nb::dtype<T>()) throw nb::type_error("an array of another type was expected");
  return {static_cast<const T*>(x.data()), x.size()};
}
template <class T>
std::span<T> write(const Out& x) {
  if (x.dtype() != nb::dtype<T>()) throw nb::type_error("an array of another type was expected");
  return {static_cast<T*>(x.data()), x.size()};
}

/// Calls f(T{}) for the type T of the elements, which is one of Ts.
template <class... Ts, class F>
void with_type(const nb::dlpack::dtype& type, F&& f) {
  const bool found = ((type == nb::dtype<Ts>() ? (f(Ts{}), true) : false) || ...);
  if (!found) throw nb::type_error("an array of another type was expected");
}
template <class F>
void with_words(const nb::dlpack::dtype& type, F&& f) {
  with_type<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(type, std::forward<F>(f));
}

/// An array of code words of any width, or nothing without one.
inline CodeWords words(const std::optional<In>& x) {
  CodeWords result;
  if (x) with_words(x->dtype(), [&](auto word) { result = CodeWords(read<decltype(word)>(*x)); });
  return result;
}

/// Code words must fit their format. The error names the first that does not.
template <class T>
void check_codes(const char* name, std::span<const T> codes, std::uint64_t mask, const std::string& format) {
  constexpr std::uint64_t ones = T(~T{}), each = ~std::uint64_t{0} / ones;  // 1 in every code word of eight bytes
  const std::uint64_t wide = ones & ~mask;
  if (wide == 0) return;
  constexpr std::size_t together = sizeof(std::uint64_t) / sizeof(T);
  std::uint64_t bits = 0;
  std::size_t i = 0;
  for (; i + together <= codes.size(); i += together) {
    std::uint64_t eight_bytes;
    std::memcpy(&eight_bytes, &codes[i], sizeof eight_bytes);
    bits |= eight_bytes;
  }
  for (; i < codes.size(); ++i) bits |= codes[i];
  if ((bits & wide * each) == 0) return;
  const auto code = std::ranges::find_if(codes, [&](T c) { return (c & wide) != 0; });
  throw std::invalid_argument(std::string(name) + ": the code word " + std::to_string(*code) + " is wider than " +
                              format);
}

/// Product models are shared, because descriptions of units are large.
using Model = std::shared_ptr<const ProductModel>;
/// A model of its text: a name, items between commas, or a unit's description, which begins with a brace.
Model model_of_text(const std::string& text);

void add_formats(nb::module_& m);
void add_rounding(nb::module_& m);
void add_arrays(nb::module_& m);
void add_operations(nb::module_& m);
void add_products(nb::module_& m);
void add_tensors(nb::module_& m);
void add_device(nb::module_& m);
void add_precision(nb::module_& m);
void add_layers(nb::module_& m);
void add_updates(nb::module_& m);
void add_blocks(nb::module_& m);
void add_profiles(nb::module_& m);
void add_checkpoints(nb::module_& m);
void add_command(nb::module_& m);

}  // namespace halfulp::python
