#include <halfulp/cuda/run_on.hpp>

#include <halfulp/cuda/run_program.hpp>

#include <memory>
#include <stdexcept>
#include <string>

namespace halfulp::cuda {

CodeOperations::CodeOperations(const FloatFormat& f, const Answer& answer)
    : format_(f),
      answer_(&answer),
      instruction_{Operation::add, f, f, RoundingMode::nearest_even, Overflow::ieee, false, NanRule::cuda, false, 80,
                   "in a program"},
      of_integer_{
          Operation::convert, i32, f, RoundingMode::nearest_even, Overflow::ieee, false, NanRule::cuda, false, 80,
          "in a program"} {}

void run_sums(const CodeOperations& o, GpuSumOrder order, const SumsArgs& x) {
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

namespace {

const Answer& emulation() {
  static const Answer answer = emulated_answer;
  return answer;
}

/// Device memory with words in it, or with the mark of what no kernel wrote.
class Column {
 public:
  Column(const Gpu& gpu, std::span<const std::uint64_t> words) : gpu_(gpu), memory_(gpu, words.size()) {
    if (!words.empty()) gpu.upload(Lane::first, memory_.data(), words.data(), memory_.bytes());
  }
  Column(const Gpu& gpu, std::size_t count) : gpu_(gpu), memory_(gpu, count) {
    if (count != 0) gpu.fill(Lane::first, memory_.data(), unwritten & 0xff, memory_.bytes());
  }
  std::uint64_t* data() const { return memory_.data(); }
  /// Once the lane has come so far. `what` is what it does.
  Words words(std::string_view what) const {
    // Through memory from where copies run beside the host: only wait() knows of kernels that do not end.
    const HostMemory<std::uint64_t> host(gpu_, memory_.size());
    if (memory_.size() != 0) gpu_.download(Lane::first, host.data(), memory_.data(), memory_.bytes());
    gpu_.wait(Lane::first, what);
    return {host.data(), host.data() + host.size()};
  }

 private:
  const Gpu& gpu_;
  Memory<std::uint64_t> memory_;
};

std::size_t length_of(std::span<const std::uint64_t> terms, std::size_t rows) {
  const std::size_t length = rows == 0 ? 0 : terms.size() / rows;
  if (length * rows != terms.size())
    throw std::logic_error("sums: " + std::to_string(terms.size()) + " terms in " + std::to_string(rows) + " rows");
  return length;
}

void check_shapes(Program program, const ProgramInputs& x) {
  const ProgramInfo& p = info(program);
  const auto refuse = [&](const std::string& why) { throw std::logic_error(std::string(p.name) + ": " + why); };
  if (x.columns.size() != static_cast<std::size_t>(p.inputs)) refuse(std::to_string(x.columns.size()) + " inputs");
  if (!p.rows && x.length != 1) refuse("it has no rows");
  for (std::size_t k = 0; k < x.columns.size(); ++k) {
    const std::size_t words = k == 0 || !p.rows ? x.rows * x.length : k == 3 ? x.rows : x.length;
    if (x.columns[k].size() != words)
      refuse("input " + std::to_string(k) + " has " + std::to_string(x.columns[k].size()) + " words, not " +
             std::to_string(words));
  }
}

}  // namespace

Words sums_on(const Gpu& gpu, const FloatFormat& f, GpuSumOrder order, std::span<const std::uint64_t> terms,
              std::size_t rows) {
  const std::size_t length = length_of(terms, rows);
  if (rows == 0) return {};
  const std::string what = "sums, " + std::string(name_in(sum_orders, order));
  const Column in(gpu, terms), out(gpu, rows);
  gpu.kernels().sums(Lane::first, f, order, {in.data(), out.data(), rows, length});
  gpu.launched(what);
  return out.words(what);
}

Words emulated_sums(const FloatFormat& f, GpuSumOrder order, std::span<const std::uint64_t> terms, std::size_t rows) {
  Words results(rows);
  run_sums(CodeOperations(f, emulation()), order, {terms.data(), results.data(), rows, length_of(terms, rows)});
  return results;
}

std::vector<Words> program_on(const Gpu& gpu, const FloatFormat& f, Program program, const ProgramInputs& inputs) {
  check_shapes(program, inputs);
  const ProgramInfo& p = info(program);
  std::vector<std::unique_ptr<Column>> in, out;
  ProgramArgs args;
  args.rows = inputs.rows, args.length = inputs.length;
  for (std::size_t k = 0; k < inputs.columns.size(); ++k)
    args.inputs[k] = in.emplace_back(std::make_unique<Column>(gpu, std::span(inputs.columns[k])))->data();
  for (std::size_t k = 0; k < static_cast<std::size_t>(p.outputs); ++k)
    args.outputs[k] = out.emplace_back(std::make_unique<Column>(gpu, inputs.rows * inputs.length))->data();
  gpu.kernels().program(Lane::first, f, program, args);
  gpu.launched(p.name);
  std::vector<Words> results;
  for (const auto& column : out) results.push_back(column->words(p.name));
  return results;
}

std::vector<Words> emulated_program(const FloatFormat& f, Program program, const ProgramInputs& inputs) {
  check_shapes(program, inputs);
  ProgramArgs args;
  args.rows = inputs.rows, args.length = inputs.length;
  for (std::size_t k = 0; k < inputs.columns.size(); ++k) args.inputs[k] = inputs.columns[k].data();
  std::vector<Words> results(static_cast<std::size_t>(info(program).outputs), Words(inputs.rows * inputs.length));
  for (std::size_t k = 0; k < results.size(); ++k) args.outputs[k] = results[k].data();
  run_program(CodeOperations(f, emulation()), program, args);
  return results;
}

}  // namespace halfulp::cuda
