// The operators that the experiment looks at.
#include <halfulp/experiments/operators/functions.hpp>

#include <array>

namespace halfulp::operators {
namespace {

constexpr std::size_t factors = 16;  ///< of a product: more leave the range of FP32 too
constexpr std::size_t head = 64;     ///< dimensions of an attention head
constexpr std::size_t cells = 8;     ///< of a recurrent layer

/// One function of every activation.
template <class F>
void each(OperatorProgram& p, std::size_t n, F&& f, Draw draw = Draw::activation) {
  for (const Value x : p.operand(draw, n)) p.output(f(x));
}

/// 3 x 3 windows over 4 x 4 places of `channels` channels: two by two outputs.
void convolution(OperatorProgram& p, std::size_t channels) {
  const Values x = p.operand(Draw::activation, 16 * channels), w = p.operand(Draw::weight, 9 * channels, 9 * channels);
  for (std::size_t row = 0; row < 2; ++row)
    for (std::size_t column = 0; column < 2; ++column) {
      Values window;
      for (std::size_t c = 0; c < channels; ++c)
        for (std::size_t i = 0; i < 9; ++i) window.push_back(x[c * 16 + (row + i / 3) * 4 + column + i % 3]);
      p.output(p.dot(window, w));
    }
}

/// Windows of four values.
template <class F>
void pooling(OperatorProgram& p, std::size_t n, F&& f) {
  const Values x = p.operand(Draw::activation, n / 4 * 4);
  for (std::size_t i = 0; i + 4 <= x.size(); i += 4) p.output(f(part(x, i, 4)));
}

void batch_normalize(OperatorProgram& p, std::size_t n) {
  const Values x = p.operand(Draw::activation, n / 4 * 4);
  for (std::size_t c = 0; c < 4; ++c) p.output(normalize(p, part(x, c * (n / 4), n / 4)));
}

void scores(OperatorProgram& p, std::size_t) {
  const Values q = p.operand(Draw::activation, head), keys = p.operand(Draw::activation, 16 * head);
  for (std::size_t k = 0; k < 16; ++k) p.output(p.div(p.dot(q, part(keys, k * head, head)), p.constant(8)));
}

void values(OperatorProgram& p, std::size_t n) {
  const Values weights = p.operand(Draw::probability, n), v = p.operand(Draw::activation, 4 * n);
  for (std::size_t d = 0; d < 4; ++d) p.output(p.dot(weights, part(v, d * n, n)));
}

// clang-format off
constexpr std::array<Operator, 36> of_networks{{
  {"softmax",           "softmax",       "n activations",                  [](OperatorProgram& p, std::size_t n) { p.output(softmax(p, p.operand(Draw::activation, n))); }},
  {"log-softmax",       "softmax",       "n activations",                  [](OperatorProgram& p, std::size_t n) { p.output(log_softmax(p, p.operand(Draw::activation, n))); }},
  {"cross-entropy",     "loss",          "n logits to 1",                  [](OperatorProgram& p, std::size_t n) { p.output(cross_entropy_of_first(p, p.operand(Draw::label_logits, n))); }},
  {"bce",               "loss",          "n/4 probabilities to 1",         [](OperatorProgram& p, std::size_t n) { p.output(bce(p, p.operand(Draw::binary_probability, n / 4))); }},
  {"bce-with-logits",   "loss",          "n/4 logits to 1",                [](OperatorProgram& p, std::size_t n) { p.output(bce_with_logits(p, p.operand(Draw::binary_logits, n / 4))); }},
  {"layer-norm",        "normalization", "n activations",                  [](OperatorProgram& p, std::size_t n) { p.output(normalize(p, p.operand(Draw::activation, n))); }},
  {"sum",               "reduction",     "n activations to 1",             [](OperatorProgram& p, std::size_t n) { p.output(p.sum(p.operand(Draw::activation, n))); }},
  {"norm",              "reduction",     "n activations to 1",             [](OperatorProgram& p, std::size_t n) { p.output(norm(p, p.operand(Draw::activation, n))); }},
  {"prod",              "reduction",     "16 activations to 1",            [](OperatorProgram& p, std::size_t) { const Values x = p.operand(Draw::activation, factors); Value y = x[0]; for (std::size_t i = 1; i < factors; ++i) y = p.mul(y, x[i]); p.output(y); }},
  {"exp",               "exp, log, pow", "n/4 activations",                [](OperatorProgram& p, std::size_t n) { each(p, n / 4, [&](Value x) { return p.exp(x); }); }},
  {"pow",               "exp, log, pow", "n/4 activations, x^3",           [](OperatorProgram& p, std::size_t n) { const Value three = p.constant(3); each(p, n / 4, [&](Value x) { return p.pow(x, three); }); }},
  {"linear",            "product",       "n activations to 4",             [](OperatorProgram& p, std::size_t n) { p.output(linear(p, p.operand(Draw::activation, n), 4)); }},
  {"conv2d",            "product",       "n/64 channels, 3 x 3, to 4",     [](OperatorProgram& p, std::size_t n) { convolution(p, n / 64); }},
  {"attention-scores",  "product",       "16 keys of 64 dimensions",       scores},
  {"attention-values",  "product",       "n probabilities by n values, to 4", values},
  {"embedding",         "lookup",        "n weights, copied",              [](OperatorProgram& p, std::size_t n) { p.output(p.operand(Draw::weight, n, n)); }},
  {"last-layer",        "lookup",        "64 activations to n/8 probabilities: linear and softmax", [](OperatorProgram& p, std::size_t n) { p.output(softmax(p, linear(p, p.operand(Draw::activation, head), n / 8))); }},
  {"lstm-cell",         "recurrent",     "n/64 activations, 8 cells",      [](OperatorProgram& p, std::size_t n) { const Values x = p.operand(Draw::activation, n / 64), h = p.operand(Draw::activation, cells), c = p.operand(Draw::activation, cells); p.output(lstm_cell(p, x, h, c)); }},
  {"rnn-cell",          "recurrent",     "n/16 activations, 8 cells",      [](OperatorProgram& p, std::size_t n) { const Values x = p.operand(Draw::activation, n / 16), h = p.operand(Draw::activation, cells); p.output(rnn_cell(p, x, h)); }},
  {"rms-norm",          "normalization", "n activations",                  [](OperatorProgram& p, std::size_t n) { p.output(rms_normalize(p, p.operand(Draw::activation, n))); }},
  {"batch-norm",        "normalization", "4 channels of n/4 activations",  batch_normalize},
  {"softmax-unshifted", "softmax",       "n activations, no maximum subtracted", [](OperatorProgram& p, std::size_t n) { p.output(softmax(p, p.operand(Draw::activation, n), false)); }},
  {"mse",               "loss",          "n activations and n targets to 1", [](OperatorProgram& p, std::size_t n) { const Values x = p.operand(Draw::activation, n), t = p.operand(Draw::activation, n); p.output(mse(p, x, t)); }},
  {"sum-of-magnitudes", "reduction",     "n magnitudes of activations to 1", [](OperatorProgram& p, std::size_t n) { p.output(p.sum(p.operand(Draw::positive, n))); }},
  {"mean",              "reduction",     "n magnitudes of activations to 1", [](OperatorProgram& p, std::size_t n) { p.output(p.mean(p.operand(Draw::positive, n))); }},
  {"log",               "exp, log, pow", "n/4 magnitudes of activations",  [](OperatorProgram& p, std::size_t n) { each(p, n / 4, [&](Value x) { return p.log(x); }, Draw::positive); }},
  {"reciprocal",        "exp, log, pow", "n magnitudes of activations",    [](OperatorProgram& p, std::size_t n) { each(p, n, [&](Value x) { return reciprocal(p, x); }, Draw::positive); }},
  {"rsqrt",             "exp, log, pow", "n magnitudes of activations",    [](OperatorProgram& p, std::size_t n) { each(p, n, [&](Value x) { return reciprocal(p, p.sqrt(x)); }, Draw::positive); }},
  {"relu",              "pointwise",     "n activations",                  [](OperatorProgram& p, std::size_t n) { each(p, n, [&](Value x) { return relu(p, x); }); }},
  {"gelu",              "pointwise",     "n/4 activations",                [](OperatorProgram& p, std::size_t n) { each(p, n / 4, [&](Value x) { return gelu(p, x); }); }},
  {"sigmoid",           "pointwise",     "n/4 activations",                [](OperatorProgram& p, std::size_t n) { each(p, n / 4, [&](Value x) { return sigmoid(p, x); }); }},
  {"tanh",              "pointwise",     "n/4 activations",                [](OperatorProgram& p, std::size_t n) { each(p, n / 4, [&](Value x) { return p.tanh(x); }); }},
  {"mul",               "pointwise",     "n activations by n activations", [](OperatorProgram& p, std::size_t n) { const Values y = p.operand(Draw::activation, n); std::size_t i = 0; each(p, n, [&](Value x) { return p.mul(x, y[i++]); }); }},
  {"residual",          "pointwise",     "n activations and n activations", [](OperatorProgram& p, std::size_t n) { const Values y = p.operand(Draw::activation, n); std::size_t i = 0; each(p, n, [&](Value x) { return p.add(x, y[i++]); }); }},
  {"max-pool",          "pooling",       "n activations, 4 to 1",          [](OperatorProgram& p, std::size_t n) { pooling(p, n, [&](const Values& x) { return p.largest(x); }); }},
  {"average-pool",      "pooling",       "n activations, 4 to 1",          [](OperatorProgram& p, std::size_t n) { pooling(p, n, [&](const Values& x) { return p.mean(x); }); }},
}};
// clang-format on

}  // namespace

std::span<const Operator> operator_table() {
  static const std::vector<Operator> all = [] {
    std::vector<Operator> rows(of_networks.begin(), of_networks.end());
    rows.insert(rows.end(), listed_only().begin(), listed_only().end());
    return rows;
  }();
  return all;
}

OperatorProgram build(const Operator& op, SumOrder order, std::size_t size) {
  OperatorProgram p(order, op.name);
  op.build(p, size);
  return p;
}

}  // namespace halfulp::operators
