#include <halfulp/emulation/cast/difference.hpp>

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/emulation/random.hpp>

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <stdexcept>

namespace halfulp {
namespace {

enum class Class : std::uint8_t { finite, infinite, nan };

Class class_of(const FloatFormat& f, std::uint64_t code) {
  return f.is_nan(code) ? Class::nan : f.is_infinite(code) ? Class::infinite : Class::finite;
}

/// Ranges of consecutive operands of one piece of work.
template <class Word>
class Walker {
 public:
  explicit Walker(const CastQuestion& q) : q_(q) {}

  /// Operands in ascending order; results with the same fields as the target.
  void walk(std::span<const Word> in, std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) {
    const auto constant = [](std::span<const std::uint32_t> x) {
      return std::memcmp(x.data(), x.data() + 1, x.size_bytes() - sizeof x[0]) == 0;
    };
    if (std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) {
      open_ = false;
      return;
    }
    const bool one_kind = class_of(q_.from, in.front()) == class_of(q_.from, in.back()) &&
                          q_.from.sign(in.front()) == q_.from.sign(in.back());
    if (one_kind && constant(a) && constant(b)) {  // in.front() speaks for all
      step(in.front(), a[0], b[0]);
      if (!open_) return;
      found.ranges.back().last = in.back();
      found.ranges.back().count += in.size() - 1;
      found.differing += in.size() - 1;
      if (q_.from.magnitude(in.back()) < q_.from.magnitude(*found.witness)) found.witness = in.back();
      return;
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (a[i] == b[i]) {
        open_ = false;
        continue;
      }
      step(in[i], a[i], b[i]);
    }
  }
  CastDifferences found;

 private:
  void step(std::uint64_t in, std::uint32_t a, std::uint32_t b) {
    const Class kind = class_of(q_.from, in);
    const bool same_results = open_ && a == a_ && b == b_;
    if (!same_results) {
      const FloatFormat& to = q_.a->to;
      const Class ka = class_of(to, a), kb = class_of(to, b);
      if (q_.any_nan && ka == Class::nan && kb == Class::nan) {
        open_ = false;
        return;
      }
      if (open_ && (ka != ka_ || kb != kb_)) open_ = false;
      ka_ = ka, kb_ = kb;
    }
    if (open_ && (kind != kind_ || q_.from.sign(in) != q_.from.sign(found.ranges.back().last))) open_ = false;
    if (!open_) found.ranges.push_back({in, in, 0, a, a, b, b, true});
    CastRange& range = found.ranges.back();
    range.last = in, range.a_last = a, range.b_last = b;
    range.constant &= !open_ || same_results;
    ++range.count;
    ++found.differing;
    open_ = true, a_ = a, b_ = b, kind_ = kind;
    if (!found.witness || q_.from.magnitude(in) < q_.from.magnitude(*found.witness)) found.witness = in;
  }

