#include <halfulp/emulation/array/array.hpp>
#include <halfulp/experiments/loss_scaling/loss_scaling.hpp>
#include <halfulp/experiments/publications.hpp>
#include <halfulp/experiments/range_class.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/training/runs/runs.hpp>
#include <halfulp/training/runs/tables.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace halfulp::trainings {
namespace {

/// The smallest k in (low, high] for which `holds`, which from there on stays true.
template <class F>
int smallest_scale(int low, int high, F&& holds) {
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

/// The smallest k for which x 2^k > bound, or >= bound. Both are positive.
int scale_beyond(double x, double bound, bool equal_counts) {
  int of_x = 0, of_bound = 0;
  const double significand = std::frexp(x, &of_x), limit = std::frexp(bound, &of_bound);
  const bool beyond = significand > limit || (equal_counts && significand == limit);
  return of_bound - of_x + !beyond;
}

}  // namespace

void GradientSample::add(std::span<const float> gradients) {
  for (const float g : gradients) {
    if (g == 0) ++zeros_;
    else if (std::isfinite(g)) magnitudes_.push_back(std::fabs(g));
    else ++not_finite_;
  }
}

void GradientSample::add(const GradientSample& other) {
  zeros_ += other.zeros_, not_finite_ += other.not_finite_;
  magnitudes_.insert(magnitudes_.end(), other.magnitudes_.begin(), other.magnitudes_.end());
}

void GradientSample::sort() { std::sort(magnitudes_.begin(), magnitudes_.end()); }

std::uint64_t GradientSample::between(double from, double to) const {
  const auto below = [&](double bound) {
    return std::partition_point(magnitudes_.begin(), magnitudes_.end(), [&](float m) { return m < bound; });
  };
  return static_cast<std::uint64_t>(below(to) - below(from));
}

int GradientSample::smallest_exponent() const { return std::ilogb(magnitudes_.front()); }
int GradientSample::largest_exponent() const { return std::ilogb(magnitudes_.back()); }

Recovery GradientSample::by_rounding(const FloatFormat& format, int k) const {
  const double scale = FloatFormat::power_of_two(k);
  std::array<double, 4096> scaled{};
  Tally tally;
  for (std::size_t first = 0; first < magnitudes_.size(); first += scaled.size()) {
    const std::size_t n = std::min(scaled.size(), magnitudes_.size() - first);
    for (std::size_t i = 0; i < n; ++i) scaled[i] = scale * static_cast<double>(magnitudes_[first + i]);
    const std::span<double> values(scaled.data(), n);
    quantize(format, {}, values, values, {}, &tally);
  }
  stop_if_interrupted();
  return {tally.to_zero, tally.subnormal, tally.overflow};
}

Recovery GradientSample::by_limits(const FloatFormat& format, int k) const {
  const NearestEvenLimits limits(format);
  const double scale = FloatFormat::power_of_two(k);
  // Magnitudes ascend, and so do their counts.
  const auto first_of = [&](RangeClass range) {
    return std::partition_point(magnitudes_.begin(), magnitudes_.end(),
                                [&](float m) { return limits.classify(scale * static_cast<double>(m)) < range; });
  };
  const auto subnormal = first_of(RangeClass::subnormal), normal = first_of(RangeClass::normal),
             overflow = first_of(RangeClass::overflow);
  return {static_cast<std::uint64_t>(subnormal - magnitudes_.begin()), static_cast<std::uint64_t>(normal - subnormal),
          static_cast<std::uint64_t>(magnitudes_.end() - overflow)};
}

ScaleRange GradientSample::range_by_rounding(const FloatFormat& format) const {
  const int from = smallest_scale(-300, 300, [&](int k) { return by_rounding(format, k).lost == 0; });
  return {from, smallest_scale(-300, 300, [&](int k) { return by_rounding(format, k).overflowed != 0; }) - 1};
}

ScaleRange GradientSample::range_by_limits(const FloatFormat& format) const {
  const NearestEvenLimits limits(format);
  const int from = scale_beyond(static_cast<double>(magnitudes_.front()), limits.largest_zero(), false);
  return {from, scale_beyond(static_cast<double>(magnitudes_.back()), limits.overflow, limits.tie_overflows) - 1};
}

namespace {

using training::Role;

const Citation micikevicius{publications::fp16_gradients,
                            "Micikevicius et al. 2018, Mixed Precision Training, section 3.2 and figure 3"};
constexpr const char* derived = "derived: round to nearest even, IEEE 754-2019, sections 4.3.1 and 7.4";

/// Gradients by the names of tensors, in the order in which they were first seen.
class Collector {
 public:
  explicit Collector(NetworkGradients& into) : into_(into) {}
  void add(const std::string& tensor, const char* kind, std::span<const float> values) {
    const auto [place, made] = places_.try_emplace({tensor, kind}, into_.tensors.size());
    if (made) into_.tensors.push_back({tensor, kind});
    into_.tensors[place->second].sample.add(values);
  }

