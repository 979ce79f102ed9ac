// Gradients of operators: errors of each in each format, and where they vanish, stagnate or are no numbers.
#include <halfulp/experiments/operators/operators.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

namespace halfulp::operators {
namespace {

constexpr std::size_t samples_of_gradients = 1;  // further ones say the same

/// A format and what is in it.
struct Candidate {
  std::string format = "fp32";
  FloatFormat f = fp32;
  Backward how = Backward::fp32;
};

std::vector<Candidate> gradient_candidates(const OperatorSettings& s) {
  std::vector<Candidate> all{{}};
  for (const FormatChoice& choice : s.formats) {
    if (choice.format == fp32) continue;
    for (const Backward how : {Backward::all, Backward::fp32_sums}) all.push_back({choice.name, choice.format, how});
  }
  return all;
}

std::vector<OperatorErrors> measure(const OperatorProgram& p, const std::vector<Candidate>& all,
                                    const OperatorSettings& s, double scale, std::uint64_t sample) {
  const std::vector<double> inputs = draw_inputs(p, scale, s.seed, sample);
  const std::vector<ExactOutput> exact = compared_outputs(p, inputs);
  std::vector<OperatorErrors> errors(all.size());
  for (std::size_t c = 0; c < all.size(); ++c) {
    const std::vector<double> results = Evaluator(p, precisions(p, all[c].how, all[c].f), s.rounding)(inputs);
    for (std::size_t o = 0; o < results.size(); ++o) errors[c].add(results[o], exact[o]);
  }
  return errors;
}

/// Errors of gradients in unit roundoffs at scale 1, by operator and 16-bit format: all in the format, and with sums in
/// FP32.
using GradientErrors = std::map<std::string, std::map<std::string, std::pair<double, double>>>;

/// What FP32 sums do for gradients that are sums, and that dropout's are none.
void claim_gradients(const GradientErrors& errors, Report& report) {
  const std::string none = "scales does not contain 1, or no format here has 8 to 23 bits of precision";
  const Basis cancels{"oracle", Verdict::differs, "errors of opposite sign cancel at random, and sums are not all"};
  const char* const source =
      "derived: n terms added one after the other err by up to (n - 1) u, Higham 2002, section 4.2; added in FP32 by "
      "hardly more than the last rounding";
  const struct {
    const char *operation, *words;
    double part;
  } summed[] = {{"layer-norm", "at least halves", 0.5},
                {"rms-norm", "at least halves", 0.5},
                {"batch-norm", "at least halves", 0.5},
                {"softmax-and-nll", "does not add to", 1},
                {"attention", "does not add to", 1}};
  for (const auto& row : summed)
    report.claim({fmt::format("{}-gradient-sums", row.operation),
                  fmt::format("Adding in FP32 {} the error of the gradient of {} in 16 bits: error over that without, "
                              "at most, for activations of N(0, 1).",
                              row.words, row.operation),
                  source},
                 errors.empty() ? none : "", [&] {
                   double worst = 0;
                   for (const auto& [format, e] : errors.at(row.operation)) worst = std::max(worst, e.second / e.first);
                   return at_most(row.part, worst, cancels);
                 });
  report.claim({"dropout-gradient-rounds-thrice",
                "Dropout's gradient is off by at most three roundings: of what comes in, of 1/0.9 and of the product.",
                "derived: (1 + u)^3 - 1"},
               errors.empty() ? none : "", [&] {
                 double worst = 0;
                 for (const auto& [format, e] : errors.at("dropout")) worst = std::max(worst, e.first);
                 return at_most(3.1, worst,
                                {"oracle", Verdict::differs, "gradients near the format's smallest numbers"});
               });
}

void errors_table(const OperatorSettings& s, Run& run) {
  Report& report = run.report;
  Table& table = report.table(
      "backward", fmt::format("Errors of gradients against exact gradients for the same FP32 inputs (n = {})", s.size),
      {{"format", "", "The low-precision format; fp32 rows have none."},
       {"how", "",
        "What is in the format: all (tensors and every operation), fp32-sums (all but the additions of sums and dot "
        "products, which are FP32), fp32 (nothing)."},
       {"operator", "", "The operator whose gradient for its inputs is computed."},
       {"family", "", "Its kind."},
       {"shape", "",
        "What is differentiated; n is the parameter size. Losses are means over n; gradients that come in are "
        "N(0, 1/n^2)."},
       {"scale", "1", "Standard deviation of activations and logits."},
       {"error", "1",
        "Root of the sum of squared differences over that of squared exact gradients; Infinity if one is not finite."},
       {"error_u", "1", "The same in unit roundoffs 2^-p of the format (of fp32 in its own)."},
       {"outputs", "output", "Gradients computed."},
       {"non_finite", "output", "Of these, Infinity or NaN."},
       {"vanished", "1", "Share of the gradients that are 0 here though the exact ones, with 113 bits, are not."}});
  const std::vector<Candidate> all = gradient_candidates(s);
  const auto operators = gradient_table();
  std::vector<OperatorProgram> programs;
  std::vector<std::string_view> names;
  for (const Operator& op : operators)
    programs.push_back(build_gradient(op, s.order, s.size)), names.push_back(op.name);
  const std::size_t samples = std::min(s.samples, samples_of_gradients), of_operator = s.scales.size() * samples;
  const auto errors = trials<CandidateErrors>(
      run, {"operator_gradients", 1}, sample_trials(s, names, samples), 0.8, 0.84, [&](std::size_t i, Trace&) {
        return CandidateErrors{
            measure(programs[i / of_operator], all, s, s.scales[i % of_operator / samples], i % samples)};
      });
  GradientErrors at_one;
  for (std::size_t c = 0; c < all.size(); ++c)
    for (std::size_t i = 0; i < operators.size(); ++i)
      for (std::size_t k = 0; k < s.scales.size(); ++k) {
        OperatorErrors e;
        for (std::size_t m = 0; m < samples; ++m) e.merge(errors[i * of_operator + k * samples + m].errors[c]);
        const int precision = all[c].f.precision();
        const double error_u = e.relative() / FloatFormat::power_of_two(-precision);
        table.row({all[c].format, name_in(backwards, all[c].how), operators[i].name, operators[i].family,
                   operators[i].shape, s.scales[k], number(e.relative()), number(error_u), e.outputs, e.non_finite,
                   share(e.vanished, e.outputs)});
        if (s.scales[k] != 1 || precision < 8 || precision > 23) continue;
        auto& [narrow, summed] = at_one[std::string(operators[i].name)][all[c].format];
        (all[c].how == Backward::all ? narrow : summed) = error_u;
      }
  claim_gradients(at_one, report);
}

// The gradient of an embedding: a token's row receives the sum of the gradients of all its positions.

constexpr int log2_positions = 12;  // of a token
constexpr double one_gradient = 0x1p-4;
constexpr std::size_t dimensions = 8;

/// Sums of the first 1, 2, 4, ... numbers, one after the other.
OperatorProgram running_sums() {
  OperatorProgram p(SumOrder::sequential);
  const Values x = p.operand(Draw::positive, std::size_t{1} << log2_positions);
  Value running = x[0];
  p.output(running);
  for (int k = 0; k < log2_positions; ++k) {
    const std::size_t n = std::size_t{1} << k;
    for (std::size_t i = n; i < 2 * n; ++i) running = p.add(running, x[i]);
    p.output(running);
  }
  return p;
}

/// Formats that hold all sums of equal gradients, and whose running sum stagnates at 2^p of them.
bool stagnates(const FloatFormat& f) {
  return f.value(f.max_finite()) >= std::ldexp(one_gradient, log2_positions) && f.precision() < log2_positions &&
         f.fraction_bits > 0 && f.value(f.min_positive()) <= one_gradient;
}

void repeated_tokens(const OperatorSettings& s, Run& run) {
  Table& table = run.report.table(
      "repeated_tokens",
      "The gradient of an embedding's row, added up over the positions of its token one after the other, to nearest "
      "even",
      {{"format", "", "Format of the gradients and of their sum."},
       {"positions", "token", "How often the token occurs."},
       {"equal", "1", "Sum of as many gradients of 2^-4, in multiples of one; every addition in the format."},
       {"equal_fp32_sums", "1", "The same added in FP32 and rounded to the format at the end."},
       {"error", "1",
        "Of magnitudes of N(0, 2^-8), rounded to the format: root of the sum of squared differences from exact sums "
        "over that of squared exact sums, in 8 dimensions; Infinity if one is not finite."},
       {"error_fp32_sums", "1", "The same added in FP32."}});
  Json expected = Json::object(), measured = Json::object(), exactly_all = Json::object(), all_there = Json::object();
  double worst = 0;
  const OperatorProgram p = running_sums();
  for (const FormatChoice& choice : s.formats) {
    const FloatFormat& f = choice.format;
    Evaluator narrow(p, {Precision::of(Where::all, f)}, {}), wide(p, {Precision::of(Where::tensors, f)}, {});
    const std::vector<double> equal(p.inputs(), one_gradient), sums = narrow(equal), wide_sums = wide(equal);
    std::vector<OperatorErrors> errors(log2_positions + 1), wide_errors(log2_positions + 1);
    for (std::size_t d = 0; d < dimensions; ++d) {
      std::vector<double> inputs = draw_inputs(p, one_gradient, s.seed, d);
      for (double& x : inputs) x = f.value(encode(f, {}, x).code);
      const std::vector<Real> exact = exact_outputs(p, inputs);
      const std::vector<double> y = narrow(inputs), z = wide(inputs);
      for (std::size_t k = 0; k <= log2_positions; ++k) {
        errors[k].add(y[k], exact[k]), wide_errors[k].add(z[k], exact[k]);
        const double bound = (1 + FloatFormat::power_of_two(-f.precision())) *
                                 (1 + std::ldexp(1.0, static_cast<int>(k) - 24)) -
                             1;
        if (std::isfinite(z[k]) && abs(exact[k]) >= f.value(f.min_normal()) && abs(exact[k]) <= f.value(f.max_finite()))
          worst = std::max(worst, static_cast<double>(Real(abs(Real(z[k] - exact[k])) / exact[k])) / bound);
      }
    }
    for (std::size_t k = 0; k <= log2_positions; ++k)
      table.row({choice.name, std::int64_t{1} << k, number(sums[k] / one_gradient), number(wide_sums[k] / one_gradient),
                 number(errors[k].relative()), number(wide_errors[k].relative())});
    if (!stagnates(f)) continue;
    expected[choice.name] = FloatFormat::power_of_two(f.precision());
    measured[choice.name] = number(sums.back() / one_gradient);
    exactly_all[choice.name] = FloatFormat::power_of_two(log2_positions);
    all_there[choice.name] = number(wide_sums.back() / one_gradient);
  }
  const std::string none = "no format here has fewer than 12 bits of precision and holds 256";
  const auto judge = [&](const Json& of, const Json& found) {
    return of.empty() ? skipped(none) : exactly(of, found, "oracle");
  };
  run.report.claim({"repeated-tokens-stagnate",
                    "The sum of 4096 equal gradients of a token stops at 2^p of them: 256 in bf16, 2048 in fp16.",
                    "derived: 2^p + 1 is a tie that goes to the even 2^p"},
                   judge(expected, measured));
  run.report.claim({"repeated-tokens-in-fp32", "Added in FP32, all 4096 of them are there.",
                    "derived: 4096 is a number of FP32 and of the format"},
                   judge(exactly_all, all_there));
  run.report.claim({"repeated-tokens-one-rounding",
                    "Sums of positive gradients added in FP32 are off by one rounding and FP32's n 2^-24: error over "
                    "(1 + u)(1 + n 2^-24) - 1, at most.",
                    "derived: Higham 2002, section 4.2, and one rounding"},
                   at_most(1, worst, "oracle"));
}

// Single gradients: of binary cross-entropy at every positive logit of a format, and of an average.

Value apart_zero(OperatorProgram& p, Value x) { return bce_gradient_apart(p, x, false, p.constant(1)); }
Value apart_one(OperatorProgram& p, Value x) { return bce_gradient_apart(p, x, true, p.constant(1)); }

/// Largest error of the fused gradient for label 0, a sigmoid, where that is not yet 1 for good: over the bound of
/// three roundings, of which e^-x counts at most half.
double worst_sigmoid(const FloatFormat& f) {
  const double u = FloatFormat::power_of_two(-f.precision()), bound = (1 + u) / ((1 - u / 2) * (1 - u)) - 1;
  const double last = 2 * static_cast<double>(sigmoid_threshold(f));
  Function fused(f, Where::all, sigmoid);
  double worst = 0;
  for (std::uint64_t code = encode(f, {}, 0x1p-4).code; f.value(code) <= last; ++code) {
    const double x = f.value(code);
    const Real exact = 1 / Real(1 + real_function(ElementaryOperation::exp, Real(-x)));
    worst = std::max(worst, static_cast<double>(Real(abs(Real(fused(x) - exact)) / exact)) / bound);
  }
  return worst;
}

void binary_gradients(const OperatorSettings& s, Run& run) {
  Json expected = Json::object(), measured = Json::object();
  double worst = 0;
  for (const FormatChoice& choice : s.formats) {
    const FloatFormat& f = choice.format;
    if (!exhaustive(f)) continue;
    const Real from = sigmoid_threshold(f);
    const std::uint64_t saturated = f.max_finite() + 1 - first_code(f, [&](double x) { return Real(x) >= from; });
    expected[choice.name] = {{"NaN with label 0", saturated}, {"0 with label 1", saturated}};
    measured[choice.name] = {{"NaN with label 0", count_logits(f, apart_zero, [](double y) { return std::isnan(y); })},
                             {"0 with label 1", count_logits(f, apart_one, [](double y) { return y == 0; })}};
    worst = std::max(worst, worst_sigmoid(f));
  }
  const std::string reason = "no format here has up to 16 bits, Inf or NaN, and room for logits of 64";
  const auto claim = [&](Assertion assertion, const auto& judge) {
    run.report.claim(std::move(assertion), expected.empty() ? skipped(reason) : judge());
  };
  claim(
      {"bce-apart-loses-gradients",
       "By the chain rule through the probability, BCE's gradient is NaN (label 0) or 0 (label 1) at every logit whose "
       "sigmoid is 1, and at no other positive one.",
       "derived: 1 / (1 - 1) is Infinity, times 1 - 1 is NaN"},
      [&] { return exactly(expected, measured, "oracle"); });
  claim({"bce-with-logits-keeps-gradients",
         "The gradient sigmoid(x) - label is right for label 0 at every logit: error over (1 + u)/((1 - u/2)(1 - u)) - "
         "1, at most.",
         "derived: e^-x / (1 + e^-x) is at most 1/2 of the rounding of e^-x; then a sum and a quotient"},
        [&] { return at_most(1, worst, "oracle"); });
}

constexpr int window = 64;

/// Whether the format has a window's size and the largest gradient that vanishes in it.
bool averages(const FloatFormat& f) {
  return f.value(f.max_finite()) >= window && f.fraction_bits > 0 && f.value(f.min_positive()) < 1;
}

void averaged_gradients(const OperatorSettings& s, Run& run) {
  Json expected = Json::object(), measured = Json::object();
  for (const FormatChoice& choice : s.formats) {
    const FloatFormat& f = choice.format;
    if (!averages(f)) continue;
    Function shared(f, Where::all, [](OperatorProgram& p, Value g) { return p.div(g, p.constant(window)); });
    expected[choice.name] = window / 2 * f.value(f.min_positive());
    measured[choice.name] = f.value(first_code(f, [&](double g) { return shared(g) != 0; }) - 1);
  }
  run.report.claim(
      {"average-pool-underflows",
       "Of gradients shared by 64 values, the largest that becomes 0 is 32 times the smallest positive "
       "number: 2^-19 in fp16.",
       "derived: half the smallest number is a tie that goes to 0"},
      expected.empty() ? skipped("no format here has 64 and numbers below 1") : exactly(expected, measured, "oracle"));
}

}  // namespace

std::vector<Precision> precisions(const OperatorProgram& p, Backward how, const FloatFormat& f) {
  std::vector<Precision> stages;
  for (const std::string& stage : p.stages()) {
    const bool wide = how == Backward::fp32_sums && stage == OperatorProgram::accumulation;
    stages.push_back(Precision::of(how == Backward::fp32 ? Where::fp32 : wide ? Where::tensors : Where::all, f));
  }
  return stages;
}

OperatorProgram build_gradient(const Operator& op, SumOrder order, std::size_t size) {
  OperatorProgram p(order, op.name);
  p.accumulate_apart();
  op.build(p, size);
  return p;
}

void backward_report(const OperatorSettings& s, Run& run) {
  errors_table(s, run);
  repeated_tokens(s, run);
  binary_gradients(s, run);
  averaged_gradients(s, run);
}

}  // namespace halfulp::operators
