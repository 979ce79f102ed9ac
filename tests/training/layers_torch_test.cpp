// Layers in fp32 against PyTorch's: forward and backward of every layer on small inputs, made by
// tests/peers/torch_layers.py.
#include <halfulp/training/layers/sequences.hpp>
#include <halfulp/training/layers/norms.hpp>
#include <halfulp/training/layers/losses.hpp>
#include <halfulp/training/layers/images.hpp>
#include <halfulp/training/layers/linear.hpp>
#include <halfulp/training/layers/activations.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <halfulp_test_paths.hpp>

#include <bit>
#include <fstream>
#include <map>
#include <set>

namespace layers_torch_test {

using namespace halfulp;
using namespace halfulp::training;
using nlohmann::json;

Tensor<float> tensor_of(const json& j) {
  Extents extents;
  for (const std::size_t n : j.at("shape")) extents = extents.appended(n);
  if (extents.rank() == 0) extents = {1};
  Tensor<float> x(extents);
  const std::string words = j.at("words");
  EXPECT_EQ(words.size(), 8 * x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(words.substr(8 * i, 8), nullptr, 16)));
  return x;
}

/// The largest difference, in units of 2^-24 times the largest value, or times `terms` if that is larger. Both sides
/// add rounding errors of numbers of that size, which may cancel in the result.
double distance(std::span<const float> got, const Tensor<float>& want, double terms = 0) {
  EXPECT_EQ(got.size(), want.size());
  double largest = terms, worst = 0;
  for (const float v : want.values()) largest = std::max(largest, std::fabs(double{v}));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = std::fabs(double{got[i]} - want[i]);
    worst = std::max(worst, difference == difference ? difference : std::numeric_limits<double>::infinity());
  }
  return worst == 0 ? 0 : worst / (largest * 0x1p-24);
}

std::unique_ptr<Module<float>> make_layer(const std::string& kind, const json& o) {
  const std::string name;  // empty: parameters have their bare names
  if (kind == "linear")
    return std::make_unique<Linear<float>>(name, o.at("inputs"), o.at("outputs"), o.at("bias").get<bool>());
  if (kind == "conv2d")
    return std::make_unique<Conv2d<float>>(
        name, Conv2dShape{o.at("inputs"), o.at("outputs"), o.at("kernel"), o.at("stride"), o.at("padding")});
  if (kind == "embedding") return std::make_unique<Embedding<float>>(name, o.at("rows"), o.at("width"));
  if (kind == "layer-norm") return std::make_unique<LayerNorm<float>>(name, o.at("width"));
  if (kind == "rms-norm") return std::make_unique<RmsNorm<float>>(name, o.at("width"));
  if (kind == "batch-norm") return std::make_unique<BatchNorm<float>>(name, o.at("channels"));
  if (kind == "relu") return std::make_unique<Relu<float>>(name);
  if (kind == "gelu")
    return std::make_unique<Gelu<float>>(name, o.at("form") == "erf" ? GeluForm::erf : GeluForm::tanh);
  if (kind == "softmax") return std::make_unique<Softmax<float>>(name);
  if (kind == "pool")
    return std::make_unique<Pool2d<float>>(name, o.at("pooling") == "max" ? Pooling::maximum : Pooling::average,
                                           o.at("size"), o.at("stride"));
  if (kind == "lstm") return std::make_unique<Lstm<float>>(name, o.at("inputs"), o.at("width"));
  if (kind == "attention") {
    const std::map<std::string, Positions> positions{
        {"none", Positions::none}, {"rope", Positions::rope}, {"alibi", Positions::alibi}};
    return std::make_unique<Attention<float>>(
        name,
        AttentionShape{o.at("width"), o.at("heads"), positions.at(o.at("positions")), o.at("causal").get<bool>()});
  }
  throw std::invalid_argument("unknown layer " + kind);
}

/// The differences of a layer's case that exceed `most`.
void check_layer(const json& c, double most) {
  const std::string kind = c.at("layer"), what = kind + " " + c.at("options").dump();
  const auto layer = make_layer(kind, c.at("options"));
  for (TrainedParameter<float>* const p : layer->parameters()) p->value = tensor_of(c.at("parameters").at(p->name));
  ASSERT_EQ(layer->parameters().size(), c.at("parameters").size()) << what;
  for (ModuleState<float>* const s : layer->states()) s->value = tensor_of(c.at("states").at(s->name));
  Fp32Numerics numerics;
  Pass<float> pass{numerics, c.at("options").value("training", true)};
  const Tensor<float> x = tensor_of(c.at("x"));
  EXPECT_LE(distance(layer->forward(pass, x).values(), tensor_of(c.at("y"))), most) << what << ": y";
  const Tensor<float> weights = tensor_of(c.at("weights"));
  double terms = 0;
  for (const float v : weights.values()) terms = std::max(terms, std::fabs(double{v}));
  const Tensor<float>& dx = layer->backward(pass, weights);
  if (c.contains("dx")) { EXPECT_LE(distance(dx.values(), tensor_of(c.at("dx")), terms), most) << what << ": dx"; }
  for (TrainedParameter<float>* const p : layer->parameters())
    EXPECT_LE(distance(p->gradient.values(), tensor_of(c.at("gradients").at(p->name)), terms), most)
        << what << ": gradient of " << p->name;
  for (ModuleState<float>* const s : layer->states())
    EXPECT_LE(distance(s->value.values(), tensor_of(c.at("states_after").at(s->name))), most)
        << what << ": " << s->name;
}

template <class Loss, class Targets>
void check_loss(const json& c, const Targets& targets, double most) {
  const std::string what = c.at("layer");
  Fp32Numerics numerics;
  Pass<float> pass{numerics};
  Loss loss;
  const Tensor<float> x = tensor_of(c.at("x"));
  const float value = loss.forward(pass, x, targets);
  EXPECT_LE(distance({&value, 1}, tensor_of(c.at("y"))), most) << what;
  EXPECT_LE(distance(loss.backward(pass, c.at("options").at("scale").get<float>()).values(), tensor_of(c.at("dx"))),
            most)
      << what << ": dx";
}

void check_case(const json& c) {
  const std::string kind = c.at("layer");
  // Sums of some terms, or several such sums in turn.
  const double most = kind == "attention" || kind == "lstm" ? 32 : 16;
  if (!c.contains("targets")) return check_layer(c, most);
  const Tensor<float> targets = tensor_of(c.at("targets"));
  if (kind == "bce") return check_loss<BinaryCrossEntropy<float>>(c, targets, most);
  if (kind == "bce-with-logits") return check_loss<BinaryCrossEntropyWithLogits<float>>(c, targets, most);
  check_loss<CrossEntropy<float>>(c, std::vector<int>(targets.values().begin(), targets.values().end()), most);
}

TEST(Torch, LayersAgreeToRounding) {
  // In the exhaustive run the installed torch makes another file, which replaces the committed one.
  const char* const made_now = std::getenv("HALFULP_TORCH_LAYERS");
  std::ifstream file(made_now ? made_now : HALFULP_PEERS "/torch_layers.json");
  ASSERT_TRUE(file);
  const json document = json::parse(file);
  std::set<std::string> kinds;
  for (const json& c : document.at("cases")) {
    kinds.insert(c.at("layer").get<std::string>());
    check_case(c);
  }
  EXPECT_EQ(kinds.size(), 15u);
}

}  // namespace layers_torch_test
