#include <halfulp/experiments/attribution/product.hpp>
#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <cmath>

namespace halfulp::attribution {
namespace {

Rounding saturating(const Rounding& rounding) { return element_rounding(rounding); }

/// A number of the element's grid as an element: integers saturate at their least and their largest.
double as_element(const OperandFormat& f, double on_grid) {
  if (!f.integers()) return on_grid;
  const double unit = FloatFormat::power_of_two(-f.block->element.fraction_bits);
  return std::min(std::max(on_grid, f.block->element.least() * unit), f.block->element.most() * unit);
}

}  // namespace

OperandFormat parse_operand_format(const std::string& name) {
  OperandFormat f{name, {}, {}};
  if (!names_block_format(name)) {
    try {
      f.grid = parse_format(name);
    } catch (const std::invalid_argument&) {
      std::vector<std::string> names;
      for (const NamedBlockFormat& row : block_catalogue()) names.emplace_back(row.name);
      for (const NamedFormat& row : catalogue()) names.emplace_back(row.name);
      throw std::invalid_argument("formats: " + unknown_name("format", name, std::move(names)) +
                                  ", or a description as e4m3/1x64/e8m0/rceil or e5m3");
    }
    if (!f.grid.has_zero || !f.grid.is_signed)
      throw std::invalid_argument("formats: " + name + " has no zero or no sign: it holds no matrix");
    if (f.grid.precision() > 26)
      throw std::invalid_argument("formats: " + name +
                                  " has more than 26 significant bits; products of its numbers are to be doubles");
    return f;
  }
  f.block = parse_block_format(name);
  if (f.block->element.is_affine())
    throw std::invalid_argument("formats: " + name + " has a zero point; accepted are formats without");
  if (f.block->tensor_scale && f.block->scale.precision() > 5)
    throw std::invalid_argument("formats: " + name + " has a tensor scale over scales of more than 5 significant bits");
  f.grid = element_grid(f.block->element);
  return f;
}

std::int64_t OperandStates::odd() const {
  double t = target;
  while (t == std::floor(t) && std::fmod(t, 2) == 0) t /= 2;
  while (t != std::floor(t)) t *= 2;
  return static_cast<std::int64_t>(t);
}

double ideal_element(const OperandFormat& format, const Rounding& rounding, double v, double target, double amax) {
  if (v == 0 || amax == 0) return 0;
  const Rounding r = format.block ? saturating(rounding) : rounding;
  const double q = v * target / amax, doubt = std::fabs(q) * 0x1p-50;
  const std::uint64_t low = encode(format.grid, r, q - doubt).code, high = encode(format.grid, r, q + doubt).code;
  const std::uint64_t code = low == high && std::fabs(q) > 0x1p-900
                                 ? low
                                 : rounded(format.grid, r, Dyadic(v) * Dyadic(target), Dyadic(amax));
  return as_element(format, format.grid.value(code));
}

OperandStates make_operand(const OperandFormat& format, const Rounding& rounding, std::vector<double> values,
                           std::size_t rows, std::size_t columns) {
  for (const double v : values)
    if (v != 0 && !(std::fabs(v) >= 0x1p-900 && std::fabs(v) <= 0x1p900))
      throw std::invalid_argument("values outside 2^-900 to 2^900 in magnitude, other than 0");
  OperandStates o;
  o.format = format, o.rows = rows, o.columns = columns, o.exact = std::move(values);
  if (!format.block) {
    o.grid = {rows, columns, rows, columns, 1, 1};
    o.amax = o.scale = {1};
    o.scaled = o.exact;
    for (const double v : o.exact) {
      o.rounded[1].push_back(format.grid.value(encode(format.grid, rounding, v).code));
      if (!std::isfinite(o.rounded[1].back()))
        throw std::invalid_argument("values beyond the range of " + format.name + ", which has no scale");
    }
    o.rounded[0] = o.rounded[1];
    return o;
  }

  const BlockFormat& f = *format.block;
  std::vector<float> single;
  for (const double v : o.exact) {
    if (std::fabs(v) > std::numeric_limits<float>::max())
      throw std::invalid_argument("values beyond the range of fp32, from which " + format.name + " is made");
    single.push_back(static_cast<float>(v));
  }
  o.grid = block_grid(f, rows, columns);
  o.array = quantize_blocks(f, rounding, single, rows, columns);
  o.target = f.element.target();
  o.tensor = f.tensor_scale ? double{o.array->tensor_scale} : 1.0;
  o.amax.assign(o.grid.count(), 0);
  for (std::size_t i = 0; i < o.size(); ++i)
    o.amax[o.block(i)] = std::max(o.amax[o.block(i)], double{std::fabs(single[i])});
  // A number that is not 0 may be 0 in fp32. If all of a block are, a power of two sets its scale.
  for (std::size_t i = 0; i < o.size(); ++i) {
    double& amax = o.amax[o.block(i)];
    if (amax == 0 && o.exact[i] != 0) amax = FloatFormat::power_of_two(std::ilogb(o.exact[i]));
  }
  std::vector<BlockStep> steps;
  for (std::size_t b = 0; b < o.grid.count(); ++b) {
    steps.push_back(block_step(f, static_cast<float>(o.amax[b]), o.array->tensor_scale));
    if (steps.back().scale != o.array->scales[b])
      throw std::logic_error("attribution: a scale is not that of its block");
    o.scale.push_back(f.scale.value(o.array->scales[b]));
  }
  for (std::size_t i = 0; i < o.size(); ++i) {
    const BlockStep& step = steps[o.block(i)];
    const float q = step.divides ? single[i] / step.factor : single[i] * step.factor;
    if (!std::isfinite(q)) throw std::invalid_argument("values that leave fp32 when " + format.name + " scales them");
    o.scaled.push_back(double{q});
    o.rounded[1].push_back(f.element.value(o.array->codes[i]));
    o.rounded[0].push_back(ideal_element(format, rounding, o.exact[i], o.target, o.amax[o.block(i)]));
  }
  return o;
}

std::vector<double> values(const OperandStates& o, bool scaling, bool input) {
  if (!scaling && !input) return o.exact;
  std::vector<double> all(o.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t b = o.block(i);
    if (!scaling) all[i] = o.rounded[0][i] * o.amax[b] / o.even();  // exact: even() is a power of two
    else all[i] = (input ? o.rounded[1][i] : o.scaled[i]) * (o.scale[b] * o.tensor);
  }
  return all;
}

namespace {

std::vector<Dyadic> difference(const Outputs& a, const Outputs& b, std::vector<std::uint8_t>& finite) {
  std::vector<Dyadic> d;
  for (std::size_t o = 0; o < a.values.size(); ++o) {
    finite[o] = finite[o] && a.finite[o] && b.finite[o];
    d.push_back(a.values[o] - b.values[o]);
  }
  return d;
}

double norm(const std::vector<Dyadic>& values, std::int64_t common) {
  double squares = 0;
  for (const Dyadic& v : values) {
    const double x = quotient(v, common);
    squares += x * x;
  }
  return std::sqrt(squares);
}

}  // namespace

std::size_t Split::not_adding_up(const Parts& parts) const {
  std::size_t wrong = 0;
  for (std::size_t o = 0; o < total.size(); ++o) {
    Dyadic sum;
    for (const auto& part : parts) sum += part[o];
    wrong += !(sum == total[o]);
  }
  return wrong;
}

Split split(SwitchedProduct& product, Sources active) {
  Split s;
  const std::size_t count = product.count();
  s.finite.assign(count, 1);
  const auto defined = [&](Sources on) {
    return product.real_refusal().empty() || !has(on, ErrorSource::accumulation) || has(on, ErrorSource::input);
  };
  const auto part = [&](Sources before, ErrorSource source, bool& is_defined) {
    const Sources from = before & active, to = (before | only(source)) & active;
    is_defined = defined(from) && defined(to);
    if (!is_defined) return std::vector<Dyadic>(count);
    return difference(product.outputs(to), product.outputs(from), s.finite);
  };
  Sources before = 0, behind = 0;
  for (std::size_t i = 0; i < source_count; ++i) {
    const auto source = static_cast<ErrorSource>(i);
    bool always = false;
    s.forward[i] = part(before, source, always);
    s.alone[i] = part(0, source, s.has_alone[i]);
    before |= only(source);
  }
  for (std::size_t i = source_count; i-- > 0;) {
    const auto source = static_cast<ErrorSource>(i);
    s.reverse[i] = part(behind, source, s.has_reverse[i]);
    behind |= only(source);
  }
  const Outputs none = product.outputs(0);
  s.exact = none.values;
  s.total = difference(product.outputs(active), none, s.finite);
  for (std::size_t o = 0; o < count; ++o) {
    if (s.finite[o]) continue;
    s.exact[o] = s.total[o] = Dyadic();
    for (auto* parts : {&s.forward, &s.reverse, &s.alone})
      for (auto& p : *parts) p[o] = Dyadic();
  }
  return s;
}

Measure measure(const std::vector<Dyadic>& part, const Split& of, std::int64_t common) {
  Measure m;
  double squares = 0, size = 0, with_total = 0, total_squares = 0, signed_sum = 0, magnitudes = 0;
  for (std::size_t o = 0; o < part.size(); ++o) {
    const double x = quotient(part[o], common), e = quotient(of.exact[o], common), t = quotient(of.total[o], common);
    squares += x * x, size += e * e, with_total += x * t, total_squares += t * t;
    magnitudes += std::fabs(x);
    signed_sum += of.exact[o].n < 0 ? -x : of.exact[o].is_zero() ? 0 : x;
    m.largest = std::max(m.largest, std::fabs(x));
    if (e != 0) m.relative = std::max(m.relative, std::fabs(x / e));
  }
  if (size > 0) m.norm = std::sqrt(squares / size);
  if (total_squares > 0) m.share = with_total / total_squares;
  if (magnitudes > 0) m.bias = signed_sum / magnitudes;
  return m;
}

ChannelPart channel_part(const OperandStates& a, const OperandStates& b, const std::vector<std::uint8_t>& chosen) {
  const std::int64_t common = a.odd() * b.odd();
  const auto product = [&](bool scaling, bool input, bool all) {
    auto x = values(a, scaling, input), y = values(b, scaling, input);
    if (!all)
      for (std::size_t i = 0; i < x.size(); ++i)
        if (!chosen[i % a.columns]) x[i] = 0;
    const ExactRows p(x, a.rows, a.columns), q(y, b.rows, b.columns);
    std::vector<Dyadic> out;
    for (std::size_t o = 0; o < a.rows * b.rows; ++o)
      out.push_back(exact_dot(p, o / b.rows, q, o % b.rows, 0, a.columns) * Dyadic(Units(common), 0));
    return out;
  };
  const double size = norm(product(false, false, true), common);
  if (size == 0) return {};
  const auto none = product(false, false, false), scaled = product(true, false, false),
             both = product(true, true, false);
  const auto apart = [&](const std::vector<Dyadic>& x, const std::vector<Dyadic>& y) {
    std::vector<Dyadic> d;
    for (std::size_t o = 0; o < x.size(); ++o) d.push_back(x[o] - y[o]);
    return norm(d, common) / size;
  };
  return {apart(scaled, none), apart(both, scaled)};
}

}  // namespace halfulp::attribution
