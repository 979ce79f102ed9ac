// Inputs of programs: FP32 numbers that depend only on (seed, sample) and the scale of activations.
#pragma once

#include <halfulp/experiments/operators/functions.hpp>
#include <halfulp/experiments/operators/program.hpp>
#include <halfulp/report/config.hpp>
#include <halfulp/report/trials.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <ios>
#include <optional>
#include <span>
#include <string_view>

namespace halfulp::operators {

/// The inputs of one sample, in order. Every operand k of every program has the same draws, times its scale.
std::vector<double> draw_inputs(const OperatorProgram& p, double scale, std::uint64_t seed, std::uint64_t sample);

// What operators get wrong in each format, against exact results on the same FP32 inputs.

struct OperatorSettings {
  std::vector<FormatChoice> formats;  ///< none wider than FP32
  std::vector<double> scales;
  std::size_t size = 64, samples = 1;
  SumOrder order = SumOrder::sequential;
  Rounding rounding;
  std::uint64_t seed = 1;
};

/// A format and where it is; FP32 throughout is the first candidate and has no format of its own.
struct CandidateFormat {
  std::string format = "fp32";
  FloatFormat f;
  Where where = Where::fp32;
};
std::vector<CandidateFormat> candidates(const OperatorSettings& s);

/// An exact output, and what the errors of every candidate need of it.
struct ExactOutput {
  ExactOutput(const Real& x) : value(x), square(x * x), rounded(static_cast<double>(x)) {}
  Real value, square;
  double rounded;
};
/// exact_outputs, to compare several candidates with.
std::vector<ExactOutput> compared_outputs(const OperatorProgram& p, std::span<const double> inputs);

/// Errors of one candidate over all outputs of all samples at one scale. Outputs at which FP32 throughout is not finite
/// are counted only in `beyond`.
struct OperatorErrors {
  Real squares = 0, exact_squares = 0;  ///< of differences and of exact results
  double worst = 0;  ///< largest |difference| / |exact result| of finite outputs, where that is not 0
  std::size_t outputs = 0, non_finite = 0, vanished = 0, beyond = 0;

  std::optional<ElementaryOperation>
      overflow;  ///< where finite outputs come from numbers that are not: the first operation that gave one

  void add(double result, const ExactOutput& exact);
  void merge(const OperatorErrors& o);
  /// Root of sum of squared differences over that of squared exact results; Infinity if some output is not finite.
  double relative() const;
};

/// With all 113 bits of the sums: 36 digits say them. Versions of Boost disagree on max_digits10, 36 or 37, and records
/// are to be the same with each.
template <class V>
void fields(V& v, OperatorErrors& e) {
  constexpr std::streamsize digits = 37;
  const auto real = spelled([](const std::string& text) { return Real(text); },
                            [](const Real& x) { return x.str(digits); }, "a number in quotes");
  v("squares", e.squares, real);
  v("exact_squares", e.exact_squares, real);
  v("worst", e.worst);
  v("outputs", e.outputs);
  v("non_finite", e.non_finite);
  v("vanished", e.vanished);
  v("beyond", e.beyond);
  v("overflow", e.overflow, or_null(numbered_to(ElementaryOperation::select)));
}

/// Of one sample at one scale, by candidate: what a trial measures.
struct CandidateErrors {
  std::vector<OperatorErrors> errors;
};
template <class V>
void fields(V& v, CandidateErrors& e) {
  v("errors", e.errors);
}

/// Trials of every operator at every scale on every sample, in this order.
std::vector<Trial> sample_trials(const OperatorSettings& s, const std::vector<std::string_view>& operators,
                                 std::size_t samples);

/// Of one sample of an operator: [scale][candidate].
using SampleErrors = std::vector<std::vector<OperatorErrors>>;
/// [operator][sample].
using AllErrors = std::vector<std::vector<SampleErrors>>;
/// Operations of first samples are recorded. Progress goes from 0 to `to`.
AllErrors measure_errors(const OperatorSettings& s, Run& run, double to);

// Where operators leave a format's range: first inputs that overflow, vanish or stagnate.

/// The smallest magnitude that rounds (to nearest even) beyond the largest finite value, where numbers beyond it are no
/// numbers; Infinity in formats that have neither Inf nor NaN.
Real overflow_threshold(const FloatFormat& f);

/// The logit from which 1 / (1 + e^-x) is 1 in a format to nearest even: e^-x, rounded, is at most half a unit in the
/// last place of 1, which is 2^-p, and the tie is 1.
Real sigmoid_threshold(const FloatFormat& f);

/// The first code word of a positive value at which a predicate holds that holds from there on; max_finite() + 1 if
/// none.
template <class F>
std::uint64_t first_code(const FloatFormat& f, F&& holds) {
  std::uint64_t low = f.min_positive(), high = f.max_finite() + 1;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (holds(f.value(middle))) high = middle;
    else low = middle + 1;
  }
  return low;
}

