// Rounding and products of arrays by their addresses.
#include "addresses.hpp"
#include "module.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/block/block.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/training/operand.hpp>
#include <halfulp/training/layers/initialisation.hpp>

namespace halfulp::python {
namespace {

/// f(Code{}) for the unsigned type of so many bytes.
template <class F>
void with_code(int bytes, F f) {
  switch (bytes) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    default: throw std::invalid_argument("code words of " + std::to_string(bytes) + " bytes; accepted: 1, 2, 4");
  }
}

/// The storage of JSON text; empty: that of a format, to nearest even.
training::Storage storage_of(const std::string& text, const FloatFormat& otherwise, const std::string& where) {
  if (text.empty()) return {otherwise};
  try {
    return training::parse_storage(Json::parse(text), where);
  } catch (const Json::parse_error&) { throw std::invalid_argument(where + ": not JSON"); }
}

/// A product model and how its operands are rounded: what products of tensors need, read once.
class Multiplication {
 public:
  Multiplication(const std::string& model, const std::string& a, const std::string& b) {
    if (a.empty() && b.empty()) {
      model_ = *model_of_text(model);
      a_ = {format_of_a(model_)}, b_ = {format_of_b(model_)};
      const auto* unit = std::get_if<MatrixUnit>(&model_);
      if (unit && unit->scaled())
        throw std::invalid_argument("model: " + model + " takes scales; accepted here: models without");
      if (!holds(fp32, format_of_result(model_)))
        throw std::invalid_argument("model: results in " + format_name(format_of_result(model_)) +
                                    " are no floats; accepted: results within fp32");
    } else {
      a_ = storage_of(a, fp32, "a"), b_ = storage_of(b, fp32, "b");
      model_ = training::operand_model(model, a_, b_, "model");
    }
  }

  /// d[i] = a[i] b[i] for `count` products of one size, m x k by k x n, which lie one after the other: a as k x m if
  /// `a_turned`, b as n x k if `b_turned`. `bias`: n numbers added to every row in fp32, or none.
  void operator()(std::size_t count, std::size_t m, std::size_t n, std::size_t k, Address a, bool a_turned, Address b,
                  bool b_turned, Address bias, Address d, std::uint64_t seed, std::uint64_t stream) const {
    const nb::gil_scoped_release released;
    const std::span<const float> row = read_at<float>(bias, bias ? n : 0);
    const RandomStream for_a{seed, training::stream_of("a", stream)}, for_b{seed, training::stream_of("b", stream)};
    // Sums draw under the model's own seed: the call's makes the streams.
    const std::uint64_t sums = training::stream_of("sums", seed) + training::stream_of("call", stream);
    training::PolicyOperand x, y;
    const auto some = [&](std::size_t first, std::size_t products) {
      x.take(a_, read_at<float>(a, count * m * k).subspan(first * m * k, products * m * k), products * m, k, a_turned,
             for_a.from(first * m * k), a_.amax, nullptr);
      y.take(b_, read_at<float>(b, count * k * n).subspan(first * k * n, products * k * n), products * n, k, !b_turned,
             for_b.from(first * k * n), b_.amax, nullptr);
      const std::span<float> to = write_at<float>(d, count * m * n).subspan(first * m * n, products * m * n);
      if (!x.scaled() && !y.scaled())
        return training::multiply(model_, training::elements_of(x, y, m, n, k), row, to, products,
                                  sums + first * m * n);
      training::multiply_scaled(model_, x, y, m, n, k, sums + first * m * n, to);
      for (std::size_t i = 0; i < to.size() && !row.empty(); ++i) to[i] += row[i % n];
    };
    // Values are rounded one by one: all matrices at once. Blocks lie in matrices.
    if (a_.plain() && b_.plain()) return some(0, count);
    for (std::size_t i = 0; i < count; ++i) some(i, 1);
  }

  const ProductModel& model() const { return model_; }

 private:
  ProductModel model_;
  training::Storage a_, b_;
};

}  // namespace

