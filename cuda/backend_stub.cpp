#include <halfulp/cuda/backend.hpp>

#include <stdexcept>

namespace halfulp {
namespace {

class NoCuda final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }
  std::string description() const override { return "NVIDIA GPU"; }
  Support available() const override { return Support::no("built without CUDA"); }
  Support supports(const Task&) const override { return available(); }
  NanRule nan_rule(const Task&) const override { return NanRule::cuda; }
  std::string_view independence() const override { return "silicon"; }
  void run(const Task&, const Operands&, std::span<std::uint64_t>) const override { throw std::logic_error("cuda: built without CUDA"); }
};

}  // namespace

const Backend& cuda_backend() {
  static const NoCuda backend;
  return backend;
}

}  // namespace halfulp
