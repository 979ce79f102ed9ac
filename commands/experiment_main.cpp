// Compiled once per experiment, with the name HALFULP_EXPERIMENT. single_experiment.cpp does the work.
#include <halfulp/commands/command_line.hpp>

int main(int argc, char** argv) { return halfulp::cli::single_experiment_main(argc, argv, HALFULP_EXPERIMENT); }
