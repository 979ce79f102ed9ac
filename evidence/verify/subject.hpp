// What is verified: the array functions where they have the operation, else the scalar ones.
#pragma once

#include <halfulp/hardware/backend.hpp>

#include <string>

namespace halfulp::verify {

class Subject {
 public:
  /// Precondition: refusal(task) is empty, no integer types, not stochastic.
  explicit Subject(const Task& task);

  bool is_array() const;            ///< Whether an array function has the task.
  std::string description() const;  ///< computed_by(task): "apply (AVX3)", "scalar functions".
  /// Bytes of a result: the storage width of the format, 1 for truth values.
  std::size_t result_bytes() const { return bytes_; }
  /// Writes the results' code words, result_bytes() each.
  void run(const Operands& operands, std::span<std::byte> results) const;

 private:
  Task task_;
  std::size_t bytes_;
};

}  // namespace halfulp::verify
