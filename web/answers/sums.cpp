// Scene "Sums": the terms and models of the experiment `accumulation`, its first trial.
#include <halfulp/data/distributions.hpp>
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/emulation/dot.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/web/answers/answers.hpp>

#include <cmath>

namespace halfulp::web {
namespace {

constexpr std::array<std::string_view, 5> sum_orders{"sequential", "blocked", "pairwise", "kahan", "promoted"};

DotModel model_of(std::string_view order, const FloatFormat& f) {
  DotModel m{f, {}, {f}};
  if (order == "blocked") m.order = Order::blocked, m.block = 64;
  else if (order == "pairwise") m.order = Order::pairwise;
  else if (order == "kahan") m.compensation = Compensation::kahan;
  else if (order == "promoted") m.order = Order::blocked, m.block = 128, m.promoted = Stage{fp32};
  else if (order != "sequential")
    throw std::invalid_argument(unknown_name("order", order, {sum_orders.begin(), sum_orders.end()}));
  return m;
}

double draw(std::string_view terms, std::uint64_t seed, std::uint64_t i) {
  if (terms == "ones") return 1;
  if (terms == "normal") return normal_sample(seed, 0, i);
  if (terms == "uniform") return uniform_sample(seed, 0, i);
  throw std::invalid_argument(unknown_name("terms", terms, {"uniform", "normal", "ones"}));
}

/// Sums of doubles with the error put back (Neumaier 1974): they are shown to a few digits.
class ExactSum {
 public:
  void add(double x) {
    const double t = sum_ + x;
    rest_ += std::fabs(sum_) >= std::fabs(x) ? (sum_ - t) + x : (x - t) + sum_;
    sum_ = t;
  }
  double value() const { return sum_ + rest_; }

 private:
  double sum_ = 0, rest_ = 0;
};

}  // namespace

Json sums(const Asked& asked) {
  const FloatFormat f = asked.format();
  const std::string_view terms = asked.text("terms"), order = asked.text("order");
  const std::uint64_t n = asked.whole("n", 1, 1 << 17), k = asked.whole("k", 1, n), seed = asked.seed();
  model_of(order, f);  // or refuses its name
  std::vector<std::uint64_t> x;
  for (std::uint64_t i = 0; i < n; ++i)
    x.push_back(convert(fp32, f, {}, encode(fp32, {}, draw(terms, seed, i)).code).code);
  std::vector<std::size_t> lengths;
  for (std::size_t length = 1; length < n; length *= 2) lengths.push_back(length);
  lengths.push_back(n);
  ExactSum exact, magnitudes;
  std::vector<double> exact_sums, all_magnitudes;
  double exact_k = 0;
  for (std::size_t i = 0; i < n; ++i) {
    exact.add(f.value(x[i]));
    magnitudes.add(std::fabs(f.value(x[i])));
    if (i + 1 == k) exact_k = exact.value();
    if (i + 1 == lengths[exact_sums.size()]) {
      exact_sums.push_back(exact.value());
      all_magnitudes.push_back(magnitudes.value());
    }
  }
  Json json{{"lengths", lengths}, {"u", f.epsilon() / 2}, {"exact", exact_sums}};
  for (const std::string_view name : sum_orders) {
    const DotModel model = model_of(name, f);
    const std::string why = refusal(model);
    if (!why.empty()) {  // such as a promotion out of a format that fp32 does not hold
      json["orders"].push_back({{"order", name}, {"refused", why}});
      continue;
    }
    Json row{{"order", name}};
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const double value = model.result().value(sum(model, std::span(x).first(lengths[i])));
      row["sums"].push_back(number(value));
      row["errors"].push_back(number(std::fabs(value - exact_sums[i]) / all_magnitudes[i]));
    }
    json["orders"].push_back(row);
  }
  const DotModel chosen = model_of(order, f);
  if (const std::string why = refusal(chosen); !why.empty()) throw std::invalid_argument(why);
  const auto first = [&](std::uint64_t count) {
    return number(chosen.result().value(sum(chosen, std::span(x).first(count))));
  };
  json["entering"] = {
      {"k", k}, {"before", first(k - 1)}, {"term", number(f.value(x[k - 1]))}, {"after", first(k)}, {"exact", exact_k}};
  return json;
}

}  // namespace halfulp::web
