// The trainer's optimizer and loss scaler on parameters of others, and the trainer itself, to which both are held.
#include "precision.hpp"

#include <halfulp/training/checkpoint.hpp>
#include <halfulp/training/optimizer.hpp>
#include <halfulp/training/trainer.hpp>

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>
#include <vector>

namespace halfulp::python {
namespace {

OptimizerSettings settings_of(const std::string& kind, const std::map<std::string, double>& options) {
  LayerOptions all(kind, options);
  OptimizerSettings s;
  s.kind = parse_optimizer(kind);
  s.lr = all.number("lr", s.kind == OptimizerKind::sgd ? 1e-2 : s.lr);
  if (s.kind == OptimizerKind::sgd)
    s.momentum = all.number("momentum", s.momentum), s.nesterov = all.number("nesterov", 0) != 0;
  else s.beta1 = all.number("beta1", s.beta1), s.beta2 = all.number("beta2", s.beta2), s.eps = all.number("eps", s.eps);
  s.weight_decay = all.number("weight_decay", s.kind == OptimizerKind::adamw ? 1e-2 : 0);
  all.finish();
  return s;
}

/// The trainer's optimizer and loss scaler under a policy, for parameters whose memory somebody else owns. Groups of
/// parameters have settings of their own, and one scaler.
class Updates {
 public:
  using Described = std::tuple<std::string, std::size_t, Address>;  ///< name, elements, values
  using Event = std::tuple<std::int64_t, std::string, double, double, std::string>;

  Updates(const Precision& precision, const std::string& kind,
          const std::vector<std::map<std::string, double>>& options,
          const std::vector<std::vector<Described>>& groups) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::vector<TrainedParameter<float>*> pointers;
      const std::size_t first = owned_.size();
      for (const auto& [name, size, address] : groups[g]) {
        owned_.push_back(std::make_unique<TrainedParameter<float>>(name, ParameterKind::weight, Extents{size}));
        copy(read_at(address, size), owned_.back()->value.values());
        pointers.push_back(owned_.back().get());
      }
      optimizers_.push_back(std::make_unique<Optimizer>(pointers, settings_of(kind, options.at(g)),
                                                        precision.policy.update, precision.seed));
      for (std::size_t i = 0; i < groups[g].size(); ++i)
        copy(owned_[first + i]->value.values(), write_at(std::get<2>(groups[g][i]), std::get<1>(groups[g][i])));
    }
    if (precision.policy.loss_scaling) scaler_.emplace(*precision.policy.loss_scaling);
  }
  Updates(const Updates&) = delete;
  Updates& operator=(const Updates&) = delete;

  /// What the gradient of the loss begins with. Call it once before each step().
  float factor(float loss) {
    if (!scaler_) return 1;
    scaler_->scale(loss);
    return scaler_->factor();
  }
  double scale() const { return scaler_ ? scaler_->current() : 1; }
  bool scales() const { return scaler_.has_value(); }
  bool unscaled() const { return unscaled_; }  ///< since the last step

  /// Divides gradients by the scale, in place.
  void unscale(const std::vector<Address>& gradients) {
    if (!scaler_ || unscaled_) return;
    scaler_->unscale(0, taken(gradients));
    unscaled_ = true;
    give_gradients(gradients);
  }

  /// One step by gradients (0: none), which are unscaled in place unless they were; whether it was taken. `lr`: of each
  /// group.
  bool step(const std::vector<double>& lr, const std::vector<Memory>& values, const std::vector<Address>& gradients) {
    const nb::gil_scoped_release released;
    for (std::size_t i = 0; i < owned_.size(); ++i)
      copy(memory_at(values.at(i), owned_[i]->value.size(), owned_[i]->name), owned_[i]->value.values());
    const std::vector<std::span<float>> given = taken(gradients);
    for (std::size_t g = 0; g < optimizers_.size(); ++g) optimizers_[g]->set_lr(lr.at(g));
    const auto take = [&] {
      for (const auto& optimizer : optimizers_) optimizer->step();
    };
    bool took = true;
    if (scaler_) {
      if (!unscaled_) scaler_->unscale(0, given);
      took = scaler_->step(0, given, take);
      scaler_->update();
    } else {
      take();
    }
    unscaled_ = false;
    give_gradients(gradients);
    for (std::size_t i = 0; i < owned_.size(); ++i)
      copy(owned_[i]->value.values(), write_at(values[i].first, owned_[i]->value.size()));
    return took;
  }

