// fmt support: fmt::format("{}", x) prints the shortest decimal, "{:x}" the code word, "{:a}" the hex-float.
#pragma once

#include <halfulp/emulation/float.hpp>

#include <fmt/format.h>

/// \cond a specialisation of fmt's template
template <halfulp::FloatFormat F>
struct fmt::formatter<halfulp::Float<F>> {
  char presentation = 'g';
  constexpr auto parse(format_parse_context& context) {
    auto it = context.begin();
    if (it != context.end() && (*it == 'g' || *it == 'x' || *it == 'a')) presentation = *it++;
    if (it != context.end() && *it != '}')
      throw format_error("halfulp::Float takes {}, {:x} (code word) or {:a} (hex-float)");
    return it;
  }
  template <class Context>
  auto format(halfulp::Float<F> x, Context& context) const {
    return fmt::format_to(context.out(), "{}",
                          presentation == 'x'   ? halfulp::print_code(F, x.code())
                          : presentation == 'a' ? halfulp::print_hex(F, x.code())
                                                : halfulp::print(F, x.code()));
  }
};
/// \endcond
