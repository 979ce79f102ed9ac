#include <halfulp/experiments/operators/functions.hpp>

#include <halfulp/experiments/operators/operators.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <array>
#include <cmath>

namespace halfulp::operators {
namespace {

Value negative(OperatorProgram& p, Value x) { return p.sub(p.constant(0), x); }

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

/// x / sqrt(mean of squares + epsilon) with the squares' mean of `deviations`.
Values divided_by_deviation(OperatorProgram& p, const Values& deviations) {
  const Value squares = p.dot(deviations, deviations);
  const Value variance = p.div(squares, p.constant(static_cast<double>(deviations.size())));
  const Value inverse = reciprocal(p, p.sqrt(p.add(variance, p.constant(norm_epsilon))));
  Values y;
  for (const Value d : deviations) y.push_back(p.mul(d, inverse));
  return y;
}

}  // namespace

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

Values normalize(OperatorProgram& p, const Values& x) {
  const Value mean = p.mean(x);
  Values deviations;
  for (const Value v : x) deviations.push_back(p.sub(v, mean));
  return divided_by_deviation(p, deviations);
}

Values rms_normalize(OperatorProgram& p, const Values& x) { return divided_by_deviation(p, x); }

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

// BCE against BCE-with-logits: what a sigmoid that rounds to 1 makes of a loss.

namespace {

// The loss of logit x with label 0: softplus(x), by probabilities and by logits.
OperatorProgram::Value by_probability(OperatorProgram& p, OperatorProgram::Value x) {
  return bce_term(p, sigmoid(p, x));
}

/// How many of the positive finite logits of a format have a loss that is no finite number.
std::size_t without_loss(const FloatFormat& f,
                         OperatorProgram::Value (*build)(OperatorProgram&, OperatorProgram::Value)) {
  constexpr std::uint64_t block = 1024;
  const std::uint64_t first = f.min_positive(), end = f.max_finite() + 1;
  const auto counts = parallel_map((end - first + block - 1) / block, [&](std::size_t i) {
    Function loss(f, Where::all, build);
    std::size_t count = 0;
    for (std::uint64_t code = first + i * block; code < std::min(end, first + (i + 1) * block); ++code)
      count += !std::isfinite(loss(f.value(code)));
    return count;
  });
  std::size_t total = 0;
  for (const std::size_t c : counts) total += c;
  return total;
}

/// Formats of which every logit is asked: infinite losses are infinite there, and the range holds both saturation and
/// its tail.
bool exhaustive(const FloatFormat& f) {
  const double max = f.value(f.max_finite());
  return f.storage_bits() <= 16 && (f.has_infinity() || f.has_nan()) && f.fraction_bits > 0 && max >= 64 &&
         f.value(f.min_positive()) <= FloatFormat::power_of_two(-f.precision());
}

}  // namespace

void binary_losses(const OperatorSettings& s, Run& run) {
  Table& table = run.report.table(
      "binary_cross_entropy", "The loss of logit x with label 0, ln(1 + e^x), to nearest even",
      {{"format", "", "Format of the logit and of the loss."},
       {"logit", "logit", "The logit x, a value of the format."},
       {"exact", "nat", "The loss of that logit."},
       {"bce", "nat",
        "Loss -ln(1 - sigmoid(x)), every operation in the format: Infinity (NaN where there is none) once the sigmoid "
        "is 1; NaN too where e^-x is beyond a format without Infinity (e4m3 at -8)."},
       {"bce_fp32_inside", "nat",
        "The same with FP32 operations between a logit and a loss in the format: the sigmoid is 1 later."},
       {"bce_after_cast", "nat",
        "FP32 operations, but the probability itself is rounded to the format, as a sigmoid's output in it is."},
       {"with_logits", "nat", "Loss max(x, 0) + ln(1 + e^-|x|), every operation in the format."}});
  for (const FormatChoice& choice : s.formats) {
    const FloatFormat& f = choice.format;
    Function bce(f, Where::all, by_probability), inside(f, Where::tensors, by_probability),
        logits(f, Where::all, softplus);
    Function probability(f, Where::tensors, sigmoid), loss(f, Where::tensors, bce_term);
    for (const double x : {-8.0, -2.0, 0.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0}) {
      const std::uint64_t code = encode(f, {}, x).code;
      if (f.value(code) != x) continue;
      const Real exact = x > 0 ? Real(x + log(Real(1 + exp(Real(-x))))) : Real(log(Real(1 + exp(Real(x)))));
      const auto word = [&](double y) { return emulated(f, encode(f, {}, y).code); };
      table.row({choice.name, x, number(static_cast<double>(exact)), word(bce(x)), word(inside(x)),
                 word(loss(probability(x))), word(logits(x))});
    }
  }
  Json saturated = Json::object(), counted = Json::object(), none = Json::object(), lost = Json::object();
  for (const FormatChoice& choice : s.formats) {
    const FloatFormat& f = choice.format;
    if (!exhaustive(f)) continue;
    const Real from = sigmoid_threshold(f);
    const std::uint64_t first = first_code(f, [&](double x) { return Real(x) >= from; });
    saturated[choice.name] = f.max_finite() + 1 - first;
    counted[choice.name] = without_loss(f, by_probability);
    none[choice.name] = 0;
    lost[choice.name] = without_loss(f, softplus);
  }
  const std::string
      bce = "BCE of a sigmoid in the format has no finite loss at any logit from about p ln 2 on (label 0).",
      reason = "no format here has up to 16 bits, Inf or NaN, and room for logits of 64";
  const std::string logits = "BCE with logits is finite at every finite logit.";
  const std::string derived = "derived: 1 + e^-x is 1, and ln 0 is -Infinity",
                    bounded = "derived: x + ln(1 + e^-x) exceeds x by less than half a unit where x is large";
  if (saturated.empty()) {
    run.report.claim({"bce-loses-logits", bce, derived}, skipped(reason));
    run.report.claim({"bce-with-logits-loses-none", logits, bounded}, skipped(reason));
  } else {
    run.report.claim({"bce-loses-logits", bce, derived}, exactly(saturated, counted, "oracle"));
    run.report.claim({"bce-with-logits-loses-none", logits, bounded}, exactly(none, lost, "oracle"));
  }
}

// Sums and means of ones: where a running sum stagnates, and where it overflows.

namespace {

constexpr int least = 4, most = 16;  // log2 of the numbers of terms

/// Sums, or means, of the first 16, 32, ... ones.
std::vector<double> of_ones(SumOrder order, const Precision& precision, bool mean) {
  OperatorProgram p(order);
  const OperatorProgram::Values x = p.operand(Draw::activation, std::size_t{1} << most);
  OperatorProgram::Value running = x[0];
  for (int k = least; k <= most; ++k) {
    const std::size_t n = std::size_t{1} << k;
    if (order == SumOrder::sequential)
      for (std::size_t i = k == least ? 1 : n / 2; i < n; ++i) running = p.add(running, x[i]);
    else running = p.sum(std::span(x).first(n));
    p.output(mean ? p.div(running, p.constant(static_cast<double>(n))) : running);
  }
  return Evaluator(p, {precision}, {})(std::vector<double>(x.size(), 1.0));
}

/// One at a time, to nearest even: exact up to 2^p, where a further 1 is a tie that goes to the even 2^p. Nothing is
/// said of formats whose largest value is below that.
bool counts(const FloatFormat& f) {
  return f.largest_consecutive_integer() >= FloatFormat::power_of_two(f.precision());
}

}  // namespace

void sums_of_ones(const OperatorSettings& s, Run& run) {
  Table& table = run.report.table(
      "sums", "Sums and means of n ones, to nearest even",
      {{"format", "", "Format of the ones and of the result."},
       {"terms", "term", "Number n of ones."},
       {"sum", "1", "Their sum with every addition in the format, in the order that was asked for."},
       {"fp32_inside", "1", "Their sum in FP32, rounded to the format at the end."},
       {"mean", "1", "The first sum divided by n in the format."},
       {"mean_fp32_inside", "1", "The mean in FP32, rounded to the format at the end."}});
  Json expected = Json::object(), measured = Json::object();
  for (const FormatChoice& choice : s.formats) {
    const FloatFormat& f = choice.format;
    const Precision all = Precision::of(Where::all, f), tensors = Precision::of(Where::tensors, f);
    const auto sum = of_ones(s.order, all, false), wide = of_ones(s.order, tensors, false);
    const auto mean = of_ones(s.order, all, true), wide_mean = of_ones(s.order, tensors, true);
    const auto word = [&](double x) { return emulated(f, encode(f, {}, x).code); };
    for (std::size_t i = 0; i < sum.size(); ++i)
      table.row({choice.name, std::int64_t{1} << (least + static_cast<int>(i)), word(sum[i]), word(wide[i]),
                 word(mean[i]), word(wide_mean[i])});
    if (!counts(f) || f.precision() > most) continue;
    expected[choice.name] = FloatFormat::power_of_two(f.precision());
    measured[choice.name] = number(of_ones(SumOrder::sequential, all, false).back());
  }
  const std::string stagnate = "65536 ones, added one after the other, stop at 2^p: 2048 in fp16, 256 in bf16.",
                    tie = "derived: 2^p + 1 is a tie that goes to the even 2^p";
  run.report.claim({"sums-of-ones-stagnate", stagnate, tie},
                   expected.empty() ? skipped("no format here counts to 2^p with p of at most 16")
                                    : exactly(expected, measured, "oracle"));
  const auto outside = [&](bool mean) {
    return number(of_ones(SumOrder::sequential, Precision::of(Where::tensors, fp16), mean).back());
  };
  run.report.claim(
      {"sum-fp32-inside-fp16", "With FP32 inside, the sum of 65536 ones is Infinity in fp16, while their mean is 1.",
       "derived: 65536 >= 65520"},
      exactly({{"sum", "Infinity"}, {"mean", 1.0}}, {{"sum", outside(false)}, {"mean", outside(true)}}, "oracle"));
}

namespace {

constexpr std::size_t factors = 16;  ///< of a product: more leave the range of FP32 too
constexpr std::size_t head = 64;     ///< dimensions of an attention head
constexpr std::size_t cells = 8;     ///< of a recurrent layer

/// One function of every activation.
template <class F>
void each(OperatorProgram& p, std::size_t n, F&& f, Draw draw = Draw::activation) {
  for (const Value x : p.operand(draw, n)) p.output(f(x));
}

Values part(const Values& x, std::size_t begin, std::size_t count) {
  const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin);
  return Values(first, first + static_cast<std::ptrdiff_t>(count));
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
constexpr std::array<Operator, 36> all_operators{{
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

std::span<const Operator> operator_table() { return all_operators; }

OperatorProgram build(const Operator& op, SumOrder order, std::size_t size) {
  OperatorProgram p(order, op.name);
  op.build(p, size);
  return p;
}

}  // namespace halfulp::operators
