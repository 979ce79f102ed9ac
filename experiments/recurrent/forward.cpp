// How far states that are rounded in every step get from exact ones.
#include <halfulp/experiments/recurrent/recurrent.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

namespace halfulp::recurrent {
namespace {

double norm(const std::vector<double>& x) {
  double square = 0;
  for (const double v : x) square += v * v;
  return std::sqrt(square);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(square);
}

/// One cell's weights, and its sequences with their exact states.
struct Sequences {
  Weights weights;
  std::vector<std::vector<double>> inputs;
  std::vector<std::vector<State>> exact;
};

struct Errors {
  std::vector<double> h, c;  ///< after each step, relative, over all sequences
  double over_bound = 0;     ///< of the RNN with a rounded state: the largest error over its bound
  Trace trace;
};

Errors measure(const Sequences& of, const FloatFormat& format, Rounded rounded, double radius, std::size_t limit) {
  Errors e;
  e.trace = Trace(limit);
  const std::size_t steps = of.exact.front().size();
  std::vector<double> h_error(steps), h_norm(steps), c_error(steps), c_norm(steps);
  for (std::size_t s = 0; s < of.inputs.size(); ++s) {
    const auto states = rounded_states(of.weights, of.inputs[s], steps, format, rounded, &e.trace);
    double bound = 0;
    for (std::size_t t = 0; t < steps; ++t) {
      const State &exact = of.exact[s][t], &state = states[t];
      h_error[t] += std::pow(distance(state.h, exact.h), 2), h_norm[t] += std::pow(norm(exact.h), 2);
      c_error[t] += std::pow(distance(state.c, exact.c), 2), c_norm[t] += std::pow(norm(exact.c), 2);
      // Each step shrinks what was off by the radius at least, and adds half a unit of each element: of normal ones
      // at most 2^-p of the element, of smaller ones half the smallest number. FP32's share: 2^-24 for each operation.
      const double width = std::sqrt(static_cast<double>(of.weights.width)),
                   operations = static_cast<double>(2 * (of.weights.width + of.weights.inputs) + 4);
      bound = radius * (1 + 0x1p-20) * bound + FloatFormat::power_of_two(-format.precision()) * norm(state.h) * 1.0001 +
              width * FloatFormat::power_of_two(log2_smallest(format) - 1) + operations * 0x1p-24 * 8 * width;
      e.over_bound = std::max(e.over_bound, distance(state.h, exact.h) / bound);
    }
  }
  for (std::size_t t = 0; t < steps; ++t) {
    e.h.push_back(std::sqrt(h_error[t] / h_norm[t]));
    if (of.weights.cell == Cell::lstm) e.c.push_back(std::sqrt(c_error[t] / c_norm[t]));
  }
  return e;
}

}  // namespace

void forward_errors(const Config& config, Run& run) {
  const auto formats = config.formats("formats");
  const auto at = lengths(config);
  const CellSettings settings = cell_settings(config);
  Table& table = run.report.table(
      "forward",
      fmt::format("Errors of the state, {} sequences, width {}", config.integer("sequences"), settings.width),
      {{"cell", "", "Recurrent cell."},
       {"format", "", "Format that is rounded to; FP32 alone appears once a cell, as the repair."},
       {"rounded", "",
        "What is rounded to it: nothing; the state after each step; gates: weights, inputs and every operation, while "
        "the state and its update stay FP32; or all of these."},
       {"steps", "step", "Time steps from a state of zeros."},
       {"error", "1", "Error of the hidden state h relative to its norm, over all sequences, against double."},
       {"cell_error", "1", "The same of the LSTM's cell state c; null for the others."},
       {"growth", "1",
        "The error of what the cell carries on, c of the LSTM and h of the others, over that of step 1."}});
  const auto seed = static_cast<std::uint64_t>(config.integer("seed"));
  std::vector<Sequences> all;
  for (const auto& cell : cells) {
    Sequences s{random_weights(cell.value, settings), {}, {}};
    for (std::int64_t i = 0; i < config.integer("sequences"); ++i) {
      s.inputs.push_back(random_inputs(seed, static_cast<std::uint64_t>(i), at.back(), settings.inputs));
      s.exact.push_back(exact_states(s.weights, s.inputs.back(), at.back()));
    }
    all.push_back(std::move(s));
  }
  struct Part {
    const Sequences* of;
    const FormatChoice* choice;
    Rounded rounded;
  };
  std::vector<Part> parts;
  for (const Sequences& s : all)
    for (const FormatChoice& choice : formats)
      for (const auto& row : roundings)
        if (row.value == Rounded::nothing ? &choice == &formats.front() : choice.format != fp32)
          parts.push_back({&s, &choice, row.value});
  const auto errors = parallel_map(parts.size(), [&](std::size_t i) {
    return measure(*parts[i].of, parts[i].choice->format, parts[i].rounded, settings.radius, run.trace.limit() / 16);
  });
  double over_bound = 0;
  std::size_t bounded = 0;
  std::map<std::string_view, std::array<double, cells.size()>> growth;  // by format, of a rounded state
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [of, choice, rounded] = parts[i];
    const Errors& e = errors[i];
    const Cell cell = of->weights.cell;
    const std::vector<double>& carried = cell == Cell::lstm ? e.c : e.h;
    for (const std::size_t steps : at)
      table.row({name_in(cells, cell), rounded == Rounded::nothing ? "fp32" : choice->name, name_in(roundings, rounded),
                 steps, number(e.h[steps - 1]), cell == Cell::lstm ? number(e.c[steps - 1]) : Json(),
                 carried[0] > 0 ? number(carried[steps - 1] / carried[0]) : Json()});
    run.trace.append(e.trace);
    if (rounded != Rounded::state) continue;
    if (carried[0] > 0) growth[choice->name][static_cast<std::size_t>(cell)] = carried.back() / carried[0];
    if (cell == Cell::rnn && settings.radius < 1) over_bound = std::max(over_bound, e.over_bound), ++bounded;
  }
  run.report.claim({"rnn-errors-stay-bounded",
                    "Where the recurrent matrix has the norm r < 1, rounding the RNN's state adds an error of at most "
                    "half a unit in each step, and the share r of earlier errors remains: the error stays below half a "
                    "unit / (1 - r).",
                    "derived: |tanh(x) - tanh(y)| <= |x - y|, and a geometric series"},
                   bounded ? at_most(1.0, over_bound, "oracle")
                           : skipped("radius is 1 or more, or formats contains nothing but FP32 itself"));
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [name, of] : growth) least = std::min(least, of[2] / of[0]);
  run.report.claim({"cell-errors-add-up",
                    "Rounded in every step, the LSTM's cell state gets worse with time by a larger factor than the "
                    "RNN's state, in every format.",
                    "derived: of an earlier error the share f remains, which is near 1, of the RNN's at most r"},
                   growth.empty()   ? skipped("formats contains nothing but FP32 itself")
                   : at.back() < 64 ? skipped("errors of less than 64 steps are too few to add up")
                                    : at_least(1.0, least,
                                               may_differ("the errors of these sequences are random; or forget gates "
                                                          "are far from 1, or the radius is not below 1")));
}

}  // namespace halfulp::recurrent
