// Losses of logits, and sums of ones: where they saturate and stagnate.
#include <halfulp/experiments/operators/operators.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace halfulp::operators {

// BCE against BCE-with-logits: what a sigmoid that rounds to 1 makes of a loss.

namespace {

// The loss of logit x with label 0: softplus(x), by probabilities and by logits.
OperatorProgram::Value by_probability(OperatorProgram& p, OperatorProgram::Value x) {
  return bce_term(p, sigmoid(p, x));
}

}  // namespace

std::size_t count_logits(const FloatFormat& f, Value (*build)(OperatorProgram&, Value), bool (*counts)(double)) {
  constexpr std::uint64_t block = 1024;
  const std::uint64_t first = f.min_positive(), end = f.max_finite() + 1;
  const auto of_block = parallel_map((end - first + block - 1) / block, [&](std::size_t i) {
    Function function(f, Where::all, build);
    std::size_t count = 0;
    for (std::uint64_t code = first + i * block; code < std::min(end, first + (i + 1) * block); ++code)
      count += counts(function(f.value(code)));
    return count;
  });
  return std::accumulate(of_block.begin(), of_block.end(), std::size_t{0});
}

bool exhaustive(const FloatFormat& f) {
  const double max = f.value(f.max_finite());
  return f.storage_bits() <= 16 && (f.has_infinity() || f.has_nan()) && f.fraction_bits > 0 && max >= 64 &&
         f.value(f.min_positive()) <= FloatFormat::power_of_two(-f.precision());
}

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
  const auto no_number = [](double y) { return !std::isfinite(y); };
  Json saturated = Json::object(), counted = Json::object(), none = Json::object(), lost = Json::object();
  for (const FormatChoice& choice : s.formats) {
    const FloatFormat& f = choice.format;
    if (!exhaustive(f)) continue;
    const Real from = sigmoid_threshold(f);
    const std::uint64_t first = first_code(f, [&](double x) { return Real(x) >= from; });
    saturated[choice.name] = f.max_finite() + 1 - first;
    counted[choice.name] = count_logits(f, by_probability, no_number);
    none[choice.name] = 0;
    lost[choice.name] = count_logits(f, softplus, no_number);
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

}  // namespace halfulp::operators
