// Matrix units as accumulators: how the error of a dot product grows with its length, and what promotion to FP32
// repairs.
#include <halfulp/experiments/accumulation/accumulation.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/emulation/unit/gemm.hpp>
#include <halfulp/data/statistics.hpp>
#include <halfulp/data/distributions.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/hardware/unit_file.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace halfulp::accumulation {
namespace {

constexpr std::size_t side = 8;  ///< of the square of outputs

struct Choices {
  std::vector<MatrixUnit> units;
  std::vector<std::size_t> lengths;  ///< ascending
  std::size_t promote_every;
  std::uint64_t seed;
};

Choices read_choices(const Config& config) {
  Choices c{{},
            {},
            static_cast<std::size_t>(config.integer("promote_every")),
            static_cast<std::uint64_t>(config.integer("seed"))};
  const auto put = [&](const MatrixUnit& unit) {
    for (const MatrixUnit& other : c.units)
      if (other.name == unit.name) throw std::invalid_argument("units: " + unit.name + " is there twice");
    c.units.push_back(unit);
  };
  const std::string names = config.text("units"), file = config.text("unit_file");
  if (names.empty() && file.empty()) throw std::invalid_argument("units: no unit given; halfulp units lists them");
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    if (end == begin) throw std::invalid_argument("units: an empty name between commas; halfulp units lists the names");
    put(find_unit(names.substr(begin, end - begin)));
    begin = end + 1;
  }
  if (!file.empty()) put(read_unit_file(file));
  for (const std::int64_t n : config.integers("unit_lengths")) c.lengths.push_back(static_cast<std::size_t>(n));
  std::sort(c.lengths.begin(), c.lengths.end());
  c.lengths.erase(std::unique(c.lengths.begin(), c.lengths.end()), c.lengths.end());
  return c;
}

/// A of side x n and B of n x side, rounded to a unit's operands, and the exact products by length.
struct TileFactors {
  std::vector<std::uint64_t> a, b;         ///< product by product: a[k * side + i], b[k * side + j]
  std::vector<std::vector<double>> exact;  ///< [length][output], each rounded once
};

TileFactors make_factors(const Choices& c, const MatrixUnit& unit, bool normal) {
  TileFactors f;
  const auto draw = [&](std::uint64_t stream, std::uint64_t i) {
    return normal ? normal_sample(c.seed, stream, i) : uniform_sample(c.seed, stream, i);
  };
  const int scale_a = scale_of(unit.a), scale_b = scale_of(unit.b);
  const Units one = in_units(1, scale_a + scale_b);
  std::vector<Units> sums(side * side), a(side), b(side);
  for (std::size_t k = 0; k < c.lengths.back(); ++k) {
    const auto put = [&](const FloatFormat& format, std::uint64_t stream, std::size_t i, int scale,
                         std::vector<std::uint64_t>& words) {
      const std::uint64_t code = encode(format, {}, draw(stream, k * side + i)).code;
      words.push_back(code_word(format, code));
      return in_units(format.value(code), scale);
    };
    for (std::size_t i = 0; i < side; ++i)
      a[i] = put(unit.a, 0, i, scale_a, f.a), b[i] = put(unit.b, 1, i, scale_b, f.b);
    for (std::size_t o = 0; o < sums.size(); ++o) sums[o] += a[o / side] * b[o % side];
    if (k + 1 != c.lengths[f.exact.size()]) continue;
    std::vector<double>& exact = f.exact.emplace_back();
    for (const Units& sum : sums) exact.push_back(ratio(sum, one));
  }
  return f;
}

