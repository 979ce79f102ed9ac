// What --version says below its first line.
#pragma once

#include <string>

namespace halfulp::cli {

/// Compiler and floating-point flags, instruction sets of vector kernels, CUDA, libraries: lines "what: ...".
std::string build_text();

}  // namespace halfulp::cli
