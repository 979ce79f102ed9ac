// Scenes "Cliff" and "Staircase": gradients that vanish, updates that are swamped.
#include <halfulp/data/distributions.hpp>
#include <halfulp/emulation/known.hpp>
#include <halfulp/experiments/range_class.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/web/answers/answers.hpp>

#include <cmath>
#include <map>

namespace halfulp::web {

namespace {

/// As `halfulp sample` makes them.
std::vector<double> made_gradients(const Asked& asked) {
  Distribution d;
  d.shape = Shape::log_normal;
  d.log2_scale = asked.real("median", -100, 30);
  d.log2_sigma = asked.real("sigma", 0.01, 16);
  std::vector<double> made(asked.whole("count", 1, 1 << 20));
  const std::uint64_t seed = asked.seed();
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<float>(d.sample(seed, i));
  return made;
}

}  // namespace

Json gradients(const Asked& asked) {
  const std::vector<double> made = asked.array().empty() ? made_gradients(asked) : std::vector<double>();
  const std::span<const double> all = made.empty() ? asked.array() : std::span<const double>(made);
  const double factor = FloatFormat::power_of_two(static_cast<int>(asked.real("scale", -60, 60)));
  std::vector<double> finite;
  std::map<int, std::uint64_t> binades;
  std::uint64_t zeros = 0, non_finite = 0;
  for (const double x : all) {
    if (!std::isfinite(x)) ++non_finite;
    else if (x == 0) ++zeros;
    else ++binades[std::ilogb(x)], finite.push_back(x * factor);
  }
  Json json{{"count", all.size()}, {"zeros", zeros}, {"non_finite", non_finite}, {"binades", Json::array()}};
  for (const auto& [binade, count] : binades) json["binades"].push_back({binade, count});
  for (const std::string_view name : asked.texts("formats", 8)) {
    const FloatFormat f = parse_format(name);
    std::array<std::uint64_t, 4> counts{};
    for (const double x : finite) {
      const Rounded rounded = encode(f, {}, x);
      ++counts[static_cast<std::size_t>(range_class_of(f, rounded.code, [&] { return rounded.flags; }))];
    }
    Json row{{"format", name}};
    for (std::size_t i = 0; i < counts.size(); ++i) row[std::string(range_class_names[i])] = counts[i];
    row["smallest"] = f.value(f.min_positive());
    row["smallest_normal"] = f.value(f.min_normal());
    row["largest"] = f.value(f.max_finite());
    json["formats"].push_back(row);
  }
  return json;
}

namespace {

/// As in the table `ratios` of the experiment `swamping`.
constexpr std::uint64_t product_stream = 600, sum_stream = 601;

}  // namespace

Json staircase(const Asked& asked) {
  const FloatFormat f = asked.format();
  if (!f.has_zero || !f.is_signed || f.value(f.max_finite()) < 2)
    throw std::invalid_argument(format_name(f) +
                                " is of no use here; accepted: formats with a sign that hold 0, 1 and 2");
  const std::uint64_t lr = encode(f, {}, asked.real("lr", 1e-30, 1e6)).code,
                      g = encode(f, {}, asked.real("g", 1e-30, 1e6)).code;
  const std::uint64_t steps = asked.whole("steps", 1, 4096), seed = asked.seed();
  Rounding coin;
  coin.mode = RoundingMode::stochastic;
  const auto in = []<Operation operation>(std::integral_constant<Operation, operation>, const FloatFormat& format,
                                          std::uint64_t a, std::uint64_t b, const Rounding& rounding = {},
                                          std::uint64_t random = 0) {
    return evaluate<operation>(format, rounding, a, b, 0, random).code;
  };
  constexpr std::integral_constant<Operation, Operation::add> add;
  constexpr std::integral_constant<Operation, Operation::sub> sub;
  constexpr std::integral_constant<Operation, Operation::mul> mul;
  const std::uint64_t one = encode(f, {}, 1).code, u = in(mul, f, lr, g);
  const std::uint64_t wide_u = in(mul, fp32, encode(fp32, {}, asked.real("lr", 1e-30, 1e6)).code,
                                  convert(f, fp32, {}, g).code);
  std::uint64_t nearest = one, kahan = one, lost = f.zero(), master = encode(fp32, {}, 1).code, stochastic = one;
  Json json{{"lr", f.value(lr)}, {"g", f.value(g)}, {"update", f.value(u)}, {"half_ulp", f.epsilon() / 2}};
  const auto show = [&] {
    json["nearest"].push_back(f.value(nearest));
    json["fp32-master"].push_back(f.value(convert(fp32, f, {}, master).code));
    json["kahan"].push_back(f.value(kahan));
    json["stochastic"].push_back(f.value(stochastic));
  };
  show();
  for (std::uint64_t i = 0; i < steps; ++i) {
    nearest = in(add, f, nearest, u);
    master = in(add, fp32, master, wide_u);
    // Kahan 1965: what the sum lost is subtracted from the next update.
    const std::uint64_t y = in(sub, f, u, lost), t = in(add, f, kahan, y);
    lost = in(sub, f, in(sub, f, t, kahan), y);
    kahan = t;
    const std::uint64_t update = in(mul, f, lr, g, coin, rounding_bits(seed, product_stream, i));
    stochastic = in(add, f, stochastic, update, coin, rounding_bits(seed, sum_stream, i));
    show();
  }
  json["exact"] = 1 + static_cast<double>(steps) * (f.value(lr) * f.value(g));
  return json;
}

}  // namespace halfulp::web
