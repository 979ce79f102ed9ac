#include <halfulp/hardware/device.hpp>

namespace halfulp {

void OperandColumns::push(int arity, std::uint64_t x, std::uint64_t y, std::uint64_t z) {
  a.push_back(x);
  if (arity > 1) b.push_back(y);
  if (arity > 2) c.push_back(z);
}

MatrixShape shape_of(const MatrixUnit& unit) {
  return {unit.a, unit.b, unit.accumulator, unit.k, unit.scale, unit.scale_block};
}

DotOperands MatrixCases::products(std::size_t i) const {
  const auto part = [&](const std::vector<std::uint64_t>& words) {
    const std::size_t each = words.size() / size();
    return std::span<const std::uint64_t>(words).subspan(i * each, each);
  };
  return {part(a), part(b), part(scale_a), part(scale_b)};
}

void MatrixCases::add(const DotOperands& x, std::uint64_t addend) {
  k = x.a.size();
  a.insert(a.end(), x.a.begin(), x.a.end());
  b.insert(b.end(), x.b.begin(), x.b.end());
  scale_a.insert(scale_a.end(), x.scale_a.begin(), x.scale_a.end());
  scale_b.insert(scale_b.end(), x.scale_b.begin(), x.scale_b.end());
  c.push_back(addend);
}

void Device::multiply(const MatrixTask& task, const MatrixCases&, std::span<std::uint64_t>) const {
  throw std::logic_error(std::string(name()) + " has no matrix instruction " + task.unit);
}

namespace {

/// The unit's instruction; of a unit without one, what it is.
std::string instruction_or_kind(const MatrixUnit& unit) {
  constexpr std::string_view none = "none: ";
  return unit.instruction.substr(unit.instruction.starts_with(none) ? none.size() : 0);
}

class Emulated final : public Device {
 public:
  explicit Emulated(std::span<const MatrixUnit> units) : units_(units) {}
  explicit Emulated(const MatrixUnit& unit) : own_{unit}, units_(own_) {}
  std::string_view name() const override { return "emulated"; }
  std::string description() const override { return "integer emulation on this CPU"; }
  Support available() const override { return Support::by("integer arithmetic"); }
  std::string_view independence() const override { return "emulation"; }

  Support supports(const Task& task) const override {
    if (std::string why = refusal(task); !why.empty()) return Support::no(std::move(why));
    if (task.rounding.mode == RoundingMode::stochastic) return Support::no("a comparison has no random bits to share");
    return Support::by("integer arithmetic");
  }
  NanRule nan_rule(const Task& task) const override { return task.rounding.nan; }
  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto [a, b, c] = operands[i];
      results[i] = evaluate(task, a, b, c).code;
    }
  }

  std::vector<MatrixTask> matrix_tasks() const override {
    std::vector<MatrixTask> tasks;
    for (const MatrixUnit& unit : units_)
      tasks.push_back({unit.name, shape_of(unit), "model of " + instruction_or_kind(unit),
                       Support::by(std::string(unit.rule->name))});
    return tasks;
  }
  void multiply(const MatrixTask& task, const MatrixCases& cases, std::span<std::uint64_t> d) const override {
    const auto unit = std::find_if(units_.begin(), units_.end(),
                                   [&](const MatrixUnit& each) { return each.name == task.unit; });
    for (std::size_t i = 0; i < cases.size(); ++i) d[i] = mma(*unit, cases.products(i), cases.c[i]);
  }

 private:
  std::vector<MatrixUnit> own_;
  std::span<const MatrixUnit> units_;
};

}  // namespace

const Device& emulated_device() {
  static const Emulated device(matrix_units());
  return device;
}

std::unique_ptr<Device> emulated_device_with(const MatrixUnit& unit) { return std::make_unique<Emulated>(unit); }

}  // namespace halfulp
