// The measurement behind `underflow`: every gradient through every format, rounding and loss scale.
#pragma once

#include <halfulp/data/distributions.hpp>
#include <halfulp/data/saved_gradients.hpp>
#include <halfulp/experiments/range_class.hpp>
#include <halfulp/report/experiment.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace halfulp::underflow {

/// Where gradients come from: code words of `container` (fp32, or fp64 where the user's data are), in order.
struct GradientSource {
  std::string name, description;
  FloatFormat container;
  std::uint64_t count = 0;
  std::optional<Distribution> distribution;  ///< of synthetic gradients
  std::string zeros;                         ///< what a reader must know about zeros among them; may be empty
  std::function<std::size_t(std::span<std::uint64_t>)> read;  ///< fills from the front; 0 at the end
};

/// What happened to one quantity under one format, rounding and scale.
struct RangeTally {
  std::array<std::uint64_t, 4> counts{};  ///< indexed by RangeClass
  std::uint64_t mispredicted = 0;         ///< differs from NearestEvenLimits, where those apply
  double mass = 0, lost = 0;              ///< sum of |x| over all values, and over those that vanished
  double squared_error = 0;  ///< sum of squared relative errors over those that neither vanished nor overflowed

  std::uint64_t operator[](RangeClass range) const { return counts[static_cast<std::size_t>(range)]; }
  std::uint64_t total() const { return counts[0] + counts[1] + counts[2] + counts[3]; }
  double fraction(RangeClass range) const {
    return total() ? static_cast<double>((*this)[range]) / static_cast<double>(total()) : 0;
  }
  double lost_share() const { return mass > 0 ? lost / mass : 0; }
  std::uint64_t kept() const { return (*this)[RangeClass::subnormal] + (*this)[RangeClass::normal]; }
  double relative_error() const;  ///< precondition: kept() > 0
  void merge(const RangeTally& other);
};

/// One line of the experiment: gradients g * 2^scale and updates lr * (g * 2^scale) in `format`.
struct SweepCase {
  FormatChoice format;
  RoundingMode mode;
  int scale;
  RangeTally gradient = {}, update = {};
};

/// What the gradients are before any rounding.
struct InputSummary {
  std::uint64_t elements = 0, nan = 0, infinite = 0, zero = 0;
  double smallest = 0, largest = 0;      ///< magnitudes of the finite non-zero ones, 0 if there are none
  std::map<int, std::uint64_t> binades;  ///< floor(log2|x|) -> count
  std::uint64_t finite_nonzero() const { return elements - nan - infinite - zero; }
  void merge(const InputSummary& other);
};

/// The finite non-zero values of a piece; the others are counted and left out. `input` begins empty.
std::vector<std::uint64_t> summarize(const FloatFormat& container, std::span<const std::uint64_t> codes,
                                     InputSummary& input);

struct SweepOptions {
  std::vector<SweepCase> cases;
  double lr = 0;
  Rounding rounding;  ///< but for the mode
  std::uint64_t seed = 0;
  std::size_t trace_limit = 0;  ///< operands to record a channel
};

struct SweepResult {
  std::vector<SweepCase> cases;
  InputSummary input;
};

/// Reads the source to its end. Sums are taken in a fixed order: the result does not depend on the number of threads.
/// `progress` gets the number of elements done.
SweepResult sweep_gradients(const GradientSource& source, const SweepOptions& options, Trace& trace,
                            const std::function<void(std::uint64_t)>& progress);

// What `underflow` claims: limits of the formats, constants of training, and shares predicted in closed form.

/// The best loss scale of one format on one source, by the criterion the table states.
struct BestScale {
  std::optional<int> best;  ///< no overflow, then fewest zeros, then fewest subnormals, then the smallest scale
  int lowest_equal = 0, highest_equal = 0;  ///< scales without overflow and with as few zeros as `best`
  std::optional<int> highest;               ///< the largest scale of the sweep without overflow
};

/// `cases` are those of one format under one rounding, scales ascending.
BestScale best_scale(const std::vector<const SweepCase*>& cases);

/// The table `limits` and its claims, found by bisection of the emulated conversion.
void report_limits(const std::vector<FormatChoice>& formats, Run& run);

/// Published constants of the formats, Adam's constants and the GradScaler: independent of the configuration.
void report_constants(Run& run);

/// Claims on one source; `mode` is the rounding the loss scale was swept under.
void claim_sweep(const GradientSource& source, const SweepResult& result, RoundingMode mode, Run& run);

/// Micikevicius et al., figures on real networks, beside the user's file (nullptr: there is none).
void claim_published_shares(const SweepResult* input, Run& run);

/// What a folder of gradients holds of each kind, none where there is no tensor of it.
struct FolderShares {
  std::optional<InputSummary> weights = {}, activations = {};
  bool listed = false;     ///< whether the folder says which they are
  std::string about = {};  ///< network, policy, seed
};

/// The same figures beside those of a folder: pass or differs.
void claim_published_shares(const FolderShares& folder, Run& run);

// The gradients of a whole training, tensor by tensor: what `underflow` reads from a folder.

/// A tensor of a folder, and what its values divided by its loss scale are. Filled as sources are read.
struct Layer {
  SavedGradient tensor;
  InputSummary summary = {};
};

class GradientLayers {
 public:
  /// Throws std::invalid_argument in one line: all that read_gradients refuses, and a tensor without elements.
  explicit GradientLayers(const std::string& folder);

  /// One source a kind of gradient, all tensors of the kind one after another, in fp64: dividing a float32 by a power
  /// of two is exact there, by another scale it rounds once. Precondition of report(): they were read to their ends.
  std::vector<GradientSource> sources() const;
  /// The table `layers`.
  void report(Run& run) const;
  /// All tensors of that kind together.
  InputSummary together(GradientKind kind) const;
  FolderShares shares() const;

 private:
  bool holds(GradientKind kind) const;
  /// "network mlp, policy fp16, seed 1"
  std::string about() const;

  GradientFolder found_;
  std::shared_ptr<std::vector<Layer>> layers_;
};

}  // namespace halfulp::underflow
