// The experiment "recurrent" against plain loops in double, differences of the forward pass, and sums of fractions.
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/experiments/recurrent/recurrent.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace halfulp {
namespace recurrent_test {

using recurrent::Cell;
using recurrent::Rounded;
using recurrent::State;
using recurrent::Weights;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// One step of torch's RNNCell, GRUCell and LSTMCell in double, from the definitions.
State step(const Weights& w, const State& s, const double* x) {
  const std::size_t n = w.width;
  const auto from_x = [&](std::size_t row) {
    double sum = w.bias[row];
    for (std::size_t j = 0; j < w.inputs; ++j) sum += w.from_input[row * w.inputs + j] * x[j];
    return sum;
  };
  const auto from_h = [&](std::size_t row) {
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j) sum += w.from_hidden[row * n + j] * s.h[j];
    return sum;
  };
  State t = s;
  for (std::size_t i = 0; i < n; ++i) {
    const auto a = [&](std::size_t gate) { return from_x(gate * n + i) + from_h(gate * n + i); };
    if (w.cell == Cell::rnn) {
      t.h[i] = std::tanh(a(0));
    } else if (w.cell == Cell::gru) {
      const double r = sigmoid(a(0)), z = sigmoid(a(1)), news = std::tanh(from_x(2 * n + i) + r * from_h(2 * n + i));
      t.h[i] = (1 - z) * news + z * s.h[i];
    } else {
      t.c[i] = sigmoid(a(1)) * s.c[i] + sigmoid(a(0)) * std::tanh(a(2));
      t.h[i] = sigmoid(a(3)) * std::tanh(t.c[i]);
    }
  }
  return t;
}

recurrent::CellSettings small() { return {.width = 5, .inputs = 3, .radius = 0.8, .forget_bias = 2, .seed = 7}; }

double farthest(const State& a, const State& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.h.size(); ++i) most = std::max(most, std::fabs(a.h[i] - b.h[i]));
  for (std::size_t i = 0; i < a.c.size(); ++i) most = std::max(most, std::fabs(a.c[i] - b.c[i]));
  return most;
}

TEST(RecurrentCells, AgreeWithTheirDefinitions) {
  for (const auto& cell : recurrent::cells) {
    const Weights w = recurrent::random_weights(cell.value, small());
    const auto inputs = recurrent::random_inputs(7, 0, 20, 3);
    const auto exact = recurrent::exact_states(w, inputs, 20);
    const auto single = recurrent::rounded_states(w, inputs, 20, fp16, Rounded::nothing, nullptr);
    // Every operation in fp64 is double again; in FP32 it is FP32's, bit for bit.
    const auto doubles = recurrent::rounded_states(w, inputs, 20, fp64, Rounded::all, nullptr);
    State state = recurrent::zero_state(w);
    for (std::size_t t = 0; t < 20; ++t) {
      state = step(w, state, inputs.data() + 3 * t);
      EXPECT_LT(farthest(state, exact[t]), 1e-14) << cell.name << " " << t;
      EXPECT_LT(farthest(state, single[t]), 1e-5) << cell.name << " " << t;
      EXPECT_GT(farthest(state, single[t]), 1e-9) << cell.name << " " << t;
      EXPECT_EQ(farthest(doubles[t], exact[t]), 0) << cell.name << " " << t;
    }
  }
}

