// One scaler for several losses and optimizers, clipping, and accumulation over micro-batches.
#include <halfulp/experiments/grad_scaler/grad_scaler.hpp>
#include <halfulp/report/config.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace halfulp::grad_scaler {
namespace {

using training::LossScaler;

constexpr float size = 0x1p-4f;  ///< of the solution's weights: a gradient of 4096 at the scale of 2^16
constexpr double first_scale = 65536;

std::string documented(std::string_view section) {
  return fmt::format("PyTorch documentation, Automatic Mixed Precision examples, {}", section);
}

Json yes(bool said) { return said ? "yes" : "no"; }

/// Where `gradient` stands for `all` of the true one: their product over the square of the true one's norm; null if
/// that is no number. 1 for the gradient itself, 1 / N for one of N equal parts that are orthogonal.
Json counted(const Weights& gradient, const std::array<double, examples>& all) {
  double product = 0, square = 0;
  for (std::size_t j = 0; j < examples; ++j)
    product += static_cast<double>(gradient[j]) * all[j], square += all[j] * all[j];
  return std::isfinite(product / square) ? number(product / square) : Json();
}

/// Which networks have an Inf planted in their gradient, in step after step.
struct Planted {
  std::string_view name;
  std::array<bool, 2> in;
};
constexpr std::array<Planted, 5> planted{{{"none", {false, false}},
                                          {"1", {false, true}},
                                          {"0", {true, false}},
                                          {"both", {true, true}},
                                          {"none", {false, false}}}};

enum class Way : std::uint8_t { documented, update_twice, loss_unscaled };
constexpr std::array<std::string_view, 3> way_names{"as documented", "update after each optimizer",
                                                    "loss 1 not scaled"};

/// One iteration of two networks with a loss and an optimizer each.
struct Iteration {
  std::array<bool, 2> taken{};
  std::array<Json, 2> part;  ///< what unscaled gradients are of the true ones
  double before = 0, after = 0;
};

Iteration iterate(LossScaler& scaler, std::array<Regression, 2>& networks, Way way, const Planted& with) {
  Iteration made;
  made.before = scaler.current();
  for (std::size_t n = 0; n < 2; ++n) {
    networks[n].zero_gradient();
    networks[n].backward(way == Way::loss_unscaled && n == 1 ? 1 : scaler.factor(), true);
    if (with.in[n]) networks[n].gradient[0] = std::numeric_limits<float>::infinity();
  }
  for (std::size_t n = 0; n < 2; ++n) {
    const auto gradients = networks[n].gradients();
    const std::array<double, examples> exact = networks[n].exact_gradient();
    made.taken[n] = scaler.step(static_cast<int>(n), gradients, [&] { networks[n].take_step(0.25f); });
    made.part[n] = counted(networks[n].gradient, exact);
    if (way == Way::update_twice) scaler.update();
  }
  if (way != Way::update_twice) scaler.update();
  made.after = scaler.current();
  return made;
}

}  // namespace

