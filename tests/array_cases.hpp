// What the tests of array functions share: instruction sets, roundings, comparison with the scalar functions.
#pragma once

#include "check.hpp"

#include <halfulp/emulation/array.hpp>
#include <halfulp/emulation/random.hpp>

#include <hwy/targets.h>

namespace check {

/// Each test runs once an instruction set.
class Arrays : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { use(GetParam()); }
  void TearDown() override { use(0); }
  static void use(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
  }
};

inline auto instruction_sets() { return testing::ValuesIn(hwy::SupportedAndGeneratedTargets()); }
inline std::string set_name(const testing::TestParamInfo<std::int64_t>& info) {
  return info.param == HWY_SCALAR ? std::string("scalar") : std::string(hwy::TargetName(info.param));
}

/// All modes with all other rules, each rule a few times.
inline std::vector<Rounding> roundings() {
  std::vector<Rounding> all;
  for (const auto& mode : rounding_modes)
    for (int variant = 0; variant < 6; ++variant) {
      Rounding r;
      r.mode = mode.value;
      r.overflow = variant & 1 ? Overflow::saturate : Overflow::ieee;
      r.flush_inputs = variant == 2 || variant == 5;
      r.flush_outputs = variant == 3 || variant == 5;
      r.tininess = variant == 5 ? Tininess::before : Tininess::after;
      r.nan = variant == 4 ? NanRule::propagate : variant == 1 ? NanRule::cuda : NanRule::canonical;
      r.random_bits = variant % 2 ? 32 : 3 + 4 * variant;
      all.push_back(r);
    }
  return all;
}

inline constexpr RandomStream stream{5, 6, (std::uint64_t{1} << 33) + 3};
inline std::uint64_t bits_at(std::size_t i) { return rounding_bits(stream.seed, stream.stream, stream.first + i); }


inline constexpr Operation array_operations[] = {Operation::add, Operation::sub, Operation::mul, Operation::div, Operation::sqrt, Operation::fma};

/// apply() against evaluate(); says the first difference.
template <class Code>
void expect_like_evaluate(const FloatFormat& f, Operation operation, const Rounding& r, std::span<const Code> a, std::span<const Code> b,
                          std::span<const Code> c) {
  const int arity = info(operation).arity;
  std::vector<Code> out(a.size());
  const std::span<const Code> none;
  apply<Code>(operation, f, r, a, arity > 1 ? b : none, arity > 2 ? c : none, out, stream);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Rounded wanted = evaluate(operation, f, r, a[i], b[i], c[i], bits_at(i));
    if (out[i] == wanted.code) continue;
    ADD_FAILURE() << info(operation).name << " " << format_name(f) << " " << name_of(r.mode) << " " << name_of(r.overflow) << " flush "
                  << r.flush_inputs << r.flush_outputs << std::hex << ": " << +a[i] << " " << +b[i] << " " << +c[i] << " gives " << +out[i]
                  << ", not " << wanted.code;
    return;
  }
}

}  // namespace check
