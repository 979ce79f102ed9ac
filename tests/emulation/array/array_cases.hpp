// Shared by the tests of array functions: instruction sets, roundings, comparison with the scalar functions.
#pragma once

#include "check.hpp"

#include <halfulp/emulation/array/array.hpp>
#include <halfulp/emulation/random.hpp>

#include <hwy/targets.h>

namespace check {

/// Each test runs once per instruction set.
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

/// Every mode, and every other rule a few times.
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

/// Bits of rounding `index` where n of them share a word, written out: word index / n, cut into n parts.
inline std::uint64_t shared_bits(std::uint64_t seed, std::uint64_t number, std::uint64_t index, int n) {
  const std::uint64_t word = rounding_bits(seed, number, n == 1 ? index : n == 2 ? index >> 1 : index >> 2);
  if (n == 1) return word;
  return n == 2 ? (index & 1 ? word >> 16 : word & 0xffff) : word >> (index & 3) * 8 & 0xff;
}

/// The catalogue's formats and some that only a user would name: wide, narrow, at the edges of what the kernels take.
inline std::vector<FloatFormat> formats() {
  std::vector<FloatFormat> all;
  for (const NamedFormat& row : catalogue()) all.push_back(row.format);
  for (const auto& name : {"e8m3b110", "e8m7b95", "e8m22", "e6m9finite", "e5m10p3109", "e7m2fnuz", "e2m3b-3",
                           "e4m0finite", "e1m3finite", "e4m3b127", "e5m2b127", "e2m3b127finite", "e3m20", "e5m22",
                           "e3m22finite", "e5m21", "e11m2", "e11m16", "e11m20"})
    all.push_back(parse_format(name));
  return all;
}

/// Values around every code of a narrow format, halfway points, their neighbours, and random bits.
template <class T, class Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>
std::vector<T> inputs(const FloatFormat& f, std::uint64_t seed) {
  std::vector<T> values;
  Random random{seed};
  const auto near = [&](double x) {
    const auto bits = std::bit_cast<Bits>(static_cast<T>(x));
    for (const Bits b : {bits - 1, bits, bits + 1}) {
      values.push_back(std::bit_cast<T>(b));
      values.push_back(-std::bit_cast<T>(b));
    }
  };
  const std::uint64_t step = f.storage_bits() <= 8 ? 1 : f.max_finite() / 97 + 1;
  for (std::uint64_t code = 0; code <= f.max_finite(); code += step) {
    near(f.value(code));
    if (code < f.max_finite()) near((f.value(code) + f.value(code + 1)) / 2);
  }
  for (const int e : {f.emin() + 1, 0, 1, f.emax()})  // these carry into the exponent
    if (e >= f.emin() && e <= f.emax()) near(FloatFormat::power_of_two(e));
  near(f.value(f.max_finite()));
  near(f.value(f.max_finite()) * (1 + f.epsilon() / 4));
  near(f.value(f.max_finite()) * (1 + f.epsilon() / 2));
  near(f.value(f.min_normal()) * (1 - f.epsilon() / 4));
  for (const double x : {0.0, 1e-46, 1e-45, 1.2e-38, 3e38, 1e308, 4e-324}) near(x);
  near(std::numeric_limits<double>::infinity());
  values.push_back(std::numeric_limits<T>::quiet_NaN());
  for (int i = 0; i < 400; ++i) values.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
  for (int i = 0; i < 400; ++i) {  // near the ends of the format's range
    const double scale = FloatFormat::power_of_two(
        std::clamp(f.emin() - f.fraction_bits - 12 + static_cast<int>(random() % 40), -1000, 1000));
    values.push_back(static_cast<T>((static_cast<double>(random() >> 11) * 0x1p-52 - 1) * scale));
  }
  return values;
}

/// Compares apply() with evaluate() and reports the first difference.
template <class Code>
void expect_like_evaluate(const FloatFormat& f, Operation operation, const Rounding& r, std::span<const Code> a,
                          std::span<const Code> b, std::span<const Code> c) {
  const int arity = info(operation).arity;
  std::vector<Code> out(a.size());
  const std::span<const Code> none;
  apply<Code>(operation, f, r, a, arity > 1 ? b : none, arity > 2 ? c : none, out, stream);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Rounded wanted = evaluate(operation, f, r, a[i], b[i], c[i], bits_at(i));
    if (out[i] == wanted.code) continue;
    ADD_FAILURE() << info(operation).name << " " << format_name(f) << " " << name_of(r.mode) << " "
                  << name_of(r.overflow) << " flush " << r.flush_inputs << r.flush_outputs << std::hex << ": " << +a[i]
                  << " " << +b[i] << " " << +c[i] << " gives " << +out[i] << ", not " << wanted.code;
    return;
  }
}

}  // namespace check
