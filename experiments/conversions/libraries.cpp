// Which library casts round on the way, and how often that shows.
#include <halfulp/emulation/cast/profile.hpp>
#include <halfulp/experiments/conversions/conversions.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/trials.hpp>

#include <fmt/format.h>

namespace halfulp::conversions {
namespace {

/// Casts that no profile has: what was reported of them.
struct Report {
  std::string_view library, cast, chain, source, state;
};
constexpr std::array<Report, 7> reports{{
    {"triton", "x.to(tl.float8e4nv) on Ada", "fp32>fp16>e4m3", "triton-lang/triton #11753",
     "a change that repairs it was proposed in 2026"},
    {"triton (AMD)", "fp32 to fp8, rounded to nearest even", "fp32>fp16>e4m3", "triton-lang/triton #10846",
     "removed in 2026; dead code by then"},
    {"julia", "Float16(x::Float64)", "fp64>fp32>fp16", "JuliaLang/julia #40315, #57809", "repaired in 2025"},
    {"halide", "cast of double to float16_t", "fp64>fp32>fp16", "halide/Halide #8906", "repaired in 2025"},
    {"halide", "cast of double to bfloat16_t", "fp64>fp32>bf16", "halide/Halide #8906", "repaired in 2025"},
    {"groonga", "weights of JSON to BFloat16", "fp64>fp32>bf16", "groonga/groonga #2965", "repaired in 2026"},
    {"arch-com", "integers to bf16", "i64>fp32>bf16", "arch-hdl-lang/arch-com #629", "open in 2026"},
}};

struct Row {
  const Profile* profile = nullptr;
  const CastRule* rule = nullptr;
  ConversionChain chain;
};

/// A rule beside the same without the way through fp32, on every finite double; the example is the first that differs
/// from 1 on.
ChainCounts compared(const Row& row) {
  const FloatFormat& to = row.rule->to;
  CastRule straight = *row.rule;
  straight.through_fp32 = 0;
  ChainCounts counts;
  for (const bool negative : {false, true}) {
    if (negative && !to.is_signed) break;
    const MagnitudeLine line(fp64, negative);
    DifferingRanges d = differences(
        line.size(), last_place(to), to.min_normal(), to.max_finite(),
        [&](uint128 x) { return place(to, apply(straight, fp64, line.code(x)), negative); },
        [&](uint128 x) { return place(to, apply(*row.rule, fp64, line.code(x)), negative); });
    d.normal_end = std::min(d.normal_end, line.position_of_power(to.emax() + 1));
    counts.normal_inputs += static_cast<double>(d.normal_end - d.normal_begin);
    for (const DifferingRange& s : d.ranges) {
      counts.wrong += static_cast<std::uint64_t>(s.end - s.first);
      counts.wrong_normal += d.normal(s);
      if (counts.example || s.first < line.position_of_power(0)) continue;
      const std::uint64_t input = line.code(s.first);
      counts.example = ChainWitness{input, first_step(row.chain, {}, input), apply(straight, fp64, input),
                                    apply(*row.rule, fp64, input)};
    }
  }
  return counts;
}

std::vector<Json> cells_of(const ConversionChain& chain, const ChainCounts& m) {
  std::vector<Json> cells{count(m.wrong),
                          number(m.normal_inputs > 0 ? static_cast<double>(m.wrong_normal) / m.normal_inputs : 0)};
  for (Json& cell : conversions::cells_of(chain, m.example)) cells.push_back(std::move(cell));
  return cells;
}

std::string_view known(CastEvidence evidence) {
  switch (evidence) {
    case CastEvidence::compared: return "compared";
    case CastEvidence::rederived: return "rederived";
    case CastEvidence::source_read: return "source read";
    case CastEvidence::specification: return "specification";
  }
  return "";
}

}  // namespace

void libraries(Run& run) {
  std::vector<Column> columns{
      {"library", "", "Cast profile (halfulp profiles NAME shows its rules), or the software that a report is on."},
      {"version", "", "What was run or read; of reports, what became of them."},
      {"cast", "", "What is called."},
      {"chain", "", "How it rounds."},
      {"known_from", "",
       "Evidence: compared (the library was run and gives the same code words), rederived, source read, specification; "
       "reported (not run here)."},
      {"differ", "1",
       "Finite inputs whose result differs from that of the same cast without the way (tensorflow's bfloat16: and "
       "without its flush of what is tiny in fp32)."},
      {"share", "1", "Of the inputs whose direct result is a normal number, the share that differ."}};
  for (Column& c : witness_columns()) columns.push_back(std::move(c));
  columns.push_back({"source", "", "Citation."});
  Table& table = run.report.table("libraries", "Library casts that round on the way", std::move(columns));

  std::vector<Row> rows;
  for (const Profile& profile : profiles())
    for (const CastRule& rule : profile.rules)
      if ((rule.through_fp32 & source::fp64) && rule.to.has_zero)
        rows.push_back({&profile, &rule, parse_chain("fp64>fp32>" + format_name(rule.to))});
  std::vector<Trial> asked;
  for (const Row& row : rows)
    asked.push_back(
        {fmt::format("{} {}", row.profile->name, row.rule->function),
         {{"profile", row.profile->name}, {"cast", row.rule->function}, {"to", format_name(row.rule->to)}}});
  for (const Report& r : reports) asked.push_back({std::string(r.chain), {{"chain", r.chain}}});
  const auto measured = trials<ChainCounts>(run, {"library_casts", 1}, asked, 0.7, 0.85, [&](std::size_t i, Trace&) {
    if (i < rows.size()) return compared(rows[i]);
    return ChainCounts(measure(parse_chain(reports[i - rows.size()].chain), same(RoundingMode::nearest_even)));
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    std::vector<Json> cells{row.profile->name, row.profile->version, row.rule->function, row.chain.text,
                            known(row.rule->evidence)};
    for (Json& cell : cells_of(row.chain, measured[i])) cells.push_back(std::move(cell));
    cells.push_back(row.profile->citation);
    table.row(std::move(cells));
  }
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const Report& r = reports[i];
    std::vector<Json> cells{r.library, r.state, r.cast, r.chain, "reported"};
    for (Json& cell : cells_of(parse_chain(r.chain), measured[rows.size() + i])) cells.push_back(std::move(cell));
    cells.push_back(r.source);
    table.row(std::move(cells));
  }

  const Profile& torch = find_profile("pytorch");
  const std::string numpy =
      "numpy converts float64 to float16 directly, PyTorch by way of float32: they differ on 1 + 2^-11 + 2^-40.";
  const auto input = std::bit_cast<std::uint64_t>(1 + 0x1p-11 + 0x1p-40);
  run.report.claim(
      {"numpy-and-pytorch-fp16-differ", numpy,
       "cast profiles ml_dtypes (numpy's own float16) and pytorch; derived: above a middle, on it in float32"},
      exactly({{"numpy", 1 + 0x1p-10}, {"pytorch", 1.0}},
              {{"numpy", number(fp16.value(apply(rule_for(find_profile("ml_dtypes"), fp64, fp16), fp64, input)))},
               {"pytorch", number(fp16.value(apply(rule_for(torch, fp64, fp16), fp64, input)))}},
              "third-party"));
}

// Numbers that others found: each must come out as they say, directly and by their way.

namespace {

struct Found {
  std::string_view id, chain, text, source;
  double input, direct, chained;
};
constexpr std::array<Found, 5> found{{
    {"triton-e4m3-through-fp16", "fp32>fp16>e4m3", "1.0625001", "triton-lang/triton #11753", 1.0625001f, 1.125, 1.0},
    {"julia-float64-to-float16", "fp64>fp32>fp16", "63343.99805", "JuliaLang/julia #40315", 63343.99805, 63328, 63360},
    {"halide-double-to-float16", "fp64>fp32>fp16", "1025.49995", "halide/Halide #903", 1025.49995, 1025, 1026},
    {"groonga-double-to-bfloat16", "fp64>fp32>bf16", "1.003906251", "groonga/groonga #2965", 1.003906251, 1.0078125,
     1.0},
    {"integer-to-bf16", "i32>fp32>bf16", "16842753", "arch-hdl-lang/arch-com #629", 16842753, 16908288, 16777216},
}};

}  // namespace

void published(Run& run) {
  for (const Found& f : found) {
    const ConversionChain chain = parse_chain(f.chain);
    const auto* from = std::get_if<FloatFormat>(&chain.from);
    const std::uint64_t code = from ? encode(*from, {}, f.input).code : static_cast<std::uint64_t>(f.input);
    const ChainWitness w = witness(chain, same(RoundingMode::nearest_even), code);
    run.report.claim(
        {std::string(f.id), fmt::format("{} by way of {} is {}, not {}.", f.text, f.chain, f.chained, f.direct),
         std::string(f.source)},
        exactly({{"direct", f.direct}, {"chained", f.chained}},
                {{"direct", number(chain.to.value(w.direct))}, {"chained", number(chain.to.value(w.chained))}},
                "published"));
  }

  // "Brute force over [1, 2^30): 8064 mismatches".
  const ConversionChain chain = parse_chain("i32>fp32>bf16");
  const ChainErrors m = measure(chain, same(RoundingMode::nearest_even));
  std::uint64_t below = 0;
  for (const DifferingRange& s : m.of_sign[0].ranges)
    if (s.end <= uint128{1} << 30) below += static_cast<std::uint64_t>(s.end - s.first);
  run.report.claim(
      {"integers-to-bf16-below-2-to-the-30",
       "Of the integers below 2^30, 8064 become another bf16 number by way of fp32.", "arch-hdl-lang/arch-com #629"},
      exactly(8064u, below, "published"));

  // One binade, where every value of the target is normal: 2^(t - v - 1) of it.
  struct Share {
    std::string_view id, chain, words;
    int log2;
  };
  constexpr std::array<Share, 4> shares{{{"one-in-32-through-bf16-to-e4m3", "fp32>bf16>e4m3",
                                          "One fp32 number in 32 becomes the wrong e4m3 number by way of bf16", -5},
                                         {"one-in-256-through-fp16-to-e4m3", "fp32>fp16>e4m3",
                                          "One fp32 number in 256 becomes the wrong e4m3 number by way of fp16", -8},
                                         {"one-in-16384-through-fp32-to-fp16", "fp64>fp32>fp16",
                                          "One double in 16,384 becomes the wrong fp16 number by way of fp32", -14},
                                         {"one-in-131072-through-fp32-to-bf16", "fp64>fp32>bf16",
                                          "One double in 131,072 becomes the wrong bf16 number by way of fp32", -17}}};
  for (const Share& share : shares) {
    const ConversionChain c = parse_chain(share.chain);
    const MagnitudeLine line(c.from, false);
    const uint128 one = line.position_of_power(0), two = line.position_of_power(1);
    std::uint64_t wrong = 0;
    const ChainErrors of_chain = measure(c, same(RoundingMode::nearest_even));
    for (const DifferingRange& s : of_chain.of_sign[0].ranges)
      if (s.first >= one && s.end <= two) wrong += static_cast<std::uint64_t>(s.end - s.first);
    run.report.claim({std::string(share.id), fmt::format("{} (share of [1, 2)).", share.words),
                      "derived: 2^(t-1) middles a binade, of each one side of 2^(s-v-1) numbers, of 2^(s-1); s, "
                      "v, t: bits of source, way and target"},
                     exactly(FloatFormat::power_of_two(share.log2),
                             static_cast<double>(wrong) / static_cast<double>(two - one), "oracle"));
  }
}

}  // namespace halfulp::conversions
