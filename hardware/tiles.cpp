#include <halfulp/hardware/tiles.hpp>

#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/random.hpp>

#include <algorithm>
#include <cmath>

namespace halfulp {
namespace {

/// Random decisions of one case.
class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  std::uint64_t word() { return random_word(seed_, stream_, index_++); }
  int between(int least, int most) {
    return least + static_cast<int>(word() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool one_in(std::uint64_t n) { return word() % n == 0; }

 private:
  std::uint64_t seed_, stream_, index_ = 0;
};

std::uint64_t mask(int bits) { return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1; }

/// The finite number of that sign and fraction whose exponent is the nearest to `exponent` that the format has;
/// subnormal below.
std::uint64_t number(const FloatFormat& f, int exponent, std::uint64_t fraction, bool negative) {
  const auto top = static_cast<int>(f.max_finite() >> f.fraction_bits);
  const auto field = static_cast<std::uint64_t>(std::clamp(exponent + f.bias, 0, top));
  const std::uint64_t code = f.with_sign(
      std::min(field << f.fraction_bits | (fraction & f.fraction_mask()), f.max_finite()), negative);
  return f.is_nan(code) ? f.zero() : code;  // fnuz: what would be -0
}

/// A fraction of few set bits, or of few clear ones: 1, 1 + ulp, 1.5, 2 - ulp, or anything.
std::uint64_t sparse(const FloatFormat& f, Dice& dice) {
  const std::uint64_t half = f.fraction_bits > 0 ? std::uint64_t{1} << (f.fraction_bits - 1) : 0;
  const std::uint64_t fractions[] = {0, 0, 1, half, half | 1, f.fraction_mask(), f.fraction_mask() - 1, dice.word()};
  return fractions[dice.word() % std::size(fractions)];
}

/// Any code beside the numbers in the middle of the range.
std::uint64_t special(const FloatFormat& f, Dice& dice) {
  const bool negative = f.is_signed && dice.one_in(2);
  const auto nan = [&] { return (f.magnitude_mask() & ~f.fraction_mask()) | dice.word() % (f.fraction_mask() + 1); };
  switch (dice.word() % 8) {
    case 0:
    case 1: return f.zero(negative);
    case 2: return f.has_infinity() ? f.infinity(negative) : f.with_sign(f.max_finite(), negative);
    case 3: return f.has_nan() ? f.canonical_nan() : f.max_finite();
    case 4: return f.with_sign(nan(), negative);  // where the format has them, signalling ones and infinities too
    case 5: return f.with_sign(f.max_finite(), negative);
    case 6: return f.with_sign(f.min_normal(), negative);
    default: return f.with_sign(f.min_positive(), negative);
  }
}

/// One case in the making: code words, made into words of the unit at the end.
class Case {
 public:
  Case(const MatrixShape& shape, std::size_t k, Dice dice) : shape_(shape), dice_(dice), a_(k), b_(k) {
    const std::size_t scales = shape.scale_block ? (k + static_cast<std::size_t>(shape.scale_block) - 1) /
                                                       static_cast<std::size_t>(shape.scale_block)
                                                 : 0;
    scale_a_.resize(scales);
    scale_b_.resize(scales);
  }

  void fill(Tiles kind) {
    if (kind == Tiles::random) return random();
    const int depth = shape_.accumulator.precision();
    switch (kind) {
      case Tiles::aligned: terms(middle(), depth + 16, true); break;
      case Tiles::subnormal:
        terms(shape_.accumulator.emin() + dice_.between(-shape_.accumulator.fraction_bits - 1, 4), 6, dice_.one_in(2));
        break;
      default: terms(middle(), depth / 2 + 2, false); break;
    }
    if (kind == Tiles::cancelling) cancel();
    if (kind == Tiles::subnormal) sink();
    if (kind == Tiles::special) replace();
    scales(kind);
  }

  void add_to(MatrixCases& cases) {
    for (std::size_t j = 0; j < a_.size(); ++j) {
      a_[j] = code_word(shape_.a, a_[j]);
      b_[j] = code_word(shape_.b, b_[j]);
    }
    cases.add({a_, b_, scale_a_, scale_b_}, code_word(shape_.accumulator, c_));
  }

  /// Words of any bits.
  void random() {
    for (std::uint64_t& x : a_) x = word_code(shape_.a, dice_.word() & mask(word_bits(shape_.a)));
    for (std::uint64_t& x : b_) x = word_code(shape_.b, dice_.word() & mask(word_bits(shape_.b)));
    c_ = dice_.word() & shape_.accumulator.code_mask();
    for (auto* scales : {&scale_a_, &scale_b_})
      for (std::uint64_t& x : *scales) x = dice_.word() & shape_.scale.code_mask();
  }

 private:
  /// An exponent that products and addends can have.
  int middle() {
    const int least = std::max(shape_.a.emin() + shape_.b.emin(), shape_.accumulator.emin());
    const int most = std::min(shape_.a.emax() + shape_.b.emax(), shape_.accumulator.emax());
    return dice_.between(least, most);
  }

  /// Products and an addend with exponents `top` down to `top - depth`.
  void terms(int top, int depth, bool few_bits) {
    const auto fraction = [&](const FloatFormat& f) { return few_bits ? sparse(f, dice_) : dice_.word(); };
    const auto sign = [&](const FloatFormat& f) { return f.is_signed && dice_.one_in(2); };
    for (std::size_t j = 0; j < a_.size(); ++j) {
      const int exponent = top - dice_.between(0, depth);
      const int least = std::max(shape_.a.emin(), exponent - shape_.b.emax()),
                most = std::min(shape_.a.emax(), exponent - shape_.b.emin());
      const int of_a = least <= most ? dice_.between(least, most) : exponent / 2;
      a_[j] = number(shape_.a, of_a, fraction(shape_.a), sign(shape_.a));
      b_[j] = number(shape_.b, exponent - of_a, fraction(shape_.b), sign(shape_.b));
    }
    c_ = number(shape_.accumulator, top - dice_.between(0, depth), fraction(shape_.accumulator),
                sign(shape_.accumulator));
    if (dice_.one_in(8)) c_ = shape_.accumulator.zero(dice_.one_in(2));
  }

  /// Half of the products against an earlier one, and now and then the addend against a product.
  void cancel() {
    for (std::size_t j = 1; j < a_.size(); ++j) {
      if (!dice_.one_in(2) || shape_.a != shape_.b) continue;
      const std::size_t earlier = dice_.word() % j;
      a_[j] = b_[earlier] ^ shape_.a.sign_mask();
      b_[j] = a_[earlier];
      if (dice_.one_in(4)) b_[j] = number_beside(shape_.b, b_[j]);
    }
    if (!dice_.one_in(3)) return;
    const std::size_t j = dice_.word() % a_.size();
    const double product = shape_.a.value(a_[j]) * shape_.b.value(b_[j]);
    c_ = convert(fp64, shape_.accumulator, {}, std::bit_cast<std::uint64_t>(-product)).code;
    if (dice_.one_in(2)) c_ = number_beside(shape_.accumulator, c_);
  }

  static std::uint64_t number_beside(const FloatFormat& f, std::uint64_t code) {
    const std::uint64_t magnitude = f.magnitude(code);
    return (code & f.sign_mask()) | (magnitude >= f.max_finite() ? f.max_finite() : magnitude + 1);
  }

  /// Some operands become subnormal.
  void sink() {
    const auto subnormal = [&](const FloatFormat& f, std::uint64_t& code) {
      if (dice_.one_in(4)) code = f.with_sign(dice_.word() & f.fraction_mask(), f.sign(code));
      if (f.is_nan(code)) code = 0;
    };
    for (std::uint64_t& x : a_) subnormal(shape_.a, x);
    for (std::uint64_t& x : b_) subnormal(shape_.b, x);
    subnormal(shape_.accumulator, c_);
  }

  /// One operand in six becomes special, so that short tiles have few of them and all have some.
  void replace() {
    const std::uint64_t rarity = std::max<std::size_t>(3, a_.size() / 2);
    for (std::uint64_t& x : a_) x = dice_.one_in(rarity) ? special(shape_.a, dice_) : x;
    for (std::uint64_t& x : b_) x = dice_.one_in(rarity) ? special(shape_.b, dice_) : x;
    if (dice_.one_in(3)) c_ = special(shape_.accumulator, dice_);
  }

  void scales(Tiles kind) {
    const FloatFormat& f = shape_.scale;
    for (auto* scales : {&scale_a_, &scale_b_})
      for (std::uint64_t& x : *scales)
        x = kind == Tiles::special && dice_.one_in(6) ? dice_.word() & f.code_mask()
                                                      : number(f, dice_.between(-4, 4), dice_.word(), false);
  }

  const MatrixShape& shape_;
  Dice dice_;
  std::vector<std::uint64_t> a_, b_, scale_a_, scale_b_;
  std::uint64_t c_ = 0;
};

}  // namespace

MatrixCases tiles(Tiles kind, const MatrixShape& shape, std::size_t k, std::size_t count, std::uint64_t seed) {
  MatrixCases cases;
  cases.k = k;
  for (std::size_t i = 0; i < count; ++i) {
    Case one(shape, k, Dice(seed << 8 | static_cast<std::uint64_t>(kind), i));
    one.fill(kind);
    one.add_to(cases);
  }
  return cases;
}

}  // namespace halfulp
