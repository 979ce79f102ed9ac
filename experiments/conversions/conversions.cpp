// Double rounding: numbers that a format on the way turns into other numbers.
#include <halfulp/experiments/conversions/conversions.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/trials.hpp>

#include <fmt/format.h>

#include <map>

namespace halfulp {
namespace conversions {

Json count(uint128 n) { return n >> 64 == 0 ? Json(static_cast<std::uint64_t>(n)) : Json(static_cast<double>(n)); }

std::string full_text(const NumberType& type, std::uint64_t code) {
  if (const auto* f = std::get_if<FloatFormat>(&type)) return fmt::format("{}", f->value(code));
  const auto& integer = std::get<IntegerType>(type);
  if (!integer.is_signed) return fmt::format("{}", code);
  const int unused = 64 - integer.bits;
  return fmt::format("{}", static_cast<std::int64_t>(code << unused) >> unused);
}

std::vector<Json> cells_of(const ConversionChain& chain, const std::optional<ChainWitness>& w) {
  if (!w) return std::vector<Json>(witness_columns().size());
  return {full_text(chain.from, w->input), fmt::format("0x{:0{}x}", w->input, hex_digits(chain.from)),
          full_text(chain.via.front(), w->on_the_way), full_text(chain.to, w->direct), full_text(chain.to, w->chained)};
}

std::vector<Column> witness_columns() {
  return {{"example", "1",
           "The first input from 1 on that differs, all its digits (as text); the smallest if there is none."},
          {"example_code", "", "Its code word."},
          {"on_the_way", "1", "What the first conversion makes of it."},
          {"direct", "1", "The direct result."},
          {"chained", "1", "The result by way of the chain."}};
}

namespace {

/// How the ways of table `modes` round; the last conversion is to nearest even.
constexpr std::array way_modes{RoundingMode::nearest_even, RoundingMode::nearest_away, RoundingMode::toward_zero,
                               RoundingMode::toward_positive, RoundingMode::to_odd};

struct Case {
  std::size_t chain;
  ChainRounding rounding;
};

double fraction(std::uint64_t n, double of) { return of > 0 ? static_cast<double>(n) / of : 0; }

/// Whether every format on the way has two bits more than the target, among small numbers too, and its range: what
/// rounding to odd on the way needs to lose nothing (Boldo & Melquiond).
bool odd_suffices(const ConversionChain& chain) {
  const FloatFormat& to = chain.to;
  const double middle = to.value(to.max_finite()) +
                        FloatFormat::power_of_two(to.emax() - to.fraction_bits - 1);  // from here on it overflows
  return std::all_of(chain.via.begin(), chain.via.end(), [&](const FloatFormat& via) {
    return via.precision() >= to.precision() + 2 &&
           via.emin() - via.fraction_bits <= to.emin() - to.fraction_bits - 2 && via.value(via.max_finite()) >= middle;
  });
}

/// Positive inputs 2^exponent <= x < 2^(exponent + 1) that differ.
struct DifferingBinade {
  int exponent = 0;
  std::uint64_t wrong = 0;
};
template <class V>
void fields(V& v, DifferingBinade& b) {
  v("exponent", b.exponent);
  v("wrong", b.wrong, hexadecimal);
}

/// One case: its counts and, of the first rounding, those by binade. (Of every other, millions of ranges are dropped
/// here.)
struct CaseCounts {
  ChainCounts of;
  std::vector<DifferingBinade> binades;
};
template <class V>
void fields(V& v, CaseCounts& c) {
  v("of", c.of);
  v("binades", c.binades);
}

std::vector<DifferingBinade> by_binade(const MagnitudeLine& line, const DifferingRanges& found) {
  std::vector<DifferingBinade> all;
  for (const DifferingRange& s : found.ranges)
    for (uint128 x = s.first; x < s.end;) {
      if (x == 0) {  // zero differs where a format on the way has none
        ++x;
        continue;
      }
      const int e = line.exponent(x);
      const uint128 end = std::min(s.end, line.position_of_power(e + 1));
      if (all.empty() || all.back().exponent != e) all.push_back({e, 0});
      all.back().wrong += static_cast<std::uint64_t>(end - x);
      x = end;
    }
  return all;
}

/// Positive inputs of one chain by binade; neighbours that are alike become one row.
void write_binades(const ConversionChain& chain, const ChainRounding& rounding, const CaseCounts& m, Table& table) {
  struct Binade {
    std::uint64_t wrong = 0, inputs = 0;
    std::optional<std::uint64_t> expected;
    std::string_view result;
  };
  const MagnitudeLine line(chain.from, false);
  const FloatFormat& to = chain.to;
  std::map<int, Binade> binades;
  for (const DifferingBinade& b : m.binades) binades[b.exponent].wrong = b.wrong;
  for (int e = to.emin() - to.fraction_bits - 1; e <= to.emax(); ++e) binades[e];
  for (auto& [e, b] : binades) {
    b.inputs = static_cast<std::uint64_t>(line.position_of_power(e + 1) - line.position_of_power(e));
    b.expected = expected_in_binade(chain, rounding, false, e);
    b.result = e < to.emin() ? "subnormal" : e > to.emax() ? "overflow" : "normal";
  }
  std::erase_if(binades, [](const auto& entry) { return entry.second.inputs == 0; });
  for (auto first = binades.begin(); first != binades.end();) {
    auto last = first, next = std::next(first);
    const Binade& b = first->second;
    while (next != binades.end() && next->first == last->first + 1 && next->second.wrong == b.wrong &&
           next->second.inputs == b.inputs && next->second.expected == b.expected && next->second.result == b.result)
      last = next++;
    table.row({chain.text, first->first, last->first, b.result, count(b.inputs), count(b.wrong),
               number(fraction(b.wrong, static_cast<double>(b.inputs))),
               b.expected ? number(fraction(*b.expected, static_cast<double>(b.inputs))) : Json()});
    first = next;
  }
}

std::vector<Parameter> parameters() {
  std::vector<Parameter> all{
      {"chains", ParameterType::text,
       "fp32>bf16>e4m3,fp32>bf16>e5m2,fp32>fp16>e4m3,fp32>fp16>e5m2,fp32>tf32>bf16,fp32>e5m3>e5m2,fp64>fp32>fp16,fp64>"
       "fp32>bf16,fp64>fp32>e4m3,"
       "fp64>fp32>bf16>e4m3,i32>fp32>bf16,i32>fp32>fp16,i64>fp32>bf16,fp16>bf16>e4m3",
       "conversions one after the other, separated by commas: a format or i32, i64, u32, u64, formats on the way, a "
       "format of up to 20 bits"},
      {"roundings", ParameterType::roundings, "nearest-even,nearest-away,toward-zero,to-odd",
       "rounding modes of every conversion of a chain"},
      {"exhaustive", ParameterType::boolean, "false",
       "convert all 2^32 inputs of sources of 32 bits one by one, too (about a minute of processor time a chain and "
       "rounding); otherwise 2^22 of each sign"},
  };
  for (Parameter& p : operation_parameters()) all.push_back(std::move(p));
  return all;
}

/// What theory says of whole tables.
void claims(const std::vector<ConversionChain>& chains, const std::vector<Case>& cases,
            const std::vector<CaseCounts>& measured, Run& run) {
  Json expected = Json::object(), found = Json::object();
  OneByOne seen;
  std::uint64_t directed = 0, odd = 0;
  bool any_directed = false, any_odd = false;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const ConversionChain& chain = chains[cases[i].chain];
    const RoundingMode way = cases[i].rounding.via.mode, last = cases[i].rounding.last.mode;
    const ChainCounts& m = measured[i].of;
    seen += m.seen;
    const auto counted = expected_wrong(chain, cases[i].rounding);
    if (counted) {
      const std::string key = way == last ? fmt::format("{} {}", chain.text, name_of(way))
                                          : fmt::format("{} {} then {}", chain.text, name_of(way), name_of(last));
      expected[key] = *counted, found[key] = m.wrong;
    }
    if (!counted || chain.via.size() != 1) continue;
    if (way == last && (way == RoundingMode::toward_zero || way == RoundingMode::toward_positive ||
                        way == RoundingMode::toward_negative))
      any_directed = true, directed += m.wrong;
    if (way == RoundingMode::to_odd && last == RoundingMode::nearest_even && odd_suffices(chain))
      any_odd = true, odd += m.wrong;
  }
  const auto claim = [&](bool any, std::string id, std::string statement, std::string source, Json by_theory,
                         Json counted, std::string none) {
    run.report.claim({id, statement, source},
                     any ? exactly(std::move(by_theory), std::move(counted), "oracle") : skipped(none));
  };
  const std::string no_chain = "no chain here has one format on the way that is wide enough";
  claim(!expected.empty(), "counts-follow-from-precisions",
        "How many inputs differ follows from the numbers of bits alone, for every chain of two conversions, to the "
        "last input.",
        "derived: middles of the target times the numbers that the way puts on them", expected, found, no_chain);
  claim(any_directed, "directed-twice-is-directed-once",
        "Rounded toward zero twice, or twice in one direction, nothing differs.",
        "derived: a value of the target is one of the way, so the way never goes past it", 0u, directed,
        any_directed ? "" : "roundings contains no directed mode, or " + no_chain);
  claim(any_odd, "to-odd-repairs-the-way",
        "Rounded to odd on the way, with two bits more than the target, nothing differs to nearest even.",
        "Boldo & Melquiond 2008, Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd",
        0u, odd, no_chain);
  claim(
      seen.compared > 0, "one-by-one-agrees",
      "Inputs converted one by one by the array functions differ exactly where the counting has them (contradictions).",
      "derived: rounding is monotone", 0u, seen.contradicting, "no array function takes inputs of these chains");
  claim(seen.ends > 0, "rationals-agree-at-the-ends",
        "By exact rationals, the first and last numbers that differ do, and their neighbours do not (contradictions).",
        "derived: IEEE 754-2019, 4.3, on rationals", 0u, seen.ends_contradicting, "nothing differs here");
}

void run_conversions(const Config& config, Run& run) {
  const std::vector<ConversionChain> chains = parse_chains(config.text("chains"));
  const auto roundings = config.roundings("roundings");
  for (const RoundingMode mode : roundings)
    if (mode == RoundingMode::stochastic)
      throw std::invalid_argument(
          "roundings: stochastic rounding has no one result to compare with; choose a deterministic mode");
  check_operations(config);
  const bool exhaustive = config.boolean("exhaustive");

  std::vector<Case> cases;
  for (const RoundingMode mode : roundings)
    for (std::size_t c = 0; c < chains.size(); ++c) cases.push_back({c, same(mode)});
  const std::size_t modes_begin = cases.size();
  for (std::size_t c = 0; c < chains.size(); ++c)
    for (const RoundingMode mode : way_modes) cases.push_back({c, {{mode}, {RoundingMode::nearest_even}}});

  std::vector<Trial> asked;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [chain, rounding] = cases[i];
    const std::string way(name_of(rounding.via.mode)), last(name_of(rounding.last.mode));
    asked.push_back({chains[chain].text + " " + (way == last ? way : way + " then " + last),
                     {{"chain", chains[chain].text},
                      {"way", way},
                      {"last", last},
                      {"one_by_one", i >= modes_begin ? "none"
                                     : exhaustive     ? "all"
                                                      : "some"},
                      {"binades", i < chains.size()}}});
  }
  const auto measured = trials<CaseCounts>(run, {"chains", 1}, asked, 0, 0.7, [&](std::size_t i, Trace& trace) {
    const ConversionChain& chain = chains[cases[i].chain];
    const ChainErrors m = measure(chain, cases[i].rounding,
                                  i >= modes_begin ? Look::none
                                  : exhaustive     ? Look::all
                                                   : Look::some,
                                  &trace);
    return CaseCounts{m, i < chains.size() ? by_binade(MagnitudeLine(chain.from, false), m.of_sign[0])
                                           : std::vector<DifferingBinade>()};
  });

