// Standard input and output so that nothing is lost in silence (or those in memory: captured.hpp), and what a terminal can show.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::cli {

/// Writes all of `text` to standard output at once. Throws std::invalid_argument in one line where it cannot be written
/// (a full disk); a reader that went away (`| head`) ends the program quietly, by SIGPIPE.
void write_output(std::string_view text);

/// Writes to standard error, whatever becomes of it.
void write_error(std::string_view text);

/// Fills a block with what comes next on standard input: how much that is, 0 at its end. Throws std::invalid_argument in one line
/// where it cannot be read.
std::size_t read_input(std::span<char> block);

/// Rows with their columns aligned to the left, two blanks between them and `indent` before; empty columns vanish.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t indent);

/// Text broken between words into lines of at most `width` characters, each behind `indent` blanks; a longer word stands alone.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = 80);

/// How results are dressed up. Redirected output is plain ASCII without colour.
struct Style {
  bool unicode = false;  ///< box-drawing and mathematical characters
  bool colour = false;   ///< ANSI escape sequences

  /// What standard output can show: nothing special unless it is a terminal; Unicode in UTF-8 locales, colour unless
  /// NO_COLOR is set (https://no-color.org) or TERM is "dumb".
  static Style of_output();
};

}  // namespace halfulp::cli
