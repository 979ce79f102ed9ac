// A fused sum of terms: what every rule that aligns terms to one quantum ends in.
#pragma once

#include <halfulp/emulation/units/terms.hpp>

namespace halfulp::units {

/// The sum of terms by unit.sum, as a word of the accumulator. Where a term is NaN or Inf, that.
std::uint64_t fused_sum(const MatrixUnit& unit, std::span<const Term> terms);

/// The word of a NaN or an infinity. Precondition: special.kind is one of these.
std::uint64_t special_result(const MatrixUnit& unit, const Special& special);

}  // namespace halfulp::units
