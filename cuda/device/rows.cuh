// The rows of instructions.def as types: Row<i>::apply(a, b, c) is instruction i.
#pragma once

#include <halfulp/cuda/device/intrinsics.cuh>
#include <halfulp/cuda/instructions.hpp>

#include <utility>

namespace halfulp::cuda {

template <int index>
struct Row;

// Nothing reads operands that an operation does not take. Rows are templates, so that those which an architecture lacks
// are never compiled.
enum : int { first_row = __COUNTER__ + 1 };
#define HALFULP_ROW(operation_, from_, to_, mode_, overflow_, flush_, nan_, approximate_, sm_, route_, ...)   \
  template <>                                                                                                 \
  struct Row<__COUNTER__ - first_row> {                                                                       \
    using From = device_type<from_>;                                                                          \
    static constexpr Operation operation = Operation::operation_;                                             \
    static constexpr auto from = from_;                                                                       \
    static constexpr auto to = to_;                                                                           \
    static constexpr Rounding rounding{.mode = RoundingMode::mode_,                                           \
                                       .overflow = Overflow::overflow_,                                       \
                                       .flush_inputs = flush_ != 0,                                           \
                                       .flush_outputs = flush_ != 0};                                         \
    static constexpr int sm = sm_;                                                                            \
    static __device__ auto apply([[maybe_unused]] From a, [[maybe_unused]] From b, [[maybe_unused]] From c) { \
      return __VA_ARGS__;                                                                                     \
    }                                                                                                         \
  };
#include <halfulp/cuda/instructions.def>
inline constexpr int row_count = __COUNTER__ - first_row;

/// The architecture that device code is compiled for now: 90.
#ifdef __CUDA_ARCH__
inline constexpr int sm_here = __CUDA_ARCH__ / 10;
#else
inline constexpr int sm_here = 1000;
#endif

/// What instruction i gives of code words; rows that the architecture lacks are never launched there.
template <int i>
__device__ inline std::uint64_t answer(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  using R = Row<i>;
  if constexpr (sm_here >= R::sm)
    return to_code(
        R::apply(from_code<typename R::From>(a), from_code<typename R::From>(b), from_code<typename R::From>(c)));
  else return ~std::uint64_t{0};
}

}  // namespace halfulp::cuda
