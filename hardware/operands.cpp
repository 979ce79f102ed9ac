#include <halfulp/hardware/operands.hpp>

#include <halfulp/emulation/random.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace halfulp {

namespace {

/// The code with an exponent field near another one.
std::uint64_t moved_near(const FloatFormat& f, std::uint64_t code, std::int64_t field, int spread,
                         std::uint32_t random) {
  const auto top = static_cast<std::int64_t>(f.magnitude_mask() >> f.fraction_bits);
  field += static_cast<std::int64_t>(random % static_cast<std::uint32_t>(2 * spread + 1)) - spread;
  return (code & (f.sign_mask() | f.fraction_mask())) |
         static_cast<std::uint64_t>(std::clamp<std::int64_t>(field, 0, top)) << f.fraction_bits;
}

std::array<std::uint64_t, 3> random_case(const FloatFormat& f, int arity, std::uint64_t seed, std::uint64_t index) {
  const auto low = philox(seed, 0, index), high = philox(seed, 1, index);
  const auto wide = [](std::uint32_t x, std::uint32_t y) { return x | static_cast<std::uint64_t>(y) << 32; };
  std::array<std::uint64_t, 3> x{wide(low[0], low[1]) & f.code_mask(), wide(low[2], low[3]) & f.code_mask(),
                                 wide(high[0], high[1]) & f.code_mask()};
  const std::uint32_t choice = high[2], spread = high[3];
  const auto field = [&](std::uint64_t code) {
    return static_cast<std::int64_t>(f.magnitude(code) >> f.fraction_bits);
  };
  if (arity > 1 && (choice & 1) != 0) x[1] = moved_near(f, x[1], field(x[0]), f.precision() + 2, spread >> 16);
  if (arity > 2 && (choice & 2) != 0)
    x[2] = moved_near(f, x[2], field(x[0]) + field(x[1]) - f.bias, 2 * f.precision() + 2, spread & 0xffff);
  for (std::size_t i = 0; i < 3; ++i)
    if ((choice & (4U << i)) != 0 && arity > 1) x[i] &= ~(f.fraction_mask() >> (choice >> 8) % 6);
  return x;
}

/// Code words of `from` at and beside the values of `to`'s lattice, those half a unit further on, and what lies beyond
/// the largest.
void add_edges_of(const FloatFormat& to, const FloatFormat& from, std::vector<std::uint64_t>& codes) {
  const auto add = [&](double x) {
    const std::uint64_t code = encode(from, {.mode = RoundingMode::toward_zero}, x).code;
    for (const std::uint64_t near : {code - 1, code, code + 1})
      for (const bool negative : {false, true})
        if (near <= from.magnitude_mask()) codes.push_back(from.with_sign(near, negative));
  };
  for (const std::uint64_t code : lattice(to, 1)) {
    if (to.sign(code) || !to.is_finite(code)) continue;
    const double x = to.value(code), last_bit = FloatFormat::power_of_two(std::max(to.exponent(code), -1073));
    add(x);
    add(x + last_bit / 2);
  }
  if (to.min_positive() == 0) add(to.value(0) / 2);
}

/// What the boundary cases of a task are made of.
std::vector<std::uint64_t> boundary_points(const Task& task) {
  const auto& from = std::get<FloatFormat>(task.from);
  std::vector<std::uint64_t> points = lattice(from, info(task.operation).arity > 2 ? 0 : 1);
  if (task.operation == Operation::convert) add_edges_of(std::get<FloatFormat>(task.to), from, points);
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

/// The number of combinations of `arity` of them, or `most` if that is less.
std::uint64_t combinations(std::uint64_t points, int arity, std::uint64_t most) {
  std::uint64_t count = 1;
  for (int i = 0; i < arity && count <= most; ++i) count *= points;
  return std::min(count, most);
}

/// All combinations in order where the sample has room for them, else one drawn by the seed.
std::array<std::uint64_t, 3> boundary_case(const OperandSet& operands, std::uint64_t index) {
  const std::uint64_t n = operands.points.size();
  std::array<std::uint64_t, 3> x{};
  if (combinations(n, operands.arity, operands.boundary + 1) == operands.boundary) {
    for (int i = operands.arity; i-- > 0; index /= n) x[static_cast<std::size_t>(i)] = operands.points[index % n];
  } else {
    const auto random = philox(operands.seed, 2, index);
    for (std::size_t i = 0; i < 3; ++i) x[i] = operands.points[random[i] % n];
  }
  return x;
}

}  // namespace

void OperandSet::fill(std::uint64_t begin, std::span<std::uint64_t> a, std::span<std::uint64_t> b,
                      std::span<std::uint64_t> c) const {
  const std::size_t size = a.size();
  if (list) {
    const auto copy = [&](const std::vector<std::uint64_t>& from_list, std::span<std::uint64_t> to) {
      std::copy_n(from_list.begin() + static_cast<std::ptrdiff_t>(begin), size, to.begin());
    };
    copy(list->a, a);
    if (arity > 1) copy(list->b, b);
    if (arity > 2) copy(list->c, c);
    return;
  }
  if (kind == Inputs::sample) {
    for (std::size_t i = 0; i < size; ++i) {
      const auto x = begin + i < boundary ? boundary_case(*this, begin + i) : random_case(from, arity, seed, begin + i);
      a[i] = x[0];
      if (arity > 1) b[i] = x[1];
      if (arity > 2) c[i] = x[2];
    }
    return;
  }
  fill_words(begin, a, b, c);
}

template <class Word>
void OperandSet::fill_words(std::uint64_t begin, std::span<Word> a, std::span<Word> b, std::span<Word> c) const {
  const int bits = from.storage_bits();
  const std::uint64_t mask = from.code_mask(), end = begin + a.size();
  /// Every word stays for 2^shift cases: those of a list in its order, else all code words.
  const auto put = [&](std::span<Word> to, int shift, std::span<const std::uint64_t> words = {}) {
    for (std::uint64_t i = begin; i < end;) {
      const std::uint64_t next = std::min(end, ((i >> shift) + 1) << shift);
      std::fill(to.begin() + static_cast<std::ptrdiff_t>(i - begin),
                to.begin() + static_cast<std::ptrdiff_t>(next - begin),
                static_cast<Word>(words.empty() ? i >> shift & mask : words[i >> shift]));
      i = next;
    }
  };
  const auto count_up = [&](std::span<Word> to) {
    const Word first = static_cast<Word>(begin), kept = static_cast<Word>(mask);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<Word>(first + i) & kept;
  };
  if (arity == 1) return count_up(a);
  if (kind == Inputs::pairs) {
    put(a, bits);
    count_up(b);
    return put(c, 2 * bits, addends);
  }
  put(a, (arity - 1) * bits);
  if (arity == 2) return count_up(b);
  put(b, bits);
  count_up(c);
}
template void OperandSet::fill_words(std::uint64_t, std::span<std::uint8_t>, std::span<std::uint8_t>,
                                     std::span<std::uint8_t>) const;
template void OperandSet::fill_words(std::uint64_t, std::span<std::uint16_t>, std::span<std::uint16_t>,
                                     std::span<std::uint16_t>) const;
template void OperandSet::fill_words(std::uint64_t, std::span<std::uint32_t>, std::span<std::uint32_t>,
                                     std::span<std::uint32_t>) const;

std::optional<std::uint64_t> number_of_operands(const Task& task) {
  const int bits = std::get<FloatFormat>(task.from).storage_bits() * info(task.operation).arity;
  if (bits > 48) return std::nullopt;
  return std::uint64_t{1} << bits;
}

OperandSet all_operands(const Task& task) {
  return {std::get<FloatFormat>(task.from), info(task.operation).arity, Inputs::all, *number_of_operands(task), 0};
}

OperandSet pairs_with(const Task& task, std::vector<std::uint64_t> addends) {
  const auto& from = std::get<FloatFormat>(task.from);
  if (info(task.operation).arity != 3 || from.storage_bits() > 16)
    throw std::invalid_argument(std::string("all pairs with some addends are of fma in formats of 16 bits or fewer, "
                                            "not of ") +
                                task.description());
  OperandSet operands{from, 3, Inputs::pairs, std::uint64_t{addends.size()} << (2 * from.storage_bits()), 0};
  operands.addends = std::move(addends);
  return operands;
}

std::vector<std::uint64_t> chosen_addends(const FloatFormat& f, std::uint64_t count) {
  const std::uint64_t one = static_cast<std::uint64_t>(f.bias) << f.fraction_bits;
  std::vector<std::uint64_t> first{0,       f.min_positive(), f.min_normal() - 1, f.min_normal(), one,
                                   one + 1, one - 1,          f.max_finite()},
      chosen, rest = lattice(f, 1);
  if (f.has_infinity()) first.push_back(f.infinity());
  if (f.has_nan()) first.push_back(f.canonical_nan() & f.magnitude_mask());
  const auto add = [&](std::uint64_t code) {
    if (std::find(chosen.begin(), chosen.end(), code) == chosen.end()) chosen.push_back(code);
  };
  for (const std::uint64_t magnitude : first)
    for (const bool negative : {false, true}) add(f.with_sign(magnitude, negative));
  for (std::size_t i = rest.size(); i-- > 1;)
    std::swap(rest[i], rest[random_word(0, 0, i) % (i + 1)]);  // by Fisher and Yates
  for (const std::uint64_t code : rest) add(code);
  chosen.resize(std::min<std::uint64_t>(count, chosen.size()));
  return chosen;
}

OperandSet sampled_operands(const Task& task, std::uint64_t count, std::uint64_t seed) {
  if (const auto all = number_of_operands(task); all && *all <= count) return all_operands(task);
  OperandSet operands{
      std::get<FloatFormat>(task.from), info(task.operation).arity, Inputs::sample, count, seed, boundary_points(task)};
  operands.boundary = combinations(operands.points.size(), operands.arity, count / 2);
  return operands;
}

OperandSet listed_operands(const Task& task, OperandColumns columns, std::string origin) {
  OperandSet operands{std::get<FloatFormat>(task.from), info(task.operation).arity, Inputs::listed, columns.size(), 0};
  operands.list = std::make_shared<const OperandColumns>(std::move(columns));
  operands.origin = std::move(origin);
  return operands;
}

// Cases for matrix instructions.

namespace {

/// Random decisions of one case. No two of them may be arguments of one call: compilers choose their order, and
/// recordings and ledgers hold the answers to these cases.
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

struct Digits {
  std::uint64_t fraction = 0;
  bool negative = false;
};

/// The finite number of these digits whose exponent is the nearest to `exponent` that the format has; subnormal below.
std::uint64_t number(const FloatFormat& f, int exponent, const Digits& digits) {
  const auto top = static_cast<int>(f.max_finite() >> f.fraction_bits);
  const auto field = static_cast<std::uint64_t>(std::clamp(exponent + f.bias, 0, top));
  const std::uint64_t code = f.with_sign(
      std::min(field << f.fraction_bits | (digits.fraction & f.fraction_mask()), f.max_finite()), digits.negative);
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
class TileInTheMaking {
 public:
  TileInTheMaking(const MatrixShape& shape, std::size_t k, Dice dice) : shape_(shape), dice_(dice), a_(k), b_(k) {
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
      case Tiles::subnormal: {
        const bool few_bits = dice_.one_in(2);
        terms(shape_.accumulator.emin() + dice_.between(-shape_.accumulator.fraction_bits - 1, 4), 6, few_bits);
        break;
      }
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
    const auto digits = [&](const FloatFormat& f) {
      const bool negative = f.is_signed && dice_.one_in(2);
      return Digits{few_bits ? sparse(f, dice_) : dice_.word(), negative};
    };
    for (std::size_t j = 0; j < a_.size(); ++j) {
      const int exponent = top - dice_.between(0, depth);
      const int least = std::max(shape_.a.emin(), exponent - shape_.b.emax()),
                most = std::min(shape_.a.emax(), exponent - shape_.b.emin());
      const int of_a = least <= most ? dice_.between(least, most) : exponent / 2;
      a_[j] = number(shape_.a, of_a, digits(shape_.a));
      b_[j] = number(shape_.b, exponent - of_a, digits(shape_.b));
    }
    const Digits of_c = digits(shape_.accumulator);
    c_ = number(shape_.accumulator, top - dice_.between(0, depth), of_c);
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
      for (std::uint64_t& x : *scales) {
        const bool any = kind == Tiles::special && dice_.one_in(6);
        const std::uint64_t word = dice_.word();
        x = any ? word & f.code_mask() : number(f, dice_.between(-4, 4), {word, false});
      }
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
    TileInTheMaking one(shape, k, Dice(seed << 8 | static_cast<std::uint64_t>(kind), i));
    one.fill(kind);
    one.add_to(cases);
  }
  return cases;
}

}  // namespace halfulp
