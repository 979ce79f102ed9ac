// Looking up what a user typed in a table of names.
#pragma once

#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/nearest.hpp>

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// {"nearest-even", "nearest-away", ...}: every name of a table, in its order.
template <class T, std::size_t N>
std::vector<std::string> names_of(const std::array<Named<T>, N>& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

/// The value of that name in a table such as `rounding_modes`. Throws std::invalid_argument naming the nearest ones:
/// "unknown rounding mode 'to-od'; did you mean to-odd? ...".
template <class T, std::size_t N>
T value_named(const std::array<Named<T>, N>& table, std::string_view kind, std::string_view name) {
  for (const auto& row : table)
    if (row.name == name) return row.value;
  throw std::invalid_argument(unknown_name(kind, name, names_of(table)));
}

}  // namespace halfulp
