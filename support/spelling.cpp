#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace halfulp {
namespace {

/// Characters of a word that count: the distance is quadratic, and a megabyte of typing error is no better than its
/// beginning.
constexpr std::size_t longest_word = 200;

/// Levenshtein distance with free case; a name that `word` begins costs nothing per missing letter beyond one.
int distance(std::string_view word, std::string_view name) {
  std::vector<int> row(name.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  bool prefix = !word.empty() && word.size() <= name.size();
  for (std::size_t i = 0; i < word.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i) + 1;
    if (prefix && lowered(word[i]) != lowered(name[i])) prefix = false;
    for (std::size_t j = 0; j < name.size(); ++j) {
      const int substituted = diagonal + (lowered(word[i]) != lowered(name[j]));
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return prefix ? std::min(1, row.back()) : row.back();
}

}  // namespace

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = lowered(c);
  return result;
}

std::string shown(std::string_view word) {
  std::string text;
  for (const char c : word.substr(0, 60)) text += std::iscntrl(static_cast<unsigned char>(c)) ? '?' : c;
  return word.size() > 60 ? text + "..." : text;
}

std::vector<std::string> nearest_names(std::string_view word, std::vector<std::string> names, std::size_t most) {
  const std::string_view start = word.substr(0, longest_word);
  std::stable_sort(names.begin(), names.end(),
                   [&](const std::string& a, const std::string& b) { return distance(start, a) < distance(start, b); });
  names.resize(std::min(most, names.size()));
  return names;
}

std::string unknown_name(std::string_view kind, std::string_view word, std::vector<std::string> names,
                         std::size_t most) {
  std::string message = "unknown " + std::string(kind) + " '" + shown(word) + "'";
  if (names.empty()) return message;
  const std::string_view start = word.substr(0, longest_word);
  const std::string* nearest = nullptr;
  int least = std::max<int>(2, static_cast<int>(start.size()) / 3);
  for (const std::string& name : names)
    if (const int d = distance(start, name); d < least + (nearest ? 0 : 1)) nearest = &name, least = d;
  message += nearest && !word.empty() ? "; did you mean " + *nearest + "? accepted: " : "; accepted: ";
  const std::size_t others = names.size() > most ? names.size() - most : 0;
  if (others > 0) names = nearest_names(word, std::move(names), most);
  for (const std::string& name : names) message += (&name == &names.front() ? "" : ", ") + name;
  if (others > 0) message += ", and " + std::to_string(others) + " more";
  return message;
}

}  // namespace halfulp
