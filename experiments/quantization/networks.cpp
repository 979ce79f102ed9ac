#include <halfulp/experiments/quantization/quantization.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/training/record_fields.hpp>
#include <halfulp/training/trainer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

namespace halfulp::quantization {
namespace {

using trainings::Data;
using trainings::Job;

constexpr std::size_t most_values = 1 << 20;  ///< of a layer's inputs that calibration looks at

Json rounded(double x) { return number(trainings::difference(x, 0)); }

/// A network's test as a trial keeps it: with each example, which doubts need.
struct Tested {
  training::TestResult result;
};
template <class V>
void fields(V& v, Tested& t) {
  v("loss", t.result.loss);
  v("accuracy", t.result.accuracy);
  v("examples", t.result.examples);
}

/// The same of MethodResults.
struct TestedByMethods {
  Tested fp32, fp16, per_tensor, vector_wise, split;
  double columns = 0, outliers = 0, in_int8 = 0;
};
template <class V>
void fields(V& v, TestedByMethods& m) {
  v("fp32", m.fp32);
  v("fp16", m.fp16);
  v("per_tensor", m.per_tensor);
  v("vector_wise", m.vector_wise);
  v("split", m.split);
  v("columns", m.columns);
  v("outliers", m.outliers);
  v("in_int8", m.in_int8);
}

std::string digest_of_values(const training::NetworkValues& values) {
  std::vector<double> all;
  for (const auto& [name, x] : values) all.insert(all.end(), x.begin(), x.end());
  return digest_of(all);
}

class NetworkRun {
 public:
  NetworkRun(const Config& config, const Data& data, const std::string& network, Run& run, double from, double to)
      : config_(config),
        data_(data),
        network_(network),
        run_(run),
        from_(from),
        to_(to),
        fp32_(training::find_policy("fp32")),
        seeds_(static_cast<std::size_t>(config.integer("seeds"))),
        aware_(aware_calibration(config)),
        aware_weights_(aware_.method == Method::mse ? Method::mse : Method::max) {}

  NetworkOutcome go(const NetworkTables& to) {
    auto& [tables, calibration, outliers, runs] = to;
    outcome_.missing = data_.missing(network_);
    if (!outcome_.missing.empty()) return outcome_;
    learn(runs);
    if (!outcome_.missing.empty()) return outcome_;
    for (const LayerInputs& layer : learned_.front().layers) {
      calibration.add(network_, layer.name, "activations", layer.sample);
      calibration.add(network_, layer.name, "weights", learned_.front().values.at(layer.name + ".weight"));
    }
    calibrate();
    run_.progress(at(0.45));
    after_training(tables);
    one_layer(tables);
    run_.progress(at(0.65));
    check();
    outliers.add_network(network_, learned_.front());
    as_trained(tables);
    if (network_ == "mlp") plant(tables);
    run_.progress(at(0.7));
    train_on(tables, runs);
    return outcome_;
  }

 private:
  double at(double part) const { return from_ + (to_ - from_) * part; }
  std::uint64_t seed(std::size_t i) const { return static_cast<std::uint64_t>(config_.integer("seed")) + i; }
  std::vector<bool> granularities() const {
    std::vector<bool> all;
    for (const std::string& name : config_.choices("granularity")) all.push_back(name == "channel");
    return all;
  }

  void learn(trainings::Tables& runs) {
    const auto examples = data_.examples(config_, network_);
    std::vector<Job> jobs;
    learned_.resize(seeds_);
    for (std::size_t i = 0; i < seeds_; ++i) {
      jobs.push_back(make_job(config_, network_, fp32_, "fp32", seed(i), data_, *examples));
      jobs.back().keepsake = {"values", [](training::Trainer& trainer) { return training::to_json(trainer.values()); },
                              [this, i, settings = jobs.back().settings](const Json& made, const std::string& where) {
                                const auto own = data_.examples(config_, network_);
                                training::Trainer trainer(settings, fp32_, *own);
                                learned_[i].values = training::values_from_json(made, where);
                                trainer.start_from(learned_[i].values);
                                learned_[i].fp32 = trainer.test();
                                learned_[i].layers = layer_inputs(
                                    trainer, *own, static_cast<std::size_t>(config_.integer("calibration_batches")),
                                    most_values);
                              }};
    }
    const auto records = train(jobs, data_, config_, run_, at(0), at(0.4));
    first_ = jobs.front();
    for (std::size_t i = 0; i < seeds_; ++i) {
      runs.add(jobs[i], records[i], i == 0);
      outcome_.fp32.add(learned_[i].fp32);
      bool finite = !records[i].diverged;
      for (const LayerInputs& layer : learned_[i].layers) finite = finite && !training::has_non_finite(layer.sample);
      if (!finite)
        outcome_.missing = fmt::format("the training of {} in FP32 with the seed {} ended in Inf or NaN", network_,
                                       seed(i));
    }
  }

