// Vectors of doubles through the CPU's adder; see adder.cpp for why the last rounding is right.
//
// There the first rounding of nearest-even is one to odd, made with the CPU's inexact flag. A vector has one flag for
// all its lanes, so here it is made of the CPU's directed roundings: of the results rounded down and rounded up, which
// are neighbours or equal, the odd one.
//
// MXCSR holds the mode, and compilers know nothing of it: every kernel is called through a pointer,
// between the writes of the register, and this file is compiled with -frounding-math.
#if defined(__x86_64__)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "hardware/x86/adder_lanes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <halfulp/hardware/x86/in_double.hpp>
#include <halfulp/hardware/x86/x86.hpp>
#include <halfulp/hardware/x86/adder_lanes.hpp>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace halfulp::x86::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Widening = AdderLanes::Widening;
using Narrowing = AdderLanes::Narrowing;

HWY_ATTR void decode(const Widening& f, const std::uint64_t* codes, double* out, std::size_t count) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const auto up = hn::Set(d, f.up);
  const auto mask = hn::Set(du, f.magnitude_mask), all_ones = hn::Set(du, std::uint64_t{0x7ff} << 52);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto code = hn::LoadU(du, codes + i), magnitude = hn::And(code, mask);
    const auto fields = hn::ShiftLeftSame(magnitude, f.shift);
    const auto finite = hn::Mul(hn::BitCast(d, fields), up);
    // Inf and NaN: the exponent becomes all ones, payloads stay.
    const auto not_finite = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, static_cast<std::int64_t>(f.infinity) - 1));
    const auto value = hn::IfThenElse(hn::RebindMask(d, not_finite), hn::BitCast(d, hn::Or(fields, all_ones)), finite);
    const auto sign = hn::ShiftLeftSame(hn::AndNot(mask, code), f.sign_shift);
    hn::StoreU(hn::Or(value, hn::BitCast(d, sign)), d, out + i);
  }
}

template <class F>
HWY_INLINE void each(const double* a, const double* b, double* out, std::size_t count, F f) {
  const hn::ScalableTag<double> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d))
    hn::StoreU(f(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
}

/// In the mode of MXCSR.
HWY_ATTR void combine(Operation operation, const double* a, const double* b, double* out, std::size_t count) {
  using V = hn::Vec<hn::ScalableTag<double>>;
  switch (operation) {
    case Operation::add: return each(a, b, out, count, [](V x, V y) HWY_ATTR { return hn::Add(x, y); });
    case Operation::sub: return each(a, b, out, count, [](V x, V y) HWY_ATTR { return hn::Sub(x, y); });
    case Operation::mul: return each(a, b, out, count, [](V x, V y) HWY_ATTR { return hn::Mul(x, y); });
    default: return each(a, b, out, count, [](V x, V y) HWY_ATTR { return hn::Div(x, y); });
  }
}

/// The odd one of each pair, in place of the first.
HWY_ATTR void odd_of(double* down, const double* up, std::size_t count) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto low = hn::LoadU(d, down + i);
    const auto odd = hn::TestBit(hn::BitCast(du, low), hn::Set(du, 1));
    hn::StoreU(hn::IfThenElse(hn::RebindMask(d, odd), low, hn::LoadU(d, up + i)), d, down + i);
  }
}

/// The second rounding, in the mode of MXCSR, and everything beyond the range.
HWY_ATTR void round_to_codes(const Narrowing& f, const double* in, std::uint64_t* out, std::size_t count) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto exponent = hn::Set(du, std::uint64_t{0x7ff} << 52);
  const auto aligned = hn::Set(du, static_cast<std::uint64_t>(f.shift) << 52),
             half = hn::Set(du, std::uint64_t{1} << 51);
  const auto lowest = hn::Set(d, f.lowest), highest = hn::Set(d, f.highest), max = hn::Set(d, f.max),
             down = hn::Set(d, f.down);
  const auto infinite = hn::BitCast(d, exponent);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, in + i), held = hn::Min(hn::Max(hn::Abs(x), lowest), highest);
    const auto binade = hn::And(hn::BitCast(du, held), exponent);
    const auto magic = hn::CopySignToAbs(hn::BitCast(d, hn::Or(hn::Add(binade, aligned), half)), x);
    const auto rounded = hn::Abs(hn::Sub(hn::Add(x, magic), magic));
    auto code = hn::ShiftRightSame(hn::BitCast(du, hn::Mul(rounded, down)), f.shift);
    const auto sign = hn::ShiftRightSame(hn::AndNot(hn::BitCast(du, hn::Abs(x)), hn::BitCast(du, x)), f.sign_shift);
    code = hn::Or(code, sign);
    const auto beyond = hn::RebindMask(du, hn::Gt(rounded, max));
    const auto over = hn::IfThenElse(hn::Eq(sign, hn::Zero(du)), hn::Set(du, f.over[0]), hn::Set(du, f.over[1]));
    code = hn::IfThenElse(beyond, over, code);
    code = hn::IfThenElse(hn::RebindMask(du, hn::Eq(hn::Abs(x), infinite)), hn::Or(hn::Set(du, f.infinite), sign),
                          code);
    code = hn::IfThenElse(hn::RebindMask(du, hn::Eq(x, x)), code, hn::Set(du, f.nan));
    hn::StoreU(code, du, out + i);
  }
}

}  // namespace halfulp::x86::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::x86 {

