// What several trainings that differ only by their seed say together, and how one variant stands to another.
#pragma once

#include <halfulp/report/claim.hpp>
#include <halfulp/report/finding.hpp>
#include <halfulp/training/trainer.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp::trainings {

/// Tests of one variant, a trial per seed.
struct Spread {
  struct Trial {
    double accuracy = 0, loss = 0;
    bool failed = false;                                ///< its accuracy counts as 0, its loss as NaN
    std::vector<training::ExampleResult> answers = {};  ///< none if it failed
  };
  std::vector<Trial> trials = {};
  std::uint64_t skipped = 0;  ///< steps that loss scalers left out

  void add(const training::TrainingRecord& record);
  /// A test of a network that was not trained any more.
  void add(const training::TestResult& result);
  /// The same variant's trials with other seeds.
  void add(const Spread& more);

  std::uint64_t count() const { return trials.size(); }
  std::uint64_t failed() const;
  /// Of accuracies. Precondition of all three: a trial.
  double mean() const;
  double lowest() const;
  double highest() const;
  /// Of losses of trials that did not fail; NaN if all did.
  double mean_loss() const;
  /// Examples of one test; 0 if none are known one by one.
  std::size_t examples() const;
};

/// A difference without what sums of fractions leave of a zero, nor its sign.
double difference(double a, double b);

/// What is compared.
enum class Measure : std::uint8_t { accuracy, loss };

/// How one variant stands to another. Trainings of one seed have the same first values and examples, and all are tested
/// with the same examples: what counts is the difference, seed by seed and example by example.
struct Standing {
  double difference = 0;  ///< mean over seeds and examples
  double doubt = 0;       ///< half the width of its 95 % confidence interval
  /// Beyond doubt.
  bool below() const { return difference < -doubt; }
  bool above() const { return difference > doubt; }
  /// At most `margin` below, beyond doubt.
  bool no_worse(double margin) const { return difference - doubt >= -margin; }
};

/// Seeds and test examples are both samples: d(s, i) = mean + effect of seed s + effect of example i + rest (crossed
/// random effects, Searle, Casella & McCulloch 1992, Variance Components, section 4.5). The variance of the mean is
/// that of the means over seeds, plus that of the means over examples, less the rest, which both contain, and no less
/// than either of the two. Student's t has the degrees of freedom of Satterthwaite's approximation. One seed says
/// nothing of seeds: then only examples count. Zeros if either has no trial; NaN for losses of which one failed.
Standing standing(const Spread& of, const Spread& than, Measure measure = Measure::accuracy);

/// "failed" if a trial of `of` did; "within" if it is no worse than margin allows; "below" if it is worse beyond doubt;
/// else "cannot tell", as where losses are compared with those of a failed one. Of losses: the mirror image, "above"
/// where it is worse, and where every seed's loss is more than ten times that of `than`: such losses scatter so much
/// that no interval is above anything.
std::string_view verdict(const Spread& of, const Spread& than, double margin, Measure measure = Measure::accuracy);

/// "12 of 17 match fp32, 2 fail, 1 undecided": the rows of the table `summary` by their verdicts, but for references,
/// which `column` names so, and for rows without a verdict, which nothing was compared with. Empty if no row is left.
std::string verdicts_finding(const ReportTables& tables, std::string_view column, std::string_view reference);

// Published statements about accuracies. What cannot be told is skipped, and says so.

/// `of` is at most `margin` below `than`. `name` is that of `than`.
Judgement judge_no_worse(const Spread& of, const Spread& than, double margin, const std::string& name);
/// The same, and its loss is at most `loss_margin` above.
Judgement judge_as_good(const Spread& of, const Spread& than, double margin, double loss_margin,
                        const std::string& name);
/// Its loss is at most `loss_margin` above.
Judgement judge_loss(const Spread& of, const Spread& than, double loss_margin, const std::string& name);
/// `of` is below `than` by more than the doubt.
Judgement judge_worse(const Spread& of, const Spread& than, double margin, const std::string& name);
/// What `broken` loses against `than`, `of` does not: skipped if it loses nothing.
Judgement judge_repair(const Spread& of, const Spread& broken, const Spread& than, double margin,
                       const std::string& name);

}  // namespace halfulp::trainings