/// The unit's outputs over the products [begin, end), from `addend`.
std::vector<std::uint64_t> multiply(const MatrixUnit& unit, const TileFactors& f, std::size_t begin, std::size_t end,
                                    const std::vector<std::uint64_t>& addend) {
  const std::size_t n = end - begin;
  std::vector<std::uint64_t> a(side * n);
  for (std::size_t i = 0; i < side; ++i)
    for (std::size_t k = 0; k < n; ++k) a[i * n + k] = f.a[(begin + k) * side + i];
  std::vector<std::uint64_t> d(side * side);
  const auto b = std::span(f.b).subspan(begin * side, n * side);
  // Scales, where a unit takes them, are 1.
  const auto block = static_cast<std::size_t>(unit.scale_block);
  const std::vector<std::uint8_t> ones(unit.scaled() ? side * ((n + block - 1) / block) : 0,
                                       static_cast<std::uint8_t>(encode(unit.scale, {}, 1).code));
  mma_gemm(unit,
           {side, side, n, std::span<const std::uint64_t>(a), b, std::span(addend), std::span(ones), std::span(ones)},
           std::span(d));
  return d;
}

/// Sums of `every` products by the unit, added in FP32 to nearest.
std::vector<double> promoted(const MatrixUnit& unit, const TileFactors& f, std::size_t n, std::size_t every) {
  const std::vector<std::uint64_t> zeros(side * side);
  std::vector<std::uint64_t> total(side * side);
  for (std::size_t begin = 0; begin < n; begin += every) {
    const auto part = multiply(unit, f, begin, std::min(n, begin + every), zeros);
    for (std::size_t o = 0; o < total.size(); ++o)
      total[o] = evaluate(Operation::add, fp32, {}, total[o],
                          evaluate({Operation::convert, unit.accumulator, fp32, {}}, part[o]).code)
                     .code;
  }
  std::vector<double> values;
  for (const std::uint64_t code : total) values.push_back(fp32.value(code));
  return values;
}

std::vector<double> plain(const MatrixUnit& unit, const TileFactors& f, std::size_t n) {
  std::vector<double> values;
  for (const std::uint64_t code : multiply(unit, f, 0, n, std::vector<std::uint64_t>(side * side)))
    values.push_back(unit.accumulator.value(code));
  return values;
}

struct UnitErrors {
  double rms = 0, largest = 0, largest_output = 0, largest_exact = 0;
  std::size_t overflowed = 0;
};
template <class V>
void fields(V& v, UnitErrors& e) {
  v("rms", e.rms);
  v("largest", e.largest);
  v("largest_output", e.largest_output);
  v("largest_exact", e.largest_exact);
  v("overflowed", e.overflowed);
}

UnitErrors errors(const std::vector<double>& d, const std::vector<double>& exact) {
  UnitErrors e;
  double squares = 0, size = 0;
  for (std::size_t o = 0; o < d.size(); ++o) {
    if (!std::isfinite(d[o])) {
      ++e.overflowed;
      continue;
    }
    const double error = d[o] - exact[o];
    squares += error * error, size += exact[o] * exact[o];
    if (exact[o] != 0) e.largest = std::max(e.largest, std::fabs(error / exact[o]));
    e.largest_output = std::max(e.largest_output, std::fabs(d[o])),
    e.largest_exact = std::max(e.largest_exact, std::fabs(exact[o]));
  }
  e.rms = size > 0 ? std::sqrt(squares / size) : 0;
  return e;
}

struct UnitCurve {
  MatrixUnit unit;
  bool normal = false;
  std::vector<UnitErrors> plain, promoted;
};
/// Unit and factors are what was asked for.
template <class V>
void fields(V& v, UnitCurve& c) {
  v("plain", c.plain);
  v("promoted", c.promoted);
}

constexpr std::string_view hopper = "hopper.wgmma.e4m3.fp32", blackwell = "blackwell.tcgen05.e4m3.fp32";