TEST(RecurrentCells, RoundWhatTheySay) {
  const auto is_half = [](const std::vector<double>& values) {
    for (const double x : values)
      if (fp16.value(encode(fp16, {}, x).code) != x) return false;
    return true;
  };
  for (const auto& cell : recurrent::cells) {
    const Weights w = recurrent::random_weights(cell.value, small());
    const auto inputs = recurrent::random_inputs(7, 0, 20, 3);
    const auto at = [&](Rounded rounded) {
      return recurrent::rounded_states(w, inputs, 20, fp16, rounded, nullptr).back();
    };
    EXPECT_TRUE(is_half(at(Rounded::state).h) && is_half(at(Rounded::state).c)) << cell.name;
    EXPECT_TRUE(is_half(at(Rounded::all).h) && is_half(at(Rounded::all).c)) << cell.name;
    EXPECT_FALSE(is_half(at(Rounded::nothing).h)) << cell.name;
    EXPECT_EQ(is_half(at(Rounded::gates).carried()), cell.value == Cell::rnn) << cell.name;
    EXPECT_GT(farthest(at(Rounded::state), at(Rounded::all)), 0) << cell.name;
  }
  // One step from zeros, rounded after it: nothing but the rounding of FP32's own state.
  const Weights w = recurrent::random_weights(Cell::lstm, small());
  const auto inputs = recurrent::random_inputs(7, 0, 1, 3);
  const State wide = recurrent::rounded_states(w, inputs, 1, bf16, Rounded::nothing, nullptr)[0],
              narrow = recurrent::rounded_states(w, inputs, 1, bf16, Rounded::state, nullptr)[0];
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(narrow.c[i], bf16.value(encode(bf16, {}, wide.c[i]).code));
}

TEST(RecurrentWeights, AreMultiplesOfOrthogonalMatrices) {
  for (const auto& cell : recurrent::cells) {
    const Weights w = recurrent::random_weights(cell.value, small());
    ASSERT_EQ(w.from_hidden.size(), recurrent::gates_of(cell.value) * 25);
    for (std::size_t gate = 0; gate < recurrent::gates_of(cell.value); ++gate)
      for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t j = 0; j < 5; ++j) {
          double product = 0;
          for (std::size_t k = 0; k < 5; ++k)
            product += w.from_hidden[gate * 25 + i * 5 + k] * w.from_hidden[gate * 25 + j * 5 + k];
          EXPECT_NEAR(product, i == j ? 0.64 : 0, 1e-6) << cell.name;
        }
    EXPECT_NE(std::fabs(w.from_hidden[0]), 0.8) << "not the identity";
    for (std::size_t row = 0; row < w.rows(); ++row)
      EXPECT_EQ(w.bias[row], cell.value != Cell::rnn && row / 5 == 1 ? 2 : 0) << cell.name;
  }
}

/// The sum of the last h of a sequence that goes on from a state after `first` steps.
double last_sum(const Weights& w, State state, const std::vector<double>& inputs, std::size_t first,
                std::size_t steps) {
  for (std::size_t t = first; t < steps; ++t) state = step(w, state, inputs.data() + w.inputs * t);
  double sum = 0;
  for (const double h : state.h) sum += h;
  return sum;
}

TEST(RecurrentGradients, AreDifferences) {
  constexpr std::size_t steps = 12;
  for (const auto& cell : recurrent::cells) {
    const Weights w = recurrent::random_weights(cell.value, small());
    const auto inputs = recurrent::random_inputs(7, 0, steps, 3);
    const auto states = recurrent::exact_states(w, inputs, steps);
    const auto gradients = recurrent::exact_gradients(w, inputs, states);
    const auto narrow = recurrent::rounded_gradients(w, inputs, states, fp16, nullptr);
    ASSERT_EQ(gradients.size(), steps + 1);
    ASSERT_EQ(narrow.size(), steps + 1);
    for (std::size_t k = 0; k <= steps; ++k)
      for (std::size_t i = 0; i < w.width; ++i) {
        const auto moved = [&](double by) {
          const std::size_t t = steps - k;
          State s = t == 0 ? recurrent::zero_state(w) : states[t - 1];
          if (cell.value != Cell::lstm) {
            s.h[i] += by;
          } else {
            s.c[i] += by;
            if (t > 0) {  // h of the same step sees the changed c, with the gate that the step had
              const double shown = states[t - 1].h[i] / std::tanh(states[t - 1].c[i]);
              s.h[i] = shown * std::tanh(s.c[i]);
            }
          }
          return last_sum(w, s, inputs, t, steps);
        };
        const double difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
        EXPECT_NEAR(gradients[k][i], difference, 1e-8 + 1e-6 * std::fabs(difference)) << cell.name << " " << k;
        EXPECT_NEAR(narrow[k][i], difference, 0.01) << cell.name << " " << k;
        EXPECT_EQ(fp16.value(encode(fp16, {}, narrow[k][i]).code), narrow[k][i]) << cell.name << " " << k;
      }
  }
}

