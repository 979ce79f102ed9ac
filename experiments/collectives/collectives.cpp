#include <halfulp/experiments/collectives/collectives.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/data/npy.hpp>
#include <halfulp/data/statistics.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace halfulp::collectives {

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const AlgorithmInfo& a : algorithms) names.emplace_back(a.name);
  return names;
}

Algorithm algorithm_named(std::string_view name) {
  return std::find_if(algorithms.begin(), algorithms.end(), [&](const AlgorithmInfo& a) { return a.name == name; })
      ->algorithm;
}

DotModel model_of(Algorithm a, const FloatFormat& format, std::size_t node, std::uint64_t seed) {
  DotModel m{.input = format, .accumulator = {format}, .seed = seed};
  switch (a) {
    case Algorithm::ring:
    case Algorithm::one_shot:
    case Algorithm::one_shot_rotated:
    case Algorithm::exact: break;
    case Algorithm::ring_fp32:
    case Algorithm::one_shot_fp32: m.accumulator = {fp32}, m.output = Stage{format}; break;
    case Algorithm::ring_stochastic: m.accumulator.rounding.mode = RoundingMode::stochastic; break;
    case Algorithm::tree: m.order = Order::pairwise; break;
    case Algorithm::node_tree: m.order = Order::pairwise, m.block = node; break;
  }
  return m;
}

std::vector<std::uint32_t> order_of(Algorithm a, std::uint32_t ranks, std::uint32_t chunk) {
  std::vector<std::uint32_t> order(ranks);
  std::iota(order.begin(), order.end(), 0u);
  if (!depends_on_chunk(a)) return order;
  const std::uint32_t first = ranks_may_disagree(a) ? chunk % ranks : (chunk + 1) % ranks;
  std::rotate(order.begin(), order.begin() + first, order.end());
  return order;
}

namespace {

/// A chain through the ranks [begin, end) of each node, nodes in halves.
class Halves {
 public:
  Halves(std::uint32_t ranks, std::uint32_t node) : ranks_(ranks), node_(node) { sum(0, (ranks + node - 1) / node); }
  std::vector<Message> messages = {};

 private:
  struct Holder {
    std::uint32_t rank, round;
  };
  Holder send(Holder from, Holder to) {
    const std::uint32_t round = std::max(from.round, to.round) + 1;
    messages.push_back({round, from.rank, to.rank});
    return {to.rank, round};
  }
  Holder sum(std::uint32_t begin, std::uint32_t end) {
    if (end - begin == 1) {
      Holder holder{begin * node_, 0};
      for (std::uint32_t r = holder.rank + 1; r < std::min(ranks_, end * node_); ++r) holder = send(holder, {r, 0});
      return holder;
    }
    const std::uint32_t middle = begin + (end - begin + 1) / 2;
    const Holder left = sum(begin, middle);
    return send(sum(middle, end), left);
  }
  std::uint32_t ranks_, node_;
};

}  // namespace

std::vector<Message> messages_of(Algorithm a, std::uint32_t ranks, std::size_t node) {
  std::vector<Message> messages;
  switch (a) {
    case Algorithm::tree:
    case Algorithm::node_tree:
      messages = Halves(ranks,
                        a == Algorithm::tree ? 1 : static_cast<std::uint32_t>(std::min<std::size_t>(node, ranks)))
                     .messages;
      break;
    case Algorithm::ring:
    case Algorithm::ring_fp32:
    case Algorithm::ring_stochastic: {
      const auto order = order_of(a, ranks, 0);
      for (std::uint32_t i = 1; i < ranks; ++i) messages.push_back({i, order[i - 1], order[i]});
      break;
    }
    case Algorithm::one_shot:
    case Algorithm::one_shot_rotated:
    case Algorithm::one_shot_fp32:
    case Algorithm::exact:
      for (std::uint32_t i = 1; i < ranks; ++i) messages.push_back({1, i, 0});
      break;
  }
  std::stable_sort(messages.begin(), messages.end(),
                   [](const Message& x, const Message& y) { return x.round < y.round; });
  return messages;
}

