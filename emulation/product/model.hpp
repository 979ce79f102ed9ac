// How dot products are computed, as one value with one text: single operations that are stated, or a matrix unit.
#pragma once

#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/unit/unit.hpp>

#include <string>
#include <string_view>
#include <variant>

namespace halfulp {

/// A model of sums stage by stage, or a matrix unit.
using ProductModel = std::variant<DotModel, MatrixUnit>;

/// The formats of the operands and of the result.
const FloatFormat& format_of_a(const ProductModel& model);
const FloatFormat& format_of_b(const ProductModel& model);       ///< The format of the second operand's code words.
const FloatFormat& format_of_result(const ProductModel& model);  ///< The format of results' code words.
/// Bits of the words of a format under a model: a unit takes tf32 in 32-bit words, a DotModel in its 19 bits.
int word_bits(const ProductModel& model, const FloatFormat& f);

/// Why a model's dot products are refused, in one line; empty if they are not.
std::string product_refusal(const ProductModel& model);

/// Reads a matrix unit's name, or a DotModel as items between commas:
///
///   fp16                      the format of everything that no other item says
///   in=F b=F                  of the operands; of the second one, if another
///   mul=STAGE | mul=exact     of products
///   acc=STAGE promote=STAGE   of running sums; of sums of blocks (of lanes)
///   out=STAGE                 of what is stored
///   order=sequential | blocked:N | pairwise[:N] | tree:W[:N] | interleaved:W      N terms a block, width or lanes W
///   comp=none|kahan|neumaier  seed=N
///   round=MODE overflow=ieee|saturate flush=none|inputs|outputs|both nan=RULE variant=V bits=N tininess=after|before
///
/// A STAGE is a format and what it does otherwise than the last line says of all stages:
/// fp16/toward-zero/flush:outputs. Without a bare format: `in` is that of products, else of the accumulator; `mul` that
/// of the accumulator, and `acc` that of products, else of operands. "fp16", "mul=fp16,acc=fp32,order=blocked:128",
/// "hopper.mma.fp16.fp32". Throws std::invalid_argument with one line: what is wrong, the nearest names, what is
/// accepted; also for a model that product_refusal refuses.
ProductModel parse_product_model(std::string_view text);

/// The shortest such text that reads back as this model, whose formats have no defect; a unit's own name. (What a
/// Rounding says about integers has no text: no sum asks for it.)
std::string product_model_name(const ProductModel& model);

}  // namespace halfulp
