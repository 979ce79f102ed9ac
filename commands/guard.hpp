// The main function that every executable shares: it builds the command line, runs it, and turns every exception into
// one line and an exit status.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

namespace halfulp::cli {

/// The exit statuses of every command.
namespace exit_status {
inline constexpr int done = 0;
inline constexpr int failed = 1;  ///< a claim fails, a comparison differs, or a report is invalid
inline constexpr int bad_input = 2;
inline constexpr int backend_missing = 3;
inline constexpr int internal_error = 70;
inline constexpr int interrupted = 130;
}  // namespace exit_status

/// `add` declares commands and options (command_line.hpp). Their callbacks run once the command line is read. Help and
/// --version go to standard output; an error goes to standard error as one line "halfulp: ...".
int guarded_main(int argc, char** argv, std::string description,
                 const std::function<void(CLI::App& app, int& status)>& add);

/// Says so, without needing memory; returns the exit status.
int out_of_memory();

/// Reports an error as every command does: one line "halfulp: ..." on standard error.
void print_error(std::string message);

/// The command line as one could type it again.
std::string command_text(int argc, char** argv);

}  // namespace halfulp::cli
