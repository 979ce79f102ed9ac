// Networks by name.
#pragma once

#include <halfulp/experiments/training/module.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::training {

/// What a network is told beside its name. Only what its builder names matters; zeros take the network's own numbers.
struct NetworkOptions {
  std::size_t inputs = 0;      ///< mlp: pixels; transformer and lstm: characters of the vocabulary
  std::size_t outputs = 0;     ///< classes; transformer and lstm: as many as inputs
  std::size_t width = 0;       ///< hidden units, channels of the first convolution, width of the model
  std::size_t depth = 0;       ///< hidden layers, blocks
  std::size_t context = 0;     ///< transformer, lstm: characters that are seen at once
  double dropout = 0;
};

struct NetworkInfo {
  std::string_view name, summary;
  NetworkOptions defaults;
};
/// The networks that are known.
const std::vector<NetworkInfo>& networks();

/// A network by its name: mlp takes batch x 784 to batch x 10. Parameters are 0 until initialise().
/// Throws std::invalid_argument that names the nearest names.
template <class T>
std::unique_ptr<Module<T>> make_network(std::string_view name, const NetworkOptions& options = {});

/// Numbers that an optimizer changes.
template <class T>
std::size_t parameter_count(Module<T>& network);

extern template std::unique_ptr<Module<float>> make_network(std::string_view, const NetworkOptions&);
extern template std::unique_ptr<Module<double>> make_network(std::string_view, const NetworkOptions&);
extern template std::size_t parameter_count(Module<float>&);
extern template std::size_t parameter_count(Module<double>&);

}  // namespace halfulp::training
