#include <halfulp/experiments/cli/hex_word.hpp>

#include <halfulp/formats/nearest.hpp>

#include <fmt/core.h>

#include <array>

namespace halfulp::cli {
namespace {

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Value of a hexadecimal digit, 0xff for other characters.
constexpr auto digit_values = [] {
  std::array<std::uint8_t, 256> table{};
  for (auto& entry : table) entry = 0xff;
  for (int i = 0; i < 10; ++i) table[static_cast<std::size_t>('0' + i)] = static_cast<std::uint8_t>(i);
  for (int i = 0; i < 6; ++i)
    table[static_cast<std::size_t>('a' + i)] = table[static_cast<std::size_t>('A' + i)] = static_cast<std::uint8_t>(10 + i);
  return table;
}();

constexpr int digits_of(int bits) { return (bits + 3) / 4; }

enum class Hex : std::uint8_t { fine, not_hexadecimal, too_wide };

Hex read(std::string_view word, int bits, std::uint64_t& code) {
  if (word.size() > 2 && word[0] == '0' && (word[1] | 0x20) == 'x') word.remove_prefix(2);
  bool lost = false;
  code = 0;
  for (const char c : word) {
    const std::uint8_t digit = digit_values[static_cast<unsigned char>(c)];
    if (digit == 0xff) return Hex::not_hexadecimal;
    lost = lost || (code >> 60) != 0;
    code = code << 4 | digit;
  }
  return lost || (bits < 64 && (code >> bits) != 0) ? Hex::too_wide : Hex::fine;
}

}  // namespace

std::string_view take_word(std::string_view& text) {
  std::size_t begin = 0;
  while (begin < text.size() && is_blank(text[begin])) ++begin;
  std::size_t end = begin;
  while (end < text.size() && !is_blank(text[end])) ++end;
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

bool read_hex_word(std::string_view word, int bits, std::uint64_t& code) { return read(word, bits, code) == Hex::fine; }

std::string hex_word_refusal(std::string_view name, std::string_view word, int bits) {
  std::uint64_t code = 0;
  const bool wide = read(word, bits, code) == Hex::too_wide;
  const std::string why = wide ? fmt::format(", wider than {} bit{}", bits, bits == 1 ? "" : "s") : "";
  return fmt::format("{} is '{}'{}; accepted: {} hexadecimal digit{}", name, shown(word), why, digits_of(bits), digits_of(bits) == 1 ? "" : "s");
}

void append_hex_word(std::string& out, std::uint64_t code, int bits) {
  char text[16];
  for (int i = digits_of(bits); i-- > 0; code >>= 4) text[i] = "0123456789ABCDEF"[code & 15];
  out.append(text, static_cast<std::size_t>(digits_of(bits)));
}

}  // namespace halfulp::cli
