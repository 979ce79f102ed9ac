// The experiment "quantization" on small made images, and in configurations that a user may type.
#include "training_report.hpp"

#include <halfulp/experiments/quantization/quantization.hpp>

#include <fmt/format.h>

#include <halfulp_test_paths.hpp>

#include <map>

namespace quantization_test {

using namespace training_report;

Json tiny(std::vector<std::string> more) {
  const std::vector<std::string> small{
      "data=" HALFULP_GOLDEN "/images", "steps=20", "qat_steps=4",  "batch=8", "width=16",  "intervals=1",
      "calibration_batches=2",          "seeds=1",  "features=256", "rows=4",  "outputs=4", "bits=8"};
  more.insert(more.begin(), small.begin(), small.end());
  return report_of("quantization", more);
}

std::size_t rows_of(const Json& report, const char* table) { return report["results"][table]["rows"].size(); }

TEST(QuantizationExperiment, EveryVariantHasARow) {
  const Json report = tiny({"bits=8,3", "methods=max,mse", "seeds=2"});
  expect_no_failure(report);
  EXPECT_EQ(rows_of(report, "accuracy"), 1u + 2 * 2 * 2 * 2);
  EXPECT_EQ(rows_of(report, "qat"), 1u + 2 * 2);
  EXPECT_EQ(rows_of(report, "layers"), 2u * 2);
  EXPECT_EQ(rows_of(report, "calibration"), (5u + 2 * 2) * 2 * 2);
  EXPECT_EQ(rows_of(report, "planted"), 2u * 5);
  EXPECT_EQ(rows_of(report, "as_trained"), 5u);
  for (const char* const id : {"mlp-integer-sums-exact", "mlp-planted-columns-change-nothing", "percentile-100-is-max",
                               "mse-no-larger-than-max", "uniform-sqnr", "llm-int8-split-bound"})
    EXPECT_EQ(verdict(report, id), "pass") << id;
  EXPECT_EQ(verdict(report, "mlp-int4-tensor-loses"), "skipped");
  EXPECT_EQ(verdict(report, "entropy-clips-its-tail"), "skipped");
}

TEST(QuantizationExperiment, OddConfigurationsNeitherFailNorThrow) {
  for (const std::vector<std::string>& settings : std::vector<std::vector<std::string>>{
           {"width=1", "bits=2"},
           {"methods=percentile", "percentiles=50,100", "qat_method=percentile", "bits=2,3"},
           {"methods=entropy", "qat_method=max", "granularity=channel", "weight_methods=mse"},
           {"outlier_features=0"},
           {"outlier_features=256", "outlier_magnitude=1000", "outlier_rows=1"},
           {"features=2", "outlier_features=1", "rows=1", "outputs=1"},
           {"threshold=0", "thresholds=0,1e6"},
           {"outlier_magnitude=0", "planted=1,1e6"},
           {"lr=100", "seeds=2"},
           {"qat_lr=100", "bits=4"},
           {"networks=cnn", "width=2"},
           {"networks=transformer", "context=8", "batch=2", "steps=2", "qat_steps=1"},
           {"depth=3", "bits=4"},
           {"init=zeros"},
           {"dropout=0.5"}}) {
    SCOPED_TRACE(settings.front());
    const Json report = tiny(settings);
    expect_no_failure(report);
  }
}

TEST(QuantizationExperiment, PercentilesAreMethodsOfTheirOwn) {
  const Json report = tiny(
      {"methods=max,percentile", "percentiles=99.9,99.99", "granularity=tensor", "weight_methods=max"});
  expect_no_failure(report);
  EXPECT_EQ(verdict(report, "percentile-clips-its-share"), "pass");
  EXPECT_EQ(rows_of(report, "accuracy"), 1u + 3);
  std::map<std::string, double> clipped;
  for (const Json& row : report["results"]["calibration"]["rows"])
    if (row[1] == "laplace") clipped[row[4]] = row[8];
  EXPECT_EQ(clipped.size(), 3u);
  EXPECT_EQ(clipped["max"], 0);
  EXPECT_NEAR(clipped["percentile-99.9"], 1e-3, 2e-5) << "65 of 65,536";
  EXPECT_NEAR(clipped["percentile-99.99"], 1e-4, 2e-5) << "6";
}

TEST(QuantizationExperiment, NoiseContradictsNothing) {
  using namespace halfulp::quantization;
  const auto outcome =
      [](double difference) {  // of INT8 and INT4 to FP32: two seeds of 1,000 answers each, a doubt of about 0.025
        const auto spread = [](double mean) {
          trainings::Spread all;
          for (const double apart : {-0.001, 0.001}) {
            training::TestResult result{0, mean + apart, {}};
            for (int i = 0; i < 1000; ++i)  // the right ones lie differently for each mean
              result.examples.push_back(
                  {(i * 7 + std::lround(mean * 3000)) % 1000 < 1000 * (mean + apart) ? 1.0 : 0.0, 0});
            all.add(result);
          }
          return all;
        };
        NetworkOutcome o;
        o.fp32 = o.continued = spread(0.8);
        for (const int bits : {8, 4}) o.ptq[{bits, bits == 8, Method::max, {}}] = spread(0.8 + difference);
        o.ptq[{8, true, Method::max, {Method::percentile, 97}}] = spread(0.8 + 2 * difference);
        o.ptq[{4, true, Method::max, {}}] = spread(0.8);
        o.ptq[{4, true, Method::max, {Method::percentile, 97}}] = spread(0.8 - difference);
        o.aware[{8, true}] = {spread(0.8), spread(0.8 + difference)};
        NetworkOutcome::Planted& planted = o.planted[20];
        planted.before = planted.with.fp32 = planted.with.split = spread(0.8);
        planted.with.vector_wise = o.as_trained.split = spread(0.8 + difference);
        planted.with.outliers = 6;
        o.as_trained.vector_wise = spread(0.8 - std::abs(difference));
        return o;
      };
  const auto verdicts = [&](double difference) {
    const Config config(find_experiment("quantization").parameters());
    Report report("quantization", "test", config);
    claim_network(config, "mlp", outcome(difference), report);
    std::map<std::string, std::string> all;
    const Json whole = report.to_json();
    for (const Json& claim : whole["claims"]) {
      all[claim["id"]] = claim["verdict"];
      if (claim["verdict"] == "skipped" && claim["id"].get<std::string>().find("loses") != std::string::npos) {
        EXPECT_NE(claim["reason"].get<std::string>().find("within doubt"), std::string::npos) << claim;
      }
    }
    return all;
  };
  for (const char* const id : {"mlp-int4-tensor-loses", "mlp-plain-int8-loses-quality", "mlp-int8-clipping-loses",
                               "mlp-int4-clipping-gains"}) {
    EXPECT_EQ(verdicts(-0.1)[id], "pass") << id;
    EXPECT_EQ(verdicts(-0.01)[id], "skipped") << id;
    EXPECT_EQ(verdicts(0.01)[id], "skipped") << id;
    EXPECT_EQ(verdicts(0.1)[id], "differs") << id;
  }
  for (const char* const id :
       {"mlp-int8-within-1-percent", "mlp-int8-within-2-points", "mlp-int8-qat-within-1-point"}) {
    EXPECT_EQ(verdicts(0.01)[id], "pass") << id;
    EXPECT_EQ(verdicts(-0.025)[id], "skipped") << id << ": missed by less than the doubt";
    EXPECT_EQ(verdicts(-0.1)[id], "differs") << id;
  }
  const char* const split = "mlp-llm-int8-keeps-quality";
  EXPECT_EQ(verdicts(0.1)[split], "pass");
  EXPECT_EQ(verdicts(-0.1)[split], "differs");
  EXPECT_EQ(verdicts(0)[split], "skipped") << "without the split nothing is lost";
}

TEST(QuantizationExperiment, WithoutDataSamplesRemain) {
  if (no_images().empty()) GTEST_SKIP() << "Fashion-MNIST is here";
  const Json report = report_of("quantization", {"features=256", "rows=4", "outputs=4"});
  expect_no_failure(report);
  EXPECT_EQ(rows_of(report, "accuracy"), 0u);
  EXPECT_GT(rows_of(report, "calibration"), 0u);
  EXPECT_GT(rows_of(report, "outliers"), 0u);
  EXPECT_EQ(verdict(report, "mlp-integer-sums-exact"), "skipped");
}

TEST(QuantizationExperiment, RefusesWhatItCannotDo) {
  EXPECT_EQ(refused("quantization", {"features=2", "outlier_features=3"}),
            "outlier_features is 3; accepted: at most features, 2");
  for (const char* const bad : {"bits=1", "bits=9", "percentiles=101", "percentiles=", "percentiles=99,99",
                                "networks=lstm", "methods=mean", "granularity=row", "qat_method=all", "features=1"})
    EXPECT_NE(refused("quantization", {bad}), "accepted") << bad;
}

}  // namespace quantization_test
