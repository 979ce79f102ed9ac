// What brings a swamped update back: FP32 master weights, Kahan compensation, stochastic rounding.
#include <halfulp/data/distributions.hpp>
#include <halfulp/data/statistics.hpp>
#include <halfulp/emulation/random.hpp>
#include <halfulp/experiments/swamping/drift.hpp>
#include <halfulp/experiments/swamping/swamping.hpp>
#include <halfulp/experiments/publications.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace halfulp::swamping {
namespace {

struct Moments {
  double mean, deviation;
  double beyond;  ///< probability of having left the format's range, which neither counts
};

/// Expectation and standard deviation of such a weight, exactly (to double rounding): the chain over neighbouring
/// numbers, each step going up with probability floor(u/gap 2^r) / 2^r. u is less than every gap. A step up from the
/// largest number leaves the range for Infinity or NaN; a format without them stays.
Moments stochastic_moments(const Drift& drift, int random_bits) {
  const FloatFormat& f = drift.choice.format;
  const double resolution = FloatFormat::power_of_two(random_bits);
  const std::size_t states = f.max_finite() - drift.one + 1;
  std::vector<double> probability{1}, up;
  double beyond = 0;
  for (std::int64_t i = 0; i < drift.steps; ++i) {
    stop_if_interrupted();  // seconds of work for many steps in a wide format, none of it emulated
    while (up.size() < probability.size()) {
      const bool stays = up.size() + 1 == states && !f.has_nan();
      up.push_back(
          stays ? 0
                : std::floor(drift.u / FloatFormat::power_of_two(f.exponent(drift.one + up.size())) * resolution) /
                      resolution);
    }
    const double leaving = probability.back() * up[probability.size() - 1];
    if (probability.size() == states) beyond += leaving;
    else if (leaving > 1e-300) probability.push_back(0);
    for (std::size_t k = probability.size(); k-- > 0;)
      probability[k] = probability[k] * (1 - (k < up.size() ? up[k] : 0)) +
                       (k > 0 ? probability[k - 1] * up[k - 1] : 0);
  }
  double mean = 0, variance = 0;
  for (std::size_t k = 0; k < probability.size(); ++k) mean += probability[k] * f.value(drift.one + k);
  for (std::size_t k = 0; k < probability.size(); ++k) {
    const double d = f.value(drift.one + k) - mean;
    variance += probability[k] * d * d;
  }
  return {mean, std::sqrt(variance), beyond};
}

/// A weight's error in units of the last place of numbers from 1 to 2.
double ulps(const Drift& drift, double w) { return (w - 1 - drift.way) / drift.choice.format.epsilon(); }

void report_stochastic(const Drift& drift, const Config& config, Table& table, Table& repairs, Course& course,
                       Run& run) {
  const FloatFormat& f = drift.choice.format;
  const std::string name = format_name(f);
  const auto runs = static_cast<std::size_t>(config.integer("seeds"));
  const auto bits = config.integers("random_bits");
  const auto most = *std::max_element(bits.begin(), bits.end());
  for (const auto r : bits) {
    const std::vector<double> finals = stochastic_sums(drift, static_cast<int>(r), runs,
                                                       static_cast<std::uint64_t>(config.integer("seed")));
    const MeanInterval interval = mean_interval(finals);
    const Moments predicted = stochastic_moments(drift, static_cast<int>(r));
    table.row({drift.choice.name, r, runs, number(interval.mean), number(interval.low), number(interval.high),
               number(drift.exact), interval.contains(drift.exact), number(predicted.mean),
               number(predicted.deviation)});
    // One step more than the standard errors, for steps so rare that their number is no normal variable.
    const double tolerance = 5 * predicted.deviation / std::sqrt(static_cast<double>(runs)) +
                             f.epsilon() / static_cast<double>(runs) + 1e-12;
    const bool in_range = predicted.beyond * static_cast<double>(runs) < 1e-9;
    const std::string out_of_range = "a weight may leave the range of this format";
    const std::string chain_id = fmt::format("stochastic-{}-{}-bits", name, r);
    const std::string chain = fmt::format(
        "Stochastic rounding with {} random bits takes the weight in {} to where the exact chain of its probabilities "
        "predicts, which is 1 where no step can be seen (mean over {} seeds).",
        r, drift.choice.name, runs);
    const Citation chain_source{
        publications::few_random_bits,
        "derived: each step goes up with probability floor(2^r u/ulp) / 2^r; tolerance 5 standard errors and one step "
        "of one run"};
    run.report.claim({chain_id, chain, chain_source},
                     in_range ? within(predicted.mean, tolerance, interval.mean, "oracle") : skipped(out_of_range));
    if (r != most) continue;
    show_stochastic(drift, static_cast<int>(r), runs, static_cast<std::uint64_t>(config.integer("seed")), course);
    repairs.row({drift.choice.name, "stochastic", f.storage_bits(), drift.steps, number(drift.u), number(interval.mean),
                 number(drift.exact), number(ulps(drift, interval.mean)), number((interval.mean - 1) / drift.way)});
    const std::string unbiased = fmt::format(
        "Stochastic rounding is right on average in {}: its mean is the exact weight.", drift.choice.name);
    const Citation source{
        publications::few_random_bits,
        "Croci et al., Stochastic rounding: implementation, error analysis and applications, R. Soc. Open Sci. 2022, "
        "section 2; tolerance 5 standard errors and one step of one run"};
    if (!in_range) run.report.claim({"stochastic-unbiased-" + name, unbiased, source}, skipped(out_of_range));
    else if (std::fabs(predicted.mean - drift.exact) <= tolerance / 10)
      run.report.claim({"stochastic-unbiased-" + name, unbiased, source},
                       within(drift.exact, tolerance, interval.mean, "oracle"));
    else
      run.report.claim({"stochastic-unbiased-" + name, unbiased, source},
                       skipped(fmt::format("{} random bits are too few for this update", r)));
  }
}

}  // namespace

