// Other software that does the work of our rows.
//
// Peers are compiled with -O3 for this CPU. Their files include nothing of halfulp, because a function that both sides
// inline must not get into our rows with their flags.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::bench {

struct Kernel {
  std::string_view work, format, mode;  ///< of the row that it can do
  void (*run)(const void* const* in, void* out, std::size_t count);
};

struct Peer {
  std::string name;
  std::string version;  ///< or, without kernels, "skipped: " and why
  std::vector<Kernel> kernels;
};

Peer eigen();
Peer cuda_headers();
Peer float16();
Peer cpfloat();

/// Not a peer: what a row costs at least (yardsticks.cpp).
Peer yardsticks();

/// out[i] = f(in[i]), or f(a[i], b[i]); F is a lambda without captures.
template <class In, class Out, class F>
constexpr Kernel unary(std::string_view work, std::string_view format, std::string_view mode, F) {
  return {work, format, mode, [](const void* const* in, void* out, std::size_t count) {
            const In* __restrict a = static_cast<const In*>(in[0]);
            Out* __restrict result = static_cast<Out*>(out);
            for (std::size_t i = 0; i < count; ++i) result[i] = F{}(a[i]);
          }};
}
template <class T, class F>
constexpr Kernel binary(std::string_view work, std::string_view format, std::string_view mode, F) {
  return {work, format, mode, [](const void* const* in, void* out, std::size_t count) {
            const T* __restrict a = static_cast<const T*>(in[0]), * __restrict b = static_cast<const T*>(in[1]);
            T* __restrict result = static_cast<T*>(out);
            for (std::size_t i = 0; i < count; ++i) result[i] = F{}(a[i], b[i]);
          }};
}

}  // namespace halfulp::bench
