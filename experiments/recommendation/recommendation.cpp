// recommendation: the narrowest policy for a network that keeps a budget, by what each narrow format costs.
#include <halfulp/experiments/recommendation/recommendation.hpp>

#include <halfulp/report/config.hpp>
#include <halfulp/training/runs/tables.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

namespace halfulp {
namespace recommendation {
namespace {

using training::Policy;
using trainings::Data;
using trainings::Job;
using trainings::Spread;
using trainings::Standing;

/// Plans that are trained at most, each with half the error of the one before it, or less.
constexpr int most_attempts = 8;
/// The share of the test examples by which verdicts go where the budget is one of bytes.
constexpr double usual_loss = 0.01;
/// Of the budget that a plan may use up with the seeds that choose it: others will do worse than those that chose.
constexpr double share_to_choose = 0.5;

std::vector<Parameter> parameters() {
  using Type = ParameterType;
  std::vector<Parameter> all = trainings::parameters({"mlp", "O1,pure-bf16", "4"});
  all.push_back(trainings::loss_margin());
  all.insert(
      all.end(),
      {{"budget", Type::text, "0.01",
        "what may be lost against fp32, as a share of the test examples (beside loss_margin; of tensors: the relative "
        "error of each); or a number of bytes, such as 400kB or 1.5MB"},
       {"formats", Type::text, "bf16,e4m3,e5m2,fp8-1x128",
        "formats besides fp32 (halfulp formats lists them), separated by commas; block formats are for weights, "
        "moments "
        "and tensors"},
       {"tensors", Type::path, "",
        "a folder of .npy files, as a training saves its gradients: each gets a format, and no network is trained"}});
  for (Parameter& parameter : all)
    if (parameter.name == "policies")
      parameter.help =
          "what the recommended policy is compared with: names (halfulp policies lists them) or files "
          "that end in .json, separated by commas";
  return all;
}

/// With a folder of tensors nothing is trained: what only a training would read must be as it is by default.
void refuse_what_trains(const Config& config) {
  const Json given = config.to_json(), usual = Config(parameters()).to_json();
  for (const auto& [name, value] : given.items())
    if (name != "tensors" && name != "budget" && name != "formats" && value != usual.at(name))
      throw std::invalid_argument(fmt::format("{}: with tensors nothing is trained; accepted: one of the two", name));
}

constexpr const char* doubt_help =
    "Half the width of that difference's 95 % confidence interval, by seeds and by test examples.";
constexpr const char* verdict_help =
    "Failed if a training ended in NaN; within if to_fp32 - doubt is at least -budget, of a budget of bytes -0.01; "
    "below "
    "if to_fp32 is negative beyond doubt; else cannot tell.";
constexpr const char* half_verdict_help = "As in `comparison`, with half of the budget.";
constexpr const char* half_loss_verdict_help = "The same of the test loss, with half of loss_margin.";
constexpr const char* loss_verdict_help =
    "The same of the test loss, which loss_margin allows to lie above: above where accuracies are below.";

/// How a policy stands to FP32.
struct AgainstFp32 {
  Standing accuracy, loss;
  std::string_view verdict, loss_verdict;
  AgainstFp32(const Spread& of, const Spread& fp32, double margin, double loss_margin)
      : accuracy(trainings::standing(of, fp32)),
        loss(trainings::standing(of, fp32, trainings::Measure::loss)),
        verdict(trainings::verdict(of, fp32, margin)),
        loss_verdict(trainings::verdict(of, fp32, loss_margin, trainings::Measure::loss)) {}
  bool kept() const { return verdict == "within" && loss_verdict == "within"; }
  /// Not kept, and not broken either: more trainings may tell.
  bool undecided() const {
    const auto open = [](std::string_view v) { return v == "within" || v == "cannot tell"; };
    return !kept() && open(verdict) && open(loss_verdict);
  }
};

/// A network for which a plan is sought.
struct Search {
  const std::string& name;
  const std::vector<Subject>& subjects;
  const std::vector<Plan>& plans;
  const Sensitivity& sensitivity;
  const training::Examples& examples;
  Spread fp32;                                     ///< with the seeds that choose
  std::optional<Spread> fp32_more = std::nullopt;  ///< with those that decide where these cannot tell, too
};

class Recommendation {
 public:
  Recommendation(const Config& config, Run& run, const Data& data, const std::vector<training::Policy>& others,
                 const Budget& budget)
      : config_(config),
        run_(run),
        data_(data),
        others_(others),
        budget_(budget),
        runs_(run.report, "policy", "Precision policy."),
        sensitivity_(run.report.table(
            "sensitivity", "What each format costs, alone in its place: all else is FP32",
            {{"network", "", "Network."},
             {"layer", "", "Layer; empty: all parameters of the network."},
             {"operator", "", "Operator of the layer; empty: all parameters."},
             {"part", "", "What is stored: weights, Adam's moments, activations, or gradients."},
             {"elements", "value", "Numbers stored in one step."},
             {"format", "", "Format, and how it rounds if not to nearest."},
             {"bits", "bit", "Of an element, with its share of a block's scale."},
             {"bytes", "byte", "Of all of them."},
             {"error", "1",
              "Of activations and gradients: relative error of the gradient of one batch, root mean square over "
              "parameters. Of weights and moments: the part of the way, over some steps, that is lost. The larger of "
              "two states of the network, before and after an FP32 training; Inf if a training fails."},
             {"chosen", "", "Whether the recommended policy has it."}})),
        attempts_(run.report.table(
            "attempts", "Plans that were trained, the boldest first, until one took half of the budget or less",
            {{"network", "", "Network."},
             {"allowed", "1",
              "Error that the plan may have: first the noise or that of the narrowest plan, then half of what the plan "
              "before it has; null for a budget of bytes."},
             {"noise", "1", "Relative difference of the gradients of two batches, the larger of two states."},
             {"error", "1",
              "Root of the sum of the squared errors of its places, without what became narrower free of charge."},
             {"bytes", "byte", "Of everything that one step stores."},
             {"seeds", "run", "Trainings it was judged by: three times as many where few cannot tell."},
             {"to_fp32", "1", "Its accuracy minus that of FP32."},
             {"doubt", "1", doubt_help},
             {"verdict", "", half_verdict_help},
             {"loss_to_fp32", "nat", "Its test loss minus that of FP32; NaN if a training failed."},
             {"loss_doubt", "nat", doubt_help},
             {"loss_verdict", "", half_loss_verdict_help},
             {"policy", "", "The policy of the plan: saved as a file, it can be run and changed."}})),
        choices_(run.report.table("choices", "What the recommended policy stores in which format, and why",
                                  {{"network", "", "Network."},
                                   {"layer", "", "Layer; empty: all parameters of the network."},
                                   {"operator", "", "Operator of the layer; empty: all parameters."},
                                   {"part", "", "What is stored."},
                                   {"elements", "value", "Numbers stored in one step."},
                                   {"format", "", "Format, and how it rounds if not to nearest."},
                                   {"bytes", "byte", "Of all of them."},
                                   {"error", "1", "What it costs alone, as in `sensitivity`."},
                                   {"why", "", "Why not the next narrower one."}})),
        comparison_(run.report.table(
            "comparison", "The recommended policy and others, trained with seeds that chose nothing, twice as many",
            {{"network", "", "Network."},
             {"policy", "", "Precision policy."},
             {"bytes", "byte",
              "Of everything that one step stores: weights (master weights and compensations too), moments, and once "
              "each activation, each gradient of an activation, each gradient of a weight."},
             {"bytes_to_fp32", "1", "The same by that of fp32."},
             {"accuracy", "1", "Mean test accuracy over seeds; a failed training counts as 0."},
             {"to_fp32", "1", "This minus that of fp32, mean over seeds and test examples, which both share."},
             {"doubt", "1", doubt_help},
             {"verdict", "", verdict_help},
             {"test_loss", "nat", "Mean test loss of those that did not fail."},
             {"loss_to_fp32", "nat", "Test loss minus that of fp32; NaN if a training failed."},
             {"loss_doubt", "nat", doubt_help},
             {"loss_verdict", "", loss_verdict_help}})),
        recommended_(run.report.table(
            "recommended", "The recommended policies",
            {{"network", "", "Network."}, {"policy", "", "The policy: saved as a file, it can be run and changed."}})) {
  }

