#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/product/lockstep.hpp>
#include <halfulp/emulation/product/product.hpp>
#include <halfulp/emulation/product/tiles.hpp>
#include <halfulp/emulation/unit/gemm.hpp>

#include <tbb/blocked_range2d.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace halfulp {
namespace {

using products::ScalarOutputs, products::value_of, products::word;

template <class D>
void put(std::span<D> d, std::size_t at, const FloatFormat& f, std::uint64_t code) {
  if constexpr (std::is_same_v<D, float>) d[at] = value_of(f, code);
  else d[at] = static_cast<D>(code);
}

template <class Words, class D>
void gemm_by_dot_model(const DotModel& model, const MatrixOperands<Words>& x, std::span<D> d,
                       std::uint64_t first_stream) {
  if (x.k > 0)
    if (const auto plan = products::make_plan(model))
      return products::gemm_by_vectors(model, *plan, x, d, first_stream);
  if (x.k > 0 && products::goes_in_step(model, x.m, x.n, x.k)) return products::gemm_in_step(model, x, d, first_stream);
  tbb::parallel_for(tbb::blocked_range2d<std::size_t>(0, x.m, 1, 0, x.n, 16), [&](const auto& range) {
    const array::DefaultEnvironment environment;
    ScalarOutputs<Words> scalar(model, x, first_stream);
    for (std::size_t i = range.rows().begin(); i != range.rows().end(); ++i)
      for (std::size_t j = range.cols().begin(); j != range.cols().end(); ++j)
        put(d, x.place_d()(i, j), model.result(), scalar(i, j));
  });
}

/// NaN has one value among floats.
float usual_nan(float v) { return v == v ? v : std::numeric_limits<float>::quiet_NaN(); }

/// The words of an operand of floats, in the order of its memory, without gaps.
std::vector<std::uint32_t> words_of(std::span<const float> x, const FloatFormat& f, std::size_t rows,
                                    std::size_t columns, std::size_t leading) {
  std::vector<std::uint32_t> words(x.empty() ? 0 : rows * columns);
  const std::size_t lines = leading == columns ? 1 : rows, length = words.size() / std::max<std::size_t>(1, lines);
  for (std::size_t i = 0; i < lines && !words.empty(); ++i) {
    const std::span<const float> from = x.subspan(i * leading, length);
    const std::span<std::uint32_t> to = std::span(words).subspan(i * length, length);
    if (f == fp32)
      std::ranges::transform(from, to.begin(), [](float v) { return std::bit_cast<std::uint32_t>(usual_nan(v)); });
    else encode(f, {}, from, to);
  }
  if (code_word(f, 1) != 1)
    for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(code_word(f, word));
  return words;
}

template <class D>
void gemm_by_unit(const MatrixUnit& unit, const GemmOperands& x, std::span<D> d) {
  if constexpr (sizeof(D) == 1)
    Checker{"gemm"}.refuse("words of D are too narrow for " + format_name(unit.accumulator));
  else mma_gemm(unit, x, d);
}
void gemm_by_unit(const MatrixUnit& unit, const FloatOperands& x, std::span<float> d) {
  const auto a = words_of(x.a, unit.a, x.transpose_a ? x.k : x.m, x.transpose_a ? x.m : x.k,
                          x.transpose_a ? x.place_a().column : x.place_a().row);
  const auto b = words_of(x.b, unit.b, x.transpose_b ? x.n : x.k, x.transpose_b ? x.k : x.n,
                          x.transpose_b ? x.place_b().column : x.place_b().row);
  const auto c = words_of(x.c, unit.accumulator, x.m, x.n, x.place_c().row);
  std::vector<std::uint32_t> words(x.m * x.n);
  GemmOperands with_words{x.m, x.n, x.k, std::span(a), std::span(b), std::span(c)};
  with_words.transpose_a = x.transpose_a, with_words.transpose_b = x.transpose_b;
  mma_gemm(unit, with_words, std::span(words));
  for (std::size_t i = 0; i < x.m; ++i) {
    const std::span<const std::uint32_t> from = std::span(std::as_const(words)).subspan(i * x.n, x.n);
    const std::span<float> to = d.subspan(x.place_d()(i, 0), x.n);
    if (unit.accumulator == fp32)
      std::ranges::transform(from, to.begin(),
                             [](std::uint32_t word) { return usual_nan(std::bit_cast<float>(word)); });
    else decode(unit.accumulator, from, to);
  }
}

const char* const where = "gemm";

template <class D>
void check(const ProductModel& model, const GemmOperands& x, std::span<D> d) {
  const Checker checker{where};
  const int bits = word_bits(model, format_of_result(model));
  if (bits > static_cast<int>(8 * sizeof(D)))
    checker.refuse("D has words of " + std::to_string(8 * sizeof(D)) + " bits; " +
                   format_name(format_of_result(model)) + " takes " + std::to_string(bits));
  checker.each(x, [&](const std::string& name, const CodeWords& words, std::size_t rows, std::size_t columns,
                      std::size_t leading) {
    const FloatFormat& f = name == "A"   ? format_of_a(model)
                           : name == "B" ? format_of_b(model)
                                         : format_of_result(model);
    checker.words(name, words, rows, columns, leading, word_bits(model, f), format_name(f));
    const bool in_place = name == "C" && words.data() == d.data() && words.bytes() == sizeof(D) &&
                          x.place_c().row == x.place_d().row;
    if (!in_place)
      checker.apart(name, words.data(), words.size() * static_cast<std::size_t>(words.bytes()), d.data(),
                    d.size_bytes());
  });
  const auto* unit = std::get_if<MatrixUnit>(&model);
  if (!(unit && unit->scaled()) && (x.scale_a.size() != 0 || x.scale_b.size() != 0))
    checker.refuse("scales are for matrix units that take them, not for " + product_model_name(model));
  checker.extent("D", d.size(), x.m, x.n, x.ldd);
}
void check(const ProductModel& model, const FloatOperands& x, std::span<float> d) {
  const Checker checker{where};
  for (const FloatFormat* f : {&format_of_a(model), &format_of_b(model), &format_of_result(model)})
    if (!holds(fp32, *f)) checker.refuse("floats do not hold the values of " + format_name(*f));
  checker.each(x, [&](const std::string& name, std::span<const float> values, std::size_t rows, std::size_t columns,
                      std::size_t leading) {
    checker.extent(name, values.size(), rows, columns, leading);
    const bool in_place = name == "C" && values.data() == d.data() && x.place_c().row == x.place_d().row;
    if (!in_place) checker.apart(name, values.data(), values.size_bytes(), d.data(), d.size_bytes());
  });
  const auto* unit = std::get_if<MatrixUnit>(&model);
  if (x.scale_a.size() != 0 || x.scale_b.size() != 0 || (unit && unit->scaled()))
    checker.refuse("scales are code words: matrix units with scales take words, not floats");
  checker.extent("D", d.size(), x.m, x.n, x.ldd);
}

template <class Words, class D>
void gemm_of(const ProductModel& model, const MatrixOperands<Words>& x, std::span<D> d, std::uint64_t first_stream) {
  if (const std::string why = product_refusal(model); !why.empty())
    throw std::invalid_argument(std::string(where) + ": " + why);
  check(model, x, d);
  if (x.m == 0 || x.n == 0) return;
  const array::DefaultEnvironment environment;
  if (const auto* dots = std::get_if<DotModel>(&model)) return gemm_by_dot_model(*dots, x, d, first_stream);
  if (x.k > 0) return gemm_by_unit(std::get<MatrixUnit>(model), x, d);
  const FloatFormat& f = format_of_result(model);
  for (std::size_t i = 0; i < x.m; ++i)
    for (std::size_t j = 0; j < x.n; ++j)
      put(d, x.place_d()(i, j), f, x.c.size() != 0 ? word(x.c, f, x.place_c()(i, j)) : 0);
}

}  // namespace

