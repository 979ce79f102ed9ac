// The parts of the experiment "attribution", and the factors that it multiplies: seeded samples, or the user's files.
#pragma once

#include <halfulp/data/matrix.hpp>
#include <halfulp/experiments/attribution/product.hpp>
#include <halfulp/report/experiment.hpp>

#include <string>

namespace halfulp::attribution {

/// The factors of a configuration: A by rows, and B transposed, so that both have k columns.
struct FactorPair {
  Matrix a, b;
  std::string source;  ///< "normal", or the files
};

/// Reads the parameters a, b, distribution, rows, columns, terms, outlier, outlier_channel and seed. Without files, A
/// and B have `terms` columns; with one, as many as it has. Throws std::invalid_argument in one line for files whose
/// sizes do not match and for a channel that does not exist.
FactorPair make_factors(const Config& config, std::size_t terms);

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

/// The result of one choice for one pair of factors.
struct ChoiceResult {
  bool separate_products = false, unit = false;
  std::string no_reverse;  ///< why there is no reverse order; empty if there is
  std::array<Measure, source_count> forward, reverse, alone;
  std::array<bool, source_count> has_reverse{}, has_alone{};
  Measure total;
  std::size_t outputs = 0, overflowed = 0;
  bool measured() const { return overflowed < outputs; }  ///< whether any output is finite in every state
  // These must be 0.
  std::size_t not_adding_up = 0;       ///< outputs whose parts do not add up, in either order
  std::size_t not_alone = 0;           ///< outputs with a part of a source that is off, or with another total
  std::size_t not_the_definition = 0;  ///< outputs of the first row that are not the scalar definition's
  bool powers_of_two = false;          ///< all scales are powers of two, by their rule
  bool scaling_is_zero = true;         ///< in the forward order, exactly
};
template <class V>
void fields(V& v, ChoiceResult& r) {
  v("separate_products", r.separate_products);
  v("unit", r.unit);
  v("no_reverse", r.no_reverse);
  v("forward", r.forward);
  v("reverse", r.reverse);
  v("alone", r.alone);
  v("has_reverse", r.has_reverse);
  v("has_alone", r.has_alone);
  v("total", r.total);
  v("outputs", r.outputs);
  v("overflowed", r.overflowed);
  v("not_adding_up", r.not_adding_up);
  v("not_alone", r.not_alone);
  v("not_the_definition", r.not_the_definition);
  v("powers_of_two", r.powers_of_two);
  v("scaling_is_zero", r.scaling_is_zero);
}

/// The model of the matrix unit that sums, on which records depend; null if it is none.
Json identity_of_unit(const Inside& inside);

/// Splits one product. Operations of its first output are recorded.
ChoiceResult attribute(const OperandStates& a, const OperandStates& b, const Inside& inside, const Settings& s,
                       Trace& trace);

/// Output (i, j) with everything on, by scalar operations, which a trace records. SwitchedProduct::words must equal
/// this definition.
std::uint64_t defined_output(const OperandStates& a, std::size_t i, const OperandStates& b, std::size_t j,
                             const Inside& inside, const std::optional<FloatFormat>& output, Trace* trace);

/// Table `channels` and its claims: what an outlier channel does to the others.
void channels_report(const Settings& s, Run& run);

/// Table `promotion` and its claims: DeepSeek-V3's set-up.
void promotion_report(const Settings& s, Run& run);

using Choices = std::vector<Choice>;

/// Results by choice, for the whole factors, and for their first 8 rows and columns by length.
struct Curves {
  std::vector<ChoiceResult> main;
  std::vector<std::size_t> lengths;
  std::vector<std::vector<ChoiceResult>> by_length;
};

/// Writes the table `configurations`: which formats go with which accumulators, and why not. Returns the choices to
/// measure.
Choices choose(const Settings& s, Report& report);

/// Tables `sources` and `lengths`, and the claims that follow from the definitions.
void report_sources(const Settings& s, const Choices& choices, const Curves& curves, Report& report);

}  // namespace halfulp::attribution
