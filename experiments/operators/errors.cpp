#include <halfulp/data/distributions.hpp>
#include <halfulp/data/elementary.hpp>
#include <halfulp/experiments/operators/operators.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace halfulp::operators {
namespace {

/// e^(x - max x) and their sum.
std::vector<double> powers(const std::vector<double>& x, double& sum) {
  const double most = *std::max_element(x.begin(), x.end());
  std::vector<double> y;
  sum = 0;
  for (const double v : x) sum += y.emplace_back(smooth_exp(v - most));
  return y;
}

}  // namespace

std::vector<double> draw_inputs(const OperatorProgram& p, double scale, std::uint64_t seed, std::uint64_t sample) {
  std::vector<double> inputs;
  for (std::size_t k = 0; k < p.operands().size(); ++k) {
    const ProgramOperand& operand = p.operands()[k];
    const std::uint64_t stream = sample << 12 | k << 1;  // the lower bit: labels
    const double deviation = operand.draw == Draw::weight ? 1 / std::sqrt(static_cast<double>(operand.fan_in)) : scale;
    std::vector<double> x(operand.count);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = deviation * normal_sample(seed, stream, i);

    switch (operand.draw) {
      case Draw::activation:
      case Draw::weight: break;
      case Draw::positive:
        for (double& v : x) v = std::fabs(v);
        break;
      case Draw::probability: {
        double sum = 0;
        x = powers(x, sum);
        for (double& v : x) v /= sum;
        break;
      }
      case Draw::label_logits: {
        if (sample % 2 == 1) break;  // any label: the first is as good as another
        double sum = 0;
        const std::vector<double> e = powers(x, sum);
        double rest = uniform_sample(seed, stream + 1, 0) * sum;
        std::size_t label = 0;
        while (label + 1 < e.size() && (rest -= e[label]) > 0) ++label;
        std::swap(x[0], x[label]);
        break;
      }
      case Draw::binary_logits:
      case Draw::binary_probability:
        // (x, 1) is as likely as (-x, 0): a pair with the other label becomes its mirror. Every eighth is left as it
        // is: no model is right always, and a confident wrong prediction is the one whose loss overflows.
        for (std::size_t i = 0; i < x.size(); ++i) {
          const bool one = uniform_sample(seed, stream + 1, i) < smooth_sigmoid(x[i]), wanted = i < x.size() / 2;
          if (i % 8 != 7 && one != wanted) x[i] = -x[i];
          if (operand.draw == Draw::binary_probability) x[i] = std::clamp(smooth_sigmoid(x[i]), 0x1p-126, 1 - 0x1p-24);
        }
        break;
    }
    for (const double v : x) inputs.push_back(static_cast<float>(v));
  }
  return inputs;
}

namespace {

CandidateErrors measure(const OperatorProgram& p, const std::vector<CandidateFormat>& all, const OperatorSettings& s,
                        double scale, std::uint64_t sample, Trace* trace) {
  CandidateErrors piece{std::vector<OperatorErrors>(all.size())};
  const std::vector<double> inputs = draw_inputs(p, scale, s.seed, sample);
  const std::vector<ExactOutput> exact = compared_outputs(p, inputs);
  std::vector<double> wide;
  for (std::size_t c = 0; c < all.size(); ++c) {
    Evaluator evaluate(p, {Precision::of(all[c].where, all[c].f)}, s.rounding, trace);
    const std::vector<double> results = evaluate(inputs);
    if (c == 0) wide = results;
    for (std::size_t o = 0; o < results.size(); ++o) {
      if (std::isfinite(wide[o])) piece.errors[c].add(results[o], exact[o]);
      else ++piece.errors[c].beyond;
    }
    if (piece.errors[c].outputs > 0 && piece.errors[c].non_finite == 0)
      piece.errors[c].overflow = evaluate.first_non_finite();
  }
  return piece;
}

}  // namespace

std::vector<CandidateFormat> candidates(const OperatorSettings& s) {
  std::vector<CandidateFormat> all{{"fp32", fp32, Where::fp32}};
  for (const FormatChoice& choice : s.formats) {
    if (choice.format == fp32) continue;
    for (const Where where : {Where::all, Where::tensors}) all.push_back({choice.name, choice.format, where});
  }
  return all;
}

std::vector<ExactOutput> compared_outputs(const OperatorProgram& p, std::span<const double> inputs) {
  const std::vector<Real> exact = exact_outputs(p, inputs);
  return {exact.begin(), exact.end()};
}

namespace {

/// Whether the error is, beyond what doubles round, at most `worst` times the exact result: what they show without 113
/// bits. They lose 2^-53 of the exact result and as much of each operation.
bool no_worse(double result, double exact, double worst) {
  const double magnitude = std::fabs(exact), off = std::fabs(result - exact);
  constexpr double slack = 0x1p-50;
  return magnitude >= std::numeric_limits<double>::min() && magnitude <= std::numeric_limits<double>::max() &&
         off + slack * magnitude <= (1 - slack) * (worst * magnitude);
}

}  // namespace

