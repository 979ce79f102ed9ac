#include <halfulp/experiments/learning_rates.hpp>
#include <halfulp/experiments/publications.hpp>
#include <halfulp/emulation/conversion.hpp>
#include <halfulp/formats/catalogue.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace halfulp::trainings {
namespace {

/// All else is FP32, so that nothing but the weights' updates is tested, or BF16, as pure BF16 training is published.
training::Policy policy_of(const std::string& format, const std::string& rest, Keeping keeping) {
  Json weights = {{"storage", format}};
  if (keeping == Keeping::master) weights["master"] = true;
  if (keeping == Keeping::kahan) weights["kahan"] = true;
  if (keeping == Keeping::stochastic) weights["storage"] = {{"format", format}, {"rounding", "stochastic"}};
  const std::string name = fmt::format("{}-{}{}", format, keepings[static_cast<std::size_t>(keeping)].name,
                                       rest == "fp32" ? "" : "-in-" + rest);
  return training::parse_policy({{"name", name},
                                 {"title", "weights in " + name},
                                 {"source", "the table learning_rates"},
                                 {"base", rest == "fp32" ? "fp32" : "pure-" + rest},
                                 {"weights", weights}},
                                name);
}

std::string words_of(Keeping keeping) {
  switch (keeping) {
    case Keeping::plain: break;
    case Keeping::master: return "FP32 master weights";
    case Keeping::kahan: return "Kahan summation of updates";
    case Keeping::stochastic: return "stochastic rounding of updates";
  }
  return "";
}

}  // namespace

std::vector<Parameter> learning_rate_parameters(const std::string& rates, const std::string& formats) {
  using Type = ParameterType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return {{"learning_rates", Type::reals, rates, "learning rates of the table learning_rates; lr does not apply there",
           0, 100},
          {"weight_formats", Type::text, formats, "formats of its weights, separated by commas; empty: no such table"},
          {"lr_format",
           Type::choice,
           "fp32",
           "what the learning rate is kept in there: fp32, as optimizers do, or the weights' format",
           -infinity,
           infinity,
           {"fp32", "weights"}}};
}

LearningRates::LearningRates(const Config& config) : config_(config), rates_(config.reals("learning_rates")) {
  const std::string names = config.text("weight_formats");
  if (names.empty()) return;
  networks_ = config.choices("networks");
  std::sort(rates_.begin(), rates_.end(), std::greater<>());
  rates_.erase(std::unique(rates_.begin(), rates_.end()), rates_.end());
  for (const double lr : rates_)
    if (lr == 0) throw std::invalid_argument("learning_rates: 0 changes no weight; accepted: numbers above 0");
  variants_.push_back({"fp32", "fp32", Keeping::plain, training::find_policy("fp32")});
  for (const std::string& name : name_list(names, ',', "weight_formats"))
    for (const char* const rest : {"fp32", "bf16"})
      for (const auto& row : keepings)
        if (name != "fp32" && (rest == std::string_view("fp32") || name == "bf16")) add(name, rest, row.value);
}

void LearningRates::add(const std::string& format, const std::string& rest, Keeping keeping) {
  try {
    const FloatFormat f = parse_format(format);
    for (const Variant& v : variants_)
      if (parse_format(v.format) == f && v.format != format)
        throw std::invalid_argument(fmt::format("{} and {} are the same format", v.format, format));
    variants_.push_back({format, rest, keeping, policy_of(format, rest, keeping)});
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string("weight_formats: ") + error.what());
  }
}

void LearningRates::plan(const Data& data, std::vector<Job>& jobs, const MakeJob& make) {
  first_job_ = jobs.size();
  for (const std::string& network : networks_) {
    if (!data.missing(network).empty()) continue;
    for (const double lr : rates_)
      for (const Variant& variant : variants_)
        for (std::size_t i = 0; i < static_cast<std::size_t>(config_.integer("seeds")); ++i) {
          Job job = make(network, variant.policy, fmt::format("{}, lr {:g}", variant.policy.name, lr), i);
          job.label = fmt::format("{}-{}-lr-{:g}-{}", network, variant.policy.name, lr, job.settings.seed);
          job.settings.optimizer.lr = lr;
          if (config_.text("lr_format") == "weights")
            if (const FloatFormat* const f = variant.policy.update.weights.plain())
              job.settings.optimizer.lr = f->value(encode(*f, {}, lr).code);
          jobs.push_back(std::move(job));
          keys_.push_back({network, variant.format, variant.rest, variant.keeping, lr});
        }
  }
}

