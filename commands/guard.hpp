// What every executable's main is: build the command line, run, turn whatever is thrown into one line and an exit
// status.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

namespace halfulp::cli {

/// Exit statuses, as DESIGN has them.
namespace exit_status {
inline constexpr int done = 0;
inline constexpr int failed = 1;  ///< a claim fails, a comparison differs, a report is not valid
inline constexpr int bad_input = 2;
inline constexpr int backend_missing = 3;
inline constexpr int internal_error = 70;
inline constexpr int interrupted = 130;
}  // namespace exit_status

/// `add` declares commands and options (commands.hpp); their callbacks run once the command line is read. Help and
/// --version go to standard output, errors to standard error as one line "halfulp: ...".
int guarded_main(int argc, char** argv, std::string description,
                 const std::function<void(CLI::App& app, int& status)>& add);

/// An error as every command reports it: one line "halfulp: ..." on standard error.
void print_error(std::string message);

/// The command line as one could type it again.
std::string command_text(int argc, char** argv);

}  // namespace halfulp::cli
