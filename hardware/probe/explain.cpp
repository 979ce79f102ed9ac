// Findings in words.
#include <halfulp/hardware/probe/infer.hpp>

#include <halfulp/emulation/text.hpp>

#include <bit>

namespace halfulp::probe {
namespace {

/// A value exactly: a short decimal, a power of two times a small odd number, or hexadecimal.
std::string number(const FloatFormat& f, std::uint64_t word) {
  const std::uint64_t code = word_code(f, word);
  if (!f.is_finite(code) || f.is_zero(code)) return print(f, code);
  std::string exact = print_exact(f, code);
  if (exact.size() <= 6) return exact;
  const std::uint64_t significand = f.significand(code);
  const int zeros = std::countr_zero(significand), exponent = f.exponent(code) + zeros;
  const std::uint64_t odd = significand >> zeros;
  const std::string sign = f.sign(code) ? "-" : "";
  if (odd == 1) return sign + "2^" + std::to_string(exponent);
  // 2^e + 2^last, where that is all
  if (const std::uint64_t top = std::bit_floor(odd); odd - top == 1) {
    const auto power = [](int e) { return e >= 0 && e < 4 ? std::to_string(1 << e) : "2^" + std::to_string(e); };
    return sign + "(" + power(static_cast<int>(std::bit_width(odd)) - 1 + exponent) + " + " + power(exponent) + ")";
  }
  return odd < 1000 ? sign + std::to_string(odd) + "*2^" + std::to_string(exponent) : print_hex(f, code);
}

std::string value_text(const MatrixShape& shape, Parameter p, const Interval& i) {
  if (i.first == i.last) return text(shape, p, i.first);
  const bool open = p == Parameter::least_exponent && i.first == FusedSum::no_least_exponent;
  if (open) return "none to " + text(shape, p, i.last);
  if (i.last - i.first == 1) return text(shape, p, i.first) + " or " + text(shape, p, i.last);
  if (p == Parameter::alignment || p == Parameter::rounding) {
    std::string all;
    for (std::int64_t v = i.first; v <= i.last; ++v) all += (all.empty() ? "" : ", ") + text(shape, p, v);
    return all;
  }
  return text(shape, p, i.first) + " to " + text(shape, p, i.last);
}

}  // namespace

std::string sentence(const MatrixShape& shape, const Finding& f) {
  std::string values;
  for (const Interval& i : f.values) values += (values.empty() ? "" : ", ") + value_text(shape, f.parameter, i);
  std::string line = std::string(info(f.parameter).name) + " = " + text(shape, f.parameter, f.value) + ": " + std::string(info(f.parameter).meaning);
  if (f.because.empty()) return line;
  return line + ". Any of " + values + " gives the same: " + f.because;
}

std::string operands_text(const MatrixShape& shape, const MatrixCases& cases, std::size_t question) {
  constexpr int most = 4;
  const Products x = cases.products(question);
  std::string line;
  int shown = 0;
  for (std::size_t i = 0; i < x.a.size(); ++i) {
    if (shape.a.is_zero(word_code(shape.a, x.a[i])) && shape.b.is_zero(word_code(shape.b, x.b[i]))) continue;
    if (++shown > most) continue;
    const std::string at = "[" + std::to_string(i) + "]";
    line += "a" + at + "*b" + at + " = " + number(shape.a, x.a[i]) + "*" + number(shape.b, x.b[i]) + ", ";
  }
  if (shown > most) line += "... (" + std::to_string(shown) + " products), ";
  const std::uint64_t one = shape.scale_block != 0 ? static_cast<std::uint64_t>(shape.scale.bias) << shape.scale.fraction_bits : 0;
  for (const auto& [name, scales] : {std::pair{"a", x.scale_a}, std::pair{"b", x.scale_b}})
    for (std::size_t i = 0; i < scales.size(); ++i)
      if (scales[i] != one) line += "scale of " + std::string(name) + " [" + std::to_string(i) + "] = " + number(shape.scale, scales[i]) + ", ";
  return line + "c = " + number(shape.accumulator, cases.c[question]);
}

}  // namespace halfulp::probe
