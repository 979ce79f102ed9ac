// Dot products and products of matrices by product models, and by matrix units that users describe.
#include "module.hpp"

#include <halfulp/emulation/product/product.hpp>
#include <halfulp/hardware/unit_file.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace halfulp::python {
namespace {

using Model = std::shared_ptr<const ProductModel>;

struct Sizes {
  std::size_t m, n, k;
};

Sizes sizes_of(const In& a, const In& b) {
  if (a.ndim() != 2 || b.ndim() != 2) throw std::invalid_argument("a and b: matrices are expected");
  if (a.shape(1) != b.shape(0))
    throw std::invalid_argument("a has " + std::to_string(a.shape(1)) + " columns, and b " +
                                std::to_string(b.shape(0)) + " rows");
  return {a.shape(0), b.shape(1), a.shape(1)};
}

/// f(first, rows) over pieces of the product, each about a second's work at the slowest, with a look at Ctrl-C behind
/// each. Once at least, so that a model is refused whatever the sizes.
template <class F>
void by_rows(const Sizes& s, F&& f) {
  const std::size_t step = std::max<std::size_t>(
      4, (std::size_t{1} << 26) / std::max<std::size_t>(1, s.n * std::max<std::size_t>(1, s.k)));
  std::size_t first = 0;
  do {
    const std::size_t rows = std::min(step, s.m - first);
    f(first, rows);
    stop_if_asked();
    first += rows;
  } while (first < s.m);
}

void gemm_codes(const Model& model, const In& a, const In& b, const std::optional<In>& c,
                const std::optional<In>& scale_a, const std::optional<In>& scale_b, const Out& out,
                std::uint64_t stream) {
  const Sizes s = sizes_of(a, b);
  if (out.size() != s.m * s.n) throw std::invalid_argument("out: of another size than the product");
  if (c && c->size() != s.m * s.n) throw std::invalid_argument("c: of another size than the product");
  if (scale_a && (scale_a->ndim() != 2 || scale_a->shape(0) != s.m))
    throw std::invalid_argument("scale_a: not as many rows as a, which are " + std::to_string(s.m));
  with_words(out.dtype(), [&]<class Code>(Code) {
    const auto d = write<Code>(out);
    const GemmOperands x{s.m, s.n, s.k, words(a), words(b), words(c), words(scale_a), words(scale_b)};
    const nb::gil_scoped_release released;
    by_rows(s, [&](std::size_t first, std::size_t rows) {
      gemm<Code>(*model, x.rows(first, rows), d.subspan(first * s.n, rows * s.n), stream + first * s.n);
    });
  });
}

void gemm_values(const Model& model, const In& a, const In& b, const std::optional<In>& c, const Out& out,
                 std::uint64_t stream) {
  const Sizes s = sizes_of(a, b);
  const auto in_a = read<float>(a), in_b = read<float>(b), in_c = c ? read<float>(*c) : std::span<const float>();
  const auto d = write<float>(out);
  if (d.size() != s.m * s.n) throw std::invalid_argument("out: of another size than the product");
  const FloatOperands x{s.m, s.n, s.k, in_a, in_b, in_c};
  const nb::gil_scoped_release released;
  by_rows(s, [&](std::size_t first, std::size_t rows) {
    gemm(*model, x.rows(first, rows), d.subspan(first * s.n, rows * s.n), stream + first * s.n);
  });
}

Model unit_of_text(const std::string& json) {
  nlohmann::ordered_json object;
  try {
    object = nlohmann::ordered_json::parse(json);
  } catch (const nlohmann::json::exception&) { throw std::invalid_argument("unit: not JSON"); }
  return std::make_shared<ProductModel>(unit_of_json(object, "unit"));
}

/// A model's name where that is all there is to say, else (a unit of one's own) the unit's description as JSON, which
/// begins with a brace.
std::string text_of(const ProductModel& model) {
  const std::string name = product_model_name(model);
  const auto* unit = std::get_if<MatrixUnit>(&model);
  if (!unit) return name;
  try {
    if (parse_product_model(name) == model) return name;
  } catch (const std::invalid_argument&) {  // a name of one's own
  }
  return unit_to_json(*unit).dump();
}
}  // namespace

Model model_of_text(const std::string& text) {
  return text.starts_with("{") ? unit_of_text(text) : std::make_shared<ProductModel>(parse_product_model(text));
}

