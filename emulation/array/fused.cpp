// Arithmetic from code words to code words in one pass: fp16 where the CPU converts it, and formats of up to 8 bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/fused.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/fused-inl.hpp>
#include <halfulp/emulation/array/widen-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// --- formats of up to 8 bits ----------------------------------------------------------------------------------------

/// W: WidenHalves or Widen<false, false>.
template <class W>
struct Bytes : InLanes<Bytes<W>> {
  using Code = std::uint8_t;
  using Key = typename W::VI;
  template <RoundingMode mode>
  using N = Narrow<float, mode, false, false, Domain::codes>;

  WidenPlan from;
  NarrowPlan<std::uint32_t> to;

  static HWY_INLINE Key no_key() { return hn::Zero(typename W::DI{}); }
  HWY_INLINE VF value(const Code* codes, Key& key) const {
    const W widen(from);
    const auto lanes = load_codes(typename W::DU{}, codes);
    key = hn::Max(key, widen.key(lanes));
    return widen.regular(lanes);
  }
  HWY_INLINE VF any_value(const Code* codes) const { return Widen<false, false>(from)(load_codes(du32, codes)); }
  HWY_INLINE bool special_operands(Key key) const { return W(from).special(key); }

  template <RoundingMode mode>
  HWY_INLINE bool special_results(VF r0, VF r1, VF r2, VF r3) const {
    const auto key = [](VF v) HWY_ATTR { return N<mode>::key(hn::BitCast(du32, v)); };
    return N<mode>(to).special(hn::Max(hn::Max(key(r0), key(r1)), hn::Max(key(r2), key(r3))));
  }
  template <RoundingMode mode>
  HWY_INLINE void store(VF v, Code* out) const { store_codes(du32, N<mode>(to).regular(hn::BitCast(du32, v), hn::Zero(du32)), out); }
  template <RoundingMode mode>
  HWY_INLINE void store_any(VF v, Code* out) const { store_codes(du32, N<mode>(to)(hn::BitCast(du32, v), hn::Zero(du32)), out); }
};

HWY_ATTR void fused_bytes(Operation op, const WidenPlan& from, const NarrowPlan<std::uint32_t>& to, const std::uint8_t* a,
                          const std::uint8_t* b, const std::uint8_t* c, std::uint8_t* out, std::size_t count) {
#if HALFULP_F16C
  if (from.halves) return fused(op, to.mode, Bytes<WidenHalves>{{}, from, to}, a, b, c, out, count);
#endif
  fused(op, to.mode, Bytes<Widen<false, false>>{{}, from, to}, a, b, c, out, count);
}

// --- fp16 by F16C -----------------------------------------------------------------------------------------------------

#if HALFULP_F16C
struct Halves : InLanes<Halves> {
  using Code = std::uint16_t;
  struct Key {};  // VCVTPH2PS knows all operands
  template <RoundingMode mode>
  using N = Narrow<float, mode, false, false, Domain::values>;
  static constexpr hn::Rebind<std::uint16_t, decltype(df)> d16{};

  NarrowPlan<std::uint32_t> to;
  bool ieee;  ///< the overflow rule is VCVTPS2PH's own

  /// Modes of VCVTPS2PH; it keeps payloads of NaN.
  template <RoundingMode mode>
  static constexpr int f16c_mode = mode == RoundingMode::nearest_even ? _MM_FROUND_TO_NEAREST_INT
      : mode == RoundingMode::toward_zero ? _MM_FROUND_TO_ZERO
      : mode == RoundingMode::toward_positive ? _MM_FROUND_TO_POS_INF
      : mode == RoundingMode::toward_negative ? _MM_FROUND_TO_NEG_INF : -1;

  HWY_INLINE VF any_value(const Code* codes) const {
    return hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, decltype(df)>{}, hn::LoadU(d16, codes)));
  }
  static HWY_INLINE Key no_key() { return {}; }
  HWY_INLINE VF value(const Code* codes, Key&) const { return any_value(codes); }
  HWY_INLINE bool special_operands(Key) const { return false; }

  template <RoundingMode mode>
  HWY_INLINE bool special_results(VF r0, VF r1, VF r2, VF r3) const {
    if (f16c_mode<mode> >= 0 && ieee) return false;
    const auto key = [](VF v) HWY_ATTR { return N<mode>::key(hn::BitCast(du32, v)); };
    return N<mode>(to).special(hn::Max(hn::Max(key(r0), key(r1)), hn::Max(key(r2), key(r3))));
  }
  template <int immediate>
  static HWY_INLINE void convert(VF v, Code* out) {
#if HWY_TARGET <= HWY_AVX3
    hn::StoreU(hn::Vec256<std::uint16_t>{_mm512_maskz_cvtps_ph(0xffff, v.raw, immediate | _MM_FROUND_NO_EXC)}, d16, out);
#else
    hn::StoreU(hn::Vec128<std::uint16_t>{_mm256_cvtps_ph(v.raw, immediate)}, d16, out);
#endif
  }
  template <RoundingMode mode>
  HWY_INLINE void store(VF v, Code* out) const {
    if constexpr (f16c_mode<mode> >= 0)
      convert<f16c_mode<mode>>(hn::IfThenElse(hn::Eq(v, v), v, hn::BitCast(df, hn::Set(du32, to.values.nan))), out);
    else convert<0>(hn::BitCast(df, N<mode>(to).regular(hn::BitCast(du32, v), hn::Zero(du32))), out);
  }
  template <RoundingMode mode>
  HWY_INLINE void store_any(VF v, Code* out) const {
    convert<0>(hn::BitCast(df, N<mode>(to)(hn::BitCast(du32, v), hn::Zero(du32))), out);  // exact
  }
};
#endif

HWY_ATTR bool fused_halves(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint16_t* a, const std::uint16_t* b,
                           const std::uint16_t* c, std::uint16_t* out, std::size_t count) {
#if HALFULP_F16C
  fused(op, to.mode, Halves{{}, to, !to.saturates}, a, b, c, out, count);
  return true;
#else
  (void)op, (void)to, (void)a, (void)b, (void)c, (void)out, (void)count;
  return false;
#endif
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(fused_bytes);
HWY_EXPORT(fused_halves);

void combine_byte_lanes(Operation op, const WidenPlan& from, const NarrowPlan<std::uint32_t>& to, const std::uint8_t* a, const std::uint8_t* b,
                        const std::uint8_t* c, std::uint8_t* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(fused_bytes)(op, from, to, a, b, c, out, count);
}
bool combine_half_lanes(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint16_t* a, const std::uint16_t* b,
                        const std::uint16_t* c, std::uint16_t* out, std::size_t count) {
  return HWY_DYNAMIC_DISPATCH(fused_halves)(op, to, a, b, c, out, count);
}

}  // namespace halfulp::array
#endif
