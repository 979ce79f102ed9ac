// An experiment: up to which power of ten are powers of ten exact?
#include <halfulp/report/experiment.hpp>

#include <cmath>

namespace halfulp {
namespace powers_of_ten {

std::vector<Parameter> parameters() {
  return {{"formats", ParameterType::formats, "fp16,bf16,fp32", "which formats"},
          {"largest", ParameterType::integer, "12", "the largest power that is tried", 1, 22}};
}

void run(const Config& config, Run& run) {
  Table& table = run.report.table("powers", "Powers of ten in each format",
                                  {{"format", "", "The format."},
                                   {"power", "1", "The number n of 10^n."},
                                   {"rounded", "1", "What 10^n becomes, to nearest even."},
                                   {"exact", "", "Whether that is 10^n itself."}});
  Json counted = Json::object(), derived = Json::object();
  for (const FormatChoice& choice : config.formats("formats")) {
    const FloatFormat& f = choice.format;
    Arithmetic arithmetic(f, {}, &run.trace);  // what it computes is compared with the backends afterwards
    int exact_up_to = -1, fits_up_to = -1;
    double ten = 1, five = 1;  // 10^22 is the last one that a double holds
    for (int n = 0; n <= config.integer("largest"); ++n, ten *= 10, five *= 5) {
      const std::uint64_t code = arithmetic.encode(ten);
      const bool exact = f.value(code) == ten;
      table.row({choice.name, n, emulated(f, code), exact});
      if (exact && exact_up_to == n - 1) exact_up_to = n;
      // 10^n = 5^n 2^n: exact if p bits hold 5^n, and the range 10^n.
      if (five < std::ldexp(1, f.precision()) && ten <= f.value(f.max_finite()) && ten >= f.value(f.min_normal()))
        fits_up_to = n;
    }
    counted[choice.name] = exact_up_to;
    derived[choice.name] = fits_up_to;
  }
  run.report.claim({"exact-powers-of-ten",
                    "10^n is exact as long as 5^n has no more bits than the significand, and 10^n is in range.",
                    "derived: 10^n = 5^n 2^n, and 2^n costs exponent alone"},
                   exactly(derived, counted, "oracle"));
}

/// The last power that the first format holds.
std::string finding(const ReportTables& tables) {
  const auto all = tables.rows("powers");
  if (all.empty()) return {};
  const auto exact = tables.rows("powers", {{"format", all.front()["format"]}, {"exact", true}});
  const TableRow* const last = largest(exact, "power");
  return last ? "The largest power of ten in " + last->text("format") + " is 10^" + last->whole("power") + "."
              : std::string();
}

}  // namespace powers_of_ten

Experiment powers_of_ten_experiment() {
  return {"powers_of_ten",
          "Powers of ten",
          "Up to which n is 10^n a number of the format?",
          powers_of_ten::parameters,
          powers_of_ten::run,
          powers_of_ten::finding,
          {"powers", {"format", "power", "rounded", "exact"}}};
}

}  // namespace halfulp
