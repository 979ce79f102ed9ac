#include <halfulp/experiments/cli/output.hpp>

#include <halfulp/experiments/cli/captured.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

namespace halfulp::cli {

void write_output(std::string_view text) {
  if (Captured* captured = Captured::current()) {
    captured->output += text;
    return;
  }
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {  // SIGPIPE was ignored by whoever started us
      std::signal(SIGPIPE, SIG_DFL);
      std::raise(SIGPIPE);
      std::_Exit(128 + SIGPIPE);  // only where the signal is blocked
    } else if (errno != EINTR) {
      throw std::invalid_argument("cannot write standard output: " + std::generic_category().message(errno));
    }
  }
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
    if (errno != EINTR) throw std::invalid_argument("cannot read standard input: " + std::generic_category().message(errno));
  }
}

std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t indent) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line(indent, ' ');
    for (std::size_t i = 0; i < row.size(); ++i)
      if (widths[i] > 0) line += row[i] + std::string(widths[i] - display_width(row[i]) + 2, ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
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

}  // namespace halfulp::cli
