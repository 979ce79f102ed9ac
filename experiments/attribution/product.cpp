#include <halfulp/experiments/attribution/product.hpp>

#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/product/product.hpp>
#include <halfulp/experiments/attribution/attribution.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <bit>
#include <charconv>
#include <cmath>

namespace halfulp::attribution {

std::uint64_t defined_output(const OperandStates& a, std::size_t i, const OperandStates& b, std::size_t j,
                             const Inside& inside, const std::optional<FloatFormat>& output, Trace* trace) {
  Arithmetic single(fp32, {}, trace);
  const bool has_scales = a.has_scales() || b.has_scales();
  const auto row = [](const OperandStates& x, std::size_t r, const FloatFormat& f, std::size_t begin, std::size_t end) {
    auto words = words_of(f, std::span(x.rounded[1]).subspan(r * x.columns + begin, end - begin));
    return words;
  };
  FloatFormat format = fp32;
  const auto sum = [&](std::size_t begin, std::size_t end) {
    if (const MatrixUnit* unit = inside.unit()) {
      auto x = row(a, i, unit->a, begin, end), y = row(b, j, unit->b, begin, end);
      for (std::uint64_t& w : x) w = code_word(unit->a, w);
      for (std::uint64_t& w : y) w = code_word(unit->b, w);
      format = unit->accumulator;
      return mma(*unit, {x, y, {}, {}}, unit->accumulator.zero());
    }
    if (inside.model()) {
      DotModel model = *inside.model();
      model.input = a.format.grid, model.input_b = b.format.grid;
      DotEngine<Arithmetic> engine(model,
                                   [&](const FloatFormat& f, const Rounding& r) { return Arithmetic(f, r, trace); });
      format = model.result();
      return engine.dot(row(a, i, a.format.grid, begin, end), row(b, j, b.format.grid, begin, end));
    }
    Dyadic exact;
    for (std::size_t k = begin; k < end; ++k)
      exact += Dyadic(a.rounded[1][i * a.columns + k]) * Dyadic(b.rounded[1][j * b.columns + k]);
    return rounded(fp32, {}, exact, Dyadic(1.0));
  };
  std::uint64_t total = 0, p = 0;
  bool begun = false, first = true;
  const std::vector<Segment> segments = segments_of(a.columns, a.grid.block_columns, b.grid.block_columns,
                                                    inside.promote_every);
  if (!has_scales && segments.size() == 1) {
    total = sum(0, a.columns);
    return output && *output != format ? Arithmetic(*output, {}, trace).convert_from(format, total) : total;
  }
  for (const Segment& s : segments) {
    std::uint64_t part = sum(s.begin, s.end);
    if (format != fp32) part = single.convert_from(format, part);
    p = begun ? single.add(p, part) : part;
    begun = !s.last;
    if (!s.last) continue;
    for (const auto& [x, r] : {std::pair{&a, i}, std::pair{&b, j}})
      if (x->has_scales()) p = single.mul(p, encode(fp32, {}, x->scale[x->grid.index(r, s.begin)]).code);
    total = first ? p : single.add(total, p);
    first = false;
  }
  for (const OperandStates* x : {&a, &b})
    if (x->has_scales() && x->format.block->tensor_scale) total = single.mul(total, encode(fp32, {}, x->tensor).code);
  return output && *output != fp32 ? Arithmetic(*output, {}, trace).convert_from(fp32, total) : total;
}

namespace {

float float_of(std::uint64_t fp32_code) { return std::bit_cast<float>(static_cast<std::uint32_t>(fp32_code)); }

/// The model with the formats of these operands.
DotModel fitted(const DotModel& model, const OperandFormat& a, const OperandFormat& b) {
  DotModel m = model;
  m.input = a.grid;
  m.input_b.reset();
  if (b.grid != a.grid) m.input_b = b.grid;
  return m;
}

}  // namespace

Inside parse_inside(const std::string& text) {
  Inside inside{text, {}, 0};
  std::string rest = text;
  if (const std::size_t at = text.rfind('@'); at != std::string::npos) {
    const std::string digits = text.substr(at + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), inside.promote_every);
    if (error != std::errc{} || end != digits.data() + digits.size() || inside.promote_every == 0 ||
        inside.promote_every > (1u << 24))
      throw std::invalid_argument("accumulators: '" + text + "' has no number of products from 1 to 16777216 behind @");
    rest = text.substr(0, at);
  }
  if (rest == "exact") return inside;
  ProductModel parsed = DotModel{};
  try {
    parsed = parse_product_model(rest);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument("accumulators: " + std::string(error.what()) + "; or exact");
  }
  if (auto* unit = std::get_if<MatrixUnit>(&parsed)) {
    if (unit->scaled())
      throw std::invalid_argument("accumulators: " + unit->name +
                                  " takes scales itself, which are applied outside here; choose a unit without");
    inside.by = *unit;
    return inside;
  }
  auto& model = std::get<DotModel>(parsed);
  if (model.output)
    throw std::invalid_argument("accumulators: '" + text +
                                "' has an output format (out=), which the parameter output says");
  for (const Stage* s :
       {&std::as_const(model.accumulator), &model.outer(), model.product ? &std::as_const(*model.product) : nullptr})
    if (s && s->rounding.mode == RoundingMode::stochastic)
      throw std::invalid_argument("accumulators: '" + text + "' rounds stochastically; accepted are the other modes");
  inside.by = model;
  return inside;
}

