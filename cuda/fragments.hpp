// Where the elements of a tile are while a matrix instruction works on it: in which thread's registers, or where in
// shared memory. Kernels and their rehearsal on the host load and store by these functions; documented.hpp says the
// same in the words of the PTX documentation, and the test holds the two together.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfulp::cuda {

enum class MatrixKind : std::uint8_t {
  mma,    ///< mma.sync: a warp, all operands in registers
  wgmma,  ///< wgmma.mma_async: a warpgroup, A and B in shared memory
};

/// What an element is, as PTX spells it.
enum class Element : std::uint8_t { f16, bf16, tf32, e4m3, e5m2, f32, f64 };

constexpr int bytes_of(Element e) {
  switch (e) {
    case Element::e4m3:
    case Element::e5m2: return 1;
    case Element::f16:
    case Element::bf16: return 2;
    case Element::tf32:
    case Element::f32: return 4;
    default: return 8;
  }
}

/// D = A B + D for an m x k tile of A and a k x n tile of B.
struct MatrixInstruction {
  MatrixKind kind;
  int m, n, k;
  Element a, b, d;
  bool operator==(const MatrixInstruction&) const = default;

  /// m8n8k4 of f16, which came with Volta: eight threads multiply a tile, so that a warp multiplies four.
  constexpr bool by_quads() const { return k == 4 && a == Element::f16; }
  constexpr int threads() const { return kind == MatrixKind::wgmma ? 128 : 32; }
  constexpr int tiles() const { return by_quads() ? 4 : 1; }  ///< of one instruction

  // Elements that a thread holds. (A and B of wgmma are not in registers.)
  constexpr int a_count() const { return m * k * tiles() / threads(); }
  constexpr int b_count() const { return k * n * tiles() / threads(); }
  constexpr int d_count() const { return m * n * tiles() / threads(); }
};

// Registers.

/// Registers have 32 bits, or 64 for f64. Elements lie in them from the low end up.
constexpr int per_register(Element e) { return bytes_of(e) < 4 ? 4 / bytes_of(e) : 1; }
constexpr int registers(Element e, int count) { return count / per_register(e); }

/// Element i of a fragment goes into registers that were 0, and is read from them. R holds what a register does.
template <class R>
constexpr void put(R* fragment, Element e, int i, R word) {
  fragment[i / per_register(e)] |= word << (i % per_register(e) * 8 * bytes_of(e));
}
template <class R>
constexpr R get(const R* fragment, Element e, int i) {
  const R word = fragment[i / per_register(e)] >> (i % per_register(e) * 8 * bytes_of(e));
  return bytes_of(e) < 4 ? word & ((R{1} << (8 * bytes_of(e) % 32)) - 1) : word;
}

/// An element of the tile'th tile of an instruction.
struct TileElement {
  int tile, row, column;
  bool operator==(const TileElement&) const = default;
};

// Which element is the i-th that a thread holds. m16n8 and m8n8k4 of f64: a group of four threads holds a row of A, a
// column of B and a row of D. A register holds neighbours along k, the groups' next registers go down 8 rows, and then
// on along k.

/// Of A: row, and column along k.
constexpr TileElement a_place(const MatrixInstruction& x, int thread, int i) {
  if (x.by_quads()) return {thread % 16 / 4, thread % 4 + thread / 16 * 4, i};
  const int group = thread / 4, within = thread % 4, e = per_register(x.a), r = i / e, rows = x.m / 8;
  return {0, group + r % rows * 8, (r / rows * 4 + within) * e + i % e};
}

/// Of B: row along k, and column.
constexpr TileElement b_place(const MatrixInstruction& x, int thread, int i) {
  if (x.by_quads()) return {thread % 16 / 4, i, thread % 4 + thread / 16 * 4};
  const int e = per_register(x.b);
  return {0, (i / e * 4 + thread % 4) * e + i % e, thread / 4};
}

/// Of C and D. Each warp of a warpgroup has 16 rows.
constexpr TileElement d_place(const MatrixInstruction& x, int thread, int i) {
  if (x.by_quads()) return {thread % 16 / 4, thread % 2 + (i & 2) + thread / 16 * 4, (i & 4) + (thread & 2) + i % 2};
  const int warp = thread / 32, lane = thread % 32;
  return {0, warp * 16 + lane / 4 + (i & 2) * 4, i / 4 * 8 + lane % 4 * 2 + i % 2};
}

// Shared memory: K-major, no swizzle.

// Core matrices of 8 rows (of A; columns of B) and 16 bytes along k are contiguous. An instruction takes 32 bytes along
// k: two of them, one after the other, then the next 8 rows.
inline constexpr int core_rows = 8, core_bytes = 16, step_bytes = 32;
inline constexpr int leading_offset = core_rows * core_bytes;                     ///< to the next core matrix along k
inline constexpr int stride_offset = leading_offset * (step_bytes / core_bytes);  ///< to the next along m or n
constexpr int shared_bytes(int rows) { return rows * step_bytes; }

/// Where byte `byte` along k of a row of A, or of a column of B, lies from the matrix's start on.
constexpr int shared_offset(int row, int byte) {
  return row / core_rows * stride_offset + byte / core_bytes * leading_offset + row % core_rows * core_bytes +
         byte % core_bytes;
}

/// The matrix descriptor of what lies at an address of shared memory, a multiple of 16. The base offset (bits 49 to 51)
/// and swizzle mode (62, 63) are 0.
constexpr std::uint64_t descriptor(std::uint32_t address) {
  const auto field = [](std::uint32_t bytes) { return std::uint64_t{(bytes & 0x3ffff) >> 4}; };
  return field(address) | field(leading_offset) << 16 | field(stride_offset) << 32;
}

// Device memory.

/// How the operands of a launch lie in memory. A is rows, B columns, of steps * k elements each. Tiles follow each
/// other.
struct OperandExtent {
  std::size_t steps;  ///< instructions along k
  /// false: a tile has n rows of A, n columns of B, n elements of C and of D, which are the diagonal: what row j and
  /// column j give. Rows of the instruction beyond n are copies. true: m rows, n columns, m x n elements, row after
  /// row.
  bool whole;
};

constexpr std::size_t a_index(const MatrixInstruction& x, const OperandExtent& e, std::size_t tile, std::size_t step,
                              int row, int column) {
  const std::size_t line = e.whole ? tile * x.m + row : tile * x.n + row % x.n;
  return (line * e.steps + step) * x.k + column;
}
constexpr std::size_t b_index(const MatrixInstruction& x, const OperandExtent& e, std::size_t tile, std::size_t step,
                              int row, int column) {
  return ((tile * x.n + column) * e.steps + step) * x.k + row;
}
constexpr std::size_t d_index(const MatrixInstruction& x, const OperandExtent& e, std::size_t tile, int row,
                              int column) {
  return e.whole ? (tile * x.m + row) * x.n + column : tile * x.n + column;
}
/// Whether an element of D is a result. (Of C there is one for every element: off the diagonal it does not matter
/// which.)
constexpr bool stored(const OperandExtent& e, int row, int column) { return e.whole || row == column; }

}  // namespace halfulp::cuda
