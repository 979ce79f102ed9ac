// The module's functions, as halfulp.js calls them, and what it has instead of a C++ runtime. Text comes in as UTF-8 in
// memory from `take`, with its length. It goes out ended by a zero byte, and is valid until the next call.
#include <halfulp/emulation/text.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/web/digests.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

#define HALFULP_EXPORT(name) extern "C" __attribute__((export_name(#name)))

namespace halfulp::web {
namespace {

const char* answer(std::string text) {
  static std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

std::uint64_t at_most(std::string_view what, std::uint64_t given, std::uint64_t largest) {
  if (given > largest)
    throw std::invalid_argument(std::string(what) + ": " + std::to_string(given) + "; accepted: 0 to " +
                                std::to_string(largest));
  return given;
}

}  // namespace

HALFULP_EXPORT(take) void* module_take(std::size_t bytes) { return std::malloc(bytes); }
HALFULP_EXPORT(give) void module_give(void* address) { std::free(address); }

/// The code word of a number as people write it, rounded once.
HALFULP_EXPORT(parse)
std::uint64_t module_parse(const char* format, std::size_t format_size, const char* mode, std::size_t mode_size,
                           const char* text, std::size_t text_size, std::uint64_t random) {
  Rounding rounding;
  rounding.mode = parse_rounding_mode({mode, mode_size});
  return parse(parse_format({format, format_size}), rounding, {text, text_size}, at_most("random", random, 0xffff'ffff))
      .code;
}
/// The value of a code word, every digit of it.
HALFULP_EXPORT(print_exact)
const char* module_print_exact(const char* format, std::size_t size, std::uint64_t code) {
  const FloatFormat f = parse_format({format, size});
  return answer(print_exact(f, at_most("word", code, f.code_mask())));
}

HALFULP_EXPORT(digest_count) std::size_t module_digest_count() { return digest_count(); }
HALFULP_EXPORT(digest_name) const char* module_digest_name(std::size_t index) { return answer(digest_name(index)); }
HALFULP_EXPORT(digest_of) std::uint64_t module_digest_of(std::size_t index) { return digest_of(index); }

}  // namespace halfulp::web

// What is thrown ends the call, and its text becomes the message of a JavaScript Error. Nothing in the module catches,
// and nothing is unwound: the page makes a new instance after an error.
extern "C" {

/// Throws an Error of JavaScript with this text.
[[noreturn]] __attribute__((import_module("halfulp"), import_name("refuse"))) void halfulp_refuse(const char* text,
                                                                                                  std::size_t size);

void* __cxa_allocate_exception(std::size_t size) noexcept { return std::malloc(size); }

// All that the library throws begins with a std::exception.
[[noreturn]] void __cxa_throw(void* thrown, std::type_info*, void (*)(void*)) {
  const char* const text = static_cast<std::exception*>(thrown)->what();
  halfulp_refuse(text, std::strlen(text));
}

// Debian's arithmetic of 128-bit integers for wasm32 is compiled with a guard of the stack.
std::uintptr_t __stack_chk_guard = 0x5a17'c0de;
[[noreturn]] void __stack_chk_fail() { __builtin_trap(); }

}  // extern "C"
