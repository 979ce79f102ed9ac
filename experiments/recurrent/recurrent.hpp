// The pieces of the experiment "recurrent".
#pragma once

#include <halfulp/report/experiment.hpp>
#include <halfulp/support/spelling.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace halfulp::recurrent {

enum class Cell : std::uint8_t { rnn, gru, lstm };
inline constexpr std::array<Named<Cell>, 3> cells{{{"rnn", Cell::rnn}, {"gru", Cell::gru}, {"lstm", Cell::lstm}}};
/// Pre-activations of a unit: one of the RNN; r, z, n of the GRU; i, f, g, o of the LSTM (torch's orders).
constexpr std::size_t gates_of(Cell cell) { return cell == Cell::rnn ? 1 : cell == Cell::gru ? 3 : 4; }

/// What is rounded to the format. All else is FP32.
enum class Rounded : std::uint8_t {
  nothing,  ///< the repair
  state,    ///< the state after each step: h, and the LSTM's c
  gates,    ///< weights, inputs and every operation, but not the state and its update: h and c stay FP32 numbers
  all,      ///< weights, inputs, every operation and the state
};
inline constexpr std::array<Named<Rounded>, 4> roundings{
    {{"nothing", Rounded::nothing}, {"state", Rounded::state}, {"gates", Rounded::gates}, {"all", Rounded::all}}};

/// A cell's numbers, each an FP32 number: gates * width rows, one after another.
struct Weights {
  Cell cell = Cell::rnn;
  std::size_t width = 1, inputs = 1;
  std::vector<double> from_hidden, from_input, bias;
  std::size_t rows() const { return gates_of(cell) * width; }
};

struct CellSettings {
  std::size_t width = 16, inputs = 4;
  double radius = 0.9;     ///< the recurrent matrix of every gate is this times an orthogonal matrix
  double forget_bias = 4;  ///< of the LSTM's f, and of the GRU's z, which keep the state
  std::uint64_t seed = 1;
};
/// Orthogonal matrices (products of random Householder reflections) times `radius` from the state, normal numbers of
/// variance 1 / inputs from the input, biases 0 but for the forget gate's.
Weights random_weights(Cell cell, const CellSettings& settings);
/// Standard normal inputs, `steps` times `count` numbers.
std::vector<double> random_inputs(std::uint64_t seed, std::uint64_t sequence, std::size_t steps, std::size_t count);

/// The state of one sequence; c is empty but for the LSTM.
struct State {
  std::vector<double> h, c;
  /// What the cell carries from step to step by a sum of its own: the LSTM's c, else h.
  const std::vector<double>& carried() const { return c.empty() ? h : c; }
};
State zero_state(const Weights& weights);

/// States after each step, computed in double.
std::vector<State> exact_states(const Weights& weights, const std::vector<double>& inputs, std::size_t steps);
/// States after each step, as `rounded` says. Operations in the format and conversions to it are recorded.
std::vector<State> rounded_states(const Weights& weights, const std::vector<double>& inputs, std::size_t steps,
                                  const FloatFormat& format, Rounded rounded, Trace* trace);

/// The gradient of the sum of the last h by the carried state k steps before it, k = 0 ... steps, along the exact
/// states: in double; or in FP32, the gradients of h and c rounded to the format after each step (products of FP32
/// accumulators that are stored in the format), conversions recorded.
using Gradients = std::vector<std::vector<double>>;
Gradients exact_gradients(const Weights& weights, const std::vector<double>& inputs, const std::vector<State>& states);
Gradients rounded_gradients(const Weights& weights, const std::vector<double>& inputs, const std::vector<State>& states,
                            const FloatFormat& format, Trace* trace);

/// log2 of the smallest positive number of the format.
int log2_smallest(const FloatFormat& format);

// Tables and their claims.

/// Table `forward`: how far rounded states are from exact ones, step by step.
void forward_errors(const Config& config, Run& run);
/// Table `gradient`: how gradients vanish with distance.
void gradients(const Config& config, Run& run);
/// Table `memory`: a cell that counts.
void memory(const Config& config, Run& run);

CellSettings cell_settings(const Config& config);
/// The parameter `steps`, ascending, each once.
std::vector<std::size_t> lengths(const Config& config);

}  // namespace halfulp::recurrent
