// Positions times frequencies and slopes, step by step.
#include <halfulp/experiments/position_ids/position_ids.hpp>

#include <halfulp/formats/catalogue.hpp>

#include <boost/multiprecision/cpp_bin_float.hpp>

#include <algorithm>

namespace halfulp::positions {
namespace {

using Precise = boost::multiprecision::cpp_bin_float_100;

TwoDoubles split(const Precise& x) {
  const auto high = static_cast<double>(x);
  return {high, static_cast<double>(Precise(x - high))};
}

}  // namespace

PositionFactors rope_frequencies(int dim, double base, Trace& trace) {
  PositionFactors factors;
  Arithmetic arithmetic(fp32, {}, &trace);
  const std::uint64_t one = encode(fp32, {}, 1).code;
  for (int i = 0; i < dim / 2; ++i) {
    const Precise power = pow(Precise(base), Precise(2 * i) / dim);
    factors.exact.push_back(split(Precise(1 / power)));
    factors.fp32.push_back(arithmetic.div(one, encode(fp32, {}, static_cast<double>(power)).code));
  }
  return factors;
}

PositionFactors alibi_slopes(int heads) {
  PositionFactors factors;
  for (int h = 1; h <= heads; ++h) {
    factors.exact.push_back(split(pow(Precise(2), Precise(-8 * h) / heads)));
    factors.fp32.push_back(encode(fp32, {}, factors.exact.back().high).code);
  }
  return factors;
}

PositionTimesFactor::PositionTimesFactor(const FloatFormat& format, const PositionFactors& factors, Trace* trace)
    : narrow_(format, {}, trace), wide_(fp32, {}, trace), factors_(factors) {
  for (const std::uint64_t code : factors.fp32) {
    narrow_factors_.push_back(narrow_.convert_from(fp32, code));
    widened_factors_.push_back(wide_.convert_from(format, narrow_factors_.back()));
  }
}

const FloatFormat& PositionTimesFactor::format_of(Setup setup) const {
  const bool narrow = setup == Setup::value || setup == Setup::wrapped || setup == Setup::all;
  return narrow ? narrow_.format() : fp32;
}

const FloatFormat& PositionTimesFactor::cosine_format(Setup setup) const {
  return setup == Setup::cosine ? narrow_.format() : format_of(setup);
}

std::uint64_t PositionTimesFactor::id(Setup setup, std::int64_t position) {
  const std::uint64_t wide = wide_.convert_from(i32, static_cast<std::uint64_t>(position));
  if (setup != Setup::ids && setup != Setup::all) return wide;
  const std::uint64_t narrow = narrow_.convert_from(fp32, wide);
  return setup == Setup::all ? narrow : wide_.convert_from(narrow_.format(), narrow);
}

std::uint64_t PositionTimesFactor::operator()(Setup setup, std::uint64_t id, std::size_t factor) {
  if (setup == Setup::all) return narrow_.mul(id, narrow_factors_[factor]);
  const std::uint64_t product = wide_.mul(id, (setup == Setup::factors ? widened_factors_ : factors_.fp32)[factor]);
  if (setup == Setup::value) return narrow_.convert_from(fp32, product);
  if (setup != Setup::wrapped) return product;
  return narrow_.convert_from(fp32, wide_.encode(std::remainder(fp32.value(product), 4 * half_pi_high)));
}

}  // namespace halfulp::positions
