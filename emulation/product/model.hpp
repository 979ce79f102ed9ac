// A product model: how dot products are computed, as a value and as a text. It is a sum stage by stage or a matrix
// unit.
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
///   fp16                      the format of everything that no other item sets
///   in=F b=F                  of the operands; of the second one, if it differs
///   mul=STAGE | mul=exact     of products
///   acc=STAGE promote=STAGE   of running sums; of sums of blocks (of lanes)
///   out=STAGE                 of what is stored
///   order=sequential | blocked:N | pairwise[:N] | tree:W[:N] | interleaved:W      N terms a block, width or lanes W
///   comp=none|kahan|neumaier  seed=N
///   round=MODE overflow=ieee|saturate flush=none|inputs|outputs|both nan=RULE variant=V bits=N tininess=after|before
///
/// A STAGE is a format and its deviations from the last line, which applies to all stages:
/// fp16/toward-zero/flush:outputs. Without a bare format, `in` defaults to the format of products, else of the
/// accumulator; `mul` to that of the accumulator; `acc` to that of products, else of operands. Examples: "fp16",
/// "mul=fp16,acc=fp32,order=blocked:128", "hopper.mma.fp16.fp32". Throws std::invalid_argument in one line that says
/// what is wrong, the nearest names and what is accepted; also for a model that product_refusal refuses.
ProductModel parse_product_model(std::string_view text);

/// The shortest such text that reads back as this model, or a unit's name. Precondition: the formats have no defect.
/// (The part of a Rounding that concerns integers has no text, because no sum uses it.)
std::string product_model_name(const ProductModel& model);

}  // namespace halfulp
