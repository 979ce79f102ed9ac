#include <halfulp/training/loss_scaler.hpp>

#include <halfulp/report/report.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace halfulp::training {
namespace {

std::string described(const NonFiniteGradients& found) {
  return fmt::format("{} Inf and {} NaN, the first in tensor {}, element {}", found.infinite, found.nan, found.tensor,
                     found.element);
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
    case ScalerEvent::Kind::growth_refused:
      return fmt::format("scale {} stays: grown it would be infinite", event.before);
    case ScalerEvent::Kind::collapsed:
      return fmt::format("{}: {} updates in a row found Inf or NaN, {} of them NaN; the first had {} of optimizer {}",
                         moved, event.streak.updates, event.streak.with_nan, described(event.streak.first),
                         event.streak.optimizer);
    case ScalerEvent::Kind::skipped:
      return fmt::format("step of optimizer {} left out at scale {}: {}", event.optimizer, event.before,
                         described(event.found));
    case ScalerEvent::Kind::unnoticed:
      return fmt::format("step of optimizer {} taken although unscaling by {} made {}", event.optimizer, event.before,
                         described(event.found));
  }
  return moved;
}

namespace {

/// Whether fp32 holds a number of this size: a finite double beyond the largest is refused, not rounded to infinity.
bool fits_float(double x) { return !std::isfinite(x) || std::abs(x) <= std::numeric_limits<float>::max(); }

[[noreturn]] void misuse(const std::string& what) { throw std::logic_error("loss scaler: " + what); }

/// Reads the members of a state, each with an error of one line.
class StateReader {
 public:
  StateReader(const Json& object, std::string name, std::vector<std::string> accepted)
      : object_(object), name_(std::move(name)) {
    if (!object.is_object()) fail("not an object");
    for (const auto& [member, value] : object.items())
      if (std::find(accepted.begin(), accepted.end(), member) == accepted.end())
        fail(unknown_name("member", member, accepted));
  }
  double real(const char* member) const {
    const auto value = number_of(at(member));
    if (!value) fail(fmt::format("'{}' is {}; accepted: a number", member, at(member).dump()));
    return *value;
  }
  std::int64_t whole(const char* member, std::int64_t least, std::int64_t most) const {
    const Json& value = at(member);
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1} << 62) ||
        value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
      fail(fmt::format("'{}' is {}; accepted: an integer from {} to {}", member, value.dump(), least, most));
    return value.get<std::int64_t>();
  }
  [[noreturn]] void fail(const std::string& what) const { throw std::invalid_argument(name_ + ": " + what); }

 private:
  const Json& at(const char* member) const {
    if (!object_.contains(member)) fail(fmt::format("'{}' is missing", member));
    return object_[member];
  }
  const Json& object_;
  std::string name_;
};

constexpr std::int64_t most = std::int64_t{1} << 53;  // every reader of JSON knows integers up to here

Json history_json(std::int64_t updates, const NonFiniteStreak& streak) {
  return {{"updates", updates},      {"in_a_row", streak.updates},    {"with_nan", streak.with_nan},
          {"begun", streak.begun},   {"optimizer", streak.optimizer}, {"infinite", streak.first.infinite},
          {"nan", streak.first.nan}, {"tensor", streak.first.tensor}, {"element", streak.first.element}};
}

NonFiniteStreak read_history(const Json& json, const std::string& name, std::int64_t& updates) {
  const StateReader reader(
      json, name, {"updates", "in_a_row", "with_nan", "begun", "optimizer", "infinite", "nan", "tensor", "element"});
  const auto natural = [&](const char* member) { return reader.whole(member, 0, most); };
  const auto size = [&](const char* member) { return static_cast<std::uint64_t>(natural(member)); };
  updates = natural("updates");
  NonFiniteStreak streak{
      natural("in_a_row"),
      natural("with_nan"),
      natural("begun"),
      static_cast<int>(reader.whole("optimizer", std::numeric_limits<int>::min(), std::numeric_limits<int>::max())),
      {}};
  streak.first = {size("infinite"), size("nan"), size("tensor"), size("element")};
  return streak;
}

}  // namespace

