#include <halfulp/experiments/cli/explanation.hpp>

#include <halfulp/emulation/text.hpp>
#include <halfulp/experiments/report/report.hpp>
#include <halfulp/formats/catalogue.hpp>

namespace halfulp::cli {
namespace {

Json neighbour(const FloatFormat& f, const std::optional<Neighbour>& x) {
  if (!x) return nullptr;
  if (x->code) return emulated(f, *x->code);
  return {{"code", nullptr}, {"value", static_cast<double>(x->value)}};
}

Json rational(const std::optional<Rational>& x) { return x ? Json(x->str()) : Json(nullptr); }

}  // namespace

Json to_json(const Explanation& e) {
  const FloatFormat& f = e.format;
  Json json{{"asked", e.asked},
            {"exactly", rational(e.value)},
            {"format", format_name(f)},
            {"rounding", name_of(e.rounding.mode)},
            {"result", emulated(f, e.code)},
            {"class", class_name(f, e.code)},
            {"exact_decimal", print_exact(f, e.code)},
            {"shortest_decimal", print(f, e.code)},
            {"hex_float", print_hex(f, e.code)},
            {"is_exact", e.exact},
            {"error", rational(e.error())},
            {"ulp", e.value ? Json(e.ulp.str()) : Json(nullptr)},
            {"below", neighbour(f, e.below)},
            {"above", neighbour(f, e.above)}};
  for (const Outcome& outcome : e.outcomes) {
    Json row{{"rounding", name_of(outcome.mode)}};
    row.update(emulated(f, outcome.result.code));
    row["error"] = rational(outcome.error);
    row["error_in_ulp"] = outcome.error ? number(static_cast<double>(Rational(*outcome.error / e.ulp))) : Json(nullptr);
    row["flags"] = flag_names(outcome.result.flags);
    row["reason"] = outcome.reason;
    row["probability"] = outcome.probability.str();
    json["modes"].push_back(std::move(row));
  }
  return json;
}

}  // namespace halfulp::cli
