// What a terminal can show: colours by what they say, Unicode, and how wide a text is there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace halfulp::cli {

/// What a colour says. Never alone: words, labels or places say it too.
enum class Paint : std::uint8_t { heading, sign, exponent, fraction, marker, pass, fail, differs, skipped };

/// How results are dressed up. Redirected output is plain ASCII without colour.
struct Style {
  bool unicode = false;  ///< box-drawing and mathematical characters
  bool colour = false;   ///< ANSI escape sequences

  /// The text in its colour, or as it is.
  std::string painted(std::string_view text, Paint paint) const;
  /// A verdict ("pass", "FAIL", "agrees", "differs", "skipped", ...) in its colour; any other word as it is.
  std::string verdict(std::string_view word) const;

  /// What standard output can show: nothing special unless it is a terminal other than a dumb one and NO_COLOR is unset or empty
  /// (https://no-color.org); Unicode in UTF-8 locales.
  static Style of_output();
};

/// Columns of a terminal that a UTF-8 text takes: escape sequences and combining characters none, East Asian wide ones two.
std::size_t display_width(std::string_view text);

}  // namespace halfulp::cli
