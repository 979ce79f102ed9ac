#include <halfulp/training/policy_numerics.hpp>

#include <halfulp/emulation/product/product.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/support/json.hpp>
#include <halfulp/training/operand.hpp>
#include <halfulp/training/layers/initialisation.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

namespace halfulp::training {

/// One operator of the network: its precision, parsed, and the histories of its delayed scales.
struct PolicyNumerics::Layer {
  OperatorPrecision precision;
  std::vector<ProductModel> models;  ///< of the three products; empty where there are none
  std::optional<ProductModel> inside;
  struct History {
    DelayedAmax amax;
    std::optional<float> seen = {};  ///< in this step
  };
  std::map<Role, History> histories;
  /// An operand of a straight-through operator as the last forward product took it.
  struct Taken {
    std::vector<float> values;
    std::vector<std::uint8_t> beyond;  ///< which elements exceeded the range; empty: none
  };
  Taken activation, weight;
};

namespace {

DelayedAmax fresh_history(const Storage& storage) {
  const DelayedScaling& d = *storage.delayed;
  return DelayedAmax(static_cast<float>(storage.block()->element.target()), d.length, d.choice, d.margin);
}

/// Marks the magnitudes above amax.
void find_beyond(std::span<const float> memory, std::optional<float> amax, std::vector<std::uint8_t>& beyond) {
  beyond.resize(amax ? memory.size() : 0);
  for (std::size_t i = 0; i < beyond.size(); ++i) beyond[i] = std::fabs(memory[i]) > *amax;
}

/// sums[j] = the sum of column j by a model, one row after the other.
void sums_inside(const ProductModel& model, std::size_t columns, std::span<const float> values, std::span<float> sums) {
  FloatOperands x;
  x.m = 1, x.n = columns, x.k = columns ? values.size() / columns : 0;
  const std::vector<float> ones(x.k, 1.0f);
  x.a = ones, x.b = values;
  gemm(model, x, sums);
}

}  // namespace

PolicyNumerics::PolicyNumerics(const Policy& policy, std::uint64_t seed, Observer* observer)
    : policy_(policy), seed_(seed), observer_(observer) {
  for (const Policy::Rule& rule : policy.rules) strict_inside_ |= rule.inside.has_value();
}
PolicyNumerics::~PolicyNumerics() = default;

void PolicyNumerics::begin_step(std::uint64_t step) {
  step_ = step;
  roundings_ = 0;
}

void PolicyNumerics::end_step() {
  for (auto& [key, layer] : layers_)
    for (auto& [role, history] : layer->histories)
      if (history.seen) {
        history.amax.record(*history.seen);
        history.seen.reset();
      }
}

RandomStream PolicyNumerics::next_random() { return {seed_, stream_of("roundings", step_), roundings_++ << 40}; }

PolicyNumerics::Layer& PolicyNumerics::layer(const Site& site) const {
  const std::lock_guard lock(mutex_);
  const std::pair key(site.kind, std::string(site.name));
  if (const auto found = layers_.find(key); found != layers_.end()) return *found->second;
  auto made = std::make_unique<Layer>();
  made->precision = policy_.at(site.kind, site.name);
  const std::string where = policy_.name + (site.name.empty() ? "" : ", layer " + std::string(site.name));
  if (multiplies(site.kind))
    for (const Product which : {Product::forward, Product::to_input, Product::to_weight}) {
      const ProductRoles roles = roles_of(site.kind, which);
      made->models.push_back(operand_model(made->precision.accumulate[static_cast<std::size_t>(which)],
                                           made->precision.operand(which, roles.a),
                                           made->precision.operand(which, roles.b), where));
    }
  // A sum is a product by ones.
  if (made->precision.inside)
    made->inside = parse_product_model("in=fp32,mul=fp32,acc=" + format_name(*made->precision.inside));
  return *layers_.emplace(key, std::move(made)).first->second;
}

void PolicyNumerics::round(const Site& site, Role role, const Storage& storage, std::span<float> values) {
  const RandomStream random = next_random();  // always drawn, so that an observer changes nothing
  if (storage.keeps_floats() && !observer_) return;
  Tally tally;
  const bool counts = observer_ && observer_->counts();
  if (observer_) observer_->before(site, role, storage, values);
  store(storage, 0, values, random, counts ? &tally : nullptr);
  if (observer_) observer_->see({site, role, false, values, counts ? &tally : nullptr});
}

std::span<const float> PolicyNumerics::sums_to_show(std::span<const float> d) {
  if (!observer_ || !observer_->measures()) return {};
  sums_.assign(d.begin(), d.end());
  return sums_;
}

std::optional<float> PolicyNumerics::prepare(Layer& layer, const Site& site, Product which, Role role,
                                             std::span<const float> memory, std::size_t rows, std::size_t k,
                                             bool in_columns, PolicyOperand& operand) {
  const Storage& storage = layer.precision.operand(which, role);
  std::optional<float> amax = storage.amax;
  if (storage.delayed) {
    auto& history = layer.histories.try_emplace(role, Layer::History{fresh_history(storage)}).first->second;
    amax = history.amax.amax();
    history.seen = largest_magnitude(memory);
  }
  Tally tally;
  const bool counts = observer_ && observer_->counts() && !storage.keeps_floats();
  operand.take(storage, memory, rows, k, in_columns, next_random(), amax, counts ? &tally : nullptr);
  if (counts) observer_->see({site, role, true, operand.elements, &tally});
  return amax;
}

void PolicyNumerics::product(const Site& site, Product which, const Operands& x, std::span<const float> bias,
                             std::span<float> d) {
  stop_if_interrupted();
  Layer& at = layer(site);
  const ProductRoles roles = roles_of(site.kind, which);
  const bool straight = at.precision.straight_through, forward = which == Product::forward;
  Layer::Taken& taken = which == Product::to_input ? at.weight : at.activation;  // of a backward product
  const std::optional<float> amax_a = prepare(at, site, which, roles.a, x.a, x.m, x.k, x.transpose_a, a_);
  FloatOperands came = x;
  if (straight && !forward) came.b = taken.values;
  const std::optional<float> amax_b = prepare(at, site, which, roles.b, came.b, x.n, x.k, !x.transpose_b, b_);
  if (straight && forward) {
    a_.values(x.m, x.k, at.activation.values), find_beyond(x.a, amax_a, at.activation.beyond);
    b_.values(x.n, x.k, at.weight.values), find_beyond(x.b, amax_b, at.weight.beyond);
  }
  const ProductModel& model = at.models[static_cast<std::size_t>(which)];
  const std::uint64_t stream = stream_of("sums", step_) + (roundings_++ << 40);
  if (!a_.scaled() && !b_.scaled()) {
    FloatOperands elements = elements_of(a_, b_, x.m, x.n, x.k);
    elements.c = x.c;
    multiply(model, elements, bias, d, 1, stream);
  } else {
    multiply_scaled(model, a_, b_, x.m, x.n, x.k, stream, d);
    for (std::size_t i = 0; i < x.c.size(); ++i) d[i] += x.c[i];
    if (!bias.empty())
      for_rows(x.m, x.n, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i)
          for (std::size_t j = 0; j < x.n; ++j) d[i * x.n + j] += bias[j];
      });
  }
  const std::span<const float> sums = sums_to_show(d);
  if (straight && !forward) {
    const std::vector<std::uint8_t>& beyond = (which == Product::to_input ? at.activation : at.weight).beyond;
    for (std::size_t i = 0; i < beyond.size(); ++i)
      if (beyond[i]) d[i] = 0;
  }
  round(site, roles.d, at.precision.result(roles.d), d);
  if (!sums.empty()) observer_->see_product({site, which, 1, came, a_, b_, bias, sums, d, model});
}

