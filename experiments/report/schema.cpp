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

/// "[claims]" as "claims".
std::string unbracketed(const std::string& token) { return token.substr(1, token.size() - 2); }

/// {"<root>", "[claims]", "[0]"} as "/claims/0".
std::string pointer(const std::vector<std::string>& context) {
  std::string text;
  for (std::size_t i = 1; i < context.size(); ++i) text += "/" + unbracketed(context[i]);
  return text.empty() ? "/" : text;
}

bool lies_within(const Error& inner, const Error& outer) {
  return inner.context.size() > outer.context.size() &&
         std::equal(outer.context.begin(), outer.context.end(), inner.context.begin());
}

/// What a place of the schema stands for, behind its reference.
nlohmann::json resolved(const nlohmann::json& schema, nlohmann::json node) {
  while (node.contains("$ref")) node = schema.at(nlohmann::json::json_pointer(node["$ref"].get<std::string>().substr(1)));
  return node;
}

/// "one of pass, fail", "number or one of NaN": what the schema accepts in a place, as far as that is said in a few words.
std::string accepted(const nlohmann::json& schema, const nlohmann::json& place) {
  const nlohmann::json node = resolved(schema, place);
  std::string text;
  const auto add = [&](const std::string& word, const char* separator) { text += (text.empty() ? "" : separator) + word; };
  if (node.contains("enum")) {
    for (const auto& value : node["enum"]) add(value.is_string() ? value.get<std::string>() : value.dump(), ", ");
    return "one of " + text;
  }
  if (node.contains("oneOf"))
    for (const auto& alternative : node["oneOf"]) add(accepted(schema, alternative), " or ");
  if (node.contains("const")) return node["const"].dump();
  if (node.contains("pattern")) return "text that matches " + node["pattern"].get<std::string>();
  if (node.contains("type"))
    for (const auto& type : node["type"].is_array() ? node["type"] : nlohmann::json::array({node["type"]})) add(type.get<std::string>(), " or ");
  return text;
}

/// "; accepted: ..." for the place that an error is about; empty where the schema does not say it shortly.
std::string accepted_at(const nlohmann::json& schema, const std::vector<std::string>& context) {
  nlohmann::json node = resolved(schema, schema);
  for (std::size_t i = 1; i < context.size(); ++i) {
    const std::string token = unbracketed(context[i]);
    if (node.contains("properties") && node["properties"].contains(token)) node = node["properties"][token];
    else if (node.contains("items")) node = node["items"];
    else if (node.contains("additionalProperties") && node["additionalProperties"].is_object()) node = node["additionalProperties"];
    else return {};
    node = resolved(schema, node);
  }
  const std::string text = accepted(schema, node);
  return text.empty() || text == "object" || text == "array" ? "" : "; accepted: " + text;
}

/// The innermost errors: that an array fails because its element does goes without saying.
std::vector<std::string> innermost(const nlohmann::json& schema, const std::vector<Error>& errors) {
  std::vector<std::string> lines;
  for (const Error& error : errors) {
    if (std::any_of(errors.begin(), errors.end(), [&](const Error& other) { return lies_within(other, error); })) continue;
    std::string line = pointer(error.context) + ": " + error.description;
    if (line.back() == '.') line.pop_back();
    line += accepted_at(schema, error.context);
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
  return innermost(schema_json, {results.begin(), results.end()});
}

}  // namespace

std::string_view report_schema() { return report_schema_text; }

std::vector<std::string> report_errors(const Json& report, std::span<const Experiment> known) {
  std::vector<std::string> errors = schema_errors(report);
  return errors.empty() ? contradictions(report, known) : errors;
}

}  // namespace halfulp
