#include <halfulp/training/networks.hpp>

#include <halfulp/training/layers/sequences.hpp>
#include <halfulp/training/layers/images.hpp>
#include <halfulp/training/layers/activations.hpp>
#include <halfulp/training/layers/linear.hpp>
#include <halfulp/training/layers/norms.hpp>
#include <halfulp/training/layers/containers.hpp>
#include <halfulp/support/spelling.hpp>

namespace halfulp::training {
namespace {

std::string numbered(const char* what, std::size_t i) { return what + std::to_string(i + 1); }

/// Adds dropout only if it does something: policies and traces then meet no idle operator.
template <class T>
void add_dropout(Sequential<T>& net, const std::string& name, const NetworkOptions& o) {
  if (o.dropout != 0) net.template add<Dropout<T>>(name, o.dropout);
}

template <class T>
void add_norm(Sequential<T>& net, const std::string& name, const NetworkOptions& o) {
  if (o.norm == Norm::layer) net.template add<LayerNorm<T>>(name, o.width);
  else net.template add<RmsNorm<T>>(name, o.width);
}

template <class T>
void build_mlp(Sequential<T>& net, const NetworkOptions& o) {
  std::size_t inputs = o.inputs;
  for (std::size_t i = 0; i < o.depth; ++i) {
    net.template add<Linear<T>>(numbered("fc", i), inputs, o.width);
    net.template add<Relu<T>>(numbered("relu", i));
    add_dropout(net, numbered("dropout", i), o);
    inputs = o.width;
  }
  net.template add<Linear<T>>(numbered("fc", o.depth), inputs, o.outputs);
}

template <class T>
void build_cnn(Sequential<T>& net, const NetworkOptions& o) {
  std::size_t channels = 1, size = o.inputs;
  net.template add<Reshape<T>>("image", Extents{1, size, size});
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t more = o.width << i;
    net.template add<Conv2d<T>>(numbered("conv", i), Conv2dShape{channels, more, 3, 1, 1});
    net.template add<Relu<T>>(numbered("relu", i));
    net.template add<Pool2d<T>>(numbered("pool", i), Pooling::maximum, std::size_t{2});
    channels = more;
    size /= 2;
  }
  net.template add<Reshape<T>>("flatten");
  add_dropout(net, "dropout", o);
  net.template add<Linear<T>>("fc", channels * size * size, o.outputs);
}

template <class T>
void build_transformer(Sequential<T>& net, const NetworkOptions& o) {
  net.template add<Embedding<T>>("embedding", o.inputs, o.width);
  for (std::size_t i = 0; i < o.depth; ++i) {
    const std::string block = numbered("block", i);
    Sequential<T>& attention = net.template add<Residual<T>>(block + ".add1").inside();
    add_norm(attention, block + ".norm1", o);
    attention.template add<Attention<T>>(block + ".attention", AttentionShape{o.width, o.heads, o.positions});
    add_dropout(attention, block + ".dropout1", o);
    Sequential<T>& wide = net.template add<Residual<T>>(block + ".add2").inside();
    add_norm(wide, block + ".norm2", o);
    wide.template add<Linear<T>>(block + ".fc1", o.width, 4 * o.width);
    wide.template add<Gelu<T>>(block + ".gelu");
    wide.template add<Linear<T>>(block + ".fc2", 4 * o.width, o.width);
    add_dropout(wide, block + ".dropout2", o);
  }
  add_norm(net, "norm", o);
  net.template add<Linear<T>>("head", o.width, o.outputs);
}

template <class T>
void build_lstm(Sequential<T>& net, const NetworkOptions& o) {
  if (o.width < 2)
    throw std::invalid_argument("width is 1; accepted: at least 2, because lstm embeds characters in half its width");
  net.template add<Embedding<T>>("embedding", o.inputs, o.width / 2);
  net.template add<Lstm<T>>("lstm", o.width / 2, o.width);
  add_dropout(net, "dropout", o);
  net.template add<Linear<T>>("head", o.width, o.outputs);
}

using Builder = void (*)(Sequential<float>&, const NetworkOptions&);
using ExactBuilder = void (*)(Sequential<double>&, const NetworkOptions&);
struct Row {
  NetworkInfo info;
  Builder build;
  ExactBuilder build_exact;
};

NetworkOptions numbers(std::size_t inputs, std::size_t outputs, std::size_t width, std::size_t depth = 0,
                       std::size_t heads = 0) {
  NetworkOptions o;
  o.inputs = inputs, o.outputs = outputs, o.width = width, o.depth = depth, o.heads = heads;
  return o;
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all{
      {{"mlp", "perceptron for images of 28 x 28: one hidden layer of 256 rectified units", numbers(784, 10, 256, 1)},
       build_mlp<float>,
       build_mlp<double>},
      {{"cnn", "two convolutions of 16 and 32 channels for images of 28 x 28, maxima between, a linear layer",
        numbers(28, 10, 16)},
       build_cnn<float>,
       build_cnn<double>},
      {{"transformer", "two blocks of causal attention over characters, width 64, four heads, rotary positions",
        numbers(96, 0, 64, 2, 4)},
       build_transformer<float>,
       build_transformer<double>},
      {{"lstm", "an LSTM cell of 128 over characters", numbers(96, 0, 128)}, build_lstm<float>, build_lstm<double>},
  };
  return all;
}

}  // namespace

const std::vector<NetworkInfo>& networks() {
  static const std::vector<NetworkInfo> all = [] {
    std::vector<NetworkInfo> infos;
    for (const Row& row : rows()) infos.push_back(row.info);
    return infos;
  }();
  return all;
}

template <class T>
std::unique_ptr<Sequential<T>> make_network(std::string_view name, const NetworkOptions& options) {
  std::vector<std::string> names;
  for (const Row& row : rows()) {
    names.emplace_back(row.info.name);
    if (row.info.name != name) continue;
    NetworkOptions o = options;
    const NetworkOptions& own = row.info.defaults;
    for (std::size_t NetworkOptions::* const number :
         {&NetworkOptions::inputs, &NetworkOptions::outputs, &NetworkOptions::width, &NetworkOptions::depth,
          &NetworkOptions::heads})
      if (o.*number == 0) o.*number = own.*number;
    if (o.outputs == 0) o.outputs = o.inputs;
    auto net = std::make_unique<Sequential<T>>(std::string(name));
    if constexpr (std::is_same_v<T, float>) row.build(*net, o);
    else row.build_exact(*net, o);
    net->without_input_gradient();
    return net;
  }
  throw std::invalid_argument(unknown_name("network", name, names));
}

template <class T>
std::size_t parameter_count(Module<T>& network) {
  std::size_t count = 0;
  for (const TrainedParameter<T>* const p : network.parameters()) count += p->value.size();
  return count;
}

template std::unique_ptr<Sequential<float>> make_network(std::string_view, const NetworkOptions&);
template std::unique_ptr<Sequential<double>> make_network(std::string_view, const NetworkOptions&);
template std::size_t parameter_count(Module<float>&);
template std::size_t parameter_count(Module<double>&);

}  // namespace halfulp::training
