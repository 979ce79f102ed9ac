// What tables of cast rules are written with.
#pragma once

#include <halfulp/emulation/cast/profile.hpp>

namespace halfulp::casts {

/// One code word for both signs.
constexpr BySign both(std::uint64_t code) { return {code, code}; }
/// A magnitude with the sign of the operand.
constexpr BySign with_sign(const FloatFormat& f, std::uint64_t magnitude) {
  return {magnitude, f.with_sign(magnitude, true)};
}
constexpr BySign largest(const FloatFormat& f) { return with_sign(f, f.max_finite()); }
constexpr BySign infinite(const FloatFormat& f) { return with_sign(f, f.infinity()); }
/// The canonical NaN; where a format has one of each sign, that of the operand's.
constexpr BySign nan(const FloatFormat& f) {
  return f.nonfinite == NonFinite::ieee || f.nonfinite == NonFinite::nan_all_ones ? with_sign(f, f.canonical_nan())
                                                                                  : both(f.canonical_nan());
}
/// The NaN whose bits are all ones, with the operand's sign.
constexpr BySign nan_of_ones(const FloatFormat& f) { return with_sign(f, f.magnitude_mask()); }
constexpr BySign zeros(const FloatFormat& f) { return {f.zero(false), f.zero(true)}; }

/// A rule that rounds to nearest even and knows zeros as the format does.
constexpr CastRule rule(const FloatFormat& to, CastSources from, std::string_view function, BySign overflow,
                        BySign infinity, BySign nan) {
  return {.to = to,
          .from = from,
          .function = function,
          .overflow = overflow,
          .infinity = infinity,
          .nan = nan,
          .zero = zeros(to)};
}
constexpr CastRule through_fp32(CastRule r, CastSources sources) {
  r.through_fp32 = sources;
  return r;
}
constexpr CastRule payload(CastRule r, NanPayload payload) {
  r.payload = payload;
  return r;
}
constexpr CastRule zero(CastRule r, BySign zero) {
  r.zero = zero;
  return r;
}
constexpr CastRule mode(CastRule r, RoundingMode mode) {
  r.mode = mode;
  return r;
}
constexpr CastRule ignore_sign(CastRule r) {
  r.ignore_sign = true;
  return r;
}
constexpr CastRule noted(CastRule r, std::string_view note) {
  r.note = note;
  return r;
}
constexpr CastRule known(CastRule r, CastEvidence evidence) {
  r.evidence = evidence;
  return r;
}

}  // namespace halfulp::casts
