#include <halfulp/experiments/cli/number_option.hpp>

#include <halfulp/formats/nearest.hpp>

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

namespace halfulp::cli {

std::uint64_t whole_number(std::string_view option, std::string_view text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    throw std::invalid_argument(fmt::format("{} is '{}'; accepted: an integer from {} to {}", option, shown(text), least, most));
  return value;
}

}  // namespace halfulp::cli
