// The cells, step by step and back again, in numbers of three kinds: double, FP32, and a format.
#include <halfulp/experiments/recurrent/recurrent.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/data/elementary.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <bit>
#include <cmath>

namespace halfulp::recurrent {
namespace {

/// Streams of random numbers, by what they are for. Sequences have streams of their own from `sequences` on.
enum Stream : std::uint64_t { reflections = 1, input_weights, sequences };

double single(double x) { return static_cast<double>(static_cast<float>(x)); }

/// An orthogonal matrix: the product of `width` reflections I - 2 v v^T / (v^T v), v normal.
std::vector<double> orthogonal(std::size_t width, std::uint64_t seed, std::uint64_t matrix) {
  std::vector<double> q(width * width, 0), v(width);
  for (std::size_t i = 0; i < width; ++i) q[i * width + i] = 1;
  for (std::size_t r = 0; r < width; ++r) {
    double square = 0;
    for (std::size_t i = 0; i < width; ++i) {
      v[i] = normal_sample(seed, reflections, (matrix * width + r) * width + i);
      square += v[i] * v[i];
    }
    for (std::size_t i = 0; i < width; ++i) {
      double along = 0;
      for (std::size_t j = 0; j < width; ++j) along += q[i * width + j] * v[j];
      for (std::size_t j = 0; j < width; ++j) q[i * width + j] -= 2 * along / square * v[j];
    }
  }
  return q;
}

/// Operations of double or FP32: a number is itself.
template <class T>
struct Native {
  using Number = T;
  T from(double x) const { return static_cast<T>(x); }
  double value(T x) const { return static_cast<double>(x); }
  T add(T a, T b) const { return a + b; }
  T sub(T a, T b) const { return a - b; }
  T mul(T a, T b) const { return a * b; }
  T tanh(T x) const { return smooth_tanh(x); }
  T sigmoid(T x) const { return smooth_sigmoid(x); }
};

/// Operations of a format: a number is its code word, tanh and the sigmoid are rounded once.
struct Narrow {
  using Number = std::uint64_t;
  Arithmetic arithmetic;
  Number from(double x) { return arithmetic.encode(x); }
  double value(Number x) const { return arithmetic.value(x); }
  Number add(Number a, Number b) { return arithmetic.add(a, b); }
  Number sub(Number a, Number b) { return arithmetic.sub(a, b); }
  Number mul(Number a, Number b) { return arithmetic.mul(a, b); }
  Number tanh(Number x) { return from(smooth_tanh(value(x))); }
  Number sigmoid(Number x) { return from(smooth_sigmoid(value(x))); }
};

/// Steps of a cell: gates by the operations G, the state's own update by U, results through `store`.
template <class G, class U, class Store>
class Steps {
 public:
  Steps(const Weights& weights, G& in_gates, U& in_update, Store store)
      : weights_(weights),
        g_(in_gates),
        u_(in_update),
        store_(store),
        from_hidden_(numbers(weights.from_hidden)),
        from_input_(numbers(weights.from_input)),
        bias_(numbers(weights.bias)) {}

  State operator()(const State& before, const double* input) {
    const std::size_t width = weights_.width;
    const Numbers x = numbers({input, input + weights_.inputs}), h = numbers(before.h);
    State after = before;
    for (std::size_t i = 0; i < width; ++i) {
      // a + b of one gate: a from the input with its bias, b from the state.
      const auto a = [&](std::size_t gate) {
        const std::size_t row = gate * width + i;
        return g_.add(row_product(from_input_, row, x), bias_[row]);
      };
      const auto b = [&](std::size_t gate) { return row_product(from_hidden_, gate * width + i, h); };
      const auto both = [&](std::size_t gate) { return g_.add(a(gate), b(gate)); };
      if (weights_.cell == Cell::rnn) {
        after.h[i] = store_(g_.value(g_.tanh(both(0))));
      } else if (weights_.cell == Cell::gru) {
        const auto reset = g_.sigmoid(both(0)), keep = g_.sigmoid(both(1)),
                   news = g_.tanh(g_.add(a(2), g_.mul(reset, b(2)))), taken = g_.sub(g_.from(1), keep);
        after.h[i] = store_(blend(keep, before.h[i], taken, news));
      } else {
        const auto taken = g_.sigmoid(both(0)), keep = g_.sigmoid(both(1)), news = g_.tanh(both(2)),
                   shown = g_.sigmoid(both(3));
        after.c[i] = store_(blend(keep, before.c[i], taken, news));
        after.h[i] = store_(g_.value(g_.mul(shown, g_.tanh(g_.from(after.c[i])))));
      }
    }
    return after;
  }

 private:
  using Number = typename G::Number;
  using Numbers = std::vector<Number>;

