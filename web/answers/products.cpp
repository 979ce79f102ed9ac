// Scene "One product, three GPUs": what a matrix unit does to its products, step by step.
#include <halfulp/commands/rational.hpp>
#include <halfulp/emulation/known.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/emulation/unit/rules.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/web/answers/answers.hpp>

#include <utility>

namespace halfulp::web {
namespace {

using units::Term;

/// A list of numbers as people write it: "1, 2^-24 -0.5". Each is rounded to the format.
std::vector<std::uint64_t> words(const FloatFormat& f, const std::string& name, std::string_view text,
                                 std::size_t most) {
  std::vector<std::uint64_t> codes;
  for (std::size_t at = 0; (at = text.find_first_not_of(" ,\t", at)) != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(" ,\t", at), text.size());
    const std::string word(text.substr(at, end - at));
    const std::size_t power = word.find("2^");  // 2^-24 and -2^3, beside what `parse` reads
    const bool is_power = power == 0 || (power == 1 && (word[0] == '-' || word[0] == '+'));
    codes.push_back(parse(f, {}, is_power ? word.substr(0, power) + "0x1p" + word.substr(power + 2) : word).code);
    at = end;
  }
  if (codes.empty() || codes.size() > most)
    throw std::invalid_argument(name + ": " + std::to_string(codes.size()) + " numbers; accepted: 1 to " +
                                std::to_string(most));
  return codes;
}

cli::Rational value_of(const Term& t) {
  if (t.kind != Kind::finite) return 0;
  const cli::Rational magnitude = cli::Rational(static_cast<std::uint64_t>(t.significand)) *
                                  cli::power_of_two(t.exponent - t.fraction_bits);
  return t.sign ? cli::Rational(-magnitude) : magnitude;
}

/// A sum of at most 60 bits is exact as a rational.
cli::Rational in_units(units::int128 sum, int exponent) {
  return cli::Rational(static_cast<std::int64_t>(sum)) * cli::power_of_two(exponent);
}

Json exact(const cli::Rational& x) { return {{"text", cli::decimal_text(x, 24)}, {"value", static_cast<double>(x)}}; }

/// Terms aligned to one exponent, of which `bits` digits below it are kept.
struct Alignment {
  Json rows = Json::array();
  units::int128 sum = 0;
  int emax, bits;