  void network(const std::string& name, double from, double to) {
    const auto at = [&](double share) { return from + (to - from) * share; };
    const auto examples = data_.examples(config_, name);
    fp32_ = training::find_policy("fp32");
    training::NetworkValues learned;
    std::vector<Job> jobs = jobs_of(name, fp32_, "fp32, choosing", Purpose::choose, *examples);
    jobs.front().keepsake = {
        "values", [](training::Trainer& trainer) { return training::to_json(trainer.values()); },
        [&](const Json& made, const std::string& where) { learned = training::values_from_json(made, where); }};
    const Spread reference = train(jobs, at(0), at(0.1));
    jobs.front().keepsake = {};
    if (reference.failed())
      return claim_missing(name,
                           fmt::format("{} of {} trainings in FP32 failed: nothing narrower can be judged by them",
                                       reference.failed(), reference.count()));
    const Sensitivity sensitivity(config_, data_, jobs.front(), std::move(learned));
    const std::vector<Subject> subjects = sensitivity.measure(parse_formats(config_), run_, at(0.1), at(0.5));
    const std::vector<Plan> all = plans(subjects);
    free_.assign(subjects.size(), false);
    Search search{name, subjects, all, sensitivity, *examples, reference};
    const Plan plan = budget_.bytes ? within_bytes(search, at(0.5), at(0.7))
                                    : within_accuracy(search, at(0.5), at(0.7));
    report_plan(name, subjects, plan);
    compare(name, subjects, policy_of(subjects, plan, "recommended", "recommended for " + name), *examples, at(0.7),
            at(1));
  }

