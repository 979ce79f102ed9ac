// Networks by name: parameters, gradients of the whole network, initial values, and training with the same bits
// everywhere.
#include "gradients.hpp"

#include <halfulp/emulation/random.hpp>
#include <halfulp/training/layers/losses.hpp>
#include <halfulp/training/networks.hpp>

#include <tbb/global_control.h>

#include <bit>
#include <cmath>
#include <set>

namespace networks_test {

using namespace check;

TEST(Networks, HaveTheirParameters) {
  EXPECT_EQ(parameter_count(*make_network<float>("mlp")), 784u * 256 + 256 + 256 * 10 + 10);
  EXPECT_EQ(parameter_count(*make_network<float>("cnn")), 16u * 9 + 16 + 32 * 16 * 9 + 32 + 32 * 7 * 7 * 10 + 10);
  constexpr std::size_t block = 2 * 64 + 64 * 192 + 192 + 64 * 64 + 64 + 2 * 64 + 64 * 256 + 256 + 256 * 64 + 64;
  EXPECT_EQ(parameter_count(*make_network<float>("transformer")), 96 * 64 + 2 * block + 2 * 64 + 64 * 96 + 96);
  EXPECT_EQ(parameter_count(*make_network<float>("lstm")), 96u * 64 + 512 * 64 + 512 * 128 + 2 * 512 + 128 * 96 + 96);
  NetworkOptions deep;
  deep.width = 8;
  deep.depth = 3;
  EXPECT_EQ(parameter_count(*make_network<double>("mlp", deep)), 784u * 8 + 8 + 2 * (64 + 8) + 80 + 10);
  EXPECT_THROW(make_network<float>("mpl"), std::invalid_argument);
  deep.width = 1;
  EXPECT_THROW(make_network<float>("lstm", deep), std::invalid_argument) << "nothing would be embedded";
  std::set<std::string> names;
  for (const NetworkInfo& info : networks()) {
    const auto net = make_network<float>(info.name);
    for (const TrainedParameter<float>* const p : net->parameters())
      EXPECT_TRUE(names.insert(std::string(info.name) + p->name).second) << info.name << ' ' << p->name;
  }
}

TEST(Gradients, WholeNetworks) {
  NetworkOptions small;
  small.width = 4;
  small.heads = 2;
  small.depth = 1;
  small.dropout = 0.25;
  for (const NetworkInfo& info : networks()) {
    const bool characters = info.name == "transformer" || info.name == "lstm";
    small.inputs = info.name == "cnn" ? 8 : info.name == "mlp" ? 64 : 7;
    small.norm = Norm::rms;
    const auto net = make_network<double>(info.name, small);
    Tensor<double> x = characters ? Tensor<double>({2, 3}, {0, 6, 2, 3, 3, 0}) : random_tensor<double>({2, 64}, 1);
    SCOPED_TRACE(info.name);
    expect_gradients(*net, x, false);
  }
}

TEST(Initialisation, HasItsMoments) {
  // A weight of 300 x 200: fan_in 200, fan_out 300. Deviations are within 2 %, which is more than five of their
  // standard deviations.
  const auto deviation = [](InitialisationChoice choice) {
    TrainedParameter<float> p("fc.weight", ParameterKind::weight, {300, 200}, uniform_width(200));
    initialise(p, choice, 1);
    double squares = 0, largest = 0;
    for (const float v : p.value.values()) {
      squares += double{v} * v;
      largest = std::max(largest, std::fabs(double{v}));
    }
    return std::pair{std::sqrt(squares / 60000), largest};
  };
  const auto uniform = [&](InitialisationChoice choice, double width) {
    const auto [sigma, largest] = deviation(choice);
    EXPECT_NEAR(sigma / (width / std::sqrt(3)), 1, 0.02) << name_of(choice.kind);
    EXPECT_LE(largest, width * (1 + 0x1p-24)) << name_of(choice.kind);
    EXPECT_GT(largest, 0.999 * width) << name_of(choice.kind);
  };
  const auto normal = [&](InitialisationChoice choice, double want) {
    const auto [sigma, largest] = deviation(choice);
    EXPECT_NEAR(sigma / want, 1, 0.02) << name_of(choice.kind);
    EXPECT_GT(largest, 3.5 * want) << name_of(choice.kind);
  };
  uniform({Initialisation::default_}, 1 / std::sqrt(200));
  uniform({Initialisation::uniform}, 0.05);
  uniform({Initialisation::uniform, 0.25}, 0.25);
  uniform({Initialisation::xavier_uniform}, std::sqrt(6.0 / 500));
  uniform({Initialisation::he_uniform}, std::sqrt(6.0 / 200));
  normal({Initialisation::gaussian}, 0.02);
  normal({Initialisation::xavier_normal}, std::sqrt(2.0 / 500));
  normal({Initialisation::he_normal, 0.5}, 0.5 * std::sqrt(2.0 / 200));
  EXPECT_EQ(deviation({Initialisation::zeros}).second, 0);
  EXPECT_EQ(fans_of({32, 16, 3, 3}).in, 144);
  EXPECT_EQ(fans_of({32, 16, 3, 3}).out, 288);
  for (std::size_t i = 0; i < initialisations.size(); ++i)
    EXPECT_EQ(parse_initialisation(initialisations[i].name), static_cast<Initialisation>(i));
  EXPECT_THROW(parse_initialisation("xavier"), std::invalid_argument);
}

TEST(Initialisation, KnowsBiasesGainsAndNames) {
  const auto net = make_network<float>("transformer");
  for (const Initialisation kind : {Initialisation::default_, Initialisation::he_normal}) {
    initialise(*net, {kind}, 5);
    for (const TrainedParameter<float>* const p : net->parameters()) {
      const bool random = p->value[0] != 0 && p->value[0] != p->value[1];
      const bool is_norm = p->name.find("norm") != std::string::npos;
      if (p->kind == ParameterKind::gain) EXPECT_EQ(p->value[0], 1) << p->name;
      else if (p->kind == ParameterKind::bias)
        EXPECT_EQ(random, kind == Initialisation::default_ && !is_norm) << p->name;
      else EXPECT_TRUE(random) << p->name;
    }
  }
  // A parameter's name, not its place, chooses its random numbers.
  TrainedParameter<float> a("a", ParameterKind::weight, {2, 2}), b("b", ParameterKind::weight, {2, 2}),
      c("a", ParameterKind::weight, {3, 2});
  for (TrainedParameter<float>* const p : {&a, &b, &c}) initialise(*p, {Initialisation::gaussian}, 1);
  EXPECT_NE(a.value[0], b.value[0]);
  EXPECT_EQ(a.value[0], c.value[0]);
}

/// Learnable data: noisy images of ten classes; characters, each followed by one that depends on it.
void draw(std::string_view network, std::uint64_t step, Tensor<float>& x, std::vector<int>& labels) {
  if (network == "mlp" || network == "cnn") {
    x.resize({32, 784});
    labels.resize(32);
    for (std::size_t i = 0; i < 32; ++i) {
      labels[i] = static_cast<int>(i % 10);
      for (std::size_t j = 0; j < 784; ++j)
        x.row(i)[j] = static_cast<float>(normal_sample(1, i % 10, j) + normal_sample(2, step * 32 + i, j));
    }
    return;
  }
  x.resize({8, 24});
  labels.resize(8 * 24);
  for (std::size_t i = 0; i < 8; ++i) {
    auto character = static_cast<std::size_t>(random_word(3, step, i) % 96);
    for (std::size_t t = 0; t < 24; ++t) {
      x.row(i)[t] = static_cast<float>(character);
      character = (character * 5 + 7) % 96 % 12;
      labels[i * 24 + t] = static_cast<int>(character);
    }
  }
}

struct Trained {
  std::vector<float> losses;
  std::uint64_t digest;  ///< of the bits of losses and parameters
};

/// Plain SGD in fp32.
Trained train(const std::string& name, int threads, int steps, float rate) {
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  Fp32Numerics numerics;
  Pass<float> pass{numerics, true, 9};
  NetworkOptions options;
  options.dropout = 0.1;
  options.width = name == "cnn" ? 4 : 0;
  const auto net = make_network<float>(name, options);
  initialise(*net, {Initialisation::xavier_uniform}, 1);
  CrossEntropy<float> loss;
  Tensor<float> x;
  std::vector<int> labels;
  Trained run{{}, stream_of("")};
  const auto add = [&](float v) { run.digest = (run.digest ^ std::bit_cast<std::uint32_t>(v)) * 0x100'0000'01b3; };
  for (; pass.step < static_cast<std::uint64_t>(steps); ++pass.step) {
    draw(name, pass.step, x, labels);
    for (TrainedParameter<float>* const p : net->parameters()) p->forget_gradient();
    run.losses.push_back(loss.forward(pass, net->forward(pass, x), labels));
    add(run.losses.back());
    net->backward(pass, loss.backward(pass));
    for (TrainedParameter<float>* const p : net->parameters())
      for (std::size_t i = 0; i < p->value.size(); ++i) p->value[i] -= rate * p->gradient[i];
  }
  for (TrainedParameter<float>* const p : net->parameters())
    for (const float v : p->value.values()) add(v);
  return run;
}

struct Case {
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
  const char* name;
  float rate;
  std::uint64_t digest;  ///< the same for gcc and clang, with vectors of any width
};

class Training : public testing::TestWithParam<Case> {};

TEST_P(Training, LearnsTheSameBitsEverywhere) {
  const auto [name, rate, digest] = GetParam();
  const Trained one = train(name, 1, 12, rate), two = train(name, 2, 12, rate);
  EXPECT_LT(one.losses.back(), 0.7f * one.losses.front()) << one.losses.front() << " to " << one.losses.back();
  EXPECT_EQ(one.digest, two.digest);
  EXPECT_EQ(one.digest, digest) << std::hex << one.digest;
}

INSTANTIATE_TEST_SUITE_P(Networks, Training,
                         testing::Values(Case{"mlp", 0.02f, 0xfa18'5475'c93a'cca7},
                                         Case{"cnn", 0.05f, 0x388f'fc7e'd228'6188},
                                         Case{"transformer", 0.2f, 0x742f'a3b7'fa12'9d54},
                                         Case{"lstm", 1.0f, 0x8088'9451'19a0'a8d2}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace networks_test
