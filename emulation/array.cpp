#include <halfulp/emulation/array.hpp>
#include <halfulp/emulation/array/environment.hpp>
#include <halfulp/emulation/array/kernels.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <string>

namespace halfulp {
namespace {

using array::Carrier;

/// Elements that one thread takes at a time; shorter arrays are not worth a second thread.
constexpr std::size_t grain = std::size_t{1} << 16;

// --- what is refused --------------------------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

void require_length(std::string_view what, std::size_t size, std::size_t wanted) {
  if (size == wanted) return;
  refuse(std::string(what) + " has " + std::to_string(size) + " elements, the result " + std::to_string(wanted) + ": they must be equal");
}

/// Operand and result may be the same array, element on element; any other overlap would read results.
template <class In, class Out>
void require_apart(std::string_view what, std::span<const In> in, std::span<Out> out) {
  const auto begin = [](auto s) { return reinterpret_cast<std::uintptr_t>(s.data()); };
  const bool same = begin(in) == begin(out) && sizeof(In) == sizeof(Out);
  const bool apart = begin(in) + in.size_bytes() <= begin(out) || begin(out) + out.size_bytes() <= begin(in);
  if (same || apart || in.empty()) return;
  refuse(std::string(what) + " and the result overlap: they must be the same array or apart");
}

template <class Code>
void require_width(const FloatFormat& f) {
  if (f.storage_bits() <= static_cast<int>(sizeof(Code) * 8)) return;
  refuse(format_name(f) + " code words have " + std::to_string(f.storage_bits()) + " bits, the array's elements " + std::to_string(sizeof(Code) * 8));
}

void require_task(const Task& task) {
  if (const std::string why = refusal(task); !why.empty()) refuse(why);
}

// --- threads -----------------------------------------------------------------------------------------------------------

/// f(begin, size) over pieces of an array, on all cores. f returns the piece's tally.
template <class F>
void in_pieces(std::size_t count, Tally* tally, F f) {
  std::mutex mutex;
  const auto piece = [&](std::size_t begin, std::size_t size) {
    const array::DefaultEnvironment environment;
    const Tally part = f(begin, size);
    if (!tally) return;
    const std::scoped_lock lock(mutex);
    *tally += part;
  };
  if (count <= grain) return piece(0, count);
  tbb::parallel_for(tbb::blocked_range<std::size_t>(0, count, grain), [&](const auto& r) { piece(r.begin(), r.size()); });
}

void count_result(Tally& tally, const FloatFormat& f, const Rounded& result) {
  ++tally.elements;
  tally.flags |= result.flags;
  tally.nan += f.is_nan(result.code);
  tally.overflow += (result.flags & flag::overflow) != 0;
  tally.underflow += (result.flags & flag::underflow) != 0;
  tally.inexact += (result.flags & flag::inexact) != 0;
  tally.to_zero += f.is_zero(result.code) && (result.flags & flag::underflow) != 0;
  tally.subnormal += f.is_subnormal(result.code);
}

std::uint64_t random_at(const Rounding& rounding, const RandomStream& random, std::size_t i) {
  return rounding.mode == RoundingMode::stochastic ? rounding_bits(random.seed, random.stream, random.first + i) : 0;
}

template <class T>
auto bits_of(T value) {
  return std::bit_cast<typename Carrier<T>::Bits>(value);
}

constexpr std::size_t block_size = 512;

/// The kernels know doubles to code words of 32 bits; narrower ones go through a block.
template <class Code>
void encode_lanes(const array::NarrowPlan<std::uint64_t>& plan, RandomStream random, const double* in, Code* out, std::size_t count) {
  std::uint32_t codes[block_size];
  for (std::size_t i = 0; i < count; i += block_size) {
    const std::size_t size = std::min(block_size, count - i);
    array::encode_lanes(plan, random.from(i), in + i, codes, size);
    std::copy_n(codes, size, out + i);
  }
}
template <class Code>
void encode_lanes(const array::NarrowPlan<std::uint32_t>& plan, RandomStream random, const float* in, Code* out, std::size_t count) {
  array::encode_lanes(plan, random, in, out, count);
}

/// The plan of encode and quantize; none where the scalar functions do the work.
template <class T>
auto conversion_plan(const FloatFormat& f, const Rounding& rounding, const Tally* tally) {
  return tally ? std::nullopt : array::narrow_plan<T>(f, rounding, array::Source::conversion);
}

template <class T>
void quantize_any(const FloatFormat& f, const Rounding& rounding, std::span<const T> in, std::span<T> out, RandomStream random, Tally* tally) {
  constexpr FloatFormat carrier = Carrier<T>::format;
  require_task({Operation::convert, carrier, f, rounding});
  require_length("the operand", in.size(), out.size());
  require_apart("the operand", in, out);
  const auto plan = conversion_plan<T>(f, rounding, tally);
  Rounding back;  // exact wherever the format fits the carrier
  back.nan = rounding.nan;
  in_pieces(in.size(), tally, [&](std::size_t begin, std::size_t size) {
    Tally part;
    if (plan) {
      array::quantize_lanes(*plan, random.from(begin), in.data() + begin, out.data() + begin, size);
      return part;
    }
    for (std::size_t i = begin; i < begin + size; ++i) {
      const Rounded result = convert(carrier, f, rounding, bits_of(in[i]), random_at(rounding, random, i));
      out[i] = std::bit_cast<T>(static_cast<typename Carrier<T>::Bits>(convert(f, carrier, back, result.code).code));
      count_result(part, f, result);
    }
    return part;
  });
}

}  // namespace

Tally& Tally::operator+=(const Tally& other) {
  elements += other.elements;
  nan += other.nan;
  overflow += other.overflow;
  underflow += other.underflow;
  inexact += other.inexact;
  to_zero += other.to_zero;
  subnormal += other.subnormal;
  flags |= other.flags;
  return *this;
}

void quantize(const FloatFormat& f, const Rounding& rounding, std::span<const float> in, std::span<float> out, RandomStream random, Tally* tally) {
  quantize_any(f, rounding, in, out, random, tally);
}
void quantize(const FloatFormat& f, const Rounding& rounding, std::span<const double> in, std::span<double> out, RandomStream random, Tally* tally) {
  quantize_any(f, rounding, in, out, random, tally);
}

template <class T, class Code>
void encode(const FloatFormat& f, const Rounding& rounding, std::span<const T> in, std::span<Code> out, RandomStream random, Tally* tally) {
  constexpr FloatFormat carrier = Carrier<T>::format;
  require_task({Operation::convert, carrier, f, rounding});
  require_width<Code>(f);
  require_length("the operand", in.size(), out.size());
  require_apart("the operand", in, out);
  const auto plan = conversion_plan<T>(f, rounding, tally);
  in_pieces(in.size(), tally, [&](std::size_t begin, std::size_t size) {
    Tally part;
    if (plan) {
      encode_lanes(*plan, random.from(begin), in.data() + begin, out.data() + begin, size);
      return part;
    }
    for (std::size_t i = begin; i < begin + size; ++i) {
      const Rounded result = convert(carrier, f, rounding, bits_of(in[i]), random_at(rounding, random, i));
      out[i] = static_cast<Code>(result.code);
      count_result(part, f, result);
    }
    return part;
  });
}

template <class Code>
void decode(const FloatFormat& f, std::span<const Code> in, std::span<float> out) {
  require_task({Operation::convert, f, fp32, {}});
  require_width<Code>(f);
  require_length("the operand", in.size(), out.size());
  require_apart("the operand", in, out);
  const auto plan = array::widen_plan(f, false);
  in_pieces(in.size(), nullptr, [&](std::size_t begin, std::size_t size) {
    if (plan) {
      array::decode_lanes(*plan, in.data() + begin, out.data() + begin, size);
    } else {
      for (std::size_t i = begin; i < begin + size; ++i)
        out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(convert(f, fp32, {}, in[i]).code));
    }
    return Tally{};
  });
}

