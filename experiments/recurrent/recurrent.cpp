// What rounding the state of a recurrent cell does over many time steps, forwards and backwards.
#include <halfulp/experiments/recurrent/recurrent.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace halfulp {
namespace recurrent {
namespace {

std::vector<Parameter> parameters() {
  return {
      {"formats", ParameterType::formats, "fp16,bf16,e4m3,e5m2", "formats of states and gradients"},
      {"steps", ParameterType::integers, "1,4,16,64,256", "time steps, and distances of gradients", 1, 4096},
      {"width", ParameterType::integer, "16", "numbers of a state", 1, 256},
      {"inputs", ParameterType::integer, "4", "numbers of an input", 1, 256},
      {"sequences", ParameterType::integer, "4", "random sequences that errors and gradients are taken over", 1, 1024},
      {"radius", ParameterType::real, "0.9", "recurrent matrices are this times an orthogonal one", 0.01, 4},
      {"forget_bias", ParameterType::real, "4", "bias of the gates that keep the state: the LSTM's f, the GRU's z", -16,
       16},
      {"increments", ParameterType::integers, "64,256,1024,4096", "increments of a cell that counts", 1, 1048576},
      {"seed", ParameterType::integer, "1", "of weights and inputs", 0, largest_seed},
  };
}

void run_recurrent(const Config& config, Run& run) {
  for (const FormatChoice& c : config.formats("formats"))
    if (!c.format.has_zero || !c.format.is_signed)
      throw std::invalid_argument(c.name + " has no zero or no sign, and states have both; choose other formats");
  forward_errors(config, run);
  run.progress(0.6);
  gradients(config, run);
  run.progress(0.9);
  memory(config, run);
}

}  // namespace

CellSettings cell_settings(const Config& config) {
  return {static_cast<std::size_t>(config.integer("width")), static_cast<std::size_t>(config.integer("inputs")),
          config.real("radius"), config.real("forget_bias"), static_cast<std::uint64_t>(config.integer("seed"))};
}

std::vector<std::size_t> lengths(const Config& config) {
  const auto steps = config.integers("steps");
  std::vector<std::size_t> all(steps.begin(), steps.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

void memory(const Config& config, Run& run) {
  auto counts = config.integers("increments");
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  Table& table = run.report.table(
      "memory", "An LSTM cell that counts: forget gate 1, input gate 1/2, candidate 1",
      {{"format", "", "Format of the state."},
       {"state", "", "What c is kept in: the format, or FP32 while h stays in the format (the repair)."},
       {"increments", "step", "Steps, each of which adds 1/2 to c."},
       {"exact", "1", "The sum increments / 2."},
       {"cell_state", "1", "What c has become."},
       {"stopped_at", "step", "Steps after which c does not change any more; null if it still did in the last one."}});
  // Biases alone: sigmoid(0) is 1/2, sigmoid(50) and tanh(50) round to 1, in double as in FP32.
  const Weights w{Cell::lstm, 1, 1, std::vector<double>(4, 0), std::vector<double>(4, 0), {0, 50, 50, 0}};
  const std::vector<double> inputs(static_cast<std::size_t>(counts.back()), 0);
  const auto steps = inputs.size();
  Json expected = Json::object(), measured = Json::object(), exact = Json::object(), repaired = Json::object();
  for (const FormatChoice& choice : config.formats("formats")) {
    const FloatFormat& f = choice.format;
    for (const bool repair : {false, true}) {
      const auto states = rounded_states(w, inputs, steps, repair ? fp32 : f, Rounded::state, &run.trace);
      for (const auto n : counts) {
        const auto end = static_cast<std::size_t>(n);
        std::size_t moved = end;
        while (moved > 1 && states[moved - 1].c[0] == states[moved - 2].c[0]) --moved;
        table.row({choice.name, repair ? "fp32" : "format", n, number(0.5 * static_cast<double>(n)),
                   number(states[end - 1].c[0]), moved < end ? Json(moved) : Json()});
      }
      const double stop = FloatFormat::power_of_two(f.precision());
      // 2^p increments are a number of the format, 2^p + 1 are a tie that goes to the even 2^p.
      if (f.value(f.max_finite()) <= stop / 2 || f.fraction_bits == 0 || log2_smallest(f) > -1 ||
          static_cast<double>(steps) <= stop)
        continue;
      (repair ? repaired : measured)[choice.name] = states.back().c[0];
      (repair ? exact : expected)[choice.name] = repair ? 0.5 * static_cast<double>(steps) : stop / 2;
    }
  }
  const std::string none = "no format here stops counting within these increments";
  run.report.claim({"cells-stop-counting",
                    "A cell state of p bits to which each step adds 1/2 stops after 2^p steps, at 2^(p - 1): in bf16 "
                    "after 256, at 128.",
                    "derived: beyond 2^p increments the next sum is a tie, which goes to the even 2^p"},
                   expected.empty() ? skipped(none) : exactly(expected, measured, "oracle"));
  run.report.claim({"fp32-cells-count-on", "Where the format's cell stops, one that is kept in FP32 has the exact sum.",
                    "derived: FP32 counts to 2^24"},
                   expected.empty()                 ? skipped(none)
                   : steps > (std::size_t{1} << 24) ? skipped("FP32 stops too")
                                                    : exactly(exact, repaired, "oracle"));
}

}  // namespace recurrent

namespace {

/// The first cell that stops counting, and the same with an fp32 state.
std::string recurrent_finding(const ReportTables& tables) {
  for (const TableRow& row : tables.rows("memory", {{"state", "format"}})) {
    if (!row["stopped_at"].is_number()) continue;
    const auto repaired = tables.rows(
        "memory", {{"state", "fp32"}, {"format", row["format"]}, {"increments", row["increments"]}});
    if (repaired.empty()) continue;
    return fmt::format("An LSTM cell in {} counts to {} of {}; with an fp32 state to {}.", row.text("format"),
                       in_words(row.number("cell_state"), 6), in_words(row.number("exact"), 6),
                       in_words(repaired.front().number("cell_state"), 6));
  }
  return {};
}

}  // namespace

Experiment recurrent_experiment() {
  return {"recurrent",
          "Recurrent cells in low precision",
          "What does a rounded state do to an RNN, a GRU and an LSTM?",
          recurrent::parameters,
          recurrent::run_recurrent,
          recurrent_finding,
          {"memory", {"format", "state", "increments", "exact", "cell_state", "stopped_at"}, {}, {"format", "state"}}};
}

}  // namespace halfulp