std::string refusal(const Inside& inside, const OperandFormat& a, const OperandFormat& b) {
  if (std::holds_alternative<std::monostate>(inside.by)) return {};
  if (a.integers() || b.integers()) return "integers are summed exactly";
  if (const DotModel* model = inside.model()) return dot_refusal(fitted(*model, a, b));
  const MatrixUnit& unit = *inside.unit();
  if (!holds(unit.a, a.grid) || !holds(unit.b, b.grid)) return "the unit's operands do not hold every element";
  return {};
}

std::vector<std::uint64_t> words_of(const FloatFormat& f, std::span<const double> values) {
  std::vector<std::uint64_t> words;
  for (const double v : values) words.push_back(encode(f, {}, v).code);
  return words;
}

SwitchedProduct::SwitchedProduct(const OperandStates& a, const OperandStates& b, Inside inside,
                                 std::optional<FloatFormat> output)
    : a_(a), b_(b), inside_(std::move(inside)), output_(output) {
  if (const DotModel* model = inside_.model()) inside_.by = fitted(*model, a.format, b.format);
  if (const MatrixUnit* unit = inside_.unit()) real_refusal_ = attribution::real_refusal(*unit);
  segments_ = segments_of(a.columns, a.grid.block_columns, b.grid.block_columns, inside_.promote_every);
}

const FloatFormat& SwitchedProduct::inner_format() const {
  if (const DotModel* model = inside_.model()) return model->outer().format;
  return inside_.unit() ? inside_.unit()->accumulator : fp32;
}

const FloatFormat& SwitchedProduct::result() const {
  if (output_) return *output_;
  return joins() ? fp32 : inner_format();
}

Outputs SwitchedProduct::exact(bool scaling, bool input) const {
  const ExactRows x(values(a_, scaling, input), a_.rows, a_.columns),
      y(values(b_, scaling, input), b_.rows, b_.columns);
  // With scaling off and input on, the operands already contain their odd factors.
  const Dyadic factor(Units(!scaling && input ? 1 : common()), 0);
  Outputs out;
  for (std::size_t o = 0; o < count(); ++o) {
    stop_if_interrupted();
    out.values.push_back(exact_dot(x, o / b_.rows, y, o % b_.rows, 0, a_.columns) * factor);
  }
  out.finite.assign(count(), 1);
  return out;
}

/// q of a state; in real terms, a target and an amax may accompany it.
const std::vector<double>& SwitchedProduct::numbers(const OperandStates& operand, bool scaling, bool input) const {
  if (input) return operand.rounded[scaling];
  return scaling ? operand.scaled : operand.exact;
}

namespace {
/// The terms of one output in a segment.
RealTerms terms_of(const OperandStates& a, std::span<const double> x, std::size_t i, const OperandStates& b,
                   std::span<const double> y, std::size_t j, std::size_t begin, std::size_t end, bool real) {
  RealTerms t{x.subspan(i * a.columns + begin, end - begin), y.subspan(j * b.columns + begin, end - begin)};
  if (!real) return t;
  t.target_x = a.target, t.amax_x = a.amax[a.grid.index(i, begin)];
  t.target_y = b.target, t.amax_y = b.amax[b.grid.index(j, begin)];
  return t;
}
}  // namespace

