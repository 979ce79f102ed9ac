#include <halfulp/experiments/operators/program.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <boost/math/special_functions/erf.hpp>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>

namespace halfulp::operators {

int reads(ElementaryOperation step) {
  switch (step) {
    case ElementaryOperation::input:
    case ElementaryOperation::constant: return 0;
    case ElementaryOperation::add:
    case ElementaryOperation::sub:
    case ElementaryOperation::mul:
    case ElementaryOperation::div:
    case ElementaryOperation::pow:
    case ElementaryOperation::max:
    case ElementaryOperation::min: return 2;
    case ElementaryOperation::fma:
    case ElementaryOperation::select: return 3;
    default: return 1;
  }
}

std::string_view name_of(ElementaryOperation step) {
  switch (step) {
    case ElementaryOperation::input: return "an input";
    case ElementaryOperation::constant: return "a constant";
    case ElementaryOperation::add: return "a sum";
    case ElementaryOperation::sub: return "a difference";
    case ElementaryOperation::mul: return "a product";
    case ElementaryOperation::div: return "a quotient";
    case ElementaryOperation::fma: return "a sum of products";
    case ElementaryOperation::sqrt: return "a root";
    case ElementaryOperation::exp: return "an exponential";
    case ElementaryOperation::pow: return "a power";
    case ElementaryOperation::max: return "a maximum";
    case ElementaryOperation::min: return "a minimum";
    case ElementaryOperation::select: return "a selection";
    default: return "a function";
  }
}

OperatorProgram::OperatorProgram(SumOrder order, std::string_view first_stage)
    : order_(order), stages_{std::string(first_stage)} {}

void OperatorProgram::stage(std::string_view name) {
  if (nodes_.empty()) stages_.back() = name;
  else stages_.emplace_back(name);
  stage_ = stages_.size() - 1;
}

OperatorProgram::Value OperatorProgram::node(ElementaryOperation step, Value a, Value b, Value c) {
  nodes_.push_back({step, static_cast<std::uint16_t>(stage_), a, b, c});
  return static_cast<Value>(nodes_.size() - 1);
}

OperatorProgram::Values OperatorProgram::operand(Draw draw, std::size_t count, std::size_t fan_in) {
  operands_.push_back({draw, count, fan_in});
  Values values(count);
  for (Value& v : values) v = node(ElementaryOperation::input, static_cast<Value>(inputs_++));
  return values;
}

OperatorProgram::Value OperatorProgram::constant(double value) {
  constants_.push_back(value);
  return node(ElementaryOperation::constant, static_cast<Value>(constants_.size() - 1));
}

template <class F>
OperatorProgram::Value OperatorProgram::accumulated(F&& f) {
  if (!apart_) return f();
  const std::size_t outside = std::exchange(stage_, stages_.size());
  stages_.emplace_back(accumulation);
  const Value total = f();
  stage_ = outside;
  return total;
}

OperatorProgram::Value OperatorProgram::sum(std::span<const Value> x) {
  return accumulated([&] { return added(x); });
}

OperatorProgram::Value OperatorProgram::dot(std::span<const Value> a, std::span<const Value> b) {
  return accumulated([&] { return multiplied_and_added(a, b); });
}

OperatorProgram::Value OperatorProgram::added(std::span<const Value> x) {
  assert(!x.empty());
  if (x.size() == 1) return x[0];
  if (order_ == SumOrder::pairwise) {
    const std::size_t half = (x.size() + 1) / 2;
    const Value left = added(x.first(half));
    return add(left, added(x.subspan(half)));
  }
  Value total = x[0];
  for (const Value v : x.subspan(1)) total = add(total, v);
  return total;
}

OperatorProgram::Value OperatorProgram::mean(std::span<const Value> x) {
  const Value total = sum(x);
  return div(total, constant(static_cast<double>(x.size())));
}

OperatorProgram::Value OperatorProgram::largest(std::span<const Value> x) {
  Value most = x[0];
  for (const Value v : x.subspan(1)) most = max(most, v);
  return most;
}

OperatorProgram::Value OperatorProgram::multiplied_and_added(std::span<const Value> a, std::span<const Value> b) {
  assert(a.size() == b.size() && !a.empty());
  if (order_ == SumOrder::pairwise) {
    Values products;
    for (std::size_t i = 0; i < a.size(); ++i) products.push_back(mul(a[i], b[i]));
    return added(products);
  }
  Value total = mul(a[0], b[0]);
  for (std::size_t i = 1; i < a.size(); ++i) total = fma(a[i], b[i], total);
  return total;
}

OperatorProgram::Values OperatorProgram::depending_on(std::size_t stage) const {
  std::vector<bool> depends(nodes_.size());
  Values found;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& n = nodes_[i];
    const int count = reads(n.step);
    depends[i] = n.stage == stage || (count > 0 && depends[n.a]) || (count > 1 && depends[n.b]) ||
                 (count > 2 && depends[n.c]);
    if (depends[i]) found.push_back(static_cast<Value>(i));
  }
  return found;
}

