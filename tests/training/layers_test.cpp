// Layers: gradients against finite differences, losses against closed forms.
#include "gradients.hpp"

#include <halfulp/training/layers/sequences.hpp>
#include <halfulp/training/layers/norms.hpp>
#include <halfulp/training/layers/losses.hpp>
#include <halfulp/training/layers/images.hpp>
#include <halfulp/training/layers/activations.hpp>
#include <halfulp/training/layers/linear.hpp>
#include <halfulp/training/layers/containers.hpp>

#include <array>
#include <tuple>

namespace layers_test {

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

TEST(Gradients, Gelu) {
  for (const GeluForm form : {GeluForm::erf, GeluForm::tanh}) {
    Gelu<double> layer("gelu", form);
    expect_gradients(layer, random_tensor<double>({4, 25}, 1, 3));
  }
}

TEST(Gradients, Embedding) {
  Embedding<double> layer("embedding", 5, 3);
  expect_gradients(layer, {{2, 4}, {0, 4, 1, 1, 1, 3, 0, 1}}, false);
  ExactNumerics numerics;
  Pass<double> pass{numerics};
  EXPECT_THROW(layer.forward(pass, {{1}, {5}}), std::invalid_argument);
  EXPECT_THROW(layer.forward(pass, {{1}, {0.5}}), std::invalid_argument);
}

TEST(Gradients, Norms) {
  for (const Extents& shape : {Extents{1, 2}, {3, 17}, {2, 3, 40}}) {
    LayerNorm<double> layer("norm", shape.columns());
    expect_gradients(layer, random_tensor<double>(shape, 1, 2));
    RmsNorm<double> rms("rms", shape.columns());
    expect_gradients(rms, random_tensor<double>(shape, 1, 2));
  }
}

TEST(Gradients, BatchNorm) {
  for (const Extents& shape : {Extents{5, 3}, {2, 3, 4, 5}, {1, 2, 5, 7}})
    for (const bool training : {true, false}) {
      BatchNorm<double> layer("norm", shape[1], 1e-5,
                              0);  // running means stay, so every call is the same function
      for (ModuleState<double>* const s : layer.states())
        for (double& v : s->value.values()) v += 0.25;
      expect_gradients(layer, random_tensor<double>(shape, 1, 2), true, training);
    }
}

TEST(Gradients, Conv2d) {
  for (const Conv2dShape& shape :
       {Conv2dShape{1, 1, 1, 1, 0}, {2, 3, 3, 1, 1}, {3, 2, 3, 2, 0}, {1, 4, 5, 2, 2}, {2, 2, 3, 1, 4}}) {
    Conv2d<double> layer("conv", shape, shape.outputs != 3);
    expect_gradients(layer, random_tensor<double>({2, shape.inputs, 6, 5}, 1));
  }
}

TEST(Gradients, Pooling) {
  for (const Pooling pooling : {Pooling::maximum, Pooling::average})
    for (const auto& [size, stride] : {std::pair{2u, 0u}, {3u, 1u}, {2u, 3u}}) {
      Pool2d<double> layer("pool", pooling, size, stride);
      expect_gradients(layer, random_tensor<double>({2, 3, 6, 7}, 1));
    }
}

TEST(Gradients, Dropout) {
  Dropout<double> layer("dropout", 0.4);
  expect_gradients(layer, random_tensor<double>({5, 9}, 1));
  expect_gradients(layer, random_tensor<double>({5, 9}, 1), true, false);
}

TEST(Gradients, Residual) {
  Residual<double> layer("residual");
  layer.inside().add<Linear<double>>("fc", 6, 6);
  layer.inside().add<Gelu<double>>("gelu");
  expect_gradients(layer, random_tensor<double>({4, 6}, 1));
}

TEST(Gradients, Attention) {
  for (const Positions positions : {Positions::none, Positions::rope, Positions::alibi})
    for (const auto& [width, heads, causal] : {std::tuple{4u, 1u, true}, {12u, 3u, true}, {8u, 2u, false}}) {
      Attention<double> layer("attention", {width, heads, positions, causal});
      expect_gradients(layer, random_tensor<double>({2, 5, width}, 1));
    }
  EXPECT_THROW(Attention<double>("a", {8, 3}), std::invalid_argument);
  EXPECT_THROW(Attention<double>("a", {6, 2}), std::invalid_argument);
}

TEST(Gradients, Lstm) {
  for (const auto& [batch, length, inputs, width] : {std::array{1u, 1u, 3u, 2u}, {2u, 4u, 3u, 5u}, {3u, 6u, 2u, 1u}}) {
    Lstm<double> layer("lstm", inputs, width);
    expect_gradients(layer, random_tensor<double>({batch, length, inputs}, 1));
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
    expect_gradient("logits", logits.values(), gradient.values(),
                    [&] { return 2 * loss.forward(pass, logits, labels); });
  }
}

TEST(Gradients, BinaryCrossEntropy) {
  ExactNumerics numerics;
  Pass<double> pass{numerics};
  for (const Extents& shape : {Extents{1}, {3, 5}}) {
    Tensor<double> logits = random_tensor<double>(shape, 1), p(shape), targets(shape);
    for (std::size_t i = 0; i < p.size(); ++i) {
      p[i] = 1 / (1 + std::exp(-logits[i]));
      targets[i] = static_cast<double>(i % 3) / 2;
    }
    BinaryCrossEntropy<double> loss;
    const double of_probabilities = loss.forward(pass, p, targets);
    const Tensor<double> gradient = loss.backward(pass, 4);
    expect_gradient("probabilities", p.values(), gradient.values(), [&] { return 4 * loss.forward(pass, p, targets); });
    BinaryCrossEntropyWithLogits<double> with_logits;
    EXPECT_NEAR(with_logits.forward(pass, logits, targets), of_probabilities, 1e-14);
    const Tensor<double> by_logits = with_logits.backward(pass, 4);
    expect_gradient("logits", logits.values(), by_logits.values(),
                    [&] { return 4 * with_logits.forward(pass, logits, targets); });
  }
}

TEST(Losses, BinaryCrossEntropyAtTheEnds) {
  ExactNumerics numerics;
  Pass<double> pass{numerics};
  BinaryCrossEntropy<double> loss;
  EXPECT_DOUBLE_EQ(loss.forward(pass, {{2}, {0.5, 0.25}}, {{2}, {1, 0}}), (std::log(2) - std::log(0.75)) / 2);
  EXPECT_DOUBLE_EQ(loss.forward(pass, {{2}, {0, 1}}, {{2}, {1, 0}}), 100);  // no logarithm is below -100
  EXPECT_DOUBLE_EQ(loss.forward(pass, {{2}, {0, 1}}, {{2}, {0, 1}}), 0);
  EXPECT_NEAR(loss.forward(pass, {{1}, {1e-20}}, {{1}, {0}}), 1e-20, 1e-33);
  EXPECT_THROW(loss.forward(pass, {{1}, {1.5}}, {{1}, {0}}), std::invalid_argument);
  EXPECT_THROW(loss.forward(pass, {{1}, {0.5}}, {{2}, {0, 1}}), std::invalid_argument);
  BinaryCrossEntropyWithLogits<double> with_logits;
  EXPECT_DOUBLE_EQ(with_logits.forward(pass, {{2}, {0, 1000}}, {{2}, {1, 0}}), (std::log(2) + 1000) / 2);
  EXPECT_NEAR(with_logits.forward(pass, {{1}, {-50}}, {{1}, {0}}), std::exp(-50), 1e-36);
}

TEST(Layers, DropoutDropsItsShareByStep) {
  ExactNumerics numerics;
  Pass<double> pass{numerics, true, 1, 1};
  Dropout<double> layer("dropout", 0.25);
  Tensor<double> x({100, 100});
  for (double& v : x.values()) v = 3;
  const Tensor<double> first = layer.forward(pass, x);
  std::size_t dropped = 0;
  for (const double v : first.values()) {
    ASSERT_TRUE(v == 0 || v == 4) << v;
    dropped += v == 0;
  }
  EXPECT_NEAR(static_cast<double>(dropped), 2500, 5 * std::sqrt(10000 * 0.25 * 0.75));
  const auto same = [&](const Tensor<double>& y) {
    return std::equal(y.values().begin(), y.values().end(), first.values().begin());
  };
  EXPECT_TRUE(same(layer.forward(pass, x)));
  Dropout<double> other("another", 0.25);
  EXPECT_FALSE(same(other.forward(pass, x)));
  pass.step = 2;
  EXPECT_FALSE(same(layer.forward(pass, x)));
  pass.training = false;
  EXPECT_EQ(layer.forward(pass, x)[0], 3);
  EXPECT_THROW(Dropout<double>("dropout", 1), std::invalid_argument);
}

TEST(Layers, SlopesOfAlibi) {
  // The paper's slopes: 1/2, 1/4, ... for 8 heads; for 12 heads, these and every second slope of 16.
  for (std::size_t h = 0; h < 8; ++h) EXPECT_EQ(alibi_slope(h, 8), std::ldexp(1.0, -static_cast<int>(h) - 1));
  EXPECT_EQ(alibi_slope(7, 12), 1 / 256.0);
  EXPECT_DOUBLE_EQ(alibi_slope(8, 12), std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(alibi_slope(11, 12), std::sqrt(0.5) / 8);
}

TEST(Layers, NotANumberIsPassedOn) {
  Fp32Numerics numerics;
  Pass<float> pass{numerics};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor<float> x({1, 1, 2, 2}, {1, nan, 3, 2});
  Relu<float> relu("relu");
  EXPECT_TRUE(std::isnan(relu.forward(pass, x)[1]));
  Pool2d<float> pool("pool", Pooling::maximum, 2);
  EXPECT_TRUE(std::isnan(pool.forward(pass, x)[0]));
  Softmax<float> softmax("softmax");
  EXPECT_TRUE(std::isnan(softmax.forward(pass, x)[0]));
  CrossEntropy<float> loss;
  EXPECT_TRUE(std::isnan(loss.forward(pass, Tensor<float>({1, 4}, {1, nan, 3, 2}), std::vector<int>{0})));
}

/// Rows longer than one block of the kernel; squares that overlap; several equal maxima, of which the first counts.
TEST(Layers, MaximaOfLongRows) {
  Fp32Numerics numerics;
  Pass<float> pass{numerics};
  Tensor<float> x({2, 1, 5, 301});
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 13) - 6;
  for (const auto& [size, stride] : {std::pair{2u, 2u}, {3u, 2u}, {2u, 1u}, {3u, 3u}}) {
    Pool2d<float> pool("pool", Pooling::maximum, size, stride);
    const Tensor<float> y = pool.forward(pass, x);
    Tensor<float> dy(y.extents());
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(1 + i % 64);
    std::vector<float> want(x.size());
    std::size_t next = 0;
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t row = 0; row + size <= 5; row += stride)
        for (std::size_t column = 0; column + size <= 301; column += stride, ++next) {
          std::size_t best = (n * 5 + row) * 301 + column;
          for (std::size_t i = 0; i < size; ++i)
            for (std::size_t j = 0; j < size; ++j)
              if (const std::size_t at = (n * 5 + row + i) * 301 + column + j; x[at] > x[best]) best = at;
          ASSERT_EQ(y[next], x[best]) << size << ' ' << stride << ' ' << next;
          want[best] += dy[next];
        }
    ASSERT_EQ(next, y.size());
    const Tensor<float>& dx = pool.backward(pass, dy);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), dx.values().begin())) << size << ' ' << stride;
  }
}

