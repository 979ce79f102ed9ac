#include <halfulp/hardware/verify/findings.hpp>

#include <algorithm>

namespace halfulp::verify {

void Findings::note(const Task& task, const Witness& witness) {
  ++differing;
  farthest = std::max(farthest, units_apart(task, witness));
  ++classes[std::string(difference_class(task, witness))];
  if (witnesses.size() < max_witnesses) witnesses.push_back(witness);
}

Findings& Findings::operator+=(const Findings& later) {
  compared += later.compared;
  differing += later.differing;
  farthest = std::max(farthest, later.farthest);
  for (const auto& [name, count] : later.classes) classes[name] += count;
  for (const Witness& w : later.witnesses)
    if (witnesses.size() < max_witnesses) witnesses.push_back(w);
  return *this;
}

}  // namespace halfulp::verify
