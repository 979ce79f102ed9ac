#include <halfulp/experiments/finetune/finetune.hpp>
#include <halfulp/experiments/learning_rates.hpp>
#include <halfulp/experiments/publications.hpp>

#include <halfulp/training/runs/runs.hpp>
#include <halfulp/training/runs/tables.hpp>
#include <halfulp/training/trainer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace halfulp::trainings {
namespace {

/// A policy whose accuracy on tuned classes is said to be fp32's.
struct AsGood {
  const char *policy, *statement;
  Citation source;
};
const AsGood as_good[] = {
    {"amp-fp16",
     "FP16 products and FP32 weights fine-tune as accurately as FP32.",
     {publications::mixed_precision, "Micikevicius et al. 2018, Mixed Precision Training, section 4"}},
    {"O2",
     "FP32 master weights of FP16 ones fine-tune as accurately as FP32.",
     {publications::mixed_precision, "Micikevicius et al. 2018, Mixed Precision Training, section 3.1"}},
    {"bf16-sr",
     "Stochastically rounded updates of BF16 weights fine-tune as accurately as FP32.",
     {publications::pure_bf16, "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5 (BERT on MNLI)"}},
    {"bf16-kahan",
     "Kahan-summed updates of BF16 weights fine-tune as accurately as FP32.",
     {publications::pure_bf16, "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5 (BERT on MNLI)"}},
    {"fp8-hybrid",
     "FP8 products, E4M3 forward and E5M2 backward, fine-tune as accurately as FP32.",
     {publications::fp8_training, "Micikevicius et al. 2022, FP8 Formats for Deep Learning, section 4"}},
};

std::string absent(const TuningOutcomes& outcomes, const std::string& network,
                   std::initializer_list<const char*> policies) {
  for (const char* const policy : policies)
    if (!outcomes.contains({network, policy})) return fmt::format("policies does not name {}", policy);
  return "";
}

/// The most that rounding n weights to a format can change, relative to their norm: half an ulp of each (a whole one
/// where rounding goes either way) is at most 2^-p of its value, or of subnormal size.
double most_error(const FloatFormat& f, bool nearest, bool flushed, const TuningSpread& spread) {
  const double unit = std::ldexp(1.0, nearest ? -f.precision() : 1 - f.precision());
  const double subnormal = std::ldexp(nearest ? 0.5 : 1.0, f.emin() - f.fraction_bits);
  return unit + std::sqrt(static_cast<double>(spread.parameters)) * (flushed ? std::ldexp(1.0, f.emin()) : subnormal) /
                    spread.smallest_norm;
}

}  // namespace