template <class Code>
void gemm(const ProductModel& model, const GemmOperands& x, std::span<Code> d, std::uint64_t first_stream) {
  gemm_of(model, x, d, first_stream);
}
template void gemm(const ProductModel&, const GemmOperands&, std::span<std::uint8_t>, std::uint64_t);
template void gemm(const ProductModel&, const GemmOperands&, std::span<std::uint16_t>, std::uint64_t);
template void gemm(const ProductModel&, const GemmOperands&, std::span<std::uint32_t>, std::uint64_t);
template void gemm(const ProductModel&, const GemmOperands&, std::span<std::uint64_t>, std::uint64_t);

void gemm(const ProductModel& model, const FloatOperands& x, std::span<float> d, std::uint64_t first_stream) {
  gemm_of(model, x, d, first_stream);
}

std::uint64_t dot(const ProductModel& model, const CodeWords& a, const CodeWords& b, std::optional<std::uint64_t> c,
                  std::uint64_t stream) {
  if (a.size() != b.size())
    throw std::invalid_argument("dot: vectors of " + std::to_string(a.size()) + " and " + std::to_string(b.size()) +
                                " terms");
  const std::uint64_t addend = c.value_or(0);
  std::uint64_t d = 0;
  GemmOperands x{1, 1, a.size(), a, b};
  if (c) x.c = std::span(&addend, 1);
  gemm(model, x, std::span(&d, 1), stream);
  return d;
}

bool has_vector_products(const ProductModel& model) {
  if (const auto* unit = std::get_if<MatrixUnit>(&model)) return has_vector_body(*unit);
  return dot_refusal(std::get<DotModel>(model)).empty() && products::make_plan(std::get<DotModel>(model)).has_value();
}

}  // namespace halfulp