void PolicyNumerics::products(const Site& site, Product which, std::size_t count, const Operands& x,
                              std::span<float> d) {
  stop_if_interrupted();
  Layer& at = layer(site);
  const ProductRoles roles = roles_of(site.kind, which);
  if (at.precision.operand(roles.a).block() || at.precision.operand(roles.b).block())
    return Numerics<float>::products(site, which, count, x, d);
  // Values are rounded one by one, so all matrices are rounded at once.
  prepare(at, site, which, roles.a, x.a, x.m * count, x.k, x.transpose_a, a_);
  prepare(at, site, which, roles.b, x.b, x.n * count, x.k, !x.transpose_b, b_);
  const ProductModel& model = at.models[static_cast<std::size_t>(which)];
  multiply(model, elements_of(a_, b_, x.m, x.n, x.k), {}, d, count, stream_of("sums", step_) + (roundings_++ << 40));
  const std::span<const float> sums = sums_to_show(d);
  round(site, roles.d, at.precision.result(roles.d), d);
  if (!sums.empty()) observer_->see_product({site, which, count, x, a_, b_, {}, sums, d, model});
}

void PolicyNumerics::cast(const Site& site, Role role, std::span<float> values) {
  round(site, role, layer(site).precision.result(role), values);
}

const ProductModel* PolicyNumerics::inside(const Site& site) const {
  if (!strict_inside_) return nullptr;
  const Layer& at = layer(site);
  return at.inside ? &*at.inside : nullptr;
}