Outputs SwitchedProduct::rounded_products(bool scaling, bool input) const {
  const Stage& stage = *inside_.model()->product;
  const auto &x = numbers(a_, scaling, input), &y = numbers(b_, scaling, input);
  Outputs out;
  out.finite.assign(count(), 1);
  for (std::size_t o = 0; o < count(); ++o) {
    stop_if_interrupted();
    const std::size_t i = o / b_.rows, j = o % b_.rows;
    Dyadic total;
    for (const Segment& s : segments_) {
      const RealTerms terms = terms_of(a_, x, i, b_, y, j, s.begin, s.end, !scaling && !input);
      Dyadic sum;
      for (std::size_t k = 0; k < terms.size(); ++k) {
        const std::uint64_t code = rounded_term(stage.format, stage.rounding, terms, k);
        if (stage.format.is_finite(code)) sum += Dyadic(stage.format.value(code));
        else out.finite[o] = 0;
      }
      const std::size_t p = a_.grid.index(i, s.begin), q = b_.grid.index(j, s.begin);
      if (scaling)
        total += sum * Dyadic(a_.scale[p]) * Dyadic(a_.tensor) * Dyadic(b_.scale[q]) * Dyadic(b_.tensor) *
                 Dyadic(Units(common()), 0);
      else total += sum * Dyadic(a_.amax[p] / a_.even()) * Dyadic(b_.amax[q] / b_.even());
    }
    out.values.push_back(std::move(total));
  }
  return out;
}

struct SwitchedProduct::State {
  const std::vector<double>&x, &y;
  bool real;                                    ///< whether a target and an amax accompany the numbers
  bool products;                                ///< whether products are rounded
  std::vector<std::uint64_t> words_x, words_y;  ///< code words for gemm, or none
  std::optional<ExactRows> exact_x, exact_y;    ///< for exact sums
  std::vector<int> ex, ey;                      ///< exponents of real factors, for a unit's sums
};

SwitchedProduct::State SwitchedProduct::state(bool scaling, bool input, bool products) const {
  State s{
      numbers(a_, scaling, input), numbers(b_, scaling, input), !scaling && !input, products, {}, {}, {}, {}, {}, {}};
  const DotModel* model = inside_.model();
  const MatrixUnit* unit = inside_.unit();
  if (!model && !unit) {
    s.exact_x.emplace(s.x, a_.rows, a_.columns), s.exact_y.emplace(s.y, b_.rows, b_.columns);
  } else if (input && (products || !separate_products())) {
    s.words_x = words_of(unit ? unit->a : model->input, s.x),
    s.words_y = words_of(unit ? unit->b : model->second(), s.y);
    if (unit)
      for (auto [words, format] : {std::pair{&s.words_x, &unit->a}, std::pair{&s.words_y, &unit->b}})
        for (std::uint64_t& w : *words) w = code_word(*format, w);
  } else if (unit) {
    const auto exponents = [&](const OperandStates& operand, const FloatFormat& f, const std::vector<double>& q) {
      std::vector<int> e;
      for (std::size_t i = 0; i < q.size(); ++i)
        e.push_back(real_exponent(f, q[i], s.real ? operand.target : 1, s.real ? operand.amax[operand.block(i)] : 1));
      return e;
    };
    s.ex = exponents(a_, unit->a, s.x), s.ey = exponents(b_, unit->b, s.y);
  }
  return s;
}

/// The sums of a segment's products, as words of inner_format().
SwitchedProduct::Words SwitchedProduct::segment_words(const State& state, const Segment& s) const {
  Words out{inner_format(), std::vector<std::uint64_t>(count())};
  const DotModel* model = inside_.model();
  const MatrixUnit* unit = inside_.unit();
  if (!state.words_x.empty()) {
    GemmOperands g;
    g.m = a_.rows, g.n = b_.rows, g.k = s.end - s.begin;
    g.a = CodeWords(std::span<const std::uint64_t>(state.words_x).subspan(s.begin));
    g.b = CodeWords(std::span<const std::uint64_t>(state.words_y).subspan(s.begin));
    g.lda = a_.columns, g.ldb = b_.columns, g.transpose_b = true;
    gemm<std::uint64_t>(unit ? ProductModel(*unit) : ProductModel(*model), g, std::span<std::uint64_t>(out.codes));
    return out;
  }
  for (std::size_t o = 0; o < count(); ++o) {
    const std::size_t i = o / b_.rows, j = o % b_.rows;
    const RealTerms terms = terms_of(a_, state.x, i, b_, state.y, j, s.begin, s.end, state.real);
    if (model) {
      out.codes[o] = real_sum(*model, state.products, terms);
    } else if (unit) {
      out.codes[o] = real_sum(*unit, terms, std::span(state.ex).subspan(i * a_.columns + s.begin, terms.size()),
                              std::span(state.ey).subspan(j * b_.columns + s.begin, terms.size()));
    } else if (!terms.vanish()) {
      const Dyadic sum = exact_dot(*state.exact_x, i, *state.exact_y, j, s.begin, s.end);
      out.codes[o] = attribution::rounded(fp32, {}, sum * Dyadic(terms.target_x) * Dyadic(terms.target_y),
                                          terms.denominator());
    }
  }
  return out;
}

