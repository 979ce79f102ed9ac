// The same gradients, the ranks in another order: how many results there are.
#include <halfulp/data/distributions.hpp>
#include <halfulp/experiments/collectives/collectives.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace halfulp::collectives {
namespace {

/// Streams of shuffles, far from those of gradients.
constexpr std::uint64_t order_stream = std::uint64_t{1} << 48;

/// Spacing of the format's values in the binade of x (of the lowest, for zero): its unit in the last place.
double ulp(const FloatFormat& f, double x) {
  return FloatFormat::power_of_two((x == 0 ? f.emin() : std::max(std::ilogb(x), f.emin())) - f.fraction_bits);
}

struct Counts {
  std::size_t by_order = 0, by_place = 0, same_by_order = 0, same_by_place = 0;
  std::vector<double> spreads;  ///< of elements without overflow: largest result - smallest, in ulps of the exact sum
  double largest_spread = 0;    ///< in ulps of the root mean square of the exact sums
};

/// Distinct results of one element, of all orders in `results`; zeros of either sign are one.
std::set<std::uint64_t> distinct(const FloatFormat& f, std::vector<std::uint64_t> results) {
  for (std::uint64_t& code : results) code = f.is_nan(code) ? f.canonical_nan() : f.is_zero(code) ? f.zero() : code;
  return {results.begin(), results.end()};
}

Counts count(const CollectiveSettings& s, const FloatFormat& format, Algorithm a,
             const std::vector<std::vector<std::uint32_t>>& orders) {
  Counts counts;
  Collective collective(a, format, s.node, s.seed, nullptr);
  std::vector<std::uint64_t> codes(s.order_ranks), numbers(s.order_ranks);
  const int scale = scale_of(format);
  double squares = 0, widest = 0;
  for (std::size_t i = 0; i < s.elements; ++i) {
    for (std::uint32_t r = 0; r < s.order_ranks; ++r)
      codes[r] = convert(fp32, format, {}, encode(fp32, {}, rank_gradient(s, s.signals.back(), r, i)).code).code;
    const auto results = [&](std::size_t how_many, auto&& order_at) {
      std::vector<std::uint64_t> all;
      for (std::size_t k = 0; k < how_many; ++k) {
        const auto order = order_at(k);
        for (std::uint32_t r = 0; r < s.order_ranks; ++r) numbers[r] = codes[order[r]];
        all.push_back(collective(numbers, i).code);
      }
      return distinct(format, std::move(all));
    };
    const auto by_order = results(orders.size(),
                                  [&](std::size_t k) -> const std::vector<std::uint32_t>& { return orders[k]; });
    const auto by_place = results(depends_on_chunk(a) ? s.order_ranks : 1, [&](std::size_t k) {
      return order_of(a, s.order_ranks, static_cast<std::uint32_t>(k));
    });
    counts.by_order += by_order.size(), counts.by_place += by_place.size();
    counts.same_by_order += by_order.size() == 1, counts.same_by_place += by_place.size() == 1;
    const auto finite = [&](std::uint64_t x) { return format.is_finite(x); };
    if (!std::all_of(codes.begin(), codes.end(), finite) || !std::all_of(by_order.begin(), by_order.end(), finite))
      continue;
    Units exact = 0;
    for (const std::uint64_t x : codes) exact += in_units(format.value(x), scale);
    const double sum = (exact < 0 ? -1 : 1) * ratio(abs(exact), in_units(1, std::max(scale, 0)));
    std::vector<double> values;
    for (const std::uint64_t x : by_order) values.push_back(format.value(x));
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    counts.spreads.push_back((*most - *least) / ulp(format, sum));
    squares += sum * sum, widest = std::max(widest, *most - *least);
  }
  if (const auto n = static_cast<double>(counts.spreads.size()); n > 0)
    counts.largest_spread = widest / ulp(format, std::sqrt(squares / n));
  std::sort(counts.spreads.begin(), counts.spreads.end());
  return counts;
}

/// Of numbers in ascending order.
double median(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace

void report_messages(const CollectiveSettings& s, Run& run) {
  Table& table = run.report.table("messages", "Who sends to whom until one rank has the sum",
                                  {{"algorithm", "", "How the ranks add."},
                                   {"ranks", "rank", "Ranks: at most 16 of those asked for."},
                                   {"round", "1", "Messages of a round do not wait for each other."},
                                   {"from", "", "The rank that sends what it holds, from 0."},
                                   {"to", "", "The rank that adds it to its own."}});
  const std::uint32_t ranks = std::min<std::uint32_t>(16, s.ranks.back());
  for (const Algorithm a : s.algorithms)
    for (const Message& m : messages_of(a, ranks, s.node)) table.row({name_of(a), ranks, m.round, m.from, m.to});
}

void rank_orders(const CollectiveSettings& s, Run& run) {
  std::vector<std::vector<std::uint32_t>> orders;
  for (std::size_t k = 0; k < s.permutations; ++k) orders.push_back(shuffled(s.order_ranks, s.seed, order_stream + k));
  std::vector<Algorithm> all = s.algorithms;
  if (std::find(all.begin(), all.end(), Algorithm::exact) == all.end()) all.push_back(Algorithm::exact);
  const auto counts = parallel_map(s.formats.size() * all.size(), [&](std::size_t i) {
    return count(s, s.formats[i / all.size()].format, all[i % all.size()], orders);
  });

  Table& table = run.report.table(
      "orders", fmt::format("The same gradients in other orders of the ranks, with the signal {:g}", s.signals.back()),
      {{"algorithm", "", "How ranks add; exact, which any order leaves alone, for comparison."},
       {"format", "", "Format of gradients and results."},
       {"ranks", "rank", "Number of ranks."},
       {"orders", "1", "Random orders of the ranks that were tried. Stochastic rounding takes the same bits in each."},
       {"mean_results", "1", "Distinct results of an element over these orders, on average."},
       {"same_in_all", "1", "Share of elements whose result is the same in all of them."},
       {"median_spread", "ulp",
        "Largest result of an element minus its smallest, in ulps of its exact sum: the median over elements; null if "
        "all overflowed."},
       {"largest_spread", "ulp",
        "The same difference, the largest of all elements, in ulps of the root mean square of exact sums (few are near "
        "zero, where ulps are tiny)."},
       {"results_by_place", "1",
        "Distinct results over the places of a buffer: the ring of each chunk starts at another rank; or over the "
        "ranks, where each begins with its own number."},
       {"same_in_all_places", "1", "Share of elements whose result does not depend on their place."},
       {"ranks_disagree", "1",
        "Share of elements of which ranks end up with different numbers: only where each begins with its own; "
        "otherwise they add in one order or get one result."}});
  std::size_t exact_results = 0, exact_elements = 0;
  const auto elements = static_cast<double>(s.elements);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const Algorithm a = all[i % all.size()];
    const Counts& c = counts[i];
    table.row({name_of(a), s.formats[i / all.size()].name, s.order_ranks, s.permutations,
               static_cast<double>(c.by_order) / elements, static_cast<double>(c.same_by_order) / elements,
               c.spreads.empty() ? Json() : number(median(c.spreads)),
               c.spreads.empty() ? Json() : number(c.largest_spread), static_cast<double>(c.by_place) / elements,
               static_cast<double>(c.same_by_place) / elements,
               ranks_may_disagree(a) ? 1 - static_cast<double>(c.same_by_place) / elements : 0.0});
    if (a == Algorithm::exact) exact_results += c.by_order, exact_elements += s.elements;
  }
  run.report.claim({"exact-sums-have-no-order",
                    "Added exactly and rounded once, every order of the ranks gives the same bits (results, one "
                    "an element and format).",
                    "derived: exact addition is associative"},
                   exactly(exact_elements, exact_results, "oracle"));
}

// Reductions whose every number is known: ones, powers of two, and what people say of them.

namespace {

constexpr std::uint32_t many = 4096;

Collective::Sum equal_ones(Algorithm a, const FloatFormat& f, std::uint32_t ranks, double value, Trace* trace,
                           std::uint64_t seed = 0, std::uint64_t stream = 0) {
  Collective collective(a, f, 8, seed, trace);
  return collective(std::vector<std::uint64_t>(ranks, encode(f, {}, value).code), stream);
}

/// Whether ones can be counted in a format up to 2^p, and 2^p times two.
bool counts(const FloatFormat& f) {
  return f.fraction_bits > 0 && f.emin() - f.fraction_bits <= 0 &&
         f.value(f.max_finite()) >= 2 * FloatFormat::power_of_two(f.precision());
}

void ones(const CollectiveSettings& s, Run& run) {
  Json stuck = Json::object(), ring = Json::object(), whole = Json::object(), tree = Json::object();
  for (const auto& [name, f] : s.formats) {
    if (!counts(f)) continue;
    stuck[name] = f.precision() < 12 ? FloatFormat::power_of_two(f.precision()) : many;
    ring[name] = number(f.value(equal_ones(Algorithm::ring, f, many, 1, &run.trace).code));
    if (f.value(f.max_finite()) < many) continue;
    whole[name] = many;
    tree[name] = number(f.value(equal_ones(Algorithm::tree, f, many, 1, &run.trace).code));
  }
  const auto claim = [&](std::string id, std::string statement, std::string source, const Json& expected,
                         const Json& measured) {
    run.report.claim({id, statement, source}, expected.empty() ? skipped("no format here has the range for it")
                                                               : exactly(expected, measured, "oracle"));
  };
  claim("ring-of-ones-stops-at-2-to-the-p",
        "Ones of 4096 ranks add up to 2^p in a ring and no further, in bf16 to 256; from 12 bits on to all 4096.",
        "derived: at 2^p, 1 is half the spacing, and the tie goes back to even", stuck, ring);
  claim("tree-of-ones-is-exact", "In a tree the same ones add up to 4096: partial sums of equal size are exact.",
        "derived: each level doubles", whole, tree);

  // Stochastically: from 2^p on, a one moves the sum by a spacing w with probability 1/w, or not: unbiased, variance w
  // - 1.
  constexpr std::uint32_t ranks = 1024;
  constexpr std::size_t runs = 64;
  double sum = 0, variance = 0;
  for (std::size_t k = 0; k < runs; ++k)
    sum += bf16.value(equal_ones(Algorithm::ring_stochastic, bf16, ranks, 1, nullptr, s.seed, k).code);
  for (double at = 256; at < ranks; ++at) variance += (at < 512 ? 2 : 4) - 1;
  run.report.claim(
      {"stochastic-ring-of-ones",
       "Rounded stochastically, ones of 1024 ranks in bf16 add up to 1024 on average, where to "
       "nearest they stop at 256 (64 runs, 5 standard errors).",
       "derived: unbiased steps of 2 and 4 with variance 1 and 3; Connolly, Higham & Mary 2021"},
      within(ranks, 5 * std::sqrt(variance / static_cast<double>(runs)), sum / static_cast<double>(runs), "oracle"));
}

/// The smallest power of two from 2 on for which `fails`, up to 2^17; null if none.
template <class F>
Json smallest_power(F&& fails) {
  for (std::uint32_t ranks = 2; ranks <= std::uint32_t{1} << 17; ranks *= 2)
    if (fails(ranks)) return ranks;
  return {};
}

void ranges(Run& run) {
  Json over = Json::object(), overflows = Json::object(), under = Json::object(), vanishes = Json::object();
  for (const int k : {4, 8, 12}) {
    const std::string key = fmt::format("2^{}", k);
    over[key] = 1 << (16 - k);
    overflows[key] = smallest_power([&](std::uint32_t ranks) {
      return equal_ones(Algorithm::tree, fp16, ranks, FloatFormat::power_of_two(k), nullptr).overflowed;
    });
  }
  Arithmetic narrow(fp16, {}, &run.trace);
  for (const int k : {10, 14, 20}) {
    const std::string key = fmt::format("2^-{}", k);
    under[key] = 1 << (25 - k);
    vanishes[key] = smallest_power([&](std::uint32_t ranks) {
      return ranks <= 32768 &&
             narrow.div(encode(fp16, {}, FloatFormat::power_of_two(-k)).code, encode(fp16, {}, ranks).code) == 0;
    });
  }
  run.report.claim({"sum-then-divide-overflows",
                    "Summed in fp16 before the division, equal gradients v overflow from 2^16 / v ranks on (in "
                    "a tree; powers of two).",
                    "derived: 2^16 is beyond 65520; horovod/horovod #1699, facebookresearch/fairscale #565"},
                   exactly(over, overflows, "oracle"));
  run.report.claim({"divide-then-sum-vanishes",
                    "Divided before the sum, gradients v vanish in fp16 from v 2^25 ranks on (powers of two).",
                    "derived: 2^-25 is a tie that goes to 0; horovod/horovod #1699, facebookresearch/fairscale #565"},
                   exactly(under, vanishes, "oracle"));
}

void orders(Run& run) {
  // Three ranks with 256, 1, 1: each chunk's ring starts elsewhere.
  Json chunks = Json::array();
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
    const std::array<double, 3> of_rank{256, 1, 1};
    std::vector<std::uint64_t> numbers;
    for (const std::uint32_t r : order_of(Algorithm::ring, 3, chunk))
      numbers.push_back(encode(bf16, {}, of_rank[r]).code);
    chunks.push_back(bf16.value(Collective(Algorithm::ring, bf16, 8, 0, &run.trace)(numbers).code));
  }
  run.report.claim(
      {"ring-depends-on-the-chunk",
       "256, 1 and 1 of three ranks add up to 258 in a ring's chunk 0 and to 256 in chunks 1 and 2 (bf16).",
       "derived: (1 + 1) + 256 is exact, 256 + 1 a tie; NVIDIA/nccl #157"},
      exactly(Json::array({258.0, 256.0, 256.0}), chunks, "oracle"));
}

/// A ring whose ranks add two narrow numbers in FP32 and send a narrow one.
void fp32_adders(const CollectiveSettings& s, Run& run) {
  std::size_t hops = 0, differ = 0;
  for (const FloatFormat& f : {fp16, bf16}) {
    Arithmetic narrow(f, {}, &run.trace), wide(fp32, {}, &run.trace);
    for (std::size_t element = 0; element < 4; ++element) {
      const auto number_of = [&](std::uint64_t rank) {
        return narrow.convert_from(fp32, encode(fp32, {}, normal_sample(s.seed, 1 + rank, element)).code);
      };
      std::uint64_t sum = number_of(0);
      for (std::uint64_t rank = 1; rank < many; ++rank) {
        const std::uint64_t x = number_of(rank), next = narrow.add(sum, x);
        differ += narrow.convert_from(fp32, wide.add(wide.convert_from(f, sum), wide.convert_from(f, x))) != next;
        ++hops, sum = next;
      }
    }
  }
  run.report.claim(
      {"fp32-adders-on-a-narrow-wire",
       fmt::format("FP32 adders change nothing in a ring that sends 16 bits: of {} hops none differs.", hops),
       "NVIDIA/nccl #1026; Figueroa 1995: 24 >= 2 * 11 + 2 bits"},
      exactly(0u, differ, "published"));
}

}  // namespace

void known_reductions(const CollectiveSettings& s, Run& run) {
  ones(s, run);
  ranges(run);
  orders(run);
  fp32_adders(s, run);
}

}  // namespace halfulp::collectives
