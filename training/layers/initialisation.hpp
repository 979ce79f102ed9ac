// Random numbers by name: each name has its own stream of the counter-based generator.
#pragma once

#include <halfulp/training/layers/module.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace halfulp::training {

/// The stream of a name, or of one of its steps: the 64-bit FNV-1a hash (Fowler, Noll, Vo) of the name and the step's
/// eight bytes.
constexpr std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3;
  return hash;
}
constexpr std::uint64_t stream_of(std::string_view name, std::uint64_t step) {
  std::uint64_t hash = stream_of(name);
  for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (step >> 8 * byte & 0xff)) * 0x100'0000'01b3;
  return hash;
}

// Initial values of parameters. They depend only on the seed and the parameter's name.

/// Names as `--set init=` takes them. Formulas as in torch.nn.init, with gain g:
/// xavier (Glorot & Bengio 2010): variance g^2 2 / (fan_in + fan_out); he (He et al. 2015): variance g^2 / fan_in.
enum class Initialisation : std::uint8_t {
  default_,
  gaussian,
  uniform,
  xavier_uniform,
  xavier_normal,
  he_uniform,
  he_normal,
  zeros,
  ones
};

struct InitialisationInfo {
  std::string_view name, summary;
};
// clang-format off
inline constexpr std::array<InitialisationInfo, 9> initialisations{{
  {"default",        "what the layer has in PyTorch: uniform within 1 / sqrt(fan_in), embeddings normal"},
  {"gaussian",       "normal with standard deviation scale (0.02)"},
  {"uniform",        "uniform within scale (0.05)"},
  {"xavier-uniform", "uniform within sqrt(6 / (fan_in + fan_out))"},
  {"xavier-normal",  "normal with variance 2 / (fan_in + fan_out)"},
  {"he-uniform",     "uniform within sqrt(6 / fan_in)"},
  {"he-normal",      "normal with variance 2 / fan_in"},
  {"zeros",          "0"},
  {"ones",           "1"},
}};
// clang-format on
constexpr std::string_view name_of(Initialisation i) { return initialisations[static_cast<std::size_t>(i)].name; }
/// Throws std::invalid_argument that suggests the nearest names.
Initialisation parse_initialisation(std::string_view name);

/// Fan in and fan out of a weight of outputs x inputs x receptive field.
struct Fans {
  double in = 1, out = 1;
};
Fans fans_of(const Extents& weight);

/// Standard deviation (gaussian), half-width (uniform), factor of xavier and he relative to the table; 0: the table's.
struct InitialisationChoice {
  Initialisation kind = Initialisation::default_;
  double scale = 0;
};

/// Fills one parameter of any kind by `choice`.
template <class T>
void initialise(TrainedParameter<T>& p, const InitialisationChoice& choice, std::uint64_t seed);

/// Fills every parameter of a network: weights and tables by `choice`; biases as PyTorch does with `default`, else with
/// 0; gains of norms with 1.
template <class T>
void initialise(Module<T>& network, const InitialisationChoice& choice, std::uint64_t seed);

extern template void initialise(TrainedParameter<float>&, const InitialisationChoice&, std::uint64_t);
extern template void initialise(TrainedParameter<double>&, const InitialisationChoice&, std::uint64_t);
extern template void initialise(Module<float>&, const InitialisationChoice&, std::uint64_t);
extern template void initialise(Module<double>&, const InitialisationChoice&, std::uint64_t);

}  // namespace halfulp::training
