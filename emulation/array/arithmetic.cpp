// Element-wise operations in a carrier, from values to values: see arithmetic-inl.hpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/arithmetic.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/arithmetic-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls f with the operation and the rounding of its sums, which products and the like do not look at.
template <class F>
HWY_INLINE void with_sums(Operation operation, Sums sums, F f) {
  with_array_operation(operation, [&]<Operation op>(std::integral_constant<Operation, op> tag) HWY_ATTR {
    using enum Sums;
    if constexpr (op == Operation::add || op == Operation::sub || op == Operation::fma) {
      switch (sums) {
        case nearest: break;
        case odd: return f(tag, std::integral_constant<Sums, odd>{});
        case zero: return f(tag, std::integral_constant<Sums, zero>{});
        case up: return f(tag, std::integral_constant<Sums, up>{});
        case down: return f(tag, std::integral_constant<Sums, down>{});
      }
    }
    return f(tag, std::integral_constant<Sums, nearest>{});
  });
}

/// Floats of the carrier's lanes.
template <class D>
HWY_INLINE hn::Vec<D> load_floats(D d, const float* from) {
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(float)) return hn::LoadU(d, from);
  else return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>{}, from));
}

/// A function, not a lambda: its pointers stay in registers.
template <Operation op, Sums sums, class T>
HWY_NOINLINE HWY_ATTR void combine_all(const float* a, const float* b, const float* c, T* out, std::size_t count) {
  const hn::ScalableTag<T> d;
  const InDirection<direction_of(sums)> environment;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto x = load_floats(d, a + i), y = info(op).arity > 1 ? load_floats(d, b + i) : x,
               z = info(op).arity > 2 ? load_floats(d, c + i) : x;
    hn::StoreU(combine<op, sums, direction_of(sums)>(d, x, y, z), d, out + i);
  }
}

template <class T>
HWY_ATTR void combine_in(Operation operation, Sums rounding, const float* a, const float* b, const float* c, T* out,
                         std::size_t count) {
  with_sums(operation, rounding,
            [&]<Operation op, Sums sums>(std::integral_constant<Operation, op>, std::integral_constant<Sums, sums>)
                HWY_ATTR { combine_all<op, sums>(a, b, c, out, count); });
}

/// combine_exact_lanes() of kernels.hpp: products of at most 24 bits are exact if they are normal floats, sums if a
/// two-sum leaves nothing.
template <Operation op>
HWY_NOINLINE HWY_ATTR bool combine_all_exactly(const float* a, const float* b, const float* c, float* out,
                                               std::size_t count) {
  const hn::ScalableTag<float> d;
  const InDirection<to_nearest> environment;
  auto lost = hn::FirstN(d, 0);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    auto x = hn::LoadU(d, a + i), y = hn::LoadU(d, b + i), result = hn::Mul(x, y);
    if constexpr (op == Operation::mul || op == Operation::fma)
      lost = hn::Or(lost, hn::Or(loses<Operation::fma>(d, x, y), hn::IsNaN(result)));
    if constexpr (op == Operation::fma) x = result, y = hn::LoadU(d, c + i);
    if constexpr (op == Operation::sub) y = hn::Neg(y);
    if constexpr (op != Operation::mul) {
      result = hn::Add(x, y);
      lost = hn::Or(lost, inexact(d, x, y, result));
    }
    hn::StoreU(result, d, out + i);
  }
  return hn::AllFalse(d, lost);
}

// Dispatch works on plain functions.
HWY_ATTR bool combine_exactly(Operation operation, const float* a, const float* b, const float* c, float* out,
                              std::size_t count) {
  switch (operation) {
    case Operation::add: return combine_all_exactly<Operation::add>(a, b, c, out, count);
    case Operation::sub: return combine_all_exactly<Operation::sub>(a, b, c, out, count);
    case Operation::mul: return combine_all_exactly<Operation::mul>(a, b, c, out, count);
    case Operation::fma: return combine_all_exactly<Operation::fma>(a, b, c, out, count);
    default: throw std::logic_error("array arithmetic: no exact " + std::string(info(operation).name));
  }
}
HWY_ATTR void combine_in_float(Operation operation, Sums rounding, const float* a, const float* b, const float* c,
                               float* out, std::size_t count) {
  combine_in(operation, rounding, a, b, c, out, count);
}
HWY_ATTR void combine_in_double(Operation operation, Sums rounding, const float* a, const float* b, const float* c,
                                double* out, std::size_t count) {
  combine_in(operation, rounding, a, b, c, out, count);
}

HWY_ATTR bool embedded_rounding() { return HALFULP_EMBEDDED_ROUNDING; }

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(combine_in_float);
HWY_EXPORT(combine_in_double);
HWY_EXPORT(combine_exactly);
HWY_EXPORT(embedded_rounding);

bool has_embedded_rounding() { return HWY_DYNAMIC_DISPATCH(embedded_rounding)(); }

void combine_lanes(Operation op, Sums sums, const float* a, const float* b, const float* c, float* out,
                   std::size_t count) {
  HWY_DYNAMIC_DISPATCH(combine_in_float)(op, sums, a, b, c, out, count);
}
void combine_lanes(Operation op, Sums sums, const float* a, const float* b, const float* c, double* out,
                   std::size_t count) {
  HWY_DYNAMIC_DISPATCH(combine_in_double)(op, sums, a, b, c, out, count);
}

bool combine_exact_lanes(Operation op, const float* a, const float* b, const float* c, float* out, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(combine_exactly)(op, a, b, c, out, count);
}

}  // namespace halfulp::array
#endif
