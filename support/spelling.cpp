#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <array>
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

namespace {

/// The bytes of the UTF-8 character that a text begins with; 0 if it begins with none (RFC 3629, section 4).
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  const std::size_t size = first < 0x80   ? 1
                           : first < 0xc2 ? 0
                           : first < 0xe0 ? 2
                           : first < 0xf0 ? 3
                           : first < 0xf5 ? 4
                                          : 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool beyond = (first == 0xed && byte(1) >= 0xa0) || (first == 0xf4 && byte(1) >= 0x90);
  return overlong || beyond ? 0 : size;
}

/// The controls of bidirectional text (Unicode Standard Annex 9), by which a line may look like another.
bool turns_writing(std::string_view character) {
  constexpr std::array<std::string_view, 12> controls{"\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c",
                                                      "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"};
  return std::find(controls.begin(), controls.end(), character) != controls.end();
}

}  // namespace

std::string clean(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = character(text.substr(i));
    const bool control = size == 1 && std::iscntrl(static_cast<unsigned char>(text[i]));
    const bool c1 = size == 2 && text[i] == '\xc2' && static_cast<unsigned char>(text[i + 1]) < 0xa0;  // U+0080 to 9F
    size == 0 || control || c1 || turns_writing(text.substr(i, size)) ? result += '?' : result += text.substr(i, size);
    i += size == 0 ? 1 : size;
  }
  return result;
}

std::string shown(std::string_view word) {
  constexpr std::size_t most = 60;
  if (word.size() <= most) return clean(word);
  std::size_t end = most;
  while (end > most - 4 && (static_cast<unsigned char>(word[end]) & 0xc0) == 0x80) --end;  // whole characters
  return clean(word.substr(0, end)) + "...";
}

std::vector<std::string> nearest_names(std::string_view word, std::vector<std::string> names, std::size_t most) {
  const std::string_view start = word.substr(0, longest_word);
  std::stable_sort(names.begin(), names.end(),
                   [&](const std::string& a, const std::string& b) { return distance(start, a) < distance(start, b); });
  names.resize(std::min(most, names.size()));
  return names;
}

std::string unknown_name(std::string_view kind, std::string_view word, std::vector<std::string> names, std::size_t most,
                         std::string_view meant) {
  std::string message = "unknown " + std::string(kind) + " '" + shown(word) + "'";
  if (names.empty()) return message;
  const std::string_view start = word.substr(0, longest_word);
  const bool known = !meant.empty();
  int least = std::max<int>(2, static_cast<int>(start.size()) / 3);
  for (const std::string& name : names)
    if (const int d = distance(start, name); !known && d < least + (meant.empty() ? 1 : 0)) meant = name, least = d;
  message += meant.empty() || word.empty() ? "; accepted: " : "; did you mean " + std::string(meant) + "? accepted: ";
  const std::size_t others = names.size() > most ? names.size() - most : 0;
  if (others > 0) names = nearest_names(known ? meant : word, std::move(names), most);
  for (const std::string& name : names) message += (&name == &names.front() ? "" : ", ") + name;
  if (others > 0) message += ", and " + std::to_string(others) + " more";
  return message;
}

}  // namespace halfulp