  void calibrate() {
    std::vector<Calibration> wanted = calibrations_of(config_);
    if (std::find(wanted.begin(), wanted.end(), aware_) == wanted.end()) wanted.push_back(aware_);
    const std::vector<int> widths = bits_of(config_);
    const std::size_t layers = learned_.front().layers.size(), each = widths.size() * wanted.size(),
                      of_seed = layers * each;
    const auto place = [&](std::size_t i) {
      return std::tuple(i / of_seed, i % of_seed / each, widths[i % each / wanted.size()], wanted[i % wanted.size()]);
    };
    const std::vector<float> all = parallel_map(seeds_ * of_seed, [&](std::size_t i) {
      const auto [s, l, bits, by] = place(i);
      return calibrated_amax(by, learned_[s].layers[l].sample, integers(bits, false));
    });
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto [s, l, bits, by] = place(i);
      learned_[s].activation_amax[{learned_[s].layers[l].name, bits, by}] = all[i];
    }
  }

  /// A network of that seed under a policy.
  training::TestResult judge(std::size_t s, const training::Policy& policy,
                             const training::NetworkValues& values) const {
    const auto examples = data_.examples(config_, network_);
    training::TrainerSettings settings = first_.settings;
    settings.seed = seed(s);
    training::Trainer trainer(settings, policy, *examples);
    trainer.start_from(values);
    return trainer.test();
  }

  /// A network to test: its seed's place, what the test is called, a policy and values.
  struct Question {
    std::size_t s;
    std::string name;
    training::Policy policy;
    const training::NetworkValues* values;
  };
  std::vector<training::TestResult> tests(const std::vector<Question>& questions) const {
    std::vector<Trial> asked;
    for (const Question& q : questions) asked.push_back(trial_of(q.s, q.name, q.policy, *q.values));
    const auto found = trials<Tested>(run_, {"network_tests", 1}, asked, 0, 0, [&](std::size_t i, Trace&) {
      return Tested{judge(questions[i].s, questions[i].policy, *questions[i].values)};
    });
    std::vector<training::TestResult> results;
    for (const Tested& t : found) results.push_back(t.result);
    return results;
  }
  Trial trial_of(std::size_t s, const std::string& name, const training::Policy& policy,
                 const training::NetworkValues& values) const {
    Job job = first_;
    job.settings.seed = seed(s), job.policy = &policy;
    Json item = trainings::identity_of(job, config_, data_);
    item["values"] = digest_of_values(values);
    return {fmt::format("{} {} {}", network_, name, seed(s)), std::move(item)};
  }

  void after_training(ResultTables& tables) {
    tables.accuracy.row({network_, 32, nullptr, nullptr, nullptr, rounded(outcome_.fp32.mean()), 0.0, 0.0});
    std::vector<Variant> variants;
    for (const int bits : bits_of(config_))
      for (const bool per_channel : granularities())
        for (const std::string& weights : config_.choices("weight_methods"))
          for (const Calibration& activations : calibrations_of(config_))
            variants.push_back({bits, per_channel, value_named(methods, "method", weights), activations});
    // Calibrating weights takes longer than a test: once for all calibrations of activations.
    const std::size_t each = calibrations_of(config_).size();
    const auto weights = parallel_map(variants.size() / each * seeds_, [&](std::size_t i) {
      return values_of(variants[i / seeds_ * each], learned_[i % seeds_]);
    });
    std::vector<Question> questions;
    for (std::size_t i = 0; i < variants.size() * seeds_; ++i) {
      const Variant& v = variants[i / seeds_];
      questions.push_back(
          {i % seeds_,
           fmt::format("{} bits, {}, {}, {}", v.bits, v.granularity(), name_of(v.weights), v.activations.name()),
           policy_of(v, learned_[i % seeds_]), &weights[i / seeds_ / each * seeds_ + i % seeds_]});
    }
    const auto tested = tests(questions);
    for (std::size_t i = 0; i < variants.size(); ++i) {
      trainings::Spread& spread = outcome_.ptq[variants[i]];
      for (std::size_t s = 0; s < seeds_; ++s) spread.add(tested[i * seeds_ + s]);
      const trainings::Standing to_fp32 = standing(spread, outcome_.fp32);
      tables.accuracy.row({network_, variants[i].bits, variants[i].granularity(), name_of(variants[i].weights),
                           variants[i].activations.name(), rounded(spread.mean()), number(to_fp32.difference),
                           number(to_fp32.doubt)});
    }
  }