Collective::Collective(Algorithm a, const FloatFormat& format, std::size_t node, std::uint64_t seed, Trace* trace)
    : algorithm_(a),
      format_(format),
      model_(model_of(a, format, node, seed)),
      engine_(model_, [&](const FloatFormat& f, const Rounding& r) { return Arithmetic(f, r, trace, &raised_); }) {}

Collective::Sum Collective::operator()(std::span<const std::uint64_t> numbers, std::uint64_t stream) {
  raised_ = 0;
  if (algorithm_ != Algorithm::exact) {
    const std::uint64_t code = engine_.sum(numbers, stream);
    return {code, (raised_ & flag::overflow) != 0};
  }
  // Infinities and NaN have no exact sum: they go as they are.
  if (!std::all_of(numbers.begin(), numbers.end(), [&](std::uint64_t x) { return format_.is_finite(x); }))
    return {engine_.sum(numbers, stream), true};
  Units sum = 0;
  const int scale = scale_of(format_);
  for (const std::uint64_t x : numbers) sum += in_units(format_.value(x), scale);
  const std::uint64_t code = rounded(format_, {}, sum, Units(1), -scale);
  return {code, !format_.is_finite(code) || abs(sum) > in_units(format_.value(format_.max_finite()), scale)};
}

// Averages over ranks: where the division stands decides between overflow and underflow.

namespace {

/// What ranks divide by before the sum, of N; the rest is divided after it.
enum class Division : std::uint8_t {
  after,   ///< 1
  before,  ///< N
  split,   ///< a power of two near sqrt(N): PyTorch's _get_gradient_predivide_factor
};
constexpr std::array<Named<Division>, 3> divisions{
    {{"after", Division::after}, {"before", Division::before}, {"split", Division::split}}};

/// The smallest power of two, of those that divide N, that is at least sqrt(N); or the last that does, doubled.
std::uint32_t first_divisor(Division d, std::uint32_t ranks) {
  if (d == Division::after) return 1;
  if (d == Division::before) return ranks;
  std::uint32_t factor = 1;
  while (ranks % factor == 0 && ranks > factor * factor) factor *= 2;
  return factor;
}

struct AverageErrors {
  double errors = 0, means = 0, sampling = 0, gradients = 0;  ///< squares
  std::size_t judged = 0, to_zero = 0, overflowed = 0;
};

template <class V>
void fields(V& v, AverageErrors& e) {
  v("errors", e.errors);
  v("means", e.means);
  v("sampling", e.sampling);
  v("gradients", e.gradients);
  v("judged", e.judged);
  v("to_zero", e.to_zero);
  v("overflowed", e.overflowed);
}

constexpr std::size_t most_elements = 16;

AverageErrors average(const CollectiveSettings& s, const FloatFormat& format, std::uint32_t ranks,
                      std::int64_t log2_scale, Division division, Trace& trace) {
  AverageErrors cell;
  const double scale = FloatFormat::power_of_two(static_cast<int>(log2_scale));
  const std::uint32_t before = first_divisor(division, ranks);
  const double after = static_cast<double>(ranks) / before;
  const int units = scale_of(format);
  for (std::size_t i = 0; i < std::min(most_elements, s.elements); ++i) {
    Trace* recorded = i == 0 ? &trace : nullptr;
    Flags raised = 0;
    Arithmetic narrow(format, {}, recorded, &raised), wide(fp32, {}, recorded);
    // Frameworks divide 16-bit tensors in FP32 and round.
    const auto divide = [&](std::uint64_t x, double by) {
      return by == 1 ? x : narrow.convert_from(fp32, wide.div(wide.convert_from(format, x), encode(fp32, {}, by).code));
    };
    std::vector<std::uint64_t> numbers(ranks);
    Units exact = 0;
    bool finite = true;
    const auto chunk = static_cast<std::uint32_t>(i * ranks / s.elements);
    const auto order = order_of(Algorithm::ring, ranks, chunk);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const std::uint64_t x = narrow.convert_from(fp32,
                                                  encode(fp32, {}, scale * rank_gradient(s, 1, order[r], i)).code);
      finite = finite && format.is_finite(x);
      if (finite) exact += in_units(format.value(x), units);
      numbers[r] = divide(x, before);
    }
    Collective ring(Algorithm::ring, format, s.node, s.seed, recorded);
    const auto sum = ring(numbers);
    const std::uint64_t mean = divide(sum.code, after);
    if (!finite || sum.overflowed || (raised & flag::overflow) != 0) {
      ++cell.overflowed;
      continue;
    }
    ++cell.judged;
    const double truth = ratio(exact, in_units(ranks, std::max(units, 0))), gradient = scale * s.gradient[i],
                 value = format.value(mean);
    cell.to_zero += value == 0 && truth != 0;
    cell.errors += (value - truth) * (value - truth), cell.means += truth * truth;
    cell.sampling += (truth - gradient) * (truth - gradient), cell.gradients += gradient * gradient;
  }
  return cell;
}

}  // namespace