void several_optimizers(Report& report) {
  Table& table = report.table(
      "several", "One scaler for two networks, with a loss and an optimizer each",
      {{"way", "", "What the program does."},
       {"step", "step", "Iteration."},
       {"infinite", "", "The networks that have an Inf in a gradient: none, 0, 1 or both."},
       {"scale", "1", "Scale before the iteration."},
       {"scale_after", "1", "Scale after it."},
       {"taken_0", "", "Whether the step of optimizer 0 was taken: yes or no."},
       {"taken_1", "", "The same of optimizer 1."},
       {"part_0", "1", "Gradient of network 0 after unscaling, in parts of the true one; null with Inf."},
       {"part_1", "1", "The same of network 1."}});
  Json expected = Json::array(), measured = Json::array(), twice = Json::array();
  double small = 0;
  for (std::size_t w = 0; w < way_names.size(); ++w) {
    const Way way = static_cast<Way>(w);
    LossScaler scaler;
    std::array<Regression, 2> networks{Regression(even_solution(size)), Regression(even_solution(size))};
    double scale = first_scale;
    for (std::size_t i = 0; i < planted.size(); ++i) {
      const Planted& with = planted[i];
      const Iteration made = iterate(scaler, networks, way, with);
      table.row({way_names[w], i + 1, with.name, number(made.before), number(made.after), yes(made.taken[0]),
                 yes(made.taken[1]), made.part[0], made.part[1]});
      if (way == Way::documented) {
        if (with.in[0] || with.in[1]) scale /= 2;
        expected.push_back({!with.in[0], !with.in[1], scale});
        measured.push_back({made.taken[0], made.taken[1], made.after});
      } else if (way == Way::update_twice && with.in[0]) {
        twice.push_back({made.part[1], number(made.after / made.before)});
      } else if (way == Way::loss_unscaled && made.taken[1]) {
        small = std::max(small, std::fabs(made.part[1].get<double>() * made.before - 1));
      }
    }
  }
  report.claim(
      {"inf-skips-its-optimizer",
       "An Inf in the gradients of one optimizer leaves out the step of that one alone, and halves the scale once, "
       "as Infs in the gradients of both do.",
       documented("Working with Multiple Models, Losses, and Optimizers")},
      exactly(expected, measured, "published"));
  report.claim(
      {"update-after-each-is-wrong",
       "With an update after each optimizer an Inf in the first one's gradients makes the second one's twice too "
       "large, and Infs in both quarter the scale.",
       "derived: the second gradient was scaled by S and is unscaled by S / 2"},
      exactly(Json::array({Json::array({2.0, 0.5}), Json::array({Json(), 0.25})}), twice, "oracle"));
  report.claim({"unscaled-loss-is-lost",
                "The gradient of a loss that was not scaled is the true one divided by the scale: the largest relative "
                "difference from that.",
                "derived: unscaling divides by the scale whatever the loss was multiplied by; FP16 rounds"},
               at_most(1e-3, small, "oracle"));
}

void clipping(const Config& config, Report& report) {
  Table& table = report.table(
      "clipping", "Gradients clipped before and after they are unscaled",
      {{"when", "", "When they are clipped: before unscaling (wrong) or after it."},
       {"k", "binade", "The scale is 2^k, and static."},
       {"norm", "1", "Norm of the gradients that clipping sees, in the first step."},
       {"coefficient", "1",
        "What it multiplies them by: max_norm / (norm + 1e-6), at most 1, as PyTorch's clip_grad_norm_ does."},
       {"clipped", "1", "Norm of the gradients that the first step takes."},
       {"to_fp32", "1", "The same divided by what FP32 without a scale takes."},
       {"first_loss", "1", "Loss before the first step."},
       {"last_loss", "1", "Loss after the last one."},
       {"fp32_loss", "1", "The same in FP32 without a scale."}});
  const auto most = static_cast<float>(config.real("max_norm"));
  const auto rate = static_cast<float>(config.real("learning_rate"));
  const std::int64_t steps = config.integer("steps");
  struct Course {
    training::Clipping first;
    double clipped = 0, loss = 0;
  };
  // Without a scale, before and after are the same.
  const auto train = [&](bool half, bool before, double scale) {
    LossScaler scaler(training::static_scale(scale));
    Regression network(even_solution(size));
    Course course;
    for (std::int64_t step = 0; step < steps; ++step) {
      network.zero_gradient();
      network.backward(scaler.factor(), half);
      const auto gradients = network.gradients();
      if (!before) scaler.unscale(0, gradients);
      const training::Clipping clip = training::clip_gradients(gradients, most);
      scaler.step(0, gradients, [&] { network.take_step(rate); });
      scaler.update();
      if (step == 0) course.first = clip, course.clipped = norm(network.gradient);
    }
    course.loss = network.loss(false);
    return course;
  };
  const double whole = norm(Regression(even_solution(size)).exact_gradient()), start = whole * whole / 2;
  const double way = static_cast<double>(steps) * static_cast<double>(rate) * static_cast<double>(most);
  const Course fp32 = train(false, false, 1);
  double after = 0, before = 0, lowest = 1, largest_k = -1, straight = 0;
  for (const std::int64_t k : config.integers("scales"))
    for (const bool early : {true, false}) {
      const double scale = std::ldexp(1.0, static_cast<int>(k));
      const Course c = train(true, early, scale);
      const double to_fp32 = c.clipped / fp32.clipped;
      table.row({early ? "before" : "after", k, number(c.first.norm), number(static_cast<double>(c.first.coefficient)),
                 number(c.clipped), number(to_fp32), number(start), number(c.loss), number(fp32.loss)});
      (early ? before : after) = std::max(early ? before : after, std::fabs(to_fp32 * (early ? scale : 1) - 1));
      if (early && static_cast<double>(k) > largest_k) {
        // Each step goes no farther than rate * most / scale, so that this is left at least.
        const double left = std::max(whole - way / scale, 0.0);
        largest_k = static_cast<double>(k), lowest = c.loss / (left * left / 2);
      }
      if (!early) straight = std::max(straight, std::fabs(c.loss / ((whole - way) * (whole - way) / 2) - 1));
    }
  const std::string none = whole <= static_cast<double>(most)
                               ? fmt::format(
                                     "max_norm is {}, and the gradient's norm {}: nothing is clipped; accepted: "
                                     "below it",
                                     most, whole)
                               : "";
  const std::string ends = whole - way <= static_cast<double>(most)
                               ? "not every step is clipped; accepted: fewer steps, a smaller max_norm"
                               : "";
  report.claim({"clip-before-is-wrong",
                "Clipped before it is unscaled, a gradient is max_norm divided by the scale long: the largest relative "
                "difference from that, over all scales.",
                "derived: what has the norm max_norm is divided by the scale afterwards"},
               none, [&] { return at_most(1e-3, before, "oracle"); });
  report.claim(
      {"clip-before-stands-still",
       "At the largest scale such a training stays where it began: its loss divided by what steps of that length "
       "leave at least.",
       "derived: n steps go no farther than n lr max_norm / scale"},
      none, [&] { return at_least(0.999, lowest, "oracle"); });
  report.claim(
      {"clip-after-is-right",
       "Clipped after it is unscaled, it is as long as in FP32 at every scale: the largest relative difference.",
       documented("Gradient clipping")},
      none, [&] { return at_most(1e-3, after, "published"); });
  report.claim(
      {"clip-after-learns",
       "Such a training goes lr max_norm towards the solution in each step: the largest relative difference of "
       "the last loss from (|t| - n lr max_norm)^2 / 2, over all scales.",
       "derived: the gradient points from the solution to the weights, all the way"},
      none.empty() ? ends : none, [&] { return at_most(0.01, straight, "oracle"); });
}

