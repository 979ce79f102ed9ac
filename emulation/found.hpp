// Operations found once, by format, and then called for many operands one by one. The results are those of `evaluate`.
#pragma once

#include <halfulp/emulation/operation.hpp>

namespace halfulp {

/// An operation on code words of `f`, rounded by `r`.
using FoundOperation = Rounded (*)(const FloatFormat& f, const Rounding& r, std::uint64_t a, std::uint64_t b,
                                   std::uint64_t c, std::uint64_t random);
/// It has to be called with this format.
FoundOperation find_operation(Operation operation, const FloatFormat& f);

/// A code word of `from` in `to`.
using FoundConversion = Rounded (*)(const NumberType& from, const FloatFormat& to, const Rounding& r,
                                    std::uint64_t code, std::uint64_t random);
/// It has to be called with these types.
FoundConversion find_conversion(const NumberType& from, const FloatFormat& to);

}  // namespace halfulp
