#include <halfulp/commands/terminal.hpp>

#include <halfulp/support/work.hpp>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace halfulp::cli {
namespace {
Captured* living = nullptr;
}  // namespace

Captured::Captured(std::string_view input) : input_(input) {
  assert(!living);
  living = this;
}

Captured::~Captured() { living = nullptr; }

Captured* Captured::current() { return living; }

std::size_t Captured::read(std::span<char> block) {
  const std::size_t count = input_.copy(block.data(), block.size());
  input_.remove_prefix(count);
  return count;
}

void write_output(std::string_view text) {
  if (Captured* captured = Captured::current()) {
    captured->output += text;
    return;
  }
  if (write_interruptible(STDOUT_FILENO, text)) return;
  if (errno == EPIPE) {  // SIGPIPE was ignored by whoever started us
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
    std::_Exit(128 + SIGPIPE);  // only where the signal is blocked
  }
  throw std::invalid_argument("cannot write standard output: " + std::generic_category().message(errno));
}

void write_error(std::string_view text) {
  if (Captured* captured = Captured::current()) captured->error += text;
  else std::fwrite(text.data(), 1, text.size(), stderr);
}

std::size_t read_input(std::span<char> block) {
  if (Captured* captured = Captured::current()) return captured->read(block);
  while (true) {
    const ssize_t count = ::read(STDIN_FILENO, block.data(), block.size());
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR)
      throw std::invalid_argument("cannot read standard input: " + std::generic_category().message(errno));
  }
}

namespace {

/// Columns of the terminal that standard output is; without end where it is none.
std::size_t output_columns() {
  winsize size{};
  const bool terminal = !Captured::current() && isatty(STDOUT_FILENO);
  if (!terminal) return std::numeric_limits<std::size_t>::max();
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

std::vector<std::string> lines_of(const std::string& cell, std::size_t width) {
  if (display_width(cell) <= width) return {cell};
  std::vector<std::string> lines;
  const std::string text = wrapped(cell, 0, width);
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
    lines.push_back(text.substr(begin, text.find('\n', begin) - begin));
  return lines;
}

/// How narrow a cell can become: its longest word.
std::size_t narrowest(const std::string& cell) {
  if (cell.find('\033') != std::string::npos) return display_width(cell);
  std::size_t longest = 0;
  for (const std::string& word : lines_of(cell, 1)) longest = std::max(longest, display_width(word));
  return longest;
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t indent,
                    const std::set<std::size_t>& numbers) {
  return aligned_within(output_columns(), rows, indent, numbers);
}

std::string aligned_within(std::size_t width, const std::vector<std::vector<std::string>>& rows, std::size_t indent,
                           const std::set<std::size_t>& numbers) {
  std::vector<std::size_t> widths, least;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size())), least.resize(widths.size());
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  const auto line_width = [&](const std::vector<std::size_t>& of_columns) {
    std::size_t all = indent;
    for (const std::size_t w : of_columns) all += w == 0 ? 0 : w + 2;
    return all < 2 ? 0 : all - 2;
  };
  if (line_width(widths) > width) {
    for (const auto& row : rows)
      for (std::size_t i = 0; i < row.size(); ++i)
        least[i] = std::max(least[i], numbers.contains(i) ? widths[i] : narrowest(row[i]));
    while (line_width(least) <= width && line_width(widths) > width) {
      std::size_t widest = widths.size();
      for (std::size_t i = 0; i < widths.size(); ++i)
        if (widths[i] > least[i] && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
      --widths[widest];
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells.push_back(lines_of(row[i], widths[i]));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t at = 0; at < height; ++at) {
      std::string line(indent, ' ');
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if (widths[i] == 0) continue;
        const std::string cell = at < cells[i].size() ? cells[i][at] : "";
        const std::string padding(widths[i] - display_width(cell), ' ');
        line += (numbers.contains(i) ? padding + cell : cell + padding) + "  ";
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  }
  return text;
}

std::string cut(std::string_view text, std::size_t width) {
  if (text.size() <= width) return std::string(text);
  std::size_t end = width - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  const std::string margin(indent, ' ');
  std::string out, line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!line.empty() && indent + display_width(line) + 1 + display_width(word) > width) {
      out += margin + line + "\n";
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    begin = end + 1;
  }
  return line.empty() ? out : out + margin + line + "\n";
}

namespace {

/// Parameters of "select graphic rendition" (ECMA-48), in the order of Paint. Two neighbours never differ
/// only in red and green.
constexpr std::array<std::string_view, 9> renditions{"1", "35", "33", "36", "1;33", "32", "1;31", "33", "36"};

constexpr std::pair<std::string_view, Paint> verdicts[] = {
    {"pass", Paint::pass},  {"held", Paint::pass},       {"agrees", Paint::pass},
    {"fail", Paint::fail},  {"FAIL", Paint::fail},       {"fails", Paint::fail},
    {"FAILS", Paint::fail}, {"differs", Paint::differs}, {"skipped", Paint::skipped}};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// The code point at the beginning of a text and how many bytes it takes; a byte that begins none counts for itself.
std::pair<char32_t, std::size_t> first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned lead = byte(0);
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
  char32_t point = length == 1 ? lead : lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {lead, 1};
    point = (point << 6U) | (byte(i) & 0x3FU);
  }
  return {point, length};
}