void add_products(nb::module_& m) {
  struct Held {
    Model model;
  };
  nb::class_<Held>(m, "ProductModel",
                   R"(How dot products are computed: single operations that are stated, or a matrix unit.

ProductModel("hopper.mma.fp16.fp32"), ProductModel("fp16"), ProductModel("mul=fp16,acc=fp32,order=blocked:128"): a unit's name, or items
between commas: a format, in= b= mul= acc= promote= out= order= comp= seed= round= overflow= flush= nan= variant= bits= tininess=. Raises
ValueError naming the nearest words.)")
      .def(
          "__init__",
          [](Held* self, const nb::object& text) {
            new (self) Held{std::make_shared<ProductModel>(parse_product_model(python::text_of(text, "text")))};
          },
          nb::arg("text").none(), nb::sig("def __init__(self, text: str) -> None"))
      .def_static(
          "of_unit", [](const std::string& json) { return Held{unit_of_text(json)}; }, nb::arg("json"),
          "A matrix unit of one's own: JSON as `halfulp.units(NAME)` gives it.")
      .def_prop_ro("name", [](const Held& h) { return product_model_name(*h.model); })
      .def_prop_ro(
          "a", [](const Held& h) { return format_of_a(*h.model); }, "The Format of the first operand.")
      .def_prop_ro(
          "b", [](const Held& h) { return format_of_b(*h.model); }, "Of the second.")
      .def_prop_ro(
          "result", [](const Held& h) { return format_of_result(*h.model); }, "Of addend and result.")
      .def_prop_ro("is_unit", [](const Held& h) { return std::holds_alternative<MatrixUnit>(*h.model); })
      .def_prop_ro(
          "scale",
          [](const Held& h) -> std::optional<FloatFormat> {
            const auto* unit = std::get_if<MatrixUnit>(h.model.get());
            return unit && unit->scaled() ? std::optional(unit->scale) : std::nullopt;
          },
          "The Format of a unit's scales, or None.")
      .def_prop_ro(
          "scale_block",
          [](const Held& h) {
            const auto* unit = std::get_if<MatrixUnit>(h.model.get());
            return unit ? unit->scale_block : 0;
          },
          "Products that share a scale; 0: there are none.")
      .def(
          "word_bits", [](const Held& h, const FloatFormat& f) { return word_bits(*h.model, f); }, nb::arg("format"),
          "Bits of the words in which operands of a format are handed over.")
      .def(
          "__eq__", [](const Held& h, const Held& other) { return *h.model == *other.model; }, nb::is_operator(),
          equality)
      .def("__hash__", [](const Held& h) { return std::hash<std::string>{}(product_model_name(*h.model)); })
      .def("__str__", [](const Held& h) { return product_model_name(*h.model); })
      .def("__repr__",
           [](const Held& h) {
             const std::string text = text_of(*h.model);
             return (text.starts_with("{") ? "ProductModel.of_unit(" : "ProductModel(") +
                    nb::cast<std::string>(nb::repr(nb::str(text.c_str()))) + ")";
           })
      .def("__getstate__", [](const Held& h) { return text_of(*h.model); })
      .def("__setstate__", [](Held& h, const std::string& text) { new (&h) Held{model_of_text(text)}; });
  m.def(
      "gemm_codes",
      [](const Held& h, const In& a, const In& b, const std::optional<In>& c, const std::optional<In>& sa,
         const std::optional<In>& sb, const Out& out,
         std::uint64_t stream) { gemm_codes(h.model, a, b, c, sa, sb, out, stream); },
      nb::arg("model"), nb::arg("a"), nb::arg("b"), nb::arg("c").none(), nb::arg("scale_a").none(),
      nb::arg("scale_b").none(), nb::arg("out"), nb::arg("stream"), "out = a b + c on code words.");
  m.def(
      "gemm_values",
      [](const Held& h, const In& a, const In& b, const std::optional<In>& c, const Out& out, std::uint64_t stream) {
        gemm_values(h.model, a, b, c, out, stream);
      },
      nb::arg("model"), nb::arg("a"), nb::arg("b"), nb::arg("c").none(), nb::arg("out"), nb::arg("stream"),
      "The same on float32 values of the model's formats.");
}

}  // namespace halfulp::python
