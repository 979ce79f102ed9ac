#include <halfulp/experiments/conversions/conversions.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace halfulp::conversions {
namespace {

constexpr std::size_t most_members = 6, most_chains = 64;
constexpr int widest_target = 20;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) parts.emplace_back();
    else if (c != ' ' && c != '\t' && c != '\n') parts.back() += c;
  }
  return parts;
}

FloatFormat format_of(const NumberType& type, const std::string& name, const std::string& chain) {
  if (const auto* f = std::get_if<FloatFormat>(&type)) return *f;
  throw std::invalid_argument(
      fmt::format("chains: {} is an integer type and can only be the first member of {}", name, chain));
}

std::uint64_t convert_to(const NumberType& from, const FloatFormat& to, const Rounding& rounding, std::uint64_t code) {
  if (const auto* integer = std::get_if<IntegerType>(&from)) return from_integer(*integer, to, rounding, code).code;
  return convert(std::get<FloatFormat>(from), to, rounding, code).code;
}

}  // namespace

ConversionChain parse_chain(std::string_view text) {
  const std::vector<std::string> names = split(text, '>');
  ConversionChain chain;
  for (const std::string& name : names) chain.text += (chain.text.empty() ? "" : ">") + name;
  if (names.size() < 3 || names.size() > most_members)
    throw std::invalid_argument(fmt::format(
        "chains: '{}' has {} {}; accepted are 3 to {}: a type, formats on the way and a format, as in fp32>bf16>e4m3",
        chain.text, names.size(), names.size() == 1 ? "member" : "members", most_members));
  std::vector<NumberType> types;
  for (const std::string& name : names) {
    try {
      types.push_back(parse_number_type(name));
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(fmt::format("chains: {}: {}", chain.text, e.what()));
    }
  }
  chain.from = types.front();
  for (std::size_t i = 1; i + 1 < types.size(); ++i) chain.via.push_back(format_of(types[i], names[i], chain.text));
  chain.to = format_of(types.back(), names.back(), chain.text);
  if (chain.to.storage_bits() > widest_target)
    throw std::invalid_argument(fmt::format("chains: {}: {} has {} bits; accepted are targets of up to {}", chain.text,
                                            names.back(), chain.to.storage_bits(), widest_target));
  return chain;
}

std::vector<ConversionChain> parse_chains(const std::string& text) {
  std::vector<ConversionChain> chains;
  for (const std::string& part : split(text, ',')) {
    chains.push_back(parse_chain(part));
    if (std::count_if(chains.begin(), chains.end(),
                      [&](const ConversionChain& c) { return c.text == chains.back().text; }) > 1)
      throw std::invalid_argument(fmt::format("chains: {} is there twice", chains.back().text));
  }
  if (chains.size() > most_chains)
    throw std::invalid_argument(fmt::format("chains: {} chains; accepted are up to {}", chains.size(), most_chains));
  return chains;
}

std::uint64_t direct(const ConversionChain& chain, const Rounding& rounding, std::uint64_t code) {
  return convert_to(chain.from, chain.to, rounding, code);
}

std::uint64_t first_step(const ConversionChain& chain, const Rounding& rounding, std::uint64_t code) {
  return convert_to(chain.from, chain.via.front(), rounding, code);
}

std::uint64_t chained(const ConversionChain& chain, const ChainRounding& rounding, std::uint64_t code) {
  std::uint64_t x = first_step(chain, rounding.via, code);
  for (std::size_t i = 1; i < chain.via.size(); ++i) x = convert(chain.via[i - 1], chain.via[i], rounding.via, x).code;
  return convert(chain.via.back(), chain.to, rounding.last, x).code;
}

std::uint64_t place(const FloatFormat& f, std::uint64_t code, bool negative) {
  if (f.is_nan(code) || (negative && !f.sign(code) && f.magnitude(code) != 0)) return last_place(f);
  return f.magnitude(code);
}

MagnitudeLine::MagnitudeLine(const NumberType& type, bool negative) : type_(type), negative_(negative) {
  if (const auto* f = std::get_if<FloatFormat>(&type_)) {
    size_ = uint128{f->max_finite()} + 1;
  } else {
    const auto& integer = std::get<IntegerType>(type_);
    size_ = (uint128{1} << (integer.bits - (integer.is_signed ? 1 : 0))) + (negative ? 1 : 0);
  }
}

std::uint64_t MagnitudeLine::code(uint128 position) const {
  const auto magnitude = static_cast<std::uint64_t>(position);
  if (const auto* f = std::get_if<FloatFormat>(&type_))
    return magnitude == 0 && f->has_zero ? f->zero(negative_) : f->with_sign(magnitude, negative_);
  return (negative_ ? 0 - magnitude : magnitude) & std::get<IntegerType>(type_).mask();
}

