// Calibration: the magnitude that a symmetric integer format's largest number stands for, chosen by looking at values.
//
// Methods as in Wu et al. 2020, "Integer Quantization for Deep Learning Inference" (arXiv:2004.09602), section 3.3, and
// Migacz 2017, "8-bit Inference with TensorRT" (GTC S7310). Pure functions of finite values; every sum in a fixed
// order.
#pragma once

#include <halfulp/emulation/block/block.hpp>
#include <halfulp/formats/block_format.hpp>
#include <halfulp/support/spelling.hpp>
#include <halfulp/training/trainer.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace halfulp::quantization {

enum class Method : std::uint8_t {
  max,         ///< the largest magnitude: nothing is clipped
  percentile,  ///< the smallest magnitude that at least so many percent of the values do not exceed
  mse,         ///< of 1 %, 2 %, ..., 100 % of the largest magnitude that with the smallest mean squared error
  entropy,     ///< the bin edge whose clipped distribution is nearest to its quantized one (Kullback and Leibler)
};
inline constexpr std::array<Named<Method>, 4> methods{
    {{"max", Method::max}, {"percentile", Method::percentile}, {"mse", Method::mse}, {"entropy", Method::entropy}}};
constexpr std::string_view name_of(Method method) { return name_in(methods, method); }

/// A method with its parameter.
struct Calibration {
  Method method = Method::max;
  double percent = 100;  ///< that percentile does not clip
  auto operator<=>(const Calibration&) const = default;
  std::string name() const;  ///< percentile-99.9, or the method's
};

/// Integers of 2 to 8 bits, -(2^(b-1) - 1) to 2^(b-1) - 1; one scale, or one a row.
BlockFormat integers(int bits, bool per_row);

/// Magnitudes in 2048 bins of one width, the last of which ends at the largest.
class Histogram {
 public:
  static constexpr std::size_t bins = 2048;
  explicit Histogram(std::span<const float> values);
  /// The largest float within the first `count` bins. Values up to there are in these bins, others are not.
  float edge(std::size_t count) const;
  const std::vector<std::uint64_t>& counts() const { return counts_; }

 private:
  float largest_ = 0;
  std::vector<std::uint64_t> counts_;
};

/// How many bins Migacz's procedure keeps, 128 to 2048. P has the counts of these bins, and what lies beyond them in
/// the last; Q has the same bins merged into `levels` (128 for int8) and spread again over those that are not empty.
/// The least divergence of Q from P wins, the larger range of equals. As in NVIDIA's pytorch-quantization the first
/// bin, which holds the zeros, counts as much as the second.
std::size_t entropy_bins(const Histogram& histogram, std::size_t levels);

/// The smallest magnitude that at least `percent` of the values do not exceed: 100 is the largest.
float percentile_amax(std::span<const float> values, double percent);

/// The magnitude by a method. `format`: one scale. Where a method says 0 it is the largest one; 0 for values that are
/// all 0.
float calibrated_amax(const Calibration& by, std::span<const float> values, const BlockFormat& format);

/// What quantizing by a magnitude does to values.
struct QuantizationLoss {
  std::uint64_t values = 0, clipped = 0;  ///< clipped: magnitudes above amax
  double squared_error = 0, squares = 0;  ///< sums
  double largest_inside = 0;              ///< largest error of a value that is not clipped, in halves of the scale
  double mse() const { return values ? squared_error / static_cast<double>(values) : 0; }
  /// Signal to quantization noise in decibel; infinite without an error.
  double sqnr() const;
};
QuantizationLoss loss_of(std::span<const float> values, float amax, const BlockFormat& format);

// Products of quantized matrices as integer hardware computes them, and LLM.int8()'s split of outlier columns.

/// y = X W^T, m x n, of symmetric integers with a scale a row or one scale: products are summed exactly in integers,
/// the sum is converted to fp32 and multiplied with the scale of X's row, then with that of W's, each rounded to fp32.
/// Precondition: equal columns.
std::vector<float> integer_product(const BlockArray& x, const BlockArray& w);

/// X of rows x features, W of outputs x features, in FP16 values: what a linear layer multiplies.
struct LinearOperands {
  std::size_t rows = 0, outputs = 0, features = 0;
  std::vector<float> x, w;
};
/// Rounded to FP16.
LinearOperands in_fp16(std::size_t rows, std::size_t outputs, std::size_t features, std::span<const float> x,
                       std::span<const float> w);

