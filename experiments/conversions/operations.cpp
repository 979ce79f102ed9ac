// The oracle first: it must not see the emulation's functions of the same names.
#include <halfulp/evidence/oracle/operations.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/experiments/conversions/conversions.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <type_traits>

namespace halfulp::conversions {
namespace {

constexpr std::size_t piece = std::size_t{1} << 16;
constexpr std::size_t most_ends = 256;

/// Of types of up to 63 bits.
std::int64_t integer_value(const IntegerType& type, std::uint64_t code) {
  return static_cast<std::int64_t>(code) -
         (type.is_signed && (code >> (type.bits - 1)) != 0 ? std::int64_t{1} << type.bits : 0);
}

/// Whether values of every member but the first are values of `carrier`.
bool carries(const FloatFormat& carrier, const ConversionChain& chain) {
  for (const FloatFormat& v : chain.via)
    if (!holds(carrier, v)) return false;
  return holds(carrier, chain.to);
}

/// Inputs begin <= x < end whose results, direct and chained, contradict the stretches. T carries every value.
template <class T>
std::uint64_t contradicting(const ConversionChain& chain, const Rounding& rounding, const MagnitudeLine& line,
                            const DifferingRanges& found, uint128 begin, uint128 end) {
  const auto n = static_cast<std::size_t>(end - begin);
  std::vector<T> in(n), direct(n), through(n);
  const auto* format = std::get_if<FloatFormat>(&chain.from);
  if (std::is_same_v<T, float> && format && *format == fp32) {  // 2^32 of them: without a detour
    const auto first = static_cast<std::uint32_t>(line.code(begin));
    for (std::size_t i = 0; i < n; ++i) in[i] = std::bit_cast<float>(first + static_cast<std::uint32_t>(i));
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint64_t code = line.code(begin + i);
      in[i] = format ? static_cast<T>(format->value(code))
                     : static_cast<T>(integer_value(std::get<IntegerType>(chain.from), code));
    }
  }
  quantize(chain.to, rounding, std::span<const T>(in), std::span<T>(direct));
  std::span<const T> from(in);
  for (const FloatFormat& via : chain.via) {
    quantize(via, rounding, from, std::span<T>(through));
    from = through;
  }
  quantize(chain.to, rounding, from, std::span<T>(through));

  auto stretch = std::upper_bound(found.ranges.begin(), found.ranges.end(), begin,
                                  [](uint128 x, const DifferingRange& s) { return x < s.end; });
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < n; ++i) {
    while (stretch != found.ranges.end() && stretch->end <= begin + i) ++stretch;
    const bool inside = stretch != found.ranges.end() && stretch->first <= begin + i;
    const bool alike = direct[i] == through[i] || (std::isnan(direct[i]) && std::isnan(through[i]));
    count += inside == alike;
  }
  return count;
}

std::uint64_t by_rationals(const NumberType& from, const FloatFormat& to, const Rounding& rounding,
                           std::uint64_t code) {
  if (const auto* f = std::get_if<FloatFormat>(&from))
    return oracle::convert<oracle::cpp_int>(*f, to, rounding, code).code;
  const auto& integer = std::get<IntegerType>(from);
  oracle::cpp_int n = code;
  if (integer.is_signed && (code >> (integer.bits - 1)) != 0) n -= oracle::cpp_int(1) << integer.bits;
  return oracle::from_integer(n, to, rounding).code;
}

/// Both ways of one input by rationals: whether they differ. The same conversions are recorded.
bool differs_by_rationals(const ConversionChain& chain, const Rounding& rounding, bool negative, std::uint64_t input,
                          Trace* trace) {
  const auto step = [&](const NumberType& from, const FloatFormat& to, std::uint64_t code) {
    if (trace) Arithmetic(to, rounding, trace).convert_from(from, code);
    return by_rationals(from, to, rounding, code);
  };
  const std::uint64_t direct = step(chain.from, chain.to, input);
  NumberType from = chain.from;
  std::uint64_t x = input;
  for (const FloatFormat& via : chain.via) x = step(from, via, x), from = via;
  return place(chain.to, step(from, chain.to, x), negative) != place(chain.to, direct, negative);
}