  /// What the loss scaler did since the last call: update, event, scale before and after, in words.
  std::vector<Event> take_events() {
    std::vector<Event> events;
    if (scaler_)
      for (const ScalerEvent& e : scaler_->take_events())
        events.emplace_back(e.update, name_of(e.kind), e.before, e.after, description(e));
    return events;
  }

  /// States of all groups, as checkpoints have them, and the scaler's as JSON.
  std::pair<std::vector<nb::bytes>, std::string> state() const {
    std::vector<nb::bytes> all;
    for (const auto& optimizer : optimizers_) {
      Checkpoint checkpoint;
      checkpoint.identity = Json::object(), checkpoint.state = Json::object();
      optimizer->save(checkpoint);
      const std::string bytes = checkpoint.bytes();
      all.emplace_back(bytes.data(), bytes.size());
    }
    return {all, scaler_ ? scaler_->state().dump() : ""};
  }
  /// Takes such a state, or changes nothing.
  void restore(const std::vector<nb::bytes>& states, const std::string& scaler) {
    if (states.size() != optimizers_.size())
      throw std::invalid_argument("state: of " + std::to_string(states.size()) +
                                  " groups of parameters; accepted: " + std::to_string(optimizers_.size()));
    if (scaler.empty() == scaler_.has_value())
      throw std::invalid_argument("state: of a policy with another loss scaling");
    std::vector<Checkpoint> all;
    for (const nb::bytes& bytes : states)
      all.push_back(Checkpoint::from_bytes({static_cast<const char*>(bytes.data()), bytes.size()}, "state"));
    if (scaler_) scaler_->restore(Json::parse(scaler), "state");
    for (std::size_t g = 0; g < all.size(); ++g) optimizers_[g]->restore(all[g]);
  }

 private:
  std::vector<std::span<float>> taken(const std::vector<Address>& gradients) {
    std::vector<std::span<float>> given;
    for (std::size_t i = 0; i < owned_.size(); ++i) {
      TrainedParameter<float>& p = *owned_[i];
      p.has_gradient = gradients.at(i) != 0;
      if (!p.has_gradient) continue;
      copy(read_at(gradients[i], p.value.size()), p.gradient.values());
      given.push_back(p.gradient.values());
    }
    return given;
  }
  void give_gradients(const std::vector<Address>& gradients) const {
    for (std::size_t i = 0; i < owned_.size(); ++i)
      if (gradients[i]) copy(owned_[i]->gradient.values(), write_at(gradients[i], owned_[i]->value.size()));
  }
  std::vector<std::unique_ptr<TrainedParameter<float>>> owned_;  ///< of all groups, one after the other
  std::vector<std::unique_ptr<Optimizer>> optimizers_;           ///< of groups
  std::optional<LossScaler> scaler_;
  bool unscaled_ = false;
};

/// Batches that were made elsewhere.
class GivenExamples : public Examples {
 public:
  std::vector<Batch> batches;
  std::uint64_t steps_per_epoch() const override { return batches.size(); }
  void training(std::uint64_t, std::uint64_t step, Batch& batch) override { batch = batches.at(step % batches.size()); }
  std::size_t train_size() const override { return batches.size(); }
  std::size_t test_size() const override { return 0; }
  std::size_t test_batches() const override { return 0; }
  void test(std::size_t, Batch&) const override {}
};