const Spread* LearningRates::find(const std::string& network, const std::string& format, const std::string& rest,
                                  Keeping keeping, double lr) const {
  const auto found = spreads_.find({network, format, rest, keeping, lr});
  return found == spreads_.end() ? nullptr : &found->second;
}

void LearningRates::report(const Data& data, const std::vector<Job>& jobs,
                           const std::vector<training::TrainingRecord>& records, Tables& tables, Report& report) {
  if (networks_.empty()) return;
  Table& table = report.table(
      "learning_rates", "Narrow weights under small steps, against FP32 with the same learning rate",
      {{"network", "", "Network."},
       {"format", "", "Format of the weights."},
       {"rest", "", "Format of all else: activations, gradients, optimizer."},
       {"weights", "",
        "Plain: rounded to nearest; master: a copy of FP32 ones; kahan: with Kahan's compensation; stochastic: rounded "
        "stochastically."},
       {"lr", "1", "Learning rate that was asked for."},
       {"used_lr", "1", "Learning rate that was used: rounded to the weights' format if lr_format says so."},
       {"accuracy", "1", "Mean test accuracy over seeds; a failed training counts as 0."},
       {"to_fp32", "1", "This minus that of FP32 with the same learning rate, seed by seed and example by example."},
       {"doubt", "1", "Half the width of the difference's 95 % confidence interval."},
       {"verdict", "",
        "Failed, below, within or cannot tell: as in the table `summary`, by `margin`; claims on pure BF16 allow a "
        "point."},
       {"test_loss", "nat", "Mean test loss of those that did not fail."},
       {"loss_to_fp32", "nat", "This minus FP32's; NaN if one failed."},
       {"loss_doubt", "nat", "Half the width of its 95 % confidence interval."},
       {"swamped", "1", "Share of updates that left their weight as it was, over all seeds' counted steps."}});
  const double margin = config_.real("margin");
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    tables.add(jobs[first_job_ + i], records[first_job_ + i], false);
    spreads_[keys_[i]].add(records[first_job_ + i]);
    swamped_[keys_[i]] += evidence_of(records[first_job_ + i]).swamped / static_cast<double>(config_.integer("seeds"));
  }
  for (std::size_t i = 0; i < keys_.size(); i += static_cast<std::size_t>(config_.integer("seeds"))) {
    const auto& [network, format, rest, keeping, lr] = keys_[i];
    const Spread &spread = spreads_.at(keys_[i]), &fp32 = *find(network, "fp32", "fp32", Keeping::plain, lr);
    const Standing s = standing(spread, fp32), loss = standing(spread, fp32, Measure::loss);
    table.row({network, format, rest, keepings[static_cast<std::size_t>(keeping)].name, number(lr),
               number(jobs[first_job_ + i].settings.optimizer.lr), number(spread.mean()), number(s.difference),
               number(s.doubt), verdict(spread, fp32, margin), number(spread.mean_loss()), number(loss.difference),
               number(loss.doubt), number(swamped_.at(keys_[i]))});
  }
  for (const std::string& network : networks_) claim(network, data.missing(network), report);
}

