// The pieces of the experiment "accumulation".
#pragma once

#include <halfulp/data/statistics.hpp>
#include <halfulp/experiments/sum_bounds.hpp>
#include <halfulp/report/trials.hpp>

#include <algorithm>
#include <limits>

namespace halfulp::accumulation {

/// Tables `harmonic` and `ones`, sums whose every term is known, with the published results on them.
void known_sums(const Config& config, Run& run);

/// fused_dot: products enter exactly, by fma.
enum class Quantity : std::uint8_t { sum, dot, fused_dot };
inline constexpr std::array<Quantity, 3> quantities{Quantity::sum, Quantity::dot, Quantity::fused_dot};

struct AccumulationSettings {
  std::vector<FormatChoice> formats;
  std::vector<RoundingMode> roundings;
  std::vector<std::string> orders;
  std::vector<std::size_t> lengths;  ///< ascending
  std::string distribution;
  std::size_t trials, seeds, block, promote_every;
  std::uint64_t seed;
  int random_bits;

  std::size_t repetitions(RoundingMode mode) const { return mode == RoundingMode::stochastic ? seeds : 1; }
};

/// Two vectors as code words of one format, and the exact sums of their first n terms for each length.
struct SumInputs {
  std::vector<std::uint64_t> a, b;
  struct ExactSums {
    Units sum, magnitudes;
  };
  std::vector<ExactSums> sums, dots;
  std::size_t finite = 0;  ///< terms before the first that is Infinity or NaN in the format
  Trace trace;
};

/// The runs of one model at one length.
struct LengthErrors {
  double total = 0, largest = 0, bias = 0, squares = 0;  ///< of the error divided by the sum of magnitudes
  double of_bound = 0;                                   ///< largest error / what is proven; 0 where nothing is
  std::size_t runs = 0, overflowed = 0,
              within_root = 0;  ///< overflowed: an operation raised the flag; no error is taken
  ErrorBounds bounds;

  void merge(const LengthErrors& other) {
    total += other.total, bias += other.bias, squares += other.squares;
    largest = std::max(largest, other.largest), of_bound = std::max(of_bound, other.of_bound);
    runs += other.runs, overflowed += other.overflowed, within_root += other.within_root;
    bounds = other.bounds;
  }
  std::size_t judged() const { return runs - overflowed; }
  /// A sum over the judged runs as their mean. Precondition: judged() > 0.
  double mean(double of) const { return of / static_cast<double>(judged()); }
};

/// `bounds` are not in it: they follow from the model.
template <class V>
void fields(V& v, LengthErrors& e) {
  v("total", e.total);
  v("largest", e.largest);
  v("bias", e.bias);
  v("squares", e.squares);
  v("of_bound", e.of_bound);
  v("runs", e.runs);
  v("overflowed", e.overflowed);
  v("within_root", e.within_root);
}

/// What one trial of a curve has measured, length by length.
struct Measured {
  std::vector<LengthErrors> cells;
};
template <class V>
void fields(V& v, Measured& m) {
  v("cells", m.cells);
}

/// Which format, rounding, quantity and order a row of cells (one a length) belongs to.
struct ErrorCurve {
  std::size_t format, rounding;
  Quantity quantity;
  std::string order;
  std::vector<LengthErrors> cells;
};

/// The inputs of a distribution: trials of the first format, of the second, ...
struct Drawn {
  AccumulationSettings settings;
  std::vector<SumInputs> inputs;
};

/// Tables `sums`, `dots` and `conditions`, and the claims on them. The first of the distributions is that of the
/// curves.
void report_accumulation(const AccumulationSettings& settings, const std::vector<ErrorCurve>& curves,
                         const std::vector<Drawn>& distributions, Run& run);

// Dot products on matrix units, a part of the experiment "accumulation".

/// Parameters `units`, `unit_file` and `unit_lengths`. `promote_every` and `seed` are the experiment's.
std::vector<Parameter> matrix_unit_parameters();

/// Throws std::invalid_argument, in one line, for units that are not there and files that describe none.
void check_matrix_units(const Config& config);

/// Table `matrix_units` and the claims on it. Sources: DeepSeek-V3, section 3.3.2; the rules of emulation/units.
void matrix_units_report(const Config& config, Run& run);

}  // namespace halfulp::accumulation
