// An operator as a straight-line program of elementary operations, written once and evaluated in any arithmetic.
#pragma once

#include <halfulp/report/trace.hpp>

#include <boost/multiprecision/cpp_bin_float.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::operators {

/// Elementary operations: each is rounded once wherever it is rounded at all.
enum class ElementaryOperation : std::uint8_t {
  input,
  constant,
  add,
  sub,
  mul,
  div,
  fma,
  sqrt,
  exp,
  log,
  log1p,
  expm1,
  log2,
  log10,
  sin,
  cos,
  tan,
  asin,
  acos,
  sinh,
  cosh,
  tanh,
  erf,
  erfinv,
  pow,
  max,
  min,
  select  ///< c where a > b, else 0
};

/// What an operation reads: earlier nodes; a constant or an input: its number.
struct Node {
  ElementaryOperation step;
  std::uint16_t stage = 0;
  std::uint32_t a = 0, b = 0, c = 0;
};

/// How many earlier nodes an operation reads: a, b and c in this order.
int reads(ElementaryOperation step);
/// In plain words: "a division".
std::string_view name_of(ElementaryOperation step);

/// Where the values of an operand come from. `scale` is the standard deviation of activations.
enum class Draw : std::uint8_t {
  activation,    ///< N(0, scale^2)
  weight,        ///< N(0, 1 / fan_in)
  positive,      ///< |N(0, scale^2)|
  probability,   ///< softmax of activations
  label_logits,  ///< activations, the label's first: labels have the probabilities that the logits give; in odd samples
                 ///< any
  binary_logits,       ///< activations of examples, the first half with label 1, likewise; every eighth has any label
  binary_probability,  ///< sigmoid of these, between the smallest normal number of FP32 and its largest below 1
};

struct ProgramOperand {
  Draw draw;
  std::size_t count, fan_in;
};

/// In which order sums add: one after the other, or halves of halves.
enum class SumOrder : std::uint8_t { sequential, pairwise };

/// A stage is one operator of a model; the program of one operator has one.
class OperatorProgram {
 public:
  using Value = std::uint32_t;  ///< a node
  using Values = std::vector<Value>;

  explicit OperatorProgram(SumOrder order, std::string_view first_stage = "");

  /// What follows belongs to a new stage.
  void stage(std::string_view name);
  /// From here on each sum and each dot product is a stage of its own, named `accumulation`: what it reads and what it
  /// gives are tensors, its additions may have another format.
  void accumulate_apart() { apart_ = true; }
  static constexpr std::string_view accumulation = "accumulation";
  /// `count` inputs, in the stage at hand.
  Values operand(Draw draw, std::size_t count, std::size_t fan_in = 1);
  /// A real number; every arithmetic rounds it to its format.
  Value constant(double value);

  Value add(Value a, Value b) { return node(ElementaryOperation::add, a, b); }
  Value sub(Value a, Value b) { return node(ElementaryOperation::sub, a, b); }
  Value mul(Value a, Value b) { return node(ElementaryOperation::mul, a, b); }
  Value div(Value a, Value b) { return node(ElementaryOperation::div, a, b); }
  Value fma(Value a, Value b, Value c) { return node(ElementaryOperation::fma, a, b, c); }
  Value sqrt(Value a) { return node(ElementaryOperation::sqrt, a); }
  Value exp(Value a) { return node(ElementaryOperation::exp, a); }
  Value log(Value a) { return node(ElementaryOperation::log, a); }
  Value log1p(Value a) { return node(ElementaryOperation::log1p, a); }
  Value tanh(Value a) { return node(ElementaryOperation::tanh, a); }
  Value erf(Value a) { return node(ElementaryOperation::erf, a); }
  Value pow(Value a, Value b) { return node(ElementaryOperation::pow, a, b); }
  Value max(Value a, Value b) { return node(ElementaryOperation::max, a, b); }
  Value min(Value a, Value b) { return node(ElementaryOperation::min, a, b); }
  /// c where a > b, else 0.
  Value select(Value a, Value b, Value c) { return node(ElementaryOperation::select, a, b, c); }
  /// Any other function of one number.
  Value function(ElementaryOperation step, Value a) { return node(step, a); }

  // Reductions of at least one value.
  Value sum(std::span<const Value> x);
  Value mean(std::span<const Value> x);
  Value largest(std::span<const Value> x);
  /// Sequential: a product, then fused multiply-adds; pairwise: products, then their sum.
  Value dot(std::span<const Value> a, std::span<const Value> b);

  void output(Value value) { outputs_.push_back(value); }
  void output(std::span<const Value> values) { outputs_.insert(outputs_.end(), values.begin(), values.end()); }

  /// The nodes of a stage and all that read them, at once or by way of others, in the order of evaluation.
  Values depending_on(std::size_t stage) const;

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<double>& constants() const { return constants_; }
  const std::vector<ProgramOperand>& operands() const { return operands_; }
  const Values& outputs() const { return outputs_; }
  std::size_t inputs() const { return inputs_; }
  const std::vector<std::string>& stages() const { return stages_; }

