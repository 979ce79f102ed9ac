// What experiments that round tensors to formats share: the formats a user names, and what was lost as cells of a
// table.
#pragma once

#include <halfulp/data/quantized_tensor.hpp>
#include <halfulp/support/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// A format or block format under the name by which it was asked for.
struct ChosenFormat {
  std::string name;
  AnyFormat format;
  const BlockFormat* block() const { return std::get_if<BlockFormat>(&format); }
};

/// Those of a parameter of type text: names separated by commas. Throws std::invalid_argument in one line that begins
/// with the parameter: what name_list and parse_any_format refuse, formats in which no tensor is stored.
std::vector<ChosenFormat> chosen_formats(const std::string& text, std::string_view parameter);

/// Throws std::invalid_argument in one line for a format without zero or sign.
void require_arithmetic(const FloatFormat& format, std::string_view parameter, const std::string& name);

/// Signal to quantization noise in decibels, -20 log10 of a relative error, the same bits on every machine; null where
/// nothing was lost or nothing can be said.
Json sqnr(double relative_error);
/// Cells of a loss: relative error and SQNR; null where no value is finite before and after.
Json relative_error(const Loss& loss);
Json sqnr(const Loss& loss);

}  // namespace halfulp