LossScalerSettings static_scale(double scale, bool skip) {
  LossScalerSettings settings;
  settings.initial_scale = scale;
  settings.dynamic = false;
  settings.skip = skip;
  return settings;
}

LossScaler::LossScaler(LossScalerSettings settings) : settings_(settings) {
  if (!settings_.enabled) return;
  const auto refuse = [](const std::string& what) { throw std::invalid_argument("loss scaler: " + what); };
  if (settings_.growth_factor <= 1) refuse(fmt::format("growth factor {}; accepted: above 1", settings_.growth_factor));
  if (settings_.backoff_factor >= 1)
    refuse(fmt::format("backoff factor {}; accepted: below 1", settings_.backoff_factor));
  if (!fits_float(settings_.initial_scale))
    refuse(fmt::format("initial scale {}; accepted: what fits fp32", settings_.initial_scale));
}

float LossScaler::factor() {
  if (!settings_.enabled) return 1;
  if (!scale_) scale_ = static_cast<float>(settings_.initial_scale);
  return *scale_;
}

float LossScaler::scale(float loss) { return settings_.enabled ? loss * factor() : loss; }

double LossScaler::current() const { return !settings_.enabled ? 1 : scale_ ? *scale_ : settings_.initial_scale; }

void LossScaler::require_scale(const char* what) const {
  if (!scale_) misuse(fmt::format("{} before any loss was scaled", what));
}

void LossScaler::unscale(int optimizer, Gradients gradients) {
  if (!settings_.enabled) return;
  require_scale("unscale");
  Optimizer& state = optimizers_[optimizer];
  if (state.stage == Stage::unscaled)
    misuse(fmt::format("optimizer {} was unscaled twice before an update", optimizer));
  if (state.stage == Stage::stepped) misuse(fmt::format("optimizer {} is unscaled after its step", optimizer));
  const auto inverse = static_cast<float>(1.0 / static_cast<double>(*scale_));
  NonFiniteGradients appeared;
  state.found.reset();
  for (std::size_t t = 0; t < gradients.size(); ++t) {
    const Unscaled result = unscale_in_place(gradients[t], inverse, t);
    if (!state.found) state.found.emplace();
    state.found->add(result.before);
    appeared.add(result.appeared);
  }
  state.stage = Stage::unscaled;
  if (appeared.count() > 0 && state.found->count() == 0) {
    ScalerEvent& event = report(ScalerEvent::Kind::unnoticed, current(), current());
    event.optimizer = optimizer;
    event.found = appeared;
  }
}

bool LossScaler::step(int optimizer, Gradients gradients, const std::function<void()>& take) {
  if (!settings_.enabled) {
    take();
    return true;
  }
  require_scale("step");
  Optimizer& state = optimizers_[optimizer];
  if (state.stage == Stage::stepped) misuse(fmt::format("optimizer {} takes two steps before an update", optimizer));
  if (state.stage == Stage::ready) unscale(optimizer, gradients);
  if (!state.found) misuse(fmt::format("optimizer {} has no gradients", optimizer));
  const bool taken = !settings_.skip || state.found->count() == 0;
  if (taken) {
    take();
  } else {
    ScalerEvent& event = report(ScalerEvent::Kind::skipped, current(), current());
    event.optimizer = optimizer;
    event.found = *state.found;
  }
  state.stage = Stage::stepped;
  return taken;
}

void LossScaler::update() {
  if (!settings_.enabled) return;
  require_scale("update");
  bool looked = false, found = false, nan = false;
  for (const auto& [id, optimizer] : optimizers_) {
    if (!optimizer.found) continue;
    looked = true;
    if (optimizer.found->count() == 0) continue;
    if (!found && streak_.updates == 0) streak_ = {0, 0, updates_, id, *optimizer.found};
    found = true;
    nan = nan || optimizer.found->nan > 0;
  }
  if (!looked) misuse("update before any optimizer's gradients were looked at");
  if (found) {
    ++streak_.updates;
    streak_.with_nan += nan;
  } else {
    streak_ = {};
  }
  if (settings_.dynamic) adapt(found);
  end_iteration();
}