Report report_of(const std::vector<std::string>& assignments) {
  const Experiment& experiment = find_experiment("recurrent");
  Config config(experiment.parameters());
  for (const std::string& a : assignments) config.set(a);
  Report report("recurrent", "test", config);
  Trace trace;
  Run run{report, trace, [](double) {}};
  experiment.run(config, run);
  EXPECT_FALSE(trace.channels().empty());
  return report;
}

TEST(Recurrent, EveryClaimHolds) {
  const Report report = report_of({});  // outlives the loop over its claims
  for (const Claim& c : report.claims()) EXPECT_EQ(c.verdict, Verdict::pass) << c.id << " " << c.measured;
}

TEST(Recurrent, ClaimsThatAreNotTestedAreSkipped) {
  const Report report = report_of({"formats=fp32", "steps=1,4", "radius=1", "increments=8", "sequences=1"});
  std::set<std::string> skipped;
  for (const Claim& c : report.claims())
    if (c.verdict == Verdict::skipped) skipped.insert(c.id);
    else EXPECT_EQ(c.verdict, Verdict::pass) << c.id;
  EXPECT_EQ(skipped, (std::set<std::string>{"rnn-errors-stay-bounded", "cell-errors-add-up",
                                            "gradients-cross-where-derived", "rounded-gradients-stick",
                                            "lstm-underflows-later", "cells-stop-counting", "fp32-cells-count-on"}));
}

/// A gradient that is multiplied by r and rounded to multiples of 2^-24, by the definition of rounding in double.
double stuck_units(double r, int steps) {
  double g = 1;
  for (int k = 0; k < steps; ++k) {
    const double x = g * static_cast<double>(static_cast<float>(r));
    int e = 0;
    std::frexp(x, &e);
    const double unit = std::ldexp(1, std::max(e - 11, -24));
    g = std::nearbyint(x / unit) * unit;
  }
  return g * 0x1p24;
}

TEST(Recurrent, GradientsStickAboveZero) {
  // 1/2 halves to zero: 2^-25 is a tie. 3/4 sticks at 2 (a tie at 2 * 3/4 = 1.5, to the even 2), 0.9 at 4.
  EXPECT_EQ(stuck_units(0.5, 100), 0);
  for (const double r : {0.75, 0.9, 0.7, 0.96}) {
    const Report report = report_of(
        {"formats=fp16", "radius=" + std::to_string(r), "steps=1,800", "sequences=1", "width=2", "increments=8"});
    for (const Claim& c : report.claims())
      if (c.id == "rounded-gradients-stick") {
        EXPECT_EQ(c.verdict, Verdict::pass) << r;
        EXPECT_EQ(c.measured["fp16"].get<double>(), stuck_units(r, 800)) << r;
        EXPECT_GT(stuck_units(r, 800), 0);
      }
  }
}

TEST(Recurrent, CellsStopAtTwoToThePIncrements) {
  const Json table = report_of({"formats=bf16,e4m3", "steps=1", "increments=100,700"}).to_json()["results"]["memory"];
  const Json expected = Json::array(
      {Json::array({"bf16", "format", 100, 50.0, 50.0, nullptr}),
       Json::array({"bf16", "format", 700, 350.0, 128.0, 256}), Json::array({"bf16", "fp32", 100, 50.0, 50.0, nullptr}),
       Json::array({"bf16", "fp32", 700, 350.0, 350.0, nullptr}), Json::array({"e4m3", "format", 100, 50.0, 8.0, 16}),
       Json::array({"e4m3", "format", 700, 350.0, 8.0, 16}), Json::array({"e4m3", "fp32", 100, 50.0, 50.0, nullptr}),
       Json::array({"e4m3", "fp32", 700, 350.0, 350.0, nullptr})});
  EXPECT_EQ(table["rows"], expected);
}

TEST(Recurrent, FormatsWithoutZeroOrSignAreRefused) {
  EXPECT_THROW(report_of({"formats=e8m0"}), std::invalid_argument);
}

}  // namespace recurrent_test
}  // namespace halfulp
