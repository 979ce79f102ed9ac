// What array functions share: their checks, their division of work, their counts.
#pragma once

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/array/stream.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

namespace halfulp::array {

/// Elements that one thread takes at a time; shorter arrays are not worth a second thread.
inline constexpr std::size_t grain = std::size_t{1} << 16;

// --- what is refused ---

[[noreturn]] inline void refuse(const std::string& why) { throw std::invalid_argument(why); }

inline void require_length(std::string_view what, std::size_t size, std::size_t wanted) {
  if (size == wanted) return;
  refuse(std::string(what) + " has " + std::to_string(size) + " elements, the result " + std::to_string(wanted) +
         ": they must be equal");
}

inline constexpr std::string_view operand_names[] = {"the first operand", "the second operand", "the third operand"};

/// Operand k has the results' length, or none where the operation does not take it.
inline void require_operand(const OperationInfo& operation, int k, std::size_t size, std::size_t wanted) {
  if (k < operation.arity) return require_length(operand_names[k], size, wanted);
  if (size != 0)
    refuse(std::string(operation.name) + " takes " + std::to_string(operation.arity) +
           (operation.arity == 1 ? " operand" : " operands") + ", and was given " + std::string(operand_names[k]));
}

/// Operand and result may be the same array, element on element; any other overlap would read results.
template <class In, class Out>
inline void require_apart(std::string_view what, std::span<const In> in, std::span<Out> out) {
  const auto begin = [](auto s) { return reinterpret_cast<std::uintptr_t>(s.data()); };
  const bool same = begin(in) == begin(out) && sizeof(In) == sizeof(Out);
  const bool apart = begin(in) + in.size_bytes() <= begin(out) || begin(out) + out.size_bytes() <= begin(in);
  if (same || apart || in.empty()) return;
  refuse(std::string(what) + " and the result overlap: they must be the same array or apart");
}

template <class Code>
inline void require_width(const FloatFormat& f) {
  if (f.storage_bits() <= static_cast<int>(sizeof(Code) * 8)) return;
  refuse(format_name(f) + " code words have " + std::to_string(f.storage_bits()) + " bits, the array's elements " +
         std::to_string(sizeof(Code) * 8));
}

inline void require_task(const Task& task) {
  if (const std::string why = refusal(task); !why.empty()) refuse(why);
}

inline void require_random(const Rounding& rounding, const RandomStream& random) {
  if (random.roundings_per_word == 1) return;
  if (const std::string why = refusal(rounding, random); !why.empty()) refuse(why);
}

// --- threads ---

/// Whether an array of so many elements is left to the calling thread.
inline bool one_piece(std::size_t size) { return size <= grain; }

/// f(begin, size, to, tally, streams) over pieces of an array, on all cores, in whatever environment: results of
/// elements from `begin` on go to `to`, past the caches where `streams` says so: to large arrays, unless operands are
/// there (operand_bytes = 0).
template <class Out, class F>
void in_pieces(std::span<Out> out, std::size_t operand_bytes, Tally* tally, const F& f) {
  if (one_piece(out.size())) {
    Tally all;
    f(0, out.size(), out.data(), all, false);
    if (tally) *tally += all;
    return;
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(out.data()) % sizeof(Out) == 0;
  const bool streams = operand_bytes > 0 && aligned && leaves_caches(operand_bytes + out.size_bytes());
  std::mutex mutex;
  const auto piece = [&](std::size_t begin, std::size_t size) {
    Tally part;
    f(begin, size, out.data() + begin, part, streams);
    if (streams) wait_for_streams();
    if (!tally) return;
    const std::scoped_lock lock(mutex);
    *tally += part;
  };
  const DefaultEnvironment environment;  // oneTBB runs tasks in one of its own, and would lose the caller's flags
  const bool alone = tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism) == 1;
  if (alone) return piece(0, out.size());
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, out.size(), grain),
                    [&](const auto& r) { piece(r.begin(), r.size()); });
}

/// f(begin, size, to) for a piece, whose results are streamed from blocks if that is asked for.
template <class Out, class F>
void by_blocks(bool streams, std::size_t begin, std::size_t size, Out* to, const F& f) {
  if (streams) through_streams(to, size, [&](std::size_t i, std::size_t n, Out* block) { f(begin + i, n, block); });
  else f(begin, size, to);
}

/// Whether results go where an operand is.
template <class In, class Out>
bool same_array(std::span<const In> in, std::span<Out> out) {
  return static_cast<const void*>(in.data()) == static_cast<const void*>(out.data());
}
/// Bytes of an operand; 0 if results go there.
template <class In, class Out>
std::size_t bytes_apart(std::span<const In> in, std::span<Out> out) {
  return same_array(in, out) ? 0 : in.size_bytes();
}

inline void count_result(Tally& tally, const FloatFormat& f, const Rounded& result) {
  ++tally.elements;
  tally.flags |= result.flags;
  tally.nan += f.is_nan(result.code);
  tally.overflow += (result.flags & flag::overflow) != 0;
  tally.underflow += (result.flags & flag::underflow) != 0;
  tally.inexact += (result.flags & flag::inexact) != 0;
  tally.to_zero += f.is_zero(result.code) && (result.flags & flag::underflow) != 0;
  tally.subnormal += f.is_subnormal(result.code);
}

inline std::uint64_t random_at(const Rounding& rounding, const RandomWords& random, std::size_t i) {
  if (rounding.mode != RoundingMode::stochastic) return 0;
  return random.given ? random.given[i] : random.stream.bits(i);
}

/// The kernels know doubles to code words of 32 bits; narrower ones go through a block.
template <class Code>
void encode_codes(const NarrowPlan<std::uint64_t>& plan, const RandomWords& random, const double* in, Code* out,
                  std::size_t count) {
  alignas(cache_line) std::uint32_t codes[block_size];
  for (std::size_t i = 0; i < count; i += block_size) {
    const std::size_t size = std::min(block_size, count - i);
    encode_lanes(plan, random.from(i), in + i, codes, size);
    if constexpr (sizeof(Code) < 4) shorten_lanes(codes, out + i, size);
    else std::copy_n(codes, size, out + i);
  }
}
template <class Code>
void encode_codes(const NarrowPlan<std::uint32_t>& plan, const RandomWords& random, const float* in, Code* out,
                  std::size_t count) {
  encode_lanes(plan, random, in, out, count);
}

}  // namespace halfulp::array
