#include <halfulp/cuda/code_operations.hpp>

#include <halfulp/cuda/run_program.hpp>

namespace halfulp::cuda {

CodeOperations::CodeOperations(const FloatFormat& f, const Answer& answer)
    : format_(f), answer_(&answer),
      instruction_{Operation::add, f, f, RoundingMode::nearest_even, Overflow::ieee, false, NanRule::cuda, false, 80, "in a program"},
      of_integer_{Operation::convert, i32, f, RoundingMode::nearest_even, Overflow::ieee, false, NanRule::cuda, false, 80, "in a program"} {}

void run_sums(const CodeOperations& o, SumOrder order, const SumsArgs& x) {
  for (std::size_t row = 0; row < x.rows; ++row)
    x.results[row] = sum_on_host(o, order, x.length, [&](std::size_t i) { return x.terms[row * x.length + i]; });
}

void run_program(const CodeOperations& o, Program program, const ProgramArgs& x) {
  HostTeam<CodeOperations::Value, block_lanes> block;
  with_program(program, [&]<Program p>() {
    for (std::size_t i = 0; i < x.rows; ++i) {
      if constexpr (info(p).rows) run_row<p>(block, o, x, i);
      else run_element<p>(o, x, i);
    }
  });
}

}  // namespace halfulp::cuda
