// What a differential target chooses by its bytes: formats, roundings, code words, an instruction set.
#pragma once

#include "check.hpp"
#include "fuzz_target.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/operation.hpp>

#include <hwy/targets.h>

#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace fuzz {

using namespace halfulp;

/// Choices in the order of the bytes; zeros when these have run out.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  bool empty() const { return size_ == 0; }
  std::uint64_t bits(int bytes) {
    std::uint64_t all = 0;
    for (; bytes > 0 && size_ > 0; --bytes, ++data_, --size_) all = all << 8 | *data_;
    return all;
  }
  std::uint64_t below(std::uint64_t n) { return n < 2 ? 0 : bits(n > 256 ? 4 : 1) % n; }
  int below(int n) { return static_cast<int>(below(static_cast<std::uint64_t>(n))); }
  bool flag() { return below(2) != 0; }
  template <class Range>
  const auto& one_of(const Range& all) {
    return all[below(std::size(all))];
  }

  /// A format of the catalogue, or any descriptor, which may have a defect.
  FloatFormat format() {
    if (below(4) != 0) return one_of(catalogue()).format;
    FloatFormat f;
    f.exponent_bits = 1 + below(11);
    f.fraction_bits = below(25);
    f.bias = (1 << (f.exponent_bits - 1)) - 1 + (flag() ? below(61) - 30 : 0);
    f.nonfinite = static_cast<NonFinite>(below(5));
    return f;
  }
  Rounding rounding() {
    Rounding r;
    r.mode = one_of(rounding_modes).value;
    const int rules = static_cast<int>(bits(1));
    r.overflow = rules & 1 ? Overflow::saturate : Overflow::ieee;
    r.flush_inputs = (rules & 6) == 6;
    r.flush_outputs = (rules & 10) == 10;
    r.tininess = rules & 16 ? Tininess::before : Tininess::after;
    r.nan = one_of(nan_rules).value;
    if (rules & 32) r.random_bits = 1 + below(max_random_bits);
    if (rules & 64) r.variant = one_of(stochastic_variants).value;
    return r;
  }
  /// Of roundings that share words if their bits and the seed allow it.
  RandomStream stream(const Rounding& r) {
    RandomStream stream{bits(1), bits(1), bits(5)};
    stream.roundings_per_word = stream.seed % 4 == 2 ? 2 : stream.seed % 4 == 3 ? 4 : 1;
    if (!refusal(r, stream).empty()) stream.roundings_per_word = 1;
    return stream;
  }
  check::Random random() { return {bits(8)}; }

  /// So many code words of a format: as many as there are from a share of the bytes, and drawn ones.
  template <class Code>
  std::vector<Code> codes(const FloatFormat& f, std::size_t count) {
    check::Random draw = random();
    const std::uint64_t edges[] = {0,
                                   f.min_positive(),
                                   f.min_normal(),
                                   f.max_finite(),
                                   f.magnitude_mask(),
                                   static_cast<std::uint64_t>(std::max(f.bias, 0)) << f.fraction_bits};
    std::vector<Code> all(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t word = i < 8 && !empty() ? bits(f.storage_bytes()) : draw();
      const bool edge = draw() % 4 == 0;  // or one of its neighbours
      all[i] = static_cast<Code>(
          (edge ? edges[draw() % std::size(edges)] + draw() % 3 - 1 + (word & f.sign_mask()) : word) & f.code_mask());
    }
    return all;
  }

  /// One of this CPU's instruction sets for the array functions, until the next choice.
  void instruction_set() {
    const auto sets = hwy::SupportedAndGeneratedTargets();
    hwy::SetSupportedTargetsForTest(one_of(sets));
    hwy::GetChosenTarget().DeInit();
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

/// A caller whose arithmetic rounds and flushes in its own way, and whose exception flags are clear: functions must
/// neither mind nor change that.
class Environment {
 public:
#if defined(__SSE2__)
  explicit Environment(Choices& choices)
      : before_(_mm_getcsr()), own_(0x1f80u | choices.bits(1) % 4 << 13 | (choices.flag() ? 0x8040u : 0)) {
    _mm_setcsr(own_);
  }
  ~Environment() {
    const unsigned left = _mm_getcsr();
    _mm_setcsr(before_);
    demand(left == own_, "the caller's floating-point environment stays");
  }

 private:
  unsigned before_, own_;
#else
  explicit Environment(Choices& choices) { choices.bits(2); }
#endif
};

/// Calls a function with a caller's environment.
template <class F>
void in_environment(Choices& choices, F f) {
  const Environment environment(choices);
  f();
}

/// Fails unless two results of everything that was asked are the same. `about` says what was asked.
template <class Got, class Want, class About>
void demand_same(const Got& got, const Want& want, std::size_t i, const About& about) {
  if (got == want) return;
  std::ostringstream text;
  text << about() << ": element " << i << std::hex << " is " << +got << ", not " << +want;
  demand(false, text.str().c_str());
}

}  // namespace fuzz
