// Operands for matrix units: random ones, and those that reveal a wrong rule.
#include "unit_cases.hpp"

#include <halfulp/emulation/unit/rules.hpp>
#include <halfulp/emulation/unit/unit.hpp>
#include <halfulp/evidence/oracle/matrix.hpp>

#include <vector>

namespace check {

/// One output's operands as words.
struct MatrixCase {
  std::vector<std::uint64_t> a, b, scale_a, scale_b;
  std::uint64_t c = 0;
  DotOperands products() const { return {a, b, scale_a, scale_b}; }
};

class MatrixCases {
 public:
  MatrixCases(const MatrixUnit& unit, std::uint64_t seed) : unit_(unit), random_{seed} {}

  MatrixCase next() {
    const auto depth = static_cast<std::uint64_t>(unit_.depth());
    const std::size_t k = static_cast<std::size_t>(below(4) == 0 ? 1 + below(2 * depth) : depth);
    MatrixCase x;
    const std::uint64_t style = below(7);
    const int centre_a = exponent(unit_.a), centre_b = exponent(unit_.b);
    for (std::size_t i = 0; i < k; ++i) {
      switch (style) {
        case 0: x.a.push_back(any(unit_.a)), x.b.push_back(any(unit_.b)); break;
        case 1: x.a.push_back(interesting(unit_.a)), x.b.push_back(interesting(unit_.b)); break;
        case 2:  // all of similar size
          x.a.push_back(near(unit_.a, centre_a, 1)), x.b.push_back(near(unit_.b, centre_b, 1));
          break;
        case 3:  // products that cancel, some except for their last bits
          if (i % 2 == 1) {
            x.a.push_back(opposite(unit_.a, x.a.back()) ^ (below(4) == 0 ? last_bit(unit_.a) : 0)),
                x.b.push_back(x.b.back());
          } else {
            x.a.push_back(near(unit_.a, centre_a, 3)), x.b.push_back(near(unit_.b, centre_b, 3));
          }
          break;
        case 4: {  // one large product, others about F bits below
          const int distance = i == 0 ? 0 : unit_.sum.alignment_bits + static_cast<int>(below(5)) - 2;
          x.a.push_back(near(unit_.a, centre_a - distance / 2, 0)),
              x.b.push_back(near(unit_.b, centre_b - (distance + 1) / 2, 0));
          break;
        }
        case 5: {  // around the smallest exponent, and about F bits below it
          const int e = unit_.sum.least_exponent == FusedSum::no_least_exponent ? centre_a + centre_b
                                                                                : unit_.sum.least_exponent;
          const int at = i == 0 ? e - static_cast<int>(below(20))
                                : e - unit_.sum.alignment_bits + static_cast<int>(below(7)) - 4;
          const int of_a = std::clamp(at / 2, at - unit_.b.emax(), at - unit_.b.emin());
          x.a.push_back(near(unit_.a, of_a, 0)), x.b.push_back(near(unit_.b, at - of_a, 0));
          break;
        }
        default:  // mostly zeros and small numbers
          x.a.push_back(below(2) ? 0 : small(unit_.a)), x.b.push_back(below(2) ? any(unit_.b) : small(unit_.b));
      }
    }
    if (style >= 2 && k > 2 && below(3) == 0) std::swap(x.a[0], x.a[below(k)]);
    if (unit_.scaled())
      for (std::size_t i = 0; i < k; i += static_cast<std::size_t>(unit_.scale_block))
        x.scale_a.push_back(scale()), x.scale_b.push_back(scale());
    x.c = style == 5 ? 0 : addend(x);
    return x;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::uint64_t word(const FloatFormat& f, std::uint64_t code) {
    return code_word(f, code) | (f == tf32 ? random_() & 0x1fff : 0);
  }
  std::uint64_t any(const FloatFormat& f) { return random_() & oracle::bits(word_bits(f)); }
  std::uint64_t sign(const FloatFormat& f) { return random_() & f.sign_mask(); }
  static std::uint64_t last_bit(const FloatFormat& f) { return code_word(f, 1); }
  static std::uint64_t opposite(const FloatFormat& f, std::uint64_t word) { return word ^ code_word(f, f.sign_mask()); }
  int exponent(const FloatFormat& f) {
    return f.emin() + static_cast<int>(below(static_cast<std::uint64_t>(f.emax() - f.emin() + 1)));
  }
  std::uint64_t interesting(const FloatFormat& f) {
    const auto codes = lattice(f, 0);
    return word(f, codes[below(codes.size())]);
  }
  /// A number within 2^spread of 2^exponent, if there is one; every second one is a power of two.
  std::uint64_t near(const FloatFormat& f, int exponent, int spread) {
    const int e = std::clamp(exponent + static_cast<int>(below(static_cast<std::uint64_t>(2 * spread + 1))) - spread,
                             f.emin(), f.emax());
    const std::uint64_t code = (static_cast<std::uint64_t>(e - f.emin() + 1) << f.fraction_bits) |
                               (below(2) ? random_() & f.fraction_mask() : 0);
    return word(f, std::min(code, f.max_finite()) | sign(f));
  }
  std::uint64_t small(const FloatFormat& f) { return word(f, (random_() & (2 * f.fraction_mask() + 1)) | sign(f)); }
  std::uint64_t scale() {
    const FloatFormat& f = unit_.scale;
    if (below(8) == 0) return any(f);
    const std::uint64_t one = static_cast<std::uint64_t>(f.bias) << f.fraction_bits;  // most scales are moderate
    return one + (random_() & (8 * f.fraction_mask() + 7)) - 4 * f.fraction_mask();
  }
  /// Any word, a zero, the negated sum of the products, or a word of about the same size.
  std::uint64_t addend(const MatrixCase& x) {
    const FloatFormat& d = unit_.accumulator;
    switch (below(6)) {
      case 0: return any(d);
      case 1: return interesting(d);
      case 2: return d.zero(below(2) != 0);
      case 3: return small(d);
      default: break;
    }
    const std::uint64_t sum = halfulp::mma(unit_, x.products(), 0);
    if (!d.is_finite(sum) || d.is_zero(sum)) return any(d);
    return below(2) ? sum ^ d.sign_mask()
                    : near(d, d.exponent(sum) + d.fraction_bits + static_cast<int>(below(61)) - 30, 0);
  }

  const MatrixUnit& unit_;
  Random random_;
};

}  // namespace check

// Every matrix unit of the table, and fused sums of any parameters, against the oracle.

namespace halfulp {
namespace units_oracle_test {

using check::MatrixCase;

/// Counts results; prints the first few that differ.
class Judge {
 public:
  explicit Judge(std::string subject) : subject_(std::move(subject)) {}
  ~Judge() {
    EXPECT_EQ(differing_, 0u) << subject_ << ": of " << compared_;
    EXPECT_GT(compared_, 0u) << subject_;
  }
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  void compare(const MatrixUnit& unit, const MatrixCase& x, const std::string& about = {}) {
    ++compared_;
    const std::uint64_t got = mma(unit, x.products(), x.c), want = oracle::mma(unit, x.products(), x.c);
    kinds_[unit.accumulator.is_nan(want)        ? 0
           : unit.accumulator.is_infinite(want) ? 1
           : unit.accumulator.is_zero(want)     ? 2
                                                : 3]++;
    if (got == want) return;
    if (++differing_ > 3) return;
    std::ostringstream text;
    text << std::hex << unit.name << ' ' << about << "\n  ";
    for (const auto* words : {&x.a, &x.b, &x.scale_a, &x.scale_b}) {
      for (const std::uint64_t word : *words) text << word << ' ';
      text << "| ";
    }
    ADD_FAILURE() << text.str() << std::hex << x.c << ": got " << got << ", the oracle says " << want;
  }
  /// Whether results of every kind occurred.
  void expect_variety() const {
    for (const std::uint64_t count : kinds_)
      EXPECT_GT(count, compared_ / 500) << subject_ << ": few results of some kind";
    EXPECT_GT(kinds_[3], compared_ / 3) << subject_ << ": few results are numbers";
  }

