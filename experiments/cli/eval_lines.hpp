// `halfulp eval` one line at a time: Berkeley TestFloat's line format in, results or differences out.
#pragma once

#include <halfulp/emulation/operation.hpp>
#include <halfulp/experiments/cli/line_stream.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace halfulp::cli {

struct EvalOptions {
  Task task;
  std::uint64_t seed = 1;   ///< of stochastic rounding: case i takes rounding_bits(seed, 0, i)
  bool check = false;       ///< the columns after the operands are the expected result and, optionally, flags
  bool strict_nan = false;  ///< in a check, a NaN equals only the same NaN
};

/// Evaluates cases one after the other. Their operands, results and flags are hexadecimal code words ("3C00", "0x3c00")
/// separated by blanks; blank lines and lines that begin with # count for nothing.
class LineEvaluator : public LineHandler {
 public:
  /// Throws std::invalid_argument if the task is refused (`refusal`).
  explicit LineEvaluator(const EvalOptions& options);

  /// One line without its newline. Appends to `out` the operands, the result and the flags ("3C00 1000 3C00 01"); in a
  /// check only what differs, with what was expected and what came out. Throws std::invalid_argument saying what is
  /// wrong with the line and what is accepted, and leaves `out` as it was.
  void line(std::string_view text, std::string& out) override;

  std::uint64_t cases() const { return cases_; }
  std::uint64_t differing() const { return differing_; }

 private:
  struct Column {
    std::string name;  ///< "operand 1", "the expected result"
    int bits;
  };

  bool same_result(std::uint64_t expected, std::uint64_t result) const;

  EvalOptions options_;
  int arity_;
  int columns_ = 0;
  std::array<Column, 5> column_;  ///< operands, expected result, expected flags
  std::uint64_t cases_ = 0, differing_ = 0;
};

}  // namespace halfulp::cli