uint128 MagnitudeLine::position_of_power(int e) const {
  const auto* f = std::get_if<FloatFormat>(&type_);
  if (!f) return e < 0 ? uint128{1} : e > 64 ? size_ : std::min(size_, uint128{1} << e);
  const int lowest = f->emin() - f->fraction_bits;
  if (e > f->emax()) return size_;
  if (f->has_zero && e < f->emin()) return e < lowest ? 1 : uint128{1} << (e - lowest);
  if (e < f->emin()) return 0;
  return (uint128{static_cast<std::uint64_t>(e - f->emin())} + (f->has_zero ? 1 : 0)) << f->fraction_bits;
}

int MagnitudeLine::exponent(uint128 position) const {
  const auto magnitude = static_cast<std::uint64_t>(position);
  if (const auto* f = std::get_if<FloatFormat>(&type_))
    return f->exponent(magnitude) + std::bit_width(f->significand(magnitude)) - 1;
  return std::bit_width(magnitude) - 1;
}

bool has_signs(const ConversionChain& chain) {
  const auto* f = std::get_if<FloatFormat>(&chain.from);
  if (f ? !f->is_signed : !std::get<IntegerType>(chain.from).is_signed) return false;
  return chain.to.is_signed &&
         std::all_of(chain.via.begin(), chain.via.end(), [](const FloatFormat& v) { return v.is_signed; });
}

namespace {

bool has_negative_zero(const NumberType& type) {
  const auto* f = std::get_if<FloatFormat>(&type);
  return f && f->has_negative_zero();
}

}  // namespace

ChainWitness witness(const ConversionChain& chain, const ChainRounding& rounding, std::uint64_t input) {
  return {input, first_step(chain, rounding.via, input), direct(chain, rounding.last, input),
          chained(chain, rounding, input)};
}

uint128 inputs_of(const ConversionChain& chain) {
  const uint128 positive = MagnitudeLine(chain.from, false).size();
  if (!has_signs(chain)) return positive;
  return positive + MagnitudeLine(chain.from, true).size() -
         (has_negative_zero(chain.from) ? 0 : 1);  // lines begin with zero
}

ChainErrors measure(const ConversionChain& chain, const ChainRounding& rounding, Look look, Trace* trace) {
  const FloatFormat& to = chain.to;
  ChainErrors m;
  std::optional<uint128> smallest, example;  // positions
  for (const bool negative : {false, true}) {
    if (negative && !has_signs(chain)) break;
    const MagnitudeLine line(chain.from, negative);
    DifferingRanges& d = m.of_sign[negative];
    d = differences(
        line.size(), last_place(to), to.min_normal(), to.max_finite(),
        [&](uint128 x) { return place(to, direct(chain, rounding.last, line.code(x)), negative); },
        [&](uint128 x) { return place(to, chained(chain, rounding, line.code(x)), negative); });
    d.normal_end = std::min(d.normal_end, line.position_of_power(to.emax() + 1));
    m.normal_inputs += static_cast<double>(d.normal_end - d.normal_begin);
    const uint128 one = line.position_of_power(0);
    std::optional<uint128> around;
    for (const DifferingRange& s : d.ranges) {
      const auto size = static_cast<std::uint64_t>(s.end - s.first);
      m.wrong += size;
      m.wrong_subnormal += d.below(s), m.wrong_normal += d.normal(s);
      if (s.place > to.max_finite()) m.wrong_overflow += size;
      if (!around && s.end > one) around = std::max(s.first, one);
    }
    const auto take = [&](std::optional<uint128>& best, std::optional<ChainWitness>& as, uint128 position) {
      if (best && *best <= position) return;
      best = position;
      as = witness(chain, rounding, line.code(position));
    };
    if (!d.ranges.empty()) take(smallest, m.smallest, d.ranges.front().first);
    if (around) take(example, m.example, *around);
    if (look != Look::none && rounding.via == rounding.last)
      m.seen += one_by_one(chain, rounding.via.mode, negative, d, around.value_or(one), look, trace);
  }
  if (!m.example) m.example = m.smallest;
  return m;
}

