// What PyTorch's FP32 list has besides the operators of networks: functions, distances and losses, as PyTorch's
// documentation writes them.
#include <halfulp/experiments/operators/functions.hpp>

#include <array>

namespace halfulp::operators {
namespace {

Values activations(OperatorProgram& p, std::size_t n) { return p.operand(Draw::activation, n); }

/// A function of n/16 numbers.
template <ElementaryOperation step, Draw draw>
void function_of(OperatorProgram& p, std::size_t n) {
  for (const Value x : p.operand(draw, n / 16)) p.output(p.function(step, x));
}

template <class F>
void each_of_few(OperatorProgram& p, std::size_t n, Draw draw, F&& f) {
  for (const Value x : p.operand(draw, n / 16)) p.output(f(x));
}

/// The mean of a term of each place.
template <class F>
void mean_loss(OperatorProgram& p, std::size_t count, F&& term) {
  Values terms;
  for (std::size_t i = 0; i < count; ++i) terms.push_back(term(i));
  p.output(p.mean(terms));
}

Value magnitude(OperatorProgram& p, Value x) { return p.max(x, negative(p, x)); }

Values differences(OperatorProgram& p, const Values& x, const Values& y) {
  Values d;
  for (std::size_t i = 0; i < x.size(); ++i) d.push_back(p.sub(x[i], y[i]));
  return d;
}

/// Of activations and as many targets.
Values deviations(OperatorProgram& p, std::size_t count) {
  const Values x = activations(p, count), t = activations(p, count);
  return differences(p, x, t);
}

Value distance(OperatorProgram& p, const Values& x, const Values& y) { return norm(p, differences(p, x, y)); }

/// x . y by the norms of both, each at least 1e-8.
Value cosine(OperatorProgram& p, const Values& x, const Values& y) {
  const Value least = p.constant(1e-8);
  return p.div(p.dot(x, y), p.mul(p.max(norm(p, x), least), p.max(norm(p, y), least)));
}

/// Of label 1 in the first half of the places, -1 in the second.
Value signed_by_label(OperatorProgram& p, Value x, std::size_t i, std::size_t count) {
  return i < count / 2 ? x : negative(p, x);
}

/// max(0, x).
Value hinge(OperatorProgram& p, Value x) { return p.max(p.constant(0), x); }

/// Running sums or products.
template <class F>
void running(OperatorProgram& p, const Values& x, F&& step) {
  Value y = x[0];
  p.output(y);
  for (std::size_t i = 1; i < x.size(); ++i) p.output(y = step(y, x[i]));
}

void group_norm(OperatorProgram& p, std::size_t n) {
  const Values x = activations(p, n / 8 * 8);
  for (std::size_t g = 0; g < 8; ++g) p.output(normalize(p, part(x, g * (n / 8), n / 8)));
}

void normalize_row(OperatorProgram& p, std::size_t n) {
  const Values x = activations(p, n / 4);
  const Value length = p.max(norm(p, x), p.constant(1e-12));
  for (const Value v : x) p.output(p.div(v, length));
}

/// Rows longer than 1 are scaled to length 1.
void renorm(OperatorProgram& p, std::size_t n) {
  for (int row = 0; row < 4; ++row) {
    const Values x = activations(p, n / 16);
    const Value length = norm(p, x), one = p.constant(1), longer = p.select(length, one, one);
    const Value scale = p.select(length, one, p.div(one, p.add(length, p.constant(1e-7))));
    const Value factor = p.add(scale, p.sub(one, longer));
    for (const Value v : x) p.output(p.mul(v, factor));
  }
}

void cosine_embedding_loss(OperatorProgram& p, std::size_t n) {
  mean_loss(p, 8, [&](std::size_t i) {
    const Values x = activations(p, n / 16), y = activations(p, n / 16);
    const Value c = cosine(p, x, y);
    return i < 4 ? p.sub(p.constant(1), c) : hinge(p, c);
  });
}

void cdist(OperatorProgram& p, std::size_t n) {
  std::array<Values, 8> rows;
  for (Values& row : rows) row = activations(p, n / 16);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 4; j < 8; ++j) p.output(distance(p, rows[i], rows[j]));
}

void pdist(OperatorProgram& p, std::size_t n) {
  std::array<Values, 4> rows;
  for (Values& row : rows) row = activations(p, n / 16);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = i + 1; j < 4; ++j) p.output(distance(p, rows[i], rows[j]));
}