Json trial_item(const CollectiveSettings& s) {
  Json formats = Json::array(), algorithms = Json::array();
  for (const FormatChoice& f : s.formats) formats.push_back(format_name(f.format));
  for (const Algorithm a : s.algorithms) algorithms.push_back(static_cast<int>(a));
  return {{"formats", std::move(formats)},
          {"algorithms", std::move(algorithms)},
          {"ranks", s.ranks},
          {"signals", s.signals},
          {"gradient", digest_of(s.gradient)},
          {"noise", s.noise},
          {"elements", s.elements},
          {"node", s.node},
          {"seed", s.seed}};
}

void averages(const CollectiveSettings& s, Run& run) {
  struct Case {
    std::size_t format;
    std::int64_t scale;
    std::uint32_t ranks;
    Division division;
  };
  std::vector<Case> cases;
  for (std::size_t f = 0; f < s.formats.size(); ++f)
    for (const std::int64_t scale : s.batch_scales)
      for (const std::uint32_t ranks : s.ranks)
        for (const auto& d : divisions) cases.push_back({f, scale, ranks, d.value});
  Table& table = run.report.table(
      "batch",
      fmt::format("The same gradient from growing batches: averages over N ranks by a ring, of the first {} elements",
                  std::min(most_elements, s.elements)),
      {{"format", "", "Format of gradients and of what travels."},
       {"log2_scale", "binade", "Power of two that the gradients are multiplied by: small ones, large ones."},
       {"ranks", "rank", "Number of ranks N, each with its own batch: its gradient is G + noise of equal size."},
       {"division", "",
        "Where N divides: after the sum, before it, or split into a power of two near the root of N before and the "
        "rest after (in FP32, rounded to the format)."},
       {"rounding_error", "1",
        "Root mean square of average - exact average of the ranks' numbers, divided by that of the exact averages; "
        "null if all overflowed."},
       {"sampling_error", "1",
        "Root mean square of exact average - G, divided by that of G: what larger batches are for."},
       {"to_zero", "1", "Share of averages that are zero, though the exact one is not."},
       {"overflowed", "1", "Share of elements that overflowed on the way; all errors leave them out."}});
  std::vector<Trial> asked;
  for (const Case& c : cases) {
    Json item = trial_item(s);
    item["format"] = format_name(s.formats[c.format].format);
    item["log2_scale"] = c.scale, item["of_ranks"] = c.ranks;
    item["division"] = divisions[static_cast<std::size_t>(c.division)].name;
    asked.push_back({fmt::format("{} {}", s.formats[c.format].name, c.ranks), std::move(item)});
  }
  const auto cells = trials<AverageErrors>(run, {"averages", 1}, asked, 0.6, 0.8, [&](std::size_t i, Trace& trace) {
    const Case& c = cases[i];
    Trace own(trace.limit() / 16);
    const AverageErrors cell = average(s, s.formats[c.format].format, c.ranks, c.scale, c.division, own);
    trace.append(own);
    return cell;
  });
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Case& c = cases[i];
    const AverageErrors& cell = cells[i];
    const auto share = [&](std::size_t n) {
      return static_cast<double>(n) / static_cast<double>(std::min(most_elements, s.elements));
    };
    const auto error = [&](double squares, double of) {
      return cell.judged && of > 0 ? number(std::sqrt(squares / of)) : Json();
    };
    table.row({s.formats[c.format].name, c.scale, c.ranks, divisions[static_cast<std::size_t>(c.division)].name,
               error(cell.errors, cell.means), error(cell.sampling, cell.gradients), share(cell.to_zero),
               share(cell.overflowed)});
  }
}

}  // namespace halfulp::collectives

