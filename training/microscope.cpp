#include <halfulp/training/microscope.hpp>

#include <halfulp/training/counting.hpp>
#include <halfulp/training/loss_scaler.hpp>
#include <halfulp/training/record_fields.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace halfulp::training {
namespace {
constexpr std::uint64_t settled = 20;
}

void SpikeDetector::Mean::take(double value) {
  mean = count == 0 ? value : mean + (value - mean) / 20;
  ++count;
}

void SpikeDetector::see(std::uint64_t step, double loss, double norm, std::vector<Spike>& spikes) {
  const auto look = [&](Mean& of, double value, double limit, bool of_loss) {
    if (!std::isfinite(value)) return;
    if (of.count >= settled && value > limit) spikes.push_back({step, of_loss, value, of.mean});
    else of.take(value);
  };
  look(norm_, norm, 4 * norm_.mean, false);
  look(loss_, loss, 1.25 * loss_.mean + 0.25, true);
}

Json SpikeDetector::state() const { return record_json<RecordLayout::list>(*this); }
void SpikeDetector::restore(const Json& state, const std::string& where) {
  read_record<RecordLayout::list>(state, where, *this);
}

std::uint64_t announced(const std::vector<Spike>& spikes, std::uint64_t within) {
  std::uint64_t count = 0;
  for (const Spike& loss : spikes) {
    if (!loss.of_loss) continue;
    for (const Spike& norm : spikes)
      if (!norm.of_loss && norm.step <= loss.step && loss.step - norm.step <= within) {
        ++count;
        break;
      }
  }
  return count;
}

namespace {

struct Kinds {
  bool infinite = false, nan = false;
};

Kinds kinds_of(std::span<const float> values) {
  Kinds kinds;
  if (!has_non_finite(values)) return kinds;
  for (const float v : values) kinds.infinite |= std::isinf(v), kinds.nan |= std::isnan(v);
  return kinds;
}

}  // namespace

void Microscope::begin_step(std::uint64_t step, bool count) {
  step_ = step;
  counting_ = count;
}

void Microscope::before(const Site&, Role, const Storage& storage, std::span<const float> values) {
  const FloatFormat* const f = storage.plain();
  if (!trace_ || !counts() || !f || *f == fp32 || storage.rounding.mode == RoundingMode::stochastic) return;
  constexpr std::size_t each = 256;
  Channel& channel = trace_->channel({Operation::convert, fp32, *f, storage.rounding});
  const std::size_t step = std::max<std::size_t>(1, values.size() / each);
  for (std::size_t i = 0; i < values.size(); i += step) channel.record(std::bit_cast<std::uint32_t>(values[i]));
}

void Microscope::see(const Sighting& s) {
  if (paused_) return;
  if (spy && counts()) spy(s);
  if (!s.operand) {
    // Attention masks scores with -Inf on purpose, but never rounds them: no Inf seen here is by design.
    const Kinds kinds = kinds_of(s.values);
    const auto note = [&](bool is, std::optional<FirstNonFinite>& first) {
      if (is && !first) first = FirstNonFinite{step_, s.site.kind, std::string(s.site.name), s.role};
    };
    note(kinds.infinite, first_infinite_);
    note(kinds.nan, first_nan_);
  }
  if (!s.tally) return;
  Row& row = rows_.at({s.site.kind, std::string(s.site.name), s.role, s.operand},
                      [&] { return Row{s.site.kind, std::string(s.site.name), s.role, s.operand}; });
  row.elements += s.values.size();
  count_rows(s.values.size(), 1, row.zeros,
             [values = s.values](std::size_t begin, std::size_t end, std::uint64_t& own) {
               own = count_zeros(values.subspan(begin, end - begin));
             });
  row.underflowed += s.tally->to_zero;
  row.overflowed += s.tally->overflow;
  row.subnormal += s.tally->subnormal;
  row.nan += s.tally->nan;
}

void Microscope::see_updates(const std::vector<TrainedParameter<float>*>& parameters,
                             const std::vector<UpdateReport>& reports) {
  updates_.resize(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    UpdateReport& sum = updates_[i].sum;
    const UpdateReport& r = reports[i];
    updates_[i].name = parameters[i]->name;
    for (std::uint64_t UpdateReport::* const count :
         {&UpdateReport::elements, &UpdateReport::with_update, &UpdateReport::swamped, &UpdateReport::changed,
          &UpdateReport::zero_gradients, &UpdateReport::second_underflowed, &UpdateReport::zero_denominators,
          &UpdateReport::non_finite})
      sum.*count += r.*count;
    sum.weight_norm = r.weight_norm, sum.gradient_norm = r.gradient_norm, sum.update_norm = r.update_norm;
  }
}

std::vector<Microscope::Row> Microscope::take_rows() { return rows_.take(); }
std::vector<Microscope::UpdateRow> Microscope::take_updates() { return std::exchange(updates_, {}); }

Json Microscope::state() const { return record_json(*this); }
void Microscope::restore(const Json& state, const std::string& where) { read_record(state, where, *this); }

}  // namespace halfulp::training
