// Policies at work on tensors of others: the numerics and the layers of training/ on memory that halfulp.torch vouches
// for. What a network computes with them has the bits of the trainer, because it is the trainer's code.
#include "module.hpp"

#include <halfulp/support/json.hpp>
#include <halfulp/training/layers/activations.hpp>
#include <halfulp/training/layers/images.hpp>
#include <halfulp/training/layers/linear.hpp>
#include <halfulp/training/layers/losses.hpp>
#include <halfulp/training/layers/norms.hpp>
#include <halfulp/training/layers/sequences.hpp>
#include <halfulp/training/optimizer.hpp>
#include <halfulp/training/policy_numerics.hpp>
#include <halfulp/training/trainer.hpp>

#include <nanobind/stl/map.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

namespace halfulp::python {
namespace {

using namespace training;
using Address = std::uintptr_t;
using Floats = Tensor<float>;

std::span<const float> read(Address address, std::size_t count) {
  return {reinterpret_cast<const float*>(address), count};  // NOLINT(performance-no-int-to-ptr): Python has no other
}
std::span<float> write(Address address, std::size_t count) {
  return {reinterpret_cast<float*>(address), count};  // NOLINT(performance-no-int-to-ptr)
}

/// On all threads, where that is worth it.
void copy(std::span<const float> from, std::span<float> to) {
  for_rows(from.size(), 1, [=](std::size_t begin, std::size_t end) {
    std::copy(from.begin() + static_cast<std::ptrdiff_t>(begin), from.begin() + static_cast<std::ptrdiff_t>(end),
              to.begin() + static_cast<std::ptrdiff_t>(begin));
  });
}

template <class Names>
auto index_of(const Names& names, const char* what, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw std::invalid_argument(std::string(what) + ": " + unknown_name(what, name, {names.begin(), names.end()}));
  return found - names.begin();
}
OperatorKind kind_named(const std::string& name) {
  return static_cast<OperatorKind>(index_of(operator_names, "operator", name));
}
Role role_named(const std::string& name) { return static_cast<Role>(index_of(role_names, "role", name)); }

Policy policy_of(const std::string& text) {
  if (!text.starts_with("{")) return find_policy(text);
  try {
    return parse_policy(Json::parse(text), "policy");
  } catch (const Json::parse_error&) { throw std::invalid_argument("policy: not JSON"); }
}

/// A policy, and what it keeps from step to step.
struct Precision {
  const Policy policy;
  PolicyNumerics numerics;
  std::uint64_t seed, step = 0;

  Precision(const std::string& text, std::uint64_t its_seed)
      : policy(policy_of(text)), numerics(policy, its_seed), seed(its_seed) {}

  Pass<float> pass(bool training) { return {numerics, training, seed, step}; }