void claim_finetune(const Config& config, const Data& data, const std::vector<training::Policy>& policies,
                    const TuningOutcomes& outcomes, Report& report) {
  for (const std::string& network : config.choices("networks")) {
    const std::string of = fmt::format(" ({}, mean of {} seeds)", network, config.integer("seeds"));
    const std::string& missing = data.missing(network);
    const char* const rounding = "derived: rounding to the nearest changes a number by at most half an ulp";
    const std::string exact = "Weights that are kept in FP32 begin as pre-training left them" + of + ".";
    if (!missing.empty()) {
      report.claim({network + "-fp32-start", exact, rounding}, skipped(missing));
    } else {
      double largest = 0;
      for (const training::Policy& policy : policies)
        if (policy.update.weights.keeps_floats())
          largest = std::max(largest, outcomes.at({network, policy.name}).largest_error);
      report.claim({network + "-fp32-start", exact, rounding}, exactly(0.0, number(largest), "oracle"));
    }
    for (const training::Policy& policy : policies) {
      const FloatFormat* const f = policy.update.weights.plain();
      if (!f || policy.update.weights.keeps_floats()) continue;
      const std::string id = kebab_case(network + "-" + policy.name + "-start");
      const std::string statement = fmt::format(
          "{} begins in every seed within what rounding each weight once can change, relative to their norm ({}).",
          policy.name, network);
      const bool nearest = policy.update.weights.rounding.mode == RoundingMode::nearest_even;
      if (!missing.empty()) report.claim({id, statement, rounding}, skipped(missing));
      else {
        const TuningSpread& spread = outcomes.at({network, policy.name});
        report.claim({id, statement, rounding},
                     spread.largest_weight > f->value(f->max_finite())
                         ? skipped("weights lie beyond the format's largest number")
                         : at_most(most_error(*f, nearest, policy.update.weights.rounding.flush_outputs, spread),
                                   spread.largest_error, "oracle"));
      }
    }
    const auto reason = [&](std::initializer_list<const char*> names) {
      return missing.empty() ? absent(outcomes, network, names) : missing;
    };
    for (const AsGood& row : as_good) {
      const std::string id = kebab_case(network + "-" + row.policy + "-as-fp32"),
                        statement = row.statement +
                                    fmt::format(
                                        " ({}: accuracies on tuned classes, {} seeds, paired by seed and image.)",
                                        network, config.integer("seeds"));
      const std::string why = reason({"fp32", row.policy});
      report.claim({id, statement, row.source},
                   !why.empty()
                       ? skipped(why)
                       : judge_no_worse(outcomes.at({network, row.policy}).accuracy,
                                        outcomes.at({network, "fp32"}).accuracy, config.real("margin"), "fp32"));
    }
    const std::string id = network + "-pure-bf16-stays";
    const Citation source{
        publications::pure_bf16,
        "Zamirai et al. 2021, Revisiting BFloat16 Training, section 3: nearest rounding cancels small updates"};
    const std::string statement = "Pure BF16 leaves more weights where they were than BF16 with stochastic rounding" +
                                  of + ".";
    if (const std::string why = reason({"pure-bf16", "bf16-sr"}); !why.empty()) {
      report.claim({id, statement, source}, skipped(why));
      continue;
    }
    const TuningSpread &pure = outcomes.at({network, "pure-bf16"}), &sr = outcomes.at({network, "bf16-sr"});
    const double stay = pure.unmoved / static_cast<double>(pure.count()),
                 with_sr = sr.unmoved / static_cast<double>(sr.count());
    report.claim({id, statement, source},
                 stay == 1 && with_sr == 1
                     ? skipped("no weight moves under either")
                     : at_least(with_sr, stay,
                                may_differ("at this learning rate the updates are not small against half an ulp")));
  }
}

}  // namespace halfulp::trainings

// finetune: a network that learned all classes goes on with half of them, under every precision policy.

namespace halfulp {
namespace {

using namespace trainings;

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  std::vector<Parameter> all = trainings::parameters({"mlp",
                                                      "fp32,O2,amp-fp16,amp-bf16,pure-fp16,pure-bf16,bf16-sr,"
                                                      "bf16-kahan,fp8-hybrid",
                                                      "5"});
  for (Parameter& p : all)
    if (p.name == "networks") p.accepted = {"mlp", "cnn"};
  all.push_back(accuracy_margin());
  for (Parameter& p : learning_rate_parameters("1e-4,1e-5", "bf16")) all.push_back(std::move(p));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  all.push_back({"classes", Type::integers, "0,1,2,3,4", "classes that fine-tuning sees; pre-training sees all ten", 0,
                 image_classes - 1});
  all.push_back({"tune_lr", Type::real, "1e-5", "learning rate of fine-tuning", 0, 100});
  all.push_back({"tune_epochs", Type::real, "1", "epochs of fine-tuning, but at least one step", 0, 1000});
  all.push_back(
      {"tune_steps", Type::integer, "0", "steps of fine-tuning, instead of epochs; 0: tune_epochs says", 0, 1e8});
  all.push_back({"tune_optimizer",
                 Type::choice,
                 "adam",
                 "optimizer of fine-tuning",
                 -infinity,
                 infinity,
                 {"sgd", "adam", "adamw"}});
  return all;
}

struct Classes {
  std::vector<int> tuned, other;
};

Classes classes_of(const Config& config) {
  std::set<int> tuned;
  for (const std::int64_t c : config.integers("classes")) tuned.insert(static_cast<int>(c));
  if (tuned.empty() || tuned.size() == image_classes)
    throw std::invalid_argument(
        fmt::format("classes: {} of them; accepted: 1 to {}, so that some are tuned and some are not", tuned.size(),
                    image_classes - 1));
  Classes all{{tuned.begin(), tuned.end()}, {}};
  for (int c = 0; c < image_classes; ++c)
    if (!tuned.contains(c)) all.other.push_back(c);
  return all;
}

/// ||a - b|| / ||b||, and how many numbers are the same, over parameters.
struct Distance {
  double relative = 0;
  std::uint64_t same = 0, all = 0;
};
Distance distance(const training::NetworkValues& a, const training::NetworkValues& b) {
  double apart = 0, norm = 0;
  Distance d;
  for (const auto& entry : b) {
    const std::vector<float>& other = a.at(entry.first);
    for (std::size_t i = 0; i < other.size(); ++i) {
      const double x = static_cast<double>(other[i]), y = static_cast<double>(entry.second[i]);
      apart += (x - y) * (x - y), norm += y * y;
      d.same += x == y;
    }
    d.all += other.size();
  }
  d.relative = norm > 0 ? std::sqrt(apart / norm) : 0;
  return d;
}

double largest_of(const training::NetworkValues& values) {
  double largest = 0;
  for (const auto& entry : values)
    for (const float v : entry.second) largest = std::max(largest, std::fabs(static_cast<double>(v)));
  return largest;
}

double norm_of(const training::NetworkValues& values) {
  double sum = 0;
  for (const auto& entry : values)
    for (const float x : entry.second) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum);
}

