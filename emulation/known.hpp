// An operation that is known where it is called. `evaluate` of operation.hpp chooses among all; this one brings no
// other along: a small program that adds needs no exponential function.
#pragma once

#include <halfulp/emulation/operation.hpp>

namespace halfulp {

/// The same as evaluate(operation, f, rounding, a, b, c, random). Precondition: f.has_zero.
template <Operation operation>
Rounded evaluate(const FloatFormat& f, const Rounding& rounding, std::uint64_t a, std::uint64_t b = 0,
                 std::uint64_t c = 0, std::uint64_t random = 0) {
  return f.precision() <= 24 ? Definition<operation>::template of<std::uint64_t>(f, f, rounding, a, b, c, random)
                             : Definition<operation>::template of<uint128>(f, f, rounding, a, b, c, random);
}

}  // namespace halfulp
