// Networks by name.
#pragma once

#include <halfulp/training/layers/sequences.hpp>
#include <halfulp/training/layers/containers.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::training {

enum class Norm : std::uint8_t { layer, rms };

/// Options of networks. Each network uses the options that name it; a zero stands for the network's own number.
struct NetworkOptions {
  std::size_t inputs = 0;   ///< mlp: numbers of an image; cnn: its height and width; else characters of the vocabulary
  std::size_t outputs = 0;  ///< classes; transformer and lstm have as many as characters
  std::size_t width = 0;    ///< hidden units, channels of the first convolution, width of the model
  std::size_t depth = 0;    ///< hidden layers of mlp, blocks of transformer
  std::size_t heads = 0;    ///< transformer
  double dropout = 0;  ///< after each hidden layer, before cnn's last, of the transformer's branches, of lstm's states
  Positions positions = Positions::rope;  ///< transformer
  Norm norm = Norm::layer;                ///< transformer
};

struct NetworkInfo {
  std::string_view name, summary;
  NetworkOptions defaults;
};
/// The names of all networks.
const std::vector<NetworkInfo>& networks();

/// A network by its name, with its own numbers:
///   mlp          batch x 784 to batch x 10: linear layers with ReLU between
///   cnn          batch x 784 (28 x 28) to batch x 10: two of (convolution 3 x 3, ReLU, maxima of 2 x 2) with 16 and 32
///                channels, and a linear layer
///   transformer  batch x length indices to batch x length x 96: an embedding of 64; two blocks of x +
///   attention(norm(x))
///                with 4 heads and x + linear(GELU(linear(norm(x)))) with 256 hidden units; a norm, a linear layer
///   lstm         batch x length indices to batch x length x 96: an embedding of 64, a cell of 128, a linear layer
/// Parameters are 0 until initialise().
/// Throws std::invalid_argument that names the nearest names.
template <class T>
std::unique_ptr<Sequential<T>> make_network(std::string_view name, const NetworkOptions& options = {});

/// How many numbers an optimizer changes.
template <class T>
std::size_t parameter_count(Module<T>& network);

extern template std::unique_ptr<Sequential<float>> make_network(std::string_view, const NetworkOptions&);
extern template std::unique_ptr<Sequential<double>> make_network(std::string_view, const NetworkOptions&);
extern template std::size_t parameter_count(Module<float>&);
extern template std::size_t parameter_count(Module<double>&);

}  // namespace halfulp::training
