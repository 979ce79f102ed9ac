// What one thread of a warp(group) loads and stores around a matrix instruction: the same code in kernels and in their
// rehearsal. `load(index)` gives an element of device memory, `store(index, word)` takes one.
#pragma once

#include <halfulp/cuda/fragments.hpp>

// Only constants index registers: loops over them are unrolled.
#if defined(__CUDA_ARCH__)
#define HALFULP_UNROLLED _Pragma("unroll")
#else
#define HALFULP_UNROLLED
#endif

namespace halfulp::cuda {

/// Tiles from `tile` on, and what surrounds them.
struct Position {
  OperandExtent extent;
  std::size_t tile;
  int thread;
};

template <class R, class Load>
constexpr void load_a(const MatrixInstruction& x, const Position& at, std::size_t step, R* fragment, Load load) {
  HALFULP_UNROLLED
  for (int i = 0; i < x.a_count(); ++i) {
    const TileElement p = a_place(x, at.thread, i);
    put(fragment, x.a, i, R{load(a_index(x, at.extent, at.tile + p.tile, step, p.row, p.column))});
  }
}

template <class R, class Load>
constexpr void load_b(const MatrixInstruction& x, const Position& at, std::size_t step, R* fragment, Load load) {
  HALFULP_UNROLLED
  for (int i = 0; i < x.b_count(); ++i) {
    const TileElement p = b_place(x, at.thread, i);
    put(fragment, x.b, i, R{load(b_index(x, at.extent, at.tile + p.tile, step, p.row, p.column))});
  }
}

template <class R, class Load>
constexpr void load_c(const MatrixInstruction& x, const Position& at, R* fragment, Load load) {
  HALFULP_UNROLLED
  for (int i = 0; i < x.d_count(); ++i) {
    const TileElement p = d_place(x, at.thread, i);
    put(fragment, x.d, i, R{load(d_index(x, at.extent, at.tile + p.tile, p.row, p.column))});
  }
}

template <class R, class Store>
constexpr void store_d(const MatrixInstruction& x, const Position& at, const R* fragment, Store store) {
  HALFULP_UNROLLED
  for (int i = 0; i < x.d_count(); ++i) {
    const TileElement p = d_place(x, at.thread, i);
    if (stored(at.extent, p.row, p.column))
      store(d_index(x, at.extent, at.tile + p.tile, p.row, p.column), get(fragment, x.d, i));
  }
}

// A and B of wgmma go to shared memory: `write(offset, word)` takes an element. Threads share the work.

template <class Load, class Write>
constexpr void share_a(const MatrixInstruction& x, const Position& at, std::size_t step, Load load, Write write) {
  for (int i = at.thread; i < x.m * x.k; i += x.threads()) {
    const int row = i / x.k, column = i % x.k;
    write(shared_offset(row, column * bytes_of(x.a)), load(a_index(x, at.extent, at.tile, step, row, column)));
  }
}

template <class Load, class Write>
constexpr void share_b(const MatrixInstruction& x, const Position& at, std::size_t step, Load load, Write write) {
  for (int i = at.thread; i < x.n * x.k; i += x.threads()) {
    const int row = i % x.k, column = i / x.k;
    write(shared_offset(column, row * bytes_of(x.b)), load(b_index(x, at.extent, at.tile, step, row, column)));
  }
}

}  // namespace halfulp::cuda

#undef HALFULP_UNROLLED
