// What the tests of backends share: operands for a task, and a comparison that fails for its first witness.
#pragma once

#include "check.hpp"

#include <halfulp/evidence/comparison.hpp>

#include <algorithm>

namespace check {

/// The modes that devices have.
inline constexpr RoundingMode modes[] = {RoundingMode::nearest_even, RoundingMode::toward_zero,
                                         RoundingMode::toward_positive, RoundingMode::toward_negative};

/// Operand columns that a test fills; `view()` shows as many as the operation takes.
struct Cases {
  std::vector<std::uint64_t> a, b, c;
  void push(std::uint64_t x, std::uint64_t y = 0, std::uint64_t z = 0) {
    a.push_back(x);
    b.push_back(y);
    c.push_back(z);
  }
  Operands view(int arity) const {
    Operands x;
    x.a = a;
    if (arity > 1) x.b = b;
    if (arity > 2) x.c = c;
    return x;
  }
};

inline std::uint64_t mask(const NumberType& type) {
  const int bits = storage_bits(type);
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

/// `code` with its exponent field moved by a few and a fresh sign and fraction: operands that meet.
inline std::uint64_t near(const FloatFormat& f, Random& random, std::int64_t field) {
  const std::int64_t top = (std::int64_t{1} << f.exponent_bits) - 1;
  const std::int64_t moved = std::clamp<std::int64_t>(field + static_cast<std::int64_t>(random() % 9) - 4, 0, top);
  return (random() & (f.fraction_mask() | f.sign_mask())) | static_cast<std::uint64_t>(moved) << f.fraction_bits;
}

/// Every code of a small type, else the lattice of its format and `count` random codes; pairs and triples alike.
inline Cases cases(const NumberType& type, int arity, std::size_t count) {
  Cases x;
  Random random{0x68616c66 + static_cast<std::uint64_t>(arity)};
  const int bits = storage_bits(type);
  const auto* f = std::get_if<FloatFormat>(&type);
  if (bits * arity <= 16) {
    for (std::uint64_t i = 0; i < std::uint64_t{1} << (bits * arity); ++i)
      x.push(i & mask(type), arity > 1 ? i >> bits : 0);
    return x;
  }
  std::vector<std::uint64_t> points;
  if (f) {
    points = lattice(*f, arity < 3);
  } else {
    for (int i = 0; i < bits; ++i)
      for (const std::uint64_t d : {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{1}})
        for (const bool negate : {false, true})
          points.push_back((negate ? 0 - ((std::uint64_t{1} << i) + d) : (std::uint64_t{1} << i) + d) & mask(type));
  }
  for (const auto a : points) {
    if (arity == 1) x.push(a);
    else
      for (const auto b : points) {
        if (arity == 2) x.push(a, b);
        else
          for (const auto c : points) x.push(a, b, c);
      }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t a = random() & mask(type), b = random() & mask(type);
    if (!f || arity == 1) {
      x.push(a >> (f ? 0 : random() % static_cast<std::uint64_t>(bits)));
    } else if (i % 2 == 0) {
      x.push(a, b, random() & mask(type));
    } else {
      const auto field = [&](std::uint64_t code) {
        return static_cast<std::int64_t>(f->magnitude(code) >> f->fraction_bits);
      };
      const std::uint64_t other = arity == 2 ? near(*f, random, field(a)) : b;
      x.push(a, other, near(*f, random, field(a) + field(other) - f->bias));
    }
  }
  return x;
}

/// Compares on one route and fails for the first witness; the number compared, 0 if the route refuses.
inline std::uint64_t agree(const Device& device, const Task& task, const Cases& x) {
  const Support support = device.supports(task);
  EXPECT_EQ(support.yes, support.reason.empty()) << device.name() << ' ' << task.description();
  EXPECT_EQ(support.yes, !support.route.empty()) << device.name() << ' ' << task.description();
  if (!support.yes) return 0;
  const TaskComparison result = compare(device, task, x.view(info(task.operation).arity));
  EXPECT_EQ(result.skipped, "");
  EXPECT_EQ(result.compared, x.a.size());
  if (result.differing != 0) {
    const Mismatch& w = result.witnesses.at(0);
    ADD_FAILURE() << std::hex << device.name() << ' ' << task.description() << ' '
                  << Differences::describe(result.task.rounding) << ": " << std::dec << result.differing << " of "
                  << result.compared << " differ, first " << std::hex << w.operands[0] << ' ' << w.operands[1] << ' '
                  << w.operands[2] << ": emulated " << w.emulated << ", " << result.route << ' ' << w.device;
  }
  return result.compared;
}

/// Random operands where a comparison is to mean something.
inline constexpr std::size_t many = 1 << 20;

inline std::vector<FloatFormat> device_formats() {
  return {fp16,      bf16, tf32,     fp32,     fp64,
          e4m3,      e5m2, e4m3ieee, e4m3fnuz, e5m2fnuz,
          p3109k8p3, e3m2, e2m3,     e2m1,     parse_format("e6m13")};
}

}  // namespace check