/// Some columns of both.
LinearOperands columns_of(const LinearOperands& from, std::span<const std::size_t> columns);

/// Columns of X with a magnitude of at least `threshold`.
std::vector<std::size_t> outlier_columns(std::span<const float> x, std::size_t features, double threshold);

/// In double, features ascending.
std::vector<double> exact_product(const LinearOperands& o);
/// Sums in fp32, the result rounded to FP16.
std::vector<float> fp16_product(const LinearOperands& o);
/// INT8 with one scale each, or a scale a row of X and of W (vector-wise), in fp32.
std::vector<float> int8_product(const LinearOperands& o, bool vector_wise);

/// Dettmers et al. 2022, LLM.int8() (arXiv:2208.07339), section 3.2: outlier columns in FP16, the others vector-wise in
/// INT8, both results rounded to FP16 and added in FP16.
struct SplitProduct {
  std::vector<float> y;
  std::size_t outliers = 0;  ///< columns
};
SplitProduct split_product(const LinearOperands& o, double threshold);

/// Norm of y - exact over that of exact.
double relative_error(std::span<const float> y, std::span<const double> exact);

// What enters the linear layers and convolutions of a network, for calibration.

/// A layer with a product of activations and weights.
struct LayerInputs {
  training::OperatorKind kind;
  std::string name;
  std::size_t features = 0;        ///< numbers of a row
  std::vector<float> sample = {};  ///< rows one after the other
  std::size_t rows() const { return features ? sample.size() / features : 0; }
};

/// FP32, but the forward products of linear layers and convolutions go through `multiply` where that is given, and
/// their inputs are shown to `see`.
class LinearProducts : public training::Fp32Numerics {
 public:
  using training::Fp32Numerics::product;
  std::function<void(const training::Site&, const Operands&)> see = {};
  /// d = the product without its bias.
  std::function<void(const training::Site&, const Operands&, std::span<float> d)> multiply = {};
  void product(const training::Site& site, training::Product which, const Operands& x, std::span<const float> bias,
               std::span<float> d) override;
};

/// Inputs of a network in FP32 on its first `batches` training batches; of each batch the first rows, so that a layer's
/// sample has at most `most` values or a row a batch. In the order in which layers come.
std::vector<LayerInputs> layer_inputs(training::Trainer& trainer, training::Examples& examples, std::size_t batches,
                                      std::size_t most);

// A trained network in integers: which formats, which magnitudes, and the precision policy that computes with them.

/// One way to quantize weights and activations. Activations have one scale a tensor, fixed by calibration.
struct Variant {
  int bits = 8;
  bool per_channel = false;      ///< a scale for each output of a layer's weights, instead of one
  Method weights = Method::max;  ///< max or mse
  Calibration activations = {};
  auto operator<=>(const Variant&) const = default;
  std::string granularity() const { return per_channel ? "channel" : "tensor"; }
};

/// A network that was trained in FP32, one seed of it.
struct LearnedNetwork {
  training::NetworkValues values = {};
  training::TestResult fp32 = {};
  std::vector<LayerInputs> layers = {};
  std::map<std::tuple<std::string, int, Calibration>, float> activation_amax =
      {};  ///< by layer, bits and calibration; 0 if all inputs were 0
};

/// The policy: products of integers, scaled in fp32; everything else in FP32. `only`: the one layer that has it; empty:
/// all. `straight_through`: of OperatorPrecision. Layers whose inputs were all 0 keep the scale that their inputs have.
training::Policy policy_of(const Variant& variant, const LearnedNetwork& network, const std::string& only = "",
                           bool straight_through = false);

/// The network's values, the layers' weights (of `only`, if that is not empty) clipped to what their method says, a row
/// or a tensor at a time: their largest magnitude, by which the policy scales them, is then the calibrated one.
training::NetworkValues values_of(const Variant& variant, const LearnedNetwork& network, const std::string& only = "");

/// How one layer's integer product of the policy compares with sums of integers (integer_product), on the first rows of
/// its sample.
struct IntegerCheck {
  std::uint64_t compared = 0, differ = 0;
};
IntegerCheck check_integers(const Variant& variant, const LearnedNetwork& network, const LayerInputs& layer,
                            std::size_t most_rows);

/// Whether fp32 holds every sum of `features` products of integers of `bits`: below 2^24.
bool sums_are_exact(std::size_t features, int bits);

}  // namespace halfulp::quantization
