// Float<F> as an Eigen scalar: element-wise expressions over arrays and matrices.
//
// Products and reductions of such matrices are not the way to study accumulation: Eigen sums in an order that depends
// on the machine's cache sizes and vector width, so results differ between machines. The dot-product models of
// emulation/dot.hpp state their order; use those.
#pragma once

#include <halfulp/emulation/float.hpp>

#include <Eigen/Core>

template <halfulp::FloatFormat F>
struct Eigen::NumTraits<halfulp::Float<F>> : Eigen::GenericNumTraits<halfulp::Float<F>> {
  using Real = halfulp::Float<F>;
  using NonInteger = halfulp::Float<F>;
  using Nested = halfulp::Float<F>;
  using Literal = halfulp::Float<F>;
  enum { IsComplex = 0, IsInteger = 0, IsSigned = 1, RequireInitialization = 0, ReadCost = 1, AddCost = 8, MulCost = 8 };
  static constexpr Real epsilon() { return std::numeric_limits<Real>::epsilon(); }
  static constexpr Real dummy_precision() { return epsilon() * Real(8.0); }
  static constexpr Real highest() { return std::numeric_limits<Real>::max(); }
  static constexpr Real lowest() { return std::numeric_limits<Real>::lowest(); }
  static constexpr int digits10() { return F.digits10(); }
  static constexpr int max_digits10() { return F.max_digits10(); }
};
