#include <halfulp/emulation/found.hpp>

#include <halfulp/formats/catalogue.hpp>

namespace halfulp {
namespace {

// What a format's masks and limits are takes most of an operation's time where they are computed for every operand. So
// there are copies for some formats, in which the compiler knows them: everything is inlined there (gnu::flatten).

/// f(std::integral_constant<FloatFormat, format>) for one of the formats that experiments compute in most, or `other`.
template <class F, class Result>
Result with_common(const FloatFormat& format, Result other, F&& f) {
  Result found = other;
  const auto look_at = [&]<FloatFormat one>(std::integral_constant<FloatFormat, one> constant) {
    if (format == one) found = f(constant);
  };
  look_at(std::integral_constant<FloatFormat, fp16>{});
  look_at(std::integral_constant<FloatFormat, bf16>{});
  look_at(std::integral_constant<FloatFormat, tf32>{});
  look_at(std::integral_constant<FloatFormat, fp32>{});
  look_at(std::integral_constant<FloatFormat, e4m3>{});
  look_at(std::integral_constant<FloatFormat, e5m2>{});
  return found;
}

template <Operation operation>
Rounded in_any(const FloatFormat& f, const Rounding& r, std::uint64_t a, std::uint64_t b, std::uint64_t c,
               std::uint64_t random) {
  return evaluate(operation, f, r, a, b, c, random);
}

template <Operation operation, FloatFormat f>
[[gnu::flatten]] Rounded in_one(const FloatFormat&, const Rounding& r, std::uint64_t a, std::uint64_t b,
                                std::uint64_t c, std::uint64_t random) {
  return Definition<operation>::template of<Wide<f.precision()>>(f, f, r, a, b, c, random);
}

Rounded convert_any(const NumberType& from, const FloatFormat& to, const Rounding& r, std::uint64_t code,
                    std::uint64_t random) {
  return evaluate(Task{Operation::convert, from, to, r}, code, 0, 0, random);
}

template <FloatFormat to>
[[gnu::flatten]] Rounded convert_float(const NumberType& from, const FloatFormat&, const Rounding& r,
                                       std::uint64_t code, std::uint64_t random) {
  return convert(*std::get_if<FloatFormat>(&from), to, r, code, random);
}

template <FloatFormat to>
[[gnu::flatten]] Rounded convert_integer(const NumberType& from, const FloatFormat&, const Rounding& r,
                                         std::uint64_t code, std::uint64_t random) {
  return from_integer(*std::get_if<IntegerType>(&from), to, r, code, random);
}

}  // namespace

FoundOperation find_operation(Operation operation, const FloatFormat& f) {
  return with_operation(operation, [&]<Operation op>(std::integral_constant<Operation, op>) -> FoundOperation {
    constexpr bool frequent = op == Operation::add || op == Operation::sub || op == Operation::mul ||
                              op == Operation::div || op == Operation::fma;
    if constexpr (!frequent) return in_any<op>;
    else
      return with_common(
          f, FoundOperation{in_any<op>},
          []<FloatFormat one>(std::integral_constant<FloatFormat, one>) -> FoundOperation { return in_one<op, one>; });
  });
}

FoundConversion find_conversion(const NumberType& from, const FloatFormat& to) {
  const bool of_integers = std::holds_alternative<IntegerType>(from);
  return with_common(to, FoundConversion{convert_any},
                     [&]<FloatFormat one>(std::integral_constant<FloatFormat, one>) -> FoundConversion {
                       return of_integers ? convert_integer<one> : convert_float<one>;
                     });
}

}  // namespace halfulp
