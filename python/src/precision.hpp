// A policy at work, as layers and optimizers of halfulp.torch share it.
#pragma once

#include "addresses.hpp"
#include "module.hpp"

#include <halfulp/support/json.hpp>
#include <halfulp/training/policy_numerics.hpp>
#include <halfulp/training/runs/model_report.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace halfulp::python {

using namespace training;

/// The place of a name among names. ValueError names the nearest.
template <class Names>
auto index_of(const Names& names, const char* what, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw std::invalid_argument(std::string(what) + ": " + unknown_name(what, name, {names.begin(), names.end()}));
  return found - names.begin();
}
inline OperatorKind kind_named(const std::string& name) {
  return static_cast<OperatorKind>(index_of(operator_names, "operator", name));
}
inline Role role_named(const std::string& name) { return static_cast<Role>(index_of(role_names, "role", name)); }

/// A policy of its name, of the path of a .json file, or of JSON text.
inline Policy policy_of(const std::string& text) {
  if (!text.starts_with("{")) return find_policy(text);
  try {
    return parse_policy(Json::parse(text), "policy");
  } catch (const Json::parse_error&) { throw std::invalid_argument("policy: not JSON"); }
}

/// A policy, and what it keeps from step to step.
struct Precision {
  const Policy policy;
  std::unique_ptr<trainings::ModelWatch> watch;  ///< null: nothing is watched
  PolicyNumerics numerics;
  std::uint64_t seed, step = 0;
  std::optional<SavedGradients> saved = {};
  double scale = 1;  ///< of the loss

  /// `every`: which steps are watched; 0: none.
  Precision(const std::string& text, std::uint64_t its_seed, std::uint64_t every)
      : policy(policy_of(text)),
        watch(every ? std::make_unique<trainings::ModelWatch>(every) : nullptr),
        numerics(policy, its_seed, watch.get()),
        seed(its_seed) {}

  void save_gradients(const std::string& folder, const std::string& about) {
    if (!watch) throw std::invalid_argument("gradients: saved of steps that are watched, and none are");
    saved.emplace(folder, Json::parse(about), step);
    watch->save_into(&*saved, scale);
  }
  void set_scale(double its) {
    scale = its;
    if (saved) watch->save_into(&*saved, scale);
  }

  Pass<float> pass(bool training) { return {numerics, training, seed, step}; }

  void product(const std::string& kind, const std::string& name, const std::string& which, std::size_t count,
               std::size_t m, std::size_t n, std::size_t k, Address a, bool a_turned, Address b, bool b_turned,
               Address bias, Address d) {
    const Site site{kind_named(kind), name};
    if (!multiplies(site.kind)) throw std::invalid_argument("operator: " + kind + " has no products");
    const auto product = static_cast<Product>(index_of(product_names, "product", which));
    FloatOperands x;
    x.m = m, x.n = n, x.k = k, x.transpose_a = a_turned, x.transpose_b = b_turned;
    x.a = read_at(a, count * m * k), x.b = read_at(b, count * k * n);
    const nb::gil_scoped_release released;
    if (count == 1) numerics.product(site, product, x, read_at(bias, bias ? n : 0), write_at(d, m * n));
    else numerics.products(site, product, count, x, write_at(d, count * m * n));
  }
};

/// Options of a layer by name, each of which is asked for exactly once.
class LayerOptions {
 public:
  LayerOptions(std::string kind, std::map<std::string, double> options)
      : kind_(std::move(kind)), options_(std::move(options)) {}
  double number(const char* name, double otherwise) {
    const auto found = options_.find(name);
    if (found == options_.end()) return otherwise;
    const double value = found->second;
    options_.erase(found);
    return value;
  }
  std::size_t count(const char* name, std::size_t otherwise) {
    return static_cast<std::size_t>(number(name, static_cast<double>(otherwise)));
  }
  void finish() const {
    if (!options_.empty()) throw std::invalid_argument(kind_ + " has no option " + options_.begin()->first);
  }

 private:
  std::string kind_;
  std::map<std::string, double> options_;
};

}  // namespace halfulp::python
