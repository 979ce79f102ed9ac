// A product of two matrices with its sources of error switched on and off.
//
// With everything on, an output is what block_gemm (emulation/block/dot.hpp) gives, or gemm (emulation/products.hpp) where
// neither operand has scales: k is cut where a scale changes; elements of a segment are multiplied and summed `inside`; sums of
// segments are multiplied with both scales and added, sequentially, in fp32, tensor scales come last; the result is
// converted into the output's format. `promote_every` adds sums of so many products in fp32 before scales meet them.
//
//   scaling, input    what the operands are: operand.hpp
//   products          on: rounded to the model's product format; off: exact. Nothing where the model multiplies exactly
//   accumulation      on: inside, by the model or the unit, then fp32's multiplications with scales and additions;
//                     off: the exact sum of products times scales
//   output            on: converted into the output's format; off: as it is
//
// Accumulation is one function of its terms, whether these are words or not (real_sums.hpp). A matrix unit multiplies exactly and
// cuts terms off as it adds: its products and its accumulation are one source, which stands under `accumulation`.
#pragma once

#include <halfulp/emulation/product_model.hpp>
#include <halfulp/experiments/attribution/exact.hpp>
#include <halfulp/experiments/attribution/operand.hpp>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace halfulp::attribution {

/// In the order in which they are switched on.
enum class Source : std::uint8_t { scaling, input, products, accumulation, output };
inline constexpr std::array<std::string_view, 5> source_names{"scaling", "input", "products", "accumulation", "output"};
inline constexpr std::size_t source_count = source_names.size();

/// A set of sources, one bit each.
using Sources = unsigned;
constexpr Sources only(Source s) { return 1u << static_cast<unsigned>(s); }
constexpr bool has(Sources set, Source s) { return (set & only(s)) != 0; }
inline constexpr Sources all_sources = (1u << source_count) - 1;

/// How a segment's elements are multiplied and summed.
struct Inside {
  std::string name;
  std::variant<std::monostate, DotModel, MatrixUnit> by;  ///< monostate: summed exactly, rounded to fp32 once
  std::size_t promote_every = 0;                          ///< 0: sums of whole segments

  const DotModel* model() const { return std::get_if<DotModel>(&by); }
  const MatrixUnit* unit() const { return std::get_if<MatrixUnit>(&by); }
};

/// "exact", a matrix unit or a DotModel as parse_product_model reads it, with "@N" behind it for promotion every N products.
/// Throws std::invalid_argument in one line, also for stochastic rounding and models with an output format of their own.
Inside parse_inside(const std::string& text);

/// Why these operands are not multiplied so, in one line; empty if they are.
std::string refusal(const Inside& inside, const OperandFormat& a, const OperandFormat& b);

/// All outputs times Product::common(), and which of them are finite.
struct Outputs {
  std::vector<Dyadic> values;
  std::vector<std::uint8_t> finite;
};

/// A times B^T, both by rows along k. Precondition: refusal() is empty. Not for several threads at once.
class Product {
 public:
  Product(const Operand& a, const Operand& b, Inside inside, std::optional<FloatFormat> output);

  /// Whether accumulation is defined for operands that are not rounded: without that, there are only states in which the operands
  /// are rounded, or nothing is accumulated. Why not, in one line; empty if it is.
  const std::string& real_refusal() const { return real_refusal_; }
  bool separate_products() const { return inside_.model() && inside_.model()->product; }
  std::size_t count() const { return a_.rows * b_.rows; }
  /// Every value times this is dyadic: the odd factors of both targets.
  std::int64_t common() const { return a_.odd() * b_.odd(); }

  /// With exactly these sources on.
  Outputs outputs(Sources on);
  /// Everything on, as code words of `result()`.
  std::vector<std::uint64_t> words();
  const FloatFormat& result() const;

 private:
  /// Words of one format, output by output.
  struct Words {
    FloatFormat format;
    std::vector<std::uint64_t> codes;
  };
  struct Segment {
    std::size_t begin, end;
    bool last;  ///< of those that share their scales
  };

  struct State;  ///< the operands of an accumulation, in the form that it takes
  const Outputs& before_output(Sources on);
  Outputs exact(bool scaling, bool input) const;
  Outputs rounded_products(bool scaling, bool input) const;
  Words accumulated(bool scaling, bool input, bool products) const;
  State state(bool scaling, bool input, bool products) const;
  Words segment_words(const State& state, const Segment& segment) const;
  std::uint64_t scaled(const Operand& operand, std::size_t block, bool scaling, std::uint64_t sum) const;
  const std::vector<double>& numbers(const Operand& operand, bool scaling, bool input) const;
  Outputs of_words(const Words& words) const;
  bool joins() const { return a_.has_scales() || b_.has_scales() || segments_.size() > 1; }
  const FloatFormat& inner_format() const;

  const Operand &a_, &b_;
  Inside inside_;
  std::optional<FloatFormat> output_;
  std::string real_refusal_;
  std::vector<Segment> segments_;
  std::map<Sources, Outputs> kept_;
  std::map<Sources, Words> kept_words_;
};

/// A factor as code words of a format that holds its numbers.
std::vector<std::uint64_t> words_of(const FloatFormat& f, std::span<const double> values);

}  // namespace halfulp::attribution
