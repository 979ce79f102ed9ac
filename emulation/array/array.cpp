#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/array/pieces.hpp>
#include <halfulp/emulation/array/scratch.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace halfulp {
namespace {

using namespace array;

template <class T>
auto bits_of(T value) {
  return std::bit_cast<typename Carrier<T>::Bits>(value);
}

/// The plan of encode and quantize; none where the scalar functions do the work. Throws where there is no such
/// conversion.
template <class T>
const auto& checked_plan(const FloatFormat& f, const Rounding& rounding) {
  const auto make = [&] {
    require_task({Operation::convert, Carrier<T>::format, f, rounding});
    return narrow_plan<T>(f, rounding, Source::conversion);
  };
  return remembered(make, f, rounding);
}
/// The same of decode.
const auto& checked_plan(const FloatFormat& f) {
  const auto make = [&] {
    require_task({Operation::convert, f, fp32, {}});
    return widen_plan(f, false);
  };
  return remembered(make, f);
}

/// One conversion of an array: from T to T (quantize) or to code words.
template <class T, class Out>
struct Conversion {
  static constexpr FloatFormat carrier = Carrier<T>::format;
  static constexpr bool to_values = std::is_same_v<T, Out>;
  using Plan = NarrowPlan<typename Carrier<T>::Bits>;
  const FloatFormat& f;
  const Rounding& rounding;
  std::span<const T> in;
  RandomStream random;

  Rounded scalar(std::size_t i) const {
    return convert(carrier, f, rounding, bits_of(in[i]), random_at(rounding, random, i));
  }

  void by_scalars(std::size_t begin, std::size_t size, Out* to, Tally& part) const {
    Rounding back;  // exact wherever the format fits the carrier
    back.nan = rounding.nan;
    for (std::size_t i = 0; i < size; ++i) {
      const Rounded result = scalar(begin + i);
      if constexpr (to_values)
        to[i] = std::bit_cast<T>(static_cast<typename Carrier<T>::Bits>(convert(f, carrier, back, result.code).code));
      else to[i] = static_cast<Out>(result.code);
      count_result(part, f, result);
    }
  }

  static void lanes(const Plan& plan, const RandomWords& words, const T* from, Out* to, std::size_t size) {
    if constexpr (to_values) quantize_lanes(plan, words, from, to, size);
    else encode_codes(plan, words, from, to, size);
  }

  void in_vectors(const Plan& plan, std::size_t begin, std::size_t size, Out* to, bool streams) const {
    by_blocks(streams, begin, size, to, [&](std::size_t at, std::size_t n, Out* block) {
      if (streams) fetch_ahead(in.data() + at, n);
      lanes(plan, random.from(at), in.data() + at, block, n);
    });
  }

  /// The same, and what happened; blocks of values stay for that, since `to` may be where the operands are.
  void tallied(const Plan& plan, std::size_t begin, std::size_t size, Out* to, Tally& part) const {
    alignas(cache_line) T values[block_size];
    for (std::size_t i = 0; i < size; i += block_size) {
      const std::size_t at = begin + i, n = std::min(block_size, size - i);
      quantize_lanes(plan, random.from(at), in.data() + at, values, n);
      tally_lanes(plan, in.data() + at, values, n, part, [&](std::size_t first, std::size_t count) {
        for (std::size_t k = at + first; k < at + first + count; ++k) count_result(part, f, scalar(k));
      });
      if constexpr (to_values) std::copy_n(values, n, to + i);
      else encode_codes(plan, random.from(at), in.data() + at, to + i, n);
    }
  }

  void operator()(std::span<Out> out, Tally* tally) const {
    const std::optional<Plan>& kept = checked_plan<T>(f, rounding);
    if constexpr (!to_values) require_width<Out>(f);
    require_random(rounding, random);
    require_length("the operand", in.size(), out.size());
    require_apart("the operand", in, out);
    if (one_piece(out.size()) && kept && !tally) in_one_piece(*kept, out);
    else by_plan(kept, out, tally);
  }

 private:
  /// The shortest way to the kernel: what is done here takes as long as rounding a hundred elements.
  void in_one_piece(const Plan& plan, std::span<Out> out) const {
    if (plan.upper_half && has_embedded_rounding())  // by integers, and no comparison raises a flag
      return lanes(plan, random, in.data(), out.data(), out.size());
    const DefaultEnvironment environment;
    lanes(plan, random, in.data(), out.data(), out.size());
  }

