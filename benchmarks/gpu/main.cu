// gpu_bench [--quick] [--benchmark_out=FILE ...]: halfulp's kernels beside a copy, matrix products by cuBLASLt.
#include "timing.cuh"

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  using namespace halfulp;
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") != 0) continue;
    quick = true;
    for (int k = i; k + 1 < argc; ++k) argv[k] = argv[k + 1];
    --argc;
  }
  const cuda::Gpu& gpu = cuda::native_gpu();
  if (const Support here = gpu.available(); !here.yes) {
    std::fprintf(stderr, "gpu_bench: skipped: %s\n", here.reason.c_str());
    return 3;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    benchmark::AddCustomContext("gpu", gpu.properties().description());
    bench::add_array_rows(gpu, std::size_t{1} << (quick ? 24 : 28));
    const std::string missing = bench::add_product_rows(gpu, quick);
    benchmark::AddCustomContext("cuBLASLt", missing.empty() ? "there" : "skipped: " + missing);
    benchmark::RunSpecifiedBenchmarks();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