void LearningRates::claim(const std::string& network, const std::string& missing, Report& report) const {
  const double smallest = rates_.back(), margin = config_.real("margin");
  const auto judged = [&](const std::string& id, const std::string& statement, const std::vector<double>& rates,
                          const Citation& source, const std::string& format, auto&& judge) {
    if (std::none_of(variants_.begin(), variants_.end(), [&](const Variant& v) { return v.format == format; }))
      return;  // nobody asked
    const std::string of = fmt::format(" ({}, learning rate{} {:g}, {} seed{}.)", network, rates.size() == 1 ? "" : "s",
                                       fmt::join(rates, ", "), config_.integer("seeds"),
                                       config_.integer("seeds") == 1 ? "" : "s");
    report.claim({network + "-" + id, statement + of, source}, missing, judge);
  };
  const Citation micikevicius{publications::fp16_updates,
                              "Micikevicius et al. 2018, Mixed Precision Training, section 3.1"},
      cancels{publications::pure_bf16,
              "Zamirai et al. 2021, Revisiting BFloat16 Training, section 3: nearest rounding cancels small updates"},
      repaired{publications::pure_bf16, "Zamirai et al. 2021, Revisiting BFloat16 Training, section 5"},
      kept =
          "derived: FP32 holds every such update, Kahan's compensation keeps what is lost, and stochastic rounding "
          "keeps its mean";
  // Pure BF16 has other losses besides, in moments that do not decay, and FP8 weights are far from those that FP32
  // would use: at most a point is allowed for them.
  constexpr double point = 0.01;
  const struct {
    std::string id, format, rest, what;
    const Citation& lost;
    double margin;
    std::map<Keeping, const Citation*> repairs;
  } families[] = {
      {"fp16-weights",
       "fp16",
       "fp32",
       "FP16 weights",
       micikevicius,
       margin,
       {{Keeping::master, &micikevicius}, {Keeping::kahan, &kept}, {Keeping::stochastic, &kept}}},
      // Not Kahan's: a compensation of 3 bits loses updates too.
      {"e4m3-weights",
       "e4m3",
       "fp32",
       "E4M3 weights",
       kept,
       std::max(margin, point),
       {{Keeping::master, &kept}, {Keeping::stochastic, &kept}}},
      {"bf16-weights",
       "bf16",
       "fp32",
       "BF16 weights",
       cancels,
       margin,
       {{Keeping::master, &micikevicius}, {Keeping::kahan, &repaired}, {Keeping::stochastic, &repaired}}},
      {"pure-bf16",
       "bf16",
       "bf16",
       "pure BF16",
       cancels,
       std::max(margin, point),
       {{Keeping::master, &micikevicius}, {Keeping::kahan, &repaired}, {Keeping::stochastic, &repaired}}},
  };
  for (const auto& family : families) {
    const auto spread = [&](Keeping keeping, double lr) -> const Spread& {
      return *find(network, family.format, family.rest, keeping, lr);
    };
    const auto reference = [&](double lr) -> const Spread& {
      return *find(network, "fp32", "fp32", Keeping::plain, lr);
    };
    judged(family.id + "-lose",
           fmt::format("Small steps: {}, rounded to nearest after each step, end below FP32.", family.what), {smallest},
           family.lost, family.format,
           [&] { return judge_worse(spread(Keeping::plain, smallest), reference(smallest), family.margin, "fp32"); });
    for (const double lr : rates_)
      for (const auto& [keeping, source] : family.repairs)
        judged(fmt::format("{}-{}-lr-{:.0e}", family.id, keepings[static_cast<std::size_t>(keeping)].name, lr),
               fmt::format("Small steps: with {}, {} end within {:g} point{} of FP32.", words_of(keeping), family.what,
                           100 * family.margin, family.margin == 0.01 ? "" : "s"),
               {lr}, *source, family.format, [&, keeping = keeping] {
                 return judge_repair(spread(keeping, lr), spread(Keeping::plain, lr), reference(lr), family.margin,
                                     "fp32");
               });
  }
  // An update is lr times something of about 1 in Adam: the smaller lr, the more are below half a unit of the weight.
  for (const char* const format : {"bf16", "fp16", "e4m3"})
    judged(fmt::format("smaller-steps-swamp-more-{}", format),
           fmt::format("In {} more updates of weights are lost, the smaller the learning rate.", format), rates_,
           "derived: Adam's updates are about lr, and half a unit of a weight does not depend on it", format, [&] {
             if (rates_.size() < 2) return skipped("learning_rates has one alone");
             std::vector<double> shares;
             for (const double rate : rates_)
               shares.push_back(swamped_.at({network, format, "fp32", Keeping::plain, rate}));
             std::vector<double> ascending = shares;
             std::sort(ascending.begin(), ascending.end());
             return exactly(ascending, shares,
                            {"oracle", Verdict::differs,
                             "not all of these updates are about lr: gradients that vanish, or another optimizer"});
           });
}

}  // namespace halfulp::trainings
