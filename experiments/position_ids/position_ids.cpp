// Integer positions in low precision: which tokens end up at the same place, and what follows from it.
#include <halfulp/experiments/position_ids/position_ids.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/support/work.hpp>
#include <halfulp/data/distributions.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace halfulp {
namespace positions {
namespace {

/// Consecutive tokens that share one position.
struct Group {
  std::uint64_t code = 0;
  std::int64_t first = 0, size = 0;
};

/// Positions 0 ... tokens - 1 in a format: rounded directly, and through FP32 as frameworks do.
struct Positions {
  std::vector<Group> groups;
  std::size_t differs_through_fp32 = 0;
  Trace trace;
};

Positions round_positions(const FloatFormat& f, RoundingMode mode, std::int64_t tokens, std::size_t trace_limit) {
  Positions p{{}, 0, Trace(trace_limit)};
  Arithmetic direct(f, {mode}, &p.trace), through(f, {mode}, &p.trace), wide(fp32, {mode}, &p.trace);
  for (std::int64_t n = 0; n < tokens; ++n) {
    const auto id = static_cast<std::uint64_t>(n);
    const std::uint64_t code = direct.convert_from(i32, id), single = wide.convert_from(i32, id);
    if (f != fp32 && through.convert_from(fp32, single) != code) ++p.differs_through_fp32;
    if (p.groups.empty() || p.groups.back().code != code) p.groups.push_back({code, n, 0});
    ++p.groups.back().size;
  }
  return p;
}

/// Of the first `tokens` positions: rounding is monotone, so equal codes are neighbours.
struct Count {
  std::int64_t distinct = 0, first_clash = 0, largest_group = 0, non_finite = 0;  ///< first_clash 0: none
};

Count count(const FloatFormat& f, const std::vector<Group>& groups, std::int64_t tokens) {
  Count c;
  for (const Group& g : groups) {
    if (g.first >= tokens) break;
    const std::int64_t size = std::min(g.size, tokens - g.first);
    ++c.distinct;
    if (size > 1 && c.first_clash == 0) c.first_clash = g.first + 1;
    c.largest_group = std::max(c.largest_group, size);
    if (!f.is_finite(g.code)) c.non_finite += size;
  }
  return c;
}

/// The number of distinct values of 0 ... tokens - 1 to nearest even, in closed form: all 2^p integers below 2^p,
/// 2^(p-1) in each binade above, up to the last position rounded; one more for what overflows. A tie goes up where the
/// code below it is odd; without fraction bits (p = 1) that code is the exponent field.
std::int64_t distinct_in_closed_form(const FloatFormat& f, std::int64_t tokens) {
  const int p = f.precision();
  std::int64_t last = tokens - 1, beyond = 0;
  const double max = f.value(f.max_finite());
  const double unit = FloatFormat::power_of_two(f.emax() - f.fraction_bits);
  const bool ties_up = (f.max_finite() & 1) != 0;  // halfway to the next value rounds away from an odd code
  const double end = max + unit / 2;
  if (static_cast<double>(last) > end || (static_cast<double>(last) == end && ties_up)) {
    last = static_cast<std::int64_t>(max);
    beyond = f.has_infinity() || f.has_nan() || max != static_cast<double>(last);
  } else if (static_cast<double>(last) > max) {
    last = static_cast<std::int64_t>(max);
  }
  const int k = std::bit_width(static_cast<std::uint64_t>(last)) - 1;
  if (k < p) return last + 1 + beyond;
  const std::int64_t spacing = std::int64_t{1} << (k - p + 1), low = last / spacing * spacing, rest = last - low;
  const bool odd = ((p > 1 ? low / spacing : k + f.bias) & 1) != 0;
  const bool up = rest * 2 > spacing || (rest * 2 == spacing && odd);
  const std::int64_t steps = (low - (std::int64_t{1} << k)) / spacing + (up ? 1 : 0);
  return (std::int64_t{1} << p) + (k - p) * (std::int64_t{1} << (p - 1)) + steps + 1 + beyond;
}

/// The ids of the tokens around the first clash.
void write_ids(const FormatChoice& choice, const std::vector<Group>& groups, std::int64_t tokens, Table& table) {
  constexpr std::int64_t before = 8, after = 24;
  const std::int64_t clash = count(choice.format, groups, tokens).first_clash;
  if (clash == 0) return;
  for (const Group& g : groups)
    for (std::int64_t n = std::max(g.first, clash - before); n < std::min(g.first + g.size, clash + after); ++n)
      table.row({choice.name, n, emulated(choice.format, g.code)});
}

void write_groups(const FormatChoice& choice, const std::vector<Group>& groups, std::int64_t tokens, Table& table) {
  const FloatFormat& f = choice.format;
  for (std::size_t begin = 0, end = 0; begin < groups.size(); begin = end) {
    const auto binade = [&](const Group& g) {
      if (!f.is_finite(g.code)) return 64;
      return std::max(f.precision(), static_cast<int>(std::bit_width(static_cast<std::uint64_t>(f.value(g.code)))));
    };
    std::int64_t smallest = groups[begin].size, largest = 0, total = 0;
    for (end = begin; end < groups.size() && binade(groups[end]) == binade(groups[begin]); ++end) {
      const bool cut = groups[end].first + groups[end].size == tokens && end > begin;  // the context ends inside it
      if (!cut) smallest = std::min(smallest, groups[end].size);
      largest = std::max(largest, groups[end].size);
      total += groups[end].size;
    }
    const int b = binade(groups[begin]);
    table.row({choice.name, groups[begin].first, groups[end - 1].first + groups[end - 1].size - 1,
               emulated(f, groups[begin].code),
               b == 64 ? Json() : Json(FloatFormat::power_of_two(std::max(0, b - f.precision()))), end - begin,
               smallest, largest, static_cast<double>(total) / static_cast<double>(end - begin)});
  }
}

/// Baichuan and Llama: positions in bf16 and fp16, whatever this run's configuration.
void published_counts(Run& run) {
  const Citation source{publications::position_ids, "Baichuan and Llama position ids: huggingface/transformers #29285"};
  const Positions b = round_positions(bf16, RoundingMode::nearest_even, 131072, run.trace.limit());
  const Positions h = round_positions(fp16, RoundingMode::nearest_even, 4096, run.trace.limit());
  Json distinct = Json::object();
  for (const std::int64_t n : {2048, 4096, 8192, 131072})
    distinct[std::to_string(n)] = count(bf16, b.groups, n).distinct;
  run.report.claim(
      {"bf16-first-clash", "In bf16 the first token to share a position with another is number 257.", source},
      exactly(257, count(bf16, b.groups, 131072).first_clash, "published"));
  run.report.claim(
      {"bf16-distinct-positions", "Distinct bf16 positions of contexts of 2048, 4096, 8192 and 131072 tokens.", source},
      exactly({{"2048", 641}, {"4096", 769}, {"8192", 897}, {"131072", 1409}}, distinct, "published"));
  run.report.claim({"fp16-first-clash", "In fp16 the first clash is at 2049.", source},
                   exactly(2049, count(fp16, h.groups, 4096).first_clash, "published"));
  run.report.claim({"fp16-distinct-positions", "4096 tokens have 3073 distinct fp16 positions.", source},
                   exactly(3073, count(fp16, h.groups, 4096).distinct, "published"));
  run.trace.append(b.trace);
  run.trace.append(h.trace);
}

/// Vision transformers: an image of so many pixels a side has a position per patch and one for the class token.
void image_positions(const Config& config, const std::vector<FormatChoice>& formats, Run& run) {
  const std::int64_t patch = config.integer("patch");
  Table& table = run.report.table(
      "images", fmt::format("Vision transformers with patches of {} x {} pixels (to nearest even)", patch, patch),
      {{"pixels", "pixel", "Width and height of the image."},
       {"format", "", "Format of the position ids."},
       {"tokens", "token", "Patches and the class token: (pixels / patch)^2 + 1."},
       {"distinct", "id", "Distinct position ids among them; Infinity or NaN is one."},
       {"sharing", "token", "Tokens that do not have their id to themselves."},
       {"overflowed", "token", "Tokens whose id is Infinity or NaN."}});
  for (const std::int64_t pixels : config.integers("pixels")) {
    const std::int64_t tokens = (pixels / patch) * (pixels / patch) + 1;
    for (const FormatChoice& choice : formats) {
      const Positions p = round_positions(choice.format, RoundingMode::nearest_even, tokens, run.trace.limit());
      std::int64_t sharing = 0;
      for (const Group& g : p.groups) sharing += g.size > 1 ? g.size : 0;
      const Count c = count(choice.format, p.groups, tokens);
      table.row({pixels, choice.name, tokens, c.distinct, sharing, c.non_finite});
      run.trace.append(p.trace);
    }
  }
  const auto distinct = [&](std::int64_t tokens) {
    return count(bf16, round_positions(bf16, RoundingMode::nearest_even, tokens, 0).groups, tokens).distinct;
  };
  run.report.claim({"vit-positions",
                    "ViT with patches of 16 pixels: in bf16 all 197 positions of an image of 224 pixels are distinct, "
                    "of the 577 at 384 pixels 401 are.",
                    "derived: 257 ids to 256, every second one to 512, every fourth one to 576; sizes of Dosovitskiy "
                    "et al. 2021, An Image is Worth 16x16 Words"},
                   exactly({{"224", 197}, {"384", 401}}, {{"224", distinct(197)}, {"384", distinct(577)}}, "oracle"));
}

std::vector<Parameter> parameters() {
  return {
      {"formats", ParameterType::formats, "fp16,bf16,tf32,e4m3,e5m2,fp32",
       "formats of position ids, and of angles and biases where they are low-precision"},
      {"roundings", ParameterType::roundings, "nearest-even,toward-zero",
       "how ids are rounded in the table of collisions; the other tables round to nearest even"},
      {"lengths", ParameterType::integers, "2048,4096,8192,32768,131072", "context lengths, in tokens", 2, 1048576},
      {"rope_dim", ParameterType::integer, "128", "dimensions of the rotary embedding: half as many frequencies", 2,
       512},
      {"rope_base", ParameterType::real, "10000", "base of its frequencies base^(-2i/dim)", 2, 1e9},
      {"alibi_heads", ParameterType::integer, "32", "attention heads of ALiBi: slopes 2^(-8h/heads)", 1, 256},
      {"score_pairs", ParameterType::integer, "256", "queries with a key each, for the table of attention scores", 2,
       65536},
      {"pixels", ParameterType::integers, "224,384", "width and height of a vision transformer's images", 1, 4096},
      {"patch", ParameterType::integer, "16", "width and height of its patches, in pixels", 1, 4096},
      {"seed", ParameterType::integer, "1", "of the queries and keys", 0, largest_seed},
  };
}

void run_position_ids(const Config& config, Run& run) {
  const auto formats = config.formats("formats");
  const auto roundings = config.roundings("roundings");
  const auto lengths = context_lengths(config);
  for (const FormatChoice& f : formats)
    if (!f.format.has_zero)
      throw std::invalid_argument(f.name + " has no zero and so no position 0; choose other formats");
  for (const RoundingMode mode : roundings)
    if (mode == RoundingMode::stochastic)
      throw std::invalid_argument("roundings: stochastic ids are not monotone; choose a deterministic mode");

  Table& collisions = run.report.table(
      "collisions", "How many positions are left",
      {{"format", "", "Format of the position ids."},
       {"rounding", "", "Rounding mode: how 0, 1, 2, ... are rounded into it."},
       {"tokens", "token", "Context length N: positions 0 to N - 1."},
       {"distinct", "id", "Distinct position ids among them; Infinity or NaN is one."},
       {"first_clash", "token", "The first position with the same id as the one before it; null if there is none."},
       {"largest_group", "token", "Most tokens that share one id."},
       {"overflowed", "token", "Tokens whose id is Infinity or NaN."}});
  Table& groups = run.report.table(
      "groups", fmt::format("Tokens that share one position, of {} (to nearest even)", lengths.back()),
      {{"format", "", "Format of the position ids."},
       {"first_position", "token", "First position of the range."},
       {"last_position", "token", "Last position of the range."},
       {"first_id", "1", "The id of the first one."},
       {"spacing", "1", "Distance between neighbouring ids in this range; null beyond the format's range."},
       {"ids", "id", "Distinct ids in the range."},
       {"min_tokens", "token", "Fewest tokens an id stands for (ties go to the even neighbour, so ids take turns)."},
       {"max_tokens", "token", "Most tokens an id stands for."},
       {"mean_tokens", "token", "Tokens divided by ids."}});
  Table& ids = run.report.table("ids", "Tokens around the first two that share an id, to nearest even",
                                {{"format", "", "Format of the position ids."},
                                 {"token", "token", "Position of the token, from 0."},
                                 {"id", "1", "Its id: the position in that format."}});

  const auto rounded = [&](std::size_t i, RoundingMode mode) {
    return round_positions(formats[i].format, mode, lengths.back(), run.trace.limit());
  };
  Json expected = Json::object(), measured = Json::object(), clashes = Json::object(), first_clashes = Json::object();
  std::size_t through_fp32 = 0;
  const auto take = [&](const FormatChoice& choice, RoundingMode mode, const Positions& p) {
    run.trace.append(p.trace);
    through_fp32 += p.differs_through_fp32;
    for (const std::int64_t n : lengths) {
      const Count c = count(choice.format, p.groups, n);
      collisions.row({choice.name, name_of(mode), n, c.distinct, c.first_clash ? Json(c.first_clash) : Json(),
                      c.largest_group, c.non_finite});
    }
  };
  for (std::size_t m = 0; m < roundings.size(); ++m) {
    const auto all = parallel_map(formats.size(), [&](std::size_t i) { return rounded(i, roundings[m]); });
    for (std::size_t i = 0; i < formats.size(); ++i) take(formats[i], roundings[m], all[i]);
    run.progress(0.1 * static_cast<double>(m + 1) / static_cast<double>(roundings.size()));
  }
  const auto nearest = parallel_map(formats.size(),
                                    [&](std::size_t i) { return rounded(i, RoundingMode::nearest_even); });
  for (std::size_t i = 0; i < formats.size(); ++i) {
    const auto& [name, f] = formats[i];
    write_groups(formats[i], nearest[i].groups, lengths.back(), groups);
    write_ids(formats[i], nearest[i].groups, lengths.back(), ids);
    if (!counts_in_ones(f)) continue;
    for (const std::int64_t n : lengths) {
      const std::string key = fmt::format("{} {}", name, n);
      expected[key] = distinct_in_closed_form(f, n);
      measured[key] = count(f, nearest[i].groups, n).distinct;
    }
    const std::int64_t clash = (std::int64_t{1} << f.precision()) + 1;
    if (f.fraction_bits == 0 || clash >= lengths.back() || static_cast<double>(clash) > f.value(f.max_finite()))
      continue;
    clashes[name] = clash;
    first_clashes[name] = count(f, nearest[i].groups, lengths.back()).first_clash;
  }
  run.progress(0.2);

  const auto derived = [&](std::string id, std::string statement, std::string source, const Json& by_formula,
                           const Json& counted, std::string none) {
    run.report.claim({id, statement, source},
                     by_formula.empty() ? skipped(none) : exactly(by_formula, counted, "oracle"));
  };
  derived("distinct-in-closed-form",
          "Counting agrees with 2^p + (k - p) 2^(p-1) + steps in the last binade + 1, for every format and length.",
          "derived: p-bit significands leave 2^(p-1) values a binade", expected, measured,
          "no format here counts in ones");
  derived("first-clash-is-2-to-the-p-plus-1",
          "In formats with fraction bits the first clash is at 2^p + 1, a tie that goes to the even 2^p.",
          "derived: the spacing becomes 2 at 2^p", clashes, first_clashes,
          "no format here has fraction bits and clashes within these lengths");
  const std::string through =
      "Converting ids through FP32 gives the same as converting them directly: FP32 holds them exactly up to 2^24.";
  const std::string exact_ids = "derived: no id here reaches 2^24";
  const bool narrow = std::any_of(formats.begin(), formats.end(),
                                  [](const FormatChoice& c) { return c.format != fp32; });
  run.report.claim({"through-fp32-changes-nothing", through, exact_ids},
                   narrow ? exactly(0u, through_fp32, "oracle") : skipped("formats contains nothing but FP32 itself"));
  published_counts(run);
  image_positions(config, formats, run);
  position_errors(config, run);
  attention_scores(config, run);
}

}  // namespace

bool counts_in_ones(const FloatFormat& f) {
  return f.largest_consecutive_integer() >=
         std::min(FloatFormat::power_of_two(f.precision()), std::floor(f.value(f.max_finite())));
}

}  // namespace positions