  Numbers numbers(const std::vector<double>& values) {
    Numbers result;
    for (const double x : values) result.push_back(g_.from(x));
    return result;
  }
  Number row_product(const Numbers& matrix, std::size_t row, const Numbers& x) {
    Number sum = g_.mul(matrix[row * x.size()], x[0]);
    for (std::size_t j = 1; j < x.size(); ++j) sum = g_.add(sum, g_.mul(matrix[row * x.size() + j], x[j]));
    return sum;
  }
  /// keep * before + taken * news, the state's own update.
  double blend(Number keep, double before, Number taken, Number news) {
    const auto number = [&](Number x) { return u_.from(g_.value(x)); };
    return u_.value(u_.add(u_.mul(number(keep), u_.from(before)), u_.mul(number(taken), number(news))));
  }

  const Weights& weights_;
  G& g_;
  U& u_;
  Store store_;
  Numbers from_hidden_, from_input_, bias_;
};

template <class G, class U, class Store>
std::vector<State> states(const Weights& weights, const std::vector<double>& inputs, std::size_t steps, G&& gates,
                          U&& update, Store store) {
  Steps<std::remove_reference_t<G>, std::remove_reference_t<U>, Store> step(weights, gates, update, store);
  std::vector<State> all;
  State state = zero_state(weights);
  for (std::size_t t = 0; t < steps; ++t) {
    stop_if_interrupted();
    state = step(state, inputs.data() + t * weights.inputs);
    all.push_back(state);
  }
  return all;
}

/// One step back: from the gradients by h and c after step t to those before it. T: double or float.
template <class T>
class StepBack {
 public:
  explicit StepBack(const Weights& weights) : w_(weights), da_(weights.rows()) {}

  /// dh and dc by h and c after the step become those before it. dc has what h passes on to c in the step (by_cell),
  /// and gets nothing of it for the step before.
  void operator()(const State& before, const State& after, const double* x, std::vector<T>& dh, std::vector<T>& dc) {
    const Native<T> n;
    const std::size_t width = w_.width;
    std::vector<T> own(width, 0);  // what goes on by the cell's own sum
    for (std::size_t i = 0; i < width; ++i) {
      const auto gate = [&](std::size_t k) { return activation(before, x, k * width + i); };
      const T h = static_cast<T>(after.h[i]), h0 = static_cast<T>(before.h[i]);
      if (w_.cell == Cell::rnn) {
        da_[i] = dh[i] * (1 - h * h);
      } else if (w_.cell == Cell::gru) {
        const T from_state = product(before, 2 * width + i), reset = n.sigmoid(gate(0)), keep = n.sigmoid(gate(1)),
                news = n.tanh(from_input(x, 2 * width + i) + reset * from_state);
        const T dn = dh[i] * (1 - keep) * (1 - news * news);
        da_[i] = dn * from_state * reset * (1 - reset);
        da_[width + i] = dh[i] * (h0 - news) * keep * (1 - keep);
        da_[2 * width + i] = dn * reset;
        own[i] = dh[i] * keep;
      } else {
        const T taken = n.sigmoid(gate(0)), keep = n.sigmoid(gate(1)), news = n.tanh(gate(2)),
                shown = n.sigmoid(gate(3)), c0 = static_cast<T>(before.c[i]);
        da_[i] = dc[i] * news * taken * (1 - taken);
        da_[width + i] = dc[i] * c0 * keep * (1 - keep);
        da_[2 * width + i] = dc[i] * taken * (1 - news * news);
        da_[3 * width + i] = dh[i] * n.tanh(static_cast<T>(after.c[i])) * shown * (1 - shown);
        own[i] = dc[i] * keep;
      }
    }
    if (w_.cell == Cell::lstm) dc = own;
    for (std::size_t j = 0; j < width; ++j) {
      T sum = w_.cell == Cell::gru ? own[j] : 0;
      for (std::size_t row = 0; row < w_.rows(); ++row)
        sum += static_cast<T>(w_.from_hidden[row * width + j]) * da_[row];
      dh[j] = sum;
    }
  }
  /// What h passes on to c in the same step.
  T by_cell(const State& before, const State& after, const double* x, std::size_t i, T dh) const {
    const Native<T> n;
    const T t = n.tanh(static_cast<T>(after.c[i]));
    return dh * n.sigmoid(activation(before, x, 3 * w_.width + i)) * (1 - t * t);
  }

