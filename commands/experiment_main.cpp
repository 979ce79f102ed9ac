// Compiled once an experiment, named by HALFULP_EXPERIMENT; everything is in single_experiment.cpp.
#include <halfulp/commands/command_line.hpp>

int main(int argc, char** argv) { return halfulp::cli::single_experiment_main(argc, argv, HALFULP_EXPERIMENT); }
