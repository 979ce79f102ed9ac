#include <halfulp/hardware/emulated.hpp>

#include <halfulp/hardware/matrix.hpp>

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

namespace {

class EmulatedUnit final : public MatrixDevice {
 public:
  explicit EmulatedUnit(const MatrixUnit& unit) : unit_(unit) {}
  std::string name() const override { return "emulated:" + unit_.name; }
  std::string description() const override { return "model of " + unit_.instruction; }
  Support available() const override { return Support::by(std::string(unit_.rule->name)); }
  MatrixShape shape() const override { return shape_of(unit_); }
  void run(const MatrixCases& cases, std::span<std::uint64_t> d) const override {
    for (std::size_t i = 0; i < cases.size(); ++i) d[i] = mma(unit_, cases.products(i), cases.c[i]);
  }

 private:
  MatrixUnit unit_;
};

}  // namespace

MatrixShape shape_of(const MatrixUnit& unit) {
  return {unit.a, unit.b, unit.accumulator, unit.k, unit.scale, unit.scale_block};
}

Products MatrixCases::products(std::size_t i) const {
  const auto part = [&](const std::vector<std::uint64_t>& words) {
    const std::size_t each = words.size() / size();
    return std::span<const std::uint64_t>(words).subspan(i * each, each);
  };
  return {part(a), part(b), part(scale_a), part(scale_b)};
}

void MatrixCases::add(const Products& x, std::uint64_t addend) {
  k = x.a.size();
  a.insert(a.end(), x.a.begin(), x.a.end());
  b.insert(b.end(), x.b.begin(), x.b.end());
  scale_a.insert(scale_a.end(), x.scale_a.begin(), x.scale_a.end());
  scale_b.insert(scale_b.end(), x.scale_b.begin(), x.scale_b.end());
  c.push_back(addend);
}

std::unique_ptr<MatrixDevice> emulated_matrix_device(const MatrixUnit& unit) {
  return std::make_unique<EmulatedUnit>(unit);
}

}  // namespace halfulp
