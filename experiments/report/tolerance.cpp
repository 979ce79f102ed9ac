#include <halfulp/experiments/report/tolerance.hpp>

#include <charconv>
#include <cmath>
#include <limits>

namespace halfulp {

std::optional<double> number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::optional<bool> satisfied(const Json& expected, std::string_view tolerance, const Json& measured) {
  if (tolerance == "exact") return measured == expected;
  const auto wanted = number_of(expected), found = number_of(measured);
  if (!wanted || !found) return std::nullopt;
  if (tolerance == "at most") return *found <= *wanted;
  if (tolerance == "at least") return *found >= *wanted;
  constexpr std::string_view prefix = "absolute ";
  if (!tolerance.starts_with(prefix)) return std::nullopt;
  tolerance.remove_prefix(prefix.size());
  double distance = 0;
  const auto [end, error] = std::from_chars(tolerance.data(), tolerance.data() + tolerance.size(), distance);
  if (error != std::errc{} || end != tolerance.data() + tolerance.size()) return std::nullopt;
  return *found == *wanted || std::fabs(*found - *wanted) <= distance;
}

}  // namespace halfulp
