#include <halfulp/emulation/float.hpp>
#include <halfulp/emulation/operation.hpp>

#include <iostream>

int main() {
  using Half = halfulp::Float<halfulp::fp16>;
  std::cout << Half(2048) + Half(1) << '\n';  // 2048: operators round to nearest even

  const halfulp::FloatFormat format = halfulp::parse_format("e5m3");
  const halfulp::Rounding up{.mode = halfulp::RoundingMode::toward_positive};
  const auto [code, flags] = halfulp::evaluate(halfulp::Operation::fma, format, up, 0x58, 0x4c, 0x01);
  std::cout << std::hex << code << ' ' << int{flags} << '\n';
}
