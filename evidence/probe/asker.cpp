#include <halfulp/evidence/probe/questions.hpp>

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/emulation/random.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace halfulp::probe {
namespace {

Rounded converted(const FloatFormat& f, double x) { return convert(fp64, f, {}, std::bit_cast<std::uint64_t>(x)); }

/// The largest exponent e such that x * 2^e is a number of the format.
int top_exponent(const FloatFormat& f, double x) {
  const int e = f.emax();
  return x * FloatFormat::power_of_two(e) <= f.value(f.max_finite()) ? e : e - 1;
}

}  // namespace

std::uint64_t word_of(const FloatFormat& f, double x) { return code_word(f, converted(f, x).code); }

int swept_bits(const FloatFormat& accumulator) { return std::min(accumulator.fraction_bits, 24); }

Asker::Asker(const MatrixShape& shape)
    : shape_(shape),
      least_(shape.a.emin() + shape.b.emin()),
      largest_(shape.a.emax() + shape.b.emax()),
      a_(static_cast<std::size_t>(shape.k)),
      b_(a_.size()) {
  if (shape.scale_block != 0) {
    const auto block = static_cast<std::size_t>(shape.scale_block);
    scale_a_.resize((a_.size() + block - 1) / block);
    scale_b_.resize(scale_a_.size());
    least_ += 2 * shape.scale.emin(), largest_ += 2 * shape.scale.emax();
  }
  clear();
}

void Asker::clear() {
  const std::uint64_t one = scale_a_.empty() ? 0 : word_of(shape_.scale, 1);
  for (auto* scales : {&scale_a_, &scale_b_}) std::fill(scales->begin(), scales->end(), one);
  powers_.assign(scale_a_.size(), std::nullopt);
  for (auto* words : {&a_, &b_}) std::fill(words->begin(), words->end(), 0);
  c_ = 0;
}

bool Asker::scale_by(std::size_t block, int power) {
  const FloatFormat& scale = shape_.scale;
  const int i = std::clamp(power / 2, scale.emin(), scale.emax()), j = power - i;
  if (j < scale.emin() || j > scale.emax()) return false;
  scales(block, word_of(scale, FloatFormat::power_of_two(i)), word_of(scale, FloatFormat::power_of_two(j)));
  powers_[block] = power;
  return true;
}

bool Asker::product(std::size_t at, int t, bool negative, double x, double y) {
  const FloatFormat &a = shape_.a, &b = shape_.b;
  const int top_a = top_exponent(a, x), top_b = top_exponent(b, y), least = a.emin() + b.emin();
  if (blocks() != 0) {
    // The block's scales take what operands cannot; the first product of a block chooses them, so that smaller ones fit
    // beside it.
    const std::size_t block = at / static_cast<std::size_t>(shape_.scale_block);
    if (!powers_[block] && !scale_by(block, least <= t && t <= top_a + top_b ? 0 : t - top_a - top_b)) return false;
    t -= *powers_[block];
  }
  const bool subnormal = t < least;
  if (subnormal && (x != 1 || y != 1)) return false;
  const int end_a = a.emin() - (subnormal ? a.fraction_bits : 0), end_b = b.emin() - (subnormal ? b.fraction_bits : 0);
  if (t < end_a + end_b || t > top_a + top_b) return false;
  const int i = std::clamp(t / 2, std::max(end_a, t - top_b), std::min(top_a, t - end_b));
  words(at, word_of(a, std::ldexp(negative ? -x : x, i)), word_of(b, std::ldexp(y, t - i)));
  return true;
}

bool Asker::addend(double x) {
  const Rounded code = converted(shape_.accumulator, x);
  if (code.flags != 0) return false;
  c_ = code.code;
  return true;
}

void Asker::ask(Topic topic) {
  questions_.cases.add({a_, b_, scale_a_, scale_b_}, c_);
  questions_.topics.push_back(topic);
  clear();
}

std::uint64_t Asker::random() { return random_word(2026, 0, drawn_++); }

Questions ask(const MatrixShape& shape) {
  Asker asker(shape);
  for (const auto part : {ask_specials, ask_zeros, ask_subnormals, ask_addends, ask_order, ask_cancellations, ask_pairs,
                          ask_roundings, ask_crowds, ask_small, ask_scattered})
    part(asker);
  return std::move(asker).take();
}

}  // namespace halfulp::probe
