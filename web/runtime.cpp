// What every module has: memory for what comes in, and what it has instead of a C++ runtime.
#include <halfulp/web/module.hpp>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>
#include <utility>

namespace halfulp::web {

const char* answer(std::string text) {
  static std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

HALFULP_EXPORT(take) void* module_take(std::size_t bytes) { return std::malloc(bytes); }
HALFULP_EXPORT(give) void module_give(void* address) { std::free(address); }

}  // namespace halfulp::web

// What is thrown ends the call, and its text becomes the message of a JavaScript Error. Nothing in the module catches,
// and nothing is unwound: the page makes a new instance after an error.
extern "C" {

/// Throws an Error of JavaScript with this text.
[[noreturn]] __attribute__((import_module("halfulp"), import_name("refuse"))) void halfulp_refuse(const char* text,
                                                                                                  std::size_t size);

// What the C library would print takes printf along. The JSON library escapes control characters by snprintf: no text
// of ours has any.
[[noreturn]] void abort_message(const char* format, ...) { halfulp_refuse(format, std::strlen(format)); }
int snprintf(char*, std::size_t, const char* format, ...) { halfulp_refuse(format, std::strlen(format)); }

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

[[noreturn]] void std::__libcpp_verbose_abort(const char* format, ...) { halfulp_refuse(format, std::strlen(format)); }
