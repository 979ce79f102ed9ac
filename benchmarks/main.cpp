// Measures array functions, matrix units and products, next to copies of the same bytes and other software.
// benchmarks/table.py prints the results.
#include "matrix.hpp"
#include "measure.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/report/environment.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <iostream>

namespace {

using namespace halfulp;

/// Adds what the numbers depend on to Google Benchmark's "context".
void describe(bool quick, const std::vector<bench::Peer>& peers) {
  const Json environment = describe_environment(1, "");
  const auto text = [](const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); };
  for (const char* key : {"cpu", "cpu_features", "os", "compiler", "flags", "version", "revision", "dirty"})
    benchmark::AddCustomContext(key, text(environment.at(key)));
  benchmark::AddCustomContext("instruction_set", std::string(array_instruction_set()));
  benchmark::AddCustomContext("peer_flags", HALFULP_PEER_FLAGS);
  benchmark::AddCustomContext("quick", quick ? "true" : "false");
  for (const bench::Peer& peer : peers) benchmark::AddCustomContext("peer " + peer.name, peer.version);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> given(argv + 1, argv + argc);
  const bool quick = std::find(given.begin(), given.end(), "--quick") != given.end();
  // Google Benchmark uses the last of equal options, so the command line overrides these.
  std::vector<std::string> options{argv[0], "--benchmark_report_aggregates_only=true",
                                   quick ? "--benchmark_repetitions=3" : "--benchmark_repetitions=5",
                                   quick ? "--benchmark_min_time=0.01" : "--benchmark_min_time=0.1"};
  for (const std::string_view option : given)
    if (option != "--quick") options.emplace_back(option);
  std::vector<char*> arguments;
  for (std::string& option : options) arguments.push_back(option.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (count > 1) {
    std::cerr << "bench: unknown argument '" << arguments[1]
              << "'; accepted: --quick and Google Benchmark's options (--help)\n";
    return 2;
  }
  const std::vector<bench::Peer> peers{bench::eigen(), bench::float16(), bench::cuda_headers(), bench::cpfloat()};
  describe(quick, peers);
  bench::register_rows(bench::rows(quick), peers, bench::yardsticks());
  bench::register_matrices(quick);
  bench::register_products(quick);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
