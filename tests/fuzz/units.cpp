// Products by matrix units equal the interpreter, output by output, and this exact integers: units of the table, and
// others made of their parts.
#include "choices.hpp"

#include "emulation/unit/unit_cases.hpp"

#include <halfulp/evidence/oracle/matrix.hpp>

using namespace fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices(data, size);
  check::Random mix = choices.random();
  const MatrixUnit unit = choices.flag() ? choices.one_of(matrix_units()) : unit_cases::mixed_unit(mix);
  if (!refusal(unit).empty()) return 0;
  const auto kind = static_cast<unit_cases::Kind>(choices.below(static_cast<int>(unit_cases::Kind::count)));
  const std::size_t m = 1 + choices.below(std::size_t{5}), n = 1 + choices.below(std::size_t{20}),
                    k = 1 + choices.below(static_cast<std::size_t>(2 * unit.k + 1));
  check::Random random = choices.random();
  const unit_cases::Matrices x(unit, m, n, k, kind, random);
  const std::vector<std::uint64_t> want = unit_cases::expected(unit, x);
  choices.instruction_set();
  std::vector<std::uint64_t> got(m * n);
  in_environment(choices, [&] { mma_gemm(unit, x.operands, std::span(got)); });
  const auto about = [&] {
    return unit.name + ", rule " + std::string(unit.rule->name) + ", " + std::to_string(m) + " x " + std::to_string(n) +
           " x " + std::to_string(k);
  };
  for (std::size_t i = 0; i < want.size(); ++i) demand_same(got[i], want[i], i, about);
  const std::size_t blocks = x.scale_a.size() / m;
  std::vector<std::uint64_t> column, scales;
  for (std::size_t i = 0; i < k; ++i) column.push_back(x.b[i * n]);
  for (std::size_t i = 0; i < blocks; ++i) scales.push_back(x.scale_b[i * n]);
  const std::uint64_t judge = oracle::mma(
      unit, {std::span(x.a).first(k), column, std::span(x.scale_a).first(blocks), scales}, x.c[0]);
  demand_same(want[0], judge, 0, [&] { return "the interpreter, " + about(); });
  return 0;
}
