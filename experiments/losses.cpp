#include <halfulp/experiments/losses.hpp>

#include <halfulp/data/elementary.hpp>
#include <halfulp/report/config.hpp>

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace halfulp {
namespace {

bool has_error(const Loss& loss) { return loss.compared > 0 && std::isfinite(loss.relative_error()); }

}  // namespace

void require_arithmetic(const FloatFormat& f, std::string_view parameter, const std::string& name) {
  if (!f.has_zero || !f.is_signed)
    throw std::invalid_argument(
        fmt::format("{}: {} has no zero or no sign: no tensor is stored in it", parameter, name));
}

std::vector<ChosenFormat> chosen_formats(const std::string& text, std::string_view parameter) {
  std::vector<ChosenFormat> formats;
  for (const std::string& name : name_list(text, ',', parameter)) {
    try {
      formats.push_back({name, parse_any_format(name)});
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("{}: {}", parameter, error.what()));
    }
    if (const auto* plain = std::get_if<FloatFormat>(&formats.back().format))
      require_arithmetic(*plain, parameter, name);
  }
  return formats;
}

Json sqnr(double error) {
  if (!(error >= 0x1p-1000) || std::isinf(error)) return {};
  constexpr double decibels = 8.685889638065036553;  // 20 / ln 10
  return number(0.0 - decibels * deterministic_log(error));
}

Json relative_error(const Loss& loss) { return has_error(loss) ? number(loss.relative_error()) : Json(); }
Json sqnr(const Loss& loss) { return has_error(loss) ? sqnr(loss.relative_error()) : Json(); }

}  // namespace halfulp