 private:
  std::string subject_;
  std::uint64_t compared_ = 0, differing_ = 0;
  std::uint64_t kinds_[4] = {};  ///< NaN, Inf, zero, others
};

class UnitsOracle : public testing::TestWithParam<const Rule*> {};

TEST_P(UnitsOracle, EveryUnitOfTheRule) {
  const Rule* rule = GetParam();
  const auto units = static_cast<std::size_t>(
      std::count_if(matrix_units().begin(), matrix_units().end(), [&](const MatrixUnit& u) { return u.rule == rule; }));
  ASSERT_GT(units, 0u) << rule->name;
  const std::size_t cases = std::max<std::size_t>(24'000 / units, 400) * (check::exhaustive() ? 20 : 1);
  Judge judge{std::string(rule->name)};
  std::uint64_t seed = 1;
  for (const MatrixUnit& unit : matrix_units()) {
    if (unit.rule != rule) continue;
    check::MatrixCases operands(unit, seed++);
    for (std::size_t i = 0; i < cases; ++i) judge.compare(unit, operands.next());
  }
  judge.expect_variety();
}

std::string rule_name(const testing::TestParamInfo<const Rule*>& info) {
  std::string name(info.param->name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Rules, UnitsOracle, testing::ValuesIn(rules::all().begin(), rules::all().end()), rule_name);

/// A fused sum with random parameters.
MatrixUnit random_unit(check::Random& random) {
  const auto below = [&](std::uint64_t n) { return static_cast<int>(random() % n); };
  static const std::vector<FloatFormat> operands = check::named(
      {"fp16", "bf16", "tf32", "fp32", "e4m3", "e5m2", "e4m3fnuz", "e3m2", "e2m1", "p3109k8p3", "e6m4"});
  static const std::vector<FloatFormat> accumulators = check::named(
      {"fp32", "fp16", "bf16", "e5m2", "p3109k8p3", "e6m9"});
  MatrixUnit u;
  u.name = "random";
  u.rule = &rules::fused;
  u.a = operands[static_cast<std::size_t>(below(operands.size()))];
  u.b = operands[static_cast<std::size_t>(below(operands.size()))];
  u.accumulator = accumulators[static_cast<std::size_t>(below(accumulators.size()))];
  FusedSum& s = u.sum;
  s.length = 1 + below(9);
  s.alignment_bits = below(61);
  if (below(3)) s.least_exponent = below(320) - 240;
  s.alignment = rounding_modes[static_cast<std::size_t>(below(7))].value;
  s.rounding = rounding_modes[static_cast<std::size_t>(below(7))].value;
  s.kept = u.accumulator;
  if (u.accumulator.nonfinite == NonFinite::ieee)
    s.kept.fraction_bits = 1 + below(static_cast<std::uint64_t>(u.accumulator.fraction_bits));
  s.normalized_products = below(2);
  s.flush_inputs = below(2);
  s.flush_outputs = below(2);
  s.zero = below(2) ? ZeroSign::ieee : ZeroSign::positive;
  s.grouping = below(2) ? Grouping::strided : Grouping::consecutive;
  s.descending = below(2);
  s.nan = u.accumulator.canonical_nan();
  u.k = s.length * (1 + below(4));
  if (below(3) == 0) u.scale = e8m0, u.scale_block = below(2) ? s.length : u.k * (1 + below(3));
  return u;
}

TEST(UnitsOracle, FusedSumsOfAnyParameters) {
  check::Random random{2026};
  Judge judge("fused sums");
  for (int i = 0; i < (check::exhaustive() ? 160'000 : 8'000); ++i) {
    const MatrixUnit unit = random_unit(random);
    ASSERT_EQ(refusal(unit), "") << i;
    std::ostringstream about;
    const FusedSum& s = unit.sum;
    about << format_name(unit.a) << '*' << format_name(unit.b) << "+" << format_name(unit.accumulator) << std::dec
          << " L" << s.length << " F" << s.alignment_bits << " e0 " << s.least_exponent << ' ' << name_of(s.alignment)
          << " kept " << format_name(s.kept) << ' ' << name_of(s.rounding) << " normalized " << s.normalized_products
          << " flush " << s.flush_inputs << s.flush_outputs << " zero " << name_in(zero_signs, s.zero) << ' '
          << name_in(groupings, s.grouping) << " descending " << s.descending << " k " << unit.k << " scale "
          << unit.scale_block;
    check::MatrixCases operands(unit, random());
    for (int j = 0; j < 4; ++j) judge.compare(unit, operands.next(), about.str());
  }
  judge.expect_variety();
}

TEST(UnitsOracle, WhatIsNotRefusedIsComputed) {
  check::Random random{77};
  Judge judge("mixed units");
  int refused = 0, computed = 0;
  while (computed < (check::exhaustive() ? 160'000 : 8'000)) {
    const MatrixUnit unit = unit_cases::mixed_unit(random);
    if (const std::string why = refusal(unit); !why.empty()) {
      EXPECT_EQ(why.find('\n'), std::string::npos);
      ++refused;
      continue;
    }
    ++computed;
    check::MatrixCases operands(unit, random());
    judge.compare(unit, operands.next(),
                  std::string(unit.rule->name) + " " + format_name(unit.a) + " " + format_name(unit.b) + " " +
                      format_name(unit.accumulator) + " L" + std::to_string(unit.sum.length) + " k" +
                      std::to_string(unit.k) + " scale " + std::to_string(unit.scale_block));
  }
  EXPECT_GT(refused, computed / 4);
}

}  // namespace units_oracle_test
}  // namespace halfulp
