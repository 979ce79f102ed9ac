// Something that computes outputs of a matrix instruction: a model, this CPU, a recording, a GPU.
#pragma once

#include <halfulp/emulation/unit/unit.hpp>
#include <halfulp/hardware/backend.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace halfulp {

/// What a matrix instruction takes and gives, without a word on how.
struct MatrixShape {
  FloatFormat a, b, accumulator;
  int k = 1;  ///< products of one instruction
  FloatFormat scale = {};
  int scale_block = 0;  ///< products that share a scale; 0: none
  bool operator==(const MatrixShape&) const = default;
};
MatrixShape shape_of(const MatrixUnit& unit);

/// Many outputs of one depth: case i has words a[i * k] ... a[i * k + k - 1], b likewise, c[i], and k / scale_block
/// scales (rounded up) of A and of B where the shape has them.
struct MatrixCases {
  std::size_t k = 0;
  std::vector<std::uint64_t> a, b, c, scale_a, scale_b;
  std::size_t size() const { return c.size(); }
  /// Operands of case i. Precondition: i < size().
  Products products(std::size_t i) const;
  /// Adds a case. Precondition: lengths as the others'.
  void add(const Products& products, std::uint64_t addend);
};

class MatrixDevice {
 public:
  virtual ~MatrixDevice() = default;
  virtual std::string name() const = 0;         ///< "emulated:hopper.mma.fp16.fp32", "x86:x86.avx512.bf16.fp32"
  virtual std::string description() const = 0;  ///< one line: which device, which instruction
  virtual Support available() const = 0;
  virtual MatrixShape shape() const = 0;
  /// d[i] = the output of case i. Preconditions: available().yes, d.size() == cases.size(), cases.k >= 1.
  virtual void run(const MatrixCases& cases, std::span<std::uint64_t> d) const = 0;
  /// known[i] = whether run() has an output of case i: a recording has those it was asked for, and its other outputs
  /// mean nothing. Preconditions as of run().
  virtual void answered(const MatrixCases&, std::span<char> known) const { std::fill(known.begin(), known.end(), 1); }
};

/// The model of a unit. Keeps a copy of it.
std::unique_ptr<MatrixDevice> emulated_matrix_device(const MatrixUnit& unit);

}  // namespace halfulp
