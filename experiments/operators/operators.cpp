// Overflow and underflow points: the first code word at which an operator leaves the range, and the threshold it must
// follow from.
#include <halfulp/experiments/operators/operators.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <boost/math/special_functions/atanh.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace halfulp::operators {
namespace {

/// What happens to a result.
enum class Event : std::uint8_t { overflow, zero, one };

struct Point {
  std::string_view name, event;
  Event kind;
  bool negative = false;   ///< of the input
  bool from_zero = false;  ///< the event holds for magnitudes up to a point, not from one on
  OperatorProgram::Value (*build)(OperatorProgram&, OperatorProgram::Value);
  /// The exact magnitude of the input; beyond (or below) it the event happens.
  Real (*threshold)(const FloatFormat&);
};

Real half_smallest(const FloatFormat& f) { return Real(f.value(f.min_positive())) / 2; }

OperatorProgram::Value exp_of(OperatorProgram& p, OperatorProgram::Value x) { return p.exp(x); }
OperatorProgram::Value square(OperatorProgram& p, OperatorProgram::Value x) { return p.mul(x, x); }
OperatorProgram::Value cube(OperatorProgram& p, OperatorProgram::Value x) { return p.pow(x, p.constant(3)); }
OperatorProgram::Value tanh_of(OperatorProgram& p, OperatorProgram::Value x) { return p.tanh(x); }

const std::array<Point, 8> points{{
    {"exp", "overflows", Event::overflow, false, false, exp_of,
     [](const FloatFormat& f) { return Real(log(overflow_threshold(f))); }},
    {"exp", "becomes 0", Event::zero, true, false, exp_of,
     [](const FloatFormat& f) { return Real(-log(half_smallest(f))); }},
    {"square", "overflows", Event::overflow, false, false, square,
     [](const FloatFormat& f) { return Real(sqrt(overflow_threshold(f))); }},
    {"square", "becomes 0", Event::zero, false, true, square,
     [](const FloatFormat& f) { return Real(sqrt(half_smallest(f))); }},
    {"cube", "overflows", Event::overflow, false, false, cube,
     [](const FloatFormat& f) { return Real(pow(overflow_threshold(f), Real(1) / 3)); }},
    {"reciprocal", "overflows", Event::overflow, false, true, reciprocal,
     [](const FloatFormat& f) { return Real(1 / overflow_threshold(f)); }},
    {"sigmoid", "becomes 1", Event::one, false, false, sigmoid, sigmoid_threshold},
    {"tanh", "becomes 1", Event::one, false, false, tanh_of,
     [](const FloatFormat& f) { return Real(boost::math::atanh(Real(1 - ldexp(Real(1), -f.precision() - 1)))); }},
}};

/// Whether the event is as its threshold assumes: overflow gives no number; the numbers near which it is decided are in
/// the format.
bool applies(const Point& p, const FloatFormat& f) {
  const double smallest = f.value(f.min_positive());
  switch (p.kind) {
    case Event::overflow:
      return (f.has_infinity() || f.has_nan()) && smallest <= 1 && f.largest_consecutive_integer() >= 3;
    case Event::zero: return smallest < 1;
    case Event::one: break;
  }
  return f.fraction_bits > 0 && smallest <= FloatFormat::power_of_two(-f.precision()) && f.value(f.max_finite()) >= 2;
}

bool happens(Event kind, double y) {
  switch (kind) {
    case Event::overflow: return !std::isfinite(y);
    case Event::zero: return y == 0;
    case Event::one: break;
  }
  return y == 1;
}

/// The event's innermost input: the first at which it happens, or the last. Nothing if it never does, among all
/// positive inputs.
std::optional<std::uint64_t> found(const Point& p, const FloatFormat& f) {
  Function evaluate(f, Where::all, p.build);
  const std::uint64_t code = first_code(
      f, [&](double x) { return happens(p.kind, evaluate(p.negative ? -x : x)) != p.from_zero; });
  if (p.from_zero ? code == f.min_positive() : code > f.max_finite()) return std::nullopt;
  return p.from_zero ? code - 1 : code;
}

/// The same, only by comparison with the threshold.
std::optional<std::uint64_t> derived(const Point& p, const FloatFormat& f) {
  const Real t = p.threshold(f);
  const std::uint64_t code = first_code(f, [&](double x) { return p.from_zero ? Real(x) > t : Real(x) >= t; });
  if (p.from_zero ? code == f.min_positive() : code > f.max_finite()) return std::nullopt;
  return p.from_zero ? code - 1 : code;
}

/// Figures that lectures quote, whatever the configuration.
void published(Run& run) {
  const std::string ln = "derived: ln 65520, halfway from fp16's largest value 65504 to 2^16";
  // The threshold itself lies between fp16's numbers, so its inputs are FP32 and only the result is rounded to fp16.
  Function wide(fp32, Where::all, exp_of);
  const std::uint64_t first = first_code(
      fp32, [&](double x) { return !std::isfinite(fp16.value(encode(fp16, {}, wide(x)).code)); });
  run.report.claim({"exp-overflows-fp16", "From x = 11.0901 on, e^x in fp16 is Infinity.", ln},
                   within(11.0901, 5e-5, fp32.value(first), "oracle"));
  Function narrow(fp16, Where::all, exp_of);
  const std::uint64_t code = first_code(fp16, [&](double x) { return !std::isfinite(narrow(x)); });
  run.report.claim({"exp-first-infinite-fp16", "The first fp16 number whose e^x is Infinity is 11.09375.", ln},
                   exactly(11.09375, fp16.value(code), "oracle"));
  Function squared(fp16, Where::all, square);
  run.report.claim(
      {"square-of-256-fp16", "256 * 256 is Infinity in fp16, which a variance or a norm meets before its root.",
       "derived: 65536 >= 65520"},
      exactly("Infinity", number(squared(256)), "oracle"));
}

}  // namespace

