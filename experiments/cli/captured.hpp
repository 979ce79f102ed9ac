// Standard input, output and errors of the command line in memory, for a program that runs it as a function.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace halfulp::cli {

/// While one lives, commands read `input` and write into `output` and `error` instead of the process's own streams. One at a time;
/// progress bars, which only `--quiet` keeps away, go to the terminal all the same.
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

}  // namespace halfulp::cli