namespace {

enum class Accumulating : std::uint8_t { documented, infinite, unscale_each, scale_moves, undivided };
constexpr std::array<std::string_view, 5> accumulating_names{
    "as documented", "as documented, Inf in the first", "unscaled after each micro-batch",
    "scale doubled after half of them", "losses not divided by their number"};

struct Accumulated {
  Json part;
  bool taken = false, refused = false;
  double after = 0;
};

/// One step of an optimizer over n micro-batches.
Accumulated accumulate(Accumulating way, std::size_t n) {
  LossScaler scaler;
  Regression network(even_solution(size));
  const std::array<double, examples> exact = network.exact_gradient();
  const auto gradients = network.gradients();
  Accumulated made;
  for (std::size_t i = 0; i < n; ++i) {
    const float times = way == Accumulating::undivided ? static_cast<float>(n) : 1.0f;
    network.backward(times * scaler.factor(), true, i * examples / n, (i + 1) * examples / n);
    if (way == Accumulating::infinite && i == 0) network.gradient[0] = std::numeric_limits<float>::infinity();
    if (way == Accumulating::scale_moves && 2 * (i + 1) == n) scaler.update(2 * scaler.current());
    if (way != Accumulating::unscale_each) continue;
    try {
      scaler.unscale(0, gradients);
    } catch (const std::logic_error&) {
      // The scaler refuses, so the program divides by itself.
      made.refused = true;
      training::unscale_in_place(gradients[0], static_cast<float>(1 / scaler.current()), 0);
    }
  }
  made.taken = scaler.step(0, gradients, [] {});
  made.part = counted(network.gradient, exact);
  scaler.update();
  made.after = scaler.current();
  return made;
}

/// What is left of the gradient by arithmetic: each micro-batch has 1 / n of it.
double part_by_arithmetic(Accumulating way, std::size_t n) {
  const auto of = static_cast<double>(n);
  double sum = 0;
  switch (way) {
    case Accumulating::unscale_each:
      for (std::size_t i = 0; i < n; ++i) sum = sum / first_scale + 1;
      return sum / of;
    case Accumulating::scale_moves: return n % 2 == 0 ? 0.75 : 1;
    case Accumulating::undivided: return of;
    default: return 1;
  }
}

}  // namespace

