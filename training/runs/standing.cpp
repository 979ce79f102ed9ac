#include <halfulp/training/runs/standing.hpp>

#include <boost/math/distributions/students_t.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace halfulp::trainings {
namespace {

double square(double x) { return x * x; }

/// d(s, i) of some seeds and examples; without examples one column of means.
class Differences {
 public:
  Differences(const Spread& of, const Spread& than, Measure measure) {
    const std::size_t seeds = std::min(of.trials.size(), than.trials.size());
    const std::size_t examples = common(of, than);
    for (std::size_t s = 0; s < seeds; ++s) {
      const Spread::Trial &a = of.trials[s], &b = than.trials[s];
      std::vector<double>& row = rows_.emplace_back();
      for (std::size_t i = 0; i < examples; ++i) row.push_back(result(a, i, measure) - result(b, i, measure));
      means_.push_back(measure == Measure::accuracy ? a.accuracy - b.accuracy : a.loss - b.loss);
      mean_ += means_.back() / static_cast<double>(seeds);
    }
  }

  double mean() const { return mean_; }

  /// Half a 95 % confidence interval of the mean.
  double doubt() const {
    const auto seeds = static_cast<double>(rows_.size()), examples = static_cast<double>(rows_.front().size());
    double by_seeds = 0, by_examples = 0, rest = 0;
    if (seeds > 1) {
      for (const double m : means_) by_seeds += square(m - mean_);
      by_seeds /= (seeds - 1) * seeds;
    }
    if (examples > 1) {
      for (std::size_t i = 0; i < rows_.front().size(); ++i) {
        double of_example = 0;
        for (const std::vector<double>& row : rows_) of_example += row[i] / seeds;
        by_examples += square(of_example - mean_);
        for (std::size_t s = 0; s < rows_.size(); ++s) rest += square(rows_[s][i] - of_example - means_[s] + mean_);
      }
      by_examples /= (examples - 1) * examples;
      rest = seeds > 1 ? rest / ((seeds - 1) * (examples - 1) * seeds * examples) : 0;
    }
    const double variance = std::max({by_seeds, by_examples, by_seeds + by_examples - rest});
    if (!(variance > 0)) return variance;  // none, or NaN
    const double degrees = square(by_seeds + by_examples) / ((seeds > 1 ? square(by_seeds) / (seeds - 1) : 0) +
                                                             (examples > 1 ? square(by_examples) / (examples - 1) : 0));
    return quantile(boost::math::students_t(degrees), 0.975) * std::sqrt(variance);
  }

 private:
  /// Examples that both know one by one. Trials that all failed have none: each answer counts as wrong.
  static std::size_t common(const Spread& of, const Spread& than) {
    if (of.failed() == of.count()) return than.examples();
    return than.failed() == than.count() || of.examples() == than.examples() ? of.examples() : 0;
  }
  static double result(const Spread::Trial& trial, std::size_t example, Measure measure) {
    if (measure == Measure::accuracy) return trial.failed ? 0 : trial.answers[example].right;
    return trial.failed ? trial.loss : trial.answers[example].loss;
  }

  std::vector<std::vector<double>> rows_ = {};
  std::vector<double> means_ = {};
  double mean_ = 0;
};

}  // namespace

void Spread::add(const training::TrainingRecord& record) {
  const bool failed = record.diverged.has_value();
  trials.push_back({record.final.accuracy, failed ? std::numeric_limits<double>::quiet_NaN() : record.final.loss,
                    failed, failed ? std::vector<training::ExampleResult>{} : record.final.examples});
  skipped += record.skipped();
}

void Spread::add(const training::TestResult& result) {
  trials.push_back({result.accuracy, result.loss, false, result.examples});
}

void Spread::add(const Spread& more) {
  trials.insert(trials.end(), more.trials.begin(), more.trials.end());
  skipped += more.skipped;
}

std::uint64_t Spread::failed() const {
  return static_cast<std::uint64_t>(
      std::count_if(trials.begin(), trials.end(), [](const Trial& t) { return t.failed; }));
}

double Spread::mean() const {
  double sum = 0;
  for (const Trial& t : trials) sum += t.accuracy;
  return sum / static_cast<double>(trials.size());
}

double Spread::lowest() const {
  return std::min_element(trials.begin(), trials.end(), [](auto& a, auto& b) { return a.accuracy < b.accuracy; })
      ->accuracy;
}

double Spread::highest() const {
  return std::max_element(trials.begin(), trials.end(), [](auto& a, auto& b) { return a.accuracy < b.accuracy; })
      ->accuracy;
}

double Spread::mean_loss() const {
  double sum = 0;
  for (const Trial& t : trials) sum += t.failed ? 0 : t.loss;
  return sum / static_cast<double>(count() - failed());
}

std::size_t Spread::examples() const {
  std::size_t most = 0;
  for (const Trial& t : trials) most = std::max(most, t.answers.size());
  return most;
}

double difference(double a, double b) { return std::round((a - b) * 1e12) / 1e12 + 0.0; }

