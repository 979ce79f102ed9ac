// How a power of two follows from a block's largest magnitude: rounded down, up, to even, or up from the quotient.
#include <halfulp/data/distributions.hpp>
#include <halfulp/data/elementary.hpp>
#include <halfulp/emulation/block/delayed.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/experiments/scaling/scaling.hpp>
#include <halfulp/experiments/publications.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <cstdlib>

namespace halfulp::scaling {
namespace {

constexpr std::size_t block_size = 32;

/// How a scale is found, and its format.
struct Rule {
  std::string_view scale, name;
};
constexpr std::array<Rule, 5> rules{
    {{"e8m0", "floor"}, {"e8m0", "ceil"}, {"e8m0", "even"}, {"e8m0", "rceil"}, {"fp32", "amax"}}};

BlockFormat format_of(const FloatFormat& element, const Rule& rule) {
  return parse_block_format(fmt::format("{}/1x{}/{}/{}", format_name(element), block_size, rule.scale, rule.name));
}

/// Whether scales of samples stay far from the ends of E8M0, where rules are clamped.
bool usual(const FloatFormat& element) { return std::abs(element.emax()) <= 60; }

/// Elements that OCP's rule leaves beyond the largest value, only from the definition: with 2^(floor(log2 amax) -
/// emax).
std::uint64_t cut_by_floor(const FloatFormat& element, const FileTensor& tensor,
                           const std::vector<std::uint32_t>& scales, std::size_t& blocks_with_other_scales) {
  const double largest = element.value(element.max_finite());
  const int emax = std::ilogb(largest);
  const std::uint64_t columns = tensor.shape.back();
  std::uint64_t cut = 0, block = 0;
  for (std::size_t row = 0; row < tensor.values.size(); row += columns)
    for (std::uint64_t first = 0; first < columns; first += block_size, ++block) {
      const auto begin = tensor.values.begin() + static_cast<std::ptrdiff_t>(row + first);
      const auto end = begin + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(block_size, columns - first));
      double amax = 0;
      for (auto v = begin; v != end; ++v) amax = std::max(amax, std::fabs(*v));
      const int exponent = amax > 0 ? std::max(std::ilogb(amax) - emax, -127) : -127;
      const double limit = std::ldexp(largest, exponent);
      cut += static_cast<std::uint64_t>(std::count_if(begin, end, [&](double v) { return std::fabs(v) > limit; }));
      blocks_with_other_scales += scales[block] != static_cast<std::uint32_t>(exponent + 127);
    }
  return cut;
}

/// Blocks whose values are elements times a power of two, the largest element among them.
FileTensor fitting(const FloatFormat& element, std::uint64_t seed, std::size_t blocks) {
  std::vector<double> values;
  for (std::size_t b = 0; b < blocks; ++b) {
    const double scale = FloatFormat::power_of_two(static_cast<int>(random_below(61, seed, 100, b)) - 30);
    for (std::size_t i = 0; i < block_size; ++i) {
      const std::uint64_t magnitude = i == 0 ? element.max_finite()
                                             : random_below(element.max_finite() + 1, seed, 101, b * block_size + i);
      const double v = element.value(magnitude) * scale;
      values.push_back(random_below(2, seed, 102, b * block_size + i) ? -v : v);
    }
  }
  return as_tensor(blocks, block_size, std::move(values));
}

}  // namespace