Precision Precision::of(Where where, const FloatFormat& f) {
  switch (where) {
    case Where::all: return {f, f};
    case Where::tensors: return {fp32, f};
    case Where::fp32: break;
  }
  return {fp32, fp32};
}

namespace {

/// Whether a sum is 1 + erf(x), of which 113 bits leave nothing below x = -8.8; erfc(-x) is the same number.
bool is_one_plus_erf(const OperatorProgram& p, const Node& n) {
  const Node &one = p.nodes()[n.a], &e = p.nodes()[n.b];
  return e.step == ElementaryOperation::erf && one.step == ElementaryOperation::constant && p.constants()[one.a] == 1;
}

}  // namespace

std::vector<Real> exact_outputs(const OperatorProgram& p, std::span<const double> inputs) {
  std::vector<Real> v(p.nodes().size());
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (i % 1024 == 0) stop_if_interrupted();
    const Node& n = p.nodes()[i];
    const Real &a = v[n.a < i ? n.a : 0], &b = v[n.b < i ? n.b : 0];
    switch (n.step) {
      case ElementaryOperation::input: v[i] = inputs[n.a]; break;
      case ElementaryOperation::constant: v[i] = p.constants()[n.a]; break;
      case ElementaryOperation::add:
        v[i] = is_one_plus_erf(p, n) ? Real(boost::math::erfc(Real(-v[p.nodes()[n.b].a]))) : Real(a + b);
        break;
      case ElementaryOperation::sub: v[i] = a - b; break;
      case ElementaryOperation::mul: v[i] = a * b; break;
      case ElementaryOperation::div: v[i] = a / b; break;
      case ElementaryOperation::fma: v[i] = a * b + v[n.c]; break;
      case ElementaryOperation::sqrt: v[i] = sqrt(a); break;
      case ElementaryOperation::max: v[i] = a < b ? b : a; break;
      case ElementaryOperation::min: v[i] = b < a ? b : a; break;
      case ElementaryOperation::select: v[i] = a > b ? v[n.c] : Real(0); break;
      default: v[i] = real_function(n.step, a, b); break;
    }
  }
  std::vector<Real> outputs;
  for (const OperatorProgram::Value o : p.outputs()) outputs.push_back(v[o]);
  return outputs;
}

Evaluator::Evaluator(const OperatorProgram& p, const std::vector<Precision>& stages, const Rounding& rounding,
                     Trace* trace)
    : program_(&p), rounding_(rounding), trace_(trace), codes_(p.nodes().size()) {
  assert(stages.size() == p.stages().size());
  fp32_ = unit(fp32);
  for (const Precision& s : stages) stages_.push_back(stage(s));
}

std::size_t Evaluator::unit(const FloatFormat& f) {
  for (std::size_t i = 0; i < units_.size(); ++i)
    if (units_[i].format == f) return i;
  const Rounding& own = f == fp32 ? Rounding{} : rounding_;
  Unit u{f, Arithmetic(f, own, trace_), {}, f == fp32 && !trace_};
  for (const double c : program_->constants()) u.constants.push_back(encode(f, own, c).code);
  units_.push_back(std::move(u));
  return units_.size() - 1;
}

Evaluator::Stage Evaluator::stage(const Precision& precision) {
  const std::size_t operations = unit(precision.operations), tensors = unit(precision.tensors);
  return {operations, tensors, ++versions_};
}

std::uint64_t Evaluator::convert(std::size_t from, std::size_t to, std::uint64_t code) {
  return from == to ? code : units_[to].on.convert_from(units_[from].format, code);
}

std::uint64_t Evaluator::enter(const Stage& here, std::size_t from, std::uint64_t code) {
  return convert(here.tensors, here.operations, convert(from, here.tensors, code));
}

