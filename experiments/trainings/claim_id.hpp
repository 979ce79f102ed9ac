// Names of policies in ids of claims, which are kebab-case.
#pragma once

#include <string>
#include <string_view>

namespace halfulp::trainings {

/// "O2" is "o2", "mixed_float16" is "mixed-float16": letters in lower case, one hyphen for whatever is between letters and digits.
inline std::string claim_id(std::string_view name) {
  std::string id;
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z', kept = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (kept) id += upper ? static_cast<char>(c - 'A' + 'a') : c;
    else if (!id.empty() && id.back() != '-') id += '-';
  }
  while (!id.empty() && id.back() == '-') id.pop_back();
  return id;
}

}  // namespace halfulp::trainings