void report_rules(const ScalingSettings& s, const std::vector<TensorSample>& samples, Run& run) {
  Table& table = run.report.table(
      "rules", fmt::format("Blocks of {} by the rule that finds their scale", block_size),
      {{"tensor", "", "What is quantized: samples, or `input` for the user's file."},
       {"element", "", "Format of the elements."},
       {"scale", "", "Format of the scales: E8M0 for powers of two, FP32 for any."},
       {"rule", "", "How the scale follows from the block's largest magnitude."},
       {"relative_error", "1", "Frobenius norm of the errors over that of the values; null if none stays finite."},
       {"others_error", "1",
        "The same for all channels except the outlier, which would otherwise decide; null for tensors without one."},
       {"sqnr", "dB", "Signal to quantization noise: -20 log10 of the relative error; null where nothing was lost."},
       {"largest_error", "1", "Largest magnitude of an error."},
       {"saturated", "value",
        "Elements beyond the largest value of their block; null for scales of FP32, whose own rounding puts the "
        "largest just beyond or not."},
       {"zeros", "1", "Share of elements that became zero."}});
  std::uint64_t cut = 0, expected_cut = 0, cut_up = 0;
  std::size_t other_scales = 0;
  for (const TensorSample& sample : samples)
    for (const FormatChoice& element : s.elements) {
      const auto all = parallel_map(rules.size(), [&](std::size_t r) {
        Quantized q = quantize_tensor(sample.tensor, format_of(element.format, rules[r]), s.rounding, s.seed, {});
        const double others = sample.outlier
                                  ? column_loss(sample.tensor.values, q.values, sample.tensor.shape[1], 0).others
                                  : NAN;
        return std::tuple(q.loss, others, std::move(q.scales));
      });
      for (std::size_t r = 0; r < rules.size(); ++r) {
        const auto& [loss, others, scales] = all[r];
        const bool power = rules[r].scale == "e8m0";
        table.row({sample.name, element.name, rules[r].scale, rules[r].name, relative_error(loss), or_null(others),
                   sqnr(loss), loss.compared ? number(loss.largest_error) : Json(),
                   power ? Json(loss.saturated) : Json(), share(loss.to_zero, loss.elements)});
        if (!sample.ours || !usual(element.format)) continue;
        if (rules[r].name == "floor")
          cut += loss.saturated, expected_cut += cut_by_floor(element.format, sample.tensor, scales, other_scales);
        if (rules[r].name == "ceil" || rules[r].name == "rceil") cut_up += loss.saturated;
      }
    }
  const std::string ocp = "OCP MX 1.0, section 6.3";
  run.report.claim({"floor-is-the-mx-rule",
                    "Blocks whose scale by the rule floor is not 2^(floor(log2 of the largest magnitude) - "
                    "exponent of the largest element).",
                    {publications::mx_elements, ocp}},
                   exactly(0, other_scales, "oracle"));
  run.report.claim({"floor-cuts-large-significands",
                    "Elements that saturate under the rule floor are those whose block begins above the largest "
                    "element's significand, counted from the samples.",
                    "derived: " + ocp + ", applied to the samples in double"},
                   exactly(expected_cut, cut, "oracle"));
  run.report.claim(
      {"rounded-up-nothing-saturates", "Elements that saturate under ceil and rceil, whatever the samples.",
       "derived: a scale that is no less than amax / largest element"},
      exactly(0, cut_up, "oracle"));

  Json not_exact = Json::object(), none = Json::object();
  std::size_t halved = 0;
  for (const FormatChoice& element : s.elements) {
    if (!usual(element.format)) continue;
    const FileTensor tensor = fitting(element.format, s.seed, 64);
    for (const Rule& rule : rules) {
      const Quantized q = quantize_tensor(tensor, format_of(element.format, rule), s.rounding, s.seed, {});
      std::size_t moved = 0;
      for (std::size_t i = 0; i < q.values.size(); ++i) moved += q.values[i] != tensor.values[i];
      if (rule.name == "ceil") {
        halved += moved;
        continue;
      }
      const std::string key(rule.name);
      none[key] = 0, not_exact[key] = not_exact.value(key, std::size_t{0}) + moved;
    }
  }
  run.report.claim({"data-that-fits-is-exact",
                    "Values changed by quantization, of blocks that are elements times a power of two, the "
                    "largest element among them.",
                    "derived: amax / largest element is that power of two, and dividing by it is exact"},
                   exactly(none, not_exact, "oracle"));
  // Largest element 2^emax or more: ceil takes the next power of two, and odd subnormals need a bit that is not there.
  const bool has_bits = std::any_of(s.elements.begin(), s.elements.end(), [](const FormatChoice& e) {
    return e.format.fraction_bits > 0 && usual(e.format);
  });
  const std::string wasted =
      "The rule ceil changes some of them: its scale is twice as large as need be, and elements lose a bit.";
  const std::string twice = "derived: the largest element is no power of two where there are fraction bits";
  run.report.claim({"ceil-wastes-a-bit", wasted, twice}, has_bits ? at_least(1, static_cast<double>(halved), "oracle")
                                                                  : skipped("elements have no fraction bits"));

  // Pretraining LLMs with NVFP4, on MX: 3 + delta goes to a binade whose two largest elements then are out of reach.
  std::vector<double> just_above(block_size, 1.0);
  just_above[0] = 3.1;
  const auto largest_code = [&](const char* format) {
    const Quantized q = quantize_tensor(as_tensor(1, block_size, just_above), parse_any_format(format), {}, 0, {});
    double largest = 0;
    for (const std::uint8_t code : q.codes) largest = std::max(largest, std::fabs(e2m1.value(code)));
    return largest;
  };
  const std::string nvfp4 = "derived: NVIDIA 2025, arXiv:2509.25149, on scales of MXFP4 that are rounded up";
  run.report.claim({"rounded-up-wastes-a-binade",
                    "A block of E2M1 with a largest magnitude of 3.1 uses nothing above 3 when its power of two "
                    "is rounded up: 4 and 6 are wasted.",
                    nvfp4},
                   exactly(3.0, largest_code("mxfp4/rceil"), "oracle"));
  run.report.claim({"nvfp4-uses-the-binade", "NVFP4's scale is near 3.1 / 6, and the same block uses 6.", nvfp4},
                   exactly(6.0, largest_code("nvfp4"), "oracle"));
}