/// t (ln t - x), 0 where t is 0.
void kl_div(OperatorProgram& p, std::size_t n) {
  const Values x = activations(p, n / 16), t = p.operand(Draw::probability, n / 16);
  const Value zero = p.constant(0);
  mean_loss(p, x.size(), [&](std::size_t i) { return p.select(t[i], zero, p.mul(t[i], p.sub(p.log(t[i]), x[i]))); });
}

void l1_loss(OperatorProgram& p, std::size_t n) {
  const Values d = deviations(p, n / 4);
  mean_loss(p, d.size(), [&](std::size_t i) { return magnitude(p, d[i]); });
}

/// d^2 / 2 where |d| < 1, |d| - 1/2 elsewhere.
void smooth_l1_loss(OperatorProgram& p, std::size_t n) {
  const Values d = deviations(p, n / 4);
  const Value one = p.constant(1), half = p.constant(0.5);
  mean_loss(p, d.size(), [&](std::size_t i) {
    const Value far = magnitude(p, d[i]), near = p.min(far, one);
    return p.add(p.mul(half, p.mul(near, near)), p.sub(far, near));
  });
}

void hinge_embedding_loss(OperatorProgram& p, std::size_t n) {
  const Values x = activations(p, n / 4);
  mean_loss(p, x.size(), [&](std::size_t i) { return i < x.size() / 2 ? x[i] : hinge(p, p.sub(p.constant(1), x[i])); });
}

void margin_ranking_loss(OperatorProgram& p, std::size_t n) {
  const Values d = deviations(p, n / 4);
  mean_loss(p, d.size(), [&](std::size_t i) { return hinge(p, negative(p, signed_by_label(p, d[i], i, d.size()))); });
}

/// Sum over labels j and all other i of max(0, 1 - x_j + x_i), by the number of classes; the first `labels` are labels.
void margin_loss(OperatorProgram& p, const Values& x, std::size_t labels) {
  Values terms;
  for (std::size_t j = 0; j < labels; ++j)
    for (std::size_t i = labels; i < x.size(); ++i) terms.push_back(hinge(p, p.add(p.sub(p.constant(1), x[j]), x[i])));
  p.output(p.div(p.sum(terms), p.constant(static_cast<double>(x.size()))));
}

void nll_loss(OperatorProgram& p, std::size_t n) {
  const Values x = p.operand(Draw::positive, n / 4);
  mean_loss(p, x.size(), [&](std::size_t i) { return negative(p, x[i]); });
}

void poisson_nll_loss(OperatorProgram& p, std::size_t n) {
  const Values x = activations(p, n / 16), t = p.operand(Draw::positive, n / 16);
  mean_loss(p, x.size(), [&](std::size_t i) { return p.sub(p.exp(x[i]), p.mul(t[i], x[i])); });
}

void soft_margin_loss(OperatorProgram& p, std::size_t n) {
  const Values x = activations(p, n / 16);
  mean_loss(p, x.size(),
            [&](std::size_t i) { return p.log1p(p.exp(negative(p, signed_by_label(p, x[i], i, x.size())))); });
}

/// max(0, |a - b| - |a - c| + 1), 1e-6 added to every difference.
void triplet_margin_loss(OperatorProgram& p, std::size_t n) {
  const Values a = activations(p, n / 4), b = activations(p, n / 4), c = activations(p, n / 4);
  const Value little = p.constant(1e-6);
  const auto far = [&](const Values& other) {
    Values d = differences(p, a, other);
    for (Value& v : d) v = p.add(v, little);
    return norm(p, d);
  };
  const Value near = far(b);
  p.output(hinge(p, p.add(p.sub(near, far(c)), p.constant(1))));
}