Real sigmoid_threshold(const FloatFormat& f) {
  const Real tie = ldexp(Real(1), -f.precision());
  const Real unit = ldexp(Real(1), std::max(-f.precision(), f.emin()) - f.fraction_bits);
  return -log(Real(tie + unit / 2));
}

Real overflow_threshold(const FloatFormat& f) {
  if (!f.has_infinity() && !f.has_nan()) return std::numeric_limits<Real>::infinity();
  const std::uint64_t max = f.max_finite();
  const Real unit = ldexp(Real(1), f.exponent(max));
  Real bound = Real(f.value(max)) + unit / 2;
  // A tie goes to the even code; where the largest value's is even, it stays.
  if ((max & 1) == 0) bound += ldexp(Real(1), f.exponent(max) - 100);
  return bound;
}

Function::Function(const FloatFormat& f, Where where,
                   OperatorProgram::Value (*build)(OperatorProgram&, OperatorProgram::Value))
    : program_([&] {
        OperatorProgram p(SumOrder::sequential);
        p.output(build(p, p.operand(Draw::activation, 1)[0]));
        return p;
      }()),
      evaluator_(program_, {Precision::of(where, f)}, {}) {}

double Function::operator()(double x) { return evaluator_(std::span(&x, 1))[0]; }

void limit_points(const OperatorSettings& s, Run& run) {
  Table& table = run.report.table(
      "points", "Where operators leave the range, to nearest even: found by search, every operation in the format",
      {{"format", "", "Format of input, operations and result."},
       {"operator", "", "Function of one number; cube is pow(x, 3), sigmoid 1 / (1 + e^-x)."},
       {"event", "", "What becomes of the result."},
       {"threshold", "1",
        "The real number at which it must begin, derived from the format; null where the format cannot show it."},
       {"input", "1",
        "First value of the format with the event, going away from 1 (or, for squares and reciprocals near 0, toward "
        "0); null if no finite input has it."},
       {"result", "1", "What the operator gives there."},
       {"neighbour", "1", "What it gives at the value before."}});
  Json expected = Json::object(), measured = Json::object();
  for (const FormatChoice& choice : s.formats) {
    const FloatFormat& f = choice.format;
    for (const Point& p : points) {
      if (!applies(p, f)) {
        table.row({choice.name, p.name, p.event, Json(), Json(), Json(), Json()});
        continue;
      }
      const auto code = found(p, f), by_threshold = derived(p, f);
      const double sign = p.negative ? -1 : 1;
      const std::string key = std::string(choice.name) + " " + std::string(p.name) + " " + std::string(p.event);
      expected[key] = by_threshold ? Json(print_code(f, *by_threshold)) : Json();
      measured[key] = code ? Json(print_code(f, *code)) : Json();
      std::vector<Json> row{choice.name, p.name, p.event, number(sign * static_cast<double>(p.threshold(f))),
                            Json(),      Json(), Json()};
      if (code) {
        Function evaluate(f, Where::all, p.build);
        const auto word = [&](std::uint64_t c) {
          const double x = sign * f.value(c);
          return emulated(f, encode(f, {}, evaluate(x)).code);
        };
        const std::uint64_t before = p.from_zero ? *code + 1 : *code - 1;
        row[4] = emulated(f, p.negative ? f.with_sign(*code, true) : *code);
        row[5] = word(*code);
        if (before >= f.min_positive() && before <= f.max_finite()) row[6] = word(before);
      }
      table.row(std::move(row));
    }
  }
  run.report.claim({"points-follow-from-the-format",
                    "Searched overflow and underflow points are the first code words beyond thresholds such as "
                    "ln(max + half a unit).",
                    "derived: rounding to nearest even"},
                   exactly(expected, measured, "oracle"));
  published(run);
}

}  // namespace halfulp::operators

