// A progress bar on standard error, where that is a terminal.
#pragma once

#include <chrono>
#include <string>

namespace halfulp::cli {

class ProgressBar {
 public:
  /// Draws nothing if standard error is no terminal or `quiet`.
  ProgressBar(std::string label, bool quiet);
  ~ProgressBar();  ///< wipes the bar
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// `fraction` in [0, 1]; redraws at most ten times a second.
  void show(double fraction) { show(fraction, note_); }
  /// What stands behind the bar from now on: a few words.
  void note(const std::string& words) { note_ = "  " + words; }
  /// The same with a rate, in 10^9 cases a second, and the time that is left, in seconds.
  void show(double fraction, double rate, double left);

 private:
  void show(double fraction, const std::string& note);

  using Clock = std::chrono::steady_clock;
  std::string label_, note_;
  bool visible_, drawn_ = false;
  Clock::time_point start_ = Clock::now(), next_ = start_;
};

}  // namespace halfulp::cli
