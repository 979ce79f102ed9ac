#include <halfulp/emulation/witness/search.hpp>

#include <halfulp/emulation/cast/difference.hpp>
#include <halfulp/emulation/operation.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace halfulp::witness {
namespace {

using Case = std::vector<std::uint64_t>;

/// Code words of a format of at most 16 bits, lightest first; of a wider one those with few bits.
std::vector<std::uint64_t> lightest_first(const FloatFormat& f) {
  std::vector<std::uint64_t> codes;
  if (f.storage_bits() <= 16) {
    for (std::uint64_t code = 0; code <= f.code_mask(); ++code) codes.push_back(code);
  } else {
    for (std::uint64_t exponent = 0; exponent <= f.magnitude_mask() >> f.fraction_bits;
         exponent += f.exponent_bits > 8 ? 13 : 1)
      for (std::uint64_t top = 0; top < 16; ++top)
        for (const std::uint64_t low : {std::uint64_t{0}, std::uint64_t{1}})
          for (const bool sign : {false, true})
            codes.push_back(f.with_sign(exponent << f.fraction_bits | top << (f.fraction_bits - 4) | low, sign));
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> keyed;
  for (const std::uint64_t code : codes) keyed.emplace_back(weight(f, code), code);
  std::sort(keyed.begin(), keyed.end());
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = keyed[i].second;
  return codes;
}

class Searcher {
 public:
  Searcher(const Subject& a, const Subject& b, const Options& options, const std::function<void(double)>& progress)
      : a_(a), b_(b), options_(options), progress_(progress) {}

  Found run() {
    const OperandShape& shape = a_.shape;
    int bits = 0;
    for (const FloatFormat& f : shape.fixed) bits += f.storage_bits();
    if (std::holds_alternative<CastSubject>(a_.what) && std::holds_alternative<CastSubject>(b_.what) && bits <= 32 &&
        !options_.any_zero)
      casts();
    else if (shape.repeated.empty() && bits <= 24) all_cases();
    else if (a_.pairs && b_.pairs) all_pairs();
    else guided();
    return std::move(found_);
  }

 private:
  bool differ(std::uint64_t x, std::uint64_t y) const {
    const FloatFormat& f = a_.result;
    return x != y && !(options_.any_nan && f.is_nan(x) && f.is_nan(y)) &&
           !(options_.any_zero && f.is_zero(x) && f.is_zero(y));
  }
  bool differs(const Case& c) const { return differ(a_.evaluate(c), b_.evaluate(c)); }
  void show(double fraction) const {
    if (progress_) progress_(fraction);
  }

  /// Largest weight, then the sum.
  std::pair<std::uint64_t, std::uint64_t> size(const Case& c) const {
    std::uint64_t most = 0, sum = 0;
    for (std::size_t i = 0; i < c.size(); ++i) {
      const std::uint64_t w = weight(a_.shape.format(i, c.size()), c[i]);
      most = std::max(most, w), sum += w;
    }
    return {most, sum};
  }
  void offer(Case c) {
    if (!found_.operands || size(c) < size(*found_.operands)) found_.operands = std::move(c);
  }

  /// The lightest operand of every range on which two profiles differ.
  void casts() {
    const CastSubject &a = std::get<CastSubject>(a_.what), &b = std::get<CastSubject>(b_.what);
    const CastDifferences all = differences({a.from, a.rule, b.rule, options_.any_nan}, progress_);
    found_.exhaustive = all.exhaustive;
    found_.looked_at = all.compared;
    for (const CastRange& range : all.ranges) {
      // Fewest significant bits: the code word in the range with the most zeros at its end, in every binade it reaches.
      const int fraction = a.from.fraction_bits;
      for (std::uint64_t first = range.first; first <= range.last; first = ((first >> fraction) + 1) << fraction) {
        const std::uint64_t last = std::min(range.last, first | a.from.fraction_mask());
        int zeros = 0;
        while (zeros < fraction && ((last >> (zeros + 1)) << (zeros + 1)) >= first) ++zeros;
        offer({(last >> zeros) << zeros});
        offer({((first + (std::uint64_t{1} << zeros) - 1) >> zeros) << zeros});
      }
    }
  }

  /// Every case, by the heaviest operand: the first shell in which one differs has the smallest.
  void all_cases() {
    const std::size_t n = a_.shape.fixed.size();
    const std::vector<std::uint64_t> codes = lightest_first(a_.shape.fixed.front());
    Case c(n);
    found_.exhaustive = true;
    std::uint64_t known = ~std::uint64_t{0};  // the weight beyond which nothing is smaller
    for (std::size_t r = 0; r < codes.size(); ++r) {
      if (weight(a_.shape.fixed.front(), codes[r]) > known) break;
      shell(codes, r, c, 0, false);
      if (found_.operands) known = size(*found_.operands).first;
      if (r % 16 == 0) show(static_cast<double>(r) / static_cast<double>(codes.size()));
    }
  }
  void shell(const std::vector<std::uint64_t>& codes, std::size_t r, Case& c, std::size_t at, bool has_r) {
    if (at == c.size()) {
      ++found_.looked_at;
      if (differs(c)) offer(c);
      return;
    }
    const bool last_chance = at + 1 == c.size() && !has_r;  // one operand is the r-th, none is heavier
    for (std::size_t i = last_chance ? r : 0; i <= r; ++i) {
      c[at] = codes[i];
      shell(codes, r, c, at + 1, has_r || i == r);
    }
  }

  /// The same for two operands of 16 bits, over arrays.
  void all_pairs() {
    const std::vector<std::uint64_t> codes = lightest_first(a_.shape.fixed.front());
    const std::vector<std::uint16_t> lighter(codes.begin(), codes.end());
    std::vector<std::uint16_t> same, x, y;
    found_.exhaustive = true;
    std::uint64_t known = ~std::uint64_t{0};
    for (std::size_t r = 0; r < codes.size(); ++r) {
      if (weight(a_.shape.fixed.front(), codes[r]) > known) break;
      const std::size_t n = r + 1;
      same.assign(n, lighter[r]);
      x.resize(n), y.resize(n);
      const std::span<const std::uint16_t> all(lighter.data(), n), one(same);
      for (const bool swapped : {false, true}) {
        a_.pairs(swapped ? one : all, swapped ? all : one, x);
        b_.pairs(swapped ? one : all, swapped ? all : one, y);
        for (std::size_t i = 0; i < n; ++i)
          if (x[i] != y[i] && differ(x[i], y[i])) offer(swapped ? Case{codes[r], codes[i]} : Case{codes[i], codes[r]});
      }
      found_.looked_at += 2 * n - 1;
      if (found_.operands) known = size(*found_.operands).first;
      if (r % 256 == 0)
        show(static_cast<double>(r) / static_cast<double>(codes.size()) * static_cast<double>(r) /
             static_cast<double>(codes.size()));
    }
  }

  std::uint64_t random() {  // SplitMix64
    std::uint64_t z = (state_ += 0x9e37'79b9'7f4a'7c15);
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
    return z ^ (z >> 31);
  }
  /// An operand: one of the lightest, one anywhere, or a finite one of few bits.
  std::uint64_t drawn(const FloatFormat& f, const std::vector<std::uint64_t>& codes) {
    const std::uint64_t z = random();
    switch (z & 7) {
      case 0:
      case 1:
      case 2: return codes[(z >> 8) % std::min<std::size_t>(codes.size(), 24)];
      case 3:
      case 4: return codes[(z >> 8) % std::min<std::size_t>(codes.size(), 400)];
      case 5: return codes[(z >> 8) % codes.size()];
      default: return (z >> 8) % (f.max_finite() + 1) | ((z >> 4) & 1 ? f.sign_mask() : 0);
    }
  }

  void guided() {
    const OperandShape& shape = a_.shape;
    state_ = options_.seed;
    std::vector<std::vector<std::uint64_t>> repeated, fixed;
    for (const FloatFormat& f : shape.repeated) repeated.push_back(lightest_first(f));
    for (const FloatFormat& f : shape.fixed) fixed.push_back(lightest_first(f));
    const std::size_t longest = shape.repeated.empty() ? 0 : options_.longest;
    // Half of the cases for short vectors, where a witness is small; the other half grows with the length.
    for (std::size_t terms = shape.repeated.empty() ? 0 : 1; terms <= longest; ++terms) {
      const std::uint64_t share = std::max<std::uint64_t>(1, longest == 0 ? options_.cases
                                                             : terms <= 4 ? options_.cases / 8
                                                                          : options_.cases / 2 / (longest - 4));
      found_.longest = terms;
      Case c(shape.operands(terms));
      for (std::uint64_t i = 0; i < share; ++i) {
        for (std::size_t k = 0; k < c.size(); ++k) {
          const std::size_t vector = c.size() - shape.fixed.size();
          c[k] = k < vector ? drawn(shape.repeated[k % repeated.size()], repeated[k % repeated.size()])
                            : drawn(shape.fixed[k - vector], fixed[k - vector]);
        }
        look(c, repeated, fixed);
        if (shrunk_cases_ >= 24) return;  // the smallest of some
      }
      if (found_.operands) return;  // longer ones are not smaller
    }
    if (shape.repeated.size() != 2) return;
    // Products at the ends of the result's range, which are seldom met by chance.
    for (std::size_t terms = 1; terms <= std::min<std::size_t>(longest, 4) && !found_.operands; ++terms) {
      Case c(shape.operands(terms), 0);
      for (std::size_t scale = 1; scale < shape.fixed.size(); ++scale)  // behind C, which stays 0
        c[2 * terms + scale] = convert(fp64, shape.fixed[scale], {}, std::bit_cast<std::uint64_t>(1.0)).code;
      for (std::uint64_t i = 0; i < options_.cases / 16 && shrunk_cases_ < 24; ++i) {
        for (std::size_t k = 0; k < 2 * terms; k += 2) draw_product(shape.repeated[0], shape.repeated[1], &c[k]);
        look(c, repeated, fixed);
      }
    }
  }

  /// Looks at a case, and makes it smaller if its results differ.
  void look(const Case& drawn, const std::vector<std::vector<std::uint64_t>>& repeated,
            const std::vector<std::vector<std::uint64_t>>& fixed) {
    if ((++found_.looked_at & 0xfff) == 0)
      show(std::min(1.0, static_cast<double>(found_.looked_at) / static_cast<double>(options_.cases)));
    if (!differs(drawn)) return;
    Case c = drawn;
    shrink(c, repeated, fixed);
    offer(c);
    ++shrunk_cases_;
  }

  /// Two factors whose product lies near the smallest number of the result's format, the smallest normal or the
  /// largest.
  void draw_product(const FloatFormat& first, const FloatFormat& second, std::uint64_t* factors) {
    const FloatFormat& f = a_.result;
    const std::uint64_t z = random(), codes[] = {f.min_positive(), f.min_normal(), f.min_normal(), f.max_finite()};
    const double end = f.value(codes[z & 3]) * ((z & 7) == 4 ? 0.5 : 1);
    factors[0] = (z >> 8) % (first.max_finite() + 1) | ((z & 8) != 0 ? first.sign_mask() : 0);
    const double other = std::abs(end / first.value(factors[0]));
    const std::uint64_t near = convert(fp64, second, {}, std::bit_cast<std::uint64_t>(other)).code;
    factors[1] = std::min(second.max_finite(), near + (z >> 4 & 3) - std::min<std::uint64_t>(near, 1));
  }

  bool try_case(Case& c, const Case& other) {
    if (found_.shrunk >= options_.cases) return false;  // as many as were looked at to find one: small enough
    ++found_.shrunk;
    if (!differs(other)) return false;
    c = other;
    return true;
  }
  /// Drops terms and makes operands lighter, one at a time, until nothing more goes.
  void shrink(Case& c, const std::vector<std::vector<std::uint64_t>>& repeated,
              const std::vector<std::vector<std::uint64_t>>& fixed) {
    const OperandShape& shape = a_.shape;
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t t = shape.terms(c.size()); t-- > 0 && shape.terms(c.size()) > 1;) {
        Case shorter = c;
        const auto at = shorter.begin() + static_cast<std::ptrdiff_t>(t * shape.repeated.size());
        shorter.erase(at, at + static_cast<std::ptrdiff_t>(shape.repeated.size()));
        changed |= try_case(c, shorter);
      }
      for (std::size_t i = 0; i < c.size(); ++i) {
        const std::size_t vector = c.size() - shape.fixed.size();
        const FloatFormat& f = shape.format(i, c.size());
        const auto& codes = i < vector ? repeated[i % repeated.size()] : fixed[i - vector];
        const std::uint64_t now = weight(f, c[i]);
        Case lighter = c;
        bool done = false;
        for (std::size_t k = 0; k < codes.size() && k < 3000 && !done && weight(f, codes[k]) < now; ++k) {
          lighter[i] = codes[k];
          done = try_case(c, lighter);
        }
        for (int bit = f.fraction_bits - 1; bit >= 0 && !done;
             --bit) {  // fewer bits, where the lightest are all too light
          lighter[i] = c[i] & ~(((std::uint64_t{1} << (f.fraction_bits - bit)) - 1));
          if (weight(f, lighter[i]) < now) done = try_case(c, lighter);
        }
        changed |= done;
      }
    }
  }

  const Subject &a_, &b_;
  const Options& options_;
  const std::function<void(double)>& progress_;
  Found found_;
  std::uint64_t state_ = 0;
  int shrunk_cases_ = 0;
};

}  // namespace

std::uint64_t weight(const FloatFormat& f, std::uint64_t code) {
  const std::uint64_t sign = f.sign(code) ? 1 : 0;
  constexpr std::uint64_t far = std::uint64_t{1} << 20;
  if (f.is_nan(code)) return 4 * far + 2 * (f.magnitude(code) & 0xffff) + sign;
  if (f.is_infinite(code)) return 2 * far + sign;
  if (f.is_zero(code)) return sign;
  const std::uint64_t significand = f.significand(code);
  const int bits = std::bit_width(significand) - std::countr_zero(significand),
            binade = f.exponent(code) + std::bit_width(significand) - 1;
  return 2 * (static_cast<std::uint64_t>(4 * bits) + static_cast<std::uint64_t>(std::abs(binade))) + sign;
}

Found search(const Subject& a, const Subject& b, const Options& options, const std::function<void(double)>& progress) {
  if (const std::string why = refusal(a, b); !why.empty()) throw std::invalid_argument(why);
  return Searcher(a, b, options, progress).run();
}

}  // namespace halfulp::witness