 private:
  NetworkGradients& into_;
  std::map<std::pair<std::string, std::string>, std::size_t> places_;
};

Json exponent(const GradientSample& sample, int (GradientSample::*of)() const) {
  return sample.non_zero() ? Json((sample.*of)()) : Json();
}

void add_row(Table& table, const std::string& network, const std::string& tensor, const std::string& kind,
             const GradientSample& s) {
  const std::uint64_t finite = s.elements() - s.not_finite();
  const auto part = [&](double from, double to) { return share(s.between(from, to), finite); };
  table.row({network, tensor, kind, finite, share(s.zeros(), finite), part(0, 0x1p-24), part(0x1p-24, 0x1p-14),
             part(0x1p-14, HUGE_VAL), exponent(s, &GradientSample::smallest_exponent),
             exponent(s, &GradientSample::largest_exponent)});
}

/// What one format does to one sample.
struct Measured {
  ScaleRange by_rounding = {}, by_limits = {};
  std::vector<Recovery> sweep = {};
  std::uint64_t contradictions = 0;  ///< of the sweep with the limits
};

Measured measure(const GradientSample& sample, const FloatFormat& format, int from, int to) {
  Measured m;
  m.by_rounding = sample.range_by_rounding(format), m.by_limits = sample.range_by_limits(format);
  for (int k = from; k <= to; ++k) {
    m.sweep.push_back(sample.by_rounding(format, k));
    m.contradictions += m.sweep.back() != sample.by_limits(format, k);
  }
  return m;
}

std::vector<Json> range_row(const GradientSample& s, const FloatFormat& format, const ScaleRange& range) {
  return {s.smallest_exponent(),
          s.largest_exponent(),
          range.from,
          range.to,
          range.empty() ? "none" : "all",
          share(s.by_rounding(format, range.to).lost, s.non_zero())};
}

}  // namespace

training::TrainerSettings gradient_settings(const Config& config, const std::string& network, const Data& data) {
  const auto steps = static_cast<std::uint64_t>(config.integer("gradient_steps"));
  training::TrainerSettings s = settings(config, network, static_cast<std::uint64_t>(config.integer("seed")), data,
                                         steps);
  s.steps = steps;
  s.interval = (steps + 3) / 4;
  s.test_every = 0;
  return s;
}

NetworkGradients collect_gradients(const Config& config, const std::string& network, const Data& data) {
  NetworkGradients found{network};
  Collector collector(found);
  const training::Policy fp32_policy = training::find_policy("fp32");
  const auto examples = data.examples(config, network);
  training::Trainer trainer(gradient_settings(config, network, data), fp32_policy, *examples);
  if (const std::string folder = config.text("save_gradients"); !folder.empty())
    keep_gradients(trainer, folder, {{"network", network}, {"policy", "fp32"}, {"seed", trainer.settings().seed}});
  training::Microscope& microscope = trainer.microscope();
  microscope.spy = [&collector, save = microscope.spy](const training::Sighting& s) {
    if (save) save(s);
    if (!s.operand && s.role == Role::gradient_of_activation)
      collector.add(std::string(s.site.name), "activation", s.values);
  };
  trainer.after_backward = [&collector, &found, save = trainer.after_backward](training::Trainer& t) {
    if (save) save(t);
    if (!t.microscope().counts()) return;
    found.steps.push_back(t.steps());
    for (const auto* const p : t.parameters())
      if (p->has_gradient) collector.add(p->name, "weight", p->gradient.values());
  };
  while (trainer.run_interval()) {}
  for (TensorGradients& t : found.tensors) {
    (t.kind == "weight" ? found.weights : found.activations).add(t.sample);
    t.sample.sort();
  }
  found.all.add(found.weights);
  found.all.add(found.activations);
  for (GradientSample* const sample : {&found.weights, &found.activations, &found.all}) sample->sort();
  return found;
}

void report_gradients(const Config& config, const std::vector<NetworkGradients>& networks, const Data& data,
                      Report& report) {
  const Column network{"network", "", "Network."},
      tensor{"tensor", "", "Layer or parameter; `all` are all of the kind together."},
      kind{"kind", "", "Whose gradients: weight, activation, or both."},
      format{"format", "", "Format they are rounded to, to nearest even."};
  Table& gradients = report.table("gradients", "Gradients of the FP32 training, before any scaling",
                                  {network,
                                   tensor,
                                   kind,
                                   {"values", "value", "Finite ones, in all counted steps together."},
                                   {"zero", "1", "Share that is exactly zero."},
                                   {"below_2_24", "1", "Share below 2^-24, fp16's smallest number, and not zero."},
                                   {"from_2_24", "1", "Share from 2^-24 up to 2^-14, where fp16 is subnormal."},
                                   {"from_2_14", "1", "Share of 2^-14 and above."},
                                   {"smallest_exponent", "binade", "Smallest floor(log2|g|); null if all are zero."},
                                   {"largest_exponent", "binade", "Largest floor(log2|g|)."}});
  Table& ranges = report.table(
      "ranges", "Loss scales 2^k that recover every gradient",
      {network,
       tensor,
       kind,
       format,
       {"smallest_exponent", "binade", "Smallest floor(log2|g|)."},
       {"largest_exponent", "binade", "Largest floor(log2|g|)."},
       {"k_from", "binade", "From here on no gradient becomes zero."},
       {"k_to", "binade", "Up to here none overflows."},
       {"recovered", "", "Whether some scale recovers all: all, or none if k_from is above k_to."},
       {"lost_at_k_to", "1",
        "Share of gradients other than zero that are zero at the largest scale without overflow."}});
  Table& recovery = report.table("recovery", "What becomes of gradients other than zero under each loss scale",
                                 {network,
                                  kind,
                                  format,
                                  {"k", "binade", "The scale is 2^k."},
                                  {"lost", "1", "Share that becomes zero."},
                                  {"subnormal", "1", "Share that becomes subnormal."},
                                  {"overflowed", "1", "Share that overflows."}});

  const int from = static_cast<int>(config.integer("k_from")), to = static_cast<int>(config.integer("k_to"));
  const std::vector<FormatChoice> formats = config.formats("formats");
  for (const std::string& name : config.choices("networks")) {
    const std::string rounding = fmt::format(
        "{}: every gradient, at every scale, vanishes, becomes subnormal or overflows where a comparison with the "
        "format's limits says so.",
        name);
    const std::string extremes = fmt::format(
        "{}: loss scales that lose no gradient and overflow none follow from the smallest and the largest alone.",
        name);
    const std::string unused = fmt::format(
        "{}: half of FP16's 40 binades, the upper ones, are unused by activation gradients.", name);
    const auto at = std::find_if(networks.begin(), networks.end(),
                                 [&](const NetworkGradients& n) { return n.network == name; });
    if (at == networks.end()) {
      report.claim({name + "-every-fate", rounding, derived}, skipped(data.missing(name)));
      report.claim({name + "-ranges", extremes, derived}, skipped(data.missing(name)));
      report.claim({name + "-unused-binades", unused, micikevicius}, skipped(data.missing(name)));
      continue;
    }
    const NetworkGradients& n = *at;
    const struct {
      const char* kind;
      const GradientSample& sample;
    } groups[] = {{"both", n.all}, {"weight", n.weights}, {"activation", n.activations}};
    for (const auto& group : groups) add_row(gradients, name, "all", group.kind, group.sample);
    for (const TensorGradients& t : n.tensors) add_row(gradients, name, t.tensor, t.kind, t.sample);

    std::uint64_t contradictions = 0, conversions = 0;
    Json expected = Json::object(), measured = Json::object();
    for (const FormatChoice& choice : formats) {
      const auto row = [&](const std::string& of, const std::string& what, const GradientSample& s,
                           const ScaleRange& range) {
        std::vector<Json> cells{name, of, what, choice.name};
        for (Json& cell : range_row(s, choice.format, range)) cells.push_back(std::move(cell));
        ranges.row(std::move(cells));
      };
      const auto results = parallel_map(3, [&](std::size_t i) {
        return groups[i].sample.non_zero() ? measure(groups[i].sample, choice.format, from, to) : Measured{};
      });
      for (std::size_t i = 0; i < 3; ++i) {
        const GradientSample& s = groups[i].sample;
        if (s.non_zero() == 0) continue;
        const Measured& m = results[i];
        const auto pair = [](const ScaleRange& r) { return Json::array({r.from, r.to}); };
        expected[choice.name + " " + groups[i].kind] = pair(m.by_limits);
        measured[choice.name + " " + groups[i].kind] = pair(m.by_rounding);
        contradictions += m.contradictions, conversions += m.sweep.size() * s.non_zero();
        row("all", groups[i].kind, s, m.by_rounding);
        for (int k = from; k <= to; ++k) {
          const Recovery& r = m.sweep[static_cast<std::size_t>(k - from)];
          recovery.row({name, groups[i].kind, choice.name, k, share(r.lost, s.non_zero()),
                        share(r.subnormal, s.non_zero()), share(r.overflowed, s.non_zero())});
        }
      }
      for (const TensorGradients& t : n.tensors)
        if (t.sample.non_zero()) row(t.tensor, t.kind, t.sample, t.sample.range_by_limits(choice.format));
    }
    report.claim({name + "-every-fate", rounding + fmt::format(" ({} conversions.)", conversions), derived},
                 exactly(0, contradictions, "oracle"));
    report.claim({name + "-ranges", extremes, derived}, exactly(expected, measured, "oracle"));
    if (n.activations.non_zero() == 0) {
      report.claim({name + "-unused-binades", unused, micikevicius}, skipped("all activation gradients are zero"));
      continue;
    }
    report.claim({name + "-unused-binades", unused, micikevicius},
                 at_least(20, 15 - n.activations.largest_exponent(),
                          may_differ("the figure is of an object detector; this network's gradients are larger")));
  }
}

}  // namespace halfulp::trainings