// Current scales against scales from tensors seen before, on sequences that drift.

namespace {

enum class Course : std::uint8_t { steady, growth, decay, jump, spike };
constexpr std::array<std::string_view, 5> course_names{"steady", "growth", "decay", "jump", "spike"};

struct Delayed {
  BlockFormat format;
  std::vector<std::size_t> histories;
  std::vector<int> margins;
  std::size_t steps, count;
  double drift, jump;
  std::uint64_t seed;

  std::size_t event(Course course) const { return course == Course::spike ? steps / 4 : steps / 2; }
  /// log2 of the standard deviation at a step.
  double level(Course course, std::size_t step) const {
    switch (course) {
      case Course::steady: break;
      case Course::growth: return drift * static_cast<double>(step);
      case Course::decay: return -drift * static_cast<double>(step);
      case Course::jump: return step >= event(course) ? jump : 0;
      case Course::spike: return step == event(course) ? jump : 0;
    }
    return 0;
  }
};

/// A saturated value is beyond the largest by more than the scale's own rounding.
constexpr double beyond = 1 + 0x1p-18;

struct Step {
  double amax = 0, by = 0;  ///< of the tensor, and what the scale goes by
  Loss loss;
  std::uint64_t cut = 0;
};

struct Sequence {
  std::vector<Step> current;
  std::vector<std::vector<Step>> delayed;  ///< by setting
};

Step take_step(const Delayed& d, const Rounding& rounding, const std::vector<float>& values, std::optional<float> amax,
               std::uint64_t first) {
  Step step;
  const BlockArray array = quantize_blocks(d.format, rounding, values, 1, values.size(), {{d.seed, 1, first}, amax});
  std::vector<float> after(values.size());
  dequantize_blocks(array, after);
  const double high = d.format.element.target() * double{array.step(0).value};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = values[i], e = double{after[i]} - v;
    ++step.loss.elements, ++step.loss.compared;
    step.loss.errors.add(e), step.loss.squares.add(v);
    step.loss.to_zero += v != 0 && after[i] == 0;
    step.cut += std::fabs(v) > high * beyond;
    step.amax = std::max(step.amax, std::fabs(v));
  }
  step.by = amax ? double{*amax} : step.amax;
  return step;
}

Sequence run_course(const Delayed& d, Course course, const Rounding& rounding) {
  Sequence s;
  std::vector<DelayedAmax> scales;
  for (const std::size_t length : d.histories)
    for (const int margin : d.margins)
      scales.emplace_back(static_cast<float>(d.format.element.target()), length, AmaxChoice::max, margin);
  s.delayed.resize(scales.size());
  std::vector<float> values(d.count);
  for (std::size_t t = 0; t < d.steps; ++t) {
    stop_if_interrupted();
    const double sigma = deterministic_exp2(d.level(course, t));
    for (std::size_t i = 0; i < d.count; ++i)
      values[i] = static_cast<float>(sigma *
                                     normal_sample(d.seed, 10 + static_cast<std::uint64_t>(course), t * d.count + i));
    s.current.push_back(take_step(d, rounding, values, {}, t * d.count));
    const float amax = largest_magnitude(values);
    for (std::size_t k = 0; k < scales.size(); ++k) {
      s.delayed[k].push_back(take_step(d, rounding, values, scales[k].amax(), t * d.count));
      scales[k].record(amax);
    }
  }
  return s;
}

