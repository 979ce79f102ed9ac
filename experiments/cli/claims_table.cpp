#include <halfulp/experiments/cli/claims_table.hpp>

#include <utility>

namespace halfulp::cli {
namespace {

Json claims_table(const Json& claims) {
  static constexpr std::pair<const char*, const char*> members[] = {
      {"verdict", "Whether it holds: pass, fail (follows from a format or model, and does not), differs (a published figure that did not come out), skipped."},
      {"id", "The claim's name."},
      {"expected", "What was expected."},
      {"measured", "What was measured."},
      {"tolerance", "How near they must be."},
      {"independence", "What the expected value was obtained from: oracle (rationals, a formula), silicon, recorded, third-party, published, emulation (none)."},
      {"source", "Who says so."},
      {"statement", "What is claimed."},
      {"reason", "Why it differs or was skipped."}};
  Json table{{"title", "Claims, and what was measured"}, {"columns", Json::array()}, {"rows", Json::array()}};
  for (const auto& [name, description] : members) table["columns"].push_back({{"name", name}, {"unit", ""}, {"description", description}});
  for (const Json& claim : claims) {
    Json row = Json::array();
    for (const auto& [name, description] : members) {
      const Json& value = claim.at(name);
      row.push_back(value.is_structured() ? Json(value.dump()) : value);
    }
    table["rows"].push_back(std::move(row));
  }
  return table;
}

}  // namespace

Json tables_with_claims(const Json& report) {
  Json tables = report.at("results");
  if (!tables.contains("claims")) tables["claims"] = claims_table(report.value("claims", Json::array()));
  return tables;
}

}  // namespace halfulp::cli
