#include <halfulp/experiments/quantization/quantization.hpp>
#include <halfulp/report/trials.hpp>
#include <halfulp/support/work.hpp>
#include <halfulp/training/record_fields.hpp>
#include <halfulp/training/trainer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

namespace halfulp::quantization {
namespace {

constexpr const char* whitepaper =
    "Krishnamoorthi 2018, Quantizing deep convolutional networks for efficient inference, arXiv:1806.08342";
constexpr const char* principles = "Wu et al. 2020, Integer Quantization for Deep Learning Inference, arXiv:2004.09602";
constexpr const char* llm_int8 = "Dettmers et al. 2022, LLM.int8(), arXiv:2208.07339";

/// The basis of a published figure: missed by no more than noise does, it decides nothing.
Basis published(const std::string& why, bool within_doubt = false) {
  if (!within_doubt) return may_differ(why);
  return {"published", Verdict::skipped, "within doubt: " + why + "; more seeds or test images tell"};
}

}  // namespace

void claim_network(const Config& config, const std::string& network, const NetworkOutcome& o, Report& report) {
  const std::string of = fmt::format(" ({}, mean of {} seeds).", network, config.integer("seeds"));
  const auto find = [&](int bits, bool per_channel, const Calibration& activations = {}) {
    const auto found = o.ptq.find({bits, per_channel, Method::max, activations});
    return found == o.ptq.end() ? nullptr : &found->second;
  };
  const auto aware = [&](int bits, bool per_channel) {
    const auto found = o.aware.find({bits, per_channel});
    return found == o.aware.end() ? nullptr : &found->second;
  };
  const auto claim = [&](const std::string& id, const std::string& statement, const Citation& source, bool there,
                         const std::string& absent, auto&& judge) {
    report.claim({network + "-" + id, statement + of, source},
                 !o.missing.empty() ? o.missing
                 : there            ? ""
                                    : absent,
                 judge);
  };
  const auto doubts = [](const trainings::Spread& a, const trainings::Spread& b) {
    const trainings::Standing s = trainings::standing(a, b);
    return fmt::format("the difference is {:+.4f}, the doubt {:.4f} ({} seeds, {} examples each)", s.difference,
                       s.doubt, a.count(), b.examples());
  };
  /// Accuracy no lower than another by more than is allowed; missed by less than the doubt it may be noise.
  const auto keeps = [&](const trainings::Spread& it, const trainings::Spread& other, double allowed) {
    const trainings::Standing s = trainings::standing(it, other);
    return at_least(other.mean() - allowed, it.mean(),
                    published(doubts(it, other), s.difference + s.doubt >= -allowed));
  };
  /// Accuracy lower than another by more than the doubt; a difference within it may be noise.
  const auto loses = [&](const trainings::Spread& it, const trainings::Spread& other, const std::string& more) {
    const trainings::Standing s = trainings::standing(it, other);
    return at_most(-s.doubt, s.difference, published(doubts(it, other) + more, s.difference <= s.doubt));
  };
  constexpr double half_a_point = 0.005;
  // Whoever knows nothing loses nothing: ten classes are guessed with 0.1, the most frequent character of a text is
  // about as often there.
  const bool learned = o.missing.empty() && o.fp32.mean() >= 0.2;
  const std::string not_tested = !learned
                                     ? "FP32 itself is right in less than one case of five: there is nothing to lose"
                                     : "bits, granularity, methods or weight_methods do not contain this";

  const std::string integers = "Products of quantized layers are those of exact integer sums";
  claim("integer-sums-exact", integers, "derived: sums below 2^24 are exact in FP32", o.integers.compared > 0,
        "no layer's sums are below 2^24 in every width", [&] { return exactly(0u, o.integers.differ, "oracle"); });

  const trainings::Spread* const eight = find(8, true);
  const std::string workflow = std::string(principles) + ", abstract and section 5";
  claim("int8-within-1-percent",
        "INT8 with a scale an output, calibrated by the largest magnitude, keeps 99 % of FP32's accuracy", workflow,
        learned && eight, not_tested, [&] { return keeps(*eight, o.fp32, 0.01 * o.fp32.mean()); });
  const std::string abstract = std::string(whitepaper) + ", abstract";
  claim("int8-within-2-points",
        "Per-channel INT8 weights and per-layer INT8 activations are within 2 points of FP32's accuracy", abstract,
        learned && eight, not_tested, [&] { return keeps(*eight, o.fp32, 0.02); });
  const trainings::Spread *const four = find(4, false), *const four_channel = find(4, true);
  const std::string sections = std::string(whitepaper) + ", sections 3.1 and 4";
  claim("int4-tensor-loses",
        "INT4 with one scale a tensor, calibrated by the largest magnitude, loses accuracy when it is applied after "
        "training",
        sections, learned && four, not_tested, [&] { return loses(*four, o.fp32, ""); });
  const std::string channels = std::string(principles) + ", section 4.1, and Krishnamoorthi 2018, section 3.1.4";
  claim("int4-channel-no-worse",
        "A scale for each output of INT4 weights is no worse than one for all, to within half a point, both by the "
        "largest magnitude",
        channels, learned && four && four_channel, not_tested,
        [&] { return trainings::judge_no_worse(*four_channel, *four, half_a_point, "one scale"); });
  const std::vector<double> percents = config.reals("percentiles");
  const Calibration tightest{Method::percentile, *std::min_element(percents.begin(), percents.end())};
  const trainings::Spread *const eight_clipped = find(8, true, tightest), *const four_clipped = find(4, true, tightest);
  const std::string trade =
      "derived: what is clipped is lost at every width, and a step of INT4 is 16 times as long as one of INT8";
  claim("int8-clipping-loses",
        fmt::format("In INT8 activations clipped at their percentile {:g} lose accuracy against the largest magnitude",
                    tightest.percent),
        trade, learned && eight && eight_clipped, not_tested, [&] { return loses(*eight_clipped, *eight, ""); });
  claim("int4-clipping-gains", "In INT4 the same clipping gains accuracy", trade,
        learned && four_channel && four_clipped, not_tested, [&] { return loses(*four_channel, *four_clipped, ""); });
  const AwareOutcome *const aware8 = aware(8, true), *const aware4 = aware(4, true);
  claim("int8-qat-within-1-point", "Quantization-aware training is within 1 point of FP32's accuracy in 8 bits",
        abstract, learned && aware8, not_tested, [&] { return keeps(aware8->qat, o.continued, 0.01); });
  claim("int4-qat-within-10-points",
        "Quantization-aware training in 4 bits loses at most 10 points, of weights and activations here", abstract,
        learned && aware4, not_tested, [&] { return keeps(aware4->qat, o.continued, 0.1); });
  const std::string jacob =
      "Jacob et al. 2018, Quantization and Training of Neural Networks, arXiv:1712.05877, section 3; Krishnamoorthi "
      "2018, section 4";
  const std::vector<std::int64_t> widths = config.integers("bits");
  const auto narrowest = static_cast<int>(*std::min_element(widths.begin(), widths.end()));
  for (const int bits : std::set{4, narrowest}) {
    const AwareOutcome* const one = aware(bits, false);
    const std::string id = fmt::format("int{}-qat-recovers", bits),
                      statement = fmt::format(
                          "INT{}, one scale a tensor: training on with the roundings narrows the gap to FP32", bits);
    const bool lost = one && trainings::standing(one->ptq, o.fp32).below();
    claim(id, statement, jacob, lost,
          one ? "quantizing after training lost nothing that seeds and answers could tell" : not_tested, [&] {
            return at_most(o.fp32.mean() - one->ptq.mean(), o.continued.mean() - one->qat.mean(),
                           published(doubts(one->qat, o.continued)));
          });
  }
  const std::string quality = std::string(llm_int8) + ", section 3.3";
  claim("llm-int8-keeps-quality",
        "LLM.int8() is as accurate as FP32 where INT8 without the split is not, to within half a point", quality,
        learned, not_tested, [&] {
          return trainings::judge_repair(o.as_trained.split, o.as_trained.vector_wise, o.fp32, half_a_point, "fp32");
        });
  if (network != "mlp") return;  // only there are outlier columns planted
  const std::string none = "outlier_features is 0, or they have no effect",
                    same = "derived: (2^k x) (2^-k w) = x w, and ReLU(2^k x) = 2^k ReLU(x)";
  bool exact = !o.planted.empty(), any = exact;
  double before = 0, after = 0, worst = 0;
  const NetworkOutcome::Planted* worst_of = nullptr;
  for (const auto& [ratio, p] : o.planted) {
    exact = exact && p.exact, any = any && p.with.outliers > 0;
    before += p.before.mean(), after += p.with.fp32.mean();
    const trainings::Standing s = trainings::standing(p.with.vector_wise, p.before);
    if (s.below() && (!worst_of || s.difference < worst)) worst = s.difference, worst_of = &p;
  }
  claim("planted-columns-change-nothing",
        "Scaling hidden units and the weights behind them by powers of two leaves FP32's accuracy as it was: its sum "
        "over the ratios",
        same, exact, "weights are near the ends of FP32's range",
        [&] { return exactly(number(before), number(after), "oracle"); });
  claim(
      "split-keeps-quality",
      "With outlier columns in FP16 a network that plain INT8 hurts is as accurate as in FP32, to within half a point",
      quality, any && worst_of, any ? "plain INT8 loses nothing that seeds and answers can tell" : none,
      [&] { return trainings::judge_no_worse(worst_of->with.split, worst_of->before, half_a_point, "fp32"); });
  const auto twenty = o.planted.find(20);
  claim("plain-int8-loses-quality",
        "INT8 without that split loses accuracy on a network with outliers 20 times as large as other values",
        std::string(llm_int8) + ", sections 1 and 3.3", any && twenty != o.planted.end(),
        any ? "planted does not contain 20" : none, [&] {
          const NetworkOutcome::Planted &p = twenty->second, &most = o.planted.rbegin()->second;
          std::string more;
          if (&most != &p)
            more = fmt::format("; with outliers {:g} times as large it is {:+.4f}", o.planted.rbegin()->first,
                               trainings::standing(most.with.vector_wise, most.before).difference);
          return loses(p.with.vector_wise, p.before, more);
        });
}

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