 private:
  T product(const State& before, std::size_t row) const {
    T sum = 0;
    for (std::size_t j = 0; j < w_.width; ++j)
      sum += static_cast<T>(w_.from_hidden[row * w_.width + j]) * static_cast<T>(before.h[j]);
    return sum;
  }
  T from_input(const double* x, std::size_t row) const {
    T sum = 0;
    for (std::size_t j = 0; j < w_.inputs; ++j)
      sum += static_cast<T>(w_.from_input[row * w_.inputs + j]) * static_cast<T>(x[j]);
    return sum + static_cast<T>(w_.bias[row]);
  }
  T activation(const State& before, const double* x, std::size_t row) const {
    return from_input(x, row) + product(before, row);
  }

  const Weights& w_;
  std::vector<T> da_;  ///< by pre-activations
};

template <class T, class Round>
Gradients gradients_back(const Weights& w, const std::vector<double>& inputs, const std::vector<State>& states,
                         Round round) {
  StepBack<T> back(w);
  std::vector<T> dh(w.width, 1), dc(w.cell == Cell::lstm ? w.width : 0, 0);
  const State zero = zero_state(w);
  Gradients all;
  for (std::size_t t = states.size();; --t) {
    stop_if_interrupted();
    const State& before = t > 1 ? states[t - 2] : zero;
    const double* const input = inputs.data() + (t > 0 ? t - 1 : 0) * w.inputs;
    // Now dh and dc are by the state after t steps; of the LSTM's c still without what h passes on.
    for (T& x : dh) x = round(x);
    for (std::size_t i = 0; i < dc.size(); ++i)
      dc[i] = round(t > 0 ? dc[i] + back.by_cell(before, states[t - 1], input, i, dh[i]) : dc[i]);
    const std::vector<T>& carried = w.cell == Cell::lstm ? dc : dh;
    all.emplace_back(carried.begin(), carried.end());
    if (t == 0) return all;
    back(before, states[t - 1], input, dh, dc);
  }
}

}  // namespace

Weights random_weights(Cell cell, const CellSettings& s) {
  Weights w{cell, s.width, s.inputs, {}, {}, std::vector<double>(gates_of(cell) * s.width, 0)};
  for (std::size_t gate = 0; gate < gates_of(cell); ++gate)
    for (const double x : orthogonal(s.width, s.seed, gate)) w.from_hidden.push_back(single(s.radius * x));
  for (std::size_t i = 0; i < w.rows() * s.inputs; ++i)
    w.from_input.push_back(single(normal_sample(s.seed, input_weights, i) / std::sqrt(static_cast<double>(s.inputs))));
  if (cell != Cell::rnn)
    for (std::size_t i = 0; i < s.width; ++i) w.bias[s.width + i] = single(s.forget_bias);
  return w;
}

std::vector<double> random_inputs(std::uint64_t seed, std::uint64_t sequence, std::size_t steps, std::size_t count) {
  std::vector<double> inputs;
  for (std::size_t i = 0; i < steps * count; ++i)
    inputs.push_back(single(normal_sample(seed, sequences + sequence, i)));
  return inputs;
}

State zero_state(const Weights& w) {
  return {std::vector<double>(w.width, 0), std::vector<double>(w.cell == Cell::lstm ? w.width : 0, 0)};
}

std::vector<State> exact_states(const Weights& weights, const std::vector<double>& inputs, std::size_t steps) {
  return states(weights, inputs, steps, Native<double>(), Native<double>(), [](double x) { return x; });
}

std::vector<State> rounded_states(const Weights& weights, const std::vector<double>& inputs, std::size_t steps,
                                  const FloatFormat& format, Rounded rounded, Trace* trace) {
  const auto keep = [](double x) { return x; };
  Narrow narrow{Arithmetic(format, {}, trace)};
  const auto stored = [&](double x) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
    return format.value(narrow.arithmetic.convert_from(fp32, bits));
  };
  switch (rounded) {
    case Rounded::nothing: break;
    case Rounded::state: return states(weights, inputs, steps, Native<float>(), Native<float>(), stored);
    case Rounded::gates: return states(weights, inputs, steps, narrow, Native<float>(), keep);
    case Rounded::all: return states(weights, inputs, steps, narrow, narrow, keep);
  }
  return states(weights, inputs, steps, Native<float>(), Native<float>(), keep);
}

Gradients exact_gradients(const Weights& w, const std::vector<double>& inputs, const std::vector<State>& states) {
  return gradients_back<double>(w, inputs, states, [](double x) { return x; });
}

Gradients rounded_gradients(const Weights& w, const std::vector<double>& inputs, const std::vector<State>& states,
                            const FloatFormat& format, Trace* trace) {
  Arithmetic narrow(format, {}, trace);
  return gradients_back<float>(w, inputs, states, [&](float x) {
    return static_cast<float>(format.value(narrow.convert_from(fp32, std::bit_cast<std::uint32_t>(x))));
  });
}

int log2_smallest(const FloatFormat& f) { return std::ilogb(f.value(f.min_positive())); }

}  // namespace halfulp::recurrent
