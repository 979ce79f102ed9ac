// swamping: updates too small to change their weight, and what repairs it.
#include <halfulp/experiments/swamping/swamping.hpp>

#include <halfulp/experiments/data/distributions.hpp>

namespace halfulp {
namespace {

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  return {
      {"formats", Type::formats, "fp16,bf16,e4m3,e5m2", "formats of the weights; 1 and 2 must be normal numbers in them"},
      {"roundings", Type::roundings, "nearest-even,toward-zero,toward-positive,toward-negative,stochastic",
       "rounding modes of the tables `ratios` and `population`"},
      {"ratios", Type::reals, "2,4,8,16,32,64,128,256,512,1024,2048,4096,8192", "w / update to sweep", 1e-3, 1e12},
      {"lr", Type::real, "0.1", "learning rate; it is rounded to the format, like everything", 1e-30, 1e6},
      {"steps", Type::integer, "1000", "steps of the table `ratios`", 1, 100'000},
      {"count", Type::integer, "32768", "random weights of the table `population`", 1, 1e7},
      {"seed", Type::integer, "1", "seed of random weights, gradients and stochastic rounding", 0, largest_seed},
      {"log2_weight", Type::real, "-4", "log2 of the standard deviation of the random weights", -100, 30},
      {"log2_gradient", Type::real, "-12", "log2 of the median magnitude of the random gradients (log-normal)", -100, 30},
      {"log2_sigma", Type::real, "3", "standard deviation of log2 of their magnitude, in binades", 0.01, 16},
      {"binades_below", Type::integer, "2", "repairs: the update is about 0.8 times 2^-this of the largest lost one", 0, 20},
      {"repair_steps", Type::integer, "4096", "repairs: most steps", 1, 100'000},
      {"seeds", Type::integer, "200", "repairs: runs of stochastic rounding", 10, 10'000},
      {"random_bits", Type::integers, "2,4,8,32", "repairs: random bits of stochastic rounding", 1, max_random_bits},
      {"training_steps", Type::integer, "20000", "steps of the least-squares training", 100, 1e6},
      {"training_lr", Type::real, "0.0005", "its learning rate", 1e-6, 0.05},
  };
}

void run(const Config& config, Run& run) {
  report_thresholds(config, run);
  report_ratios(config, run);
  report_population(config, run);
  report_repairs(config, run);
  report_random_bits(config, run);
  report_least_squares(config, run);
}

}  // namespace

Experiment swamping_experiment() {
  return {"swamping", "Updates swamped by their weights, and what repairs it",
          "When does w + lr*g give w again, and how do master weights, Kahan and stochastic rounding repair it?", parameters, run,
          {"repairs", {"format", "method", "bits_per_weight", "exact", "weight", "error", "arrived"}}};
}

}  // namespace halfulp
