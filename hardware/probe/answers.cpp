#include <halfulp/hardware/probe/answers.hpp>

#include <algorithm>
#include <numeric>

namespace halfulp::probe {

Order Answers::chosen(const std::function<bool(std::size_t)>& predicate) const {
  Order order;
  for (std::size_t i = 0; i < size(); ++i)
    if (predicate(i)) order.push_back(static_cast<std::uint32_t>(i));
  return order;
}

Order Answers::all() const {
  Order order(size());
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

std::optional<std::size_t> Answers::first(const std::function<bool(std::size_t)>& predicate) const {
  for (std::size_t i = 0; i < size(); ++i)
    if (predicate(i)) return i;
  return std::nullopt;
}

bool Answers::explained_by(const MatrixUnit& model, Order& order) const {
  for (auto at = order.begin(); at != order.end(); ++at) {
    if (by_model(model, *at) == d_[*at]) continue;
    std::rotate(order.begin(), at, at + 1);
    return false;
  }
  return true;
}

std::size_t Answers::differing(const MatrixUnit& model) const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < size(); ++i) count += by_model(model, i) != d_[i];
  return count;
}

MatrixUnit model_of(const MatrixShape& s, const Rule& rule, const FusedSum& sum) {
  return {"probed", "", s.a, s.b, s.accumulator, 1, 1, s.k, &rule, sum, s.scale, s.scale_block, "", ""};
}

}  // namespace halfulp::probe
