// Delayed scaling: the largest magnitude that sets a scale comes from earlier tensors, as in Transformer Engine's
// DelayedScaling.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <deque>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace halfulp {

/// Which magnitude of the history decides. The names are those of Transformer Engine's amax_compute_algo.
enum class AmaxChoice { max, most_recent };
/// Their names.
inline constexpr std::array<std::pair<std::string_view, AmaxChoice>, 2> amax_choices{
    {{"max", AmaxChoice::max}, {"most_recent", AmaxChoice::most_recent}}};

/// The scale of one tensor over time: quantize with amax(), then record() the tensor's largest magnitude.
///
/// The scale is target 2^-margin / a, where a is the largest (or the last) of the last `length` magnitudes recorded,
/// including the newest. If a is zero or not finite, the scale does not change; at first it is 1. A NaN in the history
/// is ignored. (Transformer Engine, common/recipe/delayed_scaling.cu; the defaults are those of its DelayedScaling
/// recipe: 1024, max, margin 0.)
class DelayedAmax {
 public:
  /// `target`: the value to which a magnitude is scaled, BlockElement::target().
  explicit DelayedAmax(float target, std::size_t length = 1024, AmaxChoice choice = AmaxChoice::max, int margin = 0)
      : length_(length), choice_(choice), margin_(margin), amax_(target) {
    if (length == 0) throw std::invalid_argument("a history of magnitudes holds at least one");
  }

  /// For BlockOptions::amax: target / amax is the current scale. Transformer Engine's use of it is `multiplier`.
  float amax() const { return amax_; }

  /// Records the largest magnitude of one step and forgets the one of `length` steps ago.
  void record(float amax) {
    history_.push_back(amax);
    if (history_.size() > length_) history_.pop_front();
    float a = choice_ == AmaxChoice::most_recent ? amax : 0;
    if (choice_ == AmaxChoice::max)
      for (const float x : history_) a = std::fmax(a, x);
    if (std::isfinite(a) && a > 0) amax_ = std::ldexp(a, margin_);
  }

  /// The recorded magnitudes, the newest last.
  const std::deque<float>& history() const { return history_; }
  /// Takes the state of another such object: its history(), and its amax(), which may be older than these.
  void restore(std::span<const float> history, float amax) {
    history_.assign(history.begin(), history.end());
    amax_ = amax;
  }

 private:
  std::size_t length_;
  AmaxChoice choice_;
  int margin_;
  float amax_;
  std::deque<float> history_;
};

}  // namespace halfulp
