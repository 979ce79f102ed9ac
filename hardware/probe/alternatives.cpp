#include <halfulp/hardware/probe/alternatives.hpp>

#include <halfulp/emulation/units/rules.hpp>

namespace halfulp::probe {

int Alternative::least_exponent(const FusedSum& found, std::int64_t bits_there) const {
  if (!exponent_moves) return found.least_exponent;
  return found.least_exponent + static_cast<int>(bits_there) - found.alignment_bits;
}

std::vector<Alternative> alternatives(const Answers& answers, const MatrixUnit& model) {
  std::vector<Alternative> result;
  if (model.rule != &rules::fused) return result;
  Order order = answers.all();
  for (const std::int64_t mode : candidates(answers.shape(), Parameter::alignment))
    for (const auto& [normalized, moves] : {std::pair{false, false}, std::pair{true, false}, std::pair{false, true}, std::pair{true, true}}) {
      Alternative a{static_cast<RoundingMode>(mode), normalized, moves, {0, 0}};
      const bool own = a.alignment == model.sum.alignment && normalized == model.sum.normalized_products;
      if (moves ? model.sum.least_exponent == FusedSum::no_least_exponent || model.sum.length != 1 : own) continue;
      MatrixUnit other = model;
      const auto explains = [&](std::int64_t bits) {
        other.sum.alignment = a.alignment, other.sum.normalized_products = a.normalized;
        other.sum.alignment_bits = static_cast<int>(bits), other.sum.least_exponent = a.least_exponent(model.sum, bits);
        return answers.explained_by(other, order);
      };
      const std::vector<std::int64_t> bits = candidates(answers.shape(), Parameter::alignment_bits);
      std::int64_t last = bits.back();
      while (last >= bits.front() && !explains(last)) --last;
      if (last < bits.front()) continue;
      // Fewer bits cut more: the first number that gives all answers lies between one that does and one that does not.
      std::int64_t wrong = bits.front() - 1, right = last;
      while (right - wrong > 1) {
        const std::int64_t middle = (wrong + right) / 2;
        (explains(middle) ? right : wrong) = middle;
      }
      a.bits = {right, last};
      const bool told = !result.empty() && moves && right == last && right == model.sum.alignment_bits;  // nothing moved
      if (!told) result.push_back(a);
    }
  return result;
}

}  // namespace halfulp::probe
