// How gradients vanish with distance in time, and what formats make of them.
#include <halfulp/experiments/recurrent/recurrent.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace halfulp::recurrent {
namespace {

/// A cell, or "identity": an RNN with radius times the identity for a matrix, whose state and inputs are 0, so that
/// every element of the gradient is radius^k.
struct Source {
  std::string_view name;
  Weights weights;
  std::vector<std::vector<double>> inputs;
  std::vector<std::vector<State>> states;
  std::vector<Gradients> exact;
};

Source source(std::string_view name, Weights weights, std::vector<std::vector<double>> inputs, std::size_t steps) {
  Source s{name, std::move(weights), std::move(inputs), {}, {}};
  for (const auto& x : s.inputs) {
    s.states.push_back(exact_states(s.weights, x, steps));
    s.exact.push_back(exact_gradients(s.weights, x, s.states.back()));
  }
  return s;
}

struct Distance {
  double norm = 0, rounded_norm = 0;  ///< roots of mean squares over sequences
  std::size_t elements = 0, below = 0, lost = 0;
};

/// Gradients k = 0, 1, ... steps back.
struct Fates {
  std::vector<Distance> at;
  std::vector<double> first;  ///< the first element of the first sequence, as the format has it
  Trace trace;
};

Fates fates(const Source& of, const FloatFormat& format, std::size_t limit) {
  Fates f;
  f.trace = Trace(limit);
  f.at.resize(of.exact.front().size());
  const double smallest = FloatFormat::power_of_two(log2_smallest(format));
  for (std::size_t s = 0; s < of.inputs.size(); ++s) {
    const Gradients rounded = rounded_gradients(of.weights, of.inputs[s], of.states[s], format, &f.trace);
    for (std::size_t k = 0; k < f.at.size(); ++k) {
      Distance& d = f.at[k];
      for (std::size_t i = 0; i < of.weights.width; ++i) {
        const double exact = of.exact[s][k][i], narrow = rounded[k][i];
        d.norm += exact * exact / static_cast<double>(of.inputs.size());
        d.rounded_norm += narrow * narrow / static_cast<double>(of.inputs.size());
        ++d.elements;
        d.below += exact != 0 && std::fabs(exact) < smallest;
        d.lost += exact != 0 && narrow == 0;
      }
      if (s == 0) f.first.push_back(rounded[k][0]);
    }
  }
  for (Distance& d : f.at) d.norm = std::sqrt(d.norm), d.rounded_norm = std::sqrt(d.rounded_norm);
  return f;
}

/// The multiple of the smallest number at which r^k sticks when it is rounded in every step: the largest n with
/// n (1 - r) < 1/2, or = 1/2 if n is even. Nothing if products stick among normal numbers before, where steps of one
/// unit u of n >= 2^(p-1) units have n (1 - r) <= 1/2, or if r is so near a tie that FP32's own rounding decides.
std::optional<double> sticks_at(const FloatFormat& f, double r) {
  const double limit = 0.5 / (1 - r), whole = std::floor(limit + 0.5);
  if (limit > FloatFormat::power_of_two(f.precision() - 1)) return {};
  if (std::fabs(limit - whole) < 1e-6 * limit) return std::fmod(whole, 2) == 0 ? whole : whole - 1;
  return std::floor(limit);
}

/// The first k at which at least half of the exact elements are below the format's smallest number.
std::optional<std::size_t> half_below(const Fates& f) {
  for (std::size_t k = 0; k < f.at.size(); ++k)
    if (2 * f.at[k].below >= f.at[k].elements) return k;
  return {};
}

}  // namespace

