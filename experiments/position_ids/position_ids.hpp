// The pieces of the experiment "position_ids".
#pragma once

#include <halfulp/data/elementary.hpp>
#include <halfulp/report/experiment.hpp>

namespace halfulp::positions {

/// What positions are multiplied by: a frequency per pair of dimensions (RoPE), a slope per head (ALiBi).
struct PositionFactors {
  std::vector<TwoDoubles> exact;
  std::vector<std::uint64_t> fp32;  ///< as FP32 code computes them
};

/// base^(-2i/dim) for i = 0 ... dim/2 - 1 (Su et al. 2021). FP32: 1 / fl(base^(2i/dim)), the division recorded.
PositionFactors rope_frequencies(int dim, double base, Trace& trace);
/// 2^(-8h/heads) for h = 1 ... heads (Press et al. 2022). FP32: rounded once.
PositionFactors alibi_slopes(int heads);

/// Where the low precision sits. All that a set-up does not name is FP32.
enum class Setup : std::uint8_t {
  fp32,     ///< nowhere
  ids,      ///< position ids
  factors,  ///< frequencies or slopes
  value,    ///< the product: "only the angle is cast"; the cosine with it
  wrapped,  ///< the same, the FP32 angle reduced to [-pi, pi] before
  cosine,   ///< cosine and sine: the usual repair
  all,      ///< ids, factors, their product, cosine and sine
};
inline constexpr std::array<Named<Setup>, 7> setups{{{"fp32", Setup::fp32},
                                                     {"ids", Setup::ids},
                                                     {"factors", Setup::factors},
                                                     {"value", Setup::value},
                                                     {"wrapped", Setup::wrapped},
                                                     {"cosine", Setup::cosine},
                                                     {"all", Setup::all}}};
/// Whether a set-up says something about biases too, which have no angle to wrap and no cosine.
constexpr bool concerns_biases(Setup setup) { return setup != Setup::wrapped && setup != Setup::cosine; }

/// position * factor, step by step, for one format; everything is recorded.
class PositionTimesFactor {
 public:
  PositionTimesFactor(const FloatFormat& format, const PositionFactors& factors, Trace* trace);
  /// The format of the product: the narrow one in `value`, `wrapped` and `all`.
  const FloatFormat& format_of(Setup setup) const;
  /// The format of its cosine and sine: the narrow one in `cosine` too.
  const FloatFormat& cosine_format(Setup setup) const;
  /// The position as the product sees it, a code word: where it stays, products stay.
  std::uint64_t id(Setup setup, std::int64_t position);
  /// A code word of format_of(setup). `id` is id(setup, position).
  std::uint64_t operator()(Setup setup, std::uint64_t id, std::size_t factor);

 private:
  Arithmetic narrow_, wide_;
  PositionFactors factors_;
  std::vector<std::uint64_t> narrow_factors_, widened_factors_;
};

/// Tables `rope` and `alibi`, over every position, and the claims on them.
void position_errors(const Config& config, Run& run);
/// Table `scores`: what becomes of attention scores, and the claims on it.
void attention_scores(const Config& config, Run& run);

/// The largest |n - fl(n)| of the positions 0 ... tokens - 1 that stay finite, and their number, for a format that
/// counts in ones up to 2^p: half the spacing of the last binade that reaches so far.
struct RoundedIds {
  double largest_error = 0;
  std::int64_t finite = 0;
};
RoundedIds rounded_ids(const FloatFormat& f, std::int64_t tokens);
/// Whether 1 is a value, and integers are exact to 2^p or to the largest value.
bool counts_in_ones(const FloatFormat& f);

/// The parameter `lengths`, ascending, each once.
std::vector<std::int64_t> context_lengths(const Config& config);

}  // namespace halfulp::positions
