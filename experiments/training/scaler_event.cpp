#include <halfulp/experiments/training/scaler_event.hpp>

#include <fmt/format.h>

namespace halfulp::training {
namespace {

std::string described(const NonFiniteGradients& found) {
  return fmt::format("{} Inf and {} NaN, the first in tensor {}, element {}", found.infinite, found.nan, found.tensor, found.element);
}

}  // namespace

const char* name_of(ScalerEvent::Kind kind) {
  switch (kind) {
    case ScalerEvent::Kind::grew: return "grew";
    case ScalerEvent::Kind::growth_refused: return "growth-refused";
    case ScalerEvent::Kind::backed_off: return "backed-off";
    case ScalerEvent::Kind::collapsed: return "collapsed";
    case ScalerEvent::Kind::set: return "set";
    case ScalerEvent::Kind::skipped: return "skipped";
    case ScalerEvent::Kind::unnoticed: return "unnoticed";
  }
  return "";
}

std::string description(const ScalerEvent& event) {
  const std::string moved = fmt::format("scale {} -> {}", event.before, event.after);
  switch (event.kind) {
    case ScalerEvent::Kind::grew:
    case ScalerEvent::Kind::backed_off:
    case ScalerEvent::Kind::set: return moved;
    case ScalerEvent::Kind::growth_refused: return fmt::format("scale {} stays: grown it would be infinite", event.before);
    case ScalerEvent::Kind::collapsed:
      return fmt::format("{}: {} updates in a row found Inf or NaN, {} of them NaN; the first had {} of optimizer {}", moved,
                         event.streak.updates, event.streak.with_nan, described(event.streak.first), event.streak.optimizer);
    case ScalerEvent::Kind::skipped:
      return fmt::format("step of optimizer {} left out at scale {}: {}", event.optimizer, event.before, described(event.found));
    case ScalerEvent::Kind::unnoticed:
      return fmt::format("step of optimizer {} taken although unscaling by {} made {}", event.optimizer, event.before,
                         described(event.found));
  }
  return moved;
}

}  // namespace halfulp::training
