#include "row.hpp"

namespace halfulp::bench {
namespace {

constexpr Size l1{"L1", 1 << 12}, million{"1M", 1 << 20}, many{"64M", 1 << 26};
constexpr std::string_view formats[] = {"fp16", "bf16", "e4m3", "e5m2", "e2m1"};
constexpr std::string_view arithmetic_formats[] = {"fp16", "bf16", "e4m3", "e5m2"};
constexpr std::string_view block_formats[] = {"mxfp8e4m3", "mxfp6e2m3",   "mxfp4",       "mxint8", "nvfp4",
                                              "fp8-1x128", "fp8-128x128", "e4m3-tensor", "int8",   "int8-affine"};
constexpr std::string_view operation_names[] = {"add", "mul", "div", "sqrt", "fma"};
constexpr std::string_view main_modes[] = {"nearest-even",
                                           "toward-zero"};  // where all eight would only repeat themselves

}  // namespace

std::string Row::name() const {
  std::string text;
  for (const std::string_view part : {work, format, mode, size.name, data}) text.append(part) += '/';
  return text + std::to_string(threads);
}

Rounding Row::rounding() const {
  Rounding rounding;
  for (const auto& known : rounding_modes)
    if (known.name == mode || (mode.starts_with(known.name) && random().roundings_per_word > 1))
      rounding.mode = known.value;
  rounding.random_bits = max_random_bits / random().roundings_per_word;
  return rounding;
}

RandomStream Row::random() const {
  return {.roundings_per_word = mode == "stochastic-2" ? 2 : mode == "stochastic-4" ? 4 : 1};
}

std::vector<Row> rows(bool quick) {
  std::vector<Size> sizes{l1, million};
  if (!quick) sizes.push_back(many);
  std::vector<Row> all;
  for (const std::string_view format : formats) {
    for (const auto& mode : rounding_modes) all.push_back({"quantize", format, mode.name, l1});
    for (const std::string_view mode : {"stochastic-2", "stochastic-4"}) all.push_back({"quantize", format, mode, l1});
    all.push_back({"quantize", format, "nearest-even", l1, "bits"});
    for (const Size size : sizes)
      for (const std::string_view mode : main_modes)
        if (size.count > l1.count) all.push_back({"quantize", format, mode, size});
  }
  for (const std::string_view format : formats)
    for (const Size size : sizes)
      for (const std::string_view mode : main_modes) all.push_back({"encode", format, mode, size});
  for (const std::string_view format : formats)
    for (const Size size : sizes) all.push_back({"decode", format, "exact", size});
  for (const std::string_view work : {"block-quantize", "block-encode"})
    for (const std::string_view format : block_formats) {
      all.push_back({work, format, "nearest-even", million});
      if (!quick) all.push_back({work, format, "nearest-even", many});
    }
  for (const std::string_view operation : operation_names)
    for (const std::string_view format : arithmetic_formats) {
      for (const auto& mode : rounding_modes) all.push_back({operation, format, mode.name, million});
      if (operation != "add" && operation != "mul") continue;
      for (const std::string_view mode : main_modes) all.push_back({operation, format, mode, million, "normal", 2});
    }
  return all;
}

}  // namespace halfulp::bench