 private:
  Value node(ElementaryOperation step, Value a = 0, Value b = 0, Value c = 0);
  Value added(std::span<const Value> x);
  Value multiplied_and_added(std::span<const Value> a, std::span<const Value> b);
  /// f(), in an accumulation's stage if they are apart.
  template <class F>
  Value accumulated(F&& f);

  SumOrder order_;
  std::vector<Node> nodes_;
  std::vector<double> constants_;
  std::vector<ProgramOperand> operands_;
  Values outputs_;
  std::size_t inputs_ = 0;
  std::vector<std::string> stages_;
  std::size_t stage_ = 0;  ///< of the next node
  bool apart_ = false;
};

// A program in an arithmetic: exactly, or with every operation of a stage rounded to the format that the stage has.

/// What counts as exact: 113 bits, exponents to 2^16384, computed in integers: the same on every machine.
using Real = boost::multiprecision::cpp_bin_float_quad;

/// What is in the low-precision format.
enum class Where : std::uint8_t {
  all,      ///< tensors and every operation
  tensors,  ///< inputs and outputs; operations are FP32: "FP32 inside, 16 bits outside"
  fp32,     ///< nothing
};
inline constexpr std::array<Named<Where>, 3> wheres{
    {{"all", Where::all}, {"tensors", Where::tensors}, {"fp32", Where::fp32}}};
constexpr std::string_view name_of(Where where) { return name_in(wheres, where); }

/// The arithmetic of a stage: formats of its operations and of its inputs and outputs.
struct Precision {
  FloatFormat operations, tensors;
  static Precision of(Where where, const FloatFormat& f);
};

/// x rounded once to f. Of an infinity or NaN: f's.
std::uint64_t round_real(const FloatFormat& f, const Rounding& rounding, const Real& x);

/// The functions that no IEEE operation computes, of y too where they read two numbers.
Real real_function(ElementaryOperation step, const Real& x, const Real& y = 0);
/// One of them in a format: rounded once, infinities and poles by IEEE 754-2019, 9.2.1.
std::uint64_t rounded_function(const FloatFormat& f, const Rounding& rounding, ElementaryOperation step,
                               std::uint64_t a, std::uint64_t b = 0);

/// The outputs, every operation exact but for 113 bits. inputs: one number each.
std::vector<Real> exact_outputs(const OperatorProgram& p, std::span<const double> inputs);

/// Programs on code words. Conversions and IEEE operations are recorded; exp is correctly rounded by integers, the
/// others are rounded once from 113 bits. What another stage reads is converted once for all that it is read.
class Evaluator {
 public:
  /// A precision for every stage. `rounding` is that of formats other than FP32, which rounds to nearest even.
  Evaluator(const OperatorProgram& p, const std::vector<Precision>& stages, const Rounding& rounding,
            Trace* trace = nullptr);
  /// Values of the outputs in their stage's tensor format, as doubles; inputs are FP32 numbers.
  std::vector<double> operator()(std::span<const double> inputs);
  /// The same, on the inputs of the last evaluation, with another precision for one stage: only what depends on it is
  /// evaluated. depending: OperatorProgram::depending_on(stage).
  std::vector<double> again(std::size_t stage, const Precision& precision, const OperatorProgram::Values& depending);
  /// The first node of the last evaluation that is Infinity or NaN; nothing if all are finite.
  std::optional<ElementaryOperation> first_non_finite() const;

 private:
  /// One format's operations.
  struct Unit {
    FloatFormat format;
    Arithmetic on;
    std::vector<std::uint64_t> constants;
    bool native;  ///< FP32 to nearest even, and nothing is recorded: this machine's own operations
  };
  struct Stage {
    std::size_t operations, tensors;  ///< units
    std::uint32_t version = 0;        ///< of this precision of this stage; no two have the same
  };
  /// What a node holds, in the format of its stage's operations, and as another stage read it last.
  struct Code {
    std::uint64_t own = 0, entered = 0;
    std::uint32_t where = 0;  ///< that stage's version; 0: none has read it
  };
  std::size_t unit(const FloatFormat& f);
  Stage stage(const Precision& precision);
  std::uint64_t convert(std::size_t from, std::size_t to, std::uint64_t code);
  /// A tensor of another stage, or an input, in the format of a unit, as the operations of a stage take it.
  std::uint64_t enter(const Stage& here, std::size_t from, std::uint64_t code);
  std::uint64_t read(const Node& reader, std::uint32_t node);
  std::uint64_t apply(Unit& u, const Node& n, std::uint64_t a, std::uint64_t b, std::uint64_t c);
  void evaluate(std::size_t node);
  std::vector<double> outputs();

  const OperatorProgram* program_;
  Rounding rounding_;
  Trace* trace_;
  std::vector<Unit> units_;
  std::vector<Stage> stages_;
  std::size_t fp32_;
  std::uint32_t versions_ = 0;
  std::vector<double> inputs_;
  std::vector<Code> codes_;  ///< of nodes
};

}  // namespace halfulp::operators
