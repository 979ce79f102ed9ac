// What a loss scaler has to tell: how the scale moved, which steps were left out, and why.
#pragma once

#include <halfulp/experiments/training/unscale.hpp>

#include <cstdint>
#include <string>

namespace halfulp::training {

/// Updates in a row that found Inf or NaN.
struct NonFiniteStreak {
  std::int64_t updates = 0;
  std::int64_t with_nan = 0;  ///< of these, how many found a NaN: no scale helps against what is NaN at any scale
  std::int64_t begun = 0;     ///< the number of the first of these updates
  int optimizer = 0;          ///< whose gradients were the first
  NonFiniteGradients first;   ///< what they held
};

struct ScalerEvent {
  enum class Kind : std::uint8_t {
    grew,            ///< the scale was multiplied by the growth factor
    growth_refused,  ///< it stayed, since the product is infinite
    backed_off,      ///< it was multiplied by the backoff factor
    collapsed,       ///< the same, and became zero: `streak` has the cause. From here on gradients are 0 * Inf = NaN, unnoticed
    set,             ///< update() was given a new one
    skipped,         ///< an optimizer's step was left out
    unnoticed        ///< gradients that were finite became Inf or NaN by unscaling, which no check sees: the step is taken
  };
  Kind kind = Kind::grew;
  std::int64_t update = 0;   ///< updates before this event
  double before = 0, after = 0;  ///< the scale
  int optimizer = -1;        ///< of skipped and unnoticed
  NonFiniteGradients found;  ///< of skipped: what the scaled gradients held; of unnoticed: what the unscaled ones do
  NonFiniteStreak streak;    ///< of collapsed
};

/// "grew", "growth-refused", "backed-off", "collapsed", "set", "skipped", "unnoticed".
const char* name_of(ScalerEvent::Kind kind);

/// One line for people: "scale 1.4e-45 -> 0: 166 updates in a row found Inf or NaN, ...".
std::string description(const ScalerEvent& event);

}  // namespace halfulp::training