void look_at_ends(const ConversionChain& chain, const Rounding& rounding, bool negative, const MagnitudeLine& line,
                  const DifferingRanges& found, Trace* trace, OneByOne& seen) {
  const auto expect = [&](uint128 position, bool differs) {
    ++seen.ends;
    if (differs_by_rationals(chain, rounding, negative, line.code(position), trace) != differs)
      ++seen.ends_contradicting;
  };
  const std::size_t count = found.ranges.size(), step = count / most_ends + 1;
  for (std::size_t i = 0; i < count; i += step) {
    stop_if_interrupted();
    const DifferingRange& s = found.ranges[i];
    const bool touches_before = i > 0 && found.ranges[i - 1].end == s.first,
               touches_after = i + 1 < count && found.ranges[i + 1].first == s.end;
    if (s.first > 0 && !touches_before) expect(s.first - 1, false);
    expect(s.first, true);
    expect(s.end - 1, true);
    if (s.end < line.size() && !touches_after) expect(s.end, false);
  }
  // And where the target begins and ends.
  for (const uint128 border : {found.normal_begin, found.normal_end})
    for (const uint128 x : {border - 1, border})
      if (x < line.size() && std::none_of(
                                 found.ranges.begin(), found.ranges.end(),
                                 [&](const DifferingRange& s) { return s.first <= x && x < s.end; }))
        expect(x, false);
}

}  // namespace

OneByOne one_by_one(const ConversionChain& chain, RoundingMode mode, bool negative, const DifferingRanges& found,
                    uint128 around, Look look, Trace* trace) {
  const Rounding rounding{mode};
  const MagnitudeLine line(chain.from, negative);
  OneByOne seen;
  look_at_ends(chain, rounding, negative, line, found, trace, seen);

  const int bits = storage_bits(chain.from);
  const bool all = bits <= 17 || (look == Look::all && bits <= 32);
  constexpr uint128 half_window = uint128{1} << 21;
  const uint128 begin = all || around < half_window ? 0 : around - half_window,
                end = all ? line.size() : std::min(line.size(), around + half_window);
  const auto* format = std::get_if<FloatFormat>(&chain.from);
  const bool in_float = format && holds(fp32, *format) && carries(fp32, chain);
  if (!in_float && (!carries(fp64, chain) || (!format && bits > 32)))
    return seen;  // no array function takes these inputs
  const auto pieces = static_cast<std::size_t>((end - begin + piece - 1) / piece);
  for (const std::uint64_t count : parallel_map(pieces, [&](std::size_t i) {
         const uint128 from = begin + uint128{i} * piece, to = std::min(end, from + piece);
         return in_float ? contradicting<float>(chain, rounding, line, found, from, to)
                         : contradicting<double>(chain, rounding, line, found, from, to);
       }))
    seen.contradicting += count;
  seen.compared = static_cast<std::uint64_t>(end - begin);
  return seen;
}

// Operations in a wider format, their results rounded again: what libraries do that have no arithmetic in the narrow
// one.

namespace {

constexpr std::uint64_t most_exhaustive = std::uint64_t{1} << 18;

struct Pair {
  std::string text, narrow_name, wide_name;
  FloatFormat narrow, wide;
};

std::vector<Pair> read(const Config& config) {
  std::vector<Pair> pairs;
  const std::string text = config.text("operations");
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string part = text.substr(begin, end - begin);
    part.erase(std::remove(part.begin(), part.end(), ' '), part.end());
    begin = end + 1;
    const std::size_t arrow = part.find('>');
    if (arrow == std::string::npos)
      throw std::invalid_argument(
          fmt::format("operations: '{}'; accepted: pairs NARROW>WIDE of formats, as in fp16>fp32", shown(part)));
    Pair p{part, part.substr(0, arrow), part.substr(arrow + 1), {}, {}};
    for (const auto& [name, format] : {std::pair{&p.narrow_name, &p.narrow}, std::pair{&p.wide_name, &p.wide}}) {
      try {
        *format = parse_format(*name);
      } catch (const std::invalid_argument& e) {
        throw std::invalid_argument(fmt::format("operations: {}: {}", part, e.what()));
      }
      if (!format->has_zero)
        throw std::invalid_argument(fmt::format("operations: {} holds scales: nothing is added in it", *name));
    }
    if (!holds(fp32, p.wide))
      throw std::invalid_argument(
          fmt::format("operations: {}: accepted as the wider one are fp32 and formats whose values it holds", part));
    if (!holds(p.wide, p.narrow) || !p.narrow.is_signed)
      throw std::invalid_argument(fmt::format(
          "operations: {}: {} does not hold the values of {}; accepted are a format and a wider one, as in fp16>fp32",
          part, p.wide_name, p.narrow_name));
    for (const Pair& other : pairs)
      if (other.text == p.text) throw std::invalid_argument(fmt::format("operations: {} is there twice", p.text));
    pairs.push_back(p);
  }
  if (pairs.size() > 16)
    throw std::invalid_argument(fmt::format("operations: {} pairs; accepted are up to 16", pairs.size()));
  return pairs;
}

