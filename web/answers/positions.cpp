// Scene "Positions": ids as the experiment `position_ids` rounds them, and rotary angles computed in FP32 from them.
#include <halfulp/data/elementary.hpp>
#include <halfulp/emulation/known.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/web/answers/answers.hpp>

#include <cmath>

namespace halfulp::web {
namespace {

constexpr int dimensions = 128;
constexpr std::uint64_t reach = 64;  ///< keys are so many tokens before their query, or fewer

struct Frequency {
  double exact;
  std::uint64_t fp32;  ///< as FP32 code has it: 1 / fl(10000^(2i/dim))
};

std::vector<Frequency> frequencies() {
  std::vector<Frequency> all;
  const std::uint64_t one = encode(fp32, {}, 1).code;
  for (int i = 0; i < dimensions / 2; ++i) {
    const double power = deterministic_exp2(2.0 * i / dimensions * deterministic_log2(10000));
    all.push_back({1 / power, evaluate<Operation::div>(fp32, {}, one, encode(fp32, {}, power).code).code});
  }
  return all;
}

/// Of the first `tokens` positions; first_clash 0: none.
struct Counts {
  FloatFormat format{};
  std::uint64_t tokens = 0, distinct = 0, first_clash = 0, largest = 0, beyond = 0;
};

std::uint64_t id_of(const FloatFormat& f, std::uint64_t n) { return from_integer(i32, f, {}, n).code; }

/// The last ones are kept: while a user goes from token to token, they stay as they are.
const Counts& counts_of(const FloatFormat& f, std::uint64_t tokens) {
  static Counts kept;
  if (kept.format == f && kept.tokens == tokens) return kept;
  Counts c{f, tokens};
  std::uint64_t size = 0, last = 0;
  for (std::uint64_t n = 0; n < tokens; ++n) {
    const std::uint64_t id = id_of(f, n);
    size = n != 0 && id == last ? size + 1 : 1;
    c.distinct += size == 1;
    if (size == 2 && c.first_clash == 0) c.first_clash = n;
    c.largest = std::max(c.largest, size);
    c.beyond += !f.is_finite(id);
    last = id;
  }
  return kept = c;
}

}  // namespace

Json positions(const Asked& asked) {
  const FloatFormat f = asked.format();
  if (!f.has_zero)
    throw std::invalid_argument(format_name(f) + " has no zero and so no position 0; accepted: other formats");
  const std::uint64_t tokens = asked.whole("tokens", 2, 1 << 17), token = asked.whole("token", 0, tokens - 1);
  const auto code = [&](std::uint64_t n) { return id_of(f, n); };
  const Counts& counts = counts_of(f, tokens);
  Json json{{"distinct", counts.distinct},
            {"first_clash", counts.first_clash ? Json(counts.first_clash) : Json()},
            {"largest_group", counts.largest},
            {"overflowed", counts.beyond}};
  const std::uint64_t begin = token < 16 ? 0 : token - 16, end = std::min(tokens, begin + 33);
  for (std::uint64_t n = begin; n < end; ++n) json["near"].push_back({n, number(f.value(code(n)))});

  // Angles in FP32, of the true position and of its id.
  const std::vector<Frequency> all = frequencies();
  const double id = f.value(code(token));
  json["id"] = number(id);
  for (const Frequency& frequency : all) {
    const double exact = static_cast<double>(token) * frequency.exact;
    const double angle = fp32.value(evaluate<Operation::mul>(fp32, {}, encode(fp32, {}, id).code, frequency.fp32).code);
    json["angles"].push_back({number(exact), number(angle), number(angle - exact)});
  }
  // The score of a query and a key that were equal before their rotations: the mean of cosines of angles between them.
  for (std::uint64_t distance = 0; distance <= std::min(reach, token); ++distance) {
    const double key = f.value(code(token - distance));
    double exact = 0, rounded = 0;
    for (const Frequency& frequency : all) {
      exact += cosine({static_cast<double>(distance) * frequency.exact, 0});
      rounded += std::isfinite(id - key) ? cosine({(id - key) * frequency.exact, 0}) : std::nan("");
    }
    json["scores"].push_back({distance, exact / (dimensions / 2), number(rounded / (dimensions / 2))});
  }
  return json;
}

}  // namespace halfulp::web
