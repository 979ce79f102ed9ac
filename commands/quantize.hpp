// What `halfulp quantize` says of a tensor in a format.
#pragma once

#include <halfulp/data/quantized_tensor.hpp>

#include <nlohmann/json.hpp>

#include <string>

namespace halfulp::cli {

/// The line for people, and the same for programs.
std::string summary_line(const std::string& name, const FileTensor& tensor, const AnyFormat& format,
                         const Quantized& q);
nlohmann::ordered_json summary_json(const std::string& name, const FileTensor& tensor, const AnyFormat& format,
                                    const Rounding& rounding, const Quantized& q);

}  // namespace halfulp::cli
