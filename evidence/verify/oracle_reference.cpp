// Exact rationals as the reference: case by case with flags; over all floats by the steps they make.
#include <halfulp/evidence/oracle/by_name.hpp>
#include <halfulp/evidence/oracle/steps.hpp>
#include <halfulp/evidence/verify/reference.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <algorithm>

namespace halfulp::verify {
namespace {

class Rationals final : public Judge {
 public:
  explicit Rationals(const Task& task) : task_(task) {}
  bool knows_flags() const override { return true; }
  void run(const Operands& x, std::span<std::uint64_t> codes, std::span<Flags> flags) const override {
    const auto at = [](std::span<const std::uint64_t> s, std::size_t i) { return s.empty() ? 0 : s[i]; };
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Rounded right = oracle::evaluate(task_, x.a[i], at(x.b, i), at(x.c, i));
      codes[i] = right.code;
      flags[i] = right.flags;
    }
  }

 private:
  Task task_;
};

class Steps final : public Judge {
 public:
  explicit Steps(const Task& task) {
    const auto& to = std::get<FloatFormat>(task.to);
    for (const bool negative : {false, true}) {
      steps_[negative] = oracle::all_steps(to, task.rounding, negative ? oracle::float_sign : 0);
      steps_[negative].push_back({oracle::float_sign, 0});  // beyond every magnitude
    }
  }

  void run(const Operands& x, std::span<std::uint64_t> codes, std::span<Flags>) const override {
    for (std::size_t i = 0; i < codes.size();) {
      // Neighbouring inputs mostly share a step: it is looked up once for as many as stay on it.
      const bool negative = (x.a[i] & oracle::float_sign) != 0;
      const auto& steps = steps_[negative];
      const auto beyond = [](std::uint64_t magnitude, const oracle::Step& step) { return magnitude < step.first; };
      const std::uint64_t sign = negative ? oracle::float_sign : 0;
      const auto next = std::upper_bound(steps.begin(), steps.end(), x.a[i] ^ sign, beyond);
      const std::uint64_t first = std::prev(next)->first | sign, length = next->first - std::prev(next)->first,
                          code = std::prev(next)->code;
      for (; i < codes.size() && x.a[i] - first < length; ++i) codes[i] = code;
    }
  }

 private:
  std::vector<oracle::Step> steps_[2];
};

class Oracle final : public Reference {
 public:
  std::string_view name() const override { return "oracle"; }
  std::string_view independence() const override { return "oracle"; }
  Support available() const override { return Support::by("rationals"); }
  Support supports(const Task& task) const override {
    return Support::by(sweeps(task) ? "rationals: steps over all floats" : "rationals");
  }
  std::unique_ptr<Judge> prepare(const Task& task, const Inputs& inputs) const override {
    if (inputs.exhaustive && sweeps(task)) return std::make_unique<Steps>(task);
    return std::make_unique<Rationals>(task);
  }
  const Backend* nan_backend(const Task&) const override { return nullptr; }

 private:
  static bool sweeps(const Task& task) {
    const auto& to = std::get<FloatFormat>(task.to);
    return task.operation == Operation::convert && task.from == NumberType(fp32) && to.storage_bits() <= 16 &&
           to.exponent_bits <= 8;
  }
};

}  // namespace

const Reference& oracle_reference() {
  static const Oracle reference;
  return reference;
}

}  // namespace halfulp::verify
