// Every narrow format: the operation in double, then the rounding to the format by the fp64 adder.
//
// Why that is right. Let x be the operation's result as in_double.hpp rounds it, e its exponent, q = 2^(max(e, emin) -
// fraction_bits) the weight of the last bit that the format keeps of it, and M = 1.5 * 2^52 * q with the sign of x.
// Since |x| < 2^50 * q, x + M stays in the binade of M, whose last bit weighs q: the adder must round x to a multiple
// of q in the mode of MXCSR, ties to even included (M / q is even). Subtracting M is exact. Below 2^emin, q no longer
// shrinks: subnormal results are rounded where they should be. A zero takes the sign of x, which is the operation's
// own. (For x beyond the range e is held at emax + 1: the sum is inexact, but stays beyond the range.) What lies beyond
// the largest finite value is handled in software, but the adder decides whether overflow goes to infinity: what does
// DBL_MAX + DBL_MAX give in this mode?
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/x86/in_double.hpp>
#include <halfulp/hardware/x86/x86.hpp>
#include <halfulp/hardware/x86/adder_lanes.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace halfulp::x86 {

#if defined(__x86_64__)
namespace {

/// The second rounding, and everything beyond the range.
class LastRounding {
 public:
  LastRounding(const FloatFormat& f, const Task& task, bool propagate)
      : f_(f),
        codec_(f),
        max_(codec_.value(f.max_finite())),
        lowest_(f.emin() + 1023),
        highest_(f.emax() + 1 + 1023),
        saturates_(task.rounding.overflow == Overflow::saturate),
        converts_(task.operation == Operation::convert),
        propagate_(propagate) {}

  std::uint64_t operator()(double x) const {
    const double rounded = round(x);
    const bool negative = std::signbit(x);
    if (std::isnan(rounded)) {
      if (!propagate_) return f_.canonical_nan();
      const std::uint64_t payload = std::bit_cast<std::uint64_t>(rounded) >> (52 - f_.fraction_bits) &
                                    f_.fraction_mask();
      return f_.with_sign(f_.infinity() | payload, std::signbit(rounded));
    }
    if (std::abs(rounded) <= max_) return codec_.code(rounded);
    const bool exact = std::isinf(x);
    const double huge = std::copysign(std::numeric_limits<double>::max(), x);
    const bool to_infinity = exact || std::isinf(add(huge, huge));
    const bool keeps_infinity = exact && f_.has_infinity() && !converts_;  // saturation is for overflow and conversions
    if (to_infinity && (!saturates_ || keeps_infinity)) {
      if (f_.has_infinity()) return f_.infinity(negative);
      if (f_.has_nan()) return f_.canonical_nan();
    }
    return f_.with_sign(f_.max_finite(), negative);
  }

 private:
  double round(double x) const {
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
    constexpr std::uint64_t sign_bit = std::uint64_t{1} << 63, half = std::uint64_t{1} << 51;
    const int e = std::clamp(static_cast<int>(bits >> 52 & 0x7ff), lowest_, highest_);
    const auto magic = std::bit_cast<double>((bits & sign_bit) |
                                             static_cast<std::uint64_t>(e + 52 - f_.fraction_bits) << 52 | half);
    return std::copysign(sub(add(x, magic), magic), x);
  }

  FloatFormat f_;
  Codec codec_;
  double max_;
  int lowest_, highest_;
  bool saturates_, converts_, propagate_;
};

bool compares(Operation operation) { return info(operation).result == ResultKind::truth; }

class Adder final : public Route {
 public:
  std::string_view name() const override { return "x86.adder"; }

  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    const auto* to = std::get_if<FloatFormat>(&task.to);
    if (!to || compares(task.operation)) return run_to_integers(task, operands, results);
    if (AdderLanes::take(task) && operands.size() > block_size) return run_lanes(task, operands, results);
    double block[block_size];
    for (std::size_t begin = 0; begin < operands.size(); begin += block_size) {
      const std::size_t count = std::min(block_size, operands.size() - begin);
      compute_in_double(task, operands.slice(begin, count), block);
      const ScopedMxcsr scope(mxcsr_for(task.rounding.mode));
      if (*to == fp64) {
        for (std::size_t i = 0; i < count; ++i) results[begin + i] = std::bit_cast<std::uint64_t>(mul(block[i], 1.0));
      } else {
        const LastRounding narrow(*to, task, nan_rule(task) == NanRule::propagate);
        for (std::size_t i = 0; i < count; ++i) results[begin + i] = narrow(block[i]);
      }
    }
  }

