// The kernels of a device, and what they take. Pointers are to device memory.
#pragma once

#include <halfulp/cuda/gpu.hpp>
#include <halfulp/cuda/instructions.hpp>
#include <halfulp/cuda/narrow.hpp>
#include <halfulp/cuda/programs.hpp>

#include <halfulp/emulation/random.hpp>
#include <halfulp/cuda/triples.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace halfulp::cuda {

/// results[i] = instruction on code words. Columns that an operation does not take are null.
struct ElementwiseArgs {
  const std::uint64_t *a = nullptr, *b = nullptr, *c = nullptr;
  std::uint64_t* results = nullptr;
  std::size_t count = 0;
};

/// What a verification kernel adds up: the cases it computed (for triples, values of c), those of them that differ (for
/// triples, the triples they stand for), and for triples a digest, a sum modulo 2^64.
struct Counts {
  std::uint64_t done = 0, differing = 0, digest = 0;
};

/// An instruction beside halfulp's own arithmetic, on inputs from number `begin` on in the order of OperandSet: all
/// code words, the last operand fastest; or, where columns are given, on those.
struct SweepArgs {
  const std::uint64_t *a = nullptr, *b = nullptr, *c = nullptr;
  std::uint64_t begin = 0, count = 0;
  std::uint8_t *ours = nullptr,
               *theirs = nullptr;  ///< code words in the result format's storage width, NaN made canonical
  Counts* counts = nullptr;        ///< added to
};

/// A 16-bit fma to nearest on every c for some pairs of magnitudes of a and b (triples.hpp).
struct TriplesArgs {
  std::uint64_t begin = 0, count = 0;          ///< pairs, by number
  Counts* counts = nullptr;                    ///< added to
  verify::TripleWitness* witnesses = nullptr;  ///< room for verify::max_triples
};

/// Floats rounded to a format by a plan (narrow.hpp). `out` holds floats, or code words of `bytes` bytes; element i
/// takes random.bits(i).
struct NarrowArgs {
  NarrowPlan plan{};
  const float* in = nullptr;
  void* out = nullptr;
  int bytes = 0;  ///< of a code word, 1 or 2; 0: floats
  std::size_t count = 0;
  RandomStream random = {};
};

/// Code words of `bytes` bytes, 1 or 2, as floats.
struct WidenArgs {
  array::WidenPlan plan{};
  const void* in = nullptr;
  int bytes = 0;
  float* out = nullptr;
  std::size_t count = 0;
};

/// results[r] = the sum of terms[r * length], ... `length` terms: code words of one format.
struct SumsArgs {
  const std::uint64_t* terms = nullptr;
  std::uint64_t* results = nullptr;
  std::size_t rows = 0, length = 0;
};

/// A program of programs.hpp on code words; integers are the low 32 bits of a word. Element-wise programs take element
/// i of each input and have length 1. Of the others, x and the output have rows * length elements, scale and shift
/// `length`, eps `rows`.
struct ProgramArgs {
  std::array<const std::uint64_t*, max_inputs> inputs{};
  std::array<std::uint64_t*, max_outputs> outputs{};
  std::size_t rows = 0, length = 1;
};

/// D = A B + C by a matrix instruction, chained along k. Elements in the width of their format, tf32 in 32 bits; how
/// they lie is said in fragments.hpp (Extent).
struct MatrixArgs {
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  std::uint64_t* d = nullptr;  ///< words, so that one never written shows
  std::size_t tiles = 0;       ///< a multiple of those that one instruction multiplies
  std::size_t steps = 0;       ///< instructions along k, at least 1
  bool whole = false;          ///< whole tiles, or their diagonals
};

/// Each member puts work into a lane and returns. Preconditions: the device has the architecture that the row needs.
class Kernels {
 public:
  virtual ~Kernels() = default;
  /// Row of instructions().
  virtual void elementwise(Lane lane, std::size_t row, const ElementwiseArgs& x) const = 0;
  /// Precondition: sweeps(instructions()[row]).
  virtual void sweep(Lane lane, std::size_t row, const SweepArgs& x) const = 0;
  /// fp16 or bf16.
  virtual void triples(Lane lane, const FloatFormat& f, const TriplesArgs& x) const = 0;
  /// halfulp's own quantize and encode.
  virtual void narrow(Lane lane, const NarrowArgs& x) const = 0;
  /// halfulp's own decode.
  virtual void widen(Lane lane, const WidenArgs& x) const = 0;
  /// fp16, bf16 or fp32.
  virtual void sums(Lane lane, const FloatFormat& f, GpuSumOrder order, const SumsArgs& x) const = 0;
  /// fp16 or bf16.
  virtual void program(Lane lane, const FloatFormat& f, Program program, const ProgramArgs& x) const = 0;
  /// Row of matrix_rows().
  virtual void matrix(Lane lane, std::size_t row, const MatrixArgs& x) const = 0;
};

}  // namespace halfulp::cuda
