// What is verified: the array functions where they have the operation, else the scalar ones.
#pragma once

#include <halfulp/hardware/backend.hpp>

#include <string>

namespace halfulp::verify {

class Subject {
 public:
  /// Precondition: refusal(task) is empty, no integer types, not stochastic.
  explicit Subject(const Task& task);

  bool is_array() const { return kind_ != Kind::scalar; }
  /// "apply (AVX3)", "decode, encode (AVX3)"; "decode (AVX3), encode (scalar)" where an array function has no vector
  /// kernel for the task; "scalar functions" where there is no array function.
  std::string description() const;
  /// Bytes of a result: the storage width of the format, 1 for truth values.
  std::size_t result_bytes() const { return bytes_; }
  /// Writes the results' code words, result_bytes() each.
  void run(const Operands& operands, std::span<std::byte> results) const;

 private:
  enum class Kind { scalar, apply, encode_floats, encode_doubles, recode };

  Task task_;
  Kind kind_ = Kind::scalar;
  std::size_t bytes_;
};

}  // namespace halfulp::verify
