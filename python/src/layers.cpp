// The layers of training/ on tensors of others. What a network computes with them has the bits of the trainer, because
// it is the trainer's code.
#include "precision.hpp"

#include <halfulp/training/layers/activations.hpp>
#include <halfulp/training/layers/images.hpp>
#include <halfulp/training/layers/linear.hpp>
#include <halfulp/training/layers/losses.hpp>
#include <halfulp/training/layers/norms.hpp>
#include <halfulp/training/layers/sequences.hpp>

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

namespace halfulp::python {
namespace {

using Floats = Tensor<float>;

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
                                   const std::vector<Memory>& parameters, bool training) {
    const nb::gil_scoped_release released;
    x_.resize(extents_of(extents));
    copy(read_at(x, x_.size()), x_.values());
    const auto all = module_->parameters();
    if (all.size() != parameters.size())
      throw std::invalid_argument(name_ + ": " + std::to_string(parameters.size()) +
                                  " parameters; accepted: " + std::to_string(all.size()));
    for (std::size_t i = 0; i < all.size(); ++i) {
      copy(memory_at(parameters[i], all[i]->value.size(), all[i]->name), all[i]->value.values());
      all[i]->forget_gradient();
    }
    Pass<float> pass = precision.pass(training);
    result_ = &module_->forward(pass, x_);
    std::vector<std::size_t> shape;
    for (std::size_t axis = 0; axis < result_->extents().rank(); ++axis) shape.push_back(result_->extent(axis));
    return shape;
  }
  void take(Address to) const { copy(result_->values(), write_at(to, result_->size())); }
  /// Copies the last cell states of an LSTM.
  void take_cells(Address to) const {
    const auto* lstm = dynamic_cast<const Lstm<float>*>(module_.get());
    if (!lstm) throw std::invalid_argument(name_ + " has no cells");
    copy(lstm->last_cells(), write_at(to, lstm->last_cells().size()));
  }

  /// dx (0: nobody needs it) and the gradients of the parameters, in their order.
  void backward(Precision& precision, Address dy, Address dx, const std::vector<Memory>& gradients, bool training) {
    const nb::gil_scoped_release released;
    dy_.resize(result_->extents());
    copy(read_at(dy, dy_.size()), dy_.values());
    if (!dx) module_->without_input_gradient();
    Pass<float> pass = precision.pass(training);
    const Floats& by_input = module_->backward(pass, dy_);
    if (dx) copy(by_input.values(), write_at(dx, by_input.size()));
    const auto all = module_->parameters();
    for (std::size_t i = 0; i < all.size(); ++i)
      copy(all[i]->gradient.values(), memory_at(gradients.at(i), all[i]->gradient.size(), all[i]->name));
  }

  /// Running means and the like, which a forward pass in training changes.
  void state(const std::vector<Memory>& arrays, bool into_the_layer) {
    const auto all = module_->states();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::span<float> own = all[i]->value.values(), other = memory_at(arrays.at(i), own.size(), all[i]->name);
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
    copy(read_at(logits, logits_.size()), logits_.values());
    Pass<float> pass = precision.pass(true);
    return loss_.forward(pass, logits_, labels);
  }
  void backward(Precision& precision, float scale, Address to) {
    const nb::gil_scoped_release released;
    Pass<float> pass = precision.pass(true);
    const Floats& gradient = loss_.backward(pass, scale);
    copy(gradient.values(), write_at(to, gradient.size()));
  }

 private:
  CrossEntropy<float> loss_;
  Floats logits_;
};

}  // namespace

void add_layers(nb::module_& m) {
  nb::class_<Layer>(m, "Layer", "A layer of the trainer between a forward and its backward pass.")
      .def(nb::init<const std::string&, const std::string&, std::map<std::string, double>>(), nb::arg("operator"),
           nb::arg("name"), nb::arg("options"))
      .def("forward", &Layer::forward, nb::arg("precision"), nb::arg("extents"), nb::arg("x"), nb::arg("parameters"),
           nb::arg("training"))
      .def("take", &Layer::take, nb::arg("to"), "Copies the last result.")
      .def("take_cells", &Layer::take_cells, nb::arg("to"), "Copies the last cell states of an LSTM.")
      .def("backward", &Layer::backward, nb::arg("precision"), nb::arg("dy"), nb::arg("dx"), nb::arg("gradients"),
           nb::arg("training"))
      .def("state", &Layer::state, nb::arg("arrays"), nb::arg("into_the_layer"));
  m.def(
      "rotate",
      [](Address values, std::size_t sequences, std::size_t length, std::size_t width, double base, bool back) {
        const nb::gil_scoped_release released;
        Rotation<float> rotation;
        rotation.prepare(length, width, base);
        rotation.turn(write_at(values, sequences * length * width), back);
      },
      nb::arg("values"), nb::arg("sequences"), nb::arg("length"), nb::arg("width"), nb::arg("base"), nb::arg("back"),
      "Rotary positions in place, for sequences x length x width.");
  nb::class_<Loss>(m, "Loss", "Cross-entropy with class labels, as the trainer computes it.")
      .def(nb::init<const std::string&>(), nb::arg("name"))
      .def("forward", &Loss::forward, nb::arg("precision"), nb::arg("rows"), nb::arg("classes"), nb::arg("logits"),
           nb::arg("labels"))
      .def("backward", &Loss::backward, nb::arg("precision"), nb::arg("scale"), nb::arg("to"));
}

}  // namespace halfulp::python
