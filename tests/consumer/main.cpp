#include <halfulp/emulation/float.hpp>
#include <halfulp/emulation/random.hpp>

#include <iostream>

int main() {
  using Half = halfulp::Float<halfulp::fp16>;
  const auto custom = halfulp::parse_format("e5m3");
  std::cout << Half(2048) + Half(1) << ' ' << halfulp::print(custom, custom.max_finite()) << ' '
            << halfulp::random_word(1, 2, 3) % 1 << '\n';
}
