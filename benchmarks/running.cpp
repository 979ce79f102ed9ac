// Highway stays in this file: its headers refuse some CPUs that the files beside it are compiled for (-march=native).
#include "running.hpp"

#include <halfulp/emulation/array/array.hpp>

#include <hwy/targets.h>

namespace halfulp::bench {

void InstructionSet::use(std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().DeInit();
}

std::vector<std::int64_t> instruction_sets() {
  std::vector<std::int64_t> sets{0};
  if (array_instruction_set() != "AVX2" && (hwy::SupportedTargets() & HWY_AVX2) != 0) sets.push_back(HWY_AVX2);
  return sets;
}

std::string name_of_set(std::int64_t target) {
  const InstructionSet set(target);
  return std::string(array_instruction_set());
}

}  // namespace halfulp::bench