  void claim_missing(const std::string& name, const std::string& why) { claim(name, why, nullptr, nullptr, 0, 0); }

 private:
  /// A training for each seed: to choose by; others, twice as many, that have chosen nothing; as many again that decide
  /// where the first cannot tell.
  enum class Purpose : std::uint8_t { choose, confirm, decide };
  std::vector<Job> jobs_of(const std::string& network, const Policy& policy, const std::string& variant,
                           Purpose purpose, const training::Examples& examples) const {
    const auto seeds = static_cast<std::uint64_t>(config_.integer("seeds"));
    const std::uint64_t first = static_cast<std::uint64_t>(config_.integer("seed")) + (purpose == Purpose::choose ? 0
                                                                                       : purpose == Purpose::confirm
                                                                                           ? seeds
                                                                                           : 3 * seeds);
    std::vector<Job> jobs;
    for (std::uint64_t i = 0; i < (purpose == Purpose::choose ? seeds : 2 * seeds); ++i)
      jobs.push_back(trainings::make_job(config_, network, policy, variant, first + i, data_, examples));
    return jobs;
  }

  Spread train(const std::vector<Job>& jobs, double from, double to) {
    const auto records = trainings::train(jobs, data_, config_, run_, from, to);
    Spread spread;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      runs_.add(jobs[i], records[i], false);
      spread.add(records[i]);
    }
    return spread;
  }

  /// Trains a plan with what it has free of charge. Nothing if that does not keep the budget of accuracy.
  std::optional<Plan> attempt(Search& search, const Plan& paid, Json allowed, double from, double to) {
    const auto& [name, subjects, all, sensitivity, examples, fp32, fp32_more] = search;
    const Plan plan = sensitivity.narrowed_for_free(subjects, paid);
    for (std::size_t i = 0; i < plan.size(); ++i) free_[i] = plan[i] != paid[i];
    const std::string variant = fmt::format("attempt {}", ++attempt_);
    policies_.push_back(policy_of(subjects, plan, fmt::format("attempt-{}", attempt_), "a plan for " + name));
    Spread spread = train(jobs_of(name, policies_.back(), variant, Purpose::choose, examples), from, to);
    const auto judged = [&](const Spread& reference) {
      return AgainstFp32(spread, reference, share_to_choose * allowed_loss(),
                         share_to_choose * config_.real("loss_margin"));
    };
    AgainstFp32 s = judged(fp32);
    if (!budget_.bytes && s.undecided()) {
      const auto more = [&, &name = name, &examples = examples](const Policy& policy, const std::string& of) {
        return train(jobs_of(name, policy, of + ", more seeds", Purpose::decide, examples), to, to);
      };
      if (!search.fp32_more) (search.fp32_more = fp32)->add(more(fp32_, "fp32"));
      spread.add(more(policies_.back(), variant));
      s = judged(*search.fp32_more);
    }
    attempts_.row({name, std::move(allowed), number(sensitivity.noise()), number(error_of(subjects, paid)),
                   whole(bytes_of(subjects, plan)), spread.count(), number(s.accuracy.difference),
                   number(s.accuracy.doubt), s.verdict, number(s.loss.difference), number(s.loss.doubt), s.loss_verdict,
                   policies_.back().json.dump()});
    if (budget_.bytes || s.kept()) return plan;
    return {};
  }