void gradients(const Config& config, Run& run) {
  auto formats = config.formats("formats");
  const auto at = lengths(config);
  const CellSettings settings = cell_settings(config);
  const auto seed = static_cast<std::uint64_t>(config.integer("seed"));
  Table& table = run.report.table(
      "gradient", "Gradients of the last state, k steps back",
      {{"cell", "",
        "Recurrent cell; identity is the RNN with radius times the identity for its recurrent matrix and a state of "
        "zeros, of whose gradient every element is radius^k."},
       {"format", "", "Format of the gradients."},
       {"distance", "step", "Steps k back from the last state."},
       {"norm", "1",
        "Norm of the gradient of the sum of the last h by what the cell carries on k steps back, c of the LSTM and h "
        "of the others, in double; root of the mean square over sequences."},
       {"rounded_norm", "1", "The same, the gradient rounded to the format after every step; products are FP32."},
       {"below", "1", "Share of exact elements, other than 0, below the format's smallest number."},
       {"lost", "1",
        "Share of elements that are 0 in the format and not in double; of the LSTM also those whose 1 - tanh(c)^2 is 0 "
        "in "
        "FP32, where tanh(c) rounds to 1."}});
  std::vector<Source> sources;
  Weights identity{Cell::rnn, 1, 1, {settings.radius}, {0}, {0}};
  identity.from_hidden[0] = static_cast<double>(static_cast<float>(settings.radius));
  sources.push_back(source("identity", identity, {std::vector<double>(at.back(), 0)}, at.back()));
  for (const auto& cell : cells) {
    std::vector<std::vector<double>> inputs;
    for (std::int64_t i = 0; i < config.integer("sequences"); ++i)
      inputs.push_back(random_inputs(seed, static_cast<std::uint64_t>(i), at.back(), settings.inputs));
    sources.push_back(source(cell.name, random_weights(cell.value, settings), std::move(inputs), at.back()));
  }
  const auto all = parallel_map(sources.size() * formats.size(), [&](std::size_t i) {
    return fates(sources[i / formats.size()], formats[i % formats.size()].format, run.trace.limit() / 16);
  });
  const double binades = -std::log2(settings.radius);  // a step's
  Json last = Json::object(), by_formula = Json::object(), stuck = Json::object(), derived = Json::object();
  std::map<std::string_view, std::optional<std::size_t>> half;  // by cell, in fp16
  double over_norm = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Source& of = sources[i / formats.size()];
    const auto& [name, format] = formats[i % formats.size()];
    const Fates& f = all[i];
    for (const std::size_t k : at) {
      const Distance& d = f.at[k];
      table.row({of.name, name, k, number(d.norm), number(d.rounded_norm), share(d.below, d.elements),
                 share(d.lost, d.elements)});
    }
    run.trace.append(f.trace);
    if (format == fp16) half[of.name] = half_below(f);
    if (of.name == "rnn")
      for (std::size_t k = 0; k < f.at.size(); ++k)
        over_norm = std::max(over_norm, f.at[k].norm / (std::sqrt(static_cast<double>(settings.width)) *
                                                        std::pow(settings.radius, static_cast<double>(k))));
    if (of.name != "identity" || settings.radius >= 1) continue;
    const double m = -log2_smallest(format), crossing = m / binades;
    // FP32's radius is off by 2^-25 of itself at most, which moves the crossing by far less than this.
    if (crossing < static_cast<double>(at.back()) && m > 0 && std::fabs(crossing - std::round(crossing)) > 1e-3) {
      by_formula[name] = std::floor(crossing);
      std::size_t k = 0;
      while (k + 1 < f.at.size() && f.at[k + 1].below == 0) ++k;
      last[name] = k;
    }
    if (const auto units = sticks_at(format, settings.radius);
        units && *units > 0 && crossing < static_cast<double>(at.back())) {
      derived[name] = *units;
      stuck[name] = f.first.back() / FloatFormat::power_of_two(log2_smallest(format));
    }
  }
  const std::string radius = settings.radius < 1 ? "" : "radius is 1 or more: this gradient does not vanish";
  const auto reason = [&](const std::string& other) { return radius.empty() ? other : radius; };
  run.report.claim({"gradients-cross-where-derived",
                    "Of r times the identity the gradient is r^k. The last k at which it is not below the smallest "
                    "number 2^-m of the format is the largest k <= m / log2(1 / r).",
                    "derived: Bengio, Simard & Frasconi 1994, Learning Long-Term Dependencies, where the Jacobian is "
                    "r times the identity"},
                   by_formula.empty() ? skipped(reason("no format's smallest number is reached within these steps"))
                                      : exactly(by_formula, last, "oracle"));
  run.report.claim({"rounded-gradients-stick",
                    "Rounded in every step, this gradient does not reach zero: it stays at n times the smallest "
                    "number, where n is the largest with n (1 - r) at most 1/2 (a tie goes to the even n).",
                    "derived: n r rounds to n if n - n r is less than half of the spacing 1"},
                   derived.empty() ? skipped(reason("no format gets so far within these steps"))
                                   : exactly(derived, stuck, "oracle"));
  run.report.claim({"rnn-gradients-within-r-to-the-k",
                    "Of the RNN with a recurrent matrix of norm r the gradient's norm k steps back is at most r^k of "
                    "the last one's.",
                    "Pascanu, Mikolov & Bengio 2013, On the Difficulty of Training Recurrent Neural Networks, section "
                    "2.1: tanh' is at most 1"},
                   at_most(1 + 1e-4, over_norm, "oracle"));
  const auto rnn = half.find("rnn"), lstm = half.find("lstm");
  const std::string later =
      "The LSTM's gradients underflow in FP16 later than the RNN's: the distance from which on "
      "half of them are below 2^-24 is at least 4 times as far, or beyond these steps.";
  const Citation source =
      "Hochreiter & Schmidhuber 1997, Long Short-Term Memory, section 3; Gers, Schmidhuber & Cummins "
      "2000, Learning to Forget, for the forget gate";
  if (half.empty())
    run.report.claim({"lstm-underflows-later", later, source}, skipped("formats does not contain fp16"));
  else if (rnn->second && !lstm->second && 4 * *rnn->second > at.back())
    run.report.claim(
        {"lstm-underflows-later", later, source},
        skipped(fmt::format("the LSTM's are not there after {} steps, and further ones are not asked for", at.back())));
  else if (!rnn->second)
    run.report.claim({"lstm-underflows-later", later, source},
                     skipped("within these steps not half of the RNN's gradients are below 2^-24"));
  else
    run.report.claim(
        {"lstm-underflows-later", later, source},
        at_least(4.0 * static_cast<double>(*rnn->second), static_cast<double>(lstm->second.value_or(at.back())),
                 may_differ("the forget gates of this configuration are far from 1")));
}

}  // namespace halfulp::recurrent
