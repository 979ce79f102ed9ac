// Shared by the tests of the experiment "attribution": rationals, drawn numbers, operands, comparisons of words.
#pragma once

#include "check.hpp"

#include <halfulp/experiments/attribution/attribution.hpp>

#include <boost/multiprecision/cpp_int.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace halfulp::attribution {

using boost::multiprecision::cpp_int;
using boost::multiprecision::cpp_rational;
using check::Random;

/// Counts code words that differ; prints the first few.
class Words {
 public:
  explicit Words(std::string subject) : subject_(std::move(subject)) {}
  ~Words() {
    EXPECT_EQ(differing_, 0u) << subject_ << ": of " << compared_;
    EXPECT_GT(compared_, 0u) << subject_;
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  void compare(std::uint64_t got, std::uint64_t want, const std::string& where) {
    ++compared_;
    if (got != want && differing_++ < 4)
      ADD_FAILURE() << std::hex << subject_ << ", " << where << ": got " << got << ", not " << want;
  }

 private:
  std::string subject_;
  std::uint64_t compared_ = 0, differing_ = 0;
};

inline cpp_rational rational(const Dyadic& d) {
  return d.exponent >= 0 ? cpp_rational(cpp_int(d.n << static_cast<unsigned>(d.exponent)))
                         : cpp_rational(d.n, cpp_int(1) << static_cast<unsigned>(-d.exponent));
}
inline cpp_rational rational(double x) { return rational(Dyadic(x)); }

/// A number of about `bits` bits, of either sign.
inline double draw(Random& random, int bits, int exponents) {
  const auto n = static_cast<double>(random() >> (64 - bits)) + 1;
  return std::ldexp(random() & 1 ? -n : n,
                    static_cast<int>(random() % static_cast<std::uint64_t>(2 * exponents + 1)) - exponents - bits);
}
inline std::vector<double> draws(Random& random, std::size_t count, int bits, int exponents) {
  std::vector<double> all;
  while (all.size() < count) all.push_back(draw(random, bits, exponents));
  return all;
}

inline OperandStates operand(const std::string& format, std::vector<double> values, std::size_t rows = 1) {
  const std::size_t columns = values.size() / rows;
  return make_operand(parse_operand_format(format), {}, std::move(values), rows, columns);
}

}  // namespace halfulp::attribution