/// What must follow from the units' rules, and what was published, on uniform products.
void claims(const Choices& c, const std::vector<UnitCurve>& curves, Report& report) {
  const auto curve_of = [&](std::string_view name, bool normal = false) {
    const auto found = std::find_if(curves.begin(), curves.end(), [&](const UnitCurve& curve) {
      return curve.unit == find_unit(name) && curve.normal == normal;
    });
    return found == curves.end() ? nullptr : &*found;
  };
  const auto at = [&](std::size_t n) {
    return static_cast<std::size_t>(std::find(c.lengths.begin(), c.lengths.end(), n) - c.lengths.begin());
  };
  const UnitCurve *h = curve_of(hopper), *b = curve_of(blackwell);
  const std::string no_hopper = fmt::format("units does not contain {}", hopper),
                    no_blackwell = fmt::format("units does not contain {}", blackwell);

  const std::string stops_id = "hopper-fp8-stops-at-2-to-the-13";
  const std::string stops =
      "On Hopper's FP8 unit, products below 1 add up to at most 2^13 + 32: beside 2^13, what lies below 1 is cut off.";
  const Citation stops_source{publications::hopper_fp8,
                              "derived: 13 bits below the largest exponent, 32 products a sum"};
  double output = 0, exact = 0;
  if (h)
    for (const UnitErrors& e : h->plain)
      output = std::max(output, e.largest_output), exact = std::max(exact, e.largest_exact);
  constexpr double most = 8192 + 32;
  report.claim({stops_id, stops, stops_source},
               exact > most ? at_most(most, output, "oracle")
                            : skipped(h ? "no dot product of unit_lengths is that large" : no_hopper));

  // The paper names no distribution of the factors: both are claims, and what they say differs.
  for (const bool normal : {false, true}) {
    const UnitCurve* const curve = curve_of(hopper, normal);
    const std::size_t i = at(4096);
    report.claim(
        {normal ? "deepseek-fp8-accumulation-normal" : "deepseek-fp8-accumulation",
         fmt::format(
             "With K = 4096 and factors {}, accumulating on Hopper's FP8 unit gives a largest relative error of "
             "nearly 2%.",
             normal ? "drawn from N(0, 1)" : "uniform in (0, 1)"),
         {publications::hopper_fp8, "DeepSeek-V3, arXiv 2412.19437, section 3.3.2"}},
        !curve                  ? skipped(no_hopper)
        : i == c.lengths.size() ? skipped("unit_lengths does not contain 4096")
        : normal ? skipped(fmt::format("cannot tell: {:.2g} here, but of sums of both signs the largest relative error "
                                       "is that of the output nearest 0, and changes tenfold from draw to draw",
                                       curve->plain[i].largest))
                 : within(0.02, 0.005, curve->plain[i].largest,
                          may_differ("the paper names no distribution; with positive terms the error grows with the "
                                     "sum; for N(0, 1) factors see the next claim")));
  }

  // A sum of 32 positive products and an addend loses less than 2^(emax - 13) a term, and the result 2^-13 of itself.
  // Terms lose something only if emax is the addend's, or at least -4 (the last bit of a product is 2^-18): then the
  // largest product has no subnormal factor, as they are below 2^-6. Either way the sum is at least 2^emax.
  const auto bound = [](double sums, int bits, int kept) {
    return sums * (33 * std::ldexp(1, -bits) + std::ldexp(1, -kept));
  };
  const std::string repair_id = "promotion-repairs-hopper-fp8";
  const Citation repair_source{publications::hopper_fp8,
                               "derived: truncation of every term and result, and FP32 additions; the repair is "
                               "DeepSeek-V3's, section 3.3.2"};
  const std::string repair = fmt::format(
      "If partial sums move into FP32 every {} products, sums of positive products lose, at any length, no more than "
      "{} products can lose plus what FP32 additions lose.",
      c.promote_every, c.promote_every);
  if (h) {
    double largest = 0;
    for (const UnitErrors& e : h->promoted) largest = std::max(largest, e.largest);
    const double sums = std::ceil(static_cast<double>(c.promote_every) / 32);
    report.claim({repair_id, repair, repair_source},
                 at_most(bound(sums, 13, 13) +
                             static_cast<double>(c.lengths.back()) / static_cast<double>(c.promote_every) * 0x1p-24,
                         largest, "oracle"));
  } else {
    report.claim({repair_id, repair, repair_source}, skipped(no_hopper));
  }

  const std::string wide_id = "blackwell-keeps-25-bits";
  const Citation wide_source{publications::hopper_fp8, "derived: 25 bits below the largest exponent, 24 bits kept"};
  const std::string wide =
      "Blackwell's FP8 unit keeps 25 bits below the largest exponent: without promotion the error grows by 37 * 2^-25 "
      "for each 32 products at most.";
  if (b) {
    double excess = 0;  // largest error over its bound
    for (std::size_t i = 0; i < c.lengths.size(); ++i)
      excess = std::max(excess, b->plain[i].largest / bound(std::ceil(static_cast<double>(c.lengths[i]) / 32), 25, 23));
    report.claim({wide_id, wide, wide_source}, at_most(1, excess, "oracle"));
  } else {
    report.claim({wide_id, wide, wide_source}, skipped(no_blackwell));
  }
}

}  // namespace

