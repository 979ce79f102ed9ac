#include <halfulp/emulation/cast/profile.hpp>

#include <halfulp/emulation/conversion.hpp>
#include <halfulp/support/spelling.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace halfulp {
namespace {

struct SourceBit {
  FloatFormat format;
  CastSources bit;
};
constexpr std::array<SourceBit, 4> sources{
    {{fp32, source::fp32}, {fp16, source::fp16}, {bf16, source::bf16}, {fp64, source::fp64}}};

std::uint64_t nan_of(const CastRule& rule, const FloatFormat& from, std::uint64_t code) {
  const bool negative = from.sign(code);
  if (rule.payload == NanPayload::dropped) return rule.nan[negative];
  const FloatFormat& to = rule.to;
  const int narrowing = from.fraction_bits - to.fraction_bits;
  std::uint64_t payload = code & from.fraction_mask();
  payload = narrowing >= 0 ? payload >> narrowing : payload << -narrowing;
  if (rule.payload == NanPayload::quieted) payload |= to.quiet_bit();
  else if (payload == 0) payload = 1;
  return to.with_sign(to.infinity() | payload, negative);
}

}  // namespace

CastSources source_bit(const FloatFormat& from) {
  for (const SourceBit& source : sources)
    if (source.format == from) return source.bit;
  return 0;
}

std::vector<FloatFormat> source_formats(CastSources bits) {
  std::vector<FloatFormat> formats;
  for (const SourceBit& source : sources)
    if (bits & source.bit) formats.push_back(source.format);
  return formats;
}

const Profile& find_profile(std::string_view name) {
  std::vector<std::string> names;
  for (const Profile& profile : profiles()) {
    if (profile.name == name) return profile;
    names.emplace_back(profile.name);
  }
  throw std::invalid_argument(unknown_name("profile", name, std::move(names)));
}

const CastRule* find_rule(const Profile& profile, const FloatFormat& from, const FloatFormat& to) {
  const CastSources bit = source_bit(from);
  for (const CastRule& rule : profile.rules)
    if (rule.to == to && (rule.from & bit)) return &rule;
  return nullptr;
}

const CastRule& rule_for(const Profile& profile, const FloatFormat& from, const FloatFormat& to) {
  if (const CastRule* rule = find_rule(profile, from, to)) return *rule;
  const std::string pair = format_name(from) + " to " + format_name(to);
  std::string accepted;
  for (const CastRule& rule : profile.rules)
    if (rule.from & source_bit(from)) accepted += (accepted.empty() ? "" : ", ") + format_name(rule.to);
  if (!accepted.empty())
    throw std::invalid_argument(std::string(profile.name) + " does not convert " + pair + "; accepted of " +
                                format_name(from) + ": " + accepted);
  CastSources bits = 0;
  for (const CastRule& rule : profile.rules) bits |= rule.from;
  for (const FloatFormat& format : source_formats(bits))
    accepted += (accepted.empty() ? "" : ", ") + format_name(format);
  throw std::invalid_argument(std::string(profile.name) + " does not convert " + pair +
                              "; accepted as --from: " + accepted);
}

std::uint64_t apply(const CastRule& rule, const FloatFormat& source, std::uint64_t code) {
  FloatFormat from = source;
  if (rule.through_fp32 & source_bit(source)) {
    code = convert(source, fp32, {.flush_outputs = rule.flush_fp32, .nan = NanRule::propagate}, code).code;
    from = fp32;
  }
  const bool negative = from.sign(code);
  if (from.is_nan(code)) return nan_of(rule, from, code);
  if (from.is_infinite(code)) return rule.infinity[negative];
  if (from.is_zero(code) || (rule.flush_inputs && from.is_subnormal(code))) return rule.zero[negative];
  if (negative && !rule.to.is_signed) {
    if (!rule.ignore_sign) return rule.nan.negative;
    code = from.magnitude(code);
  }
  for (const CastException& exception : rule.exceptions) {
    const double value = std::abs(from.value(code));
    if (fp32.value(exception.first) <= value && value <= fp32.value(exception.last)) return exception.result;
  }
  if (rule.overflow_above != 0 && std::abs(from.value(code)) > rule.overflow_above) return rule.overflow[negative];
  const Rounded rounded = convert(from, rule.to, {.mode = rule.mode}, code);
  return rounded.flags & flag::overflow ? rule.overflow[negative] : rounded.code;
}

}  // namespace halfulp
