// A backend: what a C++ compiler's `float` gives on this machine for sums, products, quotients and square roots.
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/hardware/device.hpp>

#include <bit>
#include <cmath>

namespace halfulp {

class HostFloat final : public Device {
 public:
  std::string_view name() const override { return "host-float"; }
  std::string description() const override { return "float of this compiler"; }
  Support available() const override { return Support::by("float"); }  // Support::no("no such device") where it is missing

  Support supports(const Task& task) const override {
    if (task.from != NumberType(fp32) || task.to != NumberType(fp32)) return Support::no("float is fp32");
    const Rounding& r = task.rounding;
    if (r.mode != RoundingMode::nearest_even || r.overflow != Overflow::ieee || r.flush_inputs || r.flush_outputs)
      return Support::no("float rounds to nearest even, without saturation and flushing");
    switch (task.operation) {
      case Operation::add:
      case Operation::sub:
      case Operation::mul:
      case Operation::div:
      case Operation::sqrt: return Support::by("float");
      default: return Support::no("not one of add, sub, mul, div, sqrt");
    }
  }

  NanRule nan_rule(const Task&) const override { return NanRule::canonical; }  // run() makes it so
  std::string_view independence() const override { return "silicon"; }

  void run(const Task& task, const Operands& operands, std::span<std::uint64_t> results) const override {
    for (std::size_t i = 0; i < results.size(); ++i) {
      const float a = number(operands.a[i]), b = operands.b.empty() ? 0.0f : number(operands.b[i]);
      const float result = task.operation == Operation::add   ? a + b
                           : task.operation == Operation::sub ? a - b
                           : task.operation == Operation::mul ? a * b
                           : task.operation == Operation::div ? a / b
                                                              : std::sqrt(a);
      results[i] = std::isnan(result) ? fp32.canonical_nan() : std::bit_cast<std::uint32_t>(result);
    }
  }

 private:
  static float number(std::uint64_t code) { return std::bit_cast<float>(static_cast<std::uint32_t>(code)); }
};

const Device& host_float_device() {
  static const HostFloat device;
  return device;
}

}  // namespace halfulp
