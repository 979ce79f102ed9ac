// Float<F> as an Eigen scalar: element-wise expressions over arrays and matrices.
//
// Products and reductions of such matrices are not the way to study accumulation: Eigen sums in an order that depends
// on the machine's cache sizes and vector width, so results differ between machines. gemm() and dot() below multiply
// matrices and maps, of Float<F>, of code words or of floats, as a product model states it.
#pragma once

#include <halfulp/emulation/float.hpp>
#include <halfulp/emulation/product/product.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

/// \cond a specialisation of Eigen's template
template <halfulp::FloatFormat F>
struct Eigen::NumTraits<halfulp::Float<F>> : Eigen::GenericNumTraits<halfulp::Float<F>> {
  using Real = halfulp::Float<F>;
  using NonInteger = halfulp::Float<F>;
  using Nested = halfulp::Float<F>;
  using Literal = halfulp::Float<F>;
  enum {
    IsComplex = 0,
    IsInteger = 0,
    IsSigned = 1,
    RequireInitialization = 0,
    ReadCost = 1,
    AddCost = 8,
    MulCost = 8
  };
  static constexpr Real epsilon() { return std::numeric_limits<Real>::epsilon(); }
  static constexpr Real dummy_precision() { return epsilon() * Real(8.0); }
  static constexpr Real highest() { return std::numeric_limits<Real>::max(); }
  static constexpr Real lowest() { return std::numeric_limits<Real>::lowest(); }
  static constexpr int digits10() { return F.digits10(); }
  static constexpr int max_digits10() { return F.max_digits10(); }
};
/// \endcond

namespace halfulp {
namespace eigen {

/// What an Eigen scalar is in memory: the word of a Float<F>, itself otherwise.
template <class T>
struct Word {
  /// The scalar itself.
  using Type = T;
};
/// Of a Float: its word.
template <FloatFormat F>
struct Word<Float<F>> {
  /// An unsigned integer.
  using Type = typename Float<F>::Storage;
  static_assert(sizeof(Float<F>) == sizeof(Type) && std::is_standard_layout_v<Float<F>>);
};
template <class M>
using WordOf = typename Word<typename M::Scalar>::Type;

/// Refuses a matrix of Float<F> where the model has another format.
template <class T>
void check_format(const char*, const FloatFormat&) {}
template <class T>
  requires requires { T::format; }
void check_format(const char* name, const FloatFormat& f) {
  if (T::format != f)
    throw std::invalid_argument("gemm: " + std::string(name) + " is of " + format_name(T::format) +
                                ", the model takes " + format_name(f));
}

/// Words from one line of memory (a row, or a column of column-major matrices) to the next, and those up to the last
/// element.
template <class M>
std::size_t leading(const M& x) {
  if (x.innerStride() != 1)
    throw std::invalid_argument("gemm: elements of a row (column) lie apart: an inner stride of 1 is accepted");
  return static_cast<std::size_t>(std::max<Eigen::Index>(x.outerStride(), x.innerSize()));
}
template <class M>
auto words(const M& x) {
  const std::size_t size = x.size() == 0 ? 0
                                         : (static_cast<std::size_t>(x.outerSize()) - 1) * leading(x) +
                                               static_cast<std::size_t>(x.innerSize());
  return std::span(reinterpret_cast<const WordOf<M>*>(x.derived().data()), size);
}

}  // namespace eigen

/// d = a b (+ c) for Eigen matrices, maps and blocks whose memory can be read: row- or column-major, scalars Float<F>,
/// unsigned code words or floats (all of them floats, or none). Otherwise as gemm of products.hpp; sizes of d are not
/// changed.
template <class A, class B, class D>
void gemm(const ProductModel& model, const Eigen::DenseBase<A>& a, const Eigen::DenseBase<B>& b, Eigen::DenseBase<D>& d,
          std::uint64_t first_stream = 0) {
  eigen::check_format<typename A::Scalar>("A", format_of_a(model)),
      eigen::check_format<typename B::Scalar>("B", format_of_b(model));
  eigen::check_format<typename D::Scalar>("D", format_of_result(model));
  const auto size = [](const auto& x) { return std::to_string(x.rows()) + " x " + std::to_string(x.cols()); };
  if (a.cols() != b.rows() || d.rows() != a.rows() || d.cols() != b.cols())
    throw std::invalid_argument("gemm: " + size(a) + " times " + size(b) + " is not " + size(d));
  const auto wa = eigen::words(a.derived());
  const auto wb = eigen::words(b.derived());
  using Operands = std::conditional_t<std::is_same_v<eigen::WordOf<D>, float>, FloatOperands, GemmOperands>;
  Operands x{static_cast<std::size_t>(a.rows()), static_cast<std::size_t>(b.cols()), static_cast<std::size_t>(a.cols()),
             wa, wb};
  x.lda = eigen::leading(a.derived()), x.ldb = eigen::leading(b.derived());
  x.transpose_a = !A::IsRowMajor, x.transpose_b = !B::IsRowMajor;
  using Word = eigen::WordOf<D>;
  const std::size_t count = x.m * x.n;
  std::vector<Word> rows(count);  // D may be column-major, and may overlap A and B
  gemm(model, x, std::span(rows), first_stream);
  auto* to = reinterpret_cast<Word*>(d.derived().data());
  const std::size_t step = eigen::leading(d.derived());
  for (std::size_t i = 0; i < x.m; ++i)
    for (std::size_t j = 0; j < x.n; ++j) to[D::IsRowMajor ? i * step + j : j * step + i] = rows[i * x.n + j];
}
/// The same for maps and blocks, which are often temporaries.
template <class A, class B, class D>
void gemm(const ProductModel& model, const Eigen::DenseBase<A>& a, const Eigen::DenseBase<B>& b,
          Eigen::DenseBase<D>&& d, std::uint64_t first_stream = 0) {
  gemm(model, a, b, d, first_stream);
}

}  // namespace halfulp
