// The parameters of a fused sum one by one, as integers, so that a search can go over them.
#pragma once

#include <halfulp/hardware/matrix/device.hpp>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::probe {

enum class Parameter : std::uint8_t {
  length, grouping, direction, alignment_bits, alignment, normalized, least_exponent, kept, rounding, flush_inputs, flush_outputs, zero, nan,
};

struct ParameterInfo {
  Parameter parameter;
  std::string_view name;     ///< as FusedSum's member
  std::string_view meaning;  ///< a few words
};
inline constexpr std::array<ParameterInfo, 13> parameters{{
    {Parameter::length, "length", "products that are added at once"},
    {Parameter::grouping, "grouping", "which products along k one sum takes"},
    {Parameter::direction, "direction", "which sum comes first"},
    {Parameter::alignment_bits, "alignment_bits", "bits below the largest exponent that a term keeps"},
    {Parameter::alignment, "alignment", "how a term is cut to them"},
    {Parameter::normalized, "normalized_products", "whether a product's significand is brought to [1, 2) before"},
    {Parameter::least_exponent, "least_exponent", "the largest exponent counts as at least this"},
    {Parameter::kept, "kept", "fraction bits of the result"},
    {Parameter::rounding, "rounding", "how the sum is rounded to them"},
    {Parameter::flush_inputs, "flush_inputs", "whether subnormal operands count as zero"},
    {Parameter::flush_outputs, "flush_outputs", "whether tiny results become zero"},
    {Parameter::zero, "zero", "the sign of a zero"},
    {Parameter::nan, "nan", "the code word of a NaN"},
}};
constexpr const ParameterInfo& info(Parameter p) { return parameters[static_cast<std::size_t>(p)]; }

/// A parameter as an integer: lengths and exponents themselves, enumerators and flags their number, kept its fraction bits.
std::int64_t get(const FusedSum& sum, Parameter p);
void set(FusedSum& sum, Parameter p, std::int64_t value);

/// The values that the probe tries, plainest first: lengths that divide k, 0 to 60 alignment bits, no least exponent or one
/// from below every term to 0, 1 to all fraction bits, every deterministic rounding mode. None for the NaN, which is read off.
std::vector<std::int64_t> candidates(const MatrixShape& shape, Parameter p);

/// A value for people: "16", "toward-zero", "none", "7FFFFFFF".
std::string text(const MatrixShape& shape, Parameter p, std::int64_t value);

/// Of a product and of an addend in a shape: the least and the largest exponent, and that of the last bit that can be set.
struct Reach {
  int least, largest, last;
};
Reach product_reach(const MatrixShape& shape, bool normalized);
Reach addend_reach(const MatrixShape& shape, bool normalized);

}  // namespace halfulp::probe
