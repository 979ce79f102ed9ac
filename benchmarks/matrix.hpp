// Products of matrices as matrix units compute them, beside a plain FP32 product of the same size and the interpreter.
#pragma once

namespace halfulp::bench {

/// Registers the rows "mma" of the table: n = 512, of a quick run 256.
void register_matrices(bool quick);

}  // namespace halfulp::bench
