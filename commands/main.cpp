// `halfulp`: formats, arithmetic, experiments and reports on the command line.
#include <halfulp/commands/command_line.hpp>

int main(int argc, char** argv) { return halfulp::cli::run_command_line(argc, argv); }