/// What the definition of delayed scaling says of a step, from the tensors' largest magnitudes: whether values
/// saturate; nothing where the largest is what the scale goes by, give or take roundings.
std::optional<bool> predicted(const Delayed& d, const std::vector<Step>& current, std::size_t step, std::size_t length,
                              int margin) {
  double most = 0;
  for (std::size_t back = 1; back <= std::min(length, step); ++back) most = std::max(most, current[step - back].amax);
  const double by = step == 0 ? d.format.element.target() : std::ldexp(most, margin), ratio = current[step].amax / by;
  if (ratio > 1 - 0x1p-16 && ratio < 1 + 0x1p-16) return {};
  return ratio > 1;
}

Delayed read(const Config& config, const ScalingSettings& s) {
  Delayed d;
  const std::string name = config.text("delayed_format");
  try {
    d.format = parse_block_format(name);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string("delayed_format: ") + error.what());
  }
  if (d.format.rows != 0 || d.format.columns != 0 || d.format.tensor_scale || d.format.element.is_affine() ||
      d.format.rule != ScaleRule::amax || d.format.scale != fp32)
    throw std::invalid_argument("delayed_format: " + name +
                                " does not have one scale of fp32 for a tensor, amax / largest element; accepted: "
                                "e4m3-tensor/multiplier and its like");
  if (const double target = d.format.element.target(); target < 0x1p-20 || target > 0x1p20)
    throw std::invalid_argument(
        fmt::format("delayed_format: the largest element of {} is {:.4g}; accepted: 2^-20 to 2^20", name, target));
  for (const std::int64_t n : config.integers("histories")) d.histories.push_back(static_cast<std::size_t>(n));
  for (const std::int64_t m : config.integers("margins")) d.margins.push_back(static_cast<int>(m));
  if (d.histories.size() * d.margins.size() > 64)
    throw std::invalid_argument(
        fmt::format("histories and margins: {} combinations; at most 64", d.histories.size() * d.margins.size()));
  d.steps = static_cast<std::size_t>(config.integer("steps")),
  d.count = static_cast<std::size_t>(config.integer("step_values"));
  d.drift = config.real("drift"), d.jump = config.real("jump"), d.seed = s.seed;
  constexpr double most = 80;
  if (const double all = std::fabs(d.drift) * static_cast<double>(d.steps - 1); all > most)
    throw std::invalid_argument(fmt::format("drift and steps ask for {:.4g} binades; at most {}", all, most));
  return d;
}

double mean_error(const std::vector<Step>& steps, double& worst) {
  double sum = 0;
  worst = 0;
  for (const Step& step : steps) {
    const double e = step.loss.relative_error();
    sum += e, worst = std::max(worst, e);
  }
  return sum / static_cast<double>(steps.size());
}

}  // namespace

std::vector<Parameter> delayed_parameters() {
  using Type = ParameterType;
  return {
      {"delayed_format", Type::text, "e4m3-tensor/multiplier", "format of delayed scaling: one scale of fp32 a tensor"},
      {"histories", Type::integers, "1,16,1024",
       "magnitudes that delayed scaling remembers; the largest decides (1: the most recent)", 1, 65536},
      {"margins", Type::integers, "0,3", "margins of delayed scaling: scales are 2^margin larger", -16, 16},
      {"steps", Type::integer, "64", "steps of a sequence", 4, 4096},
      {"step_values", Type::integer, "2048", "values of N(0, sigma^2) a step", 1, 65536},
      {"drift", Type::real, "0.25", "binades by which sigma grows or decays in a step", 0, 8},
      {"jump", Type::real, "6", "binades by which sigma jumps in the middle, or for the one step of the spike", 0, 40},
  };
}