/// Scale and tracker, as torch._amp_update_scale_ moves them.
void LossScaler::adapt(bool found) {
  const float before = *scale_;
  if (found) {
    scale_ = static_cast<float>(before * settings_.backoff_factor);
    tracker_ = 0;
    const bool collapsed = *scale_ == 0 && before != 0;
    ScalerEvent& event = report(collapsed ? ScalerEvent::Kind::collapsed : ScalerEvent::Kind::backed_off, before,
                                *scale_);
    event.streak = streak_;
    return;
  }
  tracker_ = static_cast<std::int32_t>(static_cast<std::uint32_t>(tracker_) + 1);
  if (tracker_ != settings_.growth_interval) return;
  tracker_ = 0;
  const auto grown = static_cast<float>(before * settings_.growth_factor);
  if (std::isfinite(grown)) scale_ = grown;
  report(std::isfinite(grown) ? ScalerEvent::Kind::grew : ScalerEvent::Kind::growth_refused, before, *scale_);
}

void LossScaler::update(double new_scale) {
  if (!settings_.enabled) return;
  require_scale("update");
  if (!fits_float(new_scale))
    throw std::invalid_argument(fmt::format("loss scaler: new scale {}; accepted: what fits fp32", new_scale));
  const float before = std::exchange(*scale_, static_cast<float>(new_scale));
  report(ScalerEvent::Kind::set, before, *scale_);
  end_iteration();
}

void LossScaler::end_iteration() {
  optimizers_.clear();
  ++updates_;
}

std::optional<bool> LossScaler::found_non_finite(int optimizer) const {
  const auto at = optimizers_.find(optimizer);
  if (at == optimizers_.end() || !at->second.found) return std::nullopt;
  return at->second.found->count() > 0;
}

Json LossScaler::state() const {
  if (!settings_.enabled) return Json::object();
  return {{"scale", number(current())},
          {"growth_factor", number(settings_.growth_factor)},
          {"backoff_factor", number(settings_.backoff_factor)},
          {"growth_interval", settings_.growth_interval},
          {"_growth_tracker", tracker_},
          {"history", history_json(updates_, streak_)}};
}

void LossScaler::restore(const Json& state, const std::string& name) {
  if (!settings_.enabled) return;
  const StateReader reader(
      state, name, {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker", "history"});
  if (state.empty()) reader.fail("the empty state of a scaler that was disabled");
  LossScalerSettings settings = settings_;
  settings.initial_scale = reader.real("scale");
  settings.growth_factor = reader.real("growth_factor");
  settings.backoff_factor = reader.real("backoff_factor");
  settings.growth_interval = reader.whole("growth_interval", -most, most);
  const auto tracker = static_cast<std::int32_t>(reader.whole(
      "_growth_tracker", std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
  if (!fits_float(settings.initial_scale))
    reader.fail(fmt::format("'scale' is {}; accepted: what fits fp32", settings.initial_scale));
  std::int64_t updates = 0;
  NonFiniteStreak streak;
  if (state.contains("history")) streak = read_history(state["history"], name + ": history", updates);
  settings_ = settings;
  if (scale_) scale_ = static_cast<float>(settings.initial_scale);
  tracker_ = tracker;
  updates_ = updates;
  streak_ = streak;
}

ScalerEvent& LossScaler::report(ScalerEvent::Kind kind, double before, double after) {
  ScalerEvent& event = events_.emplace_back();
  event.kind = kind;
  event.update = updates_;
  event.before = before;
  event.after = after;
  return event;
}

std::vector<ScalerEvent> LossScaler::take_events() { return std::exchange(events_, {}); }

}  // namespace halfulp::training
