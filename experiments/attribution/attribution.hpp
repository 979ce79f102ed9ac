// The pieces of the experiment "attribution".
#pragma once

#include <halfulp/experiments/attribution/matrices.hpp>
#include <halfulp/experiments/attribution/split.hpp>
#include <halfulp/experiments/experiment.hpp>

namespace halfulp::attribution {

/// How both factors are stored: "A+B", or one format for both.
struct FormatPair {
  std::string name;
  OperandFormat a, b;
};
FormatPair parse_pair(const std::string& text);

struct Settings {
  std::vector<FormatPair> formats;
  std::vector<Inside> accumulators;
  std::optional<FloatFormat> output;
  Rounding rounding;  ///< of elements
  Sources active = all_sources;
  std::vector<std::size_t> lengths;  ///< ascending
  std::vector<double> outliers;      ///< ascending
  std::uint64_t seed;
};

/// Two formats and how they are multiplied.
struct Choice {
  std::size_t format, accumulator;
};

/// One choice on one pair of factors.
struct Result {
  bool separate_products = false, unit = false;
  std::string no_reverse;  ///< why; empty if there is one
  std::array<Measure, source_count> forward, reverse, alone;
  std::array<bool, source_count> has_reverse{}, has_alone{};
  Measure total;
  std::size_t outputs = 0, overflowed = 0;
  bool measured() const { return overflowed < outputs; }  ///< whether any output is finite in every state
  // What must be 0.
  std::size_t not_adding_up = 0;      ///< outputs whose parts do not add up, in either order
  std::size_t not_alone = 0;          ///< outputs with a part of another source though one alone is on, or another total
  std::size_t not_the_definition = 0;  ///< outputs of the first row that are not the scalar definition's
  bool powers_of_two = false;         ///< all scales are, by their rule
  bool scaling_is_zero = true;        ///< in the forward order, exactly
};

/// Splits one product. Operations of its first output are recorded.
Result attribute(const Operand& a, const Operand& b, const Inside& inside, const Settings& s, Trace& trace);

/// Output (i, j) with everything on, by scalar operations alone, recorded in a trace: the definition that Product::words is held to.
std::uint64_t defined_output(const Operand& a, std::size_t i, const Operand& b, std::size_t j, const Inside& inside,
                             const std::optional<FloatFormat>& output, Trace* trace);

/// Table `channels` and the claims on it: what an outlier channel does to the others.
void channels_report(const Settings& s, Run& run);

/// Table `promotion` and the claims on it: DeepSeek-V3's set-up.
void promotion_report(const Settings& s, Run& run);

}  // namespace halfulp::attribution
