// The operators of networks in elementary operations, as their defining papers and PyTorch's documentation write them.
#pragma once

#include <halfulp/experiments/operators/program.hpp>

namespace halfulp::operators {

using Value = OperatorProgram::Value;
using Values = OperatorProgram::Values;

/// Added to variances, as PyTorch's layer_norm and batch_norm have it by default.
inline constexpr double norm_epsilon = 1e-5;

Value relu(OperatorProgram& p, Value x);
/// x Phi(x) by erf (Hendrycks & Gimpel 2016).
Value gelu(OperatorProgram& p, Value x);
/// 1 / (1 + e^-x).
Value sigmoid(OperatorProgram& p, Value x);
Value reciprocal(OperatorProgram& p, Value x);

/// e^(x - max x) / sum; `shifted` false: without the maximum.
Values softmax(OperatorProgram& p, const Values& x, bool shifted = true);
/// x - max x - ln sum e^(x - max x).
Values log_softmax(OperatorProgram& p, const Values& x);
/// -log_softmax of the first.
Value cross_entropy_of_first(OperatorProgram& p, const Values& x);
/// The mean over probabilities p of -ln p (label 1, the first half) and -ln(1 - p) (label 0). No clamp, which PyTorch
/// has at 100.
Value bce(OperatorProgram& p, const Values& probabilities);
/// The same of logits: max(z, 0) + ln(1 + e^-|z|), z = -x for label 1 and x for label 0.
Value bce_with_logits(OperatorProgram& p, const Values& logits);
/// One term of each: label 0.
Value bce_term(OperatorProgram& p, Value probability);
Value softplus(OperatorProgram& p, Value z);
/// Mean of (x - t)^2.
Value mse(OperatorProgram& p, const Values& x, const Values& t);

/// x / sqrt(mean of squares + epsilon), of x or of its deviations from its mean, and 1 / sqrt(...).
struct Normalized {
  Values values;
  Value inverse;
};
Normalized normalized(OperatorProgram& p, const Values& x, bool centred);
/// (x - mean) / sqrt(mean of squared deviations + epsilon), two passes (Ba, Kiros & Hinton 2016), without gain and
/// bias.
Values normalize(OperatorProgram& p, const Values& x);
/// x / sqrt(mean of squares + epsilon) (Zhang & Sennrich 2019).
Values rms_normalize(OperatorProgram& p, const Values& x);
/// Euclidean norm.
Value norm(OperatorProgram& p, const Values& x);

/// y = W x, `rows` rows of W. fan_in is x's length.
Values linear(OperatorProgram& p, const Values& x, std::size_t rows);

/// h' = tanh(W x + U h).
Values rnn_cell(OperatorProgram& p, const Values& x, const Values& h);
/// Hochreiter & Schmidhuber 1997 with forget gate: h' and c'. No biases.
Values lstm_cell(OperatorProgram& p, const Values& x, const Values& h, const Values& c);

/// x[begin], ..., x[begin + count - 1].
Values part(const Values& x, std::size_t begin, std::size_t count);
/// 0 - x.
Value negative(OperatorProgram& p, Value x);

// The operators that the experiment looks at.

struct Operator {
  std::string_view name;  ///< that of training/site.hpp where it is the same operator
  std::string_view family;
  std::string_view shape;                            ///< what goes in and comes out, n being the parameter `size`
  void (*build)(OperatorProgram& p, std::size_t n);  ///< operands and outputs of one sample; n >= 64
};

/// The operators of networks, then listed_only().
std::span<const Operator> operator_table();
/// Those that PyTorch's FP32 list has besides.
std::span<const Operator> listed_only();

/// The gradient of `weight` times -ln y (label 1) or -ln(1 - y) for x, y = sigmoid(x), by the chain rule: that for y,
/// times y (1 - y).
Value bce_gradient_apart(OperatorProgram& p, Value x, bool label, Value weight);

/// The gradients of operators for their inputs; what comes in from later operators is N(0, 1/n^2), as behind a mean of
/// n losses.
std::span<const Operator> gradient_table();

/// One sample of an operator. size: n, at least 64.
OperatorProgram build(const Operator& op, SumOrder order, std::size_t size);

}  // namespace halfulp::operators
