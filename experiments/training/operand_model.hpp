// How operands that are stored somehow are multiplied: the product model of their elements, and what remains of their scales.
#pragma once

#include <halfulp/emulation/product_model.hpp>
#include <halfulp/experiments/training/site.hpp>
#include <halfulp/experiments/training/storage.hpp>

#include <string>

namespace halfulp::training {

/// Whether an operator has matrix products.
constexpr bool multiplies(OperatorKind kind) {
  return kind == OperatorKind::linear || kind == OperatorKind::conv2d || kind == OperatorKind::attention_scores || kind == OperatorKind::attention_values ||
         kind == OperatorKind::lstm_cell;
}

/// The format in which a storage's elements enter a product, as floats. Elements whose scales are folded into them (`folds`), integers
/// and floats as they are count as fp32.
FloatFormat element_format(const Storage& storage);

/// Whether scales are multiplied into the elements before products: where a product of two such values is exact in fp32, since
/// elements and scales have few digits (MX, NVFP4), so that it matters to nobody when the scale comes in.
bool folds(const Storage& storage);

/// The model of a product of such operands: `accumulate` is a product model's text that says nothing of operands, or a matrix unit.
/// Throws std::invalid_argument in one line that begins with `where`: what parse_product_model refuses, units for other formats, with
/// scales of their own, or with results that are no floats.
ProductModel operand_model(const std::string& accumulate, const Storage& a, const Storage& b, const std::string& where);

}  // namespace halfulp::training