namespace {

/// Where numbers of a type lie: `precision` bits, none below 2^lowest.
struct Grid {
  int precision, lowest, highest;  ///< highest: exponent of the last binade
  int bits(int e) const { return std::min(precision, e - lowest + 1); }
};

Grid grid_of(const NumberType& type) {
  if (const auto* f = std::get_if<FloatFormat>(&type)) return {f->precision(), f->emin() - f->fraction_bits, f->emax()};
  const auto& integer = std::get<IntegerType>(type);
  return {64, 0, integer.bits - (integer.is_signed ? 2 : 1)};
}

/// Whether the last binade of a format has all its fractions.
bool ends_whole(const NumberType& type) {
  const auto* f = std::get_if<FloatFormat>(&type);
  return !f || (f->max_finite() & f->fraction_mask()) == f->fraction_mask();
}

/// Numbers that a rounding by d bits takes to a point of its grid from below and from above; `even`: of that point.
struct Pulled {
  std::uint64_t below = 0, above = 0;
};
Pulled pulled(RoundingMode mode, bool negative, int d, bool even) {
  if (d <= 0 || mode == RoundingMode::stochastic) return {};
  // A tail goes up where the mode's addend carries. The mode looks at the last bit of the number below the tail: from
  // below that is the point's lower neighbour, from above the point itself.
  const std::uint64_t all = (std::uint64_t{1} << d) - 1;
  const auto added = [&](bool odd) { return addend<std::uint64_t>({.mode = mode}, negative, odd, 0, d, 0); };
  return {added(even), all - added(!even)};
}

/// Whether middles are counted at all: see the header.
bool applies(const ConversionChain& chain, const ChainRounding& rounding) {
  const FloatFormat& to = chain.to;
  if (chain.via.size() != 1 || !ends_whole(chain.from)) return false;
  const FloatFormat& via = chain.via.front();
  if (to.max_finite() < to.min_normal() || via.max_finite() < via.min_normal()) return false;
  if (!to.has_zero || !via.has_zero || to.fraction_bits == 0 || via.fraction_bits == 0) return false;
  if (const auto* from = std::get_if<FloatFormat>(&chain.from); from && !from->has_zero) return false;
  // What overflows on the way to NaN, a format without NaN takes for +max.
  if (!to.has_nan() && via.has_nan() && !via.has_infinity()) return false;
  const Grid v = grid_of(via), t = grid_of(to);
  if (v.precision < t.precision || v.lowest > t.lowest) return false;
  const double top = to.value(to.max_finite()),
               middle = top + FloatFormat::power_of_two(t.highest - to.fraction_bits - 1);
  if (via.value(via.max_finite()) < middle)
    return false;  // where the target overflows, the way must not have overflowed
  const bool same = rounding.via.mode == rounding.last.mode;
  if (!is_nearest(rounding.last.mode)) return same && rounding.last.mode != RoundingMode::stochastic;
  if (rounding.last.mode == RoundingMode::nearest_away) return same;
  return same || (v.precision > t.precision && v.lowest < t.lowest);
}

}  // namespace

std::optional<std::uint64_t> expected_in_binade(const ConversionChain& chain, const ChainRounding& rounding,
                                                bool negative, int e) {
  if (!applies(chain, rounding)) return {};
  const RoundingMode last = rounding.last.mode;
  if (!is_nearest(last)) return 0;  // directed twice and odd twice are directed and odd once
  const Grid s = grid_of(chain.from), v = grid_of(chain.via.front()), t = grid_of(chain.to);
  const int bits = t.bits(e), dropped = s.bits(e) - v.bits(e);
  if (s.bits(e) < 1 || e > s.highest || e > t.highest) return 0;
  if (v.bits(e) == bits) return 0;  // one grid: the second rounding finds nothing to do
  const Pulled p = pulled(rounding.via.mode, negative, dropped, v.bits(e) >= bits + 2);
  if (last == RoundingMode::nearest_away && bits == -1)
    return p.below;  // the middle between zero and the smallest value is the binade's end
  if (bits < 0) return 0;
  if (bits == 0)
    return last == RoundingMode::nearest_away ? 0 : p.above;  // and here its beginning; that tie goes to zero
  std::uint64_t middles = std::uint64_t{1} << (bits - 1);
  if (e == t.highest) {
    middles = (chain.to.max_finite() & chain.to.fraction_mask()) + 1;
    if (rounding.last.overflow == Overflow::saturate || (!chain.to.has_infinity() && !chain.to.has_nan())) --middles;
  }
  const std::uint64_t down = last == RoundingMode::nearest_to_zero ? middles
                             : last == RoundingMode::nearest_away  ? 0
                             : bits == 1                           ? 0  // between 1 and 2 smallest values
                                                                   : (middles + 1) / 2;
  return down * p.above + (middles - down) * p.below;
}

std::optional<std::uint64_t> expected_wrong(const ConversionChain& chain, const ChainRounding& rounding) {
  if (!applies(chain, rounding)) return {};
  const Grid t = grid_of(chain.to);
  std::uint64_t sum = 0;
  for (const bool negative : {false, true}) {
    if (negative && !has_signs(chain)) break;
    for (int e = t.lowest - 2; e <= t.highest; ++e) sum += *expected_in_binade(chain, rounding, negative, e);
  }
  return sum;
}

}  // namespace halfulp::conversions
