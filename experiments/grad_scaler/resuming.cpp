// Checkpoints: from FP32 to mixed precision and back, with the scaler's state and without it.
#include <halfulp/experiments/grad_scaler/grad_scaler.hpp>
#include <halfulp/report/config.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

namespace halfulp::grad_scaler {
namespace {

using training::LossScaler;

/// A way to go on from a checkpoint.
struct Resumption {
  std::string_view from, to;
  bool half_before, half_after, saved;
  std::string_view scaler;  ///< of the resumed run
};
constexpr std::array<Resumption, 5> resumptions{{{"fp32", "fp32", false, false, false, "none"},
                                                 {"fp32", "amp", false, true, false, "new"},
                                                 {"amp", "amp", true, true, true, "restored"},
                                                 {"amp", "amp", true, true, false, "forgotten"},
                                                 {"amp", "fp32", true, false, false, "none"}}};

/// Weights and the scaler's state after some steps: what a checkpoint holds.
struct Snapshot {
  Weights weights{};
  Json scaler;
};

/// One stretch of training.
struct Stretch {
  std::vector<double> losses, scales;  ///< before each step
  std::uint64_t skipped = 0;
  double last_loss = 0, last_scale = 1;
  Snapshot end;
};

Stretch train(const Weights& solution, const Snapshot& from, bool half, std::int64_t steps, float rate) {
  training::LossScalerSettings settings;
  settings.enabled = half;
  LossScaler scaler(settings);
  if (half && !from.scaler.is_null()) scaler.restore(from.scaler, "checkpoint");
  Regression network(solution);
  network.weights = from.weights;
  Stretch made;
  for (std::int64_t step = 0; step < steps; ++step) {
    made.losses.push_back(network.loss(half));
    made.scales.push_back(scaler.current());
    network.zero_gradient();
    network.backward(scaler.factor(), half);
    made.skipped += !scaler.step(0, network.gradients(), [&] { network.take_step(rate); });
    scaler.update();
  }
  made.last_loss = network.loss(half), made.last_scale = scaler.current();
  made.end = {network.weights, half ? scaler.state() : Json()};
  return made;
}

/// By how much rounding to FP16 can put off a prediction: u times the sum of all weights' sizes twice, once for the
/// weights and once for itself; below 2^-14 numbers are rounded as at 2^-14. A gradient, as a mean of predictions'
/// errors with signs, is off by no more.
double rounding_of_gradient(const Weights& weights) {
  double sizes = 0;
  for (const float w : weights) sizes += std::max(std::fabs(static_cast<double>(w)), 0x1p-14);
  return 2.01 * 0x1p-11 * sizes;
}

/// The same of the loss: errors have a mean square of 2 loss.
double rounding_of_loss(const Weights& weights, double loss) {
  const double off = rounding_of_gradient(weights);
  return std::sqrt(2 * loss) * off + off * off / 2;
}

/// Halvings of 2^16 until a gradient of this size, give or take `off`, fits FP16; nothing if rounding decides.
std::optional<std::uint64_t> halvings(double size, double off) {
  const auto until_below = [](double limit, double gradient) {
    std::uint64_t n = 0;
    for (double scaled = gradient * 65536; scaled >= limit; scaled /= 2) ++n;
    return n;
  };
  const std::uint64_t fewest = until_below(65520 * 1.01, size - off), most = until_below(65520 * 0.99, size + off);
  return fewest == most ? std::optional(most) : std::nullopt;
}

}  // namespace

void resuming(const Config& config, Report& report) {
  Table& table = report.table(
      "resuming", "Trainings that go on from a checkpoint",
      {{"from", "", "Precision before the checkpoint: fp32, or amp with products in FP16 and a GradScaler."},
       {"to", "", "Precision after it."},
       {"scaler", "", "Scaler of the resumed run: none, new, restored from the checkpoint, or forgotten (a new one)."},
       {"loss_before", "1", "Loss at the checkpoint, as the first run computes it."},
       {"loss_after", "1", "Loss at the checkpoint, as the resumed run computes it."},
       {"scale_before", "1", "Scale at the checkpoint; 1 in FP32."},
       {"scale_after", "1", "First scale of the resumed run."},
       {"skipped", "step", "Steps that the resumed run leaves out."},
       {"last_scale", "1", "Its scale at the end."},
       {"last_loss", "1", "Its loss at the end."},
       {"uninterrupted", "1", "Loss at the end of the first run, had it gone on."},
       {"same_bits", "", "Whether the weights are those of that run to the last bit: yes or no."}});
  Table& courses = report.table("resuming_course", "Their losses and scales, step by step",
                                {{"way", "", "Precision before, precision after, and the resumed run's scaler."},
                                 {"step", "step", "Steps done; the checkpoint is at half of them."},
                                 {"loss", "1", "Loss before the next step."},
                                 {"scale", "1", "Scale of the next step; 1 in FP32."}});
  const std::int64_t steps = config.integer("steps");
  const auto rate = static_cast<float>(config.real("learning_rate"));
  const double largest = config.real("largest");
  Weights solution{};
  for (std::size_t j = 0; j < examples; ++j)
    solution[j] = static_cast<float>(largest * static_cast<double>(examples - j) / examples);
  double jump = 0, falls = 0;
  bool learns = true;  // by more than rounding could hide, after every checkpoint
  Json restored, fresh, forgotten;
  for (const Resumption& r : resumptions) {
    const Stretch first = train(solution, {}, r.half_before, steps, rate);
    Snapshot checkpoint = first.end;
    const Stretch whole = train(solution, checkpoint, r.half_before, steps, rate);
    if (!r.saved) checkpoint.scaler = nullptr;
    const Stretch second = train(solution, checkpoint, r.half_after, steps, rate);
    const bool same = second.end.weights == whole.end.weights;
    table.row({r.from, r.to, r.scaler, number(first.last_loss), number(second.losses.front()), number(first.last_scale),
               number(second.scales.front()), second.skipped, number(second.last_scale), number(second.last_loss),
               number(whole.last_loss), same ? "yes" : "no"});
    const std::string way = fmt::format("{} to {}, {}", r.from, r.to, r.scaler);
    for (const Stretch* const part : {&first, &second})
      for (std::size_t i = 0; i < part->losses.size(); ++i)
        courses.row({way, i + (part == &second ? static_cast<std::size_t>(steps) : 0), number(part->losses[i]),
                     number(part->scales[i])});
    jump = std::max(jump, std::fabs(second.losses.front() - first.last_loss) /
                              rounding_of_loss(checkpoint.weights, first.last_loss));
    falls = std::max(falls, second.last_loss / second.losses.front());
    const auto taken = static_cast<double>(static_cast<std::uint64_t>(steps) - second.skipped);
    const double fall = first.last_loss * (1 - std::pow(1 - static_cast<double>(rate), 2 * taken));
    learns = learns && fall > 4 * rounding_of_loss(solution, first.last_loss);
    if (r.scaler == "restored") restored = {same, second.skipped};
    if (r.scaler == "new") fresh = second.skipped;
    if (r.scaler == "forgotten") forgotten = second.skipped;
  }
  const std::string recipe = "PyTorch tutorials, Automatic Mixed Precision recipe, Saving/Resuming";
  // The gradient w - t is t at first, and (1 - lr) times as large after each step that is taken.
  const auto left = [&](std::uint64_t taken) { return largest * std::pow(1 - static_cast<double>(rate), taken); };
  const auto whole = static_cast<std::uint64_t>(steps);
  const double off = rounding_of_gradient(solution);  // weights do not go beyond the solution
  const std::optional<std::uint64_t> begin = halvings(largest, 0), from_fp32 = halvings(left(whole), off),
                                     from_amp = begin && *begin <= whole ? halvings(left(whole - *begin), off) : begin;
  const auto skips = [&](const std::optional<std::uint64_t>& expected, const Json& measured) {
    if (!expected) return skipped("a gradient is so near 65520 that rounding decides; accepted: another largest");
    if (!*expected) return skipped("no gradient overflows at 65536; accepted: a larger largest, fewer steps");
    if (*expected > whole) return skipped("the scale does not come down in so few steps; accepted: more steps");
    return exactly(*expected, measured, "oracle");
  };
  report.claim(
      {"resume-restored",
       "With the scaler's state restored, mixed precision goes on with the same bits, and leaves out no step.", recipe},
      begin && *begin <= whole
          ? exactly(Json::array({true, 0}), restored, "published")
          : skipped("the scale has not come down at the checkpoint; accepted: more steps, another largest"));
  report.claim(
      {"resume-forgotten",
       "Without it, the scale begins at 65536 again, and as many steps are left out as halvings are needed until "
       "the largest gradient fits FP16.",
       "derived: the largest gradient is t (1 - lr)^n after n steps, and 65520 overflows"},
      skips(from_amp, forgotten));
  report.claim({"resume-new",
                "From an FP32 checkpoint, with a new scaler, steps are left out likewise, and none is lost before.",
                "derived: the largest gradient is t (1 - lr)^n after n steps, and 65520 overflows"},
               skips(from_fp32, fresh));
  report.claim(
      {"resume-loss",
       "The first loss after each checkpoint is the one before it, up to what rounding to FP16 makes of a loss: "
       "the largest jump, in parts of that.",
       {recipe}},
      at_most(1, jump, "published"));
  report.claim(
      {"resume-falls-on",
       "After each checkpoint the loss keeps falling: the largest last loss, as a fraction of the resumed run's first.",
       {recipe}},
      learns ? at_most(1, falls, "published")
             : skipped("too few steps are taken, or nothing is left to learn but rounding; accepted: more or "
                       "fewer steps"));
}

}  // namespace halfulp::grad_scaler