/// A function of one number in a format, every operation in it, to nearest even.
class Function {
 public:
  Function(const FloatFormat& f, Where where,
           OperatorProgram::Value (*build)(OperatorProgram&, OperatorProgram::Value));
  double operator()(double x);

 private:
  OperatorProgram program_;
  Evaluator evaluator_;
};

/// Table `points` and its claims: exp, squares, cubes, reciprocals, sigmoid and tanh, each found by search over code
/// words and derived from the format.
void limit_points(const OperatorSettings& s, Run& run);
/// Table `sums` and its claims: sums and means of ones.
void sums_of_ones(const OperatorSettings& s, Run& run);
/// Formats of which every logit is asked: infinite losses are infinite there, and the range holds both saturation and
/// its tail.
bool exhaustive(const FloatFormat& f);
/// For how many of the positive finite logits of a format a function of them, every operation in the format, gives
/// something that counts.
std::size_t count_logits(const FloatFormat& f, Value (*build)(OperatorProgram&, Value), bool (*counts)(double));
/// Table `binary_cross_entropy` and its claims: by probabilities and by logits.
void binary_losses(const OperatorSettings& s, Run& run);

/// Table `cancellation` and its claims: differences of nearly equal numbers, and forms that avoid them.
void cancellation_report(const OperatorSettings& s, Run& run);

// Gradients of operators.

/// What is in the format: every operation; all but sums and dot products, whose additions are FP32; nothing.
enum class Backward : std::uint8_t { all, fp32_sums, fp32 };
inline constexpr std::array<Named<Backward>, 3> backwards{
    {{"all", Backward::all}, {"fp32-sums", Backward::fp32_sums}, {"fp32", Backward::fp32}}};
/// A precision for every stage of a gradient's program, of which accumulations are apart.
std::vector<Precision> precisions(const OperatorProgram& p, Backward how, const FloatFormat& f);
/// The program of one gradient.
OperatorProgram build_gradient(const Operator& op, SumOrder order, std::size_t size);

/// Tables `backward` and `repeated_tokens` and their claims.
void backward_report(const OperatorSettings& s, Run& run);

// What is the arithmetic's error and what the inputs'.

/// Table `inside` and its claim.
void inside_report(const OperatorSettings& s, Run& run);

// What published lists of automatic mixed precision say of operators.

enum class Listed : std::uint8_t {
  lower,     ///< inputs are cast to FP16 or BF16
  fp32,      ///< inputs are cast to FP32
  widest,    ///< runs in the widest type of its inputs
  unlisted,  ///< runs in the type of its inputs; PyTorch: assumed to be stable in 16 bits
  refused,   ///< an error with 16-bit inputs
};
std::string_view name_of(Listed listed);

/// A list and where it is published.
struct AutocastList {
  std::string_view name, source;
};
/// In the order of ListedOperator's members.
inline constexpr std::array<AutocastList, 3> autocast_lists{{
    {"pytorch-cuda",
     "PyTorch, Automatic Mixed Precision package - torch.amp, CUDA Op-Specific Behavior (docs/source/amp.md at "
     "4e0ff98)"},
    {"pytorch-cpu",
     "PyTorch, Automatic Mixed Precision package - torch.amp, CPU Op-Specific Behavior (docs/source/amp.md at "
     "4e0ff98)"},
    {"apex-o1",
     "NVIDIA apex, amp/lists/functional_overrides.py at 47e9cae, torch_overrides.py at 03421e8, tensor_overrides.py at "
     "76c2252, amp.py at 02ba8ee"},
}};

/// An operator of the table and the function that the lists know it by.
struct ListedOperator {
  std::string_view name, function;
  std::array<Listed, 3> lists;  ///< CUDA's holds for FP16 and BF16, the CPU's too; apex casts only to FP16
};

