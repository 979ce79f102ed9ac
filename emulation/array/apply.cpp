#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/array/byte_table.hpp>
#include <halfulp/emulation/array/half.hpp>
#include <halfulp/emulation/array/pieces.hpp>
#include <halfulp/emulation/array/scratch.hpp>
#include <halfulp/emulation/array/steps.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <memory>

namespace halfulp {
namespace {

using namespace array;

/// How an operation is done by the vector kernels, if it is: see array/arithmetic-inl.hpp for why it is right.
struct ArithmeticPlan {
  std::optional<WidenPlan> widen;
  std::optional<NarrowPlan<std::uint32_t>> in_float;
  std::optional<NarrowPlan<std::uint64_t>> in_double;
  std::optional<NarrowPlan<std::uint32_t>> as_short_floats;  ///< most elements; in_double the rest
  std::optional<NarrowPlan<std::uint32_t>> exact_floats;     ///< blocks whose results are floats; in_double the rest
  std::optional<HalfPlan> in_halves;                         ///< most elements; in_float the rest
  Sums sums = Sums::odd;
  bool truncates = false;                                ///< results are rounded toward zero in the carrier
  std::shared_ptr<const ArithmeticPlan> unflushed = {};  ///< of elements that flushing does not concern, most of them
  bool in_vectors() const { return in_float || in_double; }
  /// The same with a tally, which looks at sums rounded to odd; without vectors where something is flushed.
  ArithmeticPlan with_tally() const {
    ArithmeticPlan plan = *this;
    plan.as_short_floats.reset();
    plan.exact_floats.reset();
    plan.in_halves.reset();
    plan.unflushed.reset();
    plan.sums = sums == Sums::down ? Sums::down : Sums::odd;  // rounding to odd loses the sign of zero sums
    const bool flushes = widen && (widen->flushes || (in_float ? in_float->flushes : in_double && in_double->flushes));
    return flushes ? ArithmeticPlan{} : plan;
  }
};

ArithmeticPlan make_plan(Operation operation, const FloatFormat& f, const Rounding& rounding) {
  ArithmeticPlan plan;
  if (!info(operation).arrays) return plan;
  const int p = f.precision(), low = f.emin() - f.fraction_bits, high = f.emax() + 1;
  const bool draws = rounding.mode == RoundingMode::stochastic;
  if (p > 24 || !(plan.widen = widen_plan(f, rounding.flush_inputs))) return plan;
  // Stochastic rounding looks at p + 32 bits, cut off: of quotients and roots, too, where these were cut off before.
  if (draws && p + max_random_bits + 2 > 53) return plan;
  plan.truncates = draws && (operation == Operation::div || operation == Operation::sqrt);
  plan.sums = sums_before(rounding.mode, operation);
  // What is flushed is decided by the exact sum: only rounding to odd keeps it on its side of any limit.
  if (rounding.flush_outputs) {
    if (plan.sums == Sums::down) return {};  // the sign of a zero sum is lost in rounding to odd
    plan.sums = Sums::odd;
  }
  // No product or quotient leaves the normal floats, and 24 bits are enough.
  Rounding results = rounding;
  results.flush_inputs = false;  // that was for the operands
  const bool safe = 2 * low >= -126 && 2 * high <= 127 && low - high >= -126 && high - low <= 127;
  // Stochastic rounding takes results that are exact as floats.
  const bool is_sum = operation == Operation::add || operation == Operation::sub;
  const bool is_product = operation == Operation::mul && 2 * p <= 24;
  const bool exact = (is_product && 2 * low >= -149 && 2 * high <= 127) || (is_sum && high + 1 - low <= 24);
  if (draws ? exact : 2 * p + 2 <= 24 && safe) plan.in_float = narrow_plan<float>(f, results, Source::arithmetic);
  if (draws && plan.in_float) plan.sums = Sums::nearest;
  if (!plan.in_float) plan.in_double = narrow_plan<double>(f, results, Source::arithmetic);
  const bool flushes = rounding.flush_inputs || rounding.flush_outputs;
  if (plan.in_double && short_float(f) && !flushes && !draws)
    plan.as_short_floats = narrow_plan<float>(f, results, Source::arithmetic);
  // Of most fused sums of longer numbers a block has one that floats do not hold.
  const bool often_exact = operation == Operation::fma ? p <= 4 : is_product || (is_sum && p <= 12);
  if (draws && !plan.in_float && often_exact) plan.exact_floats = narrow_plan<float>(f, results, Source::arithmetic);
  if (plan.in_float) plan.in_halves = half_plan(operation, f, rounding);
  return plan;
}

Rounding without_flushing(Rounding rounding) {
  rounding.flush_inputs = rounding.flush_outputs = false;
  return rounding;
}

/// Throws where there is no such operation. See remembered() for how long the plan stays.
const ArithmeticPlan& arithmetic_plan(Operation operation, const FloatFormat& f, const Rounding& rounding, bool tally) {
  const auto make = [&] {
    require_task({operation, f, f, rounding});
    ArithmeticPlan plan = make_plan(operation, f, rounding);
    if (tally) return plan.with_tally();
    const Rounding plain = without_flushing(rounding);
    if (plain == rounding || rounding.mode == RoundingMode::stochastic) return plan;
    const ArithmeticPlan unflushed = make_plan(operation, f, plain);
    // Worth it where a kernel does that in one pass, and few numbers are subnormal.
    if (unflushed.as_short_floats || (unflushed.in_float && f == fp16))
      plan.unflushed = std::make_shared<const ArithmeticPlan>(unflushed);
    return plan;
  };
  return remembered(make, operation, f, rounding, tally);
}

/// A block of operands, as values.
template <class Code>
const float* widened(const WidenPlan& plan, std::span<const Code> codes, std::size_t begin, std::size_t size,
                     float* block) {
  if (codes.empty()) return nullptr;
  decode_lanes(plan, codes.data() + begin, block, size);
  std::fill_n(block + size, lane_padding, 0.0f);
  return block;
}

// --- one call ---

/// An operation on arrays of code words.
template <class Code>
struct Application {
  Operation operation;
  const FloatFormat& f;
  const Rounding& rounding;
  const ArithmeticPlan& plan;
  std::span<const Code> a, b, c;
  RandomWords random;

