// A module for JavaScript. Text comes in as UTF-8 in memory from `take`, with its length. It goes out ended by a zero
// byte, and is valid until the next call.
#pragma once

#include <cstddef>
#include <string>

#define HALFULP_EXPORT(name) extern "C" __attribute__((export_name(#name)))

namespace halfulp::web {

/// Text that goes out.
const char* answer(std::string text);

}  // namespace halfulp::web
