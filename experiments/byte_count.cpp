#include <halfulp/experiments/byte_count.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

namespace halfulp {

std::optional<WrittenNumber> parse_written_number(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, double>, 7> units{
      {{"kib", 1024}, {"mib", 0x1p20}, {"gib", 0x1p30}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"b", 1}}};
  std::string lower = text;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  std::string_view number = lower;
  std::optional<double> unit;
  for (const auto& [name, factor] : units)
    if (!unit && number.ends_with(name)) {
      unit = factor;
      number.remove_suffix(name.size());
      if (number.ends_with(' ')) number.remove_suffix(1);
    }
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc{} || end != number.data() + number.size() || !(value >= 0) || !std::isfinite(value)) return {};
  return WrittenNumber{value * unit.value_or(1), unit.has_value()};
}

}  // namespace halfulp
