// Products of matrices by product models, beside a plain FP32 product and Eigen's own scalars.
#include "matrix.hpp"

#include "running.hpp"

#include <halfulp/emulation/operation.hpp>
#include <halfulp/emulation/product/product.hpp>

#include <Eigen/Core>

#include <bit>
#include <set>

namespace halfulp::bench {
namespace {

/// A model without its rounding mode, and the mode.
struct Kind {
  std::string_view model, mode;
};
constexpr Kind kinds[] = {{"fp16", "nearest-even"},
                          {"fp16", "toward-zero"},
                          {"fp16", "toward-positive"},
                          {"fp16", "nearest-away"},
                          {"fp16", "to-odd"},
                          {"fp16", "stochastic"},
                          {"bf16", "nearest-even"},
                          {"bf16", "toward-positive"},
                          {"e4m3", "nearest-even"},
                          {"e4m3", "toward-zero"},
                          {"e4m3", "toward-positive"},
                          {"e5m2", "nearest-even"},
                          {"e3m4", "nearest-even"},
                          {"in=fp16,acc=fp32", "nearest-even"},
                          {"in=bf16,acc=fp32", "nearest-even"},
                          {"in=e4m3,acc=fp32", "nearest-even"},
                          {"fp16,promote=fp32,order=blocked:128", "nearest-even"},
                          {"fp16,order=interleaved:8", "nearest-even"},
                          {"fp16,comp=kahan", "nearest-even"},
                          {"fp16,comp=neumaier", "nearest-even"},
                          {"fp16,flush=both", "nearest-even"},
                          {"bf16,flush=both", "nearest-even"},
                          {"in=bf16,acc=fp32,flush=both", "nearest-even"}};

struct Factors {
  std::size_t n;
  std::mt19937_64 bits{1};
  Words a, b;
  std::vector<std::uint32_t> d;

  Factors(const ProductModel& model, std::size_t size)
      : n(size),
        a(normal_words(format_of_a(model), n * n, bits)),
        b(normal_words(format_of_b(model), n * n, bits)),
        d(n * n) {}
  GemmOperands operands() const { return {n, n, n, view(a), view(b)}; }
};

std::string name(const Kind& kind, std::size_t n, int threads, const std::string& who) {
  return "product/" + std::string(kind.model) + '/' + std::string(kind.mode) + '/' + std::to_string(n) + "/normal/" +
         std::to_string(threads) + '/' + who;
}

/// A product by Eigen in a scalar of its own. Eigen states neither the order of sums nor the roundings.
template <class T>
void add_eigen(const Kind& kind, std::size_t n) {
  add(name(kind, n, 1, "Eigen"), [n](benchmark::State& state) {
    const auto size = static_cast<Eigen::Index>(n);
    using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
    const Matrix a = Eigen::MatrixXf::Random(size, size).cast<T>(), b = Eigen::MatrixXf::Random(size, size).cast<T>();
    Matrix d(size, size);
    time_products(state, n, [&] { d.noalias() = a * b; });
  });
}

}  // namespace

void time_products(benchmark::State& state, std::size_t n, const std::function<void()>& multiply) {
  multiply();
  for (auto _ : state) {
    multiply();
    benchmark::ClobberMemory();
  }
  const std::size_t products = n * n * n;
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(products));
  state.counters["elements"] = static_cast<double>(products);
  state.counters["bytes"] = 0;
}

void add_product_limit(std::size_t n) {
  static std::set<std::size_t> there;
  if (!there.insert(n).second) return;
  add("limit/0/" + std::to_string(n) + "/1/Eigen FP32", [n](benchmark::State& state) {
    const auto size = static_cast<Eigen::Index>(n);
    const Eigen::MatrixXf a = Eigen::MatrixXf::Random(size, size), b = Eigen::MatrixXf::Random(size, size);
    Eigen::MatrixXf d(size, size);
    time_products(state, n, [&] { d.noalias() = a * b; });
  });
}

void register_products(bool quick) {
  std::vector<std::size_t> sizes{256};
  if (!quick) sizes.push_back(1024);
  for (const std::size_t n : sizes) {
    add_product_limit(n);
    for (const Kind& kind : kinds) {
      const ProductModel model = parse_product_model(std::string(kind.model) + ",round=" + std::string(kind.mode));
      if (n > 256 && !has_vector_products(model)) continue;
      const auto ours = [&](std::int64_t target, int threads) {
        add(name(kind, n, threads, "ours " + name_of_set(target)), [=](benchmark::State& state) {
          if (too_few_cores(state, threads)) return;
          Factors x(model, n);
          const InstructionSet set(target);
          const Threads control(threads);
          time_products(state, n, [&] { gemm(model, x.operands(), std::span(x.d)); });
        });
      };
      for (const std::int64_t target : instruction_sets()) ours(target, 1);
      ours(0, 2);
      if (kind.mode == "nearest-even" && kind.model == "fp16" && n == 256) add_eigen<Eigen::half>(kind, n);
      if (kind.mode == "nearest-even" && kind.model == "bf16") add_eigen<Eigen::bfloat16>(kind, n);
      add(name(kind, n, 1, "scalar"), [=](benchmark::State& state) {
        constexpr std::ptrdiff_t few = 32;  // the scalar definition takes the same time for every product
        const Factors x(model, few);
        const std::vector<std::uint64_t> a = first(x.a, few), b = first(x.b, few);
        PlainDots dots(std::get<DotModel>(model));
        time_products(state, few, [&] {
          for (std::size_t i = 0; i < few * few; ++i) benchmark::DoNotOptimize(dots(a, b, {}, i));
        });
      });
    }
  }
}

}  // namespace halfulp::bench