  Alignment(int largest, int kept) : emax(largest), bits(kept) {}
  void add(std::string_view name, const Term& t, RoundingMode mode) {
    const units::int128 kept = units::aligned(t, emax, bits, mode);
    sum += kept;
    const cli::Rational whole = value_of(t), left = in_units(kept, emax - bits);
    rows.push_back({{"name", name},
                    {"value", exact(whole)},
                    {"sign", t.sign ? "-" : "+"},
                    {"digits", cli::binary_text(whole, emax, bits, 12)},
                    {"kept", exact(left)},
                    {"lost", exact(whole - left)}});
  }
};

/// The steps of one fused sum of a unit with the rule `fused`, or of the sum-then-addend of CDNA3.
Json steps_of(const MatrixUnit& unit, std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
              std::uint64_t c) {
  std::vector<Term> products;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < a.size(); ++i) {
    products.push_back(units::product(units::term(unit.a, unit.sum, word_code(unit.a, a[i])),
                                      units::term(unit.b, unit.sum, word_code(unit.b, b[i]))));
    if (products.back().kind == Kind::zero) products.pop_back();
    else names.push_back(print(unit.a, word_code(unit.a, a[i])) + " x " + print(unit.b, word_code(unit.b, b[i])));
  }
  const Term addend = units::term(unit.accumulator, unit.sum, c);
  units::Special special;
  for (const Term& t : products) special.meet(t);
  special.meet(addend);
  if (special.kind != Kind::finite) return nullptr;
  const bool fused = unit.rule == &rules::fused;
  std::vector<Term> all = products;
  if (fused) all.push_back(addend);
  const int bits = fused ? unit.sum.alignment_bits : 24;
  const int emax = units::largest_exponent(all, fused ? unit.sum.least_exponent : -100'000);
  if (emax == -100'000) return nullptr;
  Alignment aligned(emax, bits);
  for (std::size_t i = 0; i < products.size(); ++i) aligned.add(names[i], products[i], RoundingMode::toward_zero);
  if (fused) aligned.add("c", addend, RoundingMode::toward_zero);
  Json json{
      {"emax", emax}, {"bits", bits}, {"terms", aligned.rows}, {"sum", exact(in_units(aligned.sum, emax - bits))}};
  if (fused) {
    json["rounding"] = name_of(unit.sum.rounding);
    json["kept"] = format_name(unit.sum.kept);
  } else {
    json["rounding"] =
        "c is cut downwards to 24 bits below the larger exponent, the sum to 31, both are added, and rounded to "
        "nearest";
  }
  return json;
}

DotOperands operands(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b) { return {a, b, {}, {}}; }

const MatrixUnit& plain_unit(const Asked& asked) {
  const MatrixUnit& unit = find_unit(asked.text("unit"));
  if (unit.scaled()) throw std::invalid_argument(unit.name + " takes scales; accepted: units without");
  return unit;
}

}  // namespace

Json product(const Asked& asked) {
  const MatrixUnit& unit = plain_unit(asked);
  std::vector<std::uint64_t> a = words(unit.a, "a", asked.text("a"), 16), b = words(unit.b, "b", asked.text("b"), 16);
  const std::uint64_t c = words(unit.accumulator, "c", asked.text("c"), 1).front();
  if (a.size() != b.size())
    throw std::invalid_argument("a has " + std::to_string(a.size()) + " numbers and b " + std::to_string(b.size()) +
                                "; accepted: as many");
  cli::Rational sum = unit.accumulator.is_finite(c) ? cli::exact_value(unit.accumulator, c) : 0;
  bool finite = unit.accumulator.is_finite(c);
  for (std::size_t i = 0; i < a.size(); ++i) {
    finite = finite && unit.a.is_finite(a[i]) && unit.b.is_finite(b[i]);
    if (finite) sum += cli::exact_value(unit.a, a[i]) * cli::exact_value(unit.b, b[i]);
  }
  for (std::vector<std::uint64_t>* list : {&a, &b}) {
    const FloatFormat& f = list == &a ? unit.a : unit.b;
    for (std::uint64_t& word : *list) word = code_word(f, word);
  }
  const std::uint64_t d = mma(unit, operands(a, b), c);
  Json json{
      {"unit", unit.name},
      {"instruction", unit.instruction},
      {"rule", unit.rule->description},
      {"evidence", unit.evidence},
      {"source", unit.source},
      {"code", print_code(unit.accumulator, d)},
      {"result", print_exact(unit.accumulator, d)},
      {"exact", finite ? exact(sum) : Json()},
      {"error", finite && unit.accumulator.is_finite(d) ? exact(cli::exact_value(unit.accumulator, d) - sum) : Json()},
      {"steps", nullptr}};
  const auto depth = static_cast<std::size_t>(unit.depth()), length = static_cast<std::size_t>(unit.sum.length);
  a.resize((a.size() + depth - 1) / depth * depth, code_word(unit.a, unit.a.zero()));
  b.resize(a.size(), code_word(unit.b, unit.b.zero()));
  const bool in_steps = (unit.rule == &rules::fused && unit.sum.grouping == Grouping::consecutive &&
                         !unit.sum.descending && !unit.sum.normalized_products) ||
                        unit.rule == &rules::sum_then_addend;
  if (!in_steps) return json;
  json["steps"] = Json::array();
  std::uint64_t so_far = c;
  for (std::size_t begin = 0; begin < a.size(); begin += length) {
    const auto part = [&](const std::vector<std::uint64_t>& x) { return std::span(x).subspan(begin, length); };
    const bool zeros = std::ranges::all_of(part(a),
                                           [&](std::uint64_t x) { return unit.a.is_zero(word_code(unit.a, x)); });
    if (zeros && begin != 0) break;  // padding
    MatrixUnit one = unit;           // a fused sum by itself
    one.k = unit.sum.length;
    const std::uint64_t next = mma(one, operands(part(a), part(b)), so_far);
    Json step = steps_of(unit, part(a), part(b), so_far);
    if (!step.is_null()) {
      step["result"] = print_exact(unit.accumulator, next);
      json["steps"].push_back(std::move(step));
    }
    so_far = next;
  }
  return json;
}

Json stall(const Asked& asked) {
  const MatrixUnit& unit = plain_unit(asked);
  const std::uint64_t x = code_word(unit.a, words(unit.a, "a", asked.text("a"), 1).front()),
                      y = code_word(unit.b, words(unit.b, "b", asked.text("b"), 1).front());
  const std::uint64_t n = asked.whole("n", 1, 1 << 17), promote = asked.whole("promote", 1, 1 << 17);
  const auto depth = static_cast<std::uint64_t>(unit.depth());
  const FloatFormat& f = unit.accumulator;
  const std::uint64_t steps = (n + depth - 1) / depth, every = std::max<std::uint64_t>(1, promote / depth);
  std::uint64_t alone = f.zero(), part = f.zero(), promoted = fp32.zero();
  const double term = unit.a.value(word_code(unit.a, x)) * unit.b.value(word_code(unit.b, y));
  Json json{{"depth", depth}, {"term", term}, {"every", every * depth}, {"points", Json::array()}};
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::uint64_t count = std::min(depth, n - step * depth);
    std::vector<std::uint64_t> a(depth, code_word(unit.a, unit.a.zero())), b(depth, y);
    std::fill_n(a.begin(), count, x);
    const std::uint64_t before = std::exchange(alone, mma(unit, operands(a, b), alone));
    if (alone == before && term != 0 && !json.contains("stands_from")) json["stands_from"] = step * depth;
    part = mma(unit, operands(a, b), part);
    if ((step + 1) % every == 0 || step + 1 == steps) {
      promoted = evaluate<Operation::add>(fp32, {}, promoted, convert(f, fp32, {}, part).code).code;
      part = f.zero();
    }
    const std::uint64_t products = std::min(n, (step + 1) * depth);
    if (steps <= 256 || (step + 1) % (steps / 256 + 1) == 0 || step + 1 == steps) {
      const std::uint64_t shown = evaluate<Operation::add>(fp32, {}, promoted, convert(f, fp32, {}, part).code).code;
      json["points"].push_back(
          {products, static_cast<double>(products) * term, number(f.value(alone)), number(fp32.value(shown))});
    }
  }
  return json;
}

}  // namespace halfulp::web
