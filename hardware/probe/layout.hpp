// Which products are added at once, and in which order: read off the questions about order.
#pragma once

#include <halfulp/hardware/probe/answers.hpp>

namespace halfulp::probe {

/// How an instruction's k products are divided into sums.
struct Layout {
  int length = 1;
  Grouping grouping = Grouping::consecutive;
  bool descending = false;
  /// The number of the sum, from 0 in their order, that product `at` of k goes into.
  std::size_t step(std::size_t at, std::size_t k) const;
};

/// The most fraction bits that C keeps on its way through sums of zeros, by the questions about C alone; 0: not even one.
int surviving_bits(const Answers& answers);

/// The layouts of fused sums that answers about order allow. C = 1 + 2^-w with w = surviving_bits() comes through +1 and -1
/// unless they are added in this order one after the other: the sum 2 + 2^-w in between has a bit more than is kept.
std::vector<Layout> layouts(const Answers& answers, int surviving);

/// The questions whose answers cannot depend on a least exponent of 0 or below: what is added at first has an exponent of at
/// least 0, and so have all products but zeros.
Order large_questions(const Answers& answers, const Layout& layout);

}  // namespace halfulp::probe
