#include <halfulp/cuda/gpu.hpp>

namespace halfulp::cuda {

std::string GpuProperties::description() const {
  if (name.empty()) return "no GPU";
  return name + ", sm_" + std::to_string(sm) + ", driver " + driver + ", runtime " + runtime;
}

}  // namespace halfulp::cuda