std::size_t columns_of(char32_t point) {
  constexpr std::array<std::pair<char32_t, char32_t>, 4> none{
      {{0x300, 0x36F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};
  // Unicode Standard Annex 11, the blocks that are wide as a whole.
  constexpr std::array<std::pair<char32_t, char32_t>, 8> wide{{{0x1100, 0x115F},
                                                               {0x2E80, 0x303E},
                                                               {0x3041, 0xA4CF},
                                                               {0xAC00, 0xD7A3},
                                                               {0xF900, 0xFAFF},
                                                               {0xFE30, 0xFE6F},
                                                               {0xFF00, 0xFF60},
                                                               {0x1F300, 0x3FFFD}}};
  const auto in = [&](const auto& ranges) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const auto& range) { return point >= range.first && point <= range.second; });
  };
  return point < 0x20 || point == 0x7F || in(none) ? 0 : in(wide) ? 2 : 1;
}

}  // namespace

std::string Style::painted(std::string_view text, Paint paint) const {
  if (!colour || text.empty()) return std::string(text);
  return "\x1b[" + std::string(renditions[static_cast<std::size_t>(paint)]) + "m" + std::string(text) + "\x1b[0m";
}

std::string Style::verdict(std::string_view word) const {
  for (const auto& [name, paint] : verdicts)
    if (word.substr(0, word.find_last_not_of(' ') + 1) == name) return painted(word, paint);  // padded words, too
  return std::string(word);
}

Style Style::of_output() {
  if (Captured::current() || !isatty(STDOUT_FILENO) || !variable("NO_COLOR").empty()) return {};
  if (const std::string terminal = variable("TERM"); terminal.empty() || terminal == "dumb") return {};
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (locale = variable(name); !locale.empty()) break;
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return {locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos, true};
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    if (text.substr(0, 2) == "\x1b[") {
      const std::size_t end = text.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 2);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      continue;
    }
    const auto [point, length] = first_code_point(text);
    width += columns_of(point);
    text.remove_prefix(length);
  }
  return width;
}

ProgressBar::ProgressBar(std::string label, bool quiet)
    : label_(std::move(label)), visible_(!quiet && ::isatty(STDERR_FILENO)) {}

void ProgressBar::wipe() {
  if (std::exchange(drawn_, false)) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(double fraction, double rate, double left) {
  show(fraction, fmt::format(", {:.2f} G/s, {:.0f} s left", rate, left));
}

void ProgressBar::show(double fraction, const std::string& note) {
  const auto now = Clock::now();
  if (!visible_ || now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  constexpr int width = 30;
  fraction = std::clamp(fraction, 0.0, 1.0);
  const int filled = static_cast<int>(std::lround(fraction * width));
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string line = fmt::format("{} [{:#<{}}{:.<{}}] {:3.0f} % {:.0f} s{}", label_, "", filled, "", width - filled,
                                 100 * fraction, seconds, note);
  // A line that wraps is not wiped by the next one.
  winsize size{};
  const std::size_t columns = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
  if (line.size() >= columns) line.resize(columns - 1);
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace halfulp::cli