/// A sum times the scale of a block, in fp32: the format's scale, or the real number amax / target.
float SwitchedProduct::scaled(const OperandStates& operand, std::size_t block, bool scaling, float sum) const {
  if (!operand.has_scales()) return sum;
  if (scaling) return sum * static_cast<float>(operand.scale[block]);
  if (!std::isfinite(sum)) return sum;
  return float_of(attribution::rounded(fp32, {}, Dyadic(double{sum}) * Dyadic(operand.amax[block]),
                                       Dyadic(operand.target) * Dyadic(operand.tensor)));
}

SwitchedProduct::Words SwitchedProduct::accumulated(bool scaling, bool input, bool products) const {
  if (segments_.empty()) return {result(), std::vector<std::uint64_t>(count())};
  const State operands = state(scaling, input, products);
  if (!joins()) return segment_words(operands, segments_.front());
  std::vector<float> totals(count());
  add_segments(
      segments_, a_.rows, b_.rows, totals,
      [&](const Segment& s, std::span<float> to) {
        const Words part = segment_words(operands, s);
        for (std::size_t o = 0; o < count(); ++o)
          to[o] = float_of(part.format == fp32 ? part.codes[o] : convert(part.format, fp32, {}, part.codes[o]).code);
      },
      [&](const Segment& s, std::size_t i, float* row) {
        const std::size_t block = a_.grid.index(i, s.begin);
        for (std::size_t j = 0; j < b_.rows; ++j)
          row[j] = scaled(b_, b_.grid.index(j, s.begin), scaling, scaled(a_, block, scaling, row[j]));
      });
  Words words{fp32, {}};
  for (float total : totals) {
    for (const OperandStates* x : {&a_, &b_})
      if (x->has_scales() && x->format.block->tensor_scale) total *= static_cast<float>(x->tensor);
    words.codes.push_back(encode(fp32, {}, double{total}).code);
  }
  return words;
}

Outputs SwitchedProduct::of_words(const Words& words) const {
  Outputs out;
  const Dyadic factor(Units(common()), 0);
  for (const std::uint64_t c : words.codes) {
    out.finite.push_back(words.format.is_finite(c));
    out.values.push_back(out.finite.back() ? Dyadic(words.format.value(c)) * factor : Dyadic());
  }
  return out;
}

const Outputs& SwitchedProduct::before_output(Sources on) {
  const bool scaling = has(on, ErrorSource::scaling), input = has(on, ErrorSource::input),
             products = has(on, ErrorSource::products) && separate_products();
  Sources key = on & ~only(ErrorSource::output);
  if (!products) key &= ~only(ErrorSource::products);
  if (const auto found = kept_.find(key); found != kept_.end()) return found->second;
  if (has(on, ErrorSource::accumulation)) {
    kept_words_[key] = accumulated(scaling, input, products);
    return kept_[key] = of_words(kept_words_[key]);
  }
  return kept_[key] = products ? rounded_products(scaling, input) : exact(scaling, input);
}

Outputs SwitchedProduct::outputs(Sources on) {
  const Outputs& before = before_output(on);
  if (!has(on, ErrorSource::output) || !output_) return before;
  Words words{*output_, {}};
  const Dyadic divisor(Units(common()), 0);
  for (const Dyadic& v : before.values) words.codes.push_back(attribution::rounded(*output_, {}, v, divisor));
  Outputs out = of_words(words);
  for (std::size_t o = 0; o < count(); ++o) out.finite[o] = out.finite[o] && before.finite[o];
  return out;
}

std::vector<std::uint64_t> SwitchedProduct::words() {
  before_output(all_sources);
  const Words& w = kept_words_.at(separate_products()
                                      ? all_sources & ~only(ErrorSource::output)
                                      : all_sources & ~(only(ErrorSource::output) | only(ErrorSource::products)));
  if (!output_ || w.format == *output_) return w.codes;
  std::vector<std::uint64_t> codes;
  for (const std::uint64_t c : w.codes) codes.push_back(convert(w.format, *output_, {}, c).code);
  return codes;
}

}  // namespace halfulp::attribution
