#include <halfulp/experiments/operators/functions.hpp>

#include <utility>

namespace halfulp::operators {
namespace {

/// e^(x - max x) and their sum; `difference` receives x - max x.
struct Exponentials {
  Values differences, powers;
  Value sum;
};
Exponentials exponentials(OperatorProgram& p, const Values& x, bool shifted) {
  Exponentials e;
  if (shifted) {
    const Value most = p.largest(x);
    for (const Value v : x) e.differences.push_back(p.sub(v, most));
  } else {
    e.differences = x;
  }
  for (const Value v : e.differences) e.powers.push_back(p.exp(v));
  e.sum = p.sum(e.powers);
  return e;
}

}  // namespace

Value negative(OperatorProgram& p, Value x) { return p.sub(p.constant(0), x); }

Value relu(OperatorProgram& p, Value x) { return p.max(x, p.constant(0)); }

Value gelu(OperatorProgram& p, Value x) {
  const Value e = p.erf(p.mul(x, p.constant(0.70710678118654752440)));
  return p.mul(p.mul(p.constant(0.5), x), p.add(p.constant(1), e));
}

Value reciprocal(OperatorProgram& p, Value x) { return p.div(p.constant(1), x); }

Value sigmoid(OperatorProgram& p, Value x) { return reciprocal(p, p.add(p.constant(1), p.exp(negative(p, x)))); }

Values softmax(OperatorProgram& p, const Values& x, bool shifted) {
  const Exponentials e = exponentials(p, x, shifted);
  Values y;
  for (const Value v : e.powers) y.push_back(p.div(v, e.sum));
  return y;
}

Values log_softmax(OperatorProgram& p, const Values& x) {
  const Exponentials e = exponentials(p, x, true);
  const Value log = p.log(e.sum);
  Values y;
  for (const Value d : e.differences) y.push_back(p.sub(d, log));
  return y;
}

Value cross_entropy_of_first(OperatorProgram& p, const Values& x) {
  const Exponentials e = exponentials(p, x, true);
  return p.sub(p.log(e.sum), e.differences[0]);
}

Value bce_term(OperatorProgram& p, Value probability) { return negative(p, p.log(p.sub(p.constant(1), probability))); }

Value softplus(OperatorProgram& p, Value z) {
  const Value zero = p.constant(0), minus = p.sub(zero, z), magnitude = p.max(z, minus);
  return p.add(p.max(z, zero), p.log1p(p.exp(p.sub(zero, magnitude))));
}

Value bce(OperatorProgram& p, const Values& probabilities) {
  Values losses;
  for (std::size_t i = 0; i < probabilities.size(); ++i)
    losses.push_back(i < probabilities.size() / 2 ? negative(p, p.log(probabilities[i]))
                                                  : bce_term(p, probabilities[i]));
  return p.mean(losses);
}

Value bce_with_logits(OperatorProgram& p, const Values& logits) {
  Values losses;
  for (std::size_t i = 0; i < logits.size(); ++i)
    losses.push_back(softplus(p, i < logits.size() / 2 ? negative(p, logits[i]) : logits[i]));
  return p.mean(losses);
}

Value mse(OperatorProgram& p, const Values& x, const Values& t) {
  Values squares;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Value d = p.sub(x[i], t[i]);
    squares.push_back(p.mul(d, d));
  }
  return p.mean(squares);
}

Normalized normalized(OperatorProgram& p, const Values& x, bool centred) {
  Values deviations = x;
  if (centred) {
    const Value mean = p.mean(x);
    for (Value& v : deviations) v = p.sub(v, mean);
  }
  const Value squares = p.dot(deviations, deviations);
  const Value variance = p.div(squares, p.constant(static_cast<double>(x.size())));
  const Value inverse = reciprocal(p, p.sqrt(p.add(variance, p.constant(norm_epsilon))));
  for (Value& v : deviations) v = p.mul(v, inverse);
  return {std::move(deviations), inverse};
}

Values normalize(OperatorProgram& p, const Values& x) { return normalized(p, x, true).values; }

Values rms_normalize(OperatorProgram& p, const Values& x) { return normalized(p, x, false).values; }

Value norm(OperatorProgram& p, const Values& x) { return p.sqrt(p.dot(x, x)); }

Values linear(OperatorProgram& p, const Values& x, std::size_t rows) {
  Values y;
  for (std::size_t i = 0; i < rows; ++i) y.push_back(p.dot(x, p.operand(Draw::weight, x.size(), x.size())));
  return y;
}

Values rnn_cell(OperatorProgram& p, const Values& x, const Values& h) {
  Values xh = x;
  xh.insert(xh.end(), h.begin(), h.end());
  Values y = linear(p, xh, h.size());
  for (Value& v : y) v = p.tanh(v);
  return y;
}

Values lstm_cell(OperatorProgram& p, const Values& x, const Values& h, const Values& c) {
  Values xh = x;
  xh.insert(xh.end(), h.begin(), h.end());
  const std::size_t n = h.size();
  const Values gates = linear(p, xh, 4 * n);
  Values hidden, cells;
  for (std::size_t j = 0; j < n; ++j) {
    const Value in = sigmoid(p, gates[j]), forget = sigmoid(p, gates[n + j]), update = p.tanh(gates[2 * n + j]),
                out = sigmoid(p, gates[3 * n + j]);
    cells.push_back(p.add(p.mul(forget, c[j]), p.mul(in, update)));
    hidden.push_back(p.mul(out, p.tanh(cells.back())));
  }
  hidden.insert(hidden.end(), cells.begin(), cells.end());
  return hidden;
}

Values part(const Values& x, std::size_t begin, std::size_t count) {
  const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin);
  return Values(first, first + static_cast<std::ptrdiff_t>(count));
}

}  // namespace halfulp::operators