  Rounded scalar(std::size_t i) const {
    return evaluate(operation, f, rounding, a[i], b.empty() ? 0 : b[i], c.empty() ? 0 : c[i],
                    random_at(rounding, random, i));
  }

  void by_scalars(std::size_t begin, std::size_t size, Code* to, Tally& part) const {
    for (std::size_t i = 0; i < size; ++i) {
      const Rounded result = scalar(begin + i);
      to[i] = static_cast<Code>(result.code);
      count_result(part, f, result);
    }
  }

  void in_blocks(std::size_t begin, std::size_t count, Code* to, Tally* part) const {
    alignas(cache_line) float x[block_size + lane_padding], y[block_size + lane_padding], z[block_size + lane_padding];
    alignas(cache_line) float sums[block_size + lane_padding];
    alignas(cache_line) double wide[block_size + lane_padding];
    for (std::size_t done = 0; done < count; done += block_size) {
      const std::size_t at = begin + done, size = std::min(block_size, count - done);
      const float* const u = widened(*plan.widen, a, at, size, x);
      const float* const v = widened(*plan.widen, b, at, size, y);
      const float* const w = widened(*plan.widen, c, at, size, z);
      if (plan.exact_floats && !part && combine_exact_lanes(operation, u, v, w, sums, size))
        encode_codes(*plan.exact_floats, random.from(at), sums, to + done, size);
      else if (plan.in_float) block(*plan.in_float, u, v, w, sums, at, size, to + done, part);
      else block(*plan.in_double, u, v, w, wide, at, size, to + done, part);
    }
  }

  /// `sums`: room for the results before they are rounded, and their padding.
  template <class Plan, class T>
  void block(const Plan& to_codes, const float* u, const float* v, const float* w, T* sums, std::size_t at,
             std::size_t size, Code* to, Tally* part) const {
    if (plan.truncates) {
      const TowardZero environment;
      combine_lanes(operation, plan.sums, u, v, w, sums, size);
    } else {
      combine_lanes(operation, plan.sums, u, v, w, sums, size);
    }
    if (!part) return encode_codes(to_codes, random.from(at), sums, to, size);
    alignas(cache_line) Code codes[block_size];  // `to` may be where the operands are, which the tally asks for
    encode_codes(to_codes, random.from(at), sums, codes, size);
    if (plan.sums == Sums::down) combine_lanes(operation, Sums::odd, u, v, w, sums, size);
    alignas(cache_line) T values[block_size];
    quantize_lanes(to_codes, random.from(at), sums, values, size);
    tally_lanes(to_codes, sums, values, size, *part, [&](std::size_t first, std::size_t n) {
      for (std::size_t k = at + first; k < at + first + n; ++k) count_result(*part, f, scalar(k));
    });
    std::copy_n(codes, size, to);
  }