float PolicyNumerics::sum(const Site& site, std::span<const float> values) const {
  const ProductModel* const model = inside(site);
  if (!model) return fixed_order_sum(values);
  float total = 0;
  sums_inside(*model, 1, values, {&total, 1});
  return total;
}

void PolicyNumerics::column_sums(const Site& site, std::size_t columns, std::span<const float> values,
                                 std::span<float> sums) const {
  if (const ProductModel* const model = inside(site)) sums_inside(*model, columns, values, sums);
  else fixed_order_column_sums(columns, values, sums);
}

void PolicyNumerics::inner(const Site& site, std::span<float> values) const {
  if (const ProductModel* const model = inside(site)) quantize(format_of_result(*model), {}, values, values);
}

std::vector<std::pair<OperatorKind, std::string>> PolicyNumerics::sites() const {
  std::vector<std::pair<OperatorKind, std::string>> all;
  for (const auto& entry : layers_) all.push_back(entry.first);
  return all;
}

Json PolicyNumerics::state() const {
  Json state = Json::object();
  for (const auto& [key, layer] : layers_)
    for (const auto& [role, history] : layer->histories) {
      Json magnitudes = Json::array();  // after an overflow Inf or NaN, which JSON has no number for
      for (const float magnitude : history.amax.history()) magnitudes.push_back(number(static_cast<double>(magnitude)));
      state[key.second][name_of(role)] = {{"kind", name_of(key.first)},
                                          {"amax", number(static_cast<double>(history.amax.amax()))},
                                          {"magnitudes", std::move(magnitudes)}};
    }
  return state;
}

void PolicyNumerics::restore(const Json& state, const std::string& where) {
  const auto index = [](const auto& names, const char* what, const std::string& name, const std::string& place) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw std::invalid_argument(place + ": " + unknown_name(what, name, {names.begin(), names.end()}));
    return found - names.begin();
  };
  const auto magnitude = [](const JsonValue& value) {
    const auto x = number_of(value.json());
    if (!x || (std::isfinite(*x) && std::fabs(*x) > std::numeric_limits<float>::max()))
      value.refuse("a number that fits fp32, \"NaN\" or \"Infinity\"");
    return static_cast<float>(*x);
  };
  for (const auto& [key, layer] : layers_) layer->histories.clear();
  const Members layers(state, where);
  for (const auto& [name, of_layer] : state.items()) {
    const Members roles(of_layer, layers.at(name));
    for (const auto& [role_name, saved] : of_layer.items()) {
      Members members(saved, roles.at(role_name));
      const auto role = static_cast<Role>(index(role_names, "role", role_name, roles.where()));
      const auto kind = static_cast<OperatorKind>(
          index(operator_names, "operator", members.text("kind"), members.at("kind")));
      Layer& at = layer({kind, name});
      const bool is_operand = role == Role::weight || role == Role::activation || role == Role::gradient_of_activation;
      if (!is_operand || !at.precision.operand(role).delayed)
        members.fail("policy " + policy_.name + " has no delayed scale here");
      const DelayedScaling& delayed = *at.precision.operand(role).delayed;
      const Json& list = members["magnitudes"].list();
      if (list.size() > delayed.length)
        members.fail("magnitudes are " + std::to_string(list.size()) + "; accepted: at most " +
                     std::to_string(delayed.length));
      std::vector<float> magnitudes;
      for (const Json& one : list) magnitudes.push_back(magnitude({one, members.at("magnitudes")}));
      Layer::History history{fresh_history(at.precision.operand(role))};
      history.amax.restore(magnitudes, magnitude(members["amax"]));
      members.finish();
      at.histories.insert_or_assign(role, std::move(history));
    }
  }
}

}  // namespace halfulp::training
