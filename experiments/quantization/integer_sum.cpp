// A plain loop, compiled for each instruction set: sums of integers are the same in any order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "experiments/quantization/integer_sum.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <halfulp/experiments/quantization/integer_sum.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::quantization::HWY_NAMESPACE {

std::int32_t sum_here(const std::int16_t* a, const std::int16_t* b, std::size_t count) {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::int32_t{a[i]} * b[i];
  return sum;
}

}  // namespace halfulp::quantization::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::quantization {

HWY_EXPORT(sum_here);

std::int32_t sum_of_products(const std::int16_t* a, const std::int16_t* b, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(sum_here)(a, b, count);
}

}  // namespace halfulp::quantization
#endif
