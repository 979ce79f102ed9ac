// Differences of nearly equal numbers: what rounding did before is all that is left of them.
#include <halfulp/experiments/operators/operators.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace halfulp::operators {
namespace {

using Build = Value (*)(OperatorProgram& p, Value x);

/// A function near 0 in the form that cancels and in one that does not.
struct Cancelling {
  std::string_view naive, stable;
  Build by_difference, without;
  Real (*exact)(const Real& x);
  int units;           ///< how many factors 1 + d, |d| <= u, the stable form's roundings are
  int (*gone)(int p);  ///< the first k at which the naive form of 4/3 2^-k is 0, in precision p
};

constexpr std::array<Cancelling, 3> cancelling{{
    {"log(1 + x)", "log1p(x)", [](OperatorProgram& p, Value x) { return p.log(p.add(p.constant(1), x)); },
     [](OperatorProgram& p, Value x) { return p.log1p(x); },
     [](const Real& x) { return real_function(ElementaryOperation::log1p, x); }, 1, [](int p) { return p + 1; }},
    {"e^x - 1", "expm1(x)", [](OperatorProgram& p, Value x) { return p.sub(p.exp(x), p.constant(1)); },
     [](OperatorProgram& p, Value x) { return p.function(ElementaryOperation::expm1, x); },
     [](const Real& x) { return real_function(ElementaryOperation::expm1, x); }, 1, [](int p) { return p + 1; }},
    {"1 - cos x", "2 sin^2(x/2)",
     [](OperatorProgram& p, Value x) { return p.sub(p.constant(1), p.function(ElementaryOperation::cos, x)); },
     [](OperatorProgram& p, Value x) {
       const Value half = p.function(ElementaryOperation::sin, p.mul(x, p.constant(0.5)));
       return p.mul(p.constant(2), p.mul(half, half));
     },
     [](const Real& x) {
       const Real half = real_function(ElementaryOperation::sin, Real(x / 2));
       return Real(2 * half * half);
     },
     3, [](int p) { return (p + 2) / 2; }},
}};

/// x - y of x = 4/3 and y = x (1 - 2^-k), in units of the last place of 1: 4/3 2^(p-1) is N + 1/3 where p is odd, and
/// rounds down as y does from k = p on; else it is N + 2/3 with an even N, and y goes there with it only if it is above
/// N + 1/2.
constexpr int difference_gone(int p) { return p % 2 == 1 ? p : p + 3; }

/// One row: what two forms of one number come to.
struct Forms {
  Real x, exact;
  double naive, stable;

  static double error(double result, const Real& exact) {
    return static_cast<double>(Real(abs(Real(result - exact)) / abs(exact)));
  }
};

double nearest(const FloatFormat& f, const Real& x) { return f.value(round_real(f, {}, x)); }

Forms difference(const FloatFormat& f, int k) {
  const Real x = Real(4) / 3, apart = ldexp(x, -k);
  const std::uint64_t a = round_real(f, {}, x), b = round_real(f, {}, Real(x - apart));
  return {x, apart, f.value(Arithmetic(f, {}, nullptr).sub(a, b)), nearest(f, apart)};
}

/// Of all x in [1, 2) and all y in [x/2, 2x], the pairs and those whose difference is rounded.
struct Pairs {
  std::uint64_t all = 0, inexact = 0;
};
Pairs sterbenz(const FloatFormat& f) {
  Arithmetic on(f, {}, nullptr);
  const std::uint64_t one = encode(f, {}, 1).code, two = encode(f, {}, 2).code;
  Pairs pairs;
  for (std::uint64_t a = one; a < two; ++a) {
    const double x = f.value(a);
    for (std::uint64_t b = encode(f, {}, x / 2).code; f.value(b) <= 2 * x; ++b) {
      ++pairs.all;
      pairs.inexact += f.value(on.sub(a, b)) != x - f.value(b);
    }
  }
  return pairs;
}

constexpr int most_bits = 11;  ///< of formats of which every pair is asked

/// Formats whose numbers near 1 are as the derivations have them.
bool holds_one(const FloatFormat& f) {
  return f.fraction_bits >= 2 && f.value(f.min_normal()) <= 0.25 && f.value(f.max_finite()) >= 4;
}

}  // namespace

