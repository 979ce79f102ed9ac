#include <halfulp/report/campaign.hpp>

#include <halfulp/support/json.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

namespace halfulp {
namespace {

/// The members of an object, each known; one line says which is not.
void require_members(const Json& object, std::initializer_list<std::string_view> known, const std::string& where) {
  if (!object.is_object()) throw std::invalid_argument(where + ": no JSON object; accepted: {\"experiment\": ...}");
  for (const auto& [name, value] : object.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw std::invalid_argument(where + ": " + unknown_name("member", name, {known.begin(), known.end()}));
}

class Reader {
 public:
  Reader(const Json& specification, std::uint64_t most, const std::string& where, std::span<const Experiment> known)
      : most_(most), where_(where), known_(known) {
    require_members(specification, {"experiment", "settings", "grid", "exclude", "tables"}, where);
    campaign_.specification = specification, campaign_.where = where;
    campaign_.experiment = &experiment_of(specification);
    parameters_ = campaign_.experiment->parameters();
    if (specification.contains("settings")) settings_ = with_lists(object_at(specification["settings"], "settings"));
    read_grids(specification);
    if (specification.contains("exclude")) read_exclusions(specification["exclude"]);
    if (specification.contains("tables")) read_tables(specification["tables"]);
    make_points();
  }
  Campaign campaign() && { return std::move(campaign_); }

 private:
  [[noreturn]] void refuse(const std::string& why) const { throw std::invalid_argument(where_ + ": " + why); }

  const Experiment& experiment_of(const Json& specification) const {
    const Json given = specification.value("experiment", Json());
    if (!given.is_string())
      refuse(fmt::format("\"experiment\" is {}; accepted: the name of one, as halfulp list has it",
                         given.is_null() ? "missing" : shown_value(given)));
    const auto name = given.get<std::string>();
    std::vector<std::string> names;
    for (const Experiment& experiment : known_) {
      if (experiment.name == name) return experiment;
      names.emplace_back(experiment.name);
    }
    refuse(unknown_name("experiment", name, std::move(names)));
  }
  const Json& object_at(const Json& value, const std::string& name) const {
    if (!value.is_object()) refuse(name + ": no JSON object; accepted: {\"PARAMETER\": VALUE, ...}");
    return value;
  }
  void require_parameter(const std::string& name) const {
    std::vector<std::string> names;
    for (const Parameter& parameter : parameters_) {
      if (parameter.name == name) return;
      names.push_back(parameter.name);
    }
    refuse("grid: " + unknown_name("parameter", name, std::move(names)));
  }
  /// A list may be written as one value, or as on the command line: "fp32", "fp32,bf16".
  Json with_lists(Json values) const {
    for (const Parameter& parameter : parameters_) {
      const auto value = values.find(parameter.name);
      if (value == values.end() || !is_list(parameter.type) || value->is_array()) continue;
      *value = value->is_string() ? value_from_text(parameter.type, value->get<std::string>()) : Json::array({*value});
    }
    return values;
  }
  /// The configuration with these members besides the settings.
  Config config_with(const Json& values) const {
    Config config(parameters_);
    try {
      config.set(settings_);
      config.set(with_lists(values));
    } catch (const std::invalid_argument& error) { refuse(error.what()); }
    return config;
  }
  /// A value as every configuration has it: "0.10" and 0.1 are one.
  Json canonical(const std::string& parameter, const Json& value) const {
    return config_with({{parameter, value}}).to_json().at(parameter);
  }

  void read_grids(const Json& specification) {
    Json grids = specification.contains("grid") ? specification["grid"] : Json::object();
    if (!grids.is_array()) grids = Json::array({grids});
    if (grids.empty()) refuse("grid: an empty list; accepted: {\"PARAMETER\": [VALUE, ...], ...}, or a list of such");
    std::uint64_t total = 0;
    for (const Json& grid : grids) {
      std::uint64_t combinations = 1;
      for (const auto& [parameter, values] : object_at(grid, "grid").items()) {
        if (!values.is_array() || values.empty())
          refuse(fmt::format("grid: {}: {}; accepted: a list of values", shown(parameter), shown_value(values)));
        combinations = values.size() > std::numeric_limits<std::uint64_t>::max() / combinations
                           ? std::numeric_limits<std::uint64_t>::max()
                           : combinations * values.size();
        if (std::find(campaign_.axes.begin(), campaign_.axes.end(), parameter) != campaign_.axes.end()) continue;
        require_parameter(parameter);  // points of earlier grids have no value of it either
        campaign_.axes.push_back(parameter);
      }
      total = combinations > std::numeric_limits<std::uint64_t>::max() - total
                  ? std::numeric_limits<std::uint64_t>::max()
                  : total + combinations;
    }
    for (const auto& [parameter, value] : settings_.items())
      if (std::all_of(grids.begin(), grids.end(),
                      [&, name = parameter](const Json& grid) { return grid.contains(name); }))
        refuse(fmt::format("settings: {} is in the grid; accepted: in one of them", shown(parameter)));
    if (total > most_)
      refuse(fmt::format("{} points; accepted: at most {}, or as many as --max-points says", total, most_));
    grids_ = std::move(grids);
  }
  void read_exclusions(const Json& list) {
    if (!list.is_array()) refuse("exclude: no list; accepted: [{\"PARAMETER\": VALUE, ...}, ...]");
    for (const Json& exclusion : list) {
      if (object_at(exclusion, "exclude").empty()) refuse("exclude: {} is every point; accepted: some parameters");
      Json values = Json::object();
      for (const auto& [parameter, value] : exclusion.items()) {
        if (std::find(campaign_.axes.begin(), campaign_.axes.end(), parameter) == campaign_.axes.end())
          refuse("exclude: " + unknown_name("parameter of the grid", parameter, campaign_.axes));
        values[parameter] = canonical(parameter, value);
      }
      exclusions_.push_back({std::move(values), false});
    }
  }

  void read_tables(const Json& list) {
    const std::string accepted = "accepted: a list of tables of the experiment, each once, as [\"summary\", \"runs\"]";
    if (!list.is_array() || list.empty()) refuse("tables: " + shown_value(list) + "; " + accepted);
    for (const Json& name : list) {
      if (!name.is_string() || !campaign_.tables.insert(name.get<std::string>()).second)
        refuse("tables: " + shown_value(name) + "; " + accepted);
    }
  }
  void make_points() {
    std::set<std::string> met;
    for (const Json& grid : grids_) {
      std::vector<std::string> names;
      for (const auto& [name, values] : grid.items()) names.push_back(name);
      std::vector<std::size_t> digits(names.size());
      do {
        Json values = Json::object();
        for (std::size_t i = 0; i < names.size(); ++i) values[names[i]] = grid[names[i]][digits[i]];
        add_point(config_with(values), met);
      } while (next(digits, [&](std::size_t i) { return grid[names[i]].size(); }));
    }
    for (const auto& [values, used] : exclusions_)
      if (!used) refuse(fmt::format("exclude: {} is no point of the grid", values.dump()));
    if (campaign_.points.empty()) refuse("every point is excluded; accepted: one point or more");
  }
  template <class SizeOf>
  static bool next(std::vector<std::size_t>& digits, SizeOf size_of) {
    for (std::size_t i = digits.size(); i-- > 0; digits[i] = 0)
      if (++digits[i] < size_of(i)) return true;
    return false;
  }
  void add_point(Config config, std::set<std::string>& met) {
    const Json all = config.to_json();
    if (!met.insert(all.dump()).second) refuse("grid: a point is there twice: " + shown_point(all));
    bool excluded = false;
    for (auto& [values, used] : exclusions_) {
      bool here = true;
      for (const auto& [parameter, value] : values.items()) here = here && all.at(parameter) == value;
      used = used || here, excluded = excluded || here;
    }
    if (excluded) return;
    CampaignPoint point{{}, std::move(config)};
    for (const std::string& axis : campaign_.axes) point.values.push_back(all.at(axis));
    campaign_.points.push_back(std::move(point));
  }
  std::string shown_point(const Json& all) const {
    Json values = Json::object();
    for (const std::string& axis : campaign_.axes) values[axis] = all.at(axis);
    return values.dump();
  }

  struct Exclusion {
    Json values;
    bool used;
  };
  std::uint64_t most_;
  std::string where_;
  std::span<const Experiment> known_;
  Campaign campaign_;
  std::vector<Parameter> parameters_;
  Json settings_ = Json::object(), grids_;
  std::vector<Exclusion> exclusions_;
};

std::vector<Parameter> campaign_parameters() {
  return {{"experiment", ParameterType::text, "training", "the experiment that every point runs"},
          {"specification", ParameterType::text, "{}", "settings, grid, exclusions and tables, as JSON"}};
}

std::string finding_of_campaign(const ReportTables& tables) {
  std::size_t points = 0, failing = 0;
  for (const TableRow& row : tables.rows("points")) {
    ++points;
    failing += row.text("status") == "fail";
  }
  if (points == 0) return {};
  return fmt::format("{} point{}, {}", points, points == 1 ? "" : "s",
                     failing == 0 ? "none fails" : fmt::format("{} fail{}", failing, failing == 1 ? "s" : ""));
}

/// A value in a column of an axis: lists as they are typed.
Json cell(const Json& value) {
  if (!value.is_array()) return value;
  std::string text;
  for (const Json& one : value)
    text += (text.empty() ? "" : ",") + (one.is_string() ? one.get<std::string>() : one.dump());
  return text;
}

std::vector<Column> axis_columns(const Campaign& campaign) {
  std::vector<Column> columns{{"point", "1", "number of the point, from 0"}};
  const std::vector<Parameter> parameters = campaign.experiment->parameters();
  for (const std::string& axis : campaign.axes) {
    const auto of = std::find_if(parameters.begin(), parameters.end(),
                                 [&](const Parameter& p) { return p.name == axis; });
    const bool number = of->type == ParameterType::integer || of->type == ParameterType::real;
    columns.push_back({axis, number ? "1" : "", "parameter of the campaign: " + of->help});
  }
  return columns;
}

}  // namespace

Campaign campaign_of(const Json& specification, std::uint64_t most, const std::string& where,
                     std::span<const Experiment> known) {
  return Reader(specification, most, where, known).campaign();
}

Experiment campaign_experiment() {
  return {"campaign",
          "One experiment under many settings",
          "What comes out of every combination of some parameters?",
          campaign_parameters,
          nullptr,
          finding_of_campaign,
          {"points", {"point", "status", "pass", "differs", "fail", "finding"}}};
}

CampaignReport::CampaignReport(const Campaign& campaign) : campaign_(campaign) {}

void CampaignReport::add(const Report& report) {
  const CampaignPoint& point = campaign_.points.at(next_);
  std::vector<Json> before{next_++};
  for (const Json& value : point.values) before.push_back(cell(value));

  std::vector<Json> row = before;
  const VerdictCounts& verdicts = report.verdicts();
  row.emplace_back(report.status());
  for (const Verdict verdict : {Verdict::pass, Verdict::differs, Verdict::fail, Verdict::skipped})
    row.emplace_back(verdicts[verdict]);
  std::uint64_t compared = 0, differing = 0;
  for (const TaskComparison& comparison : report.comparisons())
    compared += comparison.compared, differing += comparison.differing;
  row.emplace_back(compared), row.emplace_back(differing);
  row.push_back(or_null(report.finding()));
  points_.push_back(std::move(row));
  for (const Claim& claim : report.claims()) {
    if (claim.verdict == Verdict::pass || claim.verdict == Verdict::skipped) continue;
    std::vector<Json> cells = before;
    cells.insert(cells.end(), {claim.id, std::string(name_of(claim.verdict)), claim.statement, claim.expected.dump(),
                               claim.tolerance, claim.measured.dump(), or_null(claim.reason)});
    claims_.push_back(std::move(cells));
  }
  failing_ += report.status() == "fail";

  const Json results = report.results();
  for (const auto& [name, table] : results.items()) {
    if (!campaign_.tables.empty() && !campaign_.tables.contains(name)) {
      left_out_.insert(name);
      continue;
    }
    Joined& joined = joined_with(name, table);
    if (joined.title != table["title"].get<std::string>())
      joined.title = name + ", of every point";  // the experiment's names settings
    for (const Json& cells : table["rows"]) {
      Json whole = before;
      whole.insert(whole.end(), cells.begin(), cells.end());
      joined.rows.push_back(std::move(whole));
    }
  }
}

/// Tables of a name whose columns depend on settings stay apart.
CampaignReport::Joined& CampaignReport::joined_with(const std::string& name, const Json& table) {
  const auto same = std::find_if(tables_.begin(), tables_.end(), [&](const Joined& other) {
    return (other.name == name || other.name.starts_with(name + "_of_point_")) && other.columns == table["columns"];
  });
  if (same != tables_.end()) return *same;
  const bool taken = name == "points" || name == "point_claims" ||
                     std::any_of(tables_.begin(), tables_.end(),
                                 [&](const Joined& other) { return other.name == name; });
  return tables_.emplace_back(Joined{taken ? fmt::format("{}_of_point_{}", name, next_ - 1) : name,
                                     table["title"].get<std::string>(),
                                     table["columns"],
                                     {}});
}

std::vector<std::string> CampaignReport::absent_tables() const {
  std::vector<std::string> known(left_out_.begin(), left_out_.end()), absent;
  for (const Joined& table : tables_) known.push_back(table.name);
  for (const std::string& name : campaign_.tables)
    if (std::find(known.begin(), known.end(), name) == known.end())
      absent.push_back(unknown_name("table", name, known));
  return absent;
}

Report CampaignReport::finish() && {
  if (const std::vector<std::string> absent = absent_tables(); !absent.empty())
    throw std::invalid_argument(
        fmt::format("{}: tables: {}; trials in the store are kept", campaign_.where, absent.front()));
  Config config(campaign_parameters());
  Json specification = campaign_.specification;
  specification.erase("experiment");
  config.set(Json{{"experiment", campaign_.experiment->name}, {"specification", specification.dump()}});
  Report report("campaign", fmt::format("{}: {} points", campaign_.experiment->title, campaign_.points.size()), config);

  std::vector<Column> columns = axis_columns(campaign_);
  const std::vector<Column> axes = columns;
  columns.insert(columns.end(), {{"status", "", "pass, or fail if a claim of the point fails or a comparison differs"},
                                 {"pass", "1", "claims that pass"},
                                 {"differs", "1", "published figures that did not come out"},
                                 {"fail", "1", "claims that fail"},
                                 {"skipped", "1", "claims that could not be judged"},
                                 {"compared", "1", "results compared with backends"},
                                 {"differing", "1", "of these, those that differ"},
                                 {"finding", "", "the experiment's answer in one sentence"}});
  Table& points = report.table("points", "The points of the campaign", columns);
  for (std::vector<Json>& row : points_) points.row(std::move(row));
  columns = axes;
  columns.insert(columns.end(), {{"claim", "", "its id"},
                                 {"verdict", "", "fail, or differs for a published figure that did not come out"},
                                 {"statement", "", "what is claimed"},
                                 {"expected", "", "as JSON"},
                                 {"tolerance", "", "exact, at least, at most, or a distance as in \"absolute 0.001\""},
                                 {"measured", "", "as JSON"},
                                 {"reason", "", "why it differs; null: the numbers say it"}});
  Table& claims = report.table("point_claims", "The claims of points that fail or differ", columns);
  for (std::vector<Json>& row : claims_) claims.row(std::move(row));
  for (const Joined& joined : tables_) {
    std::vector<Column> all = axes;
    std::set<std::string> names;
    for (const Column& column : axes) names.insert(column.name);
    for (const Json& column : joined.columns) {
      std::string name = column["name"];
      while (!names.insert(name).second) name += "_of_row";  // a table may have the parameter as a column
      all.push_back({name, column["unit"], column["description"]});
    }
    Table& table = report.table(joined.name, joined.title, all);
    for (const Json& row : joined.rows) table.row({row.begin(), row.end()});
  }
  report.claim({"no-point-fails", "No claim of any point fails, and no comparison with a backend differs.",
                "derived: what the experiment claims of every configuration"},
               exactly(0, failing_, "oracle"));
  report.finding(finding_of(campaign_experiment(), report.results()));
  return report;
}

}  // namespace halfulp
