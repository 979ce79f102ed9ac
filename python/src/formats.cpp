// Formats as Python objects, with the fields of numpy.finfo and more.
#include "module.hpp"

#include <halfulp/data/quantized_tensor.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <nanobind/stl/vector.h>

#include <cctype>
#include <new>
#include <vector>

namespace halfulp::python {
namespace {

std::string_view name_of(NonFinite nonfinite) {
  switch (nonfinite) {
    case NonFinite::ieee: return "ieee";
    case NonFinite::nan_all_ones: return "fn";
    case NonFinite::nan_negative_zero: return "fnuz";
    case NonFinite::p3109: return "p3109";
    case NonFinite::none: break;
  }
  return "finite";
}

std::vector<std::string> aliases(const FloatFormat& f) {
  std::vector<std::string> names;
  if (const NamedFormat* row = find_named(f))
    for (const std::string_view alias : row->aliases)
      if (!alias.empty()) names.emplace_back(alias);
  return names;
}

/// Of a format's aliases the one that LLVM uses (CamelCase, IEEEhalf), or that NumPy and ml_dtypes use (float8_e4m3fn).
std::optional<std::string> llvm_name(const FloatFormat& f) {
  for (const std::string& name : aliases(f))
    if (std::isupper(static_cast<unsigned char>(name.front()))) return name;
  return {};
}
std::optional<std::string> dtype_name(const FloatFormat& f) {
  for (const std::string& name : aliases(f))
    if (name.starts_with("float") || name == "bfloat16") return name;
  return {};
}

/// A code word of the format: TypeError for anything but an integer, ValueError for one that is too large.
std::uint64_t checked(const FloatFormat& f, nb::handle x) {
  if (!PyIndex_Check(x.ptr())) throw nb::type_error("code: accepted: an integer");
  const nb::object index = nb::steal(PyNumber_Index(x.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  const std::uint64_t code = PyLong_AsUnsignedLongLong(index.ptr());
  if (PyErr_Occurred()) {
    PyErr_Clear();
    throw std::invalid_argument("code: " + nb::cast<std::string>(nb::repr(index)) + " is no code word of " +
                                format_name(f) + "; accepted: 0 to " + std::to_string(f.code_mask()));
  }
  if (code & ~f.code_mask())
    throw std::invalid_argument("code: " + std::to_string(code) + " is no code word of " + format_name(f) +
                                "; accepted: 0 to " + std::to_string(f.code_mask()));
  return code;
}

template <class T>
std::size_t hash_of(const T& f) {
  return std::hash<std::string>{}(format_name(f));
}

void add_format(nb::module_& m) {
  using F = FloatFormat;
  nb::class_<F>(m, "Format", R"(A floating-point format of at most 64 bits.

Format("e4m3"), Format("bfloat16"), Format("Float8E5M2"), Format("e5m3"), Format("e4m3b11fnuz"): a name of the catalogue, an alias of
LLVM or ml_dtypes (case does not matter), or eXmY[bBIAS][ieee|fn|fnuz|p3109|finite]. Raises ValueError naming the nearest names.
Equal formats are equal and hash alike, however they were named. `halfulp.formats()` lists the catalogue, with sources.)")
      .def(
          "__init__", [](F* self, const nb::object& name) { new (self) F(parse_format(text_of(name, "name"))); },
          nb::arg("name").none(), nb::sig("def __init__(self, name: str) -> None"))
      .def_prop_ro(
          "name", [](const F& f) { return format_name(f); }, "The shortest name that gives this format.")
      .def_prop_ro(
          "title",
          [](const F& f) {
            const auto* row = find_named(f);
            return std::string(row ? row->title : "");
          },
          "What it is, in a few words; empty outside the catalogue.")
      .def_prop_ro(
          "citation",
          [](const F& f) {
            const auto* row = find_named(f);
            return std::string(row ? row->citation : "");
          },
          "The document that defines it; empty outside the catalogue.")
      .def_prop_ro("aliases", aliases, "Names that other projects use.")
      .def_prop_ro("llvm_name", llvm_name, "LLVM's name (APFloat, MLIR), or None.")
      .def_prop_ro("dtype_name", dtype_name, "The name in NumPy and ml_dtypes, or None.")
      .def_prop_ro("bits", &F::storage_bits, "Bits of a code word.")
      .def_prop_ro("storage_bytes", &F::storage_bytes, "Bytes of a code word in arrays: 1, 2, 4 or 8.")
      .def_ro("exponent_bits", &F::exponent_bits, "Bits of the exponent field.")
      .def_ro("fraction_bits", &F::fraction_bits, "Stored bits of the significand; finfo's nmant.")
      .def_prop_ro("precision", &F::precision,
                   "Bits of a normal value's significand, the hidden bit included: p in the literature.")
      .def_ro("bias", &F::bias, "Of the exponent field.")
      .def_prop_ro("emin", &F::emin, "Exponent of the smallest normal value 2^emin; finfo's minexp.")
      .def_prop_ro("emax", &F::emax, "Exponent of the largest finite value, floor(log2(max)).")
      .def_prop_ro(
          "nonfinite", [](const F& f) { return std::string(name_of(f.nonfinite)); },
          "What the codes at the top mean: ieee, fn, fnuz, p3109, finite.")
      .def_prop_ro(
          "max", [](const F& f) { return f.value(f.max_finite()); }, "Largest finite value.")
      .def_prop_ro(
          "min", [](const F& f) { return f.is_signed ? -f.value(f.max_finite()) : f.value(f.min_positive()); },
          "Least finite value: -max, or the least positive one of unsigned formats.")
      .def_prop_ro("eps", &F::epsilon, "Distance from 1 to the next larger value.")
      .def_prop_ro(
          "smallest_normal", [](const F& f) { return f.value(f.min_normal()); }, "Smallest positive normal value.")
      .def_prop_ro(
          "smallest_subnormal", [](const F& f) { return f.value(f.min_positive()); }, "Smallest positive value.")
      .def_prop_ro("largest_integer", &F::largest_consecutive_integer,
                   "The largest N such that all integers up to N are values.")
      .def_prop_ro("digits10", &F::digits10, "Decimal digits that survive text, format, text.")
      .def_prop_ro("max_digits10", &F::max_digits10, "Decimal digits that identify every value.")
      .def_ro("is_signed", &F::is_signed)
      .def_ro("has_zero", &F::has_zero, "False of e8m0, whose values are powers of two.")
      .def_prop_ro("has_infinity", &F::has_infinity)
      .def_prop_ro("has_nan", &F::has_nan)
      .def_prop_ro("has_negative_zero", &F::has_negative_zero)
      .def_prop_ro("has_subnormals", &F::has_subnormals)
      .def_prop_ro("max_code", &F::max_finite, "Code word of the largest finite value.")
      .def_prop_ro(
          "nan_code", [](const F& f) { return f.has_nan() ? std::optional(f.canonical_nan()) : std::nullopt; },
          "Code word of the canonical NaN, or None.")
      .def_prop_ro(
          "infinity_code", [](const F& f) { return f.has_infinity() ? std::optional(f.infinity()) : std::nullopt; },
          "Code word of +Infinity, or None.")
      .def(
          "value", [](const F& f, const nb::object& code) { return f.value(checked(f, code)); }, nb::arg("code").none(),
          nb::sig("def value(self, code: int) -> float"), "The value of one code word: exact.")
      .def(
          "text", [](const F& f, const nb::object& code) { return print(f, checked(f, code)); }, nb::arg("code").none(),
          nb::sig("def text(self, code: int) -> str"), "The shortest decimal that reads back as this code word.")
      .def(
          "holds",
          [](const F& f, const nb::object& other) {
            if (!nb::isinstance<F>(other)) throw nb::type_error("other: accepted: a Format");
            return holds(f, nb::cast<const F&>(other));
          },
          nb::arg("other").none(), nb::sig("def holds(self, other: Format) -> bool"),
          "Whether every finite value of another format is one of this.")
      .def(
          "__eq__", [](const F& f, const F& other) { return f == other; }, nb::is_operator(), equality)
      .def("__hash__", &hash_of<F>)
      .def("__str__", [](const F& f) { return format_name(f); })
      .def("__repr__", [](const F& f) { return "Format('" + format_name(f) + "')"; })
      .def("__reduce__", [](const F& f) { return nb::make_tuple(nb::type<F>(), nb::make_tuple(format_name(f))); });
}

void add_block_format(nb::module_& m) {
  using F = BlockFormat;
  nb::class_<F>(m, "BlockFormat", R"(A block format: elements of a few bits that share a scale.

BlockFormat("mxfp8e4m3"), BlockFormat("nvfp4"), BlockFormat("mxfp4/rceil"), BlockFormat("e4m3/1x64/e8m0/rceil"): a name of
`halfulp.formats(blocks=True)`, or ELEMENT/SHAPE/SCALE[/RULE][/OPTION...]. Raises ValueError naming the nearest names.)")
      .def(
          "__init__", [](F* self, const nb::object& name) { new (self) F(parse_block_format(text_of(name, "name"))); },
          nb::arg("name").none(), nb::sig("def __init__(self, name: str) -> None"))
      .def_prop_ro("name", [](const F& f) { return format_name(f); })
      .def_prop_ro(
          "description", [](const F& f) { return description(f); }, "ELEMENT/SHAPE/SCALE/RULE/... in full.")
      .def_prop_ro("title",
                   [](const F& f) {
                     const auto* row = find_named(f);
                     return std::string(row ? row->title : "");
                   })
      .def_prop_ro("citation",
                   [](const F& f) {
                     const auto* row = find_named(f);
                     return std::string(row ? row->citation : "");
                   })
      .def_prop_ro(
          "element", [](const F& f) { return element_name(f.element); }, "The elements' format: e4m3, int8.6.")
      .def_prop_ro("element_bits", [](const F& f) { return f.element.bits(); })
      .def_prop_ro(
          "element_max",
          [](const F& f) {
            return f.element.is_integer() ? f.element.value(static_cast<unsigned>(f.element.most()))
                                          : f.element.target();
          },
          "The largest element, before its scale.")
      .def_prop_ro(
          "is_affine", [](const F& f) { return f.element.is_affine(); }, "Whether elements have a zero point.")
      .def_prop_ro(
          "scale", [](const F& f) { return f.scale; }, "The scales' Format.")
      .def_prop_ro(
          "rule", [](const F& f) { return std::string(name_of(f.rule)); },
          "How a scale follows from a block's largest magnitude.")
      .def_prop_ro(
          "use", [](const F& f) { return std::string(name_of(f.use)); }, "How elements are divided by it.")
      .def_prop_ro(
          "tensor_scale", [](const F& f) { return f.tensor_scale; },
          "Whether there is an fp32 scale of the tensor, too.")
      .def_prop_ro(
          "rows", [](const F& f) { return f.rows; }, "Rows of a block; 0: all.")
      .def_prop_ro(
          "columns", [](const F& f) { return f.columns; }, "Columns of a block; 0: all.")
      .def_prop_ro("bits_per_element", &F::bits_per_element, "With the share of scale and zero point.")
      .def(
          "turned",
          [](const F& f) {
            F g = f;
            std::swap(g.rows, g.columns);
            return g;
          },
          "The same with blocks that run down.")
      .def(
          "__eq__", [](const F& f, const F& other) { return f == other; }, nb::is_operator(), equality)
      .def("__hash__", &hash_of<F>)
      .def("__str__", [](const F& f) { return format_name(f); })
      .def("__repr__", [](const F& f) { return "BlockFormat('" + format_name(f) + "')"; })
      .def("__reduce__", [](const F& f) { return nb::make_tuple(nb::type<F>(), nb::make_tuple(format_name(f))); });
}

}  // namespace

void add_formats(nb::module_& m) {
  add_format(m);
  add_block_format(m);
  m.def(
      "any_format",
      [](const nb::object& name) {
        return std::visit([](const auto& f) { return nb::cast(f); }, parse_any_format(text_of(name, "format")));
      },
      nb::arg("name").none(), nb::sig("def any_format(name: str) -> Format | BlockFormat"),
      "A format or a block format by its name; the error names the nearest of both.");
}

}  // namespace halfulp::python
