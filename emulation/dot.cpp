#include <halfulp/emulation/dot.hpp>
#include <halfulp/emulation/known.hpp>
#include <halfulp/formats/catalogue.hpp>

namespace halfulp {

/// Single operations, evaluated without a record.
struct RoundedOperations {
  FloatFormat format;
  Rounding rounding;
  std::uint64_t add(std::uint64_t a, std::uint64_t b, std::uint64_t random) const {
    return evaluate<Operation::add>(format, rounding, a, b, 0, random).code;
  }
  std::uint64_t sub(std::uint64_t a, std::uint64_t b, std::uint64_t random) const {
    return evaluate<Operation::sub>(format, rounding, a, b, 0, random).code;
  }
  std::uint64_t mul(std::uint64_t a, std::uint64_t b, std::uint64_t random) const {
    return evaluate<Operation::mul>(format, rounding, a, b, 0, random).code;
  }
  std::uint64_t fma(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t random) const {
    return evaluate<Operation::fma>(format, rounding, a, b, c, random).code;
  }
  std::uint64_t convert_from(const FloatFormat& from, std::uint64_t code, std::uint64_t random) const {
    return convert(from, format, rounding, code, random).code;
  }
};

namespace {

DotEngine<RoundedOperations> engine(const DotModel& model) {
  return {model, [](const FloatFormat& f, const Rounding& r) { return RoundedOperations{f, r}; }};
}

}  // namespace

bool holds(const FloatFormat& outer, const FloatFormat& inner) {
  // The value of a subnormal number would raise a flag of the caller's environment: exponents tell as much.
  return outer.precision() >= inner.precision() && (outer.is_signed || !inner.is_signed) &&
         (outer.has_zero || !inner.has_zero) && outer.value(outer.max_finite()) >= inner.value(inner.max_finite()) &&
         outer.emin() - outer.fraction_bits <= inner.emin() - inner.fraction_bits;
}

std::string refusal(const DotModel& model) {
  for (const Stage* s : {&model.accumulator, &model.outer(), model.product ? &*model.product : nullptr,
                         model.output ? &*model.output : nullptr}) {
    if (!s) continue;
    if (const std::string why = defect(s->format); !why.empty()) return "a stage's format " + why;
    if (!s->format.has_zero) return format_name(s->format) + " holds scales: nothing is added or multiplied in it";
    if (const int bits = s->rounding.random_bits; bits < 1 || bits > max_random_bits)
      return "random bits are 1 to 32, not " + std::to_string(bits);
  }
  for (const FloatFormat* f : {&model.input, &model.second()})
    if (const std::string why = defect(*f); !why.empty()) return "an operand's format " + why;
  if (model.block == 0) return "a block has at least one term, not 0";
  if (model.order == Order::tree && model.width < 2)
    return "a tree is at least 2 wide, not " + std::to_string(model.width);
  if (model.order == Order::interleaved && model.width == 0) return "there is at least one lane, not 0";
  return {};
}

std::string dot_refusal(const DotModel& model) {
  if (std::string why = refusal(model); !why.empty()) return why;
  const FloatFormat& multiplier = model.product ? model.product->format : model.accumulator.format;
  for (const FloatFormat& input : {model.input, model.second()})
    if (!holds(multiplier, input))
      return "products of " + format_name(input) + " need a format that holds its values, not " +
             format_name(multiplier);
  if (!model.product && model.compensation != Compensation::none)
    return "compensation needs products that are rounded, not exact ones inside fma";
  return {};
}

std::uint64_t sum(const DotModel& model, std::span<const std::uint64_t> x, std::uint64_t stream) {
  return engine(model).sum(x, stream);
}

std::uint64_t dot(const DotModel& model, std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
                  std::uint64_t stream) {
  return engine(model).dot(a, b, stream);
}

struct PlainDots::Engine {
  DotEngine<RoundedOperations> on;
};
PlainDots::PlainDots(const DotModel& model) : engine_(new Engine{engine(model)}) {}
PlainDots::~PlainDots() = default;
std::uint64_t PlainDots::operator()(std::span<const std::uint64_t> a, std::span<const std::uint64_t> b,
                                    std::optional<std::uint64_t> c, std::uint64_t stream) {
  return engine_->on.dot_add(a, b, c, stream);
}

}  // namespace halfulp
