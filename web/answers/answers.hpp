// What the page asks of the module: one function for each question, lines in and JSON out. Each throws
// std::invalid_argument with one line for what it does not take.
#pragma once

#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/json_fwd.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::web {

/// A question's members as lines "name value", and the array that may come with it. (Json would be read by code that is
/// a tenth of the module.)
class Asked {
 public:
  explicit Asked(std::string_view lines, std::span<const double> array = {}) : lines_(lines), array_(array) {}
  std::string_view text(std::string_view name) const;
  /// A number as `parse` reads it into fp64.
  double real(std::string_view name, double least, double most) const;
  std::uint64_t whole(std::string_view name, std::uint64_t least, std::uint64_t most) const;
  /// A list with commas.
  std::vector<std::string_view> texts(std::string_view name, std::size_t most) const;
  FloatFormat format(std::string_view name = "format") const { return parse_format(text(name)); }
  RoundingMode mode(std::string_view name = "round") const { return parse_rounding_mode(text(name)); }
  std::uint64_t seed() const { return whole("seed", 0, std::uint64_t{1} << 53); }
  std::span<const double> array() const { return array_; }

 private:
  std::string_view lines_;
  std::span<const double> array_;
};

/// Names and titles of the formats in the catalogue.
Json names(const Asked& asked);
/// `format`, `x`, `round`, `seed`: what `halfulp explain --json` says, and the format's layout.
Json explained(const Asked& asked);
/// `format`, `low`, `high`, `most`: the finite numbers between two, if they are not more than `most`.
Json line(const Asked& asked);
/// `formats`, `scale`, and an array, or `median`, `sigma`, `count`, `seed` of made ones: gradients by binade, and how
/// many each format holds of them times 2^scale, to nearest even.
Json gradients(const Asked& asked);
/// `format`, `lr`, `g`, `steps`, `seed`: the weight w = w + lr g from 1 on, by four methods, after every step.
Json staircase(const Asked& asked);
/// `format`, `terms`, `order`, `n`, `k`, `seed`: errors of sums of up to n terms in each order, and how the k-th term
/// enters.
Json sums(const Asked& asked);
/// `format`, `tokens`, `token`: ids, angles, attention scores.
Json positions(const Asked& asked);
/// `unit`, `a`, `b`, `c`: one output of a matrix unit, step by step where its rule is known in steps.
Json product(const Asked& asked);
/// `unit`, `a`, `b`, `n`, `promote`: the sum of n products of a and b, by the unit alone, and promoted to FP32 every
/// `promote` products.
Json stall(const Asked& asked);
/// `format`, and an array: one row of numbers in a block format.
Json block(const Asked& asked);

/// The answer to a question of that name.
Json answer(std::string_view question, const Asked& asked);

}  // namespace halfulp::web
