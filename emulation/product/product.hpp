// Dot products and products of matrices as a product model computes them, every rounding stated.
//
// Every output is the scalar definition's, bit for bit, on any number of threads and with any instruction set:
// PlainDots (dot.hpp) of its row and column with stream = first_stream + i * n + j, or mma() (units/unit.hpp). Where
// formats, modes and order allow it, vectors do the work (emulation/product/plan.hpp); everything else goes through the
// scalar definition. The floating-point environment may be any: it is put aside meanwhile.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/product/model.hpp>

#include <cstdint>
#include <optional>
#include <span>

namespace halfulp {

/// D = A B + C on code words, D in the format of the result. With k = 0, D is C, or +0. `d` has room for m x n words as
/// x.ldd places them; what lies between rows stays. It may be the memory of C, placed alike; other overlaps are
/// refused. Throws std::invalid_argument, before it writes anything: product_refusal, sizes that do not fit, words
/// wider than their format, words too narrow for it, overlaps, scales where the model takes none. Instantiated for
/// std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t.
template <class Code>
void gemm(const ProductModel& model, const GemmOperands& x, std::span<Code> d, std::uint64_t first_stream = 0);

/// The same on values as floats: of a, b and c in the formats of the model, which they must be (precondition), and so
/// are the results. A NaN is float's canonical one. Refuses formats whose values are not all floats, and matrix units
/// with scales.
void gemm(const ProductModel& model, const FloatOperands& x, std::span<float> d, std::uint64_t first_stream = 0);

/// One dot product of code words, plus c if there is one: gemm with m = n = 1.
std::uint64_t dot(const ProductModel& model, const CodeWords& a, const CodeWords& b,
                  std::optional<std::uint64_t> c = {}, std::uint64_t stream = 0);

/// Whether vectors do most of the work of a model's products on this CPU.
bool has_vector_products(const ProductModel& model);

}  // namespace halfulp
