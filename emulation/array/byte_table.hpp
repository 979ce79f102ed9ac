// All results of an operation on two code words of up to 8 bits, for arrays that are longer than the table.
#pragma once

#include <halfulp/emulation/operation.hpp>

#include <array>
#include <functional>
#include <memory>
#include <span>

namespace halfulp::array {

/// results[a << 8 | b]. Upper bits of code words count as zero.
using ByteTable = std::array<std::uint8_t, 1 << 16>;

/// The table of an operation, from all a and all b to all results. `fill` makes it unless it is among the last ones,
/// which are kept. Safe for any number of threads.
using FillTable = std::function<void(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b,
                                     std::span<std::uint8_t> results)>;
std::shared_ptr<const ByteTable> byte_table(Operation operation, const FloatFormat& f, const Rounding& rounding,
                                            const FillTable& fill);

/// out[i] = results[a[i] << 8 | b[i]]. `out` may be a or b.
void look_up(const ByteTable& results, const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* out,
             std::size_t count);

}  // namespace halfulp::array