// Each operator of a network in each format against exact results.

namespace halfulp {
namespace operators {
namespace {

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::string> modes;
  for (const auto& mode : rounding_modes)
    if (mode.value != RoundingMode::stochastic) modes.emplace_back(mode.name);
  return {
      {"formats", Type::formats, "fp16,bf16,e4m3,e5m2", "low-precision formats; FP32 is always there"},
      {"size", Type::integer, "2048",
       "n: how many numbers an operator reduces or a row has; some take a part of it (table operators)", 64, 16384},
      {"samples", Type::integer, "8",
       "samples of every operator: rows of activations with their own weights; the largest error over them decides the "
       "list",
       1, 256},
      {"scales", Type::reals, "0.0625,1,16",
       "standard deviations of activations and logits; an operator must keep to the budget at each", 1e-4, 1e4},
      {"budget", Type::real, "4",
       "largest relative error that the derived list accepts, in unit roundoffs 2^-p of the format", 0, 1e6},
      {"graph_budget", Type::real, "0.01", "largest relative error of a model's outputs", 0, 1},
      {"order",
       Type::choice,
       "sequential",
       "of sums: one term after the other (dot products: fused multiply-adds), or pairwise",
       -infinity,
       infinity,
       {"sequential", "pairwise"}},
      {"rounding", Type::choice, "nearest-even",
       "of the formats in operators, autocast, backward and graph; FP32, and the other tables, round to nearest even",
       -infinity, infinity, modes},
      {"seed", Type::integer, "1", "of activations, weights and labels", 0, largest_seed},
  };
}

OperatorSettings settings(const Config& config) {
  OperatorSettings s;
  s.formats = config.formats("formats");
  for (const FormatChoice& c : s.formats) {
    if (!c.format.has_zero || !c.format.is_signed)
      throw std::invalid_argument("formats: " + c.name + " has no zero or no sign: no operator runs in it");
    if (!holds(fp32, c.format))
      throw std::invalid_argument("formats: " + c.name +
                                  " has values that FP32 has not; choose formats that FP32 can stand in for");
  }
  s.scales = config.reals("scales");
  s.size = static_cast<std::size_t>(config.integer("size"));
  s.samples = static_cast<std::size_t>(config.integer("samples"));
  s.order = config.text("order") == "pairwise" ? SumOrder::pairwise : SumOrder::sequential;
  const std::string mode = config.text("rounding");
  for (const auto& named : rounding_modes)
    if (named.name == mode) s.rounding.mode = named.value;
  s.seed = static_cast<std::uint64_t>(config.integer("seed"));
  return s;
}

void errors_report(const OperatorSettings& s, const AllErrors& errors, Report& report) {
  Table& table = report.table(
      "operators", fmt::format("Errors of operators against exact results on the same FP32 inputs (n = {})", s.size),
      {{"format", "", "The low-precision format; fp32 rows have none."},
       {"where", "",
        "What is in the format: all (tensors and every operation), tensors (inputs and outputs, FP32 inside), fp32 "
        "(nothing)."},
       {"operator", "", "The operator."},
       {"family", "", "Its kind."},
       {"shape", "", "What goes in and comes out of one sample; n is the parameter size."},
       {"scale", "1", "Standard deviation of activations and logits."},
       {"error", "1",
        "Over all samples, root of the sum of squared differences over that of squared exact results; Infinity if an "
        "output is not finite."},
       {"error_u", "1", "The same in unit roundoffs 2^-p of the format (of fp32 in its own)."},
       {"worst", "1", "Largest |difference| / |exact result| of a finite output."},
       {"outputs", "output", "Outputs of all samples that are finite in FP32."},
       {"non_finite", "output", "Of these, Infinity or NaN here."},
       {"vanished", "output", "Of these, 0 here though the exact result is not."},
       {"beyond_fp32", "output", "Further outputs that even FP32 does not hold; not in the errors."}});
  const auto all = candidates(s);
  const auto operators = operator_table();
  for (std::size_t c = 0; c < all.size(); ++c)
    for (std::size_t i = 0; i < operators.size(); ++i)
      for (std::size_t k = 0; k < s.scales.size(); ++k) {
        OperatorErrors e;
        for (const SampleErrors& sample : errors[i]) e.merge(sample[k][c]);
        table.row({all[c].format, name_of(all[c].where), operators[i].name, operators[i].family, operators[i].shape,
                   s.scales[k], number(e.relative()),
                   number(e.relative() / FloatFormat::power_of_two(-all[c].f.precision())), number(e.worst), e.outputs,
                   e.non_finite, e.vanished, e.beyond});
      }
}

void run_operators(const Config& config, Run& run) {
  const OperatorSettings s = settings(config);
  const AllErrors errors = measure_errors(s, run, 0.7);
  if (run.only_operands) return;
  errors_report(s, errors, run.report);
  autocast_report(s, errors, config.real("budget"), run);
  limit_points(s, run);
  sums_of_ones(s, run);
  run.progress(0.8);
  binary_losses(s, run);
  cancellation_report(s, run);
  backward_report(s, run);
  run.progress(0.85);
  inside_report(s, run);
  run.progress(0.9);
  graph_report(s, config.real("graph_budget"), run);
}

}  // namespace
}  // namespace operators

namespace {

/// How many operators need FP32 in each format.
std::string operators_finding(const ReportTables& tables) {
  std::string text;
  std::vector<std::string> seen;
  for (const TableRow& row : tables.rows("autocast")) {
    if (std::find(seen.begin(), seen.end(), row.text("format")) != seen.end()) continue;
    seen.push_back(row.text("format"));
    const auto wide = tables.rows("autocast", {{"format", row["format"]}, {"derived", "fp32"}});
    const auto all = tables.rows("autocast", {{"format", row["format"]}});
    text += text.empty() ? fmt::format("In {} {} of {} operators need{} fp32", row.text("format"), wide.size(),
                                       all.size(), wide.size() == 1 ? "s" : "")
                         : fmt::format(", in {} {}", row.text("format"), wide.size());
  }
  return text.empty() ? text : text + ".";
}

}  // namespace

Experiment operators_experiment() {
  return {"operators",
          "Operators of networks in low precision",
          "Which operators need FP32, and where do they overflow?",
          operators::parameters,
          operators::run_operators,
          operators_finding,
          {"autocast", {"format", "operator", "derived", "verdict", "pytorch_cuda", "cuda"}, {}, {}},
          false,
          &publications::fp16_operators};
}

}  // namespace halfulp
