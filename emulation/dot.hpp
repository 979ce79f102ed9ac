// Sums and dot products in which every operation, its format, its rounding and its place in the order are stated.
#pragma once

#include <halfulp/emulation/random.hpp>
#include <halfulp/emulation/rounding.hpp>
#include <halfulp/formats/format.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace halfulp {

/// The format in which operations compute, and the rounding of every result.
struct Stage {
  FloatFormat format;      ///< of the results
  Rounding rounding = {};  ///< of the results
  bool operator==(const Stage&) const = default;
};

/// The order in which terms are added. Terms are divided into parts, and each part is added sequentially; then the sums
/// of parts are added. Parts are blocks of consecutive terms, of which the last may be shorter, or lanes.
///
/// "In halves" means: the sum of m parts is the sum of the first ceil(m/2) plus the sum of the others, recursively.
/// NumPy adds a contiguous array in this way: 8 interleaved lanes for up to 128 terms, lanes in halves, more terms in
/// halves (numpy/_core/src/umath/loops_utils.h.src, pairwise_sum). XLA repeatedly replaces a long reduction by
/// reductions of windows of 32 (tree_reduction_rewriter.h), as adder trees of w inputs in a dot-product unit do: trees
/// of that width.
enum class Order : std::uint8_t {
  sequential,   ///< one block: ((x0 + x1) + x2) + ...
  blocked,      ///< the block results sequentially
  pairwise,     ///< the block results in halves
  tree,         ///< w consecutive block results at a time, in halves; of the ceil(m/w) results again, until one remains
  interleaved,  ///< w lanes instead of blocks: lane j adds terms j, j + w, j + 2w, ...; then the lanes that have terms
                ///< in halves
};

/// How a running sum compensates the part of a term that it could not hold.
enum class Compensation : std::uint8_t {
  none,      ///< s = s + x
  kahan,     ///< y = x - c; t = s + y; c = (t - s) - y; s = t (Kahan 1965)
  neumaier,  ///< t = s + x; c += |s| >= |x| ? (s - t) + x : (x - t) + s; s = t; the sum is s + c (Neumaier 1974)
};

/// Their names.
inline constexpr std::array<Named<Order>, 5> orders{{{"sequential", Order::sequential},
                                                     {"blocked", Order::blocked},
                                                     {"pairwise", Order::pairwise},
                                                     {"tree", Order::tree},
                                                     {"interleaved", Order::interleaved}}};
/// Their names.
inline constexpr std::array<Named<Compensation>, 3> compensations{
    {{"none", Compensation::none}, {"kahan", Compensation::kahan}, {"neumaier", Compensation::neumaier}}};

/// A way to add and multiply vectors of code words.
///
/// dot, term i:  with `product`, p = a[i] * b[i] rounded there, then converted into the accumulator's format by the
///   accumulator's rounding; without, the product is exact and s = fma(a[i], b[i], s) (the first: s = a[i] * b[i]).
/// sum, term i:  x[i] converted into the accumulator's format by its rounding.
/// A conversion between equal formats is not an operation. A running sum starts as its first term; the sum of no terms
/// is +0. If `promoted` is given, the sums of parts are converted into it and added there: "promoted every N" is the
/// order `blocked` with block = N. Compensation applies to every sequential running sum, including the one over block
/// results. A compensated sum that overflows is NaN: Inf - Inf. An addend (the C of A B + C) is added last, in the
/// stage that adds the sums of parts; it is converted into that stage's format from the result's. Without any terms,
/// the addend is the result. If `output` is given, the result is converted into it. The k-th operation that rounds
/// stochastically, conversions included, draws rounding_bits(seed, stream, k).
struct DotModel {
  FloatFormat input;                   ///< of the operands' code words
  std::optional<Stage> product = {};   ///< absent: products are exact. Its format holds every value of the operands
  Stage accumulator;                   ///< of running sums inside a part
  std::optional<Stage> promoted = {};  ///< of sums of parts; absent: the accumulator's
  Order order = Order::sequential;     ///< how terms meet
  std::size_t block = 1;  ///< terms a block, at least 1; ignored by Order::sequential and Order::interleaved
  Compensation compensation = Compensation::none;  ///< of sequential sums
  std::uint64_t seed = 0;                          ///< of stochastic rounding
  std::optional<FloatFormat> input_b = {};         ///< of the second operand of products; absent: `input`
  std::size_t width = 8;             ///< w: of Order::tree, at least 2; lanes of Order::interleaved, at least 1
  std::optional<Stage> output = {};  ///< what results are stored in

  const FloatFormat& second() const { return input_b ? *input_b : input; }  ///< The format of the second operand.
  const Stage& outer() const {
    return promoted ? *promoted : accumulator;
  }  ///< The stage in which sums of parts are added.
  /// The format of the result.
  const FloatFormat& result() const { return output ? output->format : outer().format; }
  bool operator==(const DotModel&) const = default;
};

