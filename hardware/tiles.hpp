// Operands for matrix instructions, each kind with a way of going wrong in mind.
#pragma once

#include <halfulp/hardware/matrix.hpp>

#include <array>

namespace halfulp {

enum class Tiles : std::uint8_t {
  random,      ///< any words
  near,        ///< finite numbers whose products and addend are close enough to meet
  cancelling,  ///< products that cancel each other, or the addend, all but a residue
  aligned,     ///< sparse significands, the small terms 0 to p + 16 places below the largest: where digits fall off
  subnormal,   ///< operands, products and addends around the smallest normal numbers
  special,     ///< zeros, infinities, NaNs of every kind and largest numbers among others
};

inline constexpr std::array<Named<Tiles>, 6> tile_kinds{{{"random", Tiles::random},
                                                         {"near", Tiles::near},
                                                         {"cancelling", Tiles::cancelling},
                                                         {"aligned", Tiles::aligned},
                                                         {"subnormal", Tiles::subnormal},
                                                         {"special", Tiles::special}}};

/// `count` cases of `k` products in the words of the shape, scales where it takes them. Case i is a function of the
/// other arguments and i alone: the same on every machine, and whatever the count is. Preconditions: k >= 1.
MatrixCases tiles(Tiles kind, const MatrixShape& shape, std::size_t k, std::size_t count, std::uint64_t seed);

}  // namespace halfulp
