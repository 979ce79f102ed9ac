// A product of matrices whose sources of error can be switched on and off, and the exact numbers that it needs.
#pragma once

#include <halfulp/data/statistics.hpp>
#include <halfulp/emulation/block/product.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/product/model.hpp>
#include <halfulp/emulation/unit/unit.hpp>

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace halfulp::attribution {

/// n * 2^exponent.
struct Dyadic {
  Units n = 0;
  int exponent = 0;

  Dyadic() = default;
  Dyadic(Units units, int e) : n(std::move(units)), exponent(e) {}
  /// Precondition: x is finite.
  explicit Dyadic(double x);

  Dyadic& operator+=(const Dyadic& other);
  Dyadic& operator-=(const Dyadic& other);
  friend Dyadic operator-(Dyadic a, const Dyadic& b) { return a -= b; }
  friend Dyadic operator*(const Dyadic& a, const Dyadic& b) { return {a.n * b.n, a.exponent + b.exponent}; }
  bool is_zero() const { return n == 0; }
  friend bool operator==(const Dyadic& a, const Dyadic& b) { return (a - b).is_zero(); }
};

/// a / b, rounded once to the nearest double. Precondition: b > 0.
double quotient(const Dyadic& a, const Units& b);

/// a / b rounded once to a format. Precondition: b > 0.
std::uint64_t rounded(const FloatFormat& f, const Rounding& rounding, const Dyadic& a, const Dyadic& b);

/// A matrix of finite doubles, by rows, for exact dot products along its columns. Rows are 62-bit integers where these
/// suffice.
class ExactRows {
 public:
  ExactRows(std::span<const double> values, std::size_t rows, std::size_t columns);
  std::size_t rows() const { return rows_.size(); }
  /// Sum over [begin, end) of row i of a times row j of b.
  friend Dyadic exact_dot(const ExactRows& a, std::size_t i, const ExactRows& b, std::size_t j, std::size_t begin,
                          std::size_t end);

 private:
  struct Row {
    std::vector<std::int64_t> n;
    int exponent = 0;            ///< of all elements, if `exponents` is empty
    int bits = 0;                ///< of the largest element
    std::vector<int> exponents;  ///< one per element, or none
  };
  std::vector<Row> rows_;
};

// Sums of real numbers: what accumulation does to exact products of operands that nothing has rounded.
//
// Where operands are code words, gemm (emulation/product/product.hpp) does the work. These are its definitions for real
// numbers:
//
// - The running sum of a DotModel starts as its first term, rounded to the accumulator's format. Every further term is
//   added exactly and rounded once, as fma does. A model with another format for products, or with compensation, first
//   rounds each term to the accumulator's format; then its sums are sums of code words again.
// - A fused sum gives a term the sum of its factors' exponents, each at least the smallest exponent of its format, and
//   truncates the exact product where it truncates products of code words (emulation/unit/unit.hpp).
//
// Terms are doubles with an error bound. Where the bound leaves a rounding open, rational numbers decide it, so that no
// result depends on the way it was computed.

/// Term k is exactly x[k] y[k] (target_x target_y) / (amax_x amax_y), of which every number is a double. If an amax is
/// 0, all terms are 0.
struct RealTerms {
  std::span<const double> x, y;
  double target_x = 1, amax_x = 1, target_y = 1, amax_y = 1;

  std::size_t size() const { return x.size(); }
  bool vanish() const { return amax_x == 0 || amax_y == 0; }
  double factor() const { return vanish() ? 0 : target_x / amax_x * (target_y / amax_y); }
  /// The numerator of a term; `denominator` is the same for all.
  Dyadic numerator(std::size_t k) const { return Dyadic(x[k]) * Dyadic(y[k]) * Dyadic(target_x) * Dyadic(target_y); }
  Dyadic denominator() const { return Dyadic(amax_x) * Dyadic(amax_y); }
};

/// Term k rounded to a format, once.
std::uint64_t rounded_term(const FloatFormat& f, const Rounding& rounding, const RealTerms& terms, std::size_t k);

/// The sum of the terms by a model, as a word of model.outer().format. The model's `input` and `output` are ignored;
/// with `products`, each term is first rounded to the model's product format. Precondition: no rounding is stochastic.
std::uint64_t real_sum(const DotModel& model, bool products, const RealTerms& terms);

/// Why a unit's sums of real terms are not defined, in one line; empty if they are.
std::string real_refusal(const MatrixUnit& unit);

/// The exponent by which a fused sum aligns x target / amax, a factor of format f: that of its leading bit, at least
/// f's smallest.
int real_exponent(const FloatFormat& f, double x, double target, double amax);

/// The unit's sum of the terms, starting from 0. ex and ey are real_exponent of every factor. Precondition:
/// real_refusal is empty.
std::uint64_t real_sum(const MatrixUnit& unit, const RealTerms& terms, std::span<const int> ex,
                       std::span<const int> ey);

// One factor of a product in all states: scaled or not, rounded or not.
//
// An element v is q s: q is multiplied, and the elements of a block share the scale s. The switches:
//
//   scaling off   s = amax / target as a rational number, q = v / s exactly
//   scaling on    s follows the format's rule, in the scale's format. q = v / s as the format computes it: v becomes an
//                 fp32 number, which is divided by s (or multiplied by its reciprocal) in fp32
//   input on      q is rounded to an element, which saturates
//   input off     q is not rounded, and may exceed the largest element
//
// amax is the largest magnitude of a block of fp32 numbers (formats/block_format.hpp), and target is what it is scaled
// to: 448 for E4M3. A format without scales has s = 1. With two levels of scales (NVFP4), s is the block's scale,
// relative to the tensor's. The tensor's scale is the same in all states; the block's real scale makes up for it.

/// How an operand is stored: a block format, or a format without scales.
struct OperandFormat {
  std::string name;
  FloatFormat grid;                  ///< every element is one of its numbers
  std::optional<BlockFormat> block;  ///< absent: no scale

  bool integers() const { return block && block->element.is_integer(); }
};

/// Throws std::invalid_argument in one line for unknown names, and for block formats with a zero point or with scales
/// of too many digits.
OperandFormat parse_operand_format(const std::string& name);

/// A matrix of rows x columns in all its states; products run along the columns.
struct OperandStates {
  OperandFormat format;
  std::size_t rows = 0, columns = 0;
  std::vector<double> exact;       ///< v
  std::vector<double> scaled;      ///< q of scaling on, input off
  std::vector<double> rounded[2];  ///< q of input on, by scaling off and on
  BlockGrid grid;                  ///< where the scales are; one block where there are none
  std::vector<double> amax;        ///< of each block; 1 where there are no scales
  std::vector<double> scale;       ///< of each block, without the tensor's
  double target = 1, tensor = 1;
  std::optional<BlockArray> array;  ///< the operand in its block format: everything on

  bool has_scales() const { return format.block.has_value(); }
  std::size_t size() const { return rows * columns; }
  std::size_t block(std::size_t index) const { return grid.index(index / columns, index % columns); }
  /// The odd factor of target, and target / odd factor.
  std::int64_t odd() const;
  double even() const { return target / static_cast<double>(odd()); }
};

/// Takes `values` by rows. Precondition: the rounding is deterministic. Throws std::invalid_argument for values beyond
/// the range of fp32 if the format has scales, and of the format if it has none.
OperandStates make_operand(const OperandFormat& format, const Rounding& rounding, std::vector<double> values,
                           std::size_t rows, std::size_t columns);

/// v / s with scaling off, rounded once to an element.
double ideal_element(const OperandFormat& format, const Rounding& rounding, double v, double target, double amax);

/// The operand's values in a state, each exactly a double. With scaling off and input on, they are multiplied by the
/// operand's odd factor.
std::vector<double> values(const OperandStates& operand, bool scaling, bool input);

// A product of two matrices with its sources of error switched on and off.
//
// With everything on, an output is that of block_gemm (emulation/block/product.hpp), or of gemm
// (emulation/product/product.hpp) if neither operand has scales, converted into the output's format. `promote_every`
// adds sums of so many products in fp32 before scales multiply them.
//
//   scaling, input    the state of the operands, as above
//   products          on: rounded to the model's product format; off: exact. No source where the model multiplies
//   exactly accumulation      on: sums inside by the model or the unit, then multiplications by scales and additions in
//   fp32;
//                     off: the exact sum of products times scales
//   output            on: converted into the output's format; off: unchanged
//
// Accumulation is one function of its terms, whether these are code words or real numbers. A matrix unit multiplies
// exactly and truncates terms while it adds: its products and its accumulation are one source, `accumulation`.

/// In the order in which they are switched on.
enum class ErrorSource : std::uint8_t { scaling, input, products, accumulation, output };
inline constexpr std::array<std::string_view, 5> source_names{"scaling", "input", "products", "accumulation", "output"};
inline constexpr std::size_t source_count = source_names.size();

/// A set of sources, one bit each.
using Sources = unsigned;
constexpr Sources only(ErrorSource s) { return 1u << static_cast<unsigned>(s); }
constexpr bool has(Sources set, ErrorSource s) { return (set & only(s)) != 0; }
inline constexpr Sources all_sources = (1u << source_count) - 1;

/// How a segment's elements are multiplied and summed.
struct Inside {
  std::string name;
  std::variant<std::monostate, DotModel, MatrixUnit> by;  ///< monostate: summed exactly, rounded to fp32 once
  std::size_t promote_every = 0;                          ///< 0: sums of whole segments

  const DotModel* model() const { return std::get_if<DotModel>(&by); }
  const MatrixUnit* unit() const { return std::get_if<MatrixUnit>(&by); }
};

/// Reads "exact", or a matrix unit or DotModel as parse_product_model does; "@N" at the end promotes every N products.
/// Throws std::invalid_argument in one line, also for stochastic rounding and for models with an output format.
Inside parse_inside(const std::string& text);

/// Why these operands cannot be multiplied so, in one line; empty if they can.
std::string refusal(const Inside& inside, const OperandFormat& a, const OperandFormat& b);

/// All outputs times SwitchedProduct::common(), and which of them are finite.
struct Outputs {
  std::vector<Dyadic> values;
  std::vector<std::uint8_t> finite;
};

/// A times B^T, both by rows along k. Precondition: refusal() is empty. Only one thread at a time may use it.
class SwitchedProduct {
 public:
  SwitchedProduct(const OperandStates& a, const OperandStates& b, Inside inside, std::optional<FloatFormat> output);

  /// Why accumulation is not defined for unrounded operands, in one line; empty if it is. Where it is not, accumulation
  /// can only be switched on together with input.
  const std::string& real_refusal() const { return real_refusal_; }
  bool separate_products() const { return inside_.model() && inside_.model()->product; }
  std::size_t count() const { return a_.rows * b_.rows; }
  /// Every value times this is an integer times a power of two: the product of the odd factors of both targets.
  std::int64_t common() const { return a_.odd() * b_.odd(); }

  /// The outputs with exactly these sources on.
  Outputs outputs(Sources on);
  /// The outputs with everything on, as code words of `result()`.
  std::vector<std::uint64_t> words();
  const FloatFormat& result() const;

 private:
  /// Words of one format, output by output.
  struct Words {
    FloatFormat format;
    std::vector<std::uint64_t> codes;
  };
  struct State;  ///< the operands of an accumulation
  const Outputs& before_output(Sources on);
  Outputs exact(bool scaling, bool input) const;
  Outputs rounded_products(bool scaling, bool input) const;
  Words accumulated(bool scaling, bool input, bool products) const;
  State state(bool scaling, bool input, bool products) const;
  Words segment_words(const State& state, const Segment& segment) const;
  float scaled(const OperandStates& operand, std::size_t block, bool scaling, float sum) const;
  const std::vector<double>& numbers(const OperandStates& operand, bool scaling, bool input) const;
  Outputs of_words(const Words& words) const;
  bool joins() const { return a_.has_scales() || b_.has_scales() || segments_.size() > 1; }
  const FloatFormat& inner_format() const;

  const OperandStates &a_, &b_;
  Inside inside_;
  std::optional<FloatFormat> output_;
  std::string real_refusal_;
  std::vector<Segment> segments_;
  std::map<Sources, Outputs> kept_;
  std::map<Sources, Words> kept_words_;
};

/// Numbers as code words of a format that holds them.
std::vector<std::uint64_t> words_of(const FloatFormat& f, std::span<const double> values);

// The error of a product, source by source.

/// Every output's error times SwitchedProduct::common(), exactly.
///
/// forward[s] = f({sources up to s}) - f({sources before s}), in the order scaling, input, products, accumulation,
/// output. reverse[s] = f({s and the sources after it}) - f({sources after it}), switched on from output to scaling.
/// alone[s] = f({s}) - f({}), where f({}) is the exact product. Sources that are not active are never on, and their
/// parts are zero. The parts of forward add up to the total, and so do those of reverse, because both sums telescope. A
/// source whose parts differ between the orders interacts with others.
struct Split {
  using Parts = std::array<std::vector<Dyadic>, source_count>;
  Parts forward, reverse, alone;
  std::array<bool, source_count> has_reverse{},
      has_alone{};  ///< parts whose states are defined (SwitchedProduct::real_refusal)
  std::vector<Dyadic> exact, total;
  std::vector<std::uint8_t> finite;  ///< outputs that are finite in every state; the parts of others are zero

  /// Outputs whose parts do not add up to the total, exactly.
  std::size_t not_adding_up(const Parts& parts) const;
};

Split split(SwitchedProduct& product, Sources active);

/// The size of a part.
struct Measure {
  double norm = 0;      ///< Frobenius norm of the part over that of the exact product
  double largest = 0;   ///< absolute
  double relative = 0;  ///< largest |part| / |exact| of outputs whose exact value is not 0
  double share = 0;     ///< <part, total> / |total|^2; 0 where there is no error
  double bias = 0;  ///< sum of part * sign(exact) over the sum of |part|: 1 if all magnitudes grow, -1 if all shrink
};
template <class V>
void fields(V& v, Measure& m) {
  v("norm", m.norm);
  v("largest", m.largest);
  v("relative", m.relative);
  v("share", m.share);
  v("bias", m.bias);
}

Measure measure(const std::vector<Dyadic>& part, const Split& of, std::int64_t common);

/// The errors of scaling and of input on the channels for which `chosen` is true, sums being exact, over the norm of
/// the exact product.
struct ChannelPart {
  double scaling = 0, input = 0;
};
template <class V>
void fields(V& v, ChannelPart& p) {
  v("scaling", p.scaling);
  v("input", p.input);
}
ChannelPart channel_part(const OperandStates& a, const OperandStates& b, const std::vector<std::uint8_t>& chosen);

}  // namespace halfulp::attribution