// --- arithmetic --------------------------------------------------------------------------------------------------------

namespace {

/// How an operation is done by the vector kernels, if it is: see array/arithmetic-inl.hpp for why it is right.
struct ArithmeticPlan {
  std::optional<array::WidenPlan> widen;
  std::optional<array::NarrowPlan<std::uint32_t>> in_float;
  std::optional<array::NarrowPlan<std::uint64_t>> in_double;
  std::optional<array::NarrowPlan<std::uint32_t>> as_short_floats;  ///< most elements; in_double the rest
  array::Sums sums = array::Sums::odd;
  bool in_vectors() const { return in_float || in_double; }
};

ArithmeticPlan arithmetic_plan(Operation operation, const FloatFormat& f, const Rounding& rounding) {
  ArithmeticPlan plan;
  const int p = f.precision(), low = f.emin() - f.fraction_bits, high = f.emax() + 1;
  const bool draws = rounding.mode == RoundingMode::stochastic;
  if (p > 24 || !(plan.widen = array::widen_plan(f, rounding.flush_inputs))) return plan;
  if (draws && (p + max_random_bits + 2 > 53 || operation == Operation::div || operation == Operation::sqrt)) return plan;
  plan.sums = array::sums_before(rounding.mode, operation);
  // What is flushed is decided by the exact sum: only rounding to odd keeps it on its side of any limit.
  if (rounding.flush_outputs) {
    if (plan.sums == array::Sums::down) return {};  // the sign of a zero sum is lost in rounding to odd
    plan.sums = array::Sums::odd;
  }
  // No product or quotient leaves the normal floats, and 24 bits are enough.
  Rounding results = rounding;
  results.flush_inputs = false;  // that was for the operands
  const bool safe = 2 * low >= -126 && 2 * high <= 127 && low - high >= -126 && high - low <= 127;
  if (2 * p + 2 <= 24 && safe && !draws) plan.in_float = array::narrow_plan<float>(f, results, array::Source::arithmetic);
  if (!plan.in_float) plan.in_double = array::narrow_plan<double>(f, results, array::Source::arithmetic);
  const bool flushes = rounding.flush_inputs || rounding.flush_outputs;
  if (plan.in_double && array::short_float(f) && !flushes && !draws) plan.as_short_floats = array::narrow_plan<float>(f, results, array::Source::arithmetic);
  return plan;
}

/// A block of operands, as values.
template <class Code>
const float* widened(const array::WidenPlan& plan, std::span<const Code> codes, std::size_t begin, std::size_t size, float* block) {
  if (codes.empty()) return nullptr;
  array::decode_lanes(plan, codes.data() + begin, block, size);
  std::fill_n(block + size, array::lane_padding, 0.0f);
  return block;
}

template <class Code>
void in_blocks(Operation operation, const ArithmeticPlan& plan, std::span<const Code> a, std::span<const Code> b, std::span<const Code> c,
               std::span<Code> out, RandomStream random, std::size_t begin, std::size_t count) {
  float x[block_size + array::lane_padding], y[block_size + array::lane_padding], z[block_size + array::lane_padding];
  double wide[block_size + array::lane_padding];
  for (std::size_t done = 0; done < count; done += block_size) {
    const std::size_t at = begin + done, size = std::min(block_size, count - done);
    const float* const u = widened(*plan.widen, a, at, size, x);
    const float* const v = widened(*plan.widen, b, at, size, y);
    const float* const w = widened(*plan.widen, c, at, size, z);
    if (plan.in_float) {
      array::combine_lanes(operation, plan.sums, u, v, w, x, size);
      array::encode_lanes(*plan.in_float, random.from(at), x, out.data() + at, size);
    } else {
      array::combine_lanes(operation, plan.sums, u, v, w, wide, size);
      encode_lanes(*plan.in_double, random.from(at), wide, out.data() + at, size);
    }
  }
}

/// In one pass where there is a kernel for it; false where not.
template <class Code>
bool fused(Operation operation, const FloatFormat& f, const ArithmeticPlan& plan, std::span<const Code> a, std::span<const Code> b,
           std::span<const Code> c, std::span<Code> out, std::size_t begin, std::size_t count) {
  const auto from = [&](std::span<const Code> s) { return s.empty() ? nullptr : s.data() + begin; };
  if constexpr (sizeof(Code) > 1) {
    if (plan.as_short_floats) {
      const auto rest = [&](std::size_t first, std::size_t size) { in_blocks(operation, plan, a, b, c, out, {}, begin + first, size); };
      array::combine_short_lanes(operation, *plan.as_short_floats, from(a), from(b), from(c), out.data() + begin, count, rest);
      return true;
    }
  }
  if (!plan.in_float || plan.widen->flushes || plan.in_float->flushes) return false;
  if constexpr (sizeof(Code) == 1) {
    array::combine_byte_lanes(operation, *plan.widen, *plan.in_float, from(a), from(b), from(c), out.data() + begin, count);
    return true;
  }
  if constexpr (sizeof(Code) == 2)
    return f == fp16 && array::combine_half_lanes(operation, *plan.in_float, from(a), from(b), from(c), out.data() + begin, count);
  return false;
}

}  // namespace

