// The whole program as one function: `halfulp` calls it, and so does the Python package.
#pragma once

namespace halfulp::cli {

/// Runs `halfulp` with this command line, argv[0] being its name; returns the exit status (guard.hpp). Where input comes from and
/// output goes to: output.hpp.
int run_command_line(int argc, char** argv);

}  // namespace halfulp::cli