std::vector<Parameter> matrix_unit_parameters() {
  return {{"units", ParameterType::text,
           "hopper.wgmma.e4m3.fp32,hopper.mma.e4m3.fp32,ada.mma.e4m3.fp32,blackwell.tcgen05.e4m3.fp32,hopper.mma.fp16."
           "fp32,hopper.mma.fp16.fp16",
           "matrix units, separated by commas (see halfulp units), that accumulate dot products"},
          {"unit_file", ParameterType::path, "",
           "a JSON file with one more unit, of your own, as halfulp mma --unit-file takes it"},
          {"unit_lengths", ParameterType::integers, "128,512,1024,4096,16384,65536",
           "products of a dot product on a matrix unit", 1, 262144}};
}

void check_matrix_units(const Config& config) { read_choices(config); }

void matrix_units_report(const Config& config, Run& run) {
  const Choices c = read_choices(config);
  std::vector<Trial> asked;
  for (const MatrixUnit& unit : c.units)
    for (const bool normal : {false, true})
      asked.push_back({fmt::format("{} {}", unit.name, normal ? "normal" : "uniform"),
                       {{"unit", unit_to_json(unit)},
                        {"normal", normal},
                        {"lengths", c.lengths},
                        {"promote_every", c.promote_every},
                        {"seed", c.seed}}});
  auto curves = trials<UnitCurve>(run, {"matrix_units", 2}, asked, 0, 0, [&](std::size_t i, Trace&) {
    UnitCurve curve{c.units[i / 2], i % 2 == 1, {}, {}};
    const TileFactors f = make_factors(c, curve.unit, curve.normal);
    for (std::size_t l = 0; l < c.lengths.size(); ++l) {
      curve.plain.push_back(errors(plain(curve.unit, f, c.lengths[l]), f.exact[l]));
      curve.promoted.push_back(errors(promoted(curve.unit, f, c.lengths[l], c.promote_every), f.exact[l]));
    }
    return curve;
  });
  for (std::size_t i = 0; i < curves.size(); ++i) curves[i].unit = c.units[i / 2], curves[i].normal = i % 2 == 1;

  Table& table = run.report.table(
      "matrix_units", "Dot products on matrix units: the error grows with their length, promotion to FP32 bounds it",
      {{"unit", "", "The matrix unit (halfulp units NAME says how it adds); scales, where it takes them, are 1."},
       {"factors", "", "Uniform in (0, 1), or normal: N(0, 1)."},
       {"terms", "term", "Length of the dot product."},
       {"rms_error", "1",
        "The unit's accumulator takes all terms: Frobenius norm of the errors of all outputs, divided by that of the "
        "exact outputs."},
       {"max_error", "1",
        "Largest error of an output divided by the exact output, which may be near 0 where factors have both signs."},
       {"promoted_rms_error", "1",
        "The same where the unit's sum is added to another in FP32 after every promote_every terms."},
       {"promoted_max_error", "1", "And the largest error of an output then."},
       {"overflowed", "output", "Outputs that are not finite, promoted or not, and in no error."}});
  for (const UnitCurve& curve : curves)
    for (std::size_t l = 0; l < c.lengths.size(); ++l) {
      const UnitErrors &e = curve.plain[l], &p = curve.promoted[l];
      const auto cell = [&](const UnitErrors& of, double value) {
        return of.overflowed < side * side ? number(value) : Json();
      };
      table.row({curve.unit.name, curve.normal ? "normal" : "uniform", c.lengths[l], cell(e, e.rms), cell(e, e.largest),
                 cell(p, p.rms), cell(p, p.largest), e.overflowed + p.overflowed});
    }
  claims(c, curves, run.report);
}

}  // namespace halfulp::accumulation