  const CastQuestion& q_;
  bool open_ = false;
  std::uint32_t a_ = 0, b_ = 0;
  Class kind_{}, ka_{}, kb_{};
};

/// Appends what a later piece of work found; ranges that meet become one.
void append(const CastQuestion& q, CastDifferences& all, CastDifferences&& piece, bool adjacent) {
  all.compared += piece.compared;
  all.differing += piece.differing;
  if (piece.witness && (!all.witness || q.from.magnitude(*piece.witness) < q.from.magnitude(*all.witness)))
    all.witness = piece.witness;
  std::size_t from = 0;
  if (adjacent && !all.ranges.empty() && !piece.ranges.empty()) {
    CastRange& last = all.ranges.back();
    const CastRange& next = piece.ranges.front();
    const FloatFormat& to = q.a->to;
    if (last.last + 1 == next.first && class_of(q.from, last.last) == class_of(q.from, next.first) &&
        q.from.sign(last.last) == q.from.sign(next.first) && class_of(to, last.a_last) == class_of(to, next.a_first) &&
        class_of(to, last.b_last) == class_of(to, next.b_first)) {
      last.constant = last.constant && next.constant && last.a_last == next.a_first && last.b_last == next.b_first;
      last.last = next.last, last.a_last = next.a_last, last.b_last = next.b_last;
      last.count += next.count;
      from = 1;
    }
  }
  all.ranges.insert(all.ranges.end(), piece.ranges.begin() + static_cast<std::ptrdiff_t>(from), piece.ranges.end());
}

template <class Word>
CastDifferences compare(const CastQuestion& q, std::span<const Word> in) {
  Walker<Word> walker(q);
  constexpr std::size_t block = 4096;
  std::vector<std::uint32_t> a(std::min(block, in.size())), b(a.size());
  for (std::size_t at = 0; at < in.size(); at += block) {
    const auto part = in.subspan(at, std::min(block, in.size() - at));
    const auto ra = std::span(a).first(part.size()), rb = std::span(b).first(part.size());
    apply(*q.a, q.from, part, ra);
    apply(*q.b, q.from, part, rb);
    walker.walk(part, ra, rb);
  }
  walker.found.compared = in.size();
  return std::move(walker.found);
}

/// All codes of a format of at most 32 bits.
template <class Word>
CastDifferences compare_all(const CastQuestion& q, const std::function<void(double)>& progress) {
  const int bits = q.from.storage_bits();
  const std::uint64_t piece = std::uint64_t{1} << std::min(bits, 22);
  const std::size_t pieces = static_cast<std::size_t>((std::uint64_t{1} << bits) / piece);
  std::vector<CastDifferences> found(pieces);
  std::mutex mutex;
  std::size_t done = 0;
  tbb::parallel_for(std::size_t{0}, pieces, [&](std::size_t i) {
    std::vector<Word> in(static_cast<std::size_t>(piece));
    for (std::uint64_t k = 0; k < piece; ++k) in[k] = static_cast<Word>(i * piece + k);
    found[i] = compare<Word>(q, in);
    const std::lock_guard lock(mutex);
    if (progress) progress(static_cast<double>(++done) / static_cast<double>(pieces));
  });
  CastDifferences all;
  for (CastDifferences& part : found) append(q, all, std::move(part), true);
  return all;
}

}  // namespace

std::vector<std::uint64_t> sampled_operands(const FloatFormat& from, const FloatFormat& to) {
  std::vector<std::uint64_t> codes;
  const auto around = [&](std::uint64_t code, std::uint64_t distance) {
    for (const std::uint64_t c : {code - distance, code, code + distance})
      if (from.magnitude(c) == c) codes.push_back(c);
  };
  const int dropped = from.fraction_bits - fp32.fraction_bits;
  const std::uint64_t stride = to.storage_bits() > 8 ? 61 : 1;  // wide targets: some of their values
  std::uint64_t before = 0;
  for (std::uint64_t m = 0; m <= to.max_finite();
       m += m + stride < to.max_finite() || m == to.max_finite() ? stride : to.max_finite() - m) {
    const std::uint64_t next = std::min(m + 1, to.max_finite());
    const double value = to.value(m), above = next == m ? value + (value - to.value(m - 1)) : to.value(next);
    const std::uint64_t here = convert(fp64, from, {}, std::bit_cast<std::uint64_t>(value)).code;
    const std::uint64_t middle =
        convert(fp64, from, {}, std::bit_cast<std::uint64_t>(value + (above - value) / 2)).code;
    for (const std::uint64_t centre : {here, middle})
      for (const std::uint64_t distance :
           {std::uint64_t{1}, std::uint64_t{1} << 8, std::uint64_t{1} << (dropped > 0 ? dropped - 1 : 0),
            std::uint64_t{3} << (dropped > 0 ? dropped - 1 : 0)})
        around(centre, distance);
    before = here;
  }
  around(from.infinity(), 1);
  around(before, 1);
  for (const std::uint64_t special : {std::uint64_t{0}, std::uint64_t{1}, from.min_normal(), from.max_finite(),
                                      from.infinity() | 1, from.canonical_nan(), from.magnitude_mask()})
    around(special, 1);
  for (std::uint64_t i = 0; i < 1 << 18; ++i) {
    const std::uint64_t high = rounding_bits(1, 0, 2 * i), low = rounding_bits(1, 0, 2 * i + 1);
    codes.push_back((high << 32 | low) & from.magnitude_mask());
    // As many within reach of the target.
    codes.push_back((codes.back() & from.fraction_mask()) |
                    ((static_cast<std::uint64_t>(to.emin() - to.fraction_bits - 2 + from.bias) +
                      high % static_cast<std::uint64_t>(to.emax() - to.emin() + to.fraction_bits + 6))
                     << from.fraction_bits));
  }
  const std::size_t positive = codes.size();
  for (std::size_t i = 0; i < positive; ++i) codes.push_back(codes[i] | from.sign_mask());
  std::sort(codes.begin(), codes.end());
  codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
  return codes;
}

CastDifferences differences(const CastQuestion& question, const std::function<void(double)>& progress) {
  if (question.a->to != question.b->to)
    throw std::invalid_argument("rules for " + format_name(question.a->to) + " and " + format_name(question.b->to) +
                                " have nothing to compare");
  if (question.from.storage_bits() <= 16) return compare_all<std::uint16_t>(question, progress);
  if (question.from.storage_bits() <= 32) return compare_all<std::uint32_t>(question, progress);
  const std::vector<std::uint64_t> operands = sampled_operands(question.from, question.a->to);
  CastDifferences all = compare<std::uint64_t>(question, operands);
  all.exhaustive = false;
  return all;
}

}  // namespace halfulp