  void product(const std::string& kind, const std::string& name, const std::string& which, std::size_t count,
               std::size_t m, std::size_t n, std::size_t k, Address a, bool a_turned, Address b, bool b_turned,
               Address bias, Address d) {
    const Site site{kind_named(kind), name};
    if (!multiplies(site.kind)) throw std::invalid_argument("operator: " + kind + " has no products");
    const auto product = static_cast<Product>(index_of(product_names, "product", which));
    FloatOperands x;
    x.m = m, x.n = n, x.k = k, x.transpose_a = a_turned, x.transpose_b = b_turned;
    x.a = read(a, count * m * k), x.b = read(b, count * k * n);
    const nb::gil_scoped_release released;
    if (count == 1) numerics.product(site, product, x, read(bias, bias ? n : 0), write(d, m * n));
    else numerics.products(site, product, count, x, write(d, count * m * n));
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

std::unique_ptr<Module<float>> make_layer(const std::string& kind, const std::string& name, LayerOptions& o) {
  switch (kind_named(kind)) {
    case OperatorKind::embedding:
      return std::make_unique<Embedding<float>>(name, o.count("rows", 1), o.count("width", 1));
    case OperatorKind::layer_norm:
      return std::make_unique<LayerNorm<float>>(name, o.count("width", 1), o.number("eps", 1e-5));
    case OperatorKind::rms_norm:
      return std::make_unique<RmsNorm<float>>(name, o.count("width", 1), o.number("eps", 1e-6));
    case OperatorKind::batch_norm:
      return std::make_unique<BatchNorm<float>>(name, o.count("width", 1), o.number("eps", 1e-5),
                                                o.number("momentum", 0.1));
    case OperatorKind::relu: return std::make_unique<Relu<float>>(name);
    case OperatorKind::gelu:
      return std::make_unique<Gelu<float>>(name, o.count("tanh", 0) ? GeluForm::tanh : GeluForm::erf);
    case OperatorKind::softmax: return std::make_unique<Softmax<float>>(name);
    case OperatorKind::dropout: return std::make_unique<Dropout<float>>(name, o.number("p", 0.5));
    case OperatorKind::max_pool:
      return std::make_unique<Pool2d<float>>(name, Pooling::maximum, o.count("size", 2), o.count("stride", 0));
    case OperatorKind::average_pool:
      return std::make_unique<Pool2d<float>>(name, Pooling::average, o.count("size", 2), o.count("stride", 0));
    case OperatorKind::lstm_cell: return std::make_unique<Lstm<float>>(name, o.count("inputs", 1), o.count("width", 1));
    case OperatorKind::conv2d: {
      Conv2dShape shape{o.count("inputs", 1), o.count("outputs", 1), o.count("kernel", 3), o.count("stride", 1),
                        o.count("padding", 0)};
      return std::make_unique<Conv2d<float>>(name, shape, o.count("bias", 1) != 0);
    }
    default: throw std::invalid_argument("operator: no layer of its own for " + kind);
  }
}

/// One layer of training/ between a forward and its backward pass.
class Layer {
 public:
  Layer(const std::string& kind, const std::string& name, std::map<std::string, double> options) : name_(name) {
    LayerOptions all(kind, std::move(options));
    module_ = make_layer(kind, name_, all);
    all.finish();
  }

  /// The result's extents.
  std::vector<std::size_t> forward(Precision& precision, const std::vector<std::size_t>& extents, Address x,
                                   const std::vector<Address>& parameters, bool training) {
    const nb::gil_scoped_release released;
    x_.resize(extents_of(extents));
    copy(read(x, x_.size()), x_.values());
    const auto all = module_->parameters();
    if (all.size() != parameters.size())
      throw std::invalid_argument(name_ + ": " + std::to_string(parameters.size()) +
                                  " parameters; accepted: " + std::to_string(all.size()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      copy(read(parameters[i], all[i]->value.size()), all[i]->value.values());
      all[i]->forget_gradient();
    }
    Pass<float> pass = precision.pass(training);
    result_ = &module_->forward(pass, x_);
    std::vector<std::size_t> shape;
    for (std::size_t axis = 0; axis < result_->extents().rank(); ++axis) shape.push_back(result_->extent(axis));
    return shape;
  }
  void take(Address to) const { copy(result_->values(), write(to, result_->size())); }

  /// dx (0: nobody needs it) and the gradients of the parameters, in their order.
  void backward(Precision& precision, Address dy, Address dx, const std::vector<Address>& gradients, bool training) {
    const nb::gil_scoped_release released;
    dy_.resize(result_->extents());
    copy(read(dy, dy_.size()), dy_.values());
    if (!dx) module_->without_input_gradient();
    Pass<float> pass = precision.pass(training);
    const Floats& by_input = module_->backward(pass, dy_);
    if (dx) copy(by_input.values(), write(dx, by_input.size()));
    const auto all = module_->parameters();
    for (std::size_t i = 0; i < all.size(); ++i)
      copy(all[i]->gradient.values(), write(gradients.at(i), all[i]->gradient.size()));
  }

  /// Running means and the like, which a forward pass in training changes.
  void state(const std::vector<Address>& arrays, bool into_the_layer) {
    const auto all = module_->states();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::span<float> own = all[i]->value.values(), other = write(arrays.at(i), own.size());
      if (into_the_layer) copy(other, own);
      else copy(own, other);
    }
  }

 private:
  static Extents extents_of(const std::vector<std::size_t>& extents) {
    if (extents.empty() || extents.size() > 4) throw std::invalid_argument("x: accepted: one to four axes");
    Extents e;
    for (const std::size_t n : extents) e = e.appended(n);
    return e;
  }

  std::string name_;
  std::unique_ptr<Module<float>> module_;
  Floats x_, dy_;
  const Floats* result_ = nullptr;
};

/// The loss of training/, likewise.
class Loss {
 public:
  explicit Loss(const std::string& name) : loss_(name) {}
  float forward(Precision& precision, std::size_t rows, std::size_t classes, Address logits,
                const std::vector<int>& labels) {
    const nb::gil_scoped_release released;
    logits_.resize({rows, classes});
    copy(read(logits, logits_.size()), logits_.values());
    Pass<float> pass = precision.pass(true);
    return loss_.forward(pass, logits_, labels);
  }
  void backward(Precision& precision, float scale, Address to) {
    const nb::gil_scoped_release released;
    Pass<float> pass = precision.pass(true);
    const Floats& gradient = loss_.backward(pass, scale);
    copy(gradient.values(), write(to, gradient.size()));
  }

 private:
  CrossEntropy<float> loss_;
  Floats logits_;
};

OptimizerSettings settings_of(const std::string& kind, const std::map<std::string, double>& options) {
  LayerOptions all(kind, options);
  OptimizerSettings s;
  s.kind = parse_optimizer(kind);
  s.lr = all.number("lr", s.kind == OptimizerKind::sgd ? 1e-2 : s.lr);
  s.momentum = all.number("momentum", s.momentum), s.nesterov = all.number("nesterov", 0) != 0;
  s.beta1 = all.number("beta1", s.beta1), s.beta2 = all.number("beta2", s.beta2), s.eps = all.number("eps", s.eps);
  s.weight_decay = all.number("weight_decay", s.kind == OptimizerKind::adamw ? 1e-2 : 0);
  all.finish();
  return s;
}

/// The trainer's optimizer and loss scaler under a policy, for parameters whose memory somebody else owns.
class Updates {
 public:
  using Described = std::tuple<std::string, std::size_t, Address>;  ///< name, elements, values

  Updates(const Precision& precision, const std::string& kind, const std::map<std::string, double>& options,
          const std::vector<Described>& parameters) {
    for (const auto& [name, size, address] : parameters) {
      owned_.push_back(std::make_unique<TrainedParameter<float>>(name, ParameterKind::weight, Extents{size}));
      copy(read(address, size), owned_.back()->value.values());
      addresses_.push_back(address);
    }
    std::vector<TrainedParameter<float>*> pointers;
    for (const auto& p : owned_) pointers.push_back(p.get());
    optimizer_ = std::make_unique<Optimizer>(pointers, settings_of(kind, options), precision.policy.update,
                                             precision.seed);
    if (precision.policy.loss_scaling) scaler_.emplace(*precision.policy.loss_scaling);
    give_back();
  }

  /// What the gradient of the loss begins with. Call it once before each step().
  float factor(float loss) {
    if (!scaler_) return 1;
    scaler_->scale(loss);
    return scaler_->factor();
  }
  double scale() const { return scaler_ ? scaler_->current() : 1; }

  /// One step by gradients of scaled losses (0: none); whether it was taken. Gradients are unscaled in place.
  bool step(double lr, const std::vector<Address>& gradients) {
    const nb::gil_scoped_release released;
    std::vector<std::span<float>> given;
    for (std::size_t i = 0; i < owned_.size(); ++i) {
      TrainedParameter<float>& p = *owned_[i];
      copy(read(addresses_[i], p.value.size()), p.value.values());
      p.has_gradient = gradients.at(i) != 0;
      if (!p.has_gradient) continue;
      copy(read(gradients[i], p.value.size()), p.gradient.values());
      given.push_back(p.gradient.values());
    }
    optimizer_->set_lr(lr);
    bool taken = true;
    if (scaler_) {
      scaler_->unscale(0, given);
      taken = scaler_->step(0, given, [&] { optimizer_->step(); });
      scaler_->update();
    } else {
      optimizer_->step();
    }
    for (std::size_t i = 0; i < owned_.size(); ++i)
      if (gradients[i]) copy(owned_[i]->gradient.values(), write(gradients[i], owned_[i]->value.size()));
    give_back();
    return taken;
  }

 private:
  void give_back() const {
    for (std::size_t i = 0; i < owned_.size(); ++i)
      copy(owned_[i]->value.values(), write(addresses_[i], owned_[i]->value.size()));
  }
  std::vector<std::unique_ptr<TrainedParameter<float>>> owned_;
  std::vector<Address> addresses_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LossScaler> scaler_;
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

void add_training(nb::module_& m) {
  nb::class_<Precision>(m, "Precision", "A policy, its seed, and what it keeps from step to step.")
      .def(nb::init<const std::string&, std::uint64_t>(), nb::arg("policy"), nb::arg("seed"),
           "policy: a name, the path of a .json file, or JSON text.")
      .def_prop_ro("name", [](const Precision& p) { return p.policy.name; })
      .def_prop_ro(
          "policy", [](const Precision& p) { return p.policy.json.dump(); }, "As JSON.")
      .def(
          "begin_step",
          [](Precision& p, std::uint64_t step) {
            p.step = step;
            p.numerics.begin_step(step);
          },
          nb::arg("step"))
      .def("end_step", [](Precision& p) { p.numerics.end_step(); })
      .def("product", &Precision::product, nb::arg("operator"), nb::arg("name"), nb::arg("which"), nb::arg("count"),
           nb::arg("m"), nb::arg("n"), nb::arg("k"), nb::arg("a"), nb::arg("a_turned"), nb::arg("b"),
           nb::arg("b_turned"), nb::arg("bias"), nb::arg("d"),
           "d = a b + bias for an operator of that name, by addresses of float32; which: forward, to-input, to-weight.")
      .def(
          "cast",
          [](Precision& p, const std::string& kind, const std::string& name, const std::string& role, Address values,
             std::size_t count) {
            const Site site{kind_named(kind), name};
            const Role its = role_named(role);
            const nb::gil_scoped_release released;
            p.numerics.cast(site, its, write(values, count));
          },
          nb::arg("operator"), nb::arg("name"), nb::arg("role"), nb::arg("values"), nb::arg("count"),
          "Rounds a tensor in place for its role.")
      .def(
          "column_sums",
          [](Precision& p, const std::string& kind, const std::string& name, std::size_t rows, std::size_t columns,
             Address values, Address sums) {
            const Site site{kind_named(kind), name};
            const nb::gil_scoped_release released;
            p.numerics.column_sums(site, columns, read(values, rows * columns), write(sums, columns));
          },
          nb::arg("operator"), nb::arg("name"), nb::arg("rows"), nb::arg("columns"), nb::arg("values"), nb::arg("sums"))
      .def(
          "state", [](const Precision& p) { return p.numerics.state().dump(); }, "Delayed scales, as JSON.")
      .def(
          "restore", [](Precision& p, const std::string& state) { p.numerics.restore(Json::parse(state), "state"); },
          nb::arg("state"));
  nb::class_<Layer>(m, "Layer", "A layer of the trainer between a forward and its backward pass.")
      .def(nb::init<const std::string&, const std::string&, std::map<std::string, double>>(), nb::arg("operator"),
           nb::arg("name"), nb::arg("options"))
      .def("forward", &Layer::forward, nb::arg("precision"), nb::arg("extents"), nb::arg("x"), nb::arg("parameters"),
           nb::arg("training"))
      .def("take", &Layer::take, nb::arg("to"), "Copies the last result.")
      .def("backward", &Layer::backward, nb::arg("precision"), nb::arg("dy"), nb::arg("dx"), nb::arg("gradients"),
           nb::arg("training"))
      .def("state", &Layer::state, nb::arg("arrays"), nb::arg("into_the_layer"));
  m.def(
      "rotate",
      [](Address values, std::size_t sequences, std::size_t length, std::size_t width, double base, bool back) {
        const nb::gil_scoped_release released;
        Rotation<float> rotation;
        rotation.prepare(length, width, base);
        rotation.turn(write(values, sequences * length * width), back);
      },
      nb::arg("values"), nb::arg("sequences"), nb::arg("length"), nb::arg("width"), nb::arg("base"), nb::arg("back"),
      "Rotary positions in place, for sequences x length x width.");
  nb::class_<Updates>(m, "Updates", "The trainer's optimizer and loss scaler for parameters of others.")
      .def(nb::init<const Precision&, const std::string&, const std::map<std::string, double>&,
                    const std::vector<Updates::Described>&>(),
           nb::arg("precision"), nb::arg("kind"), nb::arg("options"), nb::arg("parameters"),
           "parameters: (name, elements, address of float32). They are rounded as the policy stores them.")
      .def("factor", &Updates::factor, nb::arg("loss"))
      .def_prop_ro("scale", &Updates::scale)
      .def("step", &Updates::step, nb::arg("lr"), nb::arg("gradients"));
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
  nb::class_<Loss>(m, "Loss", "Cross-entropy with class labels, as the trainer computes it.")
      .def(nb::init<const std::string&>(), nb::arg("name"))
      .def("forward", &Loss::forward, nb::arg("precision"), nb::arg("rows"), nb::arg("classes"), nb::arg("logits"),
           nb::arg("labels"))
      .def("backward", &Loss::backward, nb::arg("precision"), nb::arg("scale"), nb::arg("to"));
}

}  // namespace halfulp::python