namespace {

/// The format with the fewest positions of those that reach the last token.
std::string position_ids_finding(const ReportTables& tables) {
  // Of formats that have all these numbers, rounded to nearest even; where there is none, of what there is.
  std::vector<TableRow> rows = tables.rows("collisions", {{"rounding", "nearest-even"}, {"overflowed", 0}});
  if (rows.empty()) rows = tables.rows("collisions", {{"rounding", "nearest-even"}});
  if (rows.empty()) rows = tables.rows("collisions");
  const TableRow* const longest = largest(rows, "tokens");
  if (!longest) return {};
  std::erase_if(rows, [tokens = longest->number("tokens")](const TableRow& r) { return r.number("tokens") != tokens; });
  const TableRow* const fewest = smallest(rows, "distinct");
  if (!fewest || !(*fewest)["first_clash"].is_number()) return {};
  const std::string rounding = fewest->text("rounding");
  return fmt::format("{}{} has only {} ids for {} tokens: from token {} on, tokens share ids.", fewest->text("format"),
                     rounding == "nearest-even" ? "" : " " + rounding, fewest->whole("distinct"),
                     fewest->whole("tokens"), fewest->whole("first_clash"));
}

}  // namespace

Experiment position_ids_experiment() {
  return {"position_ids",
          "Position ids in low precision",
          "When do positions collide, and what becomes of rotary angles?",
          positions::parameters,
          positions::run_position_ids,
          position_ids_finding,
          {"collisions",
           {"format", "rounding", "tokens", "distinct", "first_clash", "overflowed"},
           {},
           {"format", "rounding"}}};
}

}  // namespace halfulp