void OperatorErrors::add(double result, const ExactOutput& exact) {
  ++outputs;
  exact_squares += exact.square;
  if (!std::isfinite(result)) {
    ++non_finite;
    return;
  }
  const Real difference = result - exact.value;
  squares += difference * difference;
  if (exact.value == 0) return;
  vanished += result == 0;
  if (no_worse(result, exact.rounded, worst)) return;
  const Real magnitude = abs(exact.value), off = abs(difference);
  if (off > worst * magnitude)
    worst = std::max(worst, static_cast<double>(Real(off / magnitude)));  // divisions in software are slow
}

void OperatorErrors::merge(const OperatorErrors& o) {
  squares += o.squares, exact_squares += o.exact_squares, worst = std::max(worst, o.worst);
  outputs += o.outputs, non_finite += o.non_finite, vanished += o.vanished, beyond += o.beyond;
  if (!overflow) overflow = o.overflow;
}

double OperatorErrors::relative() const {
  if (non_finite > 0) return std::numeric_limits<double>::infinity();
  if (exact_squares == 0) return squares == 0 ? 0 : std::numeric_limits<double>::infinity();
  return static_cast<double>(Real(sqrt(squares / exact_squares)));
}

std::vector<Trial> sample_trials(const OperatorSettings& s, const std::vector<std::string_view>& operators,
                                 std::size_t samples) {
  Json formats = Json::array();
  for (const FormatChoice& f : s.formats) formats.push_back(format_name(f.format));
  std::vector<Trial> all;
  for (const std::string_view name : operators)
    for (const double scale : s.scales)
      for (std::size_t sample = 0; sample < samples; ++sample)
        all.push_back({fmt::format("{} {} {}", name, scale, sample),
                       {{"operator", name},
                        {"scale", scale},
                        {"sample", sample},
                        {"formats", formats},
                        {"size", s.size},
                        {"order", static_cast<int>(s.order)},
                        {"rounding", name_of(s.rounding.mode)},
                        {"seed", s.seed}}});
  return all;
}

AllErrors measure_errors(const OperatorSettings& s, Run& run, double to) {
  const std::vector<CandidateFormat> all = candidates(s);
  std::vector<OperatorProgram> programs;
  std::vector<std::string_view> names;
  for (const Operator& op : operator_table()) {
    programs.push_back(build(op, s.order, s.size));
    names.push_back(op.name);
  }
  const std::size_t of_operator = s.scales.size() * s.samples;
  auto pieces = trials<CandidateErrors>(
      run, {"operators", 1}, sample_trials(s, names, s.samples), 0, to, [&](std::size_t i, Trace& trace) {
        const std::size_t k = i % of_operator;
        Trace own(k % s.samples == 0 ? trace.limit() / 100 : 0);
        CandidateErrors piece = measure(programs[i / of_operator], all, s, s.scales[k / s.samples], k % s.samples,
                                        own.limit() > 0 ? &own : nullptr);
        trace.append(own);
        return piece;
      });
  AllErrors errors(programs.size(), std::vector<SampleErrors>(s.samples));
  for (std::size_t i = 0; i < pieces.size(); ++i)
    errors[i / of_operator][i % s.samples].push_back(std::move(pieces[i].errors));
  return errors;
}

// What is the arithmetic's error and what the inputs': the same operators on inputs that the format has.

namespace {

/// Errors of one operator in one format, FP32 on the same inputs last; and what FP32 inside may be off by.
struct Row {
  std::vector<OperatorErrors> errors = std::vector<OperatorErrors>(wheres.size());
  double bound = 0;  ///< relative, as the errors
};
template <class V>
void fields(V& v, Row& r) {
  v("errors", r.errors);
  v("bound", r.bound);
}

constexpr std::size_t most_samples = 4;

Row measure(const OperatorProgram& p, const FloatFormat& f, const OperatorSettings& s, std::uint64_t sample) {
  std::vector<double> inputs = draw_inputs(p, 1, s.seed, sample);
  for (double& x : inputs) x = f.value(encode(f, {}, x).code);
  Row row;
  if (!std::all_of(inputs.begin(), inputs.end(), [](double x) { return std::isfinite(x); })) return row;
  const std::vector<ExactOutput> exact = compared_outputs(p, inputs);
  for (std::size_t w = 0; w < wheres.size(); ++w) {
    const std::vector<double> results = Evaluator(p, {Precision::of(wheres[w].value, f)}, {})(inputs);
    for (std::size_t o = 0; o < results.size(); ++o) row.errors[w].add(results[o], exact[o]);
    // Formats without Inf and NaN saturate instead.
    const bool held = std::all_of(results.begin(), results.end(),
                                  [&](double y) { return std::fabs(y) <= f.value(f.max_finite()); });
    if (wheres[w].value == Where::fp32 && !held) return row;
  }
  // |round(x) - x| <= u |x| or half the smallest unit, and the triangle inequality for norms.
  const OperatorErrors& wide = row.errors[static_cast<std::size_t>(Where::fp32)];
  if (wide.exact_squares == 0) return row;
  const double u = FloatFormat::power_of_two(-f.precision()), smallest = f.value(f.min_positive()) / 2;
  const double norm = static_cast<double>(Real(sqrt(wide.exact_squares)));
  row.bound = u * (1 + wide.relative()) + smallest * std::sqrt(static_cast<double>(wide.outputs)) / norm +
              wide.relative();
  return row;
}

}  // namespace

