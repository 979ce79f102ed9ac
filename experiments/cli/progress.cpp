#include <halfulp/experiments/cli/progress.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

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
  fmt::print(stderr, "\r\033[K{} [{:#<{}}{:.<{}}] {:3.0f} % {:.0f} s{}", label_, "", filled, "", width - filled, 100 * fraction, seconds, note);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace halfulp::cli
