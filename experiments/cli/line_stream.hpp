// Commands that read one case a line from standard input: streams cut into lines, answers written at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace halfulp::cli {

/// What answers lines.
class LineHandler {
 public:
  virtual ~LineHandler() = default;
  /// One line without its newline. Appends its answer to `out`. Throws std::invalid_argument saying what is wrong with the
  /// line and what is accepted, and leaves `out` as it was.
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

/// Answers standard input on standard output until it ends. Whatever was answered is written before more is waited for, so
/// that two programs can talk through pipes; an error leaves the answers to the lines before it written.
void answer_input(LineHandler& handler);

/// The end of a check: writes "N checked, N differ" and sets `status` to 1 if any did. Throws std::invalid_argument if
/// nothing was checked.
void conclude_check(std::uint64_t cases, std::uint64_t differing, int& status);

}  // namespace halfulp::cli