void add_tensors(nb::module_& m) {
  m.def(
      "quantize_at",
      [](const FloatFormat& f, const Rounding& r, bool doubles, Address in, Address out, std::size_t count,
         const Draws& draws) {
        const nb::gil_scoped_release released;
        if (doubles) quantize(f, r, read_at<double>(in, count), write_at<double>(out, count), stream_of(draws));
        else quantize(f, r, read_at<float>(in, count), write_at<float>(out, count), stream_of(draws));
      },
      nb::arg("format"), nb::arg("rounding"), nb::arg("doubles"), nb::arg("x"), nb::arg("out"), nb::arg("count"),
      nb::arg("draws"), "quantize() by addresses of float32, or of float64.");
  m.def(
      "encode_at",
      [](const FloatFormat& f, const Rounding& r, bool doubles, Address in, int bytes, Address out, std::size_t count,
         const Draws& draws) {
        const nb::gil_scoped_release released;
        with_code(bytes, [&]<class Code>(Code) {
          const RandomStream random = stream_of(draws);
          if (doubles) encode(f, r, read_at<double>(in, count), write_at<Code>(out, count), random);
          else encode(f, r, read_at<float>(in, count), write_at<Code>(out, count), random);
        });
      },
      nb::arg("format"), nb::arg("rounding"), nb::arg("doubles"), nb::arg("x"), nb::arg("bytes"), nb::arg("out"),
      nb::arg("count"), nb::arg("draws"), "encode() by addresses, to code words of so many bytes.");
  m.def(
      "decode_at",
      [](const FloatFormat& f, int bytes, Address in, Address out, std::size_t count) {
        with_code(bytes, [&]<class Code>(Code) {
          const auto codes = read_at<Code>(in, count);
          check_codes("codes", codes, f.code_mask(), format_name(f));
          const nb::gil_scoped_release released;
          decode(f, codes, write_at<float>(out, count));
        });
      },
      nb::arg("format"), nb::arg("bytes"), nb::arg("codes"), nb::arg("out"), nb::arg("count"),
      "decode() by addresses, to float32.");
  m.def(
      "quantize_blocks_at",
      [](const BlockFormat& f, const Rounding& r, std::size_t matrices, std::size_t rows, std::size_t columns,
         Address in, Address out, const Draws& draws, std::optional<float> amax) {
        const nb::gil_scoped_release released;
        const std::size_t size = rows * columns;
        for (std::size_t i = 0; i < matrices; ++i) {
          BlockOptions options;
          options.random = stream_of(draws).from(i * size);
          options.amax = amax;
          quantize_block_values(f, r, read_at<float>(in, matrices * size).subspan(i * size, size), rows, columns,
                                write_at<float>(out, matrices * size).subspan(i * size, size), options);
        }
      },
      nb::arg("format"), nb::arg("rounding"), nb::arg("matrices"), nb::arg("rows"), nb::arg("columns"), nb::arg("x"),
      nb::arg("out"), nb::arg("draws"), nb::arg("amax").none(),
      "Values of matrices in a block format, by addresses of float32.");
  m.def(
      "column_sums_at",
      [](std::size_t columns, Address values, std::size_t count, Address sums) {
        const nb::gil_scoped_release released;
        training::fixed_order_column_sums(columns, read_at<float>(values, count), write_at<float>(sums, columns));
      },
      nb::arg("columns"), nb::arg("values"), nb::arg("count"), nb::arg("sums"),
      "Sums of the columns of a matrix of float32, in the trainer's order.");
  nb::class_<Multiplication>(m, "Multiplication",
                             "How matrices are multiplied: a product model, and what its operands are rounded to.")
      .def(nb::init<const std::string&, const std::string&, const std::string&>(), nb::arg("model"), nb::arg("a"),
           nb::arg("b"),
           "model: a product model's text, or with a and b, which are storages as policies write them (JSON), one "
           "without operands.")
      .def("__call__", &Multiplication::operator(), nb::arg("count"), nb::arg("m"), nb::arg("n"), nb::arg("k"),
           nb::arg("a"), nb::arg("a_turned"), nb::arg("b"), nb::arg("b_turned"), nb::arg("bias"), nb::arg("d"),
           nb::arg("seed"), nb::arg("stream"), "d = a b + bias by addresses of float32.")
      .def_prop_ro("name", [](const Multiplication& x) { return product_model_name(x.model()); });
}

}  // namespace halfulp::python
