// Operands of matrix products as a policy stores them: the product model of their elements, and their scales.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/product/model.hpp>
#include <halfulp/training/layers/numerics.hpp>
#include <halfulp/training/storage.hpp>

#include <span>
#include <string>
#include <vector>

namespace halfulp::training {

/// Whether an operator has matrix products.
constexpr bool multiplies(OperatorKind kind) {
  return kind == OperatorKind::linear || kind == OperatorKind::conv2d || kind == OperatorKind::attention_scores ||
         kind == OperatorKind::attention_values || kind == OperatorKind::lstm_cell;
}

/// The format in which a storage's elements enter a product, as floats. Elements with folded scales (`folds`), integers
/// and unrounded floats count as fp32.
FloatFormat element_format(const Storage& storage);

/// Whether scales are multiplied into the elements before products. That is done where fp32 holds the product of two
/// such values exactly, because elements and scales have few digits (MX, NVFP4): then it makes no difference when the
/// scale comes in.
bool folds(const Storage& storage);

/// The model of a product of such operands. `accumulate` is the text of a product model without operand formats, or the
/// name of a matrix unit. Throws std::invalid_argument in one line that begins with `where`, for what
/// parse_product_model refuses, and for units that take other formats or scales, or whose results are not floats.
ProductModel operand_model(const std::string& accumulate, const Storage& a, const Storage& b, const std::string& where);

/// One operand of a product as a policy stores it: elements that a model multiplies, and the scales that meet their
/// sums afterwards. Its rows lie along k: a row of A, a column of B.
struct PolicyOperand {
  std::vector<float> buffer;
  std::vector<float> turned;        ///< what came in columns, of blocks that are counted
  std::span<const float> elements;  ///< of the buffer, or the caller's memory where nothing is rounded
  bool transposed = false;          ///< memory has k rows instead
  std::vector<float> scales = {};   ///< those that are not in the elements, row by row of blocks; empty: none
  BlockGrid grid = {};              ///< where they are
  float outer = 1;                  ///< the scale of the whole tensor

  bool scaled() const { return !scales.empty() || outer != 1; }

  /// Takes a matrix of rows x k (k x rows in memory, if in_columns) and rounds it into the storage. `amax`:
  /// BlockOptions::amax. With a tally, what rounding did is added.
  void take(const Storage& storage, std::span<const float> memory, std::size_t rows, std::size_t k, bool in_columns,
            RandomStream random, std::optional<float> amax, Tally* tally);
  /// What a product takes of a matrix of rows x k: elements times scales in fp32. Precondition: not transposed.
  void values(std::size_t rows, std::size_t k, std::vector<float>& to) const;

 private:
  void take_integers(const Storage& storage, std::span<const float> by_rows, std::size_t rows, std::size_t k,
                     const BlockOptions& options, std::span<float> own);
};

/// The elements of both operands of a product, without their scales.
FloatOperands elements_of(const PolicyOperand& a, const PolicyOperand& b, std::size_t m, std::size_t n, std::size_t k);

/// d = A B^T by the model, with the scales of both operands as block_gemm (emulation/block/product.hpp) applies them.
void multiply_scaled(const ProductModel& model, const PolicyOperand& a, const PolicyOperand& b, std::size_t m,
                     std::size_t n, std::size_t k, std::uint64_t first_stream, std::span<float> d);

}  // namespace halfulp::training
