// What quantizing a network came to, over seeds, and what is known and published of it.
#pragma once

#include <halfulp/experiments/quantization/integers.hpp>
#include <halfulp/report/experiment.hpp>
#include <halfulp/report/report.hpp>
#include <halfulp/training/runs/setup.hpp>
#include <halfulp/training/runs/tables.hpp>

#include <map>
#include <span>
#include <string>
#include <vector>

namespace halfulp::quantization {

/// Before training goes on, after it in FP32 and quantization-aware. By width, and whether there is a scale an output.
struct AwareOutcome {
  trainings::Spread ptq = {}, qat = {};
};

/// A trained network computed in several ways: both operands of every product of linear layers and convolutions in
/// FP32, in FP16, in INT8 with a scale each, with a scale a row and an output, and under LLM.int8()'s split.
struct MethodResults {
  training::TestResult fp32 = {}, fp16 = {}, per_tensor = {}, vector_wise = {}, split = {};
  double columns = 0, outliers = 0,
         in_int8 = 0;  ///< of a product, means; columns in FP16 under the split; share in INT8
};
/// The same over seeds.
struct MethodSpreads {
  trainings::Spread fp32 = {}, fp16 = {}, per_tensor = {}, vector_wise = {}, split = {};
  double columns = 0, outliers = 0, in_int8 = 0;  ///< means
  explicit MethodSpreads(const std::vector<MethodResults>& of_seeds = {});
};

struct NetworkOutcome {
  std::string missing = {};  ///< why there is nothing, in one line
  trainings::Spread fp32 = {}, continued = {};
  std::map<Variant, trainings::Spread> ptq = {};
  std::map<std::pair<int, bool>, AwareOutcome> aware = {};
  IntegerCheck integers = {};
  std::vector<std::string> unchecked = {};  ///< layers whose sums fp32 may not hold
  MethodSpreads as_trained{};
  struct Planted {
    trainings::Spread before = {};  ///< in FP32, without outlier columns
    MethodSpreads with{};
    bool exact = true;  ///< of all seeds
  };
  std::map<double, Planted> planted = {};  ///< by the ratio of outliers to other values
};

void claim_network(const Config& config, const std::string& network, const NetworkOutcome& outcome, Report& report);

// Tables of quantized networks.

struct ResultTables {
  inline static const Column doubt{
      "doubt", "1", "Half the width of that difference's 95 % confidence interval, by seeds and by test examples."};
  inline static const Column method{"method", "",
                                    "Both operands of every product; split: columns with outliers in FP16, the others "
                                    "in INT8 with a scale a row and an output."};
  Table &accuracy, &qat, &layers, &as_trained, &planted;
  explicit ResultTables(Report& report)
      : accuracy(
            report.table("accuracy", "Networks quantized after training, means over seeds",
                         {{"network", "", "Network."},
                          {"bits", "bit", "Bits of weights and activations; 32: FP32."},
                          {"granularity", "", "One scale for a layer's weights (tensor), or one an output (channel)."},
                          {"weights", "", "Calibration of weights."},
                          {"activations", "", "Calibration of activations, which have one fixed scale a layer."},
                          {"accuracy", "1", "Test accuracy."},
                          {"to_fp32", "1", "This minus that of FP32."},
                          doubt})),
        qat(report.table("qat", "Quantization-aware training from the trained network on, means over seeds",
                         {{"network", "", "Network."},
                          {"bits", "bit", "Bits of weights and activations; 32: training went on in FP32."},
                          {"granularity", "", "Scales of weights."},
                          {"fp32", "1", "Test accuracy of the trained network in FP32."},
                          {"ptq", "1", "Quantized, before training goes on."},
                          {"qat", "1", "After it; 0 if it failed."},
                          {"recovered", "1", "What training on changed: the difference of the two."},
                          {"to_continued", "1", "Accuracy after it minus that of training on in FP32 for as long."},
                          doubt,
                          {"steps", "step", "Steps of training on."}})),
        layers(
            report.table("layers", "One layer quantized, the others in FP32, means over seeds",
                         {{"network", "", "Network."},
                          {"layer", "", "Layer."},
                          {"bits", "bit", "Bits of its weights and inputs."},
                          {"features", "value", "Products of a sum."},
                          {"exact", "", "Whether FP32 holds every sum of so many products of integers: true or false."},
                          {"accuracy", "1", "Test accuracy; a scale an output, calibrated by qat_method."},
                          {"to_fp32", "1", "This minus that of FP32."},
                          doubt})),
        as_trained(
            report.table("as_trained", "Trained networks in INT8 as they are, means over seeds",
                         {{"network", "", "Network."},
                          method,
                          {"outliers", "value", "Columns of a layer's inputs in FP16, mean over layers and batches."},
                          {"in_int8", "1", "Share of all layers' columns in INT8."},
                          {"accuracy", "1", "Test accuracy."},
                          {"to_fp32", "1", "This minus that of the network in FP32."},
                          doubt})),
        planted(
            report.table("planted", "A perceptron with outlier columns planted in its hidden layer, means over seeds",
                         {{"network", "", "Network."},
                          {"ratio", "1", "The largest outlier over the largest of the other values is at least this."},
                          method,
                          {"outliers", "value", "Columns of the last layer's inputs in FP16, mean over batches."},
                          {"in_int8", "1", "Share of its columns in INT8."},
                          {"accuracy", "1", "Test accuracy."},
                          {"to_fp32", "1", "This minus that of the network in FP32."},
                          doubt})) {}
};

// The table `calibration`: tensors, real ones and samples, under every method and width; and what must hold of
// calibration.

/// The calibrations of activations, `methods`: percentile once for each of `percentiles`.
std::vector<Calibration> calibrations_of(const Config& config);
/// `qat_method`; of `percentiles` the first.
Calibration aware_calibration(const Config& config);
/// The widths `bits`.
std::vector<int> bits_of(const Config& config);

class CalibrationTable {
 public:
  /// Declares it.
  CalibrationTable(const Config& config, Report& report);
  /// Rows of one tensor with one scale.
  void add(const std::string& network, const std::string& layer, const std::string& tensor,
           std::span<const float> values);
  /// Samples of a few distributions, which need no data.
  void add_samples(std::uint64_t seed);
  /// What follows from the definitions, of all tensors that were added.
  void claim(Report& report) const;

