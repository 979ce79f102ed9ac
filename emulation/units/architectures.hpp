// Which devices have which matrix units: the architectures that names of units begin with.
#pragma once

#include <algorithm>
#include <cctype>
#include <string_view>

namespace halfulp {

/// A device of an architecture, as its vendor writes it. A series, such as RTX40, stands for every number that begins so.
struct ArchitectureDevice {
  std::string_view device, architecture;  ///< "H100" and "hopper"
};

/// Devices that have an architecture's units.
inline constexpr ArchitectureDevice architecture_devices[] = {
  {"V100", "volta"},
  {"T4", "turing"},
  {"A100", "ampere"}, {"A30", "ampere"}, {"A2", "ampere"},
  {"L40S", "ada"}, {"RTX40", "ada"},
  {"H100", "hopper"}, {"H200", "hopper"},
  {"B200", "blackwell"}, {"GB200", "blackwell"},
  {"RTX50", "rtx-blackwell"}, {"RTX-PRO-6000", "rtx-blackwell"},
  {"MI100", "cdna1"},
  {"MI210", "cdna2"}, {"MI250", "cdna2"}, {"MI250X", "cdna2"},
  {"MI300", "cdna3"}, {"MI300A", "cdna3"}, {"MI300X", "cdna3"},
};

/// The architecture of a device ("h100", "RTX4090": case is ignored); empty if the word is none of those known.
inline std::string_view architecture_of(std::string_view word) {
  const auto same = [](char x, char y) { return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y)); };
  for (const auto& [device, architecture] : architecture_devices) {
    const bool series = device == "RTX40" || device == "RTX50";
    if (word.size() < device.size() || (!series && word.size() > device.size())) continue;
    if (std::equal(device.begin(), device.end(), word.begin(), same)) return architecture;
  }
  return {};
}

}  // namespace halfulp
