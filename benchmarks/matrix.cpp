#include "matrix.hpp"

#include "running.hpp"

#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/unit/gemm.hpp>

#include <memory>
#include <random>

namespace halfulp::bench {
namespace {

constexpr std::string_view units[] = {
    "hopper.mma.fp16.fp32", "hopper.mma.fp16.fp16",        "hopper.mma.bf16.fp32",
    "hopper.mma.tf32.fp32", "hopper.mma.e4m3.fp32",        "hopper.wgmma.e4m3.fp32",
    "ampere.mma.fp16.fp32", "blackwell.tcgen05.e4m3.fp32", "blackwell.tcgen05.mxe4m3.fp32"};

/// Square matrices; C is 0, scales are 1.
struct Matrices {
  std::size_t n;
  std::mt19937_64 bits{1};
  Words a, b;
  std::vector<std::uint32_t> c, d;
  std::vector<std::uint8_t> scales;

  Matrices(const MatrixUnit& unit, std::size_t size)
      : n(size), a(normal_words(unit.a, n * n, bits)), b(normal_words(unit.b, n * n, bits)), c(n * n), d(n * n) {
    if (unit.scaled()) scales.assign(n * n / static_cast<std::size_t>(unit.scale_block), 127);
  }
  GemmOperands operands() const {
    return {
        n, n, n, view(a), view(b), CodeWords(std::span(c)), CodeWords(std::span(scales)), CodeWords(std::span(scales))};
  }
};

std::string name(std::string_view unit, std::size_t n, int threads, const std::string& who) {
  return "mma/" + std::string(unit) + "/exact/" + std::to_string(n) + "/normal/" + std::to_string(threads) + "/" + who;
}

}  // namespace

Words normal_words(const FloatFormat& f, std::size_t count, std::mt19937_64& bits) {
  std::normal_distribution<double> normal;
  const auto drawn = [&]<class Code>(Code) {
    std::vector<Code> words(count);
    for (Code& word : words)
      word = static_cast<Code>(code_word(f, convert(fp64, f, {}, std::bit_cast<std::uint64_t>(normal(bits))).code));
    return words;
  };
  if (f.storage_bits() <= 8) return drawn(std::uint8_t{});
  if (f.storage_bits() <= 16) return drawn(std::uint16_t{});
  return drawn(std::uint32_t{});
}

void register_matrices(bool quick) {
  const std::size_t n = quick ? 256 : 512;
  add_product_limit(n);
  for (const std::string_view unit : units) {
    const auto ours = [&](std::int64_t target, int threads) {
      add(name(unit, n, threads, "ours " + name_of_set(target)), [=](benchmark::State& state) {
        if (too_few_cores(state, threads)) return;
        Matrices x(find_unit(unit), n);
        const InstructionSet set(target);
        const Threads control(threads);
        time_products(state, n, [&] { mma_gemm(find_unit(unit), x.operands(), std::span(x.d)); });
      });
    };
    for (const std::int64_t target : instruction_sets()) ours(target, 1);
    ours(0, 2);
    add(name(unit, n, 1, "scalar"), [unit](benchmark::State& state) {
      constexpr std::size_t few = 32;  // the interpreter takes the same time for every product
      const Matrices x(find_unit(unit), few);
      const std::vector<std::uint64_t> a = first(x.a, few), b = first(x.b, few),
                                       scales(x.scales.begin(), x.scales.begin() + (x.scales.empty() ? 0 : 1));
      time_products(state, few, [&] {
        for (std::size_t i = 0; i < few * few; ++i)
          benchmark::DoNotOptimize(mma(find_unit(unit), {a, b, scales, scales}, 0));
      });
    });
  }
}

}  // namespace halfulp::bench
