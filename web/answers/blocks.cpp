// Scene "One block": the definition of block formats, element by element.
#include <halfulp/emulation/block/scale.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/web/answers/answers.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace halfulp::web {

Json block(const Asked& asked) {
  const BlockFormat f = parse_block_format(asked.text("format"));
  if (f.element.is_affine())
    throw std::invalid_argument("affine elements are not shown here; accepted: other block formats");
  std::vector<float> x;
  for (const double value : asked.array()) x.push_back(static_cast<float>(value));
  if (x.empty() || x.size() > 4096) throw std::invalid_argument("accepted: 1 to 4096 numbers");
  const auto largest = [](std::span<const float> part) {
    float most = 0;
    for (const float v : part)
      if (std::isnan(v) || std::fabs(v) > most) most = std::fabs(v);
    return most;
  };
  const float tensor = f.tensor_scale ? tensor_scale(f, largest(x)) : 1.0f;
  const std::size_t size = f.columns ? std::min(f.columns, x.size()) : x.size();
  Json json{
      {"format", format_name(f)}, {"bits", f.bits_per_element()}, {"size", size}, {"tensor_scale", number(tensor)}};
  for (std::size_t begin = 0; begin < x.size(); begin += size) {
    const std::span<const float> part = std::span<const float>(x).subspan(begin, std::min(size, x.size() - begin));
    const BlockStep step = block_step(f, largest(part), tensor);
    json["scales"].push_back(number(block::scale_value(f.scale, step.scale)));
    for (const float v : part) {
      const std::uint8_t code = block_element(f, {}, step, v);
      json["codes"].push_back(code);
      json["values"].push_back(number(block_value(f, step, code)));
    }
  }
  return json;
}

}  // namespace halfulp::web
