// Rounding and arithmetic over arrays, at the speed of memory where the format and the CPU allow it.
//
// Results are those of the scalar functions (conversion.hpp, arithmetic.hpp), element by element, on any number of
// threads and with any instruction set; stochastic rounding takes random.bits(i) for element i.
// The caller's floating-point environment (directions, FTZ and DAZ, traps, exception flags) neither matters nor
// changes.
//
// Spans may have any length and alignment, zero included. Every function throws std::invalid_argument, before it writes
// anything, for spans of different lengths, for results that overlap operands other than by being the very same
// array, for code words wider than their type, for a format or a rounding that operation.hpp refuses, and for random
// words that several roundings share if these take more bits than a share has.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/random.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace halfulp {

/// What happened over an array. Counts add up; flags are ORed.
struct Tally {
  std::uint64_t elements = 0;   ///< elements looked at
  std::uint64_t nan = 0;        ///< results that are NaN
  std::uint64_t overflow = 0;   ///< elements that raised overflow
  std::uint64_t underflow = 0;  ///< elements that raised underflow: tiny and inexact
  std::uint64_t inexact = 0;    ///< elements that raised inexact
  std::uint64_t to_zero = 0;    ///< zero results that raised underflow
  std::uint64_t subnormal = 0;  ///< subnormal results
  Flags flags = 0;              ///< all flags raised
  /// Adds the counts of another array, ORs its flags.
  Tally& operator+=(const Tally& other);
  bool operator==(const Tally&) const = default;
};

/// Why roundings cannot share the words of a stream as it says, in one line; empty if they can.
std::string refusal(const Rounding& rounding, const RandomStream& random);

/// out[i] = the value of in[i] rounded to a format: decode(encode(in[i])). A NaN is the carrier's by rounding.nan.
/// `out` may be `in`. With a tally, what happened is added to it.
void quantize(const FloatFormat& f, const Rounding& rounding, std::span<const float> in, std::span<float> out,
              RandomStream random = {}, Tally* tally = nullptr);
/// The same for doubles.
void quantize(const FloatFormat& f, const Rounding& rounding, std::span<const double> in, std::span<double> out,
              RandomStream random = {}, Tally* tally = nullptr);

/// out[i] = the code word of in[i] rounded to a format.
template <class T, class Code>
void encode(const FloatFormat& f, const Rounding& rounding, std::span<const T> in, std::span<Code> out,
            RandomStream random = {}, Tally* tally = nullptr);

/// out[i] = the value of in[i], a code word whose upper bits are zero; NaN is the carrier's canonical one. Values that
/// are not floats (of formats wider than float) are rounded to nearest even.
template <class Code>
void decode(const FloatFormat& f, std::span<const Code> in, std::span<float> out);

/// out[i] = a[i] op b[i] (op c[i]) on code words: any operation but convert. Spans that an operation does not take are
/// empty. `out` may be one of the operands.
template <class Code>
void apply(Operation operation, const FloatFormat& f, const Rounding& rounding, std::span<const Code> a,
           std::span<const Code> b, std::span<const Code> c, std::span<Code> out, RandomStream random = {},
           Tally* tally = nullptr);

// Instantiated for T = float, double and Code = std::uint8_t, std::uint16_t, std::uint32_t.

/// out[i] = the result of any task on a[i], b[i], c[i], conversions from and to integers included, all as code words
/// that fit their types (which is not checked); `flags[i]`, where asked for, is what it raised. Operands that the
/// operation does not take are empty. Kernels do the work where they can and no flags are asked for, else the scalar
/// functions, on all cores. `between`, if given, is called between parts that take less than a second. Instantiated for
/// Code of 1, 2, 4 and 8 bytes.
template <class Code>
void compute(const Task& task, const CodeWords& a, const CodeWords& b, const CodeWords& c, std::span<Code> out,
             RandomStream random = {}, std::span<Flags> flags = {}, const std::function<void()>& between = {});

/// Which functions compute() takes where no flags are asked for: "apply (AVX3)", "decode, encode (AVX3)"; "decode
/// (AVX3), encode (scalar)" where one has no kernel for the task; "scalar functions" where no array function has the
/// task.
std::string computed_by(const Task& task);
/// Whether that is an array function.
bool array_has(const Task& task);

/// The instruction set that array functions use on this CPU: "AVX3" (AVX-512), "AVX2", "SSE4", "SCALAR"...
std::string_view array_instruction_set();

/// Array functions use nothing better from now on than the instruction set that the environment variable
/// HALFULP_INSTRUCTION_SET names, if it is there and not empty; results do not depend on it. Not while one runs. Throws
/// std::invalid_argument in one line for a set that this CPU or this build does not have.
void limit_array_instructions_by_environment();

/// Whether vector kernels in that instruction set do the work of encode and quantize from T (float or double), of
/// decode, of apply. Where they do not, and with a tally where subnormals are flushed, every element goes through the
/// scalar functions; but operations on two operands look results on long arrays of bytes up in a table of all of them.
/// Precondition: the function takes the format, the rounding and the operation.
template <class T>
bool encodes_in_vectors(const FloatFormat& f, const Rounding& rounding);
/// The same for decode.
bool decodes_in_vectors(const FloatFormat& f);
/// The same for apply.
bool applies_in_vectors(Operation operation, const FloatFormat& f, const Rounding& rounding);

}  // namespace halfulp
