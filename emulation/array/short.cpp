// Arithmetic from code words to code words in one pass, for formats that are floats with fewer fraction bits: bf16,
// tf32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/array/short.cpp"
#include <hwy/foreach_target.h>

#include <halfulp/emulation/array/fused-inl.hpp>
#include <halfulp/emulation/array/widen-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Code words are the upper bits of floats, those of Inf and NaN too.
template <class C>
struct Short {
  using Code = C;
  template <RoundingMode mode>
  using N = Narrow<float, mode, Cut::below_tail, false, Domain::codes>;
#if HALFULP_EMBEDDED_ROUNDING
  struct Key {};  // nothing is lost
  static HWY_INLINE Key no_key() { return {}; }
  HWY_INLINE bool special_operands(Key) const { return false; }
  template <Operation op>
  static HWY_INLINE void note_lost(VF, VF, Key&) {}
#else
  using Key = VF;
  static HWY_INLINE Key no_key() { return hn::Zero(df); }
  HWY_INLINE bool special_operands(Key key) const { return !hn::AllTrue(df, hn::Eq(key, hn::Zero(df))); }
  template <Operation op>
  static HWY_INLINE void note_lost(VF a, VF b, Key& key) {
    key = hn::Or(key, hn::IfThenElseZero(lost<op>(df, a, b), hn::Set(df, 1)));
  }
#endif

  NarrowPlan<std::uint32_t> to;
  const Rest* rest;

  HWY_INLINE VF value(const Code* codes, Key&) const {
    return hn::BitCast(df, hn::ShiftLeftSame(load_codes(du32, codes), to.tail));
  }

  template <Operation op, RoundingMode mode>
  static HWY_INLINE VF result(VF a, VF b, VF c, Key& key) {
    note_lost<op>(a, b, key);
    return combine_short<op, sums_before_short(mode, op)>(df, a, b, c);
  }
  template <RoundingMode mode>
  HWY_INLINE bool special_results(VF r0, VF r1, VF r2, VF r3) const {
    const auto key = [](VF v) HWY_ATTR { return N<mode>::key(hn::BitCast(du32, v)); };
    return N<mode>(to).special(hn::Max(hn::Max(key(r0), key(r1)), hn::Max(key(r2), key(r3))));
  }
  template <RoundingMode mode>
  HWY_INLINE void store(VF v, Code* out) const {
    store_codes(du32, N<mode>(to).regular_upper(hn::BitCast(du32, v)), out);
  }

  template <Operation, RoundingMode, int arity>
  void any(Pointers<Code, arity>, std::size_t begin, std::size_t count) const {
    (*rest)(begin, count);
  }
};

// Dispatch works on plain functions.
HWY_ATTR void short_16(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint16_t* a,
                       const std::uint16_t* b, const std::uint16_t* c, std::uint16_t* out, std::size_t count,
                       const Rest& rest) {
  fused(op, to.mode, Short<std::uint16_t>{to, &rest}, a, b, c, out, count);
}
HWY_ATTR void short_32(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint32_t* a,
                       const std::uint32_t* b, const std::uint32_t* c, std::uint32_t* out, std::size_t count,
                       const Rest& rest) {
  fused(op, to.mode, Short<std::uint32_t>{to, &rest}, a, b, c, out, count);
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace halfulp::array {

HWY_EXPORT(short_16);
HWY_EXPORT(short_32);

void combine_short_lanes(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint16_t* a,
                         const std::uint16_t* b, const std::uint16_t* c, std::uint16_t* out, std::size_t count,
                         const Rest& rest) {
  HWY_DYNAMIC_DISPATCH(short_16)(op, to, a, b, c, out, count, rest);
}
void combine_short_lanes(Operation op, const NarrowPlan<std::uint32_t>& to, const std::uint32_t* a,
                         const std::uint32_t* b, const std::uint32_t* c, std::uint32_t* out, std::size_t count,
                         const Rest& rest) {
  HWY_DYNAMIC_DISPATCH(short_32)(op, to, a, b, c, out, count, rest);
}

}  // namespace halfulp::array
#endif