  /// In one pass where there is a kernel for it; false where not.
  bool fused(std::size_t begin, std::size_t count, Code* to) const {
    const auto from = [&](std::span<const Code> s) { return s.empty() ? nullptr : s.data() + begin; };
    if constexpr (sizeof(Code) > 1) {
      if (plan.as_short_floats) {
        const auto rest = [&](std::size_t first, std::size_t size) {
          const DefaultEnvironment environment;  // kernels have their own
          in_blocks(begin + first, size, to + first, nullptr);
        };
        combine_short_lanes(operation, *plan.as_short_floats, from(a), from(b), from(c), to, count, rest);
        return true;
      }
    }
    const bool draws = rounding.mode == RoundingMode::stochastic;
    if (!plan.in_float || plan.widen->flushes || plan.in_float->flushes || plan.in_float->unsigned_zero || draws)
      return false;
    if constexpr (sizeof(Code) == 1) {
      const auto by_floats = [&](std::size_t at, std::size_t size) {
        const auto some = [&](std::span<const Code> s) { return s.empty() ? nullptr : from(s) + at; };
        combine_byte_lanes(operation, *plan.widen, *plan.in_float, some(a), some(b), some(c), to + at, size);
      };
      if (plan.in_halves && has_half_lanes())
        combine_byte_halves(operation, *plan.in_halves, from(a), from(b), from(c), to, count, by_floats);
      else by_floats(0, count);
      return true;
    }
    if constexpr (sizeof(Code) == 2)
      return f == fp16 && combine_half_lanes(operation, *plan.in_float, from(a), from(b), from(c), to, count);
    return false;
  }

  /// Blocks as if nothing were flushed. Where an operand or a result says that something may be, once more: a tiny
  /// result is at most the smallest normal number when it is rounded, or zero, which it would be anyway.
  void seldom_flushed(std::size_t begin, std::size_t count, Code* to) const {
    constexpr std::size_t checked = 2 * block_size;
    const Rounding plain = without_flushing(rounding);
    const Application ordinary{operation, f, plain, *plan.unflushed, a, b, c, random};
    const auto magnitude = static_cast<Code>(f.magnitude_mask()), normal = static_cast<Code>(f.min_normal());
    alignas(cache_line) Code results[checked];  // `to` may be where the operands are
    Tally unused;
    for (std::size_t done = 0; done < count; done += checked) {
      const std::size_t at = begin + done, size = std::min(checked, count - done);
      const auto subnormal = [&](std::span<const Code> x) {
        return !x.empty() && any_small(x.data() + at, size, magnitude, normal - 1);
      };
      ordinary(at, size, results, unused, false);
      if ((rounding.flush_outputs && any_small(results, size, magnitude, normal)) ||
          (rounding.flush_inputs && (subnormal(a) || subnormal(b) || subnormal(c))))
        as_stated(at, size, to + done, unused, false);
      else std::copy_n(results, size, to + done);
    }
  }

  void as_stated(std::size_t begin, std::size_t size, Code* to, Tally& part, bool tally) const {
    if (plan.in_vectors()) in_blocks(begin, size, to, tally ? &part : nullptr);
    else by_scalars(begin, size, to, part);
  }

