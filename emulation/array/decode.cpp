// Decode over arrays, for each instruction set: code words to values.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/decode.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/array/stream.hpp>
#include <halfulp/emulation/array/widen-inl.hpp>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <bool linear, bool flushes, class Code>
HWY_NOINLINE HWY_ATTR void widen_any(const WidenPlan& plan, const Code* in, float* out, std::size_t count) {
  using W = Widen<linear, flushes>;
  const W value(plan);
  const typename W::DU du;
  const typename W::D d;
  const std::size_t lanes = hn::Lanes(d);
  Code padded[HWY_MAX_BYTES / 4] = {};
  float result[HWY_MAX_BYTES / 4];
  for (std::size_t i = 0; i < count; i += lanes) {
    const std::size_t size = std::min(lanes, count - i);
    const bool whole = size == lanes;
    if (!whole) std::memcpy(padded, in + i, size * sizeof(Code));
    hn::StoreU(value(load_codes(du, whole ? in + i : padded)), d, whole ? out + i : result);
    if (!whole) std::memcpy(out + i, result, size * sizeof(float));
  }
}

/// W: WidenHalves or Widen<linear, flushes>.
template <class W, bool linear, bool flushes, class Code>
HWY_ATTR void widen(const WidenPlan& given, const Code* in, float* out, std::size_t count, bool streams) {
  const WidenPlan plan = given;
  const W value(plan);
  const typename W::DU du;
  const typename W::D d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = streams ? std::min(count, before_vector(lanes, out)) : 0;
  if (i) widen_any<linear, flushes>(plan, in, out, i);
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto c0 = load_codes(du, in + i), c1 = load_codes(du, in + i + lanes);
    const auto c2 = load_codes(du, in + i + 2 * lanes), c3 = load_codes(du, in + i + 3 * lanes);
    if (HWY_UNLIKELY(
            value.special(hn::Max(hn::Max(value.key(c0), value.key(c1)), hn::Max(value.key(c2), value.key(c3)))))) {
      widen_any<linear, flushes>(plan, in + i, out + i, 4 * lanes);
      continue;
    }
    const auto v0 = value.regular(c0), v1 = value.regular(c1), v2 = value.regular(c2), v3 = value.regular(c3);
    if (streams) {
      hn::Stream(v0, d, out + i), hn::Stream(v1, d, out + i + lanes), hn::Stream(v2, d, out + i + 2 * lanes),
          hn::Stream(v3, d, out + i + 3 * lanes);
    } else {
      hn::StoreU(v0, d, out + i), hn::StoreU(v1, d, out + i + lanes), hn::StoreU(v2, d, out + i + 2 * lanes),
          hn::StoreU(v3, d, out + i + 3 * lanes);
    }
  }
  widen_any<linear, flushes>(plan, in + i, out + i, count - i);
}

template <class Code>
HWY_ATTR void widen_code(const WidenPlan& plan, const Code* in, float* out, std::size_t count, bool streams) {
#if HALFULP_F16C
  if constexpr (sizeof(Code) <= 2)
    if (plan.halves) return widen<WidenHalves, false, false>(plan, in, out, count, streams);
#endif
  if constexpr (sizeof(Code) > 1) {  // formats with all exponents of a float do not fit into a byte
    if (plan.linear && plan.flushes) return widen<Widen<true, true>, true, true>(plan, in, out, count, streams);
    if (plan.linear) return widen<Widen<true, false>, true, false>(plan, in, out, count, streams);
  }
  if (plan.flushes) widen<Widen<false, true>, false, true>(plan, in, out, count, streams);
  else widen<Widen<false, false>, false, false>(plan, in, out, count, streams);
}

// Dispatch works on plain functions.
HWY_ATTR void decode_floats_8(const WidenPlan& plan, const std::uint8_t* in, float* out, std::size_t count,
                              bool streams) {
  widen_code(plan, in, out, count, streams);
}
HWY_ATTR void decode_floats_16(const WidenPlan& plan, const std::uint16_t* in, float* out, std::size_t count,
                               bool streams) {
  widen_code(plan, in, out, count, streams);
}
HWY_ATTR void decode_floats_32(const WidenPlan& plan, const std::uint32_t* in, float* out, std::size_t count,
                               bool streams) {
  widen_code(plan, in, out, count, streams);
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(decode_floats_8);
HWY_EXPORT(decode_floats_16);
HWY_EXPORT(decode_floats_32);

void decode_lanes(const WidenPlan& plan, const std::uint8_t* in, float* out, std::size_t count, bool streams) {
  HWY_DYNAMIC_DISPATCH(decode_floats_8)(plan, in, out, count, streams);
}
void decode_lanes(const WidenPlan& plan, const std::uint16_t* in, float* out, std::size_t count, bool streams) {
  HWY_DYNAMIC_DISPATCH(decode_floats_16)(plan, in, out, count, streams);
}
void decode_lanes(const WidenPlan& plan, const std::uint32_t* in, float* out, std::size_t count, bool streams) {
  HWY_DYNAMIC_DISPATCH(decode_floats_32)(plan, in, out, count, streams);
}

std::string_view instruction_set() {
  const std::int64_t here = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(here & -here);
}

}  // namespace halfulp::array
#endif
