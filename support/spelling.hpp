// Names: tables of them, and error messages for unknown ones, with the nearest spelling and everything that is
// accepted.
#pragma once

#include <array>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// Text of others, fit for a terminal: '?' for control characters and for bytes that are no UTF-8.
std::string clean(std::string_view text);

/// A user's word, fit for one line of a terminal: control characters hidden, length bounded.
std::string shown(std::string_view word);

/// A letter or a word in lower case, ASCII only, in every locale.
constexpr char lowered(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
std::string lowered(std::string_view text);

/// Those of `names` that are nearest to `word` by edit distance (case ignored, prefixes favoured), nearest first,
/// `most` of them.
std::vector<std::string> nearest_names(std::string_view word, std::vector<std::string> names, std::size_t most);

/// "unknown format 'fp17'; did you mean fp16? accepted: fp16, bf16, ..." in one line. The name meant is the nearest by
/// edit distance (case ignored, prefixes favoured; the first of several), if it is near at all; `names` keep their
/// order. Of more than `most` names the nearest come, nearest first, and the others are counted: "accepted: fp16, bf16,
/// and 229 more". `meant` is the name meant where the caller knows what others call it: "gpu" is cuda.
std::string unknown_name(std::string_view kind, std::string_view word, std::vector<std::string> names,
                         std::size_t most = 100, std::string_view meant = {});

// Tables of names: what the command line and reports call a value, and the value that a user's word stands for.

/// A name on the command line and in reports, and what it stands for.
template <class T>
struct Named {
  std::string_view name;  ///< as on the command line
  T value;                ///< what it names
};

/// The name of a value in a table of names; empty if it is not there.
template <class T, std::size_t N>
constexpr std::string_view name_in(const std::array<Named<T>, N>& table, T value) {
  for (const auto& row : table)
    if (row.value == value) return row.name;
  return {};
}
/// {"nearest-even", "nearest-away", ...}: every name of a table, in its order.
template <class T, std::size_t N>
std::vector<std::string> names_of(const std::array<Named<T>, N>& table) {
  std::vector<std::string> names;
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

/// Another program's word, and the name that stands for it here.
struct Synonym {
  std::string_view word, name;
};
/// The name for another program's word in a table of them, case ignored; empty if it is not there.
template <std::size_t N>
std::string_view name_for(const std::array<Synonym, N>& table, std::string_view word) {
  for (const Synonym& row : table)
    if (row.word == lowered(word)) return row.name;
  return {};
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