// clang-format off
constexpr std::array<Operator, 35> further{{
  {"rdiv",                   "exp, log, pow", "n/16 magnitudes of activations, 3/x", [](OperatorProgram& p, std::size_t n) { each_of_few(p, n, Draw::positive, [&](Value x) { return p.div(p.constant(3), x); }); }},
  {"rpow",                   "exp, log, pow", "n/16 activations, 2^x",     [](OperatorProgram& p, std::size_t n) { each_of_few(p, n, Draw::activation, [&](Value x) { return p.pow(p.constant(2), x); }); }},
  {"acos",                   "trigonometry",  "n/16 probabilities",        function_of<ElementaryOperation::acos, Draw::binary_probability>},
  {"asin",                   "trigonometry",  "n/16 probabilities",        function_of<ElementaryOperation::asin, Draw::binary_probability>},
  {"tan",                    "trigonometry",  "n/16 activations",          function_of<ElementaryOperation::tan, Draw::activation>},
  {"cosh",                   "exp, log, pow", "n/16 activations",          function_of<ElementaryOperation::cosh, Draw::activation>},
  {"sinh",                   "exp, log, pow", "n/16 activations",          function_of<ElementaryOperation::sinh, Draw::activation>},
  {"erfinv",                 "exp, log, pow", "n/16 probabilities",        function_of<ElementaryOperation::erfinv, Draw::binary_probability>},
  {"expm1",                  "exp, log, pow", "n/16 activations",          function_of<ElementaryOperation::expm1, Draw::activation>},
  {"log10",                  "exp, log, pow", "n/16 magnitudes of activations", function_of<ElementaryOperation::log10, Draw::positive>},
  {"log1p",                  "exp, log, pow", "n/16 magnitudes of activations", function_of<ElementaryOperation::log1p, Draw::positive>},
  {"log2",                   "exp, log, pow", "n/16 magnitudes of activations", function_of<ElementaryOperation::log2, Draw::positive>},
  {"softplus",               "exp, log, pow", "n/16 activations",          [](OperatorProgram& p, std::size_t n) { each_of_few(p, n, Draw::activation, [&](Value x) { return softplus(p, x); }); }},
  {"softmin",                "softmax",       "n/4 activations",           [](OperatorProgram& p, std::size_t n) { Values x = activations(p, n / 4); for (Value& v : x) v = negative(p, v); p.output(softmax(p, x)); }},
  {"cumsum",                 "reduction",     "n/4 activations, one after the other", [](OperatorProgram& p, std::size_t n) { running(p, activations(p, n / 4), [&](Value a, Value b) { return p.add(a, b); }); }},
  {"cumprod",                "reduction",     "16 activations, one after the other", [](OperatorProgram& p, std::size_t) { running(p, activations(p, 16), [&](Value a, Value b) { return p.mul(a, b); }); }},
  {"group-norm",             "normalization", "8 groups of n/8 activations", group_norm},
  {"normalize",              "normalization", "n/4 activations by their norm", normalize_row},
  {"renorm",                 "normalization", "4 rows of n/16 activations, to length 1", renorm},
  {"cosine-similarity",      "distance",      "two rows of n/4 activations", [](OperatorProgram& p, std::size_t n) { const Values x = activations(p, n / 4); p.output(cosine(p, x, activations(p, n / 4))); }},
  {"dist",                   "distance",      "two rows of n/4 activations", [](OperatorProgram& p, std::size_t n) { const Values x = activations(p, n / 4); p.output(distance(p, x, activations(p, n / 4))); }},
  {"cdist",                  "distance",      "4 by 4 rows of n/16 activations", cdist},
  {"pdist",                  "distance",      "4 rows of n/16 activations", pdist},
  {"cosine-embedding-loss",  "loss",          "8 pairs of n/16 activations to 1", cosine_embedding_loss},
  {"hinge-embedding-loss",   "loss",          "n/4 distances to 1",        hinge_embedding_loss},
  {"kl-div",                 "loss",          "n/16 log-probabilities and probabilities to 1", kl_div},
  {"l1-loss",                "loss",          "n/4 activations and targets to 1", l1_loss},
  {"smooth-l1-loss",         "loss",          "n/4 activations and targets to 1", smooth_l1_loss},
  {"margin-ranking-loss",    "loss",          "n/4 pairs to 1",            margin_ranking_loss},
  {"multi-margin-loss",      "loss",          "n/4 classes to 1",          [](OperatorProgram& p, std::size_t n) { margin_loss(p, activations(p, n / 4), 1); }},
  {"multilabel-margin-loss", "loss",          "n/8 classes, 2 labels, to 1", [](OperatorProgram& p, std::size_t n) { margin_loss(p, activations(p, n / 8), 2); }},
  {"nll-loss",               "loss",          "n/4 log-probabilities to 1", nll_loss},
  {"poisson-nll-loss",       "loss",          "n/16 log-rates and targets to 1", poisson_nll_loss},
  {"soft-margin-loss",       "loss",          "n/16 activations to 1, no maximum subtracted", soft_margin_loss},
  {"triplet-margin-loss",    "loss",          "three rows of n/4 activations to 1", triplet_margin_loss},
}};
// clang-format on

}  // namespace

std::span<const Operator> listed_only() { return further; }

}  // namespace halfulp::operators