/// Whether every finite value of `inner` is a value of `outer`.
bool holds(const FloatFormat& outer, const FloatFormat& inner);

/// Why a model is refused, in one line; empty if it is accepted.
std::string refusal(const DotModel& model);
/// The same for its dot products. These also need a format that holds the operands and, if compensated, rounded
/// products.
std::string dot_refusal(const DotModel& model);

/// Computes by a model with arithmetic objects of type A. These compute (and may record) single operations on code
/// words of one format: add, sub, mul, fma (operands, random bits), convert_from(format, code, random bits).
///
/// An A with a type Word computes many sums in step, a Word being a code word of each. Instead of random bits it is
/// given random(k), what the k-th operation draws, or nullptr; and it has zero() and by_magnitude(x, y), the larger of
/// x and y, or x, then the other.
template <class A>
class DotEngine {
  template <class B>
  struct WordOf {
    using Type = std::uint64_t;
    static constexpr bool of_many = false;
  };
  template <class B>
    requires requires { typename B::Word; }
  struct WordOf<B> {
    using Type = typename B::Word;
    static constexpr bool of_many = true;
  };
  static constexpr bool in_step = WordOf<A>::of_many;

 public:
  using Word = typename WordOf<A>::Type;  ///< A code word, or one of each of the sums in step.

  /// make(format, rounding) gives the A of a stage. Throws std::invalid_argument if the model is refused.
  template <class Make>
  DotEngine(const DotModel& model, Make&& make)
      : model_(model),
        product_(stage(model.product.value_or(model.accumulator), make)),
        accumulator_(stage(model.accumulator, make)),
        outer_(stage(model.outer(), make)),
        output_(stage(model.output.value_or(model.outer()), make)),
        dot_refusal_(dot_refusal(model)) {
    if (const std::string why = refusal(model); !why.empty()) throw std::invalid_argument(why);
  }

  /// The sum of x as a code word of model.result(). Sums with different `stream`s draw different random bits.
  std::uint64_t sum(std::span<const std::uint64_t> x, std::uint64_t stream = 0) {
    return total(x.size(), {}, stream,
                 [&](Running& s, std::size_t i) { enter(s, accumulator_, convert(accumulator_, model_.input, x[i])); });
  }

  /// The dot product of a and b as a code word of model.result(). Throws std::invalid_argument if their lengths differ
  /// or dot_refusal(model) is not empty.
  std::uint64_t dot(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b, std::uint64_t stream = 0) {
    return dot_add(a, b, {}, stream);
  }

  /// The same plus c, a code word of model.result(), if there is one.
  std::uint64_t dot_add(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
                        std::optional<std::uint64_t> c, std::uint64_t stream = 0) {
    if (a.size() != b.size())
      throw std::invalid_argument("dot: vectors of " + std::to_string(a.size()) + " and " + std::to_string(b.size()) +
                                  " terms");
    return dot_of(a.size(), [&](std::size_t i) { return a[i]; }, [&](std::size_t i) { return b[i]; }, c, stream);
  }

  /// The same of n products of a(i) and b(i), which are Words.
  template <class First, class Second>
  Word dot_of(std::size_t n, First&& a, Second&& b, std::optional<Word> c, std::uint64_t stream = 0) {
    if (!dot_refusal_.empty()) throw std::invalid_argument(dot_refusal_);
    return total(n, c, stream, [&](Running& s, std::size_t i) {
      const Word x = convert(product_, model_.input, a(i)), y = convert(product_, model_.second(), b(i));
      if (model_.product)
        return enter(s, accumulator_, convert(accumulator_, product_.format, product_.on.mul(x, y, bits(product_))));
      s.sum = s.empty ? accumulator_.on.mul(x, y, bits(accumulator_))
                      : accumulator_.on.fma(x, y, s.sum, bits(accumulator_));
      s.empty = false;
    });
  }

 private:
  struct Unit {
    FloatFormat format;
    bool stochastic;
    A on;
  };
  struct Running {
    Word sum{}, correction{};
    bool empty = true;
  };

  template <class Make>
  static Unit stage(const Stage& s, Make&& make) {
    return {s.format, s.rounding.mode == RoundingMode::stochastic, make(s.format, s.rounding)};
  }
  /// The next rounding_bits, whose blocks serve four roundings each.
  auto bits(Unit& u) {
    if constexpr (in_step) {
      return u.stochastic ? u.on.random(drawn_++) : nullptr;
    } else {
      if (!u.stochastic) return std::uint64_t{0};
      const std::size_t word = drawn_++ % words_.size();
      if (word == 0) words_ = philox(model_.seed, stream_, drawn_ / words_.size());
      return std::uint64_t{words_[word]};
    }
  }
  static Word zero(Unit& u) {
    if constexpr (in_step) return u.on.zero();
    else return u.format.zero();
  }
  Word convert(Unit& to, const FloatFormat& from, const Word& code) {
    return from == to.format ? code : to.on.convert_from(from, code, bits(to));
  }