  std::vector<Column> columns{
      {"chain", "", "Types of numbers, converted from left to right."},
      {"rounding", "", "Rounding mode of every conversion."},
      {"inputs", "1", "Finite numbers of the source; +0 and -0, where it has both, are two."},
      {"differ", "1", "Inputs whose result is not that of the direct conversion; zeros of either sign are the same."},
      {"expected", "1",
       "As many as must differ, counted from the numbers of bits alone; null where the counting does not apply."},
      {"share", "1", "Of the inputs whose direct result is a normal number, the share that differ."},
      {"differ_subnormal", "1", "Differing inputs whose direct result is subnormal or zero."},
      {"differ_overflow", "1", "Differing inputs between the largest number and what overflow becomes."},
      {"smallest", "1", "The differing input of least magnitude, all its digits (as text); null if there is none."}};
  for (Column& c : witness_columns()) columns.push_back(std::move(c));
  columns.push_back({"one_by_one", "1", "Inputs that were also converted one by one, to see that no others differ."});
  Table& table = run.report.table("chains", "How many numbers a format on the way changes", std::move(columns));
  std::vector<Column> mode_columns{
      {"chain", "", "Types of numbers, converted from left to right."},
      {"way_rounding", "", "Rounding mode of every conversion but the last, which is to nearest even."},
      {"extra_bits", "bit", "Bits of precision that the last format on the way has more than the target."},
      {"odd_suffices", "",
       "Whether to odd repairs this chain: every format on the way has 2 bits more than the target, among small "
       "numbers too, and its range."},
      {"differ", "1", "Inputs whose result is not that of the direct conversion to nearest even."},
      {"expected", "1",
       "As many as must differ, counted from the numbers of bits alone; null where the counting does not apply."},
      {"share", "1", "Of the inputs whose direct result is a normal number, the share that differ."}};
  for (Column& c : witness_columns()) mode_columns.push_back(std::move(c));
  Table& modes = run.report.table("modes", "Rounded otherwise on the way: to odd repairs it where odd_suffices is true",
                                  std::move(mode_columns));
  Table& binades = run.report.table(
      "binades", fmt::format("Positive inputs by binade ({})", name_of(roundings.front())),
      {{"chain", "", "Types of numbers, converted from left to right."},
       {"first_exponent", "binade", "Exponent e of the first binade 2^e <= x < 2^(e+1) of the row."},
       {"last_exponent", "binade", "Exponent of its last; all in between are alike."},
       {"result", "", "What numbers of the target are there: subnormal (or zero), normal, or beyond them."},
       {"inputs", "1", "Numbers of the source in each binade."},
       {"differ", "1", "Inputs of each binade that differ."},
       {"share", "1", "The share of them."},
       {"expected_share", "1", "The share that must differ; null where the counting does not apply."}});

