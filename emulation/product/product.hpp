// Dot products and products of matrices by a product model, every rounding stated.
//
// Every output equals the scalar definition bit for bit, on any number of threads and with any instruction set:
// PlainDots (emulation/dot.hpp) of its row and column with stream = first_stream + i * n + j, or mma()
// (emulation/unit/unit.hpp). Where formats, modes and order allow it, vectors do the work (emulation/product/plan.hpp);
// the scalar definition does the rest. The caller's floating-point environment is saved, and restored afterwards.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/product/model.hpp>

#include <cstdint>
#include <optional>
#include <span>

namespace halfulp {

/// D = A B + C on code words; D has the format of the result. With k = 0, D is C, or +0. `d` has room for m x n words
/// as x.ldd places them; gaps between rows are not written. D may be the memory of C with the same leading dimension.
/// Throws std::invalid_argument, before it writes anything, for what product_refusal names, for sizes that do not
/// match, code words wider than their format, words too narrow for it, other overlaps, and scales where the model takes
/// none. Instantiated for std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t.
template <class Code>
void gemm(const ProductModel& model, const GemmOperands& x, std::span<Code> d, std::uint64_t first_stream = 0);

/// The same on floats. Precondition: they are values of the model's formats; so are the results. A NaN is float's
/// canonical one. Refuses formats whose values are not all floats, and matrix units with scales.
void gemm(const ProductModel& model, const FloatOperands& x, std::span<float> d, std::uint64_t first_stream = 0);

/// One dot product of code words, plus c if given: gemm with m = n = 1.
std::uint64_t dot(const ProductModel& model, const CodeWords& a, const CodeWords& b,
                  std::optional<std::uint64_t> c = {}, std::uint64_t stream = 0);

/// Whether vector instructions do most of the work of a model's products on this CPU.
bool has_vector_products(const ProductModel& model);

}  // namespace halfulp