  void enter(Running& s, Unit& u, const Word& x) {
    const auto add = [&](const Word& a, const Word& b) { return u.on.add(a, b, bits(u)); };
    const auto sub = [&](const Word& a, const Word& b) { return u.on.sub(a, b, bits(u)); };
    const auto by_magnitude = [&](const Word& a, const Word& b) {
      if constexpr (in_step) return u.on.by_magnitude(a, b);
      else return u.format.magnitude(a) >= u.format.magnitude(b) ? std::pair(a, b) : std::pair(b, a);
    };
    if (s.empty) {
      s = {x, zero(u), false};
      return;
    }
    switch (model_.compensation) {
      case Compensation::none: s.sum = add(s.sum, x); break;
      case Compensation::kahan: {
        const Word y = sub(x, s.correction), t = add(s.sum, y);
        s.correction = sub(sub(t, s.sum), y);
        s.sum = t;
        break;
      }
      case Compensation::neumaier: {
        const Word t = add(s.sum, x);
        const auto [leader, other] = by_magnitude(s.sum, x);
        s.correction = add(s.correction, add(sub(leader, t), other));
        s.sum = t;
        break;
      }
    }
  }
  Word result(const Running& s, Unit& u) {
    return model_.compensation == Compensation::neumaier ? u.on.add(s.sum, s.correction, bits(u)) : s.sum;
  }

  template <class Term>
  Word total(std::size_t n, const std::optional<Word>& addend, std::uint64_t stream, Term&& term) {
    stream_ = stream;
    drawn_ = 0;
    if (n == 0) return addend ? *addend : zero(output_);
    Word sum = of_parts(n, term);
    if (addend) {
      const Word c = convert(outer_, model_.result(), *addend);
      sum = outer_.on.add(sum, c, bits(outer_));
    }
    return convert(output_, outer_.format, sum);
  }
  template <class Term>
  Word of_parts(std::size_t n, Term& term) {
    const auto part = [&](std::size_t begin, std::size_t end, std::size_t step) {
      Running s;
      for (std::size_t i = begin; i < end; i += std::min(step, end - i)) term(s, i);
      return convert(outer_, accumulator_.format, result(s, accumulator_));
    };
    const std::size_t lanes = std::min(model_.width, n);
    if (model_.order == Order::interleaved) return halves(0, lanes, [&](std::size_t j) { return part(j, n, lanes); });
    const std::size_t block = model_.order == Order::sequential ? n : std::min(model_.block, n);
    const std::size_t blocks = n / block + (n % block != 0);
    const auto partial = [&](std::size_t index) {
      return part(index * block, index * block + std::min(block, n - index * block), 1);
    };
    if (blocks == 1) return partial(0);
    if (model_.order == Order::pairwise) return halves(0, blocks, partial);
    if (model_.order == Order::tree) return tree(0, blocks, partial);
    Running s;
    for (std::size_t i = 0; i < blocks; ++i) enter(s, outer_, partial(i));
    return result(s, outer_);
  }
  template <class Partial>
  Word halves(std::size_t begin, std::size_t end, const Partial& partial) {
    if (end - begin == 1) return partial(begin);
    const std::size_t middle = begin + (end - begin + 1) / 2;
    const Word left = halves(begin, middle, partial), right = halves(middle, end, partial);
    return outer_.on.add(left, right, bits(outer_));
  }
  /// Adds from the top: up to w subtrees, each of a power of w parts.
  template <class Partial>
  Word tree(std::size_t begin, std::size_t end, const Partial& partial) {
    const std::size_t count = end - begin;
    if (count == 1) return partial(begin);
    std::size_t below = 1;
    while (below <= (count - 1) / model_.width) below *= model_.width;
    return halves(0, (count - 1) / below + 1, [&](std::size_t j) {
      const std::size_t from = begin + j * below;
      return tree(from, from + std::min(below, end - from), partial);
    });
  }

  DotModel model_;
  Unit product_, accumulator_, outer_, output_;
  std::string dot_refusal_;
  std::uint64_t stream_ = 0, drawn_ = 0;
  decltype(philox(0, 0, 0)) words_{};
};

/// DotEngine on plain emulation: nothing is recorded.
std::uint64_t sum(const DotModel& model, std::span<const std::uint64_t> x, std::uint64_t stream = 0);
/// The same for a dot product.
std::uint64_t dot(const DotModel& model, std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
                  std::uint64_t stream = 0);

/// Plain dot products again and again: the engine is made once.
class PlainDots {
 public:
  explicit PlainDots(const DotModel& model);  ///< Throws std::invalid_argument for a model that DotEngine refuses.
  ~PlainDots();
  /// The dot product of a and b, plus c if there is one. Stochastic roundings draw from `stream`.
  std::uint64_t operator()(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
                           std::optional<std::uint64_t> c, std::uint64_t stream);

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace halfulp