  Plan within_accuracy(Search& search, double from, double to) {
    const auto error = [&](const Plan& plan) { return error_of(search.subjects, plan); };
    attempt_ = 0;
    double allowed = std::min(error(search.plans.back()), search.sensitivity.noise());
    for (int i = 0; i < most_attempts; ++i) {
      const Plan* last = &search.plans.front();
      for (const Plan& plan : search.plans)
        if (error(plan) <= allowed) last = &plan;
      const auto at = [&](int n) { return from + (to - from) * n / most_attempts; };
      if (const auto plan = attempt(search, *last, number(allowed), at(i), at(i + 1))) return *plan;
      if (last == &search.plans.front()) break;
      allowed = error(*last) / 2;
    }
    free_.assign(search.subjects.size(), false);
    return search.plans.front();
  }

  Plan within_bytes(Search& search, double from, double to) {
    const auto bytes = [&](const Plan& plan) { return bytes_of(search.subjects, plan); };
    const auto fits = std::find_if(search.plans.begin(), search.plans.end(),
                                   [&](const Plan& p) { return bytes(p) <= *budget_.bytes; });
    if (fits == search.plans.end())
      throw std::invalid_argument(
          fmt::format("budget: {} takes {:.0f} bytes with the narrowest of these formats; accepted: at least that",
                      search.name, std::ceil(bytes(search.plans.back()))));
    attempt_ = 0;
    return attempt(search, *fits, {}, from, to).value();
  }

  void report_plan(const std::string& name, const std::vector<Subject>& subjects, const Plan& plan) {
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      const auto& [place, options] = subjects[i];
      const std::string kind = is_state(place.part) ? "" : std::string(training::name_of(place.kind));
      for (std::size_t o = 0; o < options.size(); ++o)
        sensitivity_.row({name, place.layer, kind, name_of(place.part), place.elements, text_of(options[o].storage),
                          number(bits_of(options[o].storage)), whole(options[o].bytes), number(options[o].error),
                          o == plan[i]});
      const Option& option = options[plan[i]];
      choices_.row({name, place.layer, kind, name_of(place.part), place.elements, text_of(option.storage),
                    whole(option.bytes), number(option.error),
                    free_[i] ? std::string(free_of_charge) : reason(subjects[i], plan[i])});
    }
  }

  void compare(const std::string& name, const std::vector<Subject>& subjects, const Policy& recommended,
               const training::Examples& examples, double from, double to) {
    policies_.push_back(recommended);
    std::vector<const Policy*> all{&fp32_};
    for (const Policy& other : others_)
      if (other.name != "fp32") all.push_back(&other);
    all.push_back(&policies_.back());
    std::vector<Job> jobs;
    for (const Policy* const policy : all)
      for (Job& job : jobs_of(name, *policy, policy->name, Purpose::confirm, examples)) jobs.push_back(std::move(job));
    const auto records = trainings::train(jobs, data_, config_, run_, from, to);
    std::vector<Spread> spreads(all.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      runs_.add(jobs[i], records[i], false);
      spreads[i / (jobs.size() / all.size())].add(records[i]);
    }
    const double fp32_bytes = bytes_of(subjects, fp32_);
    const Policy* o1 = nullptr;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i]->name == "O1") o1 = all[i];
      const double bytes = bytes_of(subjects, *all[i]);
      const AgainstFp32 s(spreads[i], spreads.front(), allowed_loss(), config_.real("loss_margin"));
      comparison_.row({name, all[i]->name, whole(bytes), number(bytes / fp32_bytes), number(spreads[i].mean()),
                       number(s.accuracy.difference), number(s.accuracy.doubt), s.verdict,
                       number(spreads[i].mean_loss()), number(s.loss.difference), number(s.loss.doubt),
                       s.loss_verdict});
    }
    recommended_.row({name, recommended.json.dump()});
    claim(name, "", &spreads.back(), &spreads.front(), bytes_of(subjects, recommended),
          o1 ? bytes_of(subjects, *o1) : 0);
  }

  /// `o1`: bytes of O1, 0 if it was not trained.
  void claim(const std::string& name, const std::string& missing, const Spread* recommended, const Spread* fp32,
             double bytes, double o1) {
    const Citation source = "derived: the budget that was given";
    if (budget_.bytes)
      run_.report.claim(
          {name + "-keeps-the-budget",
           fmt::format("What the recommended policy stores in a step of {} is no more than the budget.", name), source},
          missing, [&] { return at_most(*budget_.bytes, bytes, "oracle"); });
    else {
      run_.report.claim(
          {name + "-keeps-the-budget",
           fmt::format("Under the recommended policy {} loses at most {:g} points of accuracy against FP32, with seeds "
                       "that chose nothing.",
                       name, 100 * budget_.accuracy),
           source},
          missing, [&] { return trainings::judge_no_worse(*recommended, *fp32, budget_.accuracy, "fp32"); });
      run_.report.claim(
          {name + "-keeps-the-loss",
           fmt::format("Its test loss rises by at most {:g} nat ({}).", config_.real("loss_margin"), name),
           "derived: loss_margin"},
          missing, [&] { return trainings::judge_loss(*recommended, *fp32, config_.real("loss_margin"), "fp32"); });
    }
    run_.report.claim(
        {name + "-fewer-bytes-than-o1",
         fmt::format("A step of {} stores fewer bytes under the recommended policy than under O1.", name), source},
        !missing.empty() ? missing
        : budget_.bytes  ? "a budget of bytes may be used up"
        : o1 == 0        ? "policies does not contain O1"
                         : "",
        [&] {
          return at_most(o1 - 1, bytes,
                         {"oracle", Verdict::skipped,
                          "no plan with fewer bytes than O1 kept the budget, or these formats have none"});
        });
  }

  static Json whole(double bytes) { return static_cast<std::uint64_t>(bytes); }
  double allowed_loss() const { return budget_.bytes ? usual_loss : budget_.accuracy; }

  const Config& config_;
  Run& run_;
  const Data& data_;
  const std::vector<training::Policy>& others_;
  const Budget& budget_;
  trainings::Tables runs_;
  Table &sensitivity_, &attempts_, &choices_, &comparison_, &recommended_;
  Policy fp32_;
  std::deque<Policy> policies_ = {};
  std::vector<bool> free_ = {};  ///< places of the last plan that became narrower free of charge
  int attempt_ = 0;
};

