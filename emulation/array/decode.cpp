// Decode over arrays, for each instruction set: code words to values.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/decode.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/array/four-inl.hpp>
#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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

/// `given`: how four vectors of finite code words are done; others are left to widen_any().
template <bool linear, bool flushes, class Four, class Code>
HWY_ATTR void widen(const WidenPlan& plan, const Four& given, const Code* in, float* out, std::size_t count) {
  const Finite<Code> finite(plan);
  const Four four = given;  // widen_any() sees neither: no call can change them
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<float>{});
  const auto ordinary = [&](std::size_t i) HALFULP_ATTR_INLINE {
    if (!Four::any_code && HWY_UNLIKELY(!finite(in + i))) return false;
    VF v[4];
    four(in + i, v);
    if (Four::but_nan && HWY_UNLIKELY(any_nan(df, v[0], v[1], v[2], v[3]))) return false;
    hn::StoreU(v[0], df, out + i), hn::StoreU(v[1], df, out + i + lanes);
    hn::StoreU(v[2], df, out + i + 2 * lanes), hn::StoreU(v[3], df, out + i + 3 * lanes);
    return true;
  };
  in_runs(count, 4 * lanes, ordinary,
          [&](std::size_t i, std::size_t size) HWY_ATTR { widen_any<linear, flushes>(plan, in + i, out + i, size); });
}

template <class Code>
HWY_ATTR void widen_code(const WidenPlan& plan, const Code* in, float* out, std::size_t count) {
#if HALFULP_F16C
  if constexpr (sizeof(Code) == 1) {
    if (plan.halves && plan.magnitude_mask < 8) {
      std::uint8_t codes[FourByTable::lanes];
      float values[FourByTable::lanes];
      const std::uint32_t mask = plan.magnitude_mask, bits = FourByTable::any_code ? 2 * mask + 1 : mask;
      for (std::size_t i = 0; i < FourByTable::lanes; ++i) codes[i] = static_cast<std::uint8_t>(i & bits);
      widen_any<false, false>(plan, codes, values, FourByTable::lanes);
      const FourByTable table(plan, values);
      return widen<false, false>(plan, table, in, out, count);
    }
  }
  if constexpr (sizeof(Code) <= 2) {
    if (plan.halves)
      return with_disguise<Code>(plan, [&]<Disguise disguise, bool scaled>() HWY_ATTR {
        widen<false, false>(plan, FourByHalves<disguise, scaled, Code>{plan}, in, out, count);
      });
  }
#endif
  const auto by_lanes = [&]<bool linear, bool flushes>() HWY_ATTR {
    widen<linear, flushes>(plan, FourByLanes<Widen<linear, flushes>, Code>{plan}, in, out, count);
  };
  if constexpr (sizeof(Code) > 1) {  // of bytes only formats with a bias of 127 are linear; the other way serves them
    if constexpr (sizeof(Code) == 2)
      if (plan.linear && !plan.flushes && plan.tail == 16 && plan.sign_shift == 16)
        return widen<true, false>(plan, FourByShift<Code>{plan}, in, out, count);
    if (plan.linear && plan.flushes) return by_lanes.template operator()<true, true>();
    if (plan.linear) return by_lanes.template operator()<true, false>();
  }
  if (plan.flushes) by_lanes.template operator()<false, true>();
  else by_lanes.template operator()<false, false>();
}

// Dispatch works on plain functions.
HWY_ATTR void decode_floats_8(const WidenPlan& plan, const std::uint8_t* in, float* out, std::size_t count) {
  widen_code(plan, in, out, count);
}
HWY_ATTR void decode_floats_16(const WidenPlan& plan, const std::uint16_t* in, float* out, std::size_t count) {
  widen_code(plan, in, out, count);
}
HWY_ATTR void decode_floats_32(const WidenPlan& plan, const std::uint32_t* in, float* out, std::size_t count) {
  widen_code(plan, in, out, count);
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(decode_floats_8);
HWY_EXPORT(decode_floats_16);
HWY_EXPORT(decode_floats_32);

void decode_lanes(const WidenPlan& plan, const std::uint8_t* in, float* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(decode_floats_8)(plan, in, out, count);
}
void decode_lanes(const WidenPlan& plan, const std::uint16_t* in, float* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(decode_floats_16)(plan, in, out, count);
}
void decode_lanes(const WidenPlan& plan, const std::uint32_t* in, float* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(decode_floats_32)(plan, in, out, count);
}

std::string_view instruction_set() {
  const std::int64_t here = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(here & -here);
}

void limit_instruction_set(std::string_view most) {
  const std::int64_t here = hwy::SupportedTargets() & HWY_TARGETS;
  std::vector<std::string> names;
  for (std::int64_t left = here; left != 0; left &= left - 1) {  // the best one is the lowest bit
    const std::int64_t target = left & -left;
    if (hwy::TargetName(target) == most) return hwy::DisableTargets(target - 1);
    names.emplace_back(hwy::TargetName(target));
  }
  throw std::invalid_argument(unknown_name("instruction set", most, std::move(names)));
}

}  // namespace halfulp::array
#endif
