// A campaign: one experiment under every combination of some parameters, and what came out of all of them in one
// report.
#pragma once

#include <halfulp/report/experiment.hpp>

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halfulp {

/// One combination: a configuration of the experiment.
struct CampaignPoint {
  std::vector<Json> values;  ///< of Campaign::axes, as Config::to_json has them
  Config config;
};

struct Campaign {
  const Experiment* experiment = nullptr;
  std::vector<std::string> axes;      ///< the parameters that vary, in the order in which they are met
  std::vector<CampaignPoint> points;  ///< the last axis varies fastest
  std::set<std::string> tables;       ///< of the experiment, which the report joins; empty: all
  Json specification;                 ///< as it was given
  std::string where;                  ///< it was given, for errors
};

/// More points need to be asked for.
inline constexpr std::uint64_t usual_points = 10'000;

/// Reads a specification:
///
///   {"experiment": "training",
///    "settings": {"steps": 300, "seeds": 10},                                   of every point; may be left out
///    "grid": {"networks": ["mlp", "cnn"], "policies": ["fp32", "bf16-sr"]},     every combination; or a list of such
///    "exclude": [{"networks": "cnn", "policies": "bf16-sr"}],                   points that have all of these values
///    "tables": ["summary", "runs"]}                                             of the report; all if left out
///
/// A parameter that is a list takes one value too, or a text as on the command line. Where a list of grids names
/// different parameters, the others have the value of `settings` or their default. Throws std::invalid_argument in one
/// line, which begins with `where`: an unknown member, experiment or parameter, a value that the experiment refuses, a
/// point that is there twice, no points, an exclusion that excludes nothing, more than `most` points. Only a point's
/// report shows which tables there are (CampaignReport::finish).
Campaign campaign_of(const Json& specification, std::uint64_t most, const std::string& where,
                     std::span<const Experiment> known = experiments());

/// The kind of a campaign's report: its parameters are the experiment's name and the specification.
Experiment campaign_experiment();

/// Of every point its report, in the order of the points. The report has a table `points` with the status, claims,
/// comparisons and finding of each, `point_claims` with those that do not pass, and every table of the experiment, or
/// those that the specification names, with the axes' values before its own columns.
class CampaignReport {
 public:
  explicit CampaignReport(const Campaign& campaign);
  /// The report of the next point.
  void add(const Report& report);
  /// Of each table of the specification that no point so far has: "unknown table 'sumary'; did you mean summary?" A
  /// later point may have it.
  std::vector<std::string> absent_tables() const;
  /// The whole. Precondition: all points were added. Throws std::invalid_argument in one line for a table of the
  /// specification that no point has.
  Report finish() &&;

 private:
  struct Joined {
    std::string name, title;
    Json columns;            ///< of the experiment's table
    std::vector<Json> rows;  ///< with the point's values before
  };
  Joined& joined_with(const std::string& name, const Json& table);

  const Campaign& campaign_;
  std::size_t next_ = 0;
  std::uint64_t failing_ = 0;
  std::vector<std::vector<Json>> points_, claims_;
  std::vector<Joined> tables_;
  std::set<std::string> left_out_;
};

}  // namespace halfulp