 private:
  /// A tensor by all methods and widths.
  struct Row {
    Calibration by;
    int bits;
    float amax;
    QuantizationLoss loss;
    std::uint64_t in_tail = 0, allowed = 0;  ///< beyond the bins that entropy kept; beyond the rank of the percentile
  };
  std::vector<Calibration> calibrations_;
  std::vector<int> bits_;
  Table& table_;
  std::uint64_t tensors_ = 0, hundred_differs_ = 0, tail_differs_ = 0, too_many_clipped_ = 0, counted_ = 0;
  double mse_ratio_ = 0, half_steps_ = 0, farthest_sqnr_ = 0;
};

// LLM.int8(): what outlier columns do to products in INT8, and what it takes to keep them in 16 bits.

/// Activations with outlier columns: normal numbers with standard deviation 1, and in `outliers` columns, in a share of
/// the rows, numbers of one sign a column between half of `magnitude` and all of it. Weights: normal, with 1 /
/// sqrt(features).
struct OutlierSample {
  std::size_t rows = 64, outputs = 64, features = 12288, outliers = 6;
  double magnitude = 60, share = 0.75;
};
LinearOperands draw(const OutlierSample& sample, std::uint64_t seed);

/// The tables `outliers` and `shares`, of samples; and their claims.
class OutlierTables {
 public:
  OutlierTables(const Config& config, Report& report);
  void add_samples(Run& run);
  /// Every layer of a network, on the first rows of its inputs.
  void add_network(const std::string& network, const LearnedNetwork& learned);

 private:
  struct Errors {
    double fp16, per_tensor, vector_wise, split;
    std::size_t outliers;
  };
  Errors add(const std::string& source, const LinearOperands& o);
  const Config& config_;
  Table &outliers_, &shares_;
};

/// A trained network by each method. Columns are counted of one layer alone if it is named.
MethodResults by_method(training::Trainer& trainer, const training::NetworkValues& values, double threshold,
                        const training::Examples& examples, const std::string& counted = "");

/// A perceptron whose last hidden layer got outlier columns, without changing what it computes: what enters
/// some units is multiplied by a power of two, until they reach `ratio` times the largest value of the others, and the
/// next layer's weights are divided by it.
struct PlantedNetwork {
  training::NetworkValues values;
  bool exact = true;  ///< no scaled number is near the ends of fp32's range
};
PlantedNetwork plant_outliers(const LearnedNetwork& learned, std::size_t units, double ratio);

// One network: trained in FP32, calibrated, quantized in every way that is asked for, and trained on.

/// Where the rows of a network go.
struct NetworkTables {
  ResultTables& results;
  CalibrationTable& calibration;
  OutlierTables& outliers;
  trainings::Tables& trainings;
};

/// All of it, over the configuration's seeds; progress goes from `from` to `to`. Without data, or where FP32 itself
/// ends in Inf or NaN, the outcome says what is missing, and no row is added. Throws Interrupted, and
/// std::invalid_argument for what trainings refuse.
NetworkOutcome run_network(const Config& config, const trainings::Data& data, const std::string& network, Run& run,
                           double from, double to, const NetworkTables& tables);

}  // namespace halfulp::quantization