void cancellation_report(const OperatorSettings& s, Run& run) {
  Table& table = run.report.table(
      "cancellation",
      "Differences of nearly equal numbers beside forms that do not cancel, every operation rounded to nearest even",
      {{"format", "", "Format of every operation."},
       {"naive_form", "", "The form that cancels; x - y: of x = 4/3 and y = x (1 - 2^-k), both rounded before."},
       {"stable_form", "", "The one that does not; x 2^-k: the difference is formed before anything is rounded."},
       {"k", "1", "The exponent: x is the value of the format next to 4/3 2^-k, in x - y the difference is 4/3 2^-k."},
       {"x", "1", "The number x, as precisely as a double has it."},
       {"exact", "1", "The exact result for that x."},
       {"naive", "1", "What the first form gives."},
       {"stable", "1", "What the second form gives."},
       {"naive_error", "1", "Relative error |naive - exact| / exact; 1: nothing is left."},
       {"stable_error", "1", "Relative error |stable - exact| / exact."}});
  std::vector<FormatChoice> formats = s.formats;
  if (std::none_of(formats.begin(), formats.end(), [](const FormatChoice& c) { return c.format == fp32; }))
    formats.push_back({"fp32", fp32});
  Json expected = Json::object(), measured = Json::object(), pairs = Json::object(), counted = Json::object();
  double worst = 0;
  for (const FormatChoice& choice : formats) {
    const FloatFormat& f = choice.format;
    if (!holds_one(f)) continue;
    const int p = f.precision();
    const double u = FloatFormat::power_of_two(-p), normal = f.value(f.min_normal());
    const auto rows = [&](std::string_view naive, std::string_view stable, int units, int gone, auto&& forms) {
      int first = 0;
      for (int k = 1; k <= p + 4 && std::ldexp(1.0, -k) >= normal; ++k) {
        const Forms y = forms(k);
        const double naive_error = Forms::error(y.naive, y.exact), stable_error = Forms::error(y.stable, y.exact);
        const auto word = [&](double v) { return emulated(f, encode(f, {}, v).code); };
        table.row({choice.name, naive, stable, k, number(static_cast<double>(y.x)),
                   number(static_cast<double>(y.exact)), word(y.naive), word(y.stable), naive_error, stable_error});
        if (first == 0 && y.naive == 0) first = k;
        if (y.exact >= normal) worst = std::max(worst, stable_error / (std::pow(1 + u, units) - 1));
      }
      if (std::ldexp(1.0, -gone) < normal) return;
      const std::string key = choice.name + " " + std::string(naive);
      expected[key] = gone, measured[key] = first;
    };
    rows("x - y", "x 2^-k", 1, difference_gone(p), [&](int k) { return difference(f, k); });
    for (const Cancelling& c : cancelling) {
      Function naive(f, Where::all, c.by_difference), stable(f, Where::all, c.without);
      rows(c.naive, c.stable, c.units, c.gone(p), [&](int k) {
        const double x = nearest(f, ldexp(Real(Real(4) / 3), -k));
        return Forms{x, c.exact(x), naive(x), stable(x)};
      });
    }
    if (p > most_bits) continue;
    const std::uint64_t binade = std::uint64_t{1} << (p - 1);
    const Pairs found = sterbenz(f);
    pairs[choice.name] = {{"pairs", binade * (2 * binade + 1)}, {"rounded", 0}};
    counted[choice.name] = {{"pairs", found.all}, {"rounded", found.inexact}};
  }
  run.report.claim({"sterbenz-differences-are-exact",
                    "No difference x - y is rounded, of all x in [1, 2) and y in [x/2, 2x] of a format.",
                    "derived: Sterbenz's lemma; m x have 2 m + 1 such y each, m = 2^(p-1)"},
                   pairs.empty() ? skipped("no format here has 3 to 11 bits of precision and numbers from 1/4 to 4")
                                 : exactly(pairs, counted, "oracle"));
  run.report.claim({"cancellation-leaves-nothing",
                    "The naive forms give 0 from the first x on that is below half a unit of 1, or whose square is.",
                    "derived: 1 + x is 1 if x <= 2^-p, cos x is 1 if x^2 <= 2^-p"},
                   exactly(expected, measured, "oracle"));
  run.report.claim(
      {"stable-forms-keep-their-digits",
       "Forms without cancellation stay within one unit roundoff u, 2 sin^2(x/2) within (1 + u)^3 - 1, where "
       "the result is normal: error over bound, at most.",
       "derived: one rounding each of log1p and expm1; a sine's counts twice, its square's once"},
      at_most(1, worst, "oracle"));
}

}  // namespace halfulp::operators