  void one_layer(ResultTables& tables) {
    const std::vector<int> widths = bits_of(config_);
    const std::vector<LayerInputs>& layers = learned_.front().layers;
    const std::size_t count = layers.size() * widths.size() * seeds_;
    const auto variant = [&](std::size_t i) {
      return Variant{widths[i / seeds_ % widths.size()], true, aware_weights_, aware_};
    };
    const auto layer_name = [&](std::size_t i) { return layers[i / seeds_ / widths.size()].name; };
    const auto weights = parallel_map(
        count, [&](std::size_t i) { return values_of(variant(i), learned_[i % seeds_], layer_name(i)); });
    std::vector<Question> questions;
    for (std::size_t i = 0; i < count; ++i)
      questions.push_back({i % seeds_, fmt::format("{} alone, {} bits", layer_name(i), variant(i).bits),
                           policy_of(variant(i), learned_[i % seeds_], layer_name(i)), &weights[i]});
    const auto tested = tests(questions);
    for (std::size_t i = 0; i < layers.size() * widths.size(); ++i) {
      trainings::Spread spread;
      for (std::size_t s = 0; s < seeds_; ++s) spread.add(tested[i * seeds_ + s]);
      const trainings::Standing to_fp32 = standing(spread, outcome_.fp32);
      const LayerInputs& layer = layers[i / widths.size()];
      const int bits = widths[i % widths.size()];
      tables.layers.row({network_, layer.name, bits, layer.features,
                         sums_are_exact(layer.features, bits) ? "true" : "false", rounded(spread.mean()),
                         number(to_fp32.difference), number(to_fp32.doubt)});
    }
  }

  /// Products of every layer against sums of integers, where fp32 holds these.
  void check() {
    for (const LayerInputs& layer : learned_.front().layers)
      for (const int bits : bits_of(config_))
        for (const bool per_channel : granularities()) {
          if (!sums_are_exact(layer.features, bits)) continue;
          const IntegerCheck one = check_integers({bits, per_channel, Method::max, aware_}, learned_.front(), layer,
                                                  64);
          outcome_.integers.compared += one.compared, outcome_.integers.differ += one.differ;
        }
  }

  /// Networks of every seed by each method.
  MethodSpreads by_methods(const std::vector<training::NetworkValues>& values, const std::string& counted) const {
    std::vector<Trial> asked;
    for (std::size_t s = 0; s < seeds_; ++s) {
      asked.push_back(trial_of(s, "by every method", fp32_, values[s]));
      asked.back().item["threshold"] = config_.real("threshold");
      asked.back().item["counted"] = counted;
    }
    const auto found = trials<TestedByMethods>(run_, {"network_methods", 1}, asked, 0, 0, [&](std::size_t s, Trace&) {
      const auto examples = data_.examples(config_, network_);
      training::TrainerSettings settings = first_.settings;
      settings.seed = seed(s);
      training::Trainer trainer(settings, fp32_, *examples);
      const MethodResults m = by_method(trainer, values[s], config_.real("threshold"), *examples, counted);
      return TestedByMethods{{m.fp32},  {m.fp16},  {m.per_tensor}, {m.vector_wise},
                             {m.split}, m.columns, m.outliers,     m.in_int8};
    });
    std::vector<MethodResults> results;
    for (const TestedByMethods& m : found)
      results.push_back({m.fp32.result, m.fp16.result, m.per_tensor.result, m.vector_wise.result, m.split.result,
                         m.columns, m.outliers, m.in_int8});
    return MethodSpreads(results);
  }

  /// A row for each method, after `first` cells, against what FP32 answered.
  void methods_rows(Table& table, const std::vector<Json>& first, const MethodSpreads& m,
                    const trainings::Spread& reference) const {
    const auto row = [&](const char* method, double outliers, double in_int8, const trainings::Spread& spread) {
      const trainings::Standing to_fp32 = standing(spread, reference);
      std::vector<Json> cells = first;
      for (const Json& cell : {Json(method), rounded(outliers), rounded(in_int8), rounded(spread.mean()),
                               number(to_fp32.difference), number(to_fp32.doubt)})
        cells.push_back(cell);
      table.row(std::move(cells));
    };
    row("fp32", m.columns, 0, m.fp32);
    row("fp16", m.columns, 0, m.fp16);
    row("int8 tensor", 0, 1, m.per_tensor);
    row("int8 vector-wise", 0, 1, m.vector_wise);
    row("split", m.outliers, m.in_int8, m.split);
  }

  void as_trained(ResultTables& tables) {
    std::vector<training::NetworkValues> values;
    for (const LearnedNetwork& learned : learned_) values.push_back(learned.values);
    outcome_.as_trained = by_methods(values, "");
    methods_rows(tables.as_trained, {network_}, outcome_.as_trained, outcome_.fp32);
  }