std::uint64_t Evaluator::read(const Node& reader, std::uint32_t node) {
  const std::uint16_t of = program_->nodes()[node].stage;
  Code& code = codes_[node];
  if (of == reader.stage) return code.own;
  const Stage &here = stages_[reader.stage], &there = stages_[of];
  if (code.where != here.version)
    code = {code.own, enter(here, there.tensors, convert(there.operations, there.tensors, code.own)), here.version};
  return code.entered;
}

namespace {

/// An IEEE operation on FP32 numbers; nothing for other operations. NaNs have other payloads than the emulation's,
/// which no value shows.
std::optional<float> native(ElementaryOperation step, float a, float b, float c) {
  switch (step) {
    case ElementaryOperation::add: return a + b;
    case ElementaryOperation::sub: return a - b;
    case ElementaryOperation::mul: return a * b;
    case ElementaryOperation::div: return a / b;
    case ElementaryOperation::fma: return std::fma(a, b, c);
    case ElementaryOperation::sqrt: return std::sqrt(a);
    default: return std::nullopt;
  }
}

float fp32_value(std::uint64_t code) { return std::bit_cast<float>(static_cast<std::uint32_t>(code)); }

}  // namespace

std::uint64_t Evaluator::apply(Unit& u, const Node& n, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  const FloatFormat& f = u.format;
  if (u.native)
    if (const auto result = native(n.step, fp32_value(a), fp32_value(b), fp32_value(c)))
      return std::bit_cast<std::uint32_t>(*result);
  switch (n.step) {
    case ElementaryOperation::add: return u.on.add(a, b);
    case ElementaryOperation::sub: return u.on.sub(a, b);
    case ElementaryOperation::mul: return u.on.mul(a, b);
    case ElementaryOperation::div: return u.on.div(a, b);
    case ElementaryOperation::fma: return u.on.fma(a, b, c);
    case ElementaryOperation::sqrt: return u.on.sqrt(a);
    case ElementaryOperation::max: return f.is_nan(a) ? a : f.is_nan(b) ? b : f.value(a) < f.value(b) ? b : a;
    case ElementaryOperation::min: return f.is_nan(a) ? a : f.is_nan(b) ? b : f.value(b) < f.value(a) ? b : a;
    case ElementaryOperation::select: return f.value(a) > f.value(b) ? c : f.zero(false);
    default: break;
  }
  return rounded_function(f, u.on.rounding(), n.step, a, b);
}

void Evaluator::evaluate(std::size_t node) {
  const Node& n = program_->nodes()[node];
  const Stage& here = stages_[n.stage];
  Unit& u = units_[here.operations];
  std::uint64_t code = 0;
  if (n.step == ElementaryOperation::input) {
    code = enter(here, fp32_, std::bit_cast<std::uint32_t>(static_cast<float>(inputs_[n.a])));
  } else if (n.step == ElementaryOperation::constant) {
    code = u.constants[n.a];
  } else {
    const int count = reads(n.step);
    code = apply(u, n, read(n, n.a), count > 1 ? read(n, n.b) : 0, count > 2 ? read(n, n.c) : 0);
  }
  codes_[node] = {.own = code};
}

std::vector<double> Evaluator::operator()(std::span<const double> inputs) {
  inputs_.assign(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < codes_.size(); ++i) {
    if (i % 1024 == 0) stop_if_interrupted();
    evaluate(i);
  }
  return outputs();
}

std::vector<double> Evaluator::again(std::size_t stage_number, const Precision& precision,
                                     const OperatorProgram::Values& depending) {
  stages_[stage_number] = stage(precision);
  for (std::size_t i = 0; i < depending.size(); ++i) {
    if (i % 1024 == 0) stop_if_interrupted();
    evaluate(depending[i]);
  }
  return outputs();
}

std::vector<double> Evaluator::outputs() {
  std::vector<double> values;
  for (const OperatorProgram::Value o : program_->outputs()) {
    const Stage& s = stages_[program_->nodes()[o].stage];
    values.push_back(units_[s.tensors].format.value(convert(s.operations, s.tensors, codes_[o].own)));
  }
  return values;
}

std::optional<ElementaryOperation> Evaluator::first_non_finite() const {
  for (std::size_t i = 0; i < codes_.size(); ++i) {
    const FloatFormat& f = units_[stages_[program_->nodes()[i].stage].operations].format;
    if (f.is_nan(codes_[i].own) || f.is_infinite(codes_[i].own)) return program_->nodes()[i].step;
  }
  return std::nullopt;
}

}  // namespace halfulp::operators
