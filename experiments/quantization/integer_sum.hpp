// Sums of products of integers, by vectors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfulp::quantization {

/// The sum of a[i] b[i]. Precondition: 32 bits hold it.
std::int32_t sum_of_products(const std::int16_t* a, const std::int16_t* b, std::size_t count);

}  // namespace halfulp::quantization
