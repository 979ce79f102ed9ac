// Scenes "Bits" and "Number line".
#include <halfulp/commands/explanation.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/web/answers/answers.hpp>

#include <algorithm>

namespace halfulp::web {

Json names(const Asked&) {
  Json json = Json::object();
  for (const NamedFormat& row : catalogue()) json["formats"].push_back({{"name", row.name}, {"title", row.title}});
  return json;
}

Json explained(const Asked& asked) {
  const FloatFormat f = asked.format();
  Rounding rounding;
  rounding.mode = asked.mode();
  const cli::Explanation e = cli::explain(f, rounding, asked.text("x"), rounding_bits(asked.seed(), 0, 0));
  Json json = cli::to_json(e);
  json["title"] = cli::format_title(f);
  json["layout"] = {{"sign", f.is_signed ? 1 : 0}, {"exponent", f.exponent_bits}, {"fraction", f.fraction_bits}};
  json["exponent"] = f.is_finite(e.code) && !f.is_zero(e.code) ? Json(f.exponent(e.code) + f.fraction_bits) : Json();
  json["largest"] = f.value(f.max_finite());
  json["smallest"] = f.value(f.min_positive());
  json["smallest_normal"] = f.value(f.min_normal());
  return json;
}

Json line(const Asked& asked) {
  const FloatFormat f = asked.format();
  const double low = asked.real("low", -1e300, 1e300), high = asked.real("high", -1e300, 1e300);
  const std::uint64_t most = asked.whole("most", 0, 4096);
  // Finite numbers in order: negative ones have negative places.
  const auto last = static_cast<std::int64_t>(f.max_finite()), first = f.is_signed ? -last : 0;
  const auto value = [&](std::int64_t place) {
    return place < 0 ? -f.value(static_cast<std::uint64_t>(-place)) : f.value(static_cast<std::uint64_t>(place));
  };
  const auto places_below = [&](double x, bool or_equal) {  // how many are
    std::int64_t begin = first, end = last + 1;
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      if (or_equal ? value(middle) <= x : value(middle) < x) begin = middle + 1;
      else end = middle;
    }
    return begin;
  };
  const std::int64_t begin = places_below(low, false), end = places_below(high, true);
  Json json{{"count", std::max<std::int64_t>(0, end - begin)}, {"values", Json::array()}};
  if (end - begin <= static_cast<std::int64_t>(most))
    for (std::int64_t place = begin; place < end; ++place) {
      const auto magnitude = static_cast<std::uint64_t>(place < 0 ? -place : place);
      json["values"].push_back({{"code", print_code(f, f.with_sign(magnitude, place < 0))},
                                {"value", value(place)},
                                {"subnormal", f.is_subnormal(magnitude)}});
    }
  return json;
}

}  // namespace halfulp::web
