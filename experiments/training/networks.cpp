#include <halfulp/experiments/training/networks.hpp>

#include <halfulp/experiments/training/layers/linear.hpp>
#include <halfulp/experiments/training/layers/relu.hpp>
#include <halfulp/experiments/training/layers/sequential.hpp>
#include <halfulp/formats/nearest.hpp>

namespace halfulp::training {
namespace {

std::string numbered(const char* what, std::size_t i) { return what + std::to_string(i + 1); }

template <class T>
std::unique_ptr<Module<T>> make_mlp(const NetworkOptions& o) {
  auto net = std::make_unique<Sequential<T>>("mlp");
  std::size_t inputs = o.inputs;
  for (std::size_t i = 0; i < o.depth; ++i) {
    net->template add<Linear<T>>(numbered("fc", i), inputs, o.width);
    net->template add<Relu<T>>(numbered("relu", i));
    inputs = o.width;
  }
  net->template add<Linear<T>>(numbered("fc", o.depth), inputs, o.outputs);
  return net;
}

}  // namespace

const std::vector<NetworkInfo>& networks() {
  static const std::vector<NetworkInfo> all{
      {"mlp", "a perceptron with one hidden layer of 256 rectified units, for images of 28 x 28", {784, 10, 256, 1, 0, 0}},
  };
  return all;
}

template <class T>
std::unique_ptr<Module<T>> make_network(std::string_view name, const NetworkOptions& options) {
  std::vector<std::string> names;
  for (const NetworkInfo& info : networks()) {
    names.emplace_back(info.name);
    if (info.name != name) continue;
    NetworkOptions o = info.defaults;
    if (options.inputs) o.inputs = options.inputs;
    if (options.outputs) o.outputs = options.outputs;
    if (options.width) o.width = options.width;
    if (options.depth) o.depth = options.depth;
    if (options.context) o.context = options.context;
    o.dropout = options.dropout;
    auto net = make_mlp<T>(o);
    net->without_input_gradient();
    return net;
  }
  throw std::invalid_argument(unknown_name("network", name, names));
}

template <class T>
std::size_t parameter_count(Module<T>& network) {
  std::size_t count = 0;
  for (const Parameter<T>* const p : network.parameters()) count += p->value.size();
  return count;
}

template std::unique_ptr<Module<float>> make_network(std::string_view, const NetworkOptions&);
template std::unique_ptr<Module<double>> make_network(std::string_view, const NetworkOptions&);
template std::size_t parameter_count(Module<float>&);
template std::size_t parameter_count(Module<double>&);

}  // namespace halfulp::training