  void operator()(std::size_t begin, std::size_t size, Code* to, Tally& part, bool tally) const {
    if (tally) return as_stated(begin, size, to, part, true);
    if (plan.unflushed) return seldom_flushed(begin, size, to);
    if (!fused(begin, size, to)) as_stated(begin, size, to, part, false);
  }
};

/// Arrays that are worth a table of all results: what no kernel computes, if there is more of it than the table has.
template <class Code>
bool by_table(const Application<Code>& application, std::size_t count) {
  return sizeof(Code) == 1 && info(application.operation).arity == 2 &&
         application.rounding.mode != RoundingMode::stochastic && !application.plan.in_vectors() &&
         !application.plan.unflushed && count > ByteTable{}.size();
}

std::shared_ptr<const ByteTable> table_of(const Application<std::uint8_t>& application) {
  return byte_table(application.operation, application.f, application.rounding,
                    [&](auto a, auto b, std::span<std::uint8_t> results) {
                      const DefaultEnvironment environment;
                      Tally unused;
                      Application<std::uint8_t> all = application;
                      all.a = a, all.b = b;
                      all(0, results.size(), results.data(), unused, false);
                    });
}

}  // namespace

template <class Code>
void apply(Operation operation, const FloatFormat& f, const Rounding& rounding, std::span<const Code> a,
           std::span<const Code> b, std::span<const Code> c, std::span<Code> out, RandomStream random, Tally* tally) {
  if (operation == Operation::convert) refuse("apply stays in one format; convert goes through encode and decode");
  const ArithmeticPlan& kept = arithmetic_plan(operation, f, rounding, tally != nullptr);
  require_width<Code>(f);
  require_random(rounding, random);
  const std::span<const Code> operands[] = {a, b, c};
  for (int k = 0; k < 3; ++k) {
    require_operand(info(operation), k, operands[k].size(), out.size());
    require_apart(operand_names[k], operands[k], out);
  }
  if (one_piece(out.size()) && !tally) {
    const DefaultEnvironment environment;
    Tally unused;
    return Application<Code>{operation, f, rounding, kept, a, b, c, random}(0, out.size(), out.data(), unused, false);
  }
  const bool in_place = same_array(a, out) || same_array(b, out) || same_array(c, out);
  const std::size_t operand_bytes = in_place ? 0 : static_cast<std::size_t>(info(operation).arity) * out.size_bytes();
  const ArithmeticPlan plan = kept;  // a copy: see remembered()
  const Application<Code> application{operation, f, rounding, plan, a, b, c, random};
  if constexpr (sizeof(Code) == 1) {
    if (!tally && by_table(application, out.size())) {
      const auto table = table_of(application);
      return in_pieces(out, operand_bytes, nullptr,
                       [&](std::size_t begin, std::size_t size, std::uint8_t* to, Tally&, bool streams) {
                         by_blocks(streams, begin, size, to, [&](std::size_t at, std::size_t n, std::uint8_t* block) {
                           look_up(*table, a.data() + at, b.data() + at, block, n);
                         });
                       });
    }
  }
  in_pieces(out, operand_bytes, tally, [&](std::size_t begin, std::size_t size, Code* to, Tally& part, bool streams) {
    const DefaultEnvironment environment;
    by_blocks(streams, begin, size, to, [&](std::size_t at, std::size_t n, Code* block) {
      if (streams)
        for (const std::span<const Code> x : operands)
          if (!x.empty()) fetch_ahead(x.data() + at, n);
      application(at, n, block, part, tally != nullptr);
    });
  });
}

#define HALFULP_CODE(Code)                                                                                          \
  template void apply(Operation, const FloatFormat&, const Rounding&, std::span<const Code>, std::span<const Code>, \
                      std::span<const Code>, std::span<Code>, RandomStream, Tally*);
HALFULP_CODE(std::uint8_t)
HALFULP_CODE(std::uint16_t)
HALFULP_CODE(std::uint32_t)
#undef HALFULP_CODE

namespace array {

template <class Code>
struct Steps<Code>::Plans {
  static constexpr Operation operations[] = {Operation::add, Operation::sub, Operation::mul, Operation::fma};
  FloatFormat f;
  Rounding rounding;
  ArithmeticPlan arithmetic[std::size(operations)];
  std::optional<NarrowPlan<std::uint32_t>> conversion;

  Plans(const FloatFormat& format, const Rounding& r) : f(format), rounding(r) {
    for (std::size_t i = 0; i < std::size(operations); ++i) arithmetic[i] = arithmetic_plan(operations[i], f, r, false);
    // What is subnormal elsewhere need not be as a float, and floats made of NaNs have lost their payloads.
    if (!r.flush_inputs && !keeps_payload(r.nan)) conversion = narrow_plan<float>(f, r, Source::conversion);
  }
};

template <class Code>
Steps<Code>::Steps(const FloatFormat& f, const Rounding& rounding) : plans_(new Plans(f, rounding)) {}
template <class Code>
Steps<Code>::~Steps() = default;
template <class Code>
Steps<Code>::Steps(Steps&&) noexcept = default;

template <class Code>
void Steps<Code>::operator()(Operation operation, const Code* a, const Code* b, const Code* c, Code* out,
                             std::size_t count, const std::uint32_t* words) const {
  const Plans& p = *plans_;
  const auto at = std::find(std::begin(Plans::operations), std::end(Plans::operations), operation);
  const std::span<const Code> none;
  const Application<Code> application{operation,
                                      p.f,
                                      p.rounding,
                                      p.arithmetic[at - std::begin(Plans::operations)],
                                      {a, count},
                                      {b, count},
                                      operation == Operation::fma ? std::span(c, count) : none,
                                      words ? RandomWords(words) : RandomWords(RandomStream{})};
  Tally unused;
  application(0, count, out, unused, false);
}

template <class Code>
void Steps<Code>::convert_from(const FloatFormat& from, const Code* in, Code* out, std::size_t count,
                               const std::uint32_t* words) const {
  const Plans& p = *plans_;
  const RandomWords random = words ? RandomWords(words) : RandomWords(RandomStream{});
  if (const auto widen = p.conversion ? widen_plan(from, false) : std::nullopt) {
    alignas(cache_line) float values[longest + lane_padding];
    decode_lanes(*widen, in, values, count);
    return encode_codes(*p.conversion, random, values, out, count);
  }
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<Code>(convert(from, p.f, p.rounding, in[i], random_at(p.rounding, random, i)).code);
}

template class Steps<std::uint8_t>;
template class Steps<std::uint16_t>;
template class Steps<std::uint32_t>;

}  // namespace array

bool applies_in_vectors(Operation operation, const FloatFormat& f, const Rounding& rounding) {
  const ArithmeticPlan& plan = arithmetic_plan(operation, f, rounding, false);
  return plan.in_vectors() || plan.unflushed;
}

}  // namespace halfulp