 protected:
  std::string_view missing(const CpuFeatures& cpu) const override { return cpu.x86 ? "" : "SSE2"; }

  Support judge(const Task& task) const override {
    for (const NumberType& type : {task.from, task.to}) {
      const auto* f = std::get_if<FloatFormat>(&type);
      const bool end_of_conversion = task.operation == Operation::convert && f && *f == fp64;
      if (f && !Codec::takes(*f) && !end_of_conversion)
        return Support::no(
            format_name(*f) +
            ": only signed formats with a zero, 1 to 48 fraction bits and values well inside the range of fp64");
    }
    if (is(task.to, fp64)) {
      if (std::holds_alternative<IntegerType>(task.from)) return Support::no("left to SSE");
      if (task.rounding.overflow == Overflow::saturate) return Support::no("nothing saturates on the way to fp64");
    }
    if (task.rounding.flush_inputs || task.rounding.flush_outputs)
      return Support::no("DAZ and FTZ work on fp32 and fp64 only");
    if (task.operation == Operation::fma && !cpu().fma) return Support::no("this CPU has no FMA");
    if (task.operation == Operation::round_to_integral && !cpu().sse41) return Support::no("this CPU has no SSE4.1");
    if (compares(task.operation)) return Support::by("(U)COMISD (SSE2)");
    if (std::holds_alternative<IntegerType>(task.to)) return Support::by("CVTSD2SI (SSE2)");
    if (is(task.to, fp64)) return Support::by("MULSD by 1 (SSE2)");
    const std::string_view first = task.operation == Operation::convert             ? ""
                                   : task.operation == Operation::fma               ? "VFMADD231SD (FMA3), "
                                   : task.operation == Operation::round_to_integral ? "ROUNDSD (SSE4.1), "
                                   : task.operation == Operation::sqrt              ? "SQRTSD, "
                                   : task.operation == Operation::div               ? "DIVSD, "
                                   : task.operation == Operation::mul               ? "MULSD, "
                                   : task.operation == Operation::sub               ? "SUBSD, "
                                                                                    : "ADDSD, ";
    return Support::by(std::string(first) + "rounded by the fp64 adder (SSE2), range in software");
  }

 private:
  /// Whole vectors; which NaN an operation gives is left to the scalar instructions.
  void run_lanes(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const {
    const std::uint64_t nan = std::get<FloatFormat>(task.to).canonical_nan();
    std::uint64_t a[block_size], b[block_size], out[block_size];
    std::size_t places[block_size];
    const AdderLanes lanes(task);
    for (std::size_t begin = 0; begin < operands.size(); begin += block_size) {
      const Operands block = operands.slice(begin, std::min(block_size, operands.size() - begin));
      const auto part = results.subspan(begin, block.size());
      lanes.run(block, part);
      std::size_t count = 0;
      for (std::size_t i = 0; i < part.size(); ++i) {
        a[count] = block.a[i];
        b[count] = block.b.empty() ? 0 : block.b[i];
        places[count] = i;
        count += part[i] == nan;
      }
      if (count == 0) continue;
      run(task, {{a, count}, {b, block.b.empty() ? 0 : count}, {}}, {out, count});
      for (std::size_t i = 0; i < count; ++i) part[places[i]] = out[i];
    }
  }

  static void run_to_integers(const Task& task, const Operands& x, std::span<std::uint64_t> results) {
    const Codec codec(std::get<FloatFormat>(task.from));
    const ScopedMxcsr scope(mxcsr_for(task.rounding.mode));
    const bool wide = is(task.to, i64);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double a = codec.value(x.a[i]);
      switch (task.operation) {
        case Operation::eq: results[i] = eq(a, codec.value(x.b[i])); break;
        case Operation::lt: results[i] = lt(a, codec.value(x.b[i])); break;
        case Operation::le: results[i] = le(a, codec.value(x.b[i])); break;
        default: results[i] = wide ? static_cast<std::uint64_t>(to_i64(a)) : static_cast<std::uint32_t>(to_i32(a));
      }
    }
  }
};

}  // namespace

const Device& adder_route() {
  static const Adder route;
  return route;
}
#endif

}  // namespace halfulp::x86
