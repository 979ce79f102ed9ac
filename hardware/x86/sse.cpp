// fp32 and fp64: the native scalar instructions.
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/x86/instructions.hpp>
#include <halfulp/hardware/x86/x86.hpp>

#include <stdexcept>

namespace halfulp::x86 {

#if defined(__x86_64__)
namespace {

bool native(const NumberType& type) { return is(type, fp32) || is(type, fp64); }

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
template <class T>
T value(std::uint64_t code) {
  return std::bit_cast<T>(static_cast<Bits<T>>(code));
}
template <class T>
std::uint64_t code(T value) {
  if constexpr (std::is_same_v<T, bool>) return value;
  else return std::bit_cast<Bits<T>>(value);
}

/// results[i] = f(a) or f(a, b) or f(a, b, c), of T.
template <class T, class F>
void each(const Operands& x, std::span<std::uint64_t> results, F f) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    if constexpr (std::is_invocable_v<F, T, T, T>)
      results[i] = code(f(value<T>(x.a[i]), value<T>(x.b[i]), value<T>(x.c[i])));
    else if constexpr (std::is_invocable_v<F, T, T>) results[i] = code(f(value<T>(x.a[i]), value<T>(x.b[i])));
    else results[i] = code(f(value<T>(x.a[i])));
  }
}

template <class T>
void convert_to(const NumberType& to, const Operands& x, std::span<std::uint64_t> results) {
  if (is(to, i32)) return each<T>(x, results, [](T a) { return std::bit_cast<float>(to_i32(a)); });
  if (is(to, i64)) return each<T>(x, results, [](T a) { return std::bit_cast<double>(to_i64(a)); });
  if constexpr (sizeof(T) == 8) each<T>(x, results, [](T a) { return to_float(a); });
  else each<T>(x, results, [](T a) { return to_double(a); });
}

template <class T>
void run_in(const Task& task, const Operands& x, std::span<std::uint64_t> results) {
  switch (task.operation) {
    case Operation::add: return each<T>(x, results, [](T a, T b) { return add(a, b); });
    case Operation::sub: return each<T>(x, results, [](T a, T b) { return sub(a, b); });
    case Operation::mul: return each<T>(x, results, [](T a, T b) { return mul(a, b); });
    case Operation::div: return each<T>(x, results, [](T a, T b) { return div(a, b); });
    case Operation::sqrt: return each<T>(x, results, [](T a) { return sqrt(a); });
    case Operation::fma: return each<T>(x, results, [](T a, T b, T c) { return fma(a, b, c); });
    case Operation::round_to_integral: return each<T>(x, results, [](T a) { return round_to_integral(a); });
    case Operation::eq: return each<T>(x, results, [](T a, T b) { return eq(a, b); });
    case Operation::lt: return each<T>(x, results, [](T a, T b) { return lt(a, b); });
    case Operation::le: return each<T>(x, results, [](T a, T b) { return le(a, b); });
    case Operation::convert: return convert_to<T>(task.to, x, results);
    default: throw std::logic_error("x86.sse: unsupported task");
  }
}

/// A 32-bit integer is one of 64 bits: nothing is rounded on the way.
std::int64_t integer(const NumberType& type, std::uint64_t bits) {
  return is(type, i32) ? static_cast<std::int32_t>(bits) : static_cast<std::int64_t>(bits);
}

std::string instruction(const Task& task) {
  const bool wide = is(std::holds_alternative<FloatFormat>(task.from) ? task.from : task.to, fp64);
  const std::string suffix = wide ? "SD" : "SS";
  if (task.operation != Operation::convert) return std::string(info(task.operation).x86) + suffix;
  if (!std::holds_alternative<FloatFormat>(task.from)) return "CVTSI2" + suffix;
  if (!std::holds_alternative<FloatFormat>(task.to)) return "CVT" + suffix + "2SI";
  return wide ? "CVTSD2SS" : "CVTSS2SD";
}

class Sse final : public Route {
 public:
  std::string_view name() const override { return "x86.sse"; }

  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    const ScopedMxcsr scope(mxcsr_for(task.rounding.mode, task.rounding.flush_inputs, task.rounding.flush_outputs));
    if (!std::holds_alternative<FloatFormat>(task.from)) {
      const bool wide = is(task.to, fp64);
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const std::int64_t a = integer(task.from, operands.a[i]);
        results[i] = wide ? code(to_double(a)) : code(to_float(a));
      }
    } else if (is(task.from, fp64)) {
      run_in<double>(task, operands, results);
    } else {
      run_in<float>(task, operands, results);
    }
  }

 protected:
  std::string_view missing(const CpuFeatures& cpu) const override { return cpu.x86 ? "" : "SSE2"; }

  Support judge(const Task& task) const override {
    if (task.operation == Operation::convert) {
      const bool from_integer = std::holds_alternative<IntegerType>(task.from),
                 to_integer = std::holds_alternative<IntegerType>(task.to);
      const bool fits = from_integer ? native(task.to)
                        : to_integer ? native(task.from)
                                     : native(task.from) && native(task.to) && task.from != task.to;
      if (!fits) return Support::no("converts between fp32, fp64 and integers only");
    } else if (!native(task.from)) {
      return Support::no("fp32 and fp64 only");
    }
    if (task.rounding.overflow == Overflow::saturate) return Support::no("no SSE instruction saturates");
    if (task.rounding.flush_outputs && task.rounding.tininess == Tininess::before)
      return Support::no("x86 flushes what is tiny after rounding, not before");
    if (task.operation == Operation::fma && !cpu().fma) return Support::no("this CPU has no FMA");
    if (task.operation == Operation::round_to_integral && !cpu().sse41) return Support::no("this CPU has no SSE4.1");
    const std::string_view set = task.operation == Operation::fma                 ? " (FMA3)"
                                 : task.operation == Operation::round_to_integral ? " (SSE4.1)"
                                                                                  : " (SSE2)";
    return Support::by(instruction(task) + std::string(set));
  }
};

}  // namespace

const Device& sse_route() {
  static const Sse route;
  return route;
}
#endif

}  // namespace halfulp::x86
