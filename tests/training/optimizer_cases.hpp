// Parameters to optimize, and optimizers that differ in what they keep and round.
#pragma once

#include "check.hpp"

#include <halfulp/training/checkpoint.hpp>
#include <halfulp/training/optimizer.hpp>
#include <halfulp/formats/block_format.hpp>

#include <bit>
#include <cmath>

namespace optimizer_cases {

using namespace halfulp;
using namespace halfulp::training;
using check::bits;

inline Storage in(const FloatFormat& f, RoundingMode mode = RoundingMode::nearest_even) {
  Storage s;
  s.format = f;
  s.rounding.mode = mode;
  return s;
}
inline Storage in_blocks(const char* name) {
  Storage s;
  s.format = parse_block_format(name);
  return s;
}
inline float rounded(const FloatFormat& f, double x) { return static_cast<float>(f.value(encode(f, {}, x).code)); }

using Values = std::vector<float>;
inline Values values_of(std::span<const float> x) { return {x.begin(), x.end()}; }
/// Two parameters, with gradients that depend on the step.
struct Model {
  TrainedParameter<float> w, b;
  explicit Model(std::size_t rows = 7, std::size_t columns = 300)
      : w("fc.weight", ParameterKind::weight, {rows, columns}), b("fc.bias", ParameterKind::bias, {rows}) {
    check::Random random{5};
    for (TrainedParameter<float>* const p : all())
      for (float& v : p->value.values()) v = static_cast<float>(draw(random));
  }
  static double draw(check::Random& random) { return static_cast<double>(random() >> 11) * 0x1p-52 - 1; }
  std::vector<TrainedParameter<float>*> all() { return {&w, &b}; }
  void give_gradients(std::uint64_t step) {
    check::Random random{1000 + step};
    for (TrainedParameter<float>* const p : all()) {
      for (float& g : p->gradient.values()) {
        g = static_cast<float>(draw(random) * std::exp2(-static_cast<double>(random() % 30)));
        if (random() % 16 == 0) g = 0;
      }
      p->has_gradient = true;
    }
  }
  void train(Optimizer& optimizer, std::uint64_t from, std::uint64_t to, std::vector<UpdateReport>* reports = nullptr) {
    for (std::uint64_t step = from; step < to; ++step) {
      give_gradients(step);
      optimizer.step(reports);
    }
  }
};

struct Way {
  const char* name;
  OptimizerSettings settings;
  UpdatePrecision precision;
};
inline std::vector<Way> ways() {
  const OptimizerSettings adam{.lr = 1e-2}, adamw{.kind = OptimizerKind::adamw, .lr = 1e-2, .weight_decay = 0.1};
  const OptimizerSettings sgd{.kind = OptimizerKind::sgd, .lr = 0.1};
  const OptimizerSettings momentum{.kind = OptimizerKind::sgd, .lr = 0.1, .momentum = 0.9, .nesterov = true};
  UpdatePrecision pure;
  pure.weights = pure.first = pure.second = in(bf16);
  pure.arithmetic = Stage{bf16};
  UpdatePrecision stochastic = pure;
  stochastic.weights = stochastic.first = in(bf16, RoundingMode::stochastic);
  stochastic.arithmetic->rounding.mode = RoundingMode::stochastic;
  UpdatePrecision eight_bits{.weights = in(bf16), .master_weights = true};
  eight_bits.first = eight_bits.second = in_blocks("e4m3/1x256/fp32");
  return {{"fp32", adam, {}},
          {"sgd", sgd, {.weights = in(bf16)}},
          {"momentum", momentum, {.weights = in(fp16)}},
          {"pure", adamw, pure},
          {"stochastic", adamw, stochastic},
          {"8 bits", adam, eight_bits},
          {"kahan", adamw, {.weights = in(bf16), .kahan = true}},
          {"blocks", adam, {.weights = in_blocks("mxfp8e4m3")}},
          {"master", momentum, {.weights = in(fp16), .master_weights = true, .first = in(bf16)}}};
}

}  // namespace optimizer_cases
