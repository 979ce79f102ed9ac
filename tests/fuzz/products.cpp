// Products by a model equal the scalar definition, output by output; sums that are simply sequential equal the
// rationals too.
#include "choices.hpp"

#include "emulation/product/products.hpp"

using namespace fuzz;

namespace {

Stage stage(Choices& choices, const FloatFormat& like, const Rounding& common) {
  return {choices.below(3) ? like : choices.format(), choices.below(4) ? common : choices.rounding()};
}

DotModel model_of(Choices& choices) {
  DotModel m;
  m.input = choices.format();
  if (choices.below(6) == 0) m.input_b = choices.format();
  const Rounding common = choices.rounding();
  m.accumulator = choices.flag() ? Stage{m.input, common} : stage(choices, choices.flag() ? fp32 : m.input, common);
  if (choices.below(4) != 0) m.product = choices.flag() ? m.accumulator : stage(choices, m.accumulator.format, common);
  if (choices.below(4) == 0) m.promoted = stage(choices, fp32, common);
  if (choices.below(6) == 0) m.output = stage(choices, m.input, common);
  if (choices.flag()) m.order = choices.one_of(orders).value;
  m.block = 1 + choices.below(std::size_t{20});
  m.width = 2 + choices.below(std::size_t{9});
  if (choices.below(4) == 0) m.compensation = choices.one_of(compensations).value;
  m.seed = choices.bits(1);
  return m;
}

/// The sum of products, one after the other, by rationals.
std::uint64_t judged(const DotModel& m, const check::Matrices& x, std::size_t i, std::size_t j) {
  const Stage &product = *m.product, &sum = m.accumulator;
  const auto in = [](const Stage& s, Operation operation, std::uint64_t a, std::uint64_t b) {
    return oracle::evaluate({operation, s.format, s.format, s.rounding}, a, b).code;
  };
  std::uint64_t all = 0;
  for (std::size_t k = 0; k < x.k; ++k) {
    const std::uint64_t term = in(product, Operation::mul, x.a[i * x.k + k], x.b[k * x.n + j]);
    all = k == 0 ? term : in(sum, Operation::add, all, term);
  }
  return x.c.empty() ? all : in(sum, Operation::add, all, x.c[i * x.n + j]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices(data, size);
  const DotModel model = model_of(choices);
  if (!defect(model.input).empty() || !refusal(model).empty() || !dot_refusal(model).empty()) return 0;
  const auto kind = static_cast<check::Kind>(choices.below(static_cast<int>(check::Kind::count)));
  const std::size_t m = 1 + choices.below(std::size_t{10}), n = 1 + choices.below(std::size_t{36}),
                    k = 1 + choices.below(std::size_t{40});
  const bool addend = choices.flag();
  check::Random random = choices.random();
  const check::Matrices x(model, m, n, k, kind, addend, random);
  const std::uint64_t first_stream = choices.bits(4);
  const std::vector<std::uint64_t> want = check::expected(model, x, first_stream);
  choices.instruction_set();
  std::vector<std::uint64_t> got(want.size(), 77);
  in_environment(choices, [&] { gemm(model, x.operands(), std::span(got), first_stream); });
  const auto about = [&] {
    return product_model_name(model) + ", " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
  };
  for (std::size_t i = 0; i < want.size(); ++i) demand_same(got[i], want[i], i, about);
  const bool plain = model.product == model.accumulator && model.accumulator.format == model.input && !model.input_b &&
                     !model.promoted && !model.output && model.order == Order::sequential &&
                     model.compensation == Compensation::none &&
                     model.accumulator.rounding.mode != RoundingMode::stochastic;
  if (plain) demand_same(want[0], judged(model, x, 0, 0), 0, [&] { return "the definition of " + about(); });
  return 0;
}