HWY_EXPORT(decode);
HWY_EXPORT(combine);
HWY_EXPORT(odd_of);
HWY_EXPORT(round_to_codes);

bool AdderLanes::take(const Task& task) {
  switch (task.operation) {
    case Operation::add:
    case Operation::sub:
    case Operation::mul:
    case Operation::div:
    case Operation::convert: break;
    default: return false;
  }
  const auto* from = std::get_if<FloatFormat>(&task.from);
  const auto* to = std::get_if<FloatFormat>(&task.to);
  const auto fits = [](const FloatFormat* f) { return f && f->nonfinite == NonFinite::ieee && Codec::takes(*f); };
  return fits(from) && fits(to);
}

AdderLanes::AdderLanes(const Task& task) : operation_(task.operation), mode_(task.rounding.mode) {
  const auto& from = std::get<FloatFormat>(task.from);
  const auto& to = std::get<FloatFormat>(task.to);
  widening_ = {52 - from.fraction_bits, 64 - from.storage_bits(), from.magnitude_mask(), from.infinity(),
               FloatFormat::power_of_two(1023 - from.bias)};
  narrowing_ = {52 - to.fraction_bits,
                64 - to.storage_bits(),
                FloatFormat::power_of_two(to.bias - 1023),
                FloatFormat::power_of_two(to.emin()),
                FloatFormat::power_of_two(to.emax() + 1),
                to.value(to.max_finite()),
                {},
                to.infinity(),
                to.canonical_nan()};
  if (operation_ == Operation::convert && task.rounding.overflow == Overflow::saturate)
    narrowing_.infinite = to.max_finite();
  // The scalar route decides what overflow becomes, by asking the adder for twice the largest value.
  const Task sum{Operation::add, to, to, task.rounding};
  for (const bool negative : {false, true}) {
    const std::uint64_t largest = to.with_sign(to.max_finite(), negative);
    adder_route().run(sum, {{&largest, 1}, {&largest, 1}, {}}, {&narrowing_.over[negative], 1});
  }
}

void AdderLanes::run(const Operands& operands, std::span<std::uint64_t> results) const {
  double a[block_size], b[block_size], up[block_size];
  std::uint64_t padded[block_size];  // the kernels work on whole vectors
  const auto load = [&](std::span<const std::uint64_t> codes, double* values) {
    const std::uint64_t* from = codes.data();
    if (codes.size() < block_size) {
      std::fill(std::copy(codes.begin(), codes.end(), padded), std::end(padded), 0);
      from = padded;
    }
    HWY_DYNAMIC_DISPATCH(decode)(widening_, from, values, block_size);
  };
  const ScopedMxcsr scope(mxcsr_for(mode_));
  const auto combine_in = [&](RoundingMode mode, double* out) {
    write_mxcsr(mxcsr_for(mode));
    HWY_DYNAMIC_DISPATCH(combine)(operation_, a, b, out, block_size);
    write_mxcsr(mxcsr_for(mode_));
  };
  for (std::size_t begin = 0; begin < results.size(); begin += block_size) {
    const auto out = results.subspan(begin, std::min(block_size, results.size() - begin));
    const Operands block = operands.slice(begin, out.size());
    load(block.a, a);
    if (operation_ != Operation::convert) {  // conversions are exact so far
      load(block.b, b);
      if (mode_ == RoundingMode::nearest_even) {
        combine_in(RoundingMode::toward_positive, up);
        combine_in(RoundingMode::toward_negative, a);
        HWY_DYNAMIC_DISPATCH(odd_of)(a, up, block_size);
      } else {
        combine_in(mode_, a);
      }
    }
    HWY_DYNAMIC_DISPATCH(round_to_codes)(narrowing_, a, out.size() < block_size ? padded : out.data(), block_size);
    if (out.size() < block_size) std::copy_n(padded, out.size(), out.data());
  }
}

}  // namespace halfulp::x86
#endif

#endif