void run_recommendation(const Config& config, Run& run) {
  const Budget budget = parse_budget(config.text("budget"));
  parse_formats(config);
  if (!config.text("tensors").empty()) {
    refuse_what_trains(config);
    return recommend_for_tensors(config, budget, run);
  }
  if (!config.text("save_gradients").empty())
    throw std::invalid_argument(
        "save_gradients: many trainings of the same name would write the same files; accepted: nothing here, and "
        "halfulp "
        "run training with the policy");
  const std::vector<Policy> others = trainings::chosen_policies(config);
  for (const Policy& other : others)
    if (other.name == "recommended")
      throw std::invalid_argument(
          "policies: the name 'recommended' is that of the policy that is made here; accepted: a file with another "
          "name "
          "in it");
  const std::vector<std::string> networks = config.choices("networks");
  const Data data(config, networks);
  data.report(run.report);
  Recommendation recommendation(config, run, data, others, budget);
  for (std::size_t i = 0; i < networks.size(); ++i) {
    const auto at = [&](std::size_t n) { return static_cast<double>(n) / static_cast<double>(networks.size()); };
    if (const std::string& missing = data.missing(networks[i]); missing.empty())
      recommendation.network(networks[i], at(i), at(i + 1));
    else recommendation.claim_missing(networks[i], missing);
  }
}

}  // namespace
}  // namespace recommendation

namespace {

/// The first recommended policy beside O1; of tensors without a network what their formats take.
std::string recommendation_finding(const ReportTables& tables) {
  double bytes = 0, as_fp32 = 0, error = 0;
  for (const TableRow& row : tables.rows("tensors")) {
    if (row["chosen"] != true) continue;
    bytes += row.number("bytes"), as_fp32 += row.number("elements") * sizeof(float);
    error = std::max(error, row.number("relative_error"));
  }
  if (as_fp32 > 0)
    return fmt::format("These tensors take {} of fp32's bytes with errors of at most {}.", percent(bytes / as_fp32),
                       percent(error));
  for (const TableRow& row : tables.rows("comparison", {{"policy", "recommended"}})) {
    const auto o1 = tables.rows("comparison", {{"policy", "O1"}, {"network", row["network"]}});
    const double cost = -100 * row.number("to_fp32");
    return fmt::format("{} trains with {} of fp32's bytes at {}", row.text("network"),
                       percent(row.number("bytes_to_fp32")),
                       cost > 0 ? fmt::format("a cost of {} points", in_words(cost)) : "no cost") +
           (o1.empty() ? "." : fmt::format("; O1 takes {}.", percent(o1.front().number("bytes_to_fp32"))));
  }
  return {};
}

}  // namespace

Experiment recommendation_experiment() {
  return {"recommendation",
          "The narrowest policy that keeps a budget",
          "Which tensors of a training may be narrow?",
          recommendation::parameters,
          recommendation::run_recommendation,
          recommendation_finding,
          {"comparison", {"network", "policy", "bytes", "to_fp32", "doubt", "verdict", "loss_verdict"}}};
}

}  // namespace halfulp
