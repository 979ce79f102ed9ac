// Standard input and output so that nothing is lost in silence (or those in memory: captured.hpp), and text in columns and lines.
#pragma once

#include <halfulp/experiments/cli/style.hpp>

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

/// Rows with their columns aligned to the left, two blanks between them and `indent` before; empty columns vanish. Widths are those on a
/// terminal (display_width).
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t indent);

/// At most `width` bytes of a text, whole UTF-8 characters; the rest is "...". Precondition: width >= 3.
std::string cut(std::string_view text, std::size_t width);

/// Text broken between words into lines of at most `width` characters, each behind `indent` blanks; a longer word stands alone.
std::string wrapped(std::string_view text, std::size_t indent, std::size_t width = 80);

}  // namespace halfulp::cli
