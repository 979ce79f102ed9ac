#include <halfulp/hardware/x86/in_double.hpp>

#if defined(__x86_64__)

#include <cmath>
#include <limits>
#include <stdexcept>

namespace halfulp::x86 {

Codec::Codec(const FloatFormat& f)
    : f_(f), shift_(52 - f.fraction_bits), max_finite_(f.max_finite()), magnitude_mask_(f.magnitude_mask()) {
  up_ = FloatFormat::power_of_two(1023 - f.bias);
  down_ = FloatFormat::power_of_two(f.bias - 1023);
}

double Codec::value(std::uint64_t code) const {
  const std::uint64_t magnitude = code & magnitude_mask_;
  if (magnitude - 1 >= max_finite_) return special_value(code);  // 0 wraps around
  const std::uint64_t sign = f_.sign(code) ? std::uint64_t{1} << 63 : 0;
  return mul(std::bit_cast<double>(sign | magnitude << shift_), up_);
}

double Codec::special_value(std::uint64_t code) const {
  const std::uint64_t sign = f_.sign(code) ? std::uint64_t{1} << 63 : 0;
  constexpr std::uint64_t infinity = 0x7ff0'0000'0000'0000;
  if (!f_.is_nan(code)) return std::bit_cast<double>(sign | (f_.is_infinite(code) ? infinity : 0));
  if (f_.nonfinite != NonFinite::ieee) return std::numeric_limits<double>::quiet_NaN();
  return std::bit_cast<double>(sign | infinity | (code & f_.fraction_mask()) << shift_);
}

std::uint64_t Codec::code(double value) const {
  if (value == 0) return f_.zero(std::signbit(value));
  return f_.with_sign(std::bit_cast<std::uint64_t>(mul(std::abs(value), down_)) >> shift_, std::signbit(value));
}

namespace {

template <class F>
void each(const Operands& operands, std::span<double> results, RoundingMode mode, F operation) {
  if (mode == RoundingMode::nearest_even) {
    for (std::size_t i = 0; i < operands.size(); ++i) results[i] = odd_where_inexact(operation(i));
  } else {
    for (std::size_t i = 0; i < operands.size(); ++i) results[i] = operation(i);
  }
}

std::int64_t signed_value(IntegerType type, std::uint64_t bits) {
  return type == i32 ? static_cast<std::int32_t>(bits) : static_cast<std::int64_t>(bits);
}

}  // namespace

void compute_in_double(const Task& task, const Operands& operands, std::span<double> results) {
  const RoundingMode mode = task.rounding.mode;
  const ScopedMxcsr scope(mxcsr_before(mode));
  if (const auto* type = std::get_if<IntegerType>(&task.from)) {
    each(operands, results, mode, [&](std::size_t i) { return to_double(signed_value(*type, operands.a[i])); });
    return;
  }
  const Codec codec(std::get<FloatFormat>(task.from));
  const auto a = [&](std::size_t i) { return codec.value(operands.a[i]); };
  const auto b = [&](std::size_t i) { return codec.value(operands.b[i]); };
  const auto c = [&](std::size_t i) { return codec.value(operands.c[i]); };
  switch (task.operation) {
    case Operation::add: return each(operands, results, mode, [&](std::size_t i) { return add(a(i), b(i)); });
    case Operation::sub: return each(operands, results, mode, [&](std::size_t i) { return sub(a(i), b(i)); });
    case Operation::mul: return each(operands, results, mode, [&](std::size_t i) { return mul(a(i), b(i)); });
    case Operation::div: return each(operands, results, mode, [&](std::size_t i) { return div(a(i), b(i)); });
    case Operation::sqrt: return each(operands, results, mode, [&](std::size_t i) { return sqrt(a(i)); });
    case Operation::fma: return each(operands, results, mode, [&](std::size_t i) { return fma(a(i), b(i), c(i)); });
    case Operation::round_to_integral: {  // one rounding to an integer, in the task's own mode; the value is then exact
      write_mxcsr(mxcsr_for(mode));
      for (std::size_t i = 0; i < operands.size(); ++i) results[i] = round_to_integral(a(i));
      return;
    }
    case Operation::convert:
      for (std::size_t i = 0; i < operands.size(); ++i) results[i] = a(i);
      return;
    default: throw std::logic_error("compute_in_double: not an arithmetic operation");
  }
}

}  // namespace halfulp::x86

#endif