void inside_report(const OperatorSettings& s, Run& run) {
  Table& table = run.report.table(
      "inside",
      "Errors on inputs that are values of the format: what is left is the operators' own (activations of N(0, 1), to "
      "nearest even)",
      {{"format", "", "The low-precision format."},
       {"operator", "", "The operator; figures are the largest over its samples, of which four are taken at most."},
       {"all", "1",
        "Relative error with every operation in the format, in unit roundoffs 2^-p; Infinity if an output is not "
        "finite, null if an input is not."},
       {"tensors", "1", "The same with FP32 operations and outputs rounded to the format."},
       {"bound", "1",
        "What that can be at most: one unit roundoff, half the smallest subnormal an output, and FP32's error; null "
        "where an output overflows."},
       {"fp32", "1", "The same with FP32 outputs."}});
  const auto operators = operator_table();
  std::vector<FormatChoice> formats;
  for (const FormatChoice& f : s.formats)
    if (f.format != fp32) formats.push_back(f);
  std::vector<OperatorProgram> programs;
  for (const Operator& op : operators) programs.push_back(build(op, s.order, s.size));
  const std::size_t samples = std::min(s.samples, most_samples);
  std::vector<Trial> asked;
  for (const FormatChoice& f : formats)
    for (const Operator& op : operators)
      for (std::size_t sample = 0; sample < samples; ++sample)
        asked.push_back({fmt::format("{} on {} {}", op.name, f.name, sample),
                         {{"operator", op.name},
                          {"format", format_name(f.format)},
                          {"sample", sample},
                          {"size", s.size},
                          {"order", static_cast<int>(s.order)},
                          {"seed", s.seed}}});
  const auto rows = trials<Row>(run, {"inside", 1}, asked, 0, 0, [&](std::size_t i, Trace&) {
    const std::size_t row = i / samples;
    return measure(programs[row % programs.size()], formats[row / programs.size()].format, s, i % samples);
  });
  double worst = 0;
  bool some = false;
  for (std::size_t i = 0; i < formats.size() * programs.size(); ++i) {
    const FormatChoice& choice = formats[i / programs.size()];
    const double u = FloatFormat::power_of_two(-choice.format.precision());
    const std::span<const Row> of_samples = std::span(rows).subspan(i * samples, samples);
    const auto units = [&](Where where) {
      double most = 0;
      for (const Row& row : of_samples) {
        const OperatorErrors& e = row.errors[static_cast<std::size_t>(where)];
        if (e.outputs == 0) return Json();  // inputs overflow
        most = std::max(most, e.relative() / u);
      }
      return number(most);
    };
    bool bounded = true;
    double bound = 0;
    for (const Row& row : of_samples) {
      const OperatorErrors &narrow = row.errors[static_cast<std::size_t>(Where::tensors)],
                           &wide = row.errors[static_cast<std::size_t>(Where::fp32)];
      bounded = bounded && row.bound > 0 && narrow.non_finite == 0 && wide.non_finite == 0;
      if (!bounded) break;
      bound = std::max(bound, row.bound);
      worst = std::max(worst, narrow.relative() / row.bound), some = true;
    }
    table.row({choice.name, operators[i % programs.size()].name, units(Where::all), units(Where::tensors),
               bounded ? number(bound / u) : Json(), units(Where::fp32)});
  }
  const std::string statement =
      "FP32 inside leaves one rounding of the outputs: error over bound, at most, on inputs that the format has.";
  const std::string source =
      "derived: |round(x) - x| <= u |x|, IEEE 754-2019, section 4.3.1, and the triangle inequality";
  run.report.claim(
      {"fp32-inside-is-one-rounding", statement, source},
      some ? at_most(1, worst, "oracle") : skipped("no format but FP32 holds the outputs of any operator"));
}

}  // namespace halfulp::operators
