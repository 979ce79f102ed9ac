#include <halfulp/support/json.hpp>
#include <halfulp/web/answers/answers.hpp>

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/emulation/text.hpp>
#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <cmath>

namespace halfulp::web {

std::string_view Asked::text(std::string_view name) const {
  for (std::string_view rest = lines_; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ' ')
      return line.substr(name.size() + 1);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  throw std::invalid_argument(std::string(name) + " is missing");
}

double Asked::real(std::string_view name, double least, double most) const {
  const std::string_view given = text(name);
  const double x = fp64.value(parse(fp64, {}, given).code);
  if (!(x >= least && x <= most))
    throw std::invalid_argument(std::string(name) + ": " + shown(given) + "; accepted: a number from " +
                                print(fp64, encode(fp64, {}, least).code) + " to " +
                                print(fp64, encode(fp64, {}, most).code));
  return x;
}

std::uint64_t Asked::whole(std::string_view name, std::uint64_t least, std::uint64_t most) const {
  const double x = real(name, static_cast<double>(least), static_cast<double>(most));
  if (x != std::floor(x))
    throw std::invalid_argument(std::string(name) + ": " + shown(text(name)) + "; accepted: a whole number");
  return static_cast<std::uint64_t>(x);
}

std::vector<std::string_view> Asked::texts(std::string_view name, std::size_t most) const {
  std::vector<std::string_view> words;
  for (std::string_view rest = text(name); !rest.empty();) {
    words.push_back(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), words.back().size() + 1));
  }
  if (words.empty() || words.size() > most)
    throw std::invalid_argument(std::string(name) + ": accepted: 1 to " + std::to_string(most) + " words with commas");
  return words;
}

namespace {

constexpr std::array<Named<Json (*)(const Asked&)>, 10> questions{{{"names", names},
                                                                   {"explained", explained},
                                                                   {"line", line},
                                                                   {"gradients", gradients},
                                                                   {"staircase", staircase},
                                                                   {"sums", sums},
                                                                   {"positions", positions},
                                                                   {"product", product},
                                                                   {"stall", stall},
                                                                   {"block", block}}};

}  // namespace

Json answer(std::string_view question, const Asked& asked) {
  for (const auto& [name, function] : questions)
    if (name == question) return function(asked);
  throw std::invalid_argument("unknown question '" + shown(question) + "'");
}

}  // namespace halfulp::web
