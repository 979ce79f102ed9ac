#include <halfulp/experiments/report/schema.hpp>

#include <halfulp/experiments/report/consistency.hpp>

#include <halfulp_schema_text.hpp>  // made from report.schema.json at configuration

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include <algorithm>

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

}  // namespace

std::string_view report_schema() { return report_schema_text; }

std::vector<std::string> report_errors(const Json& report, std::span<const Experiment> known) {
  std::vector<std::string> errors = schema_errors(report);
  return errors.empty() ? contradictions(report, known) : errors;
}

}  // namespace halfulp
