#include <halfulp/hardware/emulated.hpp>

namespace halfulp {
namespace {

class Emulated final : public Backend {
 public:
  std::string_view name() const override { return "emulated"; }
  std::string description() const override { return "integer emulation on this CPU"; }
  Support available() const override { return Support::by("integer arithmetic"); }
  Support supports(const Task& task) const override {
    if (std::string why = refusal(task); !why.empty()) return Support::no(std::move(why));
    if (task.rounding.mode == RoundingMode::stochastic) return Support::no("a comparison has no random bits to share");
    return Support::by("integer arithmetic");
  }
  NanRule nan_rule(const Task& task) const override { return task.rounding.nan; }
  std::string_view independence() const override { return "emulation"; }
  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    const auto at = [](std::span<const std::uint64_t> s, std::size_t i) { return s.empty() ? 0 : s[i]; };
    for (std::size_t i = 0; i < operands.size(); ++i)
      results[i] = evaluate(task, operands.a[i], at(operands.b, i), at(operands.c, i)).code;
  }
};

}  // namespace

const Backend& emulated_backend() {
  static const Emulated backend;
  return backend;
}

}  // namespace halfulp
