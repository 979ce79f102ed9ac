// Code words in lines of text: hexadecimal digits between blanks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace halfulp::cli {

/// Takes the next word off the front of a line; empty at its end. Blanks, tabs and carriage returns stand between words.
std::string_view take_word(std::string_view& text);

/// The code word of at most `bits` bits that a word spells ("3C00", "0x3c00") into `code`. False if it spells none.
bool read_hex_word(std::string_view word, int bits, std::uint64_t& code);

/// What is wrong with a word that read_hex_word refused: "operand 1 is 'zz'; accepted: 4 hexadecimal digits".
std::string hex_word_refusal(std::string_view name, std::string_view word, int bits);

/// Appends a code word of that many bits, in upper case, all its digits.
void append_hex_word(std::string& out, std::uint64_t code, int bits);

}  // namespace halfulp::cli
