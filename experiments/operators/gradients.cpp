// Gradients of operators in elementary operations: the chain rule, step by step, as PyTorch's backward functions have
// it.
#include <halfulp/experiments/operators/functions.hpp>

#include <array>

namespace halfulp::operators {
namespace {

/// Gradients from later operators: the loss is a mean over n.
Values incoming(OperatorProgram& p, std::size_t count, std::size_t n) { return p.operand(Draw::weight, count, n * n); }

Value mean_weight(OperatorProgram& p, std::size_t n) { return p.constant(1 / static_cast<double>(n)); }

void bce_apart(OperatorProgram& p, std::size_t n) {
  const Values x = p.operand(Draw::binary_logits, n / 4);
  const Value weight = mean_weight(p, x.size());
  for (std::size_t i = 0; i < x.size(); ++i) p.output(bce_gradient_apart(p, x[i], i < x.size() / 2, weight));
}

void bce_fused(OperatorProgram& p, std::size_t n) {
  const Values x = p.operand(Draw::binary_logits, n / 4);
  const Value weight = mean_weight(p, x.size()), one = p.constant(1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Value y = sigmoid(p, x[i]);
    p.output(p.mul(i < x.size() / 2 ? p.sub(y, one) : y, weight));
  }
}

/// -ln y of the first y = softmax(x): -1/y for that y, then softmax's own gradient y (dy - sum of dy y).
void cross_entropy_apart(OperatorProgram& p, std::size_t n) {
  const Values y = softmax(p, p.operand(Draw::label_logits, n));
  const Value first = negative(p, p.div(mean_weight(p, n), y[0])), sum = p.mul(first, y[0]);
  p.output(p.mul(y[0], p.sub(first, sum)));
  for (const Value other : part(y, 1, n - 1)) p.output(p.mul(other, negative(p, sum)));
}

void cross_entropy_fused(OperatorProgram& p, std::size_t n) {
  Values y = softmax(p, p.operand(Draw::label_logits, n));
  y[0] = p.sub(y[0], p.constant(1));
  const Value weight = mean_weight(p, n);
  for (const Value v : y) p.output(p.mul(v, weight));
}

/// Of y = x / d: (g - mean g - y mean(g y)) / d; without the mean where x was not centred.
void norm_gradient(OperatorProgram& p, const Values& x, const Values& g, bool centred) {
  const Normalized y = normalized(p, x, centred);
  const Value along = p.div(p.dot(g, y.values), p.constant(static_cast<double>(x.size())));
  const Value mean = centred ? p.mean(g) : 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Value rest = centred ? p.sub(g[i], mean) : g[i];
    p.output(p.mul(y.inverse, p.sub(rest, p.mul(y.values[i], along))));
  }
}

void layer_norm(OperatorProgram& p, std::size_t n) {
  const Values x = p.operand(Draw::activation, n);
  norm_gradient(p, x, incoming(p, n, n), true);
}

void rms_norm(OperatorProgram& p, std::size_t n) {
  const Values x = p.operand(Draw::activation, n);
  norm_gradient(p, x, incoming(p, n, n), false);
}

void batch_norm(OperatorProgram& p, std::size_t n) {
  const std::size_t of_channel = n / 4;
  const Values x = p.operand(Draw::activation, 4 * of_channel), g = incoming(p, x.size(), n);
  for (std::size_t c = 0; c < 4; ++c)
    norm_gradient(p, part(x, c * of_channel, of_channel), part(g, c * of_channel, of_channel), true);
}

constexpr std::size_t head_tokens = 8, head_width = 16;

using Rows = std::vector<Values>;

Rows rows_of(const Values& x, std::size_t width) {
  Rows rows;
  for (std::size_t i = 0; i < x.size(); i += width) rows.push_back(part(x, i, width));
  return rows;
}

Rows transposed(const Rows& x) {
  Rows y(x[0].size());
  for (const Values& row : x)
    for (std::size_t i = 0; i < row.size(); ++i) y[i].push_back(row[i]);
  return y;
}

/// a b^T.
Rows product(OperatorProgram& p, const Rows& a, const Rows& b) {
  Rows y(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    for (const Values& row : b) y[i].push_back(p.dot(a[i], row));
  return y;
}

/// Of queries, keys and values: y = softmax(q k^T / 4) v, every token attends to all.
void attention(OperatorProgram& p, std::size_t n) {
  const auto operand = [&] { return rows_of(p.operand(Draw::activation, head_tokens * head_width), head_width); };
  const Rows q = operand(), k = operand(), v = operand(),
             g = rows_of(incoming(p, head_tokens * head_width, n), head_width);
  const Value root = p.constant(4);
  Rows weights = product(p, q, k);
  for (Values& row : weights) {
    for (Value& score : row) score = p.div(score, root);
    row = softmax(p, row);
  }
  Rows scores = product(p, g, v);  // gradients of weights, then of scores
  for (std::size_t t = 0; t < head_tokens; ++t) {
    const Value along = p.dot(scores[t], weights[t]);
    for (std::size_t u = 0; u < head_tokens; ++u)
      scores[t][u] = p.div(p.mul(weights[t][u], p.sub(scores[t][u], along)), root);
  }
  for (const Rows& gradient : {product(p, scores, transposed(k)), product(p, transposed(scores), transposed(q)),
                               product(p, transposed(weights), transposed(g))})
    for (const Values& row : gradient) p.output(row);
}

/// Tokens that occur 1, 2, 4, ... times among n positions: the gradients of a token's positions are added.
void embedding(OperatorProgram& p, std::size_t n) {
  const Values g = incoming(p, n, n);
  for (std::size_t count = 1, at = 0; at + count <= n; at += count, count *= 2) p.output(p.sum(part(g, at, count)));
}

/// The first of the largest in each window of four has the gradient.
void max_pool(OperatorProgram& p, std::size_t n) {
  const Values x = p.operand(Draw::activation, n / 4 * 4), g = incoming(p, n / 4, n);
  for (std::size_t w = 0; w < g.size(); ++w)
    for (std::size_t i = 0; i < 4; ++i) {
      const Value here = x[4 * w + i];
      Value gradient = g[w];
      if (i < 3) gradient = p.sub(gradient, p.select(p.largest(part(x, 4 * w + i + 1, 3 - i)), here, gradient));
      p.output(i == 0 ? gradient : p.select(here, p.largest(part(x, 4 * w, i)), gradient));
    }
}

/// Windows of `count` values share a gradient.
void average_pool(OperatorProgram& p, std::size_t count, std::size_t n) {
  const Value size = p.constant(static_cast<double>(count));
  for (const Value g : incoming(p, n / 4, n)) p.output(p.div(g, size));
}

/// Nine of ten are kept, and divided by the probability of that.
void dropout(OperatorProgram& p, std::size_t n) {
  const Value scale = reciprocal(p, p.sub(p.constant(1), p.constant(0.1))), none = p.constant(0);
  const Values g = incoming(p, n, n);
  for (std::size_t i = 0; i < n; ++i) p.output(p.mul(g[i], i % 10 == 9 ? none : scale));
}

// clang-format off
constexpr std::array<Operator, 13> all_gradients{{
  {"bce",                 "loss",          "n/4 logits; sigmoid, then -ln p or -ln(1 - p)", bce_apart},
  {"bce-with-logits",     "loss",          "n/4 logits; sigmoid - label",             bce_fused},
  {"softmax-and-nll",     "loss",          "n logits; softmax, then -ln p",           cross_entropy_apart},
  {"cross-entropy",       "loss",          "n logits; softmax - label",               cross_entropy_fused},
  {"layer-norm",          "normalization", "n activations",                           layer_norm},
  {"rms-norm",            "normalization", "n activations",                           rms_norm},
  {"batch-norm",          "normalization", "4 channels of n/4 activations",           batch_norm},
  {"attention",           "product",       "queries, keys and values of 8 tokens, one head of 16 dimensions", attention},
  {"embedding",           "lookup",        "tokens that occur 1, 2, 4, ... times at n positions", embedding},
  {"max-pool",            "pooling",       "n activations, 4 to 1",                   max_pool},
  {"average-pool",        "pooling",       "n/4 windows of 4",                        [](OperatorProgram& p, std::size_t n) { average_pool(p, 4, n); }},
  {"global-average-pool", "pooling",       "n/4 windows of n",                        [](OperatorProgram& p, std::size_t n) { average_pool(p, n, n); }},
  {"dropout",             "pointwise",     "n gradients, nine of ten kept",           dropout},
}};
// clang-format on

}  // namespace

Value bce_gradient_apart(OperatorProgram& p, Value x, bool label, Value weight) {
  const Value y = sigmoid(p, x), rest = p.sub(p.constant(1), y);
  const Value by_probability = label ? negative(p, p.div(weight, y)) : p.div(weight, rest);
  return p.mul(by_probability, p.mul(y, rest));
}

std::span<const Operator> gradient_table() { return all_gradients; }

}  // namespace halfulp::operators