// All-reduce and reduce-scatter in low precision: the error against the number of ranks, and whether it can be
// repeated.

namespace halfulp {
namespace collectives {
namespace {

constexpr double none = std::numeric_limits<double>::infinity();

/// At most `most` finite numbers of the user's tensor, evenly over it.
std::vector<double> read_gradient(const std::string& path, std::size_t most) {
  NpyReader reader(path);
  const NpyHeader& header = reader.header();
  if (header.count == 0) throw std::invalid_argument(path + ": no numbers in it");
  const std::uint64_t stride = (header.count + most - 1) / most;
  std::vector<double> values;
  std::vector<std::uint64_t> codes(std::size_t{1} << 16);
  std::uint64_t at = 0;
  for (std::size_t n = reader.read(codes); n > 0; n = reader.read(codes))
    for (std::size_t i = 0; i < n; ++i, ++at) {
      if (at % stride != 0) continue;
      values.push_back(header.format.value(codes[i]));
      if (!std::isfinite(values.back()))
        throw std::invalid_argument(
            fmt::format("{}: element {} is {}; gradients to be reduced are finite", path, at, values.back()));
      if (std::fabs(values.back()) > 0x1p100)
        throw std::invalid_argument(fmt::format("{}: element {} is beyond 2^100", path, at));
    }
  return values;
}

CollectiveSettings read(const Config& config) {
  CollectiveSettings s;
  s.formats = config.formats("formats");
  for (const FormatChoice& f : s.formats) {
    if (!f.format.has_zero || !f.format.is_signed)
      throw std::invalid_argument(f.name + " holds scales: nothing is added in it; choose other formats");
    if (!holds(FloatFormat{8, 23, 127}, f.format))
      throw std::invalid_argument(
          f.name + " has values that FP32, in which some algorithms add, does not hold; choose other formats");
  }
  for (const std::string& name : config.choices("algorithms")) s.algorithms.push_back(algorithm_named(name));
  for (const auto n : config.integers("ranks")) s.ranks.push_back(static_cast<std::uint32_t>(n));
  std::sort(s.ranks.begin(), s.ranks.end());
  s.ranks.erase(std::unique(s.ranks.begin(), s.ranks.end()), s.ranks.end());
  s.signals = config.reals("signals");
  s.batch_scales = config.integers("batch_scales");
  s.elements = static_cast<std::size_t>(config.integer("elements"));
  s.node = static_cast<std::size_t>(config.integer("node"));
  s.permutations = static_cast<std::size_t>(config.integer("permutations"));
  s.order_ranks = static_cast<std::uint32_t>(config.integer("order_ranks"));
  s.seed = static_cast<std::uint64_t>(config.integer("seed"));
  const double scale = FloatFormat::power_of_two(static_cast<int>(config.integer("log2_scale")));
  if (const std::string path = config.text("input"); !path.empty()) {
    s.gradient = read_gradient(path, s.elements);
    s.elements = s.gradient.size();
  } else {
    for (std::size_t i = 0; i < s.elements; ++i) s.gradient.push_back(normal_sample(s.seed, 0, i));
  }
  double squares = 0;
  for (double& g : s.gradient) g *= scale, squares += g * g;
  s.noise = config.text("input").empty() ? scale : std::sqrt(squares / static_cast<double>(s.elements));
  if (s.noise == 0) throw std::invalid_argument(config.text("input") + ": nothing but zeros");

  double numbers = 0;
  for (const auto n : s.ranks) numbers += n;
  const double work = numbers *
                          static_cast<double>(s.elements * s.formats.size() * s.signals.size() * s.algorithms.size()) +
                      static_cast<double>(s.elements * s.formats.size() * s.algorithms.size() * s.order_ranks) *
                          static_cast<double>(s.permutations + s.order_ranks);
  constexpr double limit = 2e9;
  if (work > limit)
    throw std::invalid_argument(fmt::format(
        "ranks, elements, formats, signals, algorithms and permutations ask for {:.2g} additions; at most {:.0e}", work,
        limit));
  return s;
}

std::vector<Parameter> parameters() {
  return {
      {"formats", ParameterType::formats, "fp16,bf16,e5m2,e4m3,fp32", "formats of gradients, and of what travels"},
      {"algorithms", ParameterType::choices,
       "ring,ring-fp32,ring-stochastic,tree,node-tree,one-shot,one-shot-rotated,one-shot-fp32",
       "ring; ring with FP32 on the wire; ring rounded stochastically; binary tree; chains in nodes and a tree over "
       "them; one-shot: every rank gets all numbers and adds them in the order of ranks, in the format (rotated: its "
       "own first), in FP32, exactly",
       -none, none, algorithm_names()},
      {"ranks", ParameterType::integers, "2,4,8,16,32,64,128,256,512,1024,2048,4096", "numbers of ranks N", 2, 4096},
      {"elements", ParameterType::integer, "192", "numbers of a gradient that are looked at", 4, 4096},
      {"signals", ParameterType::reals, "0,1",
       "what ranks have in common: a rank's gradient is signal * G + noise, both of equal size", 0, 1000},
      {"input", ParameterType::path, "", "G as a .npy tensor of yours; nothing: N(0, 1)"},
      {"log2_scale", ParameterType::integer, "0",
       "power of two that all gradients are multiplied by, as a loss scale would", -40, 40},
      {"node", ParameterType::integer, "8", "ranks a node of the algorithm node-tree", 1, 4096},
      {"batch_scales", ParameterType::integers, "-20,-8,8", "powers of two that G has in the table of averages", -40,
       40},
      {"permutations", ParameterType::integer, "16", "orders of ranks in the table of orders", 2, 256},
      {"order_ranks", ParameterType::integer, "32", "ranks there", 2, 512},
      {"seed", ParameterType::integer, "2020", "of gradients, orders and stochastic rounding", 0, largest_seed},
  };
}

void run_collectives(const Config& config, Run& run) {
  const CollectiveSettings s = read(config);
  reduction_errors(s, run);
  averages(s, run);
  run.progress(0.8);
  rank_orders(s, run);
  report_messages(s, run);
  run.progress(0.95);
  known_reductions(s, run);
}

}  // namespace

double rank_gradient(const CollectiveSettings& s, double signal, std::uint32_t rank, std::size_t element) {
  return signal * s.gradient[element] + s.noise * normal_sample(s.seed, 1 + rank, element);
}

}  // namespace collectives

namespace {

/// The first format over the most ranks, by a ring, a tree and fp32 sums.
std::string collectives_finding(const ReportTables& tables) {
  const auto rings = tables.rows("errors", {{"algorithm", "ring"}});
  const TableRow* const most = largest(rings, "ranks");
  if (!most) return {};
  const auto like = [&](const char* algorithm) {
    const auto rows = tables.rows("errors", {{"algorithm", algorithm},
                                             {"format", (*most)["format"]},
                                             {"signal", (*most)["signal"]},
                                             {"ranks", (*most)["ranks"]}});
    return rows.empty() ? std::string() : percent(rows.front().number("rms_error"));
  };
  std::string text = fmt::format("{} ranks in {}: a ring has an error of {}", most->whole("ranks"),
                                 most->text("format"), like("ring"));
  if (const std::string tree = like("tree"); !tree.empty()) text += ", a tree " + tree;
  if (const std::string wide = like("ring-fp32"); !wide.empty()) text += ", fp32 " + wide;
  return text + ".";
}

}  // namespace

Experiment collectives_experiment() {
  return {"collectives",
          "All-reduce and reduce-scatter in low precision",
          "How wrong is a gradient summed over many ranks?",
          collectives::parameters,
          collectives::run_collectives,
          collectives_finding,
          {"errors",
           {"algorithm", "format", "ranks", "rms_error", "largest_error", "overflowed"},
           {"signal"},
           {"algorithm", "format"}},
          false,
          &publications::error_bounds};
}

}  // namespace halfulp