/// The trainer itself on given batches: what models under a policy are held to.
class Reference {
 public:
  Reference(const std::string& network, const std::map<std::string, double>& options, const std::string& policy,
            const std::string& optimizer, const std::map<std::string, double>& numbers, std::uint64_t seed,
            const std::vector<std::tuple<std::vector<std::size_t>, std::vector<float>, std::vector<int>>>& batches,
            const std::map<std::string, std::vector<float>>& values)
      : policy_(policy_of(policy)) {
    for (const auto& [extents, x, labels] : batches) {
      Batch batch;
      Extents e;
      for (const std::size_t n : extents) e = e.appended(n);
      batch.x.resize(e);
      copy(x, batch.x.values());
      batch.labels = labels;
      examples_.batches.push_back(std::move(batch));
    }
    TrainerSettings s;
    LayerOptions all(network, options);
    s.network = network;
    s.options.inputs = all.count("inputs", 0), s.options.outputs = all.count("outputs", 0);
    s.options.width = all.count("width", 0), s.options.depth = all.count("depth", 0);
    s.options.heads = all.count("heads", 0), s.options.dropout = all.number("dropout", 0);
    s.options.positions = all.count("rope", 1) ? Positions::rope : Positions::none;
    all.finish();
    s.optimizer = settings_of(optimizer, numbers);
    s.steps = s.interval = examples_.batches.size();
    s.seed = seed;
    trainer_ = std::make_unique<Trainer>(s, policy_, examples_);
    if (!values.empty()) trainer_->start_from(values);
  }
  std::map<std::string, std::vector<float>> values() const { return trainer_->values(); }
  double loss() const { return trainer_->last_loss(); }
  std::uint64_t steps() const { return trainer_->steps(); }  ///< fewer than asked for where it diverged
  void run() {
    const nb::gil_scoped_release released;
    trainer_->run_interval();
  }

 private:
  Policy policy_;
  GivenExamples examples_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace

void add_updates(nb::module_& m) {
  nb::class_<Updates>(m, "Updates", "The trainer's optimizer and loss scaler for parameters of others.")
      .def(nb::init<const Precision&, const std::string&, const std::vector<std::map<std::string, double>>&,
                    const std::vector<std::vector<Updates::Described>>&>(),
           nb::arg("precision"), nb::arg("kind"), nb::arg("options"), nb::arg("groups"),
           "options: of each group. groups: of parameters, (name, elements, address of float32), which are rounded as "
           "the policy stores them.")
      .def("factor", &Updates::factor, nb::arg("loss"))
      .def_prop_ro("scale", &Updates::scale)
      .def_prop_ro("scales", &Updates::scales)
      .def_prop_ro("unscaled", &Updates::unscaled)
      .def("unscale", &Updates::unscale, nb::arg("gradients"))
      .def("step", &Updates::step, nb::arg("lr"), nb::arg("values"), nb::arg("gradients"))
      .def("take_events", &Updates::take_events)
      .def("state", &Updates::state)
      .def("restore", &Updates::restore, nb::arg("states"), nb::arg("scaler"));
  nb::class_<Reference>(m, "Reference", "The trainer on given batches: what halfulp.torch is held to.")
      .def(nb::init<const std::string&, const std::map<std::string, double>&, const std::string&, const std::string&,
                    const std::map<std::string, double>&, std::uint64_t,
                    const std::vector<std::tuple<std::vector<std::size_t>, std::vector<float>, std::vector<int>>>&,
                    const std::map<std::string, std::vector<float>>&>(),
           nb::arg("network"), nb::arg("options"), nb::arg("policy"), nb::arg("optimizer"), nb::arg("numbers"),
           nb::arg("seed"), nb::arg("batches"), nb::arg("values"))
      .def("run", &Reference::run)
      .def_prop_ro("loss", &Reference::loss)
      .def_prop_ro("steps", &Reference::steps, "Steps that were done: it ends where a parameter is Inf or NaN.")
      .def_prop_ro("values", &Reference::values);
}

}  // namespace halfulp::python