/// The entry of an operator; nothing if the lists have no such function (they know steps of it, not the whole).
std::optional<ListedOperator> find_listed(std::string_view name);
std::span<const ListedOperator> listed_operators();

/// PyTorch's list for CUDA, "Ops that can autocast to float32", in its order.
std::span<const std::string_view> cuda_fp32_list();
/// The operator that is computed for one of its functions: __rtruediv__ is __rdiv__, __pow__ is pow.
std::string_view standing_for(std::string_view function);

// A model as a graph of operators, and the cheapest precision of each under one end-to-end error budget.

/// Models of which every stage is one operator; outputs are log-probabilities.
struct OperatorModel {
  std::string_view name, description;
  void (*build)(OperatorProgram& p);
};
std::span<const OperatorModel> models();

/// The operator of the published lists that a stage is: its name without what tells stages apart, "linear-query". Empty
/// if none.
std::string_view operator_of(std::string_view stage);
/// The precisions that a published list (its place in autocast_lists) gives the stages: 16-bit tensors around FP32
/// operations where the list casts to 16 bits, FP32 where it casts to FP32; else the widest of the tensors that the
/// stage reads, of which inputs and weights are FP32.
std::vector<Precision> by_list(const OperatorProgram& p, std::size_t list, const FloatFormat& f);

/// A precision a stage may have.
struct PrecisionChoice {
  std::string format;
  Where where;
  Precision precision;
};

/// The choices of these formats by bits of a tensor, then of an operation; FP32 is the last.
std::vector<PrecisionChoice> choices(const std::vector<FormatChoice>& formats);

/// What the search decided on a stage, in the order of its decisions.
struct Decision {
  std::size_t stage = 0, choice = 0;
  double error = 0;  ///< of the whole model afterwards
};
template <class V>
void fields(V& v, Decision& d) {
  v("stage", d.stage);
  v("choice", d.choice);
  v("error", d.error);
}

/// From FP32 everywhere: stages from the most operations to the fewest, each takes the first choice with which the
/// whole model's relative error stays within the budget and every output is finite. Errors are the largest over
/// deciding_samples(s) samples, each with inputs and weights of its own, against exact outputs.
std::size_t deciding_samples(const OperatorSettings& s);
std::vector<Decision> cheapest(const OperatorProgram& p, const std::vector<PrecisionChoice>& choices,
                               const OperatorSettings& s, double budget);

/// Tables `graph` and `models`.
void graph_report(const OperatorSettings& s, double budget, Run& run);

// An autocast list from measured errors, beside the published ones.

/// What a candidate needs of one operator: its largest error over samples and scales of activations.
struct Need {
  double units = 0;      ///< relative error in unit roundoffs 2^-p of the format; Infinity if an output is not finite
  double scale = 0;      ///< where that is
  OperatorErrors there;  ///< that sample's, at that scale
};

/// What an operator tolerates in a format: `all` if that keeps to the budget, else `tensors` if that does, else `fp32`.
struct Derived {
  Need all, tensors;
  Where where = Where::fp32;
};

/// The criterion, the same for every operator: in every sample, at every scale, every output is finite where FP32
/// throughout gives a finite one, and the relative error (Errors::relative) is at most `budget` unit roundoffs of the
/// format.
Derived derive(const OperatorSettings& s, std::span<const SampleErrors> samples, std::size_t format, double budget);

/// What the verdict hangs on: how many samples have it by themselves, and whether half or twice the budget would change
/// it.
struct Firmness {
  std::size_t agree = 0;
  double least = 0;         ///< over the samples, of what `all` needs in a sample
  bool borderline = false;  ///< not all agree, or the budget halved or doubled derives something else
};
Firmness firmness(const OperatorSettings& s, std::span<const SampleErrors> samples, std::size_t format, double budget);

enum class Agreement : std::uint8_t { agrees, on_arithmetic, differs };
std::string_view name_of(Agreement agreement);
/// A list that casts to FP32 agrees with `fp32`, and with `tensors` only on the arithmetic; one that casts to 16 bits,
/// or leaves the type as it is, agrees with `all` and with `tensors`: kernels accumulate in FP32.
Agreement compare(Listed listed, Where derived);

/// The budget that the claims on published lists are made at: the lists themselves name none.
inline constexpr double usual_budget = 4;

/// Tables `autocast` and `fp32_list` and the claims on them.
void autocast_report(const OperatorSettings& s, const AllErrors& errors, double budget, Run& run);

}  // namespace halfulp::operators