  void by_plan(std::optional<Plan> plan, std::span<Out> out, Tally* tally) const {  // a copy: see remembered()
    in_pieces(out, bytes_apart(in, out), tally,
              [&](std::size_t begin, std::size_t size, Out* to, Tally& part, bool streams) {
                const DefaultEnvironment environment;
                if (!plan || (tally && plan->flushes)) by_scalars(begin, size, to, part);
                else if (tally) tallied(*plan, begin, size, to, part);
                else in_vectors(*plan, begin, size, to, streams);
              });
  }
};

template <class T>
void quantize_any(const FloatFormat& f, const Rounding& rounding, std::span<const T> in, std::span<T> out,
                  RandomStream random, Tally* tally) {
  Conversion<T, T>{f, rounding, in, random}(out, tally);
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

std::string refusal(const Rounding& rounding, const RandomStream& random) {
  const int n = random.roundings_per_word;
  if (n == 1) return {};
  if (n != 2 && n != 4) return "roundings per word must be 1, 2 or 4, not " + std::to_string(n);
  if (rounding.mode != RoundingMode::stochastic || rounding.random_bits <= 32 / n) return {};
  return "with " + std::to_string(n) + " roundings per word, random bits must be 1 to " + std::to_string(32 / n) +
         ", not " + std::to_string(rounding.random_bits);
}

void quantize(const FloatFormat& f, const Rounding& rounding, std::span<const float> in, std::span<float> out,
              RandomStream random, Tally* tally) {
  quantize_any(f, rounding, in, out, random, tally);
}
void quantize(const FloatFormat& f, const Rounding& rounding, std::span<const double> in, std::span<double> out,
              RandomStream random, Tally* tally) {
  quantize_any(f, rounding, in, out, random, tally);
}

template <class T, class Code>
void encode(const FloatFormat& f, const Rounding& rounding, std::span<const T> in, std::span<Code> out,
            RandomStream random, Tally* tally) {
  Conversion<T, Code>{f, rounding, in, random}(out, tally);
}

template <class Code>
void decode(const FloatFormat& f, std::span<const Code> in, std::span<float> out) {
  const std::optional<WidenPlan>& kept = checked_plan(f);
  require_width<Code>(f);
  require_length("the operand", in.size(), out.size());
  require_apart("the operand", in, out);
  if (one_piece(out.size()) && kept) {
    if (kept->linear && has_embedded_rounding())  // likewise
      return decode_lanes(*kept, in.data(), out.data(), out.size());
    const DefaultEnvironment environment;
    return decode_lanes(*kept, in.data(), out.data(), out.size());
  }
  const std::optional<WidenPlan> plan = kept;  // a copy: see remembered()
  in_pieces(out, bytes_apart(in, out), nullptr,
            [&](std::size_t begin, std::size_t size, float* to, Tally&, bool streams) {
              if (plan)
                return by_blocks(streams, begin, size, to, [&](std::size_t at, std::size_t n, float* block) {
                  if (streams) fetch_ahead(in.data() + at, n);
                  decode_lanes(*plan, in.data() + at, block, n);
                });
              for (std::size_t i = 0; i < size; ++i)
                to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(convert(f, fp32, {}, in[begin + i]).code));
            });
}

#define HALFULP_CODE(Code)                                                                                          \
  template void encode(const FloatFormat&, const Rounding&, std::span<const float>, std::span<Code>, RandomStream,  \
                       Tally*);                                                                                     \
  template void encode(const FloatFormat&, const Rounding&, std::span<const double>, std::span<Code>, RandomStream, \
                       Tally*);                                                                                     \
  template void decode(const FloatFormat&, std::span<const Code>, std::span<float>);
HALFULP_CODE(std::uint8_t)
HALFULP_CODE(std::uint16_t)
HALFULP_CODE(std::uint32_t)
#undef HALFULP_CODE

std::string_view array_instruction_set() { return instruction_set(); }
void limit_array_instructions_by_environment() {
  const char* const variable = "HALFULP_INSTRUCTION_SET";
  const char* const most = std::getenv(variable);
  if (!most || !*most) return;
  try {
    limit_instruction_set(most);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string(variable) + ": " + error.what());
  }
}

template <class T>
bool encodes_in_vectors(const FloatFormat& f, const Rounding& rounding) {
  return narrow_plan<T>(f, rounding, Source::conversion).has_value();
}
template bool encodes_in_vectors<float>(const FloatFormat&, const Rounding&);
template bool encodes_in_vectors<double>(const FloatFormat&, const Rounding&);
bool decodes_in_vectors(const FloatFormat& f) { return widen_plan(f, false).has_value(); }

}  // namespace halfulp