Standing standing(const Spread& of, const Spread& than, Measure measure) {
  if (of.trials.empty() || than.trials.empty()) return {};
  const Differences differences(of, than, measure);
  // Libraries differ in the last digits of a quantile: none of them is shown.
  return {difference(differences.mean(), 0), std::round(differences.doubt() * 1e7) / 1e7};
}

std::string verdicts_finding(const ReportTables& tables, std::string_view column, std::string_view reference) {
  std::size_t all = 0, within = 0, failed = 0, undecided = 0;
  for (const TableRow& row : tables.rows("summary")) {
    if (row.text(column) == reference || row.text("verdict").empty()) continue;
    ++all;
    within += row.text("verdict") == "within";
    failed += row.text("verdict") == "failed";
    undecided += row.text("verdict") == "cannot tell";
  }
  if (all == 0) return {};
  return fmt::format("{} of {} {} fp32, {} fail{}", within, all, all == 1 ? "matches" : "match", failed,
                     failed == 1 ? "s" : "") +
         (undecided ? fmt::format(", {} undecided", undecided) : "");
}

namespace {

/// Losses of another order of magnitude in every seed: their spread says nothing of whether they are above.
bool exploded(const Spread& of, const Spread& than) {
  const std::size_t seeds = std::min(of.trials.size(), than.trials.size());
  for (std::size_t s = 0; s < seeds; ++s)
    if (!(of.trials[s].loss > 10 * than.trials[s].loss)) return false;
  return seeds != 0;
}

}  // namespace

std::string_view verdict(const Spread& of, const Spread& than, double margin, Measure measure) {
  if (of.failed() > 0) return "failed";
  if (measure == Measure::loss && exploded(of, than)) return "above";
  Standing s = standing(of, than, measure);
  if (std::isnan(s.difference)) return than.failed() ? "cannot tell" : "failed";  // or no number, of weights that are
  if (measure == Measure::loss) s.difference = -s.difference;                     // more is worse
  if (s.no_worse(margin)) return "within";
  return !s.below() ? "cannot tell" : measure == Measure::loss ? "above" : "below";
}

namespace {

/// The two accuracies and their difference, for people.
std::string in_words(const Spread& of, const Spread& than, const Standing& s, const std::string& name) {
  std::string words = fmt::format("accuracy {:.4f}, of {} {:.4f}: difference {:+.4f} +- {:.4f}", of.mean(), name,
                                  than.mean(), s.difference, s.doubt);
  if (of.failed()) words += fmt::format("; {} of {} trainings failed", of.failed(), of.count());
  return words;
}

/// Why nothing can be compared; nothing if it can.
std::optional<Judgement> without_reference(const Spread& than, const std::string& name) {
  if (than.failed() == 0) return {};
  return skipped(fmt::format("{} of {} trainings of {} failed: there is nothing to compare with", than.failed(),
                             than.count(), name));
}

Judgement cannot_tell(const std::string& words) {
  return skipped("cannot tell: " + words + "; more seeds or test examples tell");
}

}  // namespace

Judgement judge_no_worse(const Spread& of, const Spread& than, double margin, const std::string& name) {
  if (const auto nothing = without_reference(than, name)) return *nothing;
  const Standing s = standing(of, than);
  const std::string words = in_words(of, than, s, name);
  if (verdict(of, than, margin) == "cannot tell") return cannot_tell(words);
  return at_least(-margin, s.difference - s.doubt, may_differ(words));
}

Judgement judge_as_good(const Spread& of, const Spread& than, double margin, double loss_margin,
                        const std::string& name) {
  const Judgement accuracy = judge_no_worse(of, than, margin, name);
  return accuracy.verdict == Verdict::pass ? judge_loss(of, than, loss_margin, name) : accuracy;
}

Judgement judge_loss(const Spread& of, const Spread& than, double loss_margin, const std::string& name) {
  if (const auto nothing = without_reference(than, name)) return *nothing;
  const Standing loss = standing(of, than, Measure::loss);
  const std::string words = fmt::format("accuracy {:.4f}, of {} {:.4f}; the test loss differs by {:+.4f} +- {:.4f}",
                                        of.mean(), name, than.mean(), loss.difference, loss.doubt);
  if (verdict(of, than, loss_margin, Measure::loss) == "cannot tell") return cannot_tell(words);
  return at_most(loss_margin, loss.difference + loss.doubt, may_differ(words));
}

Judgement judge_worse(const Spread& of, const Spread& than, double margin, const std::string& name) {
  if (const auto nothing = without_reference(than, name)) return *nothing;
  const Standing s = standing(of, than);
  const std::string words = in_words(of, than, s, name);
  if (verdict(of, than, margin) == "cannot tell") return cannot_tell(words);
  // Below zero, in the unit to which doubts are rounded: what is the same is not worse.
  return at_most(-1e-7, s.difference + s.doubt, may_differ(words));
}

Judgement judge_repair(const Spread& of, const Spread& broken, const Spread& than, double margin,
                       const std::string& name) {
  const Standing s = standing(broken, than);
  if (!s.below()) return skipped("nothing to repair: without it, " + in_words(broken, than, s, name));
  return judge_no_worse(of, than, margin, name);
}

}  // namespace halfulp::trainings
