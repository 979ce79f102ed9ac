// Ctrl-C and SIGTERM: noticed, acted on at the next safe place.
#pragma once

namespace halfulp {

/// From now on SIGINT and SIGTERM are only noted. A second one ends the program as usual.
void note_interrupts();
/// Throws Interrupted (experiment.hpp) if one was noted.
void stop_if_interrupted();

}  // namespace halfulp
