// What theory promises about the error of a sum or dot product, divided by the sum of magnitudes of its terms.
#pragma once

#include <halfulp/emulation/dot.hpp>

namespace halfulp {

/// The largest relative error of one rounding: 2^-p to nearest, 2^(1-p) in the other modes (p: the precision).
double unit_roundoff(const Stage& stage);

struct ErrorBounds {
  double roundings = 0;  ///< how many roundings the term that meets most of them goes through: n in n u
  double linear = 0;     ///< n u, stage by stage
  double root = 0;       ///< sqrt(n) u, stage by stage: the typical size of the error (Higham & Mary 2019)
  double proven = 0;     ///< no error is larger unless something overflows; NaN where no theorem applies
};

/// The bounds of a sum of n terms (or products) under a model whose operands need no conversion.
///
/// `proven` is the smallest that applies of
/// - gamma = k u / (1 - k u) for k u < 1, k the roundings inside a block, times the same of the outer stage
///   (Higham 2002, section 4.2);
/// - to nearest, one stage, no compensation, no fma: (n - 1) u for sums, n u for dot products, any n, any order
///   (Rump 2012; Jeannerod & Rump 2013);
/// - Kahan, to nearest, one block: 6 u + 8 n u^2 where that is at most 1/2 and u <= 1/16. The literature has 2 u + O(n
/// u^2)
///   (Knuth; Higham 2002, section 4.3); the proof with nothing left to O is in sum_bounds.cpp;
/// - Neumaier, to nearest, one block: u + gamma_(n-1)^2 (Ogita, Rump & Oishi 2005).
/// Rounded products multiply it by 1 + u and add u. Underflow of products is not in it: see `underflow_allowance`.
ErrorBounds error_bounds(const DotModel& model, double n, bool products);

/// What n products may lose to underflow: n smallest positive values of the accumulator's format. (Sums lose nothing:
/// an inexact sum is never subnormal.)
double underflow_allowance(const DotModel& model, double n);

}  // namespace halfulp