TestOfClasses judge(training::Trainer& trainer, const training::Examples& tuned, const training::Examples& other) {
  return {trainer.test(tuned), trainer.test(other).accuracy};
}

void run_finetune(const Config& config, Run& run) {
  const std::vector<training::Policy> policies = chosen_policies(config);
  const std::vector<std::string> networks = config.choices("networks");
  const Classes classes = classes_of(config);
  LearningRates rates(config);
  const training::Policy fp32 = training::find_policy("fp32");
  const Data data(config, networks);
  data.report(run.report);
  Table& summary = run.report.table(
      "summary", "What fine-tuning gained and lost under each policy, means over seeds",
      {{"network", "", "Network."},
       {"policy", "", "Precision policy of fine-tuning; pre-training is in FP32."},
       {"tuned", "1", "Test accuracy on the classes that fine-tuning sees, after it; 0 if it failed."},
       {"to_fp32", "1", "This minus that of fine-tuning in FP32; null without fp32."},
       {"doubt", "1",
        "Half the width of the 95 % confidence interval of that difference, by seeds and by test images, which both "
        "share."},
       {"other", "1", "Test accuracy on the other classes, after fine-tuning: what was not forgotten."},
       {"all", "1", "Mean of the two, each weighted by how many classes it has."},
       {"all_to_fp32", "1", "This minus that of fine-tuning in FP32; null without fp32."},
       {"tuned_before", "1", "Accuracy on the classes that fine-tuning sees, before its first step, under the policy."},
       {"other_before", "1", "Accuracy on the other classes before the first step."},
       {"rounding_cost", "1",
        "What pre-training reached on all classes in FP32, minus what the policy makes of the same weights before any "
        "step."},
       {"start_error", "1", "Norm of what rounding changed in the pre-trained weights, relative to them."},
       {"moved", "1",
        "Norm of what fine-tuning changed in the weights, relative to the rounded start; NaN if it failed."},
       {"unmoved", "1", "Share of weights that are at the end what they were at the start."},
       {"swamped", "1", "Share of updates that left their weight as it was, of the first seed."},
       {"verdict", "",
        "Of tuned classes. Failed: some training ended in NaN; within: to_fp32 - doubt is at least -margin; below: "
        "to_fp32 is negative beyond doubt; else cannot tell; null without fp32."},
       {"why", "", "What the microscope saw of a failure or loss; empty if there was none."}});
  Table& each = run.report.table(
      "seeds", "The same, every training by itself",
      {{"network", "", "Network."},
       {"policy", "", "Precision policy of fine-tuning."},
       {"seed", "1", "Seed of pre-training and of fine-tuning."},
       {"tuned_before", "1", "Accuracy on the classes that fine-tuning sees, before its first step."},
       {"tuned_after", "1", "And after its last."},
       {"other_before", "1", "Accuracy on the other classes, before."},
       {"other_after", "1", "And after."},
       {"start_error", "1", "Norm of what rounding changed in the pre-trained weights, relative to them."},
       {"moved", "1", "Norm of what fine-tuning changed, relative to the rounded start; NaN if it failed."},
       {"unmoved", "1", "Share of weights that are at the end what they were at the start."}});
  Tables tables(run.report, "policy", "Precision policy of fine-tuning, or pre-training.");

  const auto seeds = static_cast<std::size_t>(config.integer("seeds"));
  std::vector<Job> before{}, after{};
  std::vector<training::NetworkValues> learned{};
  std::vector<Tuning> tunings{};
  std::vector<std::unique_ptr<training::Examples>> tests{};  // of tuned classes, of the others, network by network
  std::map<std::string, std::size_t> first_of;               // pre-training of each network
  const auto make = [&](const std::string& network, const training::Policy& policy, const std::string& name,
                        std::size_t i) {
    const auto tuned = data.examples(config, network, classes.tuned);
    const Job& start = before[first_of.at(network) + i];
    Job job = make_job(config, network, policy, name, start.settings.seed, data, *tuned);
    job.label += "-tuned";
    job.classes = classes.tuned;
    training::TrainerSettings& s = job.settings;
    s.optimizer.kind = training::parse_optimizer(config.text("tune_optimizer"));
    s.optimizer.lr = config.real("tune_lr");
    s.steps = static_cast<std::uint64_t>(config.integer("tune_steps"));
    if (s.steps == 0)
      s.steps = std::max<std::uint64_t>(
          1, static_cast<std::uint64_t>(
                 std::llround(config.real("tune_epochs") * static_cast<double>(tuned->steps_per_epoch()))));
    const auto intervals = static_cast<std::uint64_t>(config.integer("intervals"));
    s.interval = std::max<std::uint64_t>(1, (s.steps + intervals - 1) / intervals);
    job.start = {{"pre-training", to_json(start.settings)}};
    job.prepare = [&learned, which = first_of.at(network) + i](training::Trainer& trainer) {
      trainer.start_from(learned[which]);
    };
    return job;
  };
  for (const std::string& network : networks) {
    if (!data.missing(network).empty()) continue;
    tests.push_back(data.examples(config, network, classes.tuned));
    tests.push_back(data.examples(config, network, classes.other));
    first_of[network] = before.size();
    for (std::size_t i = 0; i < seeds; ++i)
      before.push_back(make_job(config, network, fp32, "pre-training",
                                static_cast<std::uint64_t>(config.integer("seed")) + i, data,
                                *data.examples(config, network)));
    for (const training::Policy& policy : policies)
      for (std::size_t i = 0; i < seeds; ++i) {
        after.push_back(make(network, policy, policy.name, i));
        Tuning tuning;
        tuning.network = network, tuning.policy = &policy;
        tuning.learned = before.size() - seeds + i;
        tuning.tests = tests.size() - 2;
        tunings.push_back(tuning);
      }
  }
  learned.resize(before.size());
  std::vector<TestOfClasses> reached(before.size());  // after pre-training
  for (std::size_t i = 0; i < before.size(); ++i)
    before[i].keepsake = {
        {"values and tests", classes.tuned, classes.other},
        [&, i](training::Trainer& trainer) {
          const std::size_t which = i / seeds * 2;
          return Json{{"values", training::to_json(trainer.values())},
                      {"tests", record_json<RecordLayout::list>(judge(trainer, *tests[which], *tests[which + 1]))}};
        },
        [&, i](const Json& made, const std::string& where) {
          Members members(made, where);
          learned[i] = training::values_from_json(members.need("values"), where);
          reached[i] = record_of<TestOfClasses, RecordLayout::list>(members.need("tests"), where);
        }};
  for (std::size_t i = 0; i < tunings.size(); ++i) {
    // What it began with is made again, so that a training that went on from a checkpoint is judged alike.
    after[i].keepsake = {{"tuning", classes.tuned, classes.other},
                         [&, i](training::Trainer& trainer) {
                           Tuning t = tunings[i];
                           const training::NetworkValues& first = learned[t.learned];
                           const training::Examples &tuned = *tests[t.tests], &other = *tests[t.tests + 1];
                           const auto examples = data.examples(config, t.network, classes.tuned);
                           training::Trainer start(after[i].settings, *t.policy, *examples);
                           start.start_from(first);
                           t.before = judge(start, tuned, other);
                           t.after = judge(trainer, tuned, other);
                           const training::NetworkValues rounded = start.values(), last = trainer.values();
                           const Distance moved = distance(last, rounded);
                           t.start_error = distance(rounded, first).relative;
                           t.weight_norm = norm_of(first);
                           t.largest_weight = largest_of(first);
                           t.moved = moved.relative;
                           t.unmoved = static_cast<double>(moved.same) / static_cast<double>(moved.all);
                           t.parameters = moved.all;
                           return record_json<RecordLayout::list>(t);
                         },
                         [&, i](const Json& made, const std::string& where) {
                           read_record<RecordLayout::list>(made, where, tunings[i]);
                         }};
  }
  rates.plan(data, after, make);
  const auto steps = [](const std::vector<Job>& jobs) {
    double all = 0;
    for (const Job& job : jobs) all += static_cast<double>(job.settings.steps);
    return all;
  };
  const double part = before.empty() ? 0 : steps(before) / (steps(before) + steps(after));
  require_layers(after, data, config);
  const std::vector<training::TrainingRecord> first_records = train(before, data, config, run, 0, part);
  if (run.only_operands) return record_operands(after, data, config, run);
  const std::vector<training::TrainingRecord> records = train(after, data, config, run, part, 1);

  for (std::size_t i = 0; i < before.size(); ++i) tables.add(before[i], first_records[i], false);
  const double share_tuned = static_cast<double>(classes.tuned.size()) / image_classes;
  const auto all_of = [&](const TestOfClasses& test) {
    return share_tuned * test.tuned.accuracy + (1 - share_tuned) * test.other;
  };
  TuningOutcomes outcomes;
  for (std::size_t i = 0; i < tunings.size(); ++i) {
    const Tuning& t = tunings[i];
    tables.add(after[i], records[i], i % seeds == 0);
    each.row({t.network, t.policy->name, after[i].settings.seed, number(t.before.tuned.accuracy),
              number(t.after.tuned.accuracy), number(t.before.other), number(t.after.other), number(t.start_error),
              number(t.moved), number(t.unmoved)});
    TuningSpread& spread = outcomes[{t.network, t.policy->name}];
    spread.add(t, records[i].diverged.has_value());
    spread.all += all_of(t.after);
    spread.rounding_cost += all_of(reached[t.learned]) - all_of(t.before);
  }
  for (std::size_t first = 0; first < tunings.size(); first += seeds) {
    const Tuning& t = tunings[first];
    const TuningSpread& spread = outcomes.at({t.network, t.policy->name});
    const auto reference = outcomes.find({t.network, "fp32"});
    const TuningSpread* const of_fp32 = reference == outcomes.end() ? nullptr : &reference->second;
    const Standing to_fp32 = of_fp32 ? standing(spread.accuracy, of_fp32->accuracy) : Standing{};
    const bool worse = spread.accuracy.failed() || to_fp32.below();
    const auto mean = [&](double sum) { return number(sum / static_cast<double>(spread.count())); };
    const auto beyond = [&](double sum, double reference_sum) {
      return of_fp32 ? mean(difference(sum, reference_sum)) : Json();
    };
    std::size_t worst = first;
    for (std::size_t i = first; i < first + seeds; ++i)
      if (tunings[i].after.tuned.accuracy < tunings[worst].after.tuned.accuracy) worst = i;
    summary.row({t.network, t.policy->name, mean(spread.tuned), beyond(spread.tuned, of_fp32 ? of_fp32->tuned : 0),
                 of_fp32 ? number(to_fp32.doubt) : Json(), mean(spread.other), mean(spread.all),
                 beyond(spread.all, of_fp32 ? of_fp32->all : 0), mean(spread.tuned_before), mean(spread.other_before),
                 mean(difference(spread.rounding_cost, 0)), mean(spread.start_error), mean(spread.moved),
                 mean(spread.unmoved), number(evidence_of(records[first]).swamped),
                 of_fp32 ? Json(verdict(spread.accuracy, of_fp32->accuracy, config.real("margin"))) : Json(),
                 diagnose(records[worst], worse).why});
  }
  rates.report(data, after, records, tables, run.report);
  claim_finetune(config, data, policies, outcomes, run.report);
}

}  // namespace

namespace {

/// The first policy that ends below FP32, and the first 16-bit one that does not.
std::string finetune_finding(const ReportTables& tables) {
  for (const TableRow& row : tables.rows("summary", {{"verdict", "below"}})) {
    const auto well = tables.rows("summary", {{"network", row["network"]}, {"verdict", "within"}});
    const auto repair = std::find_if(well.begin(), well.end(),
                                     [](const TableRow& other) { return other.text("policy").starts_with("bf16-"); });
    return fmt::format("{} leaves {} of weights unmoved and ends {} points below fp32", row.text("policy"),
                       percent(row.number("unmoved")), in_words(-100 * row.number("to_fp32"))) +
           (repair == well.end() ? "."
                                 : fmt::format("; {} ends {} below.", repair->text("policy"),
                                               in_words(-100 * repair->number("to_fp32"))));
  }
  return {};
}

}  // namespace

Experiment finetune_experiment() {
  return {"finetune",
          "Fine-tuning on some classes under precision policies",
          "Does fine-tuning in 16 bits move the weights?",
          parameters,
          run_finetune,
          finetune_finding,
          {"summary", {"policy", "tuned", "to_fp32", "other", "rounding_cost", "unmoved", "swamped"}}};
}

}  // namespace halfulp