/// Whether theory promises that the second rounding does nothing: enough bits (Figueroa), and products, quotients and
/// what overflows within the range of the wider format (Roux).
bool innocuous(const Pair& p, Operation operation) {
  if (operation == Operation::fma || p.wide.precision() < 2 * p.narrow.precision() + 2) return false;
  const auto lowest = [](const FloatFormat& f) { return f.emin() - f.fraction_bits; };
  return lowest(p.wide) <= 2 * lowest(p.narrow) && p.wide.emax() > p.narrow.emax();
}

struct Result {
  std::uint64_t compared = 0, differ = 0;
  bool exhaustive = false;
  std::vector<std::uint64_t> example;  ///< a, b, c, direct, twice of the first that differs; empty if none does
};
template <class V>
void fields(V& v, Result& r) {
  v("compared", r.compared);
  v("differ", r.differ);
  v("exhaustive", r.exhaustive);
  v("example", r.example, each(hexadecimal));
}

Result compare(const Pair& p, Operation operation, std::size_t samples, std::uint64_t seed) {
  using Word = std::uint32_t;
  const auto arity = static_cast<std::size_t>(info(operation).arity);
  const auto bits = static_cast<std::size_t>(p.narrow.storage_bits());
  Result r;
  r.exhaustive = bits * arity < 64 && (std::uint64_t{1} << (bits * arity)) <= most_exhaustive;
  const std::size_t n = r.exhaustive ? std::size_t{1} << (bits * arity) : samples;
  std::array<std::vector<Word>, 3> narrow, wide;
  for (std::size_t k = 0; k < arity; ++k) {
    narrow[k].resize(n), wide[k].resize(n);
    for (std::size_t i = 0; i < n; ++i)
      narrow[k][i] = static_cast<Word>((r.exhaustive ? i >> (bits * k) : random_word(seed, k, i)) &
                                       p.narrow.code_mask());
    std::vector<float> values(n);
    decode(p.narrow, std::span<const Word>(narrow[k]), std::span<float>(values));
    encode(p.wide, {}, std::span<const float>(values), std::span<Word>(wide[k]));
  }
  std::vector<Word> direct(n), once(n), twice(n);
  apply(operation, p.narrow, {}, std::span<const Word>(narrow[0]), std::span<const Word>(narrow[1]),
        std::span<const Word>(narrow[2]), std::span<Word>(direct));
  apply(operation, p.wide, {}, std::span<const Word>(wide[0]), std::span<const Word>(wide[1]),
        std::span<const Word>(wide[2]), std::span<Word>(once));
  std::vector<float> values(n);
  decode(p.wide, std::span<const Word>(once), std::span<float>(values));
  encode(p.narrow, {}, std::span<const float>(values), std::span<Word>(twice));
  r.compared = n;
  for (std::size_t i = 0; i < n; ++i) {
    if (direct[i] == twice[i] || (p.narrow.is_nan(direct[i]) && p.narrow.is_nan(twice[i]))) continue;
    ++r.differ;
    if (r.example.empty())
      r.example = {narrow[0][i], arity > 1 ? narrow[1][i] : 0, arity > 2 ? narrow[2][i] : 0, direct[i], twice[i]};
  }
  return r;
}

/// LLVM's fma of halves through floats.
void known_fma(Run& run) {
  struct Case {
    std::string_view id, source;
    double a, b, c, direct, twice;
  };
  constexpr std::array<Case, 2> cases{{{"llvm-half-fma-through-float", "llvm/llvm-project #98389", 48.34375, 0x1.d2p-17,
                                        0.12438964843750, 0.1251220703125, 0.125},
                                       {"clang-float16-fma-through-float", "llvm/llvm-project #128450", 0x1.4p+8,
                                        0x1.008p+7, 0x1p-24, 0x1.40cp+15, 0x1.408p+15}}};
  for (const Case& c : cases) {
    Arithmetic narrow(fp16, {}, &run.trace), wide(fp32, {}, &run.trace);
    const auto in = [&](double x) { return encode(fp16, {}, x).code; };
    const auto up = [&](double x) { return wide.convert_from(fp16, in(x)); };
    const std::uint64_t direct = narrow.fma(in(c.a), in(c.b), in(c.c)),
                        twice = narrow.convert_from(fp32, wide.fma(up(c.a), up(c.b), up(c.c)));
    run.report.claim(
        {std::string(c.id), fmt::format("fma({}, {}, {}) of fp16 numbers is wrong through fp32.", c.a, c.b, c.c),
         std::string(c.source)},
        exactly({{"direct", c.direct}, {"through_fp32", c.twice}},
                {{"direct", number(fp16.value(direct))}, {"through_fp32", number(fp16.value(twice))}}, "published"));
  }
}

}  // namespace

