// A checkpoint of the user's own, tensor by tensor: what is in it, and what each format would keep.
#pragma once

#include <halfulp/report/experiment.hpp>

namespace halfulp {

/// The kind of report that `halfulp inspect` makes. It needs a file, so it is no experiment of `halfulp run`.
Experiment checkpoint_experiment();

/// The kind of report that `halfulp choose` makes.
Experiment checkpoint_choice_experiment();

/// The kind of report that `halfulp quantize` makes of a checkpoint, which it writes as a new file.
Experiment checkpoint_quantized_experiment();

/// The kind of report that `halfulp diff` makes of two checkpoints, and `halfulp inspect --against`.
Experiment checkpoint_difference_experiment();

}  // namespace halfulp
