// Delayed scaling: the largest magnitude to go by comes from tensors seen before, as in Transformer Engine's
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

/// Which of the history decides. Names as Transformer Engine's amax_compute_algo.
enum class AmaxChoice { max, most_recent };
/// Their names.
inline constexpr std::array<std::pair<std::string_view, AmaxChoice>, 2> amax_choices{
    {{"max", AmaxChoice::max}, {"most_recent", AmaxChoice::most_recent}}};

/// The scale of one tensor over time: quantize with amax(), then record() what the tensor's largest magnitude was.
///
/// The scale is target 2^-margin / a, where a is the largest (or the last) of the last `length` magnitudes recorded,
/// the newest included. Where a is zero or not finite, the scale stays what it was; at first it is 1. NaN in the
/// history is no magnitude. (Transformer Engine, common/recipe/delayed_scaling.cu; defaults as of its DelayedScaling
/// recipe: 1024, max, margin 0.)
class DelayedAmax {
 public:
  /// `target`: what a magnitude is scaled to, BlockElement::target().
  explicit DelayedAmax(float target, std::size_t length = 1024, AmaxChoice choice = AmaxChoice::max, int margin = 0)
      : length_(length), choice_(choice), margin_(margin), amax_(target) {
    if (length == 0) throw std::invalid_argument("a history of magnitudes holds at least one");
  }

  /// For BlockOptions::amax: what target / amax gives the scale of now. The format's use `multiplier` is Transformer
  /// Engine's.
  float amax() const { return amax_; }

  /// The largest magnitude of one step; what was recorded `length` steps ago is forgotten.
  void record(float amax) {
    history_.push_back(amax);
    if (history_.size() > length_) history_.pop_front();
    float a = choice_ == AmaxChoice::most_recent ? amax : 0;
    if (choice_ == AmaxChoice::max)
      for (const float x : history_) a = std::fmax(a, x);
    if (std::isfinite(a) && a > 0) amax_ = std::ldexp(a, margin_);
  }

  /// What was recorded last, the newest behind.
  const std::deque<float>& history() const { return history_; }
  /// Takes the state of another such object: its history() and its amax(), which may be older.
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