std::vector<Parameter> operation_parameters() {
  return {{"operations", ParameterType::text, "e4m3>fp16,e5m2>fp16,e4m3>bf16,e3m2>bf16,fp16>fp32,bf16>fp32",
           "pairs NARROW>WIDE, separated by commas: operations on the narrow format's numbers, computed in the wide "
           "one and rounded again"},
          {"samples", ParameterType::integer, "262144", "random operands of an operation that has more than 2^18", 1024,
           16777216},
          {"seed", ParameterType::integer, "1995", "of those operands", 0, largest_seed}};
}

void check_operations(const Config& config) { read(config); }

void operations_report(const Config& config, Run& run) {
  const std::vector<Pair> pairs = read(config);
  const auto samples = static_cast<std::size_t>(config.integer("samples"));
  const auto seed = static_cast<std::uint64_t>(config.integer("seed"));
  std::vector<Trial> asked;
  for (const Pair& p : pairs)
    for (const Operation operation : array_operations) {
      const std::string_view name = info(operation).name;
      asked.push_back({fmt::format("{} {}", name, p.text),
                       {{"narrow", format_name(p.narrow)},
                        {"wide", format_name(p.wide)},
                        {"operation", name},
                        {"samples", samples},
                        {"seed", seed}}});
    }
  const auto results = trials<Result>(run, {"operations", 1}, asked, 0.85, 1, [&](std::size_t i, Trace&) {
    return compare(pairs[i / array_operations.size()], array_operations[i % array_operations.size()], samples, seed);
  });
  Table& table = run.report.table(
      "operations", "One operation in a wider format, its result rounded again (to nearest even)",
      {{"format", "", "Format of operands and result."},
       {"through", "", "Wider format in which the operation is computed first."},
       {"operation", "", "What is computed, rounded once to each format."},
       {"compared", "1", "Operands, or pairs or triples of them."},
       {"exhaustive", "", "Whether these are all there are; otherwise they are random code words."},
       {"innocuous", "",
        "Whether theory promises that nothing differs: 2p + 2 bits and the range (Figueroa 1995; Roux 2014)."},
       {"differ", "1", "Results that differ from the operation rounded once; NaN equals NaN."},
       {"a", "1", "First operand of the first that differs; as text, like those that follow: all digits."},
       {"b", "1", "Second operand; null if there is none."},
       {"c", "1", "Third operand; null if there is none."},
       {"direct", "1", "The operation rounded once."},
       {"twice", "1", "The operation by way of the wider format."}});
  std::uint64_t promised = 0, broken = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Pair& p = pairs[i / array_operations.size()];
    const Operation operation = array_operations[i % array_operations.size()];
    const Result& r = results[i];
    const int arity = info(operation).arity;
    const auto cell = [&](std::size_t k) {
      return !r.example.empty() && (k >= 3 || static_cast<int>(k) < arity) ? Json(full_text(p.narrow, r.example[k]))
                                                                           : Json();
    };
    table.row({p.narrow_name, p.wide_name, info(operation).name, r.compared, r.exhaustive, innocuous(p, operation),
               r.differ, cell(0), cell(1), cell(2), cell(3), cell(4)});
    if (innocuous(p, operation)) promised += r.compared, broken += r.differ;
  }
  const std::string id = "operations-through-2p-plus-2-bits",
                    source = "Figueroa 1995, When is double rounding innocuous?; Roux 2014";
  const std::string statement =
      "Sums, differences, products, quotients and roots through a format of 2p + 2 bits and enough range are right: "
      "none differs.";
  run.report.claim({id, statement, source}, promised ? exactly(0u, broken, "published")
                                                     : skipped("no pair of operations has so many bits and the range"));
  known_fma(run);
}

}  // namespace halfulp::conversions
