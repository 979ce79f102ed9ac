// Arithmetic from code words to code words in one pass: the loop over arrays, whatever their code words are. Included
// once for each instruction set.
#if defined(HALFULP_ARRAY_FUSED_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HALFULP_ARRAY_FUSED_INL
#undef HALFULP_ARRAY_FUSED_INL
#else
#define HALFULP_ARRAY_FUSED_INL
#endif

#include <halfulp/emulation/array/arithmetic-inl.hpp>
#include <halfulp/emulation/array/four-inl.hpp>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace halfulp::array::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Operands, as many as an operation takes, and the result.
template <class Code, int arity>
struct Pointers {
  const Code *a, *b, *c;
  Code* out;
  Pointers at(std::size_t i) const { return {a + i, arity > 1 ? b + i : b, arity > 2 ? c + i : c, out + i}; }
};

/// Words of which any vector has a result: words.any_value() and store_any(), one vector after the other. store_any()
/// has the mode's own environment.
template <class Words>
struct InLanes {
  template <Operation, RoundingMode mode>
  static constexpr int environment = direction_of(mode);
  struct Key {};  // no result is lost
  static HWY_INLINE Key no_key() { return {}; }
  static HWY_INLINE bool lost(Key) { return false; }

  template <Operation op, RoundingMode mode>
  static HWY_INLINE VF result(VF a, VF b, VF c, Key&) {
    return combine<op, sums_before(mode, op), Words::template environment<op, mode>>(df, a, b, c);
  }

  /// Any operands, any number of them.
  template <Operation op, RoundingMode mode, class Code, int arity>
  HWY_NOINLINE HWY_ATTR void any(Pointers<Code, arity> p, std::size_t, std::size_t count) const {
    const Words& words = static_cast<const Words&>(*this);
    const std::size_t lanes = hn::Lanes(df);
    Code padded[3][HWY_MAX_BYTES / 4] = {}, last[HWY_MAX_BYTES / 4];
    HWY_ALIGN float results[HWY_MAX_BYTES / 4];
    for (std::size_t i = 0; i < count; i += lanes) {
      const std::size_t size = std::min(lanes, count - i);
      Pointers<Code, arity> q = p.at(i);
      if (size < lanes) {
        std::memcpy(padded[0], q.a, size * sizeof(Code));
        if (arity > 1) std::memcpy(padded[1], q.b, size * sizeof(Code));
        if (arity > 2) std::memcpy(padded[2], q.c, size * sizeof(Code));
        q = {padded[0], padded[1], padded[2], last};
      }
      const VF a = words.any_value(q.a), b = arity > 1 ? words.any_value(q.b) : a,
               c = arity > 2 ? words.any_value(q.c) : a;
      Key no_key;
      const VF r = result<op, mode>(a, b, c, no_key);
      hn::Store(r, df, results);
      const InDirection<direction_of(mode), Words::template environment<op, mode>> own;
      words.template store_any<mode>(hn::Load(df, results), q.out);
      if (size < lanes) std::memcpy(p.out + i, last, size * sizeof(Code));
    }
  }
};

/// One operation in one mode. Words are one kind of code words: whether they are ordinary, how they become four vectors
/// of floats, how operations on these are done and rounded, in which environment, what is too special for that, and how
/// that is done.
template <class Words, Operation op, RoundingMode mode>
struct Fused {
  using Code = typename Words::Code;
  static constexpr int arity = info(op).arity;
  using P = Pointers<Code, arity>;

  /// Four vectors at a time; those without special operands or results, nearly all, take the short way.
  static HWY_ATTR void all(const Words& given, P p, std::size_t count) {
    const InDirection<Words::template environment<op, mode>> environment;
    const Words words = given;  // any() does not see this copy: neither it nor stores can change it
    const std::size_t lanes = hn::Lanes(df);
    const auto ordinary = [&](std::size_t i) HALFULP_ATTR_INLINE {
      const P q = p.at(i);
      if (HWY_UNLIKELY(!words.finite(q.a) || (arity > 1 && !words.finite(q.b)) || (arity > 2 && !words.finite(q.c))))
        return false;
      VF a[4], b[4], c[4];
      words.load(q.a, a), words.load(arity > 1 ? q.b : q.a, b), words.load(arity > 2 ? q.c : q.a, c);
      auto key = Words::no_key();
      const auto result = [&](int k) HWY_ATTR { return words.template result<op, mode>(a[k], b[k], c[k], key); };
      const VF r[] = {result(0), result(1), result(2), result(3)};  // (gcc keeps the arrays of a loop in memory)
      if (HWY_UNLIKELY(words.lost(key) || (words.template special<op, mode>(r)))) return false;
      words.template store<mode>(r, q.out);
      return true;
    };
    in_runs(count, 4 * lanes, ordinary,
            [&](std::size_t i, std::size_t size) HWY_ATTR { given.template any<op, mode>(p.at(i), i, size); });
  }
};

template <class Words>
HWY_ATTR void fused(Operation operation, RoundingMode rounding, const Words& words, const typename Words::Code* a,
                    const typename Words::Code* b, const typename Words::Code* c, typename Words::Code* out,
                    std::size_t count) {
  with_array_operation(operation, [&]<Operation op>(std::integral_constant<Operation, op>) HWY_ATTR {
    with_mode(rounding, [&]<RoundingMode mode>(std::integral_constant<RoundingMode, mode>) HWY_ATTR {
      if constexpr (mode != RoundingMode::stochastic) Fused<Words, op, mode>::all(words, {a, b, c, out}, count);
      else throw std::logic_error("array arithmetic: stochastic rounding goes through double");
    });
  });
}

}  // namespace halfulp::array::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
