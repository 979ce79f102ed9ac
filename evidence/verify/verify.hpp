// What `halfulp verify` does: array functions held against a reference, chunk by chunk, on all cores.
#pragma once

#include <halfulp/emulation/matrix.hpp>
#include <halfulp/evidence/verify/reference.hpp>
#include <halfulp/support/files.hpp>

#include <functional>
#include <string>

namespace halfulp::verify {

/// The functions that are verified: the array functions where they have the operation, else the scalar ones.
class VerifiedFunctions {
 public:
  /// Precondition: refusal(task) is empty, no integer types, not stochastic.
  explicit VerifiedFunctions(const Task& task);

  bool is_array() const;  ///< Whether an array function has the task.
  /// "apply (AVX3)", "decode, encode (AVX3)"; "decode (AVX3), encode (scalar)" where an array function has no vector
  /// kernel for the task; "scalar functions" where there is no array function.
  std::string description() const;
  /// Bytes of a result: the storage width of the format, 1 for truth values.
  std::size_t result_bytes() const { return bytes_; }
  /// Writes the results' code words, result_bytes() each.
  void run(const CodeWords& a, const CodeWords& b, const CodeWords& c, std::span<std::byte> results) const;

 private:
  Task task_;
  std::size_t bytes_;
};

/// Chunks of chunk_size cases; all triples of 16 bits come in pairs of magnitudes (triples.hpp).
inline std::uint64_t number_of_chunks(const OperandSet& operands) {
  return operands.all_triples() ? triple_chunks : (operands.count + chunk_size - 1) / chunk_size;
}

/// Computes chunk `index` and, with a reference, compares it, or lets a reference do so that makes chunks itself. Where
/// the reference knows flags, the scalar functions' results and flags are compared as well.
Chunk verify_chunk(const Task& task, const OperandSet& operands, const Reference* reference, std::uint64_t index,
                   const Advanced& advanced = {});

/// verify_chunk for each of `indices`, a few at a time; `finished` gets them in that order, one at a time.
void verify_chunks(const Task& task, const OperandSet& operands, const Reference& reference,
                   std::span<const std::uint64_t> indices, const Advanced& advanced,
                   const std::function<void(Chunk)>& finished);

/// How many cases compare_nans looks at, where there are more.
inline constexpr std::uint64_t nan_operands = std::uint64_t{1} << 22;

/// Which NaN: the scalar functions under the device's NaN rule against the device itself, on those cases (of a sample
/// of nan_operands, where there are more that no list holds) whose results are NaN. It stops after the first 2^20 of
/// them or a little more.
TaskComparison compare_nans(const Task& task, const OperandSet& operands, const Device& device);

}  // namespace halfulp::verify
