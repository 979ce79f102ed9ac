#include <halfulp/experiments/report/schema.hpp>

#include <halfulp_schema_text.hpp>  // made from report.schema.json at configuration

#include <fmt/format.h>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include <algorithm>
#include <set>

namespace halfulp {
namespace {

using Error = valijson::ValidationResults::Error;

/// {"<root>", "[claims]", "[0]"} as "/claims/0".
std::string pointer(const std::vector<std::string>& context) {
  std::string text;
  for (std::size_t i = 1; i < context.size(); ++i) text += "/" + context[i].substr(1, context[i].size() - 2);
  return text.empty() ? "/" : text;
}

bool lies_within(const Error& inner, const Error& outer) {
  return inner.context.size() > outer.context.size() &&
         std::equal(outer.context.begin(), outer.context.end(), inner.context.begin());
}

/// The innermost errors: that an array fails because its element does goes without saying.
std::vector<std::string> innermost(const std::vector<Error>& errors) {
  std::vector<std::string> lines;
  for (const Error& error : errors) {
    if (std::any_of(errors.begin(), errors.end(), [&](const Error& other) { return lies_within(other, error); })) continue;
    std::string line = pointer(error.context) + ": " + error.description;
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> schema_errors(const Json& report) {
  using Adapter = valijson::adapters::NlohmannJsonAdapter;
  const nlohmann::json schema_json = nlohmann::json::parse(report_schema());
  valijson::Schema schema;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(Adapter(schema_json), schema);

  const nlohmann::json plain(report);  // the adapter wants members sorted by name
  valijson::ValidationResults results;
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  if (validator.validate(schema, Adapter(plain), &results)) return {};
  return innermost({results.begin(), results.end()});
}

/// What a schema cannot say. The report satisfies the schema here.
std::vector<std::string> consistency_errors(const Json& report) {
  std::vector<std::string> errors;
  std::set<std::string> ids;
  bool failed = false;
  for (std::size_t i = 0; i < report.at("claims").size(); ++i) {
    const Json& claim = report.at("claims")[i];
    if (!ids.insert(claim.at("id")).second) errors.push_back(fmt::format("/claims/{}/id: '{}' is there twice", i, claim.at("id").get<std::string>()));
    failed = failed || claim.at("verdict") == "fail";
  }
  for (const auto& [name, table] : report.at("results").items())
    for (std::size_t i = 0; i < table.at("rows").size(); ++i)
      if (table.at("rows")[i].size() != table.at("columns").size())
        errors.push_back(fmt::format("/results/{}/rows/{}: {} cells for {} columns", name, i, table.at("rows")[i].size(),
                                     table.at("columns").size()));
  for (std::size_t i = 0; i < report.at("comparisons").size(); ++i) {
    const Json& comparison = report.at("comparisons")[i];
    if (!comparison.at("skipped").is_null()) continue;
    const auto differing = comparison.at("differing").get<std::uint64_t>();
    std::uint64_t classified = 0;
    for (const auto& [name, count] : comparison.at("classes").items()) classified += count.get<std::uint64_t>();
    if (differing > comparison.at("compared").get<std::uint64_t>() || classified != differing)
      errors.push_back(fmt::format("/comparisons/{}: compared, differing and classes do not add up", i));
    failed = failed || differing != 0;
  }
  if (report.at("status") != (failed ? "fail" : "pass"))
    errors.push_back(fmt::format("/status: claims and comparisons say {}", failed ? "fail" : "pass"));
  return errors;
}

}  // namespace

std::string_view report_schema() { return report_schema_text; }

std::vector<std::string> report_errors(const Json& report) {
  std::vector<std::string> errors = schema_errors(report);
  return errors.empty() ? consistency_errors(report) : errors;
}

}  // namespace halfulp