  for (std::size_t i = 0; i < cases.size(); ++i) {
    const ConversionChain& chain = chains[cases[i].chain];
    const ChainCounts& m = measured[i].of;
    const auto expected = expected_wrong(chain, cases[i].rounding);
    std::vector<Json> cells{chain.text, name_of(cases[i].rounding.via.mode)};
    const auto add = [&](std::vector<Json> more) { cells.insert(cells.end(), more.begin(), more.end()); };
    const Json counted = expected ? count(*expected) : Json(),
               normal = number(fraction(m.wrong_normal, m.normal_inputs));
    if (i < modes_begin) {
      add({count(inputs_of(chain)), count(m.wrong), counted, normal, count(m.wrong_subnormal), count(m.wrong_overflow),
           m.smallest ? Json(full_text(chain.from, m.smallest->input)) : Json()});
      add(cells_of(chain, m.example));
      add({count(m.seen.compared)});
      table.row(std::move(cells));
      if (i < chains.size()) write_binades(chain, cases[i].rounding, measured[i], binades);
    } else {
      add({chain.via.back().precision() - chain.to.precision(), odd_suffices(chain), count(m.wrong), counted, normal});
      add(cells_of(chain, m.example));
      modes.row(std::move(cells));
    }
  }
  claims(chains, cases, measured, run);
  libraries(run);
  run.progress(0.85);
  published(run);
  operations_report(config, run);
}

}  // namespace
}  // namespace conversions

namespace {

/// The chain that changes most.
std::string conversions_finding(const ReportTables& tables) {
  const auto chains = tables.rows("chains", {{"rounding", "nearest-even"}});
  const TableRow* const most = largest(chains, "share");
  if (!most) return {};
  const std::string chain = most->text("chain");
  return fmt::format("{} changes {} of the normal results of {}>{}{}.", chain, percent(most->number("share")),
                     chain.substr(0, chain.find('>')), chain.substr(chain.rfind('>') + 1),
                     chains.size() == 1 ? "" : fmt::format(", the most of {} chains", chains.size()));
}

}  // namespace

Experiment conversions_experiment() {
  return {"conversions",
          "Double rounding on the way",
          "How often does a format on the way change a result?",
          conversions::parameters,
          conversions::run_conversions,
          conversions_finding,
          {"chains", {"chain", "share", "example", "direct", "chained"}, {"rounding"}},
          false,
          &publications::double_rounding};
}

}  // namespace halfulp
