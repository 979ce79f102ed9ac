// An experiment as an executable of its own.
#pragma once

namespace halfulp::cli {

/// main of the executable of one experiment: the options of `halfulp run`, nothing else.
int single_experiment_main(int argc, char** argv, const char* name);

}  // namespace halfulp::cli
