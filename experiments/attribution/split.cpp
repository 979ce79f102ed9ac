#include <halfulp/experiments/attribution/split.hpp>

#include <algorithm>
#include <cmath>

namespace halfulp::attribution {
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

Split split(Product& product, Sources active) {
  Split s;
  const std::size_t count = product.count();
  s.finite.assign(count, 1);
  const auto defined = [&](Sources on) { return product.real_refusal().empty() || !has(on, Source::accumulation) || has(on, Source::input); };
  const auto part = [&](Sources before, Source source, bool& is_defined) {
    const Sources from = before & active, to = (before | only(source)) & active;
    is_defined = defined(from) && defined(to);
    if (!is_defined) return std::vector<Dyadic>(count);
    return difference(product.outputs(to), product.outputs(from), s.finite);
  };
  Sources before = 0, behind = 0;
  for (std::size_t i = 0; i < source_count; ++i) {
    const auto source = static_cast<Source>(i);
    bool always = false;
    s.forward[i] = part(before, source, always);
    s.alone[i] = part(0, source, s.has_alone[i]);
    before |= only(source);
  }
  for (std::size_t i = source_count; i-- > 0;) {
    const auto source = static_cast<Source>(i);
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

ChannelPart channel_part(const Operand& a, const Operand& b, const std::vector<std::uint8_t>& chosen) {
  const std::int64_t common = a.odd() * b.odd();
  const auto product = [&](bool scaling, bool input, bool all) {
    auto x = values(a, scaling, input), y = values(b, scaling, input);
    if (!all)
      for (std::size_t i = 0; i < x.size(); ++i)
        if (!chosen[i % a.columns]) x[i] = 0;
    const ExactRows p(x, a.rows, a.columns), q(y, b.rows, b.columns);
    std::vector<Dyadic> out;
    for (std::size_t o = 0; o < a.rows * b.rows; ++o) out.push_back(exact_dot(p, o / b.rows, q, o % b.rows, 0, a.columns) * Dyadic(Units(common), 0));
    return out;
  };
  const double size = norm(product(false, false, true), common);
  if (size == 0) return {};
  const auto none = product(false, false, false), scaled = product(true, false, false), both = product(true, true, false);
  const auto apart = [&](const std::vector<Dyadic>& x, const std::vector<Dyadic>& y) {
    std::vector<Dyadic> d;
    for (std::size_t o = 0; o < x.size(); ++o) d.push_back(x[o] - y[o]);
    return norm(d, common) / size;
  };
  return {apart(scaled, none), apart(both, scaled)};
}

}  // namespace halfulp::attribution
