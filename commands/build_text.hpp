// What --version says below its first line.
#pragma once

#include <string>

namespace halfulp::cli {

/// Lines "what: ..." for the compiler and its floating-point flags, the instruction sets of the vector kernels, CUDA
/// and libraries.
std::string build_text();

}  // namespace halfulp::cli