void report_repairs(const Config& config, Run& run) {
  Table& repairs = run.report.table(
      "repairs", "A swamped update, many steps, and what repairs it",
      {
          {"format", "", "Format of weight and update."},
          {"method", "", "What is done about it: nearest-even (nothing), fp32-master, kahan, stochastic."},
          {"bits_per_weight", "bit", "Storage: the weight, and its FP32 master or its compensation."},
          {"steps", "step", "How many steps; fewer than asked where the exact weight reaches 1.5."},
          {"update", "1", "Update u = fl(lr * g), the same at each step."},
          {"weight", "1",
           "Weight after all steps from 1; of stochastic rounding the mean over seeds, with the most random bits."},
          {"exact", "1", "Exact weight: 1 + steps * u."},
          {"error", "ulp", "Error weight - exact, in ulps of the format at 1."},
          {"arrived", "1", "Share of the way: (weight - 1) / (exact - 1); 1 is right, 0 is all lost."},
      });
  Table& stochastic = run.report.table(
      "stochastic", "Stochastic rounding over many seeds, with few and many random bits",
      {
          {"format", "", "Format of weight and update."},
          {"random_bits", "bit", "Random bits a rounding."},
          {"seeds", "run", "Independent runs."},
          {"mean", "1", "Mean weight after all steps."},
          {"low", "1", "Lower end of its 95 % confidence interval, by Student's t."},
          {"high", "1", "Upper end of that interval."},
          {"exact", "1", "Exact weight."},
          {"exact_inside", "", "Whether the interval holds the exact weight; by chance 1 in 20 does not."},
          {"predicted_mean", "1", "Expectation of one run, from the exact probabilities."},
          {"predicted_deviation", "1", "Standard deviation of one run, from the exact probabilities."},
      });
  Course course(run);
  for (const FormatChoice& choice : formats_around_one(config)) {
    const FloatFormat& f = choice.format;
    const std::string name = format_name(f);
    const Drift drift = make_drift(choice, config);
    const auto n = static_cast<double>(drift.steps);
    const std::string lost = fmt::format("To nearest even {} swamped updates leave {} at 1.", drift.steps, choice.name);
    if (!(drift.u > 0 && drift.u <= f.epsilon() / 2)) {  // NaN: a learning rate so small that g overflows
      run.report.claim({"repair-" + name, lost, "derived: 1 + u = 1"},
                       skipped("lr * g does not give a swamped update in this format"));
      continue;
    }
    const auto row = [&](const char* method, int bits, double w) {
      repairs.row({choice.name, method, bits, drift.steps, number(drift.u), number(w), number(drift.exact),
                   number(ulps(drift, w)), number((w - 1) / drift.way)});
    };
    Arithmetic in(f, {}, &run.trace);
    const auto show = [&](const char* method) {
      return [&, method](std::int64_t step, std::uint64_t w) { course.add(drift, method, step, f.value(w)); };
    };
    for (std::int64_t step = 0; step <= std::min(drift.steps, shown_steps); ++step)
      course.add(drift, "exact", step, 1 + static_cast<double>(step) * drift.u);
    const double plain = in.value(plain_sum(drift, in, show("nearest-even")));
    row("nearest-even", f.storage_bits(), plain);
    run.report.claim({"plain-" + name, lost, "derived: 1 + u = 1 for u of at most half an ulp"},
                     exactly(1.0, number(plain), "oracle"));

    const std::string master_text = fmt::format(
        "An FP32 master weight keeps the updates: the {} weight cast from it is right to half an ulp.", choice.name);
    const char* master_source =
        "derived: half an ulp for the cast, half an FP32 ulp a step; Micikevicius et al., ICLR 2018, section 3.1";
    if (f.precision() < fp32.precision() && f.emin() >= fp32.emin()) {
      Arithmetic wide(fp32, {}, &run.trace);
      std::uint64_t master = wide.encode(1);
      const std::uint64_t update = wide.convert_from(f, drift.update);
      for (std::int64_t i = 0; i < drift.steps; ++i) {
        if (i <= shown_steps) course.add(drift, "fp32-master", i, f.value(convert(fp32, f, {}, master).code));
        master = wide.add(master, update);
      }
      const double w = in.value(in.convert_from(fp32, master));
      course.add(drift, "fp32-master", drift.steps, w);
      row("fp32-master", f.storage_bits() + fp32.storage_bits(), w);
      run.report.claim({"master-" + name, master_text, master_source},
                       at_most(0.5 + n * fp32.epsilon() / 2 / f.epsilon(), std::fabs(ulps(drift, w)), "oracle"));
    } else {
      run.report.claim({"master-" + name, master_text, master_source}, skipped("FP32 is no wider than this format"));
    }

    const double compensated = in.value(kahan_sum(drift, in, show("kahan")));
    row("kahan", 2 * f.storage_bits(), compensated);
    run.report.claim(
        {"kahan-" + name,
         fmt::format(
             "Kahan compensation keeps the updates in two {} numbers: the weight is right to half an ulp and what the "
             "compensation itself rounds.",
             choice.name),
         "derived: half an ulp, and 2^-p ulp a step for update - compensation; Kahan 1965; Higham, Accuracy and "
         "Stability "
         "of Numerical Algorithms, section 4.3"},
        at_most(0.5 + n * f.epsilon() / 2, std::fabs(ulps(drift, compensated)), "oracle"));
    report_stochastic(drift, config, stochastic, repairs, course, run);
    run.progress(0.8);
  }
}

