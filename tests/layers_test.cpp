// Layers: gradients against finite differences, losses against closed forms, the same bits on any number of threads.
#include "gradients.hpp"

#include <halfulp/experiments/training/layers/cross_entropy.hpp>
#include <halfulp/experiments/training/layers/linear.hpp>
#include <halfulp/experiments/training/layers/relu.hpp>
#include <halfulp/experiments/training/layers/sequential.hpp>
#include <halfulp/experiments/training/layers/softmax.hpp>
#include <halfulp/experiments/training/networks.hpp>

#include <tbb/global_control.h>

#include <array>
#include <cstring>

using namespace check;

TEST(Gradients, Linear) {
  for (const auto& [rows, in, out] : {std::array{1u, 1u, 1u}, {3u, 5u, 4u}, {7u, 17u, 9u}, {16u, 8u, 33u}}) {
    Linear<double> layer("fc", in, out);
    expect_gradients(layer, random_tensor<double>({rows, in}, 1));
  }
  Linear<double> cube("fc", 5, 3, false);
  expect_gradients(cube, random_tensor<double>({2, 3, 5}, 1));
}

TEST(Gradients, Relu) {
  Relu<double> layer("relu");
  expect_gradients(layer, random_tensor<double>({5, 13}, 1));
}

TEST(Gradients, Softmax) {
  for (const Extents& shape : {Extents{1, 2}, {4, 17}, {2, 3, 40}}) {
    Softmax<double> layer("softmax");
    expect_gradients(layer, random_tensor<double>(shape, 1));
  }
}

TEST(Gradients, CrossEntropy) {
  for (const Extents& shape : {Extents{1, 2}, {6, 10}, {2, 3, 5}}) {
    ExactNumerics numerics;
    Pass<double> pass{numerics};
    Tensor<double> logits = random_tensor<double>(shape, 1, 2);
    std::vector<int> labels;
    for (std::size_t i = 0; i < logits.rows(); ++i) labels.push_back(static_cast<int>(i * 7 % logits.columns()));
    CrossEntropy<double> loss;
    loss.forward(pass, logits, labels);
    const Tensor<double> gradient = loss.backward(pass, 2);
    expect_gradient("logits", logits.values(), gradient.values(), [&] { return 2 * loss.forward(pass, logits, labels); });
  }
}

TEST(Losses, CrossEntropyIsTheMeanLogarithm) {
  ExactNumerics numerics;
  Pass<double> pass{numerics};
  CrossEntropy<double> loss;
  EXPECT_DOUBLE_EQ(loss.forward(pass, Tensor<double>({2, 10}), std::vector<int>{0, 9}), std::log(10));
  EXPECT_DOUBLE_EQ(loss.forward(pass, {{2, 2}, {0, std::log(3), 1000, 1000}}, std::vector<int>{0, 1}), (std::log(4) + std::log(2)) / 2);
  EXPECT_THROW(loss.forward(pass, Tensor<double>({2, 10}), std::vector<int>{0, 10}), std::invalid_argument);
  EXPECT_THROW(loss.forward(pass, Tensor<double>({2, 10}), std::vector<int>{0}), std::invalid_argument);
}

TEST(Networks, HaveTheirParameters) {
  EXPECT_EQ(parameter_count(*make_network<float>("mlp")), 784u * 256 + 256 + 256 * 10 + 10);
  EXPECT_THROW(make_network<float>("mpl"), std::invalid_argument);
}

/// Trains the perceptron on clusters by plain SGD; returns the losses and the final parameters.
std::vector<float> train_mlp(int threads, int steps) {
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  Fp32Numerics numerics;
  Pass<float> pass{numerics};
  const auto net = make_network<float>("mlp");
  initialise(*net, {Initialisation::he_normal}, 1);
  CrossEntropy<float> loss;
  Tensor<float> x({64, 784});
  std::vector<int> labels(64);
  std::vector<float> trace;
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < 64; ++i) {
      labels[i] = static_cast<int>(i % 10);
      for (std::size_t j = 0; j < 784; ++j)
        x.row(i)[j] = static_cast<float>(normal_sample(1, static_cast<std::uint64_t>(labels[i]), j) + normal_sample(2, static_cast<std::uint64_t>(step) * 64 + i, j));
    }
    for (Parameter<float>* const p : net->parameters()) p->forget_gradient();
    trace.push_back(loss.forward(pass, net->forward(pass, x), labels));
    net->backward(pass, loss.backward(pass));
    for (Parameter<float>* const p : net->parameters())
      for (std::size_t i = 0; i < p->value.size(); ++i) p->value[i] -= 0.01f * p->gradient[i];
  }
  for (Parameter<float>* const p : net->parameters())
    for (const float v : p->value.values()) trace.push_back(v);
  return trace;
}

TEST(Training, PerceptronLearnsTheSameBitsOnAnyThreads) {
  const std::vector<float> one = train_mlp(1, 20), two = train_mlp(2, 20);
  EXPECT_GT(one[0], 1.5f);
  EXPECT_LT(one[19], 0.2f * one[0]);
  ASSERT_EQ(one.size(), two.size());
  EXPECT_EQ(std::memcmp(one.data(), two.data(), one.size() * sizeof(float)), 0);
}