void report_delayed(const Config& config, const ScalingSettings& s, Run& run) {
  const Delayed d = read(config, s);
  const auto sequences = parallel_map(course_names.size(),
                                      [&](std::size_t c) { return run_course(d, static_cast<Course>(c), s.rounding); });

  Table& table = run.report.table(
      "delayed",
      fmt::format("Scales of earlier steps: {} steps of {} values in {}", d.steps, d.count, format_name(d.format)),
      {{"course", "",
        "How sigma goes: steady, growth and decay by `drift` a step, a jump in the middle that stays, a spike of one "
        "step at a quarter."},
       {"history", "step",
        "Steps that are remembered; null for current scaling, by the tensor's own largest magnitude."},
       {"margin", "binade", "Binades that are left free above what is remembered; null for current scaling."},
       {"mean_error", "1", "Mean over steps of the relative error: Frobenius norm of errors over that of values."},
       {"worst_error", "1", "The largest of a step."},
       {"saturated_steps", "step", "Steps in which values lie beyond the largest."},
       {"first_saturated", "step", "The first of them, from 0; null if there is none."},
       {"saturated", "1", "Share of all values that lie beyond the largest."},
       {"zeros", "1", "Share of all values that became zero."}});
  Table& steps = run.report.table("delayed_course", "The same step by step",
                                  {{"course", "", "How sigma goes."},
                                   {"history", "step", "Steps that are remembered; null for current scaling."},
                                   {"margin", "binade", "Binades that are left free; null for current scaling."},
                                   {"step", "step", "Step of the sequence, from 0."},
                                   {"amax", "1", "The tensor's largest magnitude."},
                                   {"scaled_by", "1", "The magnitude that the scale turns into the largest element."},
                                   {"error", "1", "Relative error of the step."},
                                   {"saturated", "value", "Values that lie beyond the largest."},
                                   {"zeros", "value", "Values that became zero."}});
  std::size_t wrong = 0, current_cut = 0;
  Json lasts = Json::object(), expected_lasts = Json::object();
  for (std::size_t c = 0; c < sequences.size(); ++c) {
    const Sequence& q = sequences[c];
    const auto report = [&](const std::vector<Step>& all, const Json& history, const Json& margin) {
      double worst = 0;
      const double mean = mean_error(all, worst);
      std::uint64_t cut = 0, zeros = 0, cut_steps = 0;
      Json first;
      for (std::size_t t = 0; t < all.size(); ++t) {
        const Step& step = all[t];
        cut += step.cut, zeros += step.loss.to_zero, cut_steps += step.cut > 0;
        if (step.cut > 0 && first.is_null()) first = t;
        steps.row({course_names[c], history, margin, t, number(step.amax), number(step.by),
                   number(step.loss.relative_error()), step.cut, step.loss.to_zero});
      }
      const auto values = static_cast<double>(d.steps * d.count);
      table.row({course_names[c], history, margin, number(mean), number(worst), cut_steps, first,
                 number(static_cast<double>(cut) / values), number(static_cast<double>(zeros) / values)});
      return cut;
    };
    current_cut += report(q.current, {}, {});
    for (std::size_t k = 0; k < q.delayed.size(); ++k) {
      const std::size_t length = d.histories[k / d.margins.size()];
      const int margin = d.margins[k % d.margins.size()];
      report(q.delayed[k], length, margin);
      for (std::size_t t = 0; t < d.steps; ++t) {
        const std::optional<bool> says = predicted(d, q.current, t, length, margin);
        wrong += says && *says != (q.delayed[k][t].cut > 0);
      }
      if (static_cast<Course>(c) != Course::spike) continue;
      const std::size_t event = d.event(Course::spike);
      std::size_t lasting = 0;
      for (std::size_t t = event + 1; t < d.steps; ++t)
        lasting += q.delayed[k][t].by == std::ldexp(q.current[event].amax, margin);
      const std::string key = fmt::format("{}, margin {}", length, margin);
      lasts[key] = lasting, expected_lasts[key] = std::min(length, d.steps - 1 - event);
    }
  }
  const std::string te =
      "NVIDIA Transformer Engine, FP8 delayed scaling: FP8_MAX / amax / 2^margin, amax over amax_history_len steps";
  run.report.claim({"delayed-saturates-beyond-its-margin",
                    "Steps at which values saturate though no magnitude outgrew 2^margin times the largest one "
                    "remembered, or do not though one did.",
                    "derived: " + te},
                   exactly(0, wrong, "oracle"));
  run.report.claim(
      {"current-scales-cut-nothing", "Values that lie beyond the largest under current scaling, in all sequences.",
       "derived: amax becomes the largest element"},
      exactly(0, current_cut, "oracle"));
  const std::string statement =
      "After a spike of one step the scale goes by it for as many steps as the history holds, or to the end, and "
      "small values vanish meanwhile.";
  run.report.claim({"a-spike-stays-for-a-history", statement, "derived: " + te},
                   d.jump >= 4 ? exactly(expected_lasts, lasts, "oracle")
                               : skipped("jump is below 4 binades: the spike may not be the largest"));
}

}  // namespace halfulp::scaling
