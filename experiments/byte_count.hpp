// Budgets that users write: bytes with a unit, or a plain number.
#pragma once

#include <optional>
#include <string>

namespace halfulp {

/// A number, and whether a unit of bytes stood behind it, by which it is multiplied then.
struct WrittenNumber {
  double value = 0;
  bool is_bytes = false;
};

/// "0.005", "400kB", "1.5 GiB", "77B": units are B, kB, MB, GB (powers of 1000) and KiB, MiB, GiB (powers of 1024), in
/// any case. Nothing for other text, and for numbers below 0.
std::optional<WrittenNumber> parse_written_number(const std::string& text);

}  // namespace halfulp
