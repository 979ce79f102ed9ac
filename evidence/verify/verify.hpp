// The engine: array functions held against a reference, chunk by chunk, on all cores.
#pragma once

#include <halfulp/evidence/comparison.hpp>
#include <halfulp/support/files.hpp>
#include <halfulp/hardware/inputs.hpp>
#include <halfulp/evidence/verify/reference.hpp>
#include <halfulp/evidence/verify/subject.hpp>
#include <halfulp/cuda/triples.hpp>

#include <functional>

namespace halfulp::verify {

/// Chunks of chunk_size inputs; triples beyond most_inputs come in pairs of magnitudes (triples.hpp).
inline std::uint64_t number_of_chunks(const Inputs& inputs) {
  return inputs.count > most_inputs ? triple_chunks : (inputs.count + chunk_size - 1) / chunk_size;
}

/// Computes chunk `index` and, with a judge, compares it, or lets a judge do so that makes chunks itself; where the
/// judge knows flags, the scalar functions' result and flags are compared as well. `advanced` is called from any thread
/// with the number of inputs just done; it may throw.
Chunk verify_chunk(const Task& task, const Inputs& inputs, const Judge* judge, std::uint64_t index,
                   const std::function<void(std::uint64_t)>& advanced = {});

/// verify_chunk for each of `indices`, a few at a time; `finished` gets them in that order, one at a time.
void verify_chunks(const Task& task, const Inputs& inputs, const Judge& judge, std::span<const std::uint64_t> indices,
                   const std::function<void(std::uint64_t)>& advanced, const std::function<void(Chunk)>& finished);

/// Inputs whose results compare_nans looks at, where there are more.
inline constexpr std::uint64_t nan_inputs = std::uint64_t{1} << 22;

/// Which NaN: the scalar functions under the backend's NaN rule against the backend itself, on those inputs (of a
/// sample of nan_inputs, where there are more) whose results are NaN; it stops after the first 2^20 of them or a little
/// more.
Comparison compare_nans(const Task& task, const Inputs& inputs, const Backend& backend);

}  // namespace halfulp::verify
