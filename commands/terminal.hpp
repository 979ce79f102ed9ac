// Standard input, output and errors of the command line in memory, for a program that runs it as a function.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::cli {

/// While one lives, commands read `input` and write into `output` and `error` instead of the process's own streams.
/// Only one may live at a time. Progress bars still go to the terminal; `--quiet` keeps them away.
class Captured {
 public:
  explicit Captured(std::string_view input = {});
  ~Captured();
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  /// The one that lives, or nullptr.
  static Captured* current();

  /// Copies what comes next of the input into a block; 0 at its end.
  std::size_t read(std::span<char> block);

  std::string output, error;

 private:
  std::string_view input_;
};

// Standard input and output that lose nothing in silence (or those in memory, see Captured), and text in columns and
// lines.

/// Writes all of `text` to standard output at once. Throws std::invalid_argument in one line where it cannot be written
/// (a full disk); a reader that went away (`| head`) ends the program quietly, by SIGPIPE.
void write_output(std::string_view text);

/// Writes to standard error and ignores failures.
void write_error(std::string_view text);

/// Fills a block with what comes next on standard input: how much that is, 0 at its end. Throws std::invalid_argument
/// in one line where it cannot be read.
std::size_t read_input(std::span<char> block);

/// Rows with their columns aligned, two blanks between them and `indent` before; empty columns vanish. The columns
/// named in `numbers` are aligned to the right, all others to the left. Widths are those on a terminal (display_width).
/// On a terminal that is too narrow, cells of several words take several lines (aligned_within); what another program
/// reads has a line for each row.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t indent,
                    const std::set<std::size_t>& numbers = {});

/// The same for lines of at most `width` characters. The widest columns become narrower, down to their longest words;
/// numbers, and cells with escape sequences, stay whole. Where that is not enough, each row is one line.
std::string aligned_within(std::size_t width, const std::vector<std::vector<std::string>>& rows, std::size_t indent,
                           const std::set<std::size_t>& numbers = {});

/// At most `width` bytes of a text, whole UTF-8 characters; the rest is "...". Precondition: width >= 3.
std::string cut(std::string_view text, std::size_t width);

/// Text broken between words into lines of at most `width` characters, each behind `indent` blanks; a longer word
/// has a line of its own.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = 80);

// What a terminal can show: colours by what they say, Unicode, and how wide a text is there.

/// What a colour says. Words, labels or places always say it too.
enum class Paint : std::uint8_t { heading, sign, exponent, fraction, marker, pass, fail, differs, skipped };

/// How results are dressed up. Redirected output is plain ASCII without colour.
struct Style {
  bool unicode = false;  ///< box-drawing and mathematical characters
  bool colour = false;   ///< ANSI escape sequences

  /// The text in its colour, or as it is.
  std::string painted(std::string_view text, Paint paint) const;
  /// A verdict ("pass", "FAIL", "agrees", "differs", "skipped", ...) in its colour; any other word as it is.
  std::string verdict(std::string_view word) const;

  /// What standard output can show: nothing special unless it is a terminal other than a dumb one and NO_COLOR is unset
  /// or empty (https://no-color.org); Unicode in UTF-8 locales.
  static Style of_output();
};

/// Columns of a terminal that a UTF-8 text takes: escape sequences and combining characters none, East Asian wide ones
/// two.
std::size_t display_width(std::string_view text);

// A progress bar on standard error, where that is a terminal.

class ProgressBar {
 public:
  /// Draws nothing if standard error is no terminal or `quiet`.
  ProgressBar(std::string label, bool quiet);
  ~ProgressBar() { wipe(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// `fraction` in [0, 1]; redraws at most ten times a second.
  void show(double fraction) { show(fraction, note_); }
  /// What stands behind the bar from now on: a few words.
  void note(const std::string& words) { note_ = "  " + words; }
  /// Makes place for other words on standard error; the next show() draws the bar below them.
  void wipe();
  /// show() with a rate, in 10^9 cases a second, and the time that is left, in seconds.
  void show(double fraction, double rate, double left);

 private:
  void show(double fraction, const std::string& note);

  using Clock = std::chrono::steady_clock;
  std::string label_, note_;
  bool visible_, drawn_ = false;
  Clock::time_point start_ = Clock::now(), next_ = start_;
};

}  // namespace halfulp::cli
