// halfulp's own ways of doing a row.
#pragma once

#include "operands.hpp"

namespace halfulp::bench {

/// emulation/array/array.hpp.
Run array_function(const Row& row);
/// The scalar functions `convert` and `evaluate` in a loop.
Run scalar_function(const Row& row);

}  // namespace halfulp::bench