void report_random_bits(const Config& config, Run& run) {
  Table& table = run.report.table(
      "random_bits", "How far stochastic rounding with few random bits leans toward zero",
      {
          {"format", "", "Format of the rounded number."},
          {"random_bits", "bit", "Random bits r a rounding."},
          {"cases", "conversion", "How many: every tail of 10 bits with every random number."},
          {"bias", "ulp", "Mean of rounded - exact over all of them."},
          {"predicted", "ulp", "Bias in closed form: -(2^-r - 2^-10) / 2, near -2^-(r+1)."},
      });
  constexpr int tail_bits = 10;
  constexpr std::uint64_t tails = 1 << tail_bits;
  for (const FormatChoice& choice : formats_around_one(config)) {
    const FloatFormat& f = choice.format;
    const std::string statement = fmt::format(
        "With r random bits, truncated, stochastic rounding to {} is too small by nearly 2^-(r+1) ulp on average.",
        choice.name);
    const Citation source{publications::few_random_bits,
                          "derived: the mean over all tails of floor(2^r tail) / 2^r - tail"};
    Json expected = Json::object(), measured = Json::object();
    for (const int r : {1, 2, 3, 4, 6, 8}) {
      if (f.fraction_bits + tail_bits > fp64.fraction_bits) break;
      Rounding rounding;
      rounding.mode = RoundingMode::stochastic;
      rounding.random_bits = r;
      Arithmetic in(f, rounding);
      std::int64_t excess = 0;  // of rounded - exact, in 2^-10 ulp
      for (std::uint64_t tail = 0; tail < tails; ++tail) {
        const double x = 1 + f.epsilon() * (static_cast<double>(tail) / tails);
        for (std::uint64_t random = 0; random < std::uint64_t{1} << r; ++random)
          excess += (in.value(in.encode(x, random)) > 1 ? static_cast<std::int64_t>(tails) : 0) -
                    static_cast<std::int64_t>(tail);
      }
      const auto cases = tails << r;
      const double bias = static_cast<double>(excess) / static_cast<double>(tails) / static_cast<double>(cases);
      const double predicted = -(FloatFormat::power_of_two(-r) - FloatFormat::power_of_two(-tail_bits)) / 2;
      table.row({choice.name, r, cases, number(bias), number(predicted)});
      expected[std::to_string(r)] = number(predicted);
      measured[std::to_string(r)] = number(bias);
    }
    const std::string id = "random-bits-bias-" + format_name(f);
    run.report.claim({id, statement, source}, expected.empty()
                                                  ? skipped("tails of this format do not fit into a double")
                                                  : exactly(expected, measured, "oracle"));
  }
}

