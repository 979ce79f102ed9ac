#include <halfulp/experiments/cli/progress.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

namespace halfulp::cli {

ProgressBar::ProgressBar(std::string label, bool quiet) : label_(std::move(label)), visible_(!quiet && ::isatty(STDERR_FILENO)) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ProgressBar::show(double fraction, double rate, double left) { show(fraction, fmt::format(", {:.2f} G/s, {:.0f} s left", rate, left)); }

void ProgressBar::show(double fraction, const std::string& note) {
  const auto now = Clock::now();
  if (!visible_ || now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  constexpr int width = 30;
  fraction = std::clamp(fraction, 0.0, 1.0);
  const int filled = static_cast<int>(std::lround(fraction * width));
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string line = fmt::format("{} [{:#<{}}{:.<{}}] {:3.0f} % {:.0f} s{}", label_, "", filled, "", width - filled, 100 * fraction, seconds, note);
  // A line that wraps is not wiped by the next one.
  winsize size{};
  const std::size_t columns = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
  if (line.size() >= columns) line.resize(columns - 1);
  fmt::print(stderr, "\r\033[K{}", line);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace halfulp::cli
