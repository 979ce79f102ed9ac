// What the module has instead of a C++ runtime. What is thrown ends the call, and its text becomes the message of a
// JavaScript Error. Nothing in the module catches, and nothing is unwound: the page makes a new instance after an
// error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>

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