// What swamped updates do to training: stochastic gradient descent on a least-squares model.

namespace {

const Citation zamirai{
    publications::pure_bf16,
    "Zamirai, Zhang, Aberger & De Sa, Revisiting BFloat16 Training, arXiv 2010.06192, sections 3 and 5"};
constexpr std::uint64_t input_stream = 700, noise_stream = 800, truth_stream = 801, rounding_stream = 900;
constexpr std::size_t dimensions = 10;
constexpr double noise = 0.5;

enum class Method : std::uint8_t { nearest, fp32_master, kahan, stochastic };
constexpr std::array<std::pair<Method, const char*>, 4> methods{{{Method::nearest, "nearest-even"},
                                                                 {Method::fp32_master, "fp32-master"},
                                                                 {Method::kahan, "kahan"},
                                                                 {Method::stochastic, "stochastic"}}};

struct Training {
  double loss = 0;                      ///< mean of (prediction - target)^2 / 2 over the last quarter of the steps
  std::uint64_t updates = 0, lost = 0;  ///< non-zero gradients in that quarter; those that left their weight unchanged
  Trace trace{0};
};

/// w -= lr * g for one weight in one format, with whatever the method keeps beside it. The gradient is computed from
/// the weight in doubles: only what is under study is rounded.
class Weight {
 public:
  Weight(const FloatFormat& f, Method method)
      : method_(method), w_(f.zero()), compensation_(f.zero()), master_(fp32.zero()) {}
  std::uint64_t code() const { return w_; }

  /// `product` rounds lr * g to nearest in every method; stochastic rounding is for the sum in `in`.
  void update(Arithmetic& in, Arithmetic& product, Arithmetic& wide, double lr, std::uint64_t g, std::uint64_t random) {
    if (method_ == Method::fp32_master) {
      master_ = wide.sub(master_, wide.mul(wide.encode(lr), wide.convert_from(in.format(), g)));
      w_ = in.convert_from(fp32, master_);
      return;
    }
    const std::uint64_t u = product.mul(product.encode(lr), g);
    if (method_ != Method::kahan) {
      w_ = in.sub(w_, u, random);
      return;
    }
    const std::uint64_t y = in.sub(in.format().zero(), in.add(u, compensation_)), t = in.add(w_, y);
    compensation_ = in.sub(in.sub(t, w_), y);
    w_ = t;
  }