template <class Code>
void apply(Operation operation, const FloatFormat& f, const Rounding& rounding, std::span<const Code> a, std::span<const Code> b,
           std::span<const Code> c, std::span<Code> out, RandomStream random, Tally* tally) {
  const int arity = info(operation).arity;
  switch (operation) {
    case Operation::add: case Operation::sub: case Operation::mul: case Operation::div: case Operation::sqrt: case Operation::fma: break;
    default: refuse("arrays have add, sub, mul, div, sqrt and fma, not " + std::string(info(operation).name));
  }
  require_task({operation, f, f, rounding});
  require_width<Code>(f);
  const std::span<const Code> operands[] = {a, b, c};
  constexpr std::string_view names[] = {"the first operand", "the second operand", "the third operand"};
  for (int k = 0; k < 3; ++k) {
    if (k < arity) require_length(names[k], operands[k].size(), out.size());
    else if (!operands[k].empty()) refuse(std::string(info(operation).name) + " takes " + std::to_string(arity) + (arity == 1 ? " operand" : " operands") + ", and was given " + std::string(names[k]));
    require_apart(names[k], operands[k], out);
  }
  const ArithmeticPlan plan = tally ? ArithmeticPlan{} : arithmetic_plan(operation, f, rounding);
  in_pieces(out.size(), tally, [&](std::size_t begin, std::size_t size) {
    Tally part;
    if (fused(operation, f, plan, a, b, c, out, begin, size)) return part;
    if (plan.in_vectors()) {
      in_blocks(operation, plan, a, b, c, out, random, begin, size);
      return part;
    }
    for (std::size_t i = begin; i < begin + size; ++i) {
      const Rounded result = evaluate(operation, f, rounding, a[i], arity > 1 ? b[i] : 0, arity > 2 ? c[i] : 0, random_at(rounding, random, i));
      out[i] = static_cast<Code>(result.code);
      count_result(part, f, result);
    }
    return part;
  });
}