  void plant(ResultTables& tables) {
    for (const double ratio : config_.reals("planted")) {
      NetworkOutcome::Planted& p = outcome_.planted[ratio];
      std::vector<training::NetworkValues> values;
      for (const LearnedNetwork& learned : learned_) {
        PlantedNetwork planted = plant_outliers(learned, static_cast<std::size_t>(config_.integer("outlier_features")),
                                                ratio);
        p.exact = p.exact && planted.exact;
        values.push_back(std::move(planted.values));
      }
      p.before = outcome_.fp32;
      p.with = by_methods(values, learned_.front().layers.back().name);
      methods_rows(tables.planted, {network_, number(ratio)}, p.with, p.before);
    }
  }

  void train_on(ResultTables& tables, trainings::Tables& runs) {
    const auto examples = data_.examples(config_, network_);
    std::vector<Variant> variants;
    for (const int bits : bits_of(config_))
      for (const bool per_channel : granularities()) variants.push_back({bits, per_channel, aware_weights_, aware_});
    std::deque<training::Policy> policies;  // jobs point to them
    std::deque<training::NetworkValues> starts;
    std::vector<Job> jobs;
    for (std::size_t v = 0; v <= variants.size(); ++v)
      for (std::size_t s = 0; s < seeds_; ++s) {
        const bool in_fp32 = v == variants.size();
        policies.push_back(in_fp32 ? fp32_ : policy_of(variants[v], learned_[s], "", true));
        starts.push_back(in_fp32 ? learned_[s].values : values_of(variants[v], learned_[s]));
        Job job = make_job(config_, network_, policies.back(), in_fp32 ? "fp32-on" : policies.back().name, seed(s),
                           data_, *examples);
        job.label += "-on";
        job.start = {{"pre-training", to_json(first_.settings)},
                     {"calibration", {config_.integer("calibration_batches"), aware_.percent}}};
        training::TrainerSettings& settings = job.settings;
        settings.optimizer.lr = config_.real("qat_lr");
        const auto asked = static_cast<std::uint64_t>(config_.integer("qat_steps"));
        if (asked > 0) settings.steps = asked;
        else if (network_ != "transformer")
          settings.steps = std::max<std::uint64_t>(
              1, static_cast<std::uint64_t>(
                     std::llround(config_.real("qat_epochs") * static_cast<double>(examples->steps_per_epoch()))));
        const auto intervals = static_cast<std::uint64_t>(config_.integer("intervals"));
        settings.interval = std::max<std::uint64_t>(1, (settings.steps + intervals - 1) / intervals);
        const std::size_t place = jobs.size();
        job.prepare = [&starts, place](training::Trainer& trainer) { trainer.start_from(starts[place]); };
        jobs.push_back(std::move(job));
      }
    std::vector<Question> questions;
    for (std::size_t i = 0; i < jobs.size(); ++i)
      questions.push_back({i % seeds_, jobs[i].variant + " before training", policies[i], &starts[i]});
    const auto before = tests(questions);
    const auto records = train(jobs, data_, config_, run_, at(0.7), at(1));
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      runs.add(jobs[i], records[i], i % seeds_ == 0);
      if (i / seeds_ == variants.size()) outcome_.continued.add(records[i]);
    }
    tables.qat.row({network_, 32, nullptr, rounded(outcome_.fp32.mean()), rounded(outcome_.fp32.mean()),
                    rounded(outcome_.continued.mean()), rounded(outcome_.continued.mean() - outcome_.fp32.mean()), 0.0,
                    0.0, jobs.back().settings.steps});
    for (std::size_t v = 0; v < variants.size(); ++v) {
      AwareOutcome& o = outcome_.aware[{variants[v].bits, variants[v].per_channel}];
      for (std::size_t i = v * seeds_; i < (v + 1) * seeds_; ++i) {
        o.ptq.add(before[i]);
        o.qat.add(records[i]);
      }
      const trainings::Standing s = standing(o.qat, outcome_.continued);
      tables.qat.row({network_, variants[v].bits, variants[v].granularity(), rounded(outcome_.fp32.mean()),
                      rounded(o.ptq.mean()), rounded(o.qat.mean()), rounded(o.qat.mean() - o.ptq.mean()),
                      number(s.difference), number(s.doubt), jobs[v * seeds_].settings.steps});
    }
  }

  const Config& config_;
  const Data& data_;
  std::string network_;
  Run& run_;
  double from_, to_;
  training::Policy fp32_;
  std::size_t seeds_;
  Calibration aware_;
  Method aware_weights_;
  std::vector<LearnedNetwork> learned_ = {};  ///< a seed each
  Job first_ = {};                            ///< of the first training
  NetworkOutcome outcome_ = {};
};

}  // namespace

NetworkOutcome run_network(const Config& config, const Data& data, const std::string& network, Run& run, double from,
                           double to, const NetworkTables& tables) {
  return NetworkRun(config, data, network, run, from, to).go(tables);
}

}  // namespace halfulp::quantization
