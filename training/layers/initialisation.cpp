#include <halfulp/training/layers/initialisation.hpp>

#include <halfulp/data/distributions.hpp>
#include <halfulp/support/spelling.hpp>

#include <cmath>
#include <stdexcept>

namespace halfulp::training {
namespace {

/// The shape of a distribution: normal with this deviation, uniform within it, or one value.
struct Law {
  enum { normal, uniform, constant } kind;
  double size;
};

template <class T>
Law law_of(const TrainedParameter<T>& p, const InitialisationChoice& choice) {
  const Fans fans = fans_of(p.value.extents());
  const double gain = choice.scale > 0 ? choice.scale : 1;
  switch (choice.kind) {
    case Initialisation::default_:
      if (p.kind == ParameterKind::table) return {Law::normal, gain};
      return p.kind == ParameterKind::gain ? Law{Law::constant, 1} : Law{Law::uniform, gain * p.default_width};
    case Initialisation::gaussian: return {Law::normal, choice.scale > 0 ? choice.scale : 0.02};
    case Initialisation::uniform: return {Law::uniform, choice.scale > 0 ? choice.scale : 0.05};
    case Initialisation::xavier_uniform: return {Law::uniform, gain * std::sqrt(6 / (fans.in + fans.out))};
    case Initialisation::xavier_normal: return {Law::normal, gain * std::sqrt(2 / (fans.in + fans.out))};
    case Initialisation::he_uniform: return {Law::uniform, gain * std::sqrt(6 / fans.in)};
    case Initialisation::he_normal: return {Law::normal, gain * std::sqrt(2 / fans.in)};
    case Initialisation::zeros: return {Law::constant, 0};
    case Initialisation::ones: return {Law::constant, 1};
  }
  throw std::logic_error("initialise: unknown initialisation");
}

}  // namespace

Initialisation parse_initialisation(std::string_view name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < initialisations.size(); ++i) {
    if (initialisations[i].name == name) return static_cast<Initialisation>(i);
    names.emplace_back(initialisations[i].name);
  }
  throw std::invalid_argument(unknown_name("initialisation", name, names));
}

Fans fans_of(const Extents& weight) {
  double field = 1;
  for (std::size_t axis = 2; axis < weight.rank(); ++axis) field *= static_cast<double>(weight[axis]);
  return {static_cast<double>(weight.rank() > 1 ? weight[1] : weight[0]) * field,
          static_cast<double>(weight[0]) * field};
}

template <class T>
void initialise(TrainedParameter<T>& p, const InitialisationChoice& choice, std::uint64_t seed) {
  const Law law = law_of(p, choice);
  const std::uint64_t stream = stream_of(p.name);
  for (std::size_t i = 0; i < p.value.size(); ++i) {
    double x = law.size;
    if (law.kind == Law::normal) x *= normal_sample(seed, stream, i);
    if (law.kind == Law::uniform) x *= 2 * uniform_sample(seed, stream, i) - 1;
    p.value[i] = static_cast<T>(x);
  }
  p.forget_gradient();
}

template <class T>
void initialise(Module<T>& network, const InitialisationChoice& choice, std::uint64_t seed) {
  for (TrainedParameter<T>* const p : network.parameters()) {
    const bool chosen = p->kind == ParameterKind::weight || p->kind == ParameterKind::table ||
                        choice.kind == Initialisation::default_;
    const InitialisationChoice constant{p->kind == ParameterKind::gain ? Initialisation::ones : Initialisation::zeros,
                                        0};
    initialise(*p, chosen ? choice : constant, seed);
  }
}

template void initialise(TrainedParameter<float>&, const InitialisationChoice&, std::uint64_t);
template void initialise(TrainedParameter<double>&, const InitialisationChoice&, std::uint64_t);
template void initialise(Module<float>&, const InitialisationChoice&, std::uint64_t);
template void initialise(Module<double>&, const InitialisationChoice&, std::uint64_t);

}  // namespace halfulp::training
