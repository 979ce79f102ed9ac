// Code words in lines of text: hexadecimal digits between blanks.
#pragma once

#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/unit/unit.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::cli {

/// Takes the next word off the front of a line; empty at its end. Blanks, tabs and carriage returns separate
/// words.
std::string_view take_word(std::string_view& text);

/// The code word of at most `bits` bits that a word spells ("3C00", "0x3c00") into `code`. False if it spells none.
bool read_hex_word(std::string_view word, int bits, std::uint64_t& code);

/// What is wrong with a word that read_hex_word refused: "operand 1 is 'zz'; accepted: 4 hexadecimal digits".
std::string hex_word_refusal(std::string_view name, std::string_view word, int bits);

/// Appends a code word of that many bits, in upper case, all its digits.
void append_hex_word(std::string& out, std::uint64_t code, int bits);

// Commands that read one case a line from standard input: streams cut into lines, answers written at once.

/// What answers lines.
class LineHandler {
 public:
  virtual ~LineHandler() = default;
  /// One line without its newline. Appends its answer to `out`. Throws std::invalid_argument saying what is wrong with
  /// the line and what is accepted, and leaves `out` as it was.
  virtual void line(std::string_view text, std::string& out) = 0;
  /// The same with the line's number, from 1, for handlers whose answers name it.
  virtual void numbered_line(std::uint64_t, std::string_view text, std::string& out) { line(text, out); }
  /// Longest line accepted, in characters.
  virtual std::size_t longest_line() const { return 4096; }
};

/// Feeds a stream to a handler, block by block: cuts it into lines wherever the blocks end and numbers them.
class LineStream {
 public:
  explicit LineStream(LineHandler& handler) : handler_(handler) {}
  /// Throws std::invalid_argument naming the line; `out` then holds what the complete lines before it gave.
  void feed(std::string_view block, std::string& out);
  /// The last line, where no newline ended it.
  void finish(std::string& out);

 private:
  void line(std::string_view text, std::string& out);

  LineHandler& handler_;
  std::string pending_;  ///< the beginning of a line whose end has not come yet
  std::uint64_t number_ = 0;
};

/// Answers standard input on standard output until it ends. Whatever was answered is written before more is waited for,
/// so that two programs can talk through pipes; an error leaves the answers to the lines before it written.
void answer_input(LineHandler& handler);

/// What `--check` compares and shows.
struct CheckOptions {
  bool check = false;               ///< lines end with the answer of a device or a simulation, to compare with ours
  bool strict_nan = false;          ///< a NaN equals only the same NaN
  std::uint64_t show = UINT64_MAX;  ///< at most so many of the lines that differ are written
};

/// A line is one case, and a check counts them.
class CaseHandler : public LineHandler {
 public:
  std::uint64_t cases() const { return cases_; }
  std::uint64_t differing() const { return differing_; }

 protected:
  /// Counts a case that differs. False where its line is not to be written.
  bool shows_difference(const CheckOptions& options) { return ++differing_ <= options.show; }
  std::uint64_t cases_ = 0;

 private:
  std::uint64_t differing_ = 0;
};

/// Answers standard input. In a check it then writes "N checked, N differ", and sets `status` to 1 if any did. Throws
/// std::invalid_argument if nothing was checked.
void answer_cases(CaseHandler& handler, const CheckOptions& options, int& status);
/// The end of that, for cases that were answered otherwise.
void conclude_check(const CaseHandler& handler, int& status);

// `halfulp eval` one line at a time: Berkeley TestFloat's line format in, results or differences out.

struct EvalOptions : CheckOptions {
  Task task;
  std::uint64_t seed = 1;  ///< of stochastic rounding: case i takes rounding_bits(seed, 0, i)
};

/// Evaluates cases one after the other. Their operands, results and flags are hexadecimal code words ("3C00", "0x3c00")
/// separated by blanks; blank lines and lines that begin with # are skipped.
class LineEvaluator : public CaseHandler {
 public:
  /// Throws std::invalid_argument if the task is refused (`refusal`).
  explicit LineEvaluator(const EvalOptions& options);

  /// One line without its newline. Appends to `out` the operands, the result and the flags ("3C00 1000 3C00 01"); in a
  /// check only what differs: the line's number, the operands, the line's result and ours. Throws std::invalid_argument
  /// saying what is wrong with the line and what is accepted, and leaves `out` as it was.
  void numbered_line(std::uint64_t number, std::string_view text, std::string& out) override;
  void line(std::string_view text, std::string& out) override { numbered_line(0, text, out); }

  /// Appends the answer to a case of these operands; those that the operation does not take are ignored.
  void answer(const std::array<std::uint64_t, 3>& operands, std::string& out);

 private:
  struct Column {
    std::string name;  ///< "operand 1", "the line's result"
    int bits;
  };

  Rounded evaluated(const std::uint64_t* operands);
  bool same_result(std::uint64_t given, std::uint64_t result) const;
  void write_operands(const std::uint64_t* operands, std::string& out) const;
  void write_result(const Rounded& result, bool flags, std::string& out) const;

  EvalOptions options_;
  int arity_;
  int columns_ = 0;
  std::array<Column, 5> column_;  ///< operands, the line's result and flags
};

// `halfulp mma` one line at a time: operands of one output in, its code word or a difference out.

struct MmaOptions : CheckOptions {
  bool values = false;  ///< words are numbers, rounded to nearest even to the unit's formats; D is written as one
};

/// Outputs of a matrix unit, one per line. Bars separate a line's groups, blanks their hexadecimal code words: K words
/// of a row of A | K of a column of B | one of C, for scaled units | scales of A | scales of B, in a check | D. Blank
/// lines and lines that begin with # are skipped.
class MmaEvaluator : public CaseHandler {
 public:
  /// Keeps a reference to the unit.
  MmaEvaluator(const MatrixUnit& unit, const MmaOptions& options);

  /// Appends the word of D; in a check only what differs: the line's number, its word, ours, how far apart they are, in
  /// code words, where both are finite, and the operands where they are few.
  void numbered_line(std::uint64_t number, std::string_view text, std::string& out) override;
  void line(std::string_view text, std::string& out) override { numbered_line(0, text, out); }
  std::size_t longest_line() const override { return std::size_t{64} << 20; }  // 10^7 words and more

  /// Appends the whole line of a case whose groups are these words: operands, scales, D.
  void answer(const DotOperands& products, std::uint64_t c, std::string& out);
  /// What of `values` was beyond its format's range, in one line: "2 values are beyond their format's range, the first
  /// in line 3: word 1 of A, 500 (e4m3 ends at 448)". Empty if none was; an infinity that is written so is meant.
  std::string overflows() const;

 private:
  struct Group {
    std::string name;  ///< "A", "scales of A"
    FloatFormat format;
    bool one;               ///< holds one word, not a vector
    bool is_scale = false;  ///< unsigned: the sign of a code word is ignored
    std::vector<std::uint64_t> words = {};
  };

  std::string accepted() const;
  std::uint64_t read(const Group& group, std::string_view word);
  void write(const FloatFormat& format, std::uint64_t word, std::string& out) const;
  void write_difference(std::uint64_t number, std::uint64_t given, std::uint64_t d, std::string& out) const;

  const MatrixUnit& unit_;
  MmaOptions options_;
  std::vector<Group> groups_;
  std::uint64_t line_ = 0, overflows_ = 0;
  std::string first_overflow_;
};

}  // namespace halfulp::cli