void accumulation(const Config& config, Report& report) {
  Table& table = report.table(
      "accumulation", "Gradients accumulated over micro-batches, one step",
      {{"way", "", "What the program does."},
       {"micro_batches", "1", "Micro-batches of a step, of 16 examples together."},
       {"part", "1", "Gradient that the step takes, in parts of the true one; null with Inf."},
       {"taken", "", "Whether the step was taken: yes or no."},
       {"refused", "", "Whether the scaler refused a second unscaling, which the program then does itself: yes or no."},
       {"scale", "1", "Scale before the step."},
       {"scale_after", "1", "Scale after it."}});
  std::array<double, accumulating_names.size()> worst{};
  bool all_skipped = true, all_refused = true, halved = true, some = false;
  for (const std::int64_t n : config.integers("micro_batches")) {
    if (static_cast<std::int64_t>(examples) % n != 0)
      throw std::invalid_argument(
          fmt::format("micro_batches has {}, which does not divide {}; accepted: 1, 2, 4, 8, 16", n, examples));
    some = some || n > 1;
    for (std::size_t w = 0; w < accumulating_names.size(); ++w) {
      const auto way = static_cast<Accumulating>(w);
      const auto count = static_cast<std::size_t>(n);
      const Accumulated made = accumulate(way, count);
      table.row({accumulating_names[w], n, made.part, yes(made.taken), yes(made.refused), number(first_scale),
                 number(made.after)});
      if (way == Accumulating::infinite) {
        all_skipped = all_skipped && !made.taken;
        halved = halved && made.after == first_scale / 2;
        continue;
      }
      if (way == Accumulating::unscale_each && n > 1) all_refused = all_refused && made.refused;
      const double by_arithmetic = part_by_arithmetic(way, count);
      worst[w] = std::max(worst[w], made.part.is_null()
                                        ? HUGE_VAL
                                        : std::fabs(made.part.get<double>() - by_arithmetic) / by_arithmetic);
    }
  }
  const std::string one = some ? "" : "micro_batches has only 1; accepted: 2 and more too";
  const auto judge = [&](Accumulating way) { return at_most(1e-6, worst[static_cast<std::size_t>(way)], "oracle"); };
  report.claim(
      {"accumulate-as-documented",
       "Scaled each, unscaled and updated once, micro-batches give the gradient of the whole batch: the largest "
       "relative difference.",
       documented("Gradient accumulation")},
      one, [&] { return judge(Accumulating::documented); });
  report.claim({"accumulate-inf", "An Inf in one micro-batch leaves out the whole step and halves the scale once.",
                documented("Gradient accumulation: Infs and NaNs are checked at the step")},
               exactly(Json::array({true, true}), Json::array({all_skipped, halved}), "published"));
  report.claim(
      {"accumulate-unscale-each-is-wrong",
       "Unscaled after each of N micro-batches, all but the last are divided by the scale again and again: what "
       "is left is (1 + 2^-16 + ...) / N; the largest relative difference from that.",
       "derived: each micro-batch has 1 / N of the gradient"},
      one, [&] { return judge(Accumulating::unscale_each); });
  report.claim({"unscale-twice-is-refused", "The scaler refuses to unscale an optimizer's gradients twice.",
                "PyTorch documentation, torch.amp.GradScaler.unscale_: once per optimizer per step"},
               one, [&] { return exactly(true, all_refused, "published"); });
  report.claim({"accumulate-moving-scale-is-wrong",
                "If the scale doubles after half of the micro-batches, three quarters of the gradient are left: the "
                "largest relative difference from that.",
                "derived: the first half was scaled by S and is unscaled by 2 S"},
               one, [&] { return judge(Accumulating::scale_moves); });
  report.claim(
      {"accumulate-undivided-is-wrong",
       "Mean losses of N micro-batches that are not divided by N give N times the gradient: the largest relative "
       "difference from that.",
       documented("Gradient accumulation: loss = loss / iters_to_accumulate")},
      one, [&] { return judge(Accumulating::undivided); });
}

}  // namespace halfulp::grad_scaler
