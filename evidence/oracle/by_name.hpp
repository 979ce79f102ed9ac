// The oracle's operations by the names that the command line and tests use. Only the names are taken from emulation/.
#pragma once

#include <halfulp/evidence/oracle/elementary.hpp>
#include <halfulp/evidence/oracle/operations.hpp>

#include <halfulp/emulation/operation.hpp>

namespace oracle {

/// The outcome of every operation that `finish` rounds (not round-to-integral, not convert).
template <class Int>
Outcome outcome_in(halfulp::Operation operation, const FloatFormat& f, bool flush, std::uint64_t a, std::uint64_t b,
                   std::uint64_t c) {
  using halfulp::Operation;
  switch (operation) {
    case Operation::add: return oracle::sum<Int>(f, flush, a, b, false);
    case Operation::sub: return oracle::sum<Int>(f, flush, a, b, true);
    case Operation::mul: return oracle::mul<Int>(f, flush, a, b);
    case Operation::div: return oracle::div<Int>(f, flush, a, b);
    case Operation::rem: return oracle::rem<Int>(f, flush, a, b);
    case Operation::sqrt: return oracle::sqrt<Int>(f, flush, a);
    case Operation::fma: return oracle::fma<Int>(f, flush, a, b, c);
    case Operation::min: return oracle::min_max<Int>(f, flush, a, b, false);
    case Operation::max: return oracle::min_max<Int>(f, flush, a, b, true);
    case Operation::eq: return oracle::relation<Int>(f, flush, a, b, Relation::eq);
    case Operation::lt: return oracle::relation<Int>(f, flush, a, b, Relation::lt);
    case Operation::le: return oracle::relation<Int>(f, flush, a, b, Relation::le);
    case Operation::rcp: return oracle::rcp<Int>(f, flush, a);
    case Operation::rsqrt: return oracle::rsqrt<Int>(f, flush, a);
    case Operation::exp: return oracle::exp(f, flush, a);
    case Operation::log2: return oracle::log2(f, flush, a);
    case Operation::round_to_integral:
    case Operation::convert: break;
  }
  throw std::logic_error("outcome: " + std::string(halfulp::info(operation).name));
}
inline bool fits_int128(const FloatFormat& f) {
  return f.exponent_bits <= 5 && magnitude_bits(f) + (f.is_signed ? 1 : 0) <= 16;
}
inline Outcome outcome(halfulp::Operation operation, const FloatFormat& f, bool flush, std::uint64_t a,
                       std::uint64_t b = 0, std::uint64_t c = 0) {
  return fits_int128(f) ? outcome_in<int128>(operation, f, flush, a, b, c)
                        : outcome_in<cpp_int>(operation, f, flush, a, b, c);
}

/// Any task between floating-point formats, but no stochastic rounding.
inline Rounded evaluate(const halfulp::Task& task, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) {
  const auto& from = std::get<FloatFormat>(task.from);
  const auto& to = std::get<FloatFormat>(task.to);
  const Rounding& r = task.rounding;
  if (task.operation == halfulp::Operation::round_to_integral) return oracle::round_to_integral(from, r, a);
  if (task.operation != halfulp::Operation::convert)
    return finish(from, r, outcome(task.operation, from, r.flush_inputs, a, b, c));
  return fits_int128(from) && fits_int128(to) ? oracle::convert<int128>(from, to, r, a)
                                              : oracle::convert<cpp_int>(from, to, r, a);
}

}  // namespace oracle
