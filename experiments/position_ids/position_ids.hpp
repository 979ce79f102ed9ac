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

/// Where the low precision sits.
enum class Setup : std::uint8_t {
  fp32,   ///< nowhere: the repair
  ids,    ///< position ids are rounded, the rest is FP32
  value,  ///< the FP32 product is rounded: "only the angle is cast"
  all,    ///< ids, factors and their product are all in the format
};
inline constexpr std::array<Named<Setup>, 4> setups{
    {{"fp32", Setup::fp32}, {"ids", Setup::ids}, {"value", Setup::value}, {"all", Setup::all}}};

/// position * factor, step by step, for one format; everything is recorded.
class PositionTimesFactor {
 public:
  PositionTimesFactor(const FloatFormat& format, const PositionFactors& factors, Trace* trace);
  const FloatFormat& format_of(Setup setup) const;
  /// A code word of format_of(setup).
  std::uint64_t operator()(Setup setup, std::int64_t position, std::size_t factor);
  /// A cosine rounded into format_of(setup), as a number.
  double rounded_cosine(Setup setup, double angle);

 private:
  Arithmetic narrow_, wide_;
  PositionFactors factors_;
  std::vector<std::uint64_t> narrow_factors_;
};

/// Tables `rope` and `alibi` and the claims on them. Positions below 8192 are all looked at, later ones every 17th.
void position_errors(const Config& config, Run& run);

}  // namespace halfulp::positions
