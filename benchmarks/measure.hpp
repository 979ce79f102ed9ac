// Rows as benchmarks of Google Benchmark, named ROW/WHO, or limit/BYTES/SIZE/THREADS/HOW.
#pragma once

#include "peers/peer.hpp"
#include "row.hpp"

#include <vector>

namespace halfulp::bench {

/// Registers all rows: ours with the CPU's best instruction set and with AVX2, the scalar functions, those of the
/// peers, and what limits them: copies of as many bytes, and in the first-level cache the yardsticks.
void register_rows(const std::vector<Row>& rows, const std::vector<Peer>& peers, const Peer& yardsticks);

}  // namespace halfulp::bench