#define HALFULP_CODE(Code)                                                                                                            \
  template void encode(const FloatFormat&, const Rounding&, std::span<const float>, std::span<Code>, RandomStream, Tally*);            \
  template void encode(const FloatFormat&, const Rounding&, std::span<const double>, std::span<Code>, RandomStream, Tally*);           \
  template void decode(const FloatFormat&, std::span<const Code>, std::span<float>);                                                   \
  template void apply(Operation, const FloatFormat&, const Rounding&, std::span<const Code>, std::span<const Code>,                    \
                      std::span<const Code>, std::span<Code>, RandomStream, Tally*);
HALFULP_CODE(std::uint8_t)
HALFULP_CODE(std::uint16_t)
HALFULP_CODE(std::uint32_t)
#undef HALFULP_CODE

std::string_view array_instruction_set() { return array::instruction_set(); }

template <class T>
bool encodes_in_vectors(const FloatFormat& f, const Rounding& rounding) {
  return conversion_plan<T>(f, rounding, nullptr).has_value();
}
template bool encodes_in_vectors<float>(const FloatFormat&, const Rounding&);
template bool encodes_in_vectors<double>(const FloatFormat&, const Rounding&);
bool decodes_in_vectors(const FloatFormat& f) { return array::widen_plan(f, false).has_value(); }
bool applies_in_vectors(Operation operation, const FloatFormat& f, const Rounding& rounding) {
  return arithmetic_plan(operation, f, rounding).in_vectors();
}

}  // namespace halfulp
