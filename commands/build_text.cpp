#include <halfulp/commands/build_text.hpp>

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/environment.hpp>

#include <CLI/Version.hpp>
#include <boost/version.hpp>
#include <fmt/format.h>
#include <hwy/highway.h>
#include <nlohmann/json.hpp>
#include <tbb/version.h>

#include <vector>

namespace halfulp::cli {
namespace {

/// Highway's names of the instruction sets that vector kernels are compiled for, the narrowest first.
/// HWY_DISABLED_TARGETS is the same as in emulation/.
std::string instruction_sets() {
  std::string names;
  for (int bit = 62; bit >= 0; --bit)
    if (const std::int64_t target = std::int64_t{1} << bit; HWY_TARGETS & target)
      names += (names.empty() ? "" : " ") + std::string(hwy::TargetName(target));
  return names;
}

constexpr std::string_view cuda =
#ifdef HALFULP_CUDA_TOOLKIT
    "toolkit " HALFULP_CUDA_TOOLKIT ", for " HALFULP_CUDA_ARCHITECTURES;
#else
    "not compiled in";
#endif

}  // namespace

std::string build_text() {
  const BuildFacts build = build_facts();
  return aligned(
      {{"compiler:", fmt::format("{}, {}", build.compiler, build.type)},
       {"flags:", std::string(build.flags)},
       {"vectors:", fmt::format("{}; this CPU: {}", instruction_sets(), array_instruction_set())},
       {"CUDA:", std::string(cuda)},
       {"threads:", fmt::format("oneTBB {}.{}", TBB_VERSION_MAJOR, TBB_VERSION_MINOR)},
       {"libraries:",
        fmt::format("Boost {}.{}.{}, CLI11 " CLI11_VERSION ", fmt {}.{}.{}, Highway {}.{}, nlohmann-json {}.{}.{}",
                    BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100, FMT_VERSION / 10000,
                    FMT_VERSION / 100 % 100, FMT_VERSION % 100, HWY_MAJOR, HWY_MINOR, NLOHMANN_JSON_VERSION_MAJOR,
                    NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)}},
      0);
}

}  // namespace halfulp::cli
