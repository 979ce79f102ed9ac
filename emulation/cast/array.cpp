// Rules over arrays: the vector kernels of encode do the rounding, one pass of selections does what is the rule's own.
#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/emulation/cast/profile.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace halfulp {
namespace {

constexpr std::uint32_t infinite = 0x7f80'0000;

/// The least magnitude of fp32 that overflows by a rule: overflow is monotone in the magnitude.
std::uint32_t least_overflow(const CastRule& rule) {
  std::uint32_t below = 0, above = infinite;
  while (above - below > 1) {
    const std::uint32_t middle = below + (above - below) / 2;
    const bool overflows = rule.overflow_above != 0 && fp32.value(middle) > rule.overflow_above;
    if (overflows || (convert(fp32, rule.to, {.mode = rule.mode}, middle).flags & flag::overflow)) above = middle;
    else below = middle;
  }
  return above;
}

/// Everything that a block of floats needs to know of a rule.
template <class Out>
struct Edges {
  explicit Edges(const CastRule& rule) : overflows_from(least_overflow(rule)) {
    const bool own_zeros = rule.zero != BySign{rule.to.zero(false), rule.to.zero(true)} || !rule.to.has_zero;
    nonzero_from = rule.flush_inputs ? static_cast<std::uint32_t>(fp32.min_normal()) : own_zeros ? 1 : 0;
    for (const bool sign : {false, true}) {
      nan[sign] = static_cast<Out>(rule.nan[sign]);
      infinity[sign] = static_cast<Out>(rule.infinity[sign]);
      overflow[sign] = static_cast<Out>(!rule.to.is_signed && sign && !rule.ignore_sign ? rule.nan[sign]
                                                                                        : rule.overflow[sign]);
      zero[sign] = static_cast<Out>(rule.zero[sign]);
    }
  }
  std::uint32_t overflows_from, nonzero_from;  ///< magnitudes in between are as `encode` has them
  Out nan[2], infinity[2], overflow[2], zero[2];
};

/// What a block of floats is made of.
struct Extent {
  std::int32_t least = INT32_MAX, most = 0;  ///< magnitudes
  bool positive = false, negative = false;
};
Extent extent_of(std::span<const std::uint32_t> in) {
  Extent e;
  std::uint32_t ones = 0, zeros = 0;
  for (const std::uint32_t x : in) {
    const auto magnitude = static_cast<std::int32_t>(x & 0x7fff'ffff);
    e.least = magnitude < e.least ? magnitude : e.least;
    e.most = magnitude > e.most ? magnitude : e.most;
    ones |= x;
    zeros |= ~x;
  }
  e.positive = zeros >> 31;
  e.negative = ones >> 31;
  return e;
}

template <class Out>
void patch(const Edges<Out>& edges, std::span<const std::uint32_t> in, std::span<Out> out) {
  const Edges<Out> e = edges;  // a copy whose address nobody has: results do not alias it
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::uint32_t magnitude = in[i] & 0x7fff'ffff;
    const bool sign = in[i] >> 31;
    Out result = out[i];
    result = magnitude < e.nonzero_from ? (sign ? e.zero[1] : e.zero[0]) : result;
    result = magnitude >= e.overflows_from ? (sign ? e.overflow[1] : e.overflow[0]) : result;
    result = magnitude >= infinite ? (sign ? e.infinity[1] : e.infinity[0]) : result;
    result = magnitude > infinite ? (sign ? e.nan[1] : e.nan[0]) : result;
    out[i] = result;
  }
}

template <class Out>
void apply_to_floats(const CastRule& rule, std::span<const std::uint32_t> in, std::span<Out> out) {
  const Edges<Out> edges(rule);
  const auto overflows_from = static_cast<std::int32_t>(edges.overflows_from),
             infinity = static_cast<std::int32_t>(infinite);
  std::array<float, 2048> values;
  for (std::size_t at = 0; at < in.size(); at += values.size()) {
    const auto block = in.subspan(at, std::min(values.size(), in.size() - at));
    const auto results = out.subspan(at, block.size());
    const Extent extent = extent_of(block);
    bool exceptional = false;
    for (const CastException& e : rule.exceptions)
      exceptional |= static_cast<std::int32_t>(e.first) <= extent.most &&
                     extent.least <= static_cast<std::int32_t>(e.last);
    if (extent.least >= overflows_from && extent.positive != extent.negative &&
        !exceptional) {  // one code word for all of them
      const bool sign = extent.negative;
      if (extent.most < infinity) {
        std::fill(results.begin(), results.end(), edges.overflow[sign]);
        continue;
      }
      if (extent.least > infinity && rule.payload == NanPayload::dropped) {
        std::fill(results.begin(), results.end(), edges.nan[sign]);
        continue;
      }
    }
    const std::uint32_t keep = rule.ignore_sign ? 0x7fff'ffff : 0xffff'ffff;
    for (std::size_t i = 0; i < block.size(); ++i) values[i] = std::bit_cast<float>(block[i] & keep);
    encode<float, Out>(rule.to, {.mode = rule.mode}, std::span<const float>(values.data(), block.size()), results);
    if (extent.most >= overflows_from || extent.least < static_cast<std::int32_t>(edges.nonzero_from))
      patch(edges, block, results);
    if (!exceptional && (rule.payload == NanPayload::dropped || extent.most <= infinity)) continue;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::uint32_t magnitude = block[i] & 0x7fff'ffff;
      bool special = magnitude > infinite && rule.payload != NanPayload::dropped;
      for (const CastException& exception : rule.exceptions)
        special |= exception.first <= magnitude && magnitude <= exception.last;
      if (special) results[i] = static_cast<Out>(apply(rule, fp32, block[i]));
    }
  }
}

}  // namespace

template <class In, class Out>
void apply(const CastRule& rule, const FloatFormat& from, std::span<const In> in, std::span<Out> out) {
  if (in.size() != out.size())
    throw std::invalid_argument("a cast of " + std::to_string(in.size()) + " elements to " +
                                std::to_string(out.size()));
  if (sizeof(In) * 8 < static_cast<std::size_t>(from.storage_bits()) ||
      sizeof(Out) * 8 < static_cast<std::size_t>(rule.to.storage_bits()))
    throw std::invalid_argument("words too narrow for " + format_name(from) + " or " + format_name(rule.to));
  if constexpr (sizeof(In) == 4) {
    if (from == fp32) return apply_to_floats(rule, std::span<const std::uint32_t>(in), out);
  }
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = static_cast<Out>(apply(rule, from, in[i]));
}

#define HALFULP_APPLY(In)                                                                                  \
  template void apply(const CastRule&, const FloatFormat&, std::span<const In>, std::span<std::uint8_t>);  \
  template void apply(const CastRule&, const FloatFormat&, std::span<const In>, std::span<std::uint16_t>); \
  template void apply(const CastRule&, const FloatFormat&, std::span<const In>, std::span<std::uint32_t>);
HALFULP_APPLY(std::uint16_t)
HALFULP_APPLY(std::uint32_t)
HALFULP_APPLY(std::uint64_t)
#undef HALFULP_APPLY

}  // namespace halfulp