TEST(Layers, RefuseOtherShapes) {
  ExactNumerics numerics;
  Pass<double> pass{numerics};
  const Tensor<double> x({2, 3, 4});
  Linear<double> linear("fc1", 5, 2);
  try {
    linear.forward(pass, x);
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "fc1: input of shape 2 x 3 x 4, expected ... x 5");
  }
  Conv2d<double> conv("conv", {1, 1, 3, 1, 0});
  EXPECT_THROW(conv.forward(pass, x), std::invalid_argument);
  EXPECT_THROW(conv.forward(pass, Tensor<double>({1, 1, 2, 5})), std::invalid_argument);
  BatchNorm<double> norm("norm", 3);
  EXPECT_THROW(norm.forward(pass, x), std::invalid_argument);
  EXPECT_THROW(norm.forward(pass, Tensor<double>({1, 3})), std::invalid_argument);
  Lstm<double> lstm("lstm", 3, 2);
  EXPECT_THROW(lstm.forward(pass, x), std::invalid_argument);
}

TEST(Losses, CrossEntropyIsTheMeanLogarithm) {
  ExactNumerics numerics;
  Pass<double> pass{numerics};
  CrossEntropy<double> loss;
  EXPECT_DOUBLE_EQ(loss.forward(pass, Tensor<double>({2, 10}), std::vector<int>{0, 9}), std::log(10));
  EXPECT_DOUBLE_EQ(loss.forward(pass, {{2, 2}, {0, std::log(3), 1000, 1000}}, std::vector<int>{0, 1}),
                   (std::log(4) + std::log(2)) / 2);
  EXPECT_THROW(loss.forward(pass, Tensor<double>({2, 10}), std::vector<int>{0, 10}), std::invalid_argument);
  EXPECT_THROW(loss.forward(pass, Tensor<double>({2, 10}), std::vector<int>{0}), std::invalid_argument);
}

}  // namespace layers_test
