// `halfulp mma` one line at a time: operands of one output in, its code word or a difference out.
#pragma once

#include <halfulp/emulation/units/unit.hpp>
#include <halfulp/experiments/cli/line_stream.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace halfulp::cli {

struct MmaOptions {
  bool check = false;       ///< a last group is the expected word of D
  bool strict_nan = false;  ///< in a check, a NaN equals only the same NaN
  bool values = false;      ///< words are numbers, rounded to nearest even to the unit's formats; D is written as one
};

/// Outputs of a matrix unit, one a line. A line's groups stand between bars, their hexadecimal code words between blanks:
/// K words of a row of A | K of a column of B | one of C, for scaled units | scales of A | scales of B, in a check | D.
/// Blank lines and lines that begin with # count for nothing.
class MmaEvaluator : public LineHandler {
 public:
  /// Keeps a reference to the unit.
  MmaEvaluator(const MatrixUnit& unit, const MmaOptions& options);

  /// Appends the word of D; in a check only what differs: the line's number, the word that came out, the one expected, how
  /// far apart they are, in code words, where both are finite, and the operands where they are few.
  void numbered_line(std::uint64_t number, std::string_view text, std::string& out) override;
  void line(std::string_view text, std::string& out) override { numbered_line(0, text, out); }
  std::size_t longest_line() const override { return std::size_t{1} << 20; }

  std::uint64_t cases() const { return cases_; }
  std::uint64_t differing() const { return differing_; }

 private:
  struct Group {
    std::string name;  ///< "A", "scales of A"
    FloatFormat format;
    bool one;          ///< holds one word, not a vector
    bool is_scale = false;  ///< unsigned: the sign of a code word is ignored
    std::vector<std::uint64_t> words = {};
  };

  std::string accepted() const;
  std::uint64_t read(const Group& group, std::string_view word) const;
  void write(const FloatFormat& format, std::uint64_t word, std::string& out) const;
  void write_difference(std::uint64_t number, std::uint64_t d, std::uint64_t expected, std::string& out) const;

  const MatrixUnit& unit_;
  MmaOptions options_;
  std::vector<Group> groups_;
  std::uint64_t cases_ = 0, differing_ = 0;
};

}  // namespace halfulp::cli