 private:
  Method method_;
  std::uint64_t w_, compensation_, master_;
};

Training train(const FloatFormat& f, Method method, const Config& config) {
  const auto steps = static_cast<std::uint64_t>(config.integer("training_steps")), measured = steps - steps / 4;
  const auto seed = static_cast<std::uint64_t>(config.integer("seed"));
  Training result{0, 0, 0, Trace(20'000)};
  Rounding rounding;
  if (method == Method::stochastic) rounding.mode = RoundingMode::stochastic;
  Arithmetic in(f, rounding, &result.trace), product(f, {}, &result.trace), wide(fp32, {}, &result.trace);
  const double lr = config.real("training_lr");

  std::vector<Weight> weights(dimensions, Weight(f, method));
  for (std::uint64_t step = 0; step < steps; ++step) {
    std::array<double, dimensions> x;
    double error = noise *
                   normal_sample(seed, noise_stream, step);  // prediction - target, summed from the first weight on
    for (std::size_t i = 0; i < dimensions; ++i) {
      x[i] = normal_sample(seed, input_stream + i, step);
      error += x[i] * (f.value(weights[i].code()) - 4 * uniform_sample(seed, truth_stream, i));
    }
    if (step >= measured) result.loss += error * error / 2;
    for (std::size_t i = 0; i < dimensions; ++i) {
      const std::uint64_t g = product.encode(error * x[i]), before = weights[i].code();
      weights[i].update(in, product, wide, lr, g, rounding_bits(seed, rounding_stream + i, step));
      if (step < measured || f.is_zero(g)) continue;
      ++result.updates;
      result.lost += f.value(weights[i].code()) == f.value(before);  // a master near zero may change its copy's sign
    }
  }
  result.loss /= static_cast<double>(steps - measured);
  return result;
}

}  // namespace

void report_least_squares(const Config& config, Run& run) {
  Table& table = run.report.table(
      "least_squares",
      "Training 10 weights of a noisy linear model by stochastic gradient descent, only the weights' updates rounded",
      {
          {"format", "", "Format of weights, gradients and updates."},
          {"method", "", "How w - lr * g is done; the fp32 row is the yardstick."},
          {"lr", "1", "Learning rate in that format; where it is 0, only the FP32 master weights can learn."},
          {"loss", "1", "Mean squared error / 2 over the last quarter of the steps; the noise alone makes 0.125."},
          {"relative_loss", "1", "Loss divided by the loss in fp32."},
          {"unchanged", "1",
           "Share of non-zero gradients in that quarter that left their weight as it was; null if all were zero."},
      });
  struct Job {
    FormatChoice choice;
    Method method;
    const char* name;
  };
  std::vector<Job> jobs{{{"fp32", fp32}, Method::nearest, "nearest-even"}};
  for (const FormatChoice& choice : formats_around_one(config))
    for (const auto& [method, name] : methods)
      if (choice.format != fp32) jobs.push_back({choice, method, name});
  const auto results = parallel_map(
      jobs.size(), [&](std::size_t j) { return train(jobs[j].choice.format, jobs[j].method, config); });
  const double yardstick = results.front().loss;
  const Training* bf16_results[methods.size()] = {};
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const Training& t = results[j];
    run.trace.append(t.trace);
    const FloatFormat& f = jobs[j].method == Method::fp32_master ? fp32 : jobs[j].choice.format;
    table.row({jobs[j].choice.name, jobs[j].name, emulated(f, encode(f, {}, config.real("training_lr")).code),
               number(t.loss), number(t.loss / yardstick), share(t.lost, t.updates)});
    if (jobs[j].choice.format == bf16) bf16_results[static_cast<std::size_t>(jobs[j].method)] = &t;
  }

  const auto claim = [&](std::string id, std::string statement, Method method, double bound, bool below) {
    const Training* t = bf16_results[static_cast<std::size_t>(method)];
    if (!t)
      return run.report.claim({std::move(id), std::move(statement), zamirai}, skipped("formats does not contain bf16"));
    const double measured = t->loss / yardstick;
    run.report.claim({std::move(id), std::move(statement), zamirai},
                     below ? at_most(bound, measured, may_differ()) : at_least(bound, measured, may_differ()));
  };
  // The paper's figures are accuracies of networks; of this model only the order of the methods carries over.
  claim("training-nearest",
        "Training with pure bf16 weights and nearest rounding ends clearly worse than fp32: here at least twice its "
        "loss.",
        Method::nearest, 2, false);
  claim("training-kahan", "With Kahan compensation it ends about where fp32 does: here within 5 % of its loss.",
        Method::kahan, 1.05, true);
  claim("training-stochastic", "With stochastic rounding it ends near fp32: here within 25 % of its loss.",
        Method::stochastic, 1.25, true);
  run.report.claim(
      {"training-without-master-weights",
       "A speech model trained without FP32 master weights lost 80 % relative accuracy.",
       {publications::fp16_updates, "Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.1"}},
      skipped("needs that model and its data; the table least_squares shows the mechanism"));
}

}  // namespace halfulp::swamping
