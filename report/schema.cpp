#include <halfulp/report/schema.hpp>

#include <halfulp/formats/catalogue.hpp>
#include <halfulp/report/environment.hpp>
#include <halfulp/report/report.hpp>
#include <halfulp/support/spelling.hpp>

#include <fmt/format.h>
#include <halfulp_report_schema_text.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

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
  while (node.contains("$ref"))
    node = schema.at(nlohmann::json::json_pointer(node["$ref"].get<std::string>().substr(1)));
  return node;
}

using Adapter = valijson::adapters::NlohmannJsonAdapter;

/// Whether a value satisfies a part of the schema that refers to no other.
bool satisfies(const nlohmann::json& schema_json, const nlohmann::json& value) {
  valijson::Schema schema;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(Adapter(schema_json), schema);
  return valijson::Validator(valijson::Validator::kStrongTypes).validate(schema, Adapter(value), nullptr);
}

/// "one of pass, fail", "number or one of NaN": what the schema accepts in a place, as far as that is said in a few
/// words.
std::string accepted(const nlohmann::json& schema, const nlohmann::json& place) {
  const nlohmann::json node = resolved(schema, place);
  std::string text;
  const auto add = [&](const std::string& word, const char* separator) {
    text += (text.empty() ? "" : separator) + word;
  };
  if (node.contains("enum")) {
    const nlohmann::json type = node.contains("type") ? nlohmann::json{{"type", node["type"]}}
                                                      : nlohmann::json::object();
    for (const auto& value : node["enum"])
      if (satisfies(type, value)) add(value.is_string() ? value.get<std::string>() : value.dump(), ", ");
    return (text.find(',') == std::string::npos ? "" : "one of ") + text;
  }
  if (node.contains("oneOf"))
    for (const auto& alternative : node["oneOf"]) add(accepted(schema, alternative), " or ");
  if (node.contains("const")) return node["const"].dump();
  if (node.contains("pattern")) return "text that matches " + node["pattern"].get<std::string>();
  if (node.contains("type"))
    for (const auto& type : node["type"].is_array() ? node["type"] : nlohmann::json::array({node["type"]}))
      add(type.get<std::string>(), " or ");
  return text;
}

/// What a schema says of an object: the node itself, and what its if-then-else adds for the kind that the object is,
/// the most special last.
std::vector<nlohmann::json> kinds(const nlohmann::json& schema, const nlohmann::json& node,
                                  const nlohmann::json& object) {
  std::vector<nlohmann::json> found{node};
  while (found.back().contains("if")) {
    const char* const branch = satisfies(found.back()["if"], object) ? "then" : "else";
    found.push_back(resolved(schema, found.back().value(branch, nlohmann::json::object())));
  }
  return found;
}

/// What all of them say of a member or an element, the most special last; null if none says anything.
nlohmann::json member(const nlohmann::json& schema, const std::vector<nlohmann::json>& kinds,
                      const std::string& token) {
  nlohmann::json found;
  for (const nlohmann::json& node : kinds) {
    const nlohmann::json others = node.value("additionalProperties", nlohmann::json());
    if (node.contains("properties") && node["properties"].contains(token))
      found.update(resolved(schema, node["properties"][token]));
    else if (node.contains("items")) found.update(resolved(schema, node["items"]));
    else if (others.is_object()) found.update(resolved(schema, others));
  }
  return found;
}

/// "; accepted: ..." for the place of a report that an error is about; empty where the schema does not say it shortly.
std::string accepted_at(const nlohmann::json& schema, const nlohmann::json& report,
                        const std::vector<std::string>& context) {
  nlohmann::json node = resolved(schema, schema);
  const nlohmann::json* place = &report;
  for (std::size_t i = 1; i < context.size(); ++i) {
    const std::string token = unbracketed(context[i]);
    node = member(schema, kinds(schema, node, *place), token);
    if (node.is_null()) return {};
    if (place->is_array()) place = &place->at(std::stoul(token));
    else if (place->is_object() && place->contains(token)) place = &place->at(token);
    else return {};
  }
  const std::string text = accepted(schema, node);
  return text.empty() || text == "object" || text == "array" ? "" : "; accepted: " + text;
}

/// Whether it says no more than that an if-then-else fails.
bool says_which_kind(const Error& error) { return error.description.find("if-then-else") != std::string::npos; }

/// The innermost errors: that an array fails because its element does goes without saying.
std::vector<std::string> innermost(const nlohmann::json& schema, const nlohmann::json& report,
                                   const std::vector<Error>& errors) {
  std::vector<std::string> lines;
  for (const Error& error : errors) {
    if (std::any_of(errors.begin(), errors.end(), [&](const Error& other) { return lies_within(other, error); }))
      continue;
    if (says_which_kind(error)) continue;  // and the errors of that kind say what is wrong
    std::string line = pointer(error.context) + ": " + error.description;
    if (line.back() == '.') line.pop_back();
    line += accepted_at(schema, report, error.context);
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(std::move(line));
  }
  return lines;
}

/// Names and short texts that are longer than any: the schema's patterns would take a stack of that depth.
void check_lengths(const Json& value, const std::string& where, std::vector<std::string>& errors) {
  constexpr std::size_t longest_name = 1000;
  static const std::set<std::string, std::less<>> patterned{"code", "date", "experiment", "id", "name", "revision"};
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i) check_lengths(value[i], fmt::format("{}/{}", where, i), errors);
  if (!value.is_object()) return;
  for (const auto& [name, member] : value.items()) {
    const std::string place = where + "/" + shown(name);
    const std::size_t length = member.is_string() && patterned.contains(name)
                                   ? member.get_ref<const std::string&>().size()
                                   : 0;
    if (std::max(name.size(), length) > longest_name)
      errors.push_back(
          fmt::format("{}: {} characters; accepted: at most {}", place, std::max(name.size(), length), longest_name));
    check_lengths(member, place, errors);
  }
}

constexpr std::string_view foreign = "no report of halfulp";

/// "no report of halfulp (its members: a, b, ...)" for an object that lacks most of what a report must have, else
/// nothing. To list all that it lacks would not help.
std::string foreign_object(const nlohmann::json& schema, const Json& object) {
  constexpr std::size_t most_members = 6;
  std::size_t present = 0;
  for (const auto& name : schema.at("required")) present += object.contains(name.get<std::string>());
  if (2 * present >= schema.at("required").size()) return {};
  std::string members;
  std::size_t count = 0;
  for (const auto& [name, value] : object.items())
    if (count++ < most_members) members += (members.empty() ? "" : ", ") + shown(name);
  if (count > most_members) members += fmt::format(" and {} more", count - most_members);
  return count == 0 ? fmt::format("{} (an object without members)", foreign)
                    : fmt::format("{} (its members: {})", foreign, members);
}

std::vector<std::string> schema_errors(const Json& report) {
  if (!report.is_object()) return {fmt::format("{}; accepted: a report, an object", report.type_name())};
  const nlohmann::json schema_json = nlohmann::json::parse(report_schema());
  if (std::string other = foreign_object(schema_json, report); !other.empty()) return {std::move(other)};
  std::vector<std::string> long_ones;
  check_lengths(report, "", long_ones);
  if (!long_ones.empty()) return long_ones;

  valijson::Schema schema;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7).populateSchema(Adapter(schema_json), schema);

  const nlohmann::json plain(report);  // the adapter wants members sorted by name
  valijson::ValidationResults results;
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  if (validator.validate(schema, Adapter(plain), &results)) return {};
  return innermost(schema_json, plain, {results.begin(), results.end()});
}

// What a schema cannot say: whether the parts of a report contradict each other.

using Lines = std::vector<std::string>;

std::string value_text(const Json& value) { return shown(value.dump(-1, ' ', false, Json::error_handler_t::replace)); }

/// "nan", "-inf", "+Infinity": a non-finite number as a string, but not as reports spell it.
bool is_misspelled_number(const Json& value) {
  if (!value.is_string() || number_of(value)) return false;
  std::string word = lowered(value.get<std::string>());
  if (!word.empty() && (word[0] == '+' || word[0] == '-')) word.erase(0, 1);
  return word == "nan" || word == "inf" || word == "infinity";
}

void check_number(const Json& value, const std::string& where, Lines& errors) {
  if (is_misspelled_number(value))
    errors.push_back(fmt::format("{}: {}; accepted: \"NaN\", \"Infinity\", \"-Infinity\"", where, value_text(value)));
}

// Claims.

void check_claim(const Json& claim, const std::string& where, Lines& errors) {
  for (const char* part : {"expected", "measured"}) check_number(claim.at(part), where + "/" + part, errors);
  if (claim.at("verdict") == "skipped") return;
  const auto tolerance = claim.at("tolerance").get<std::string>();
  const auto holds = satisfied(claim.at("expected"), tolerance, claim.at("measured"));
  if (!holds)
    errors.push_back(fmt::format(
        "{}/tolerance: '{}' does not apply to expected {} and measured {}; accepted: exact, and for numbers "
        "absolute X, at most, at least",
        where, shown(tolerance), value_text(claim.at("expected")), value_text(claim.at("measured"))));
  else if (*holds != (claim.at("verdict") == "pass"))
    errors.push_back(fmt::format("{}/verdict: {}, but measured {} {} expected {} ({})", where,
                                 value_text(claim.at("verdict")), value_text(claim.at("measured")),
                                 *holds ? "is the" : "is not the", value_text(claim.at("expected")), tolerance));
}

void check_claims(const Json& claims, Lines& errors) {
  std::set<std::string> ids;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const std::string where = fmt::format("/claims/{}", i);
    if (!ids.insert(claims[i].at("id")).second)
      errors.push_back(where + "/id: " + value_text(claims[i].at("id")) + " is there twice");
    check_claim(claims[i], where, errors);
  }
}

// Tables.

/// The code of {"code": "0x...", "value": ...}.
std::uint64_t code_of(const Json& word) { return std::stoull(word.at("code").get<std::string>(), nullptr, 16); }

/// Formats by name, each name looked up once.
class FormatNames {
 public:
  std::optional<FloatFormat> find(const std::string& name) {
    const auto [at, fresh] = found_.try_emplace(name);
    if (fresh) {
      try {
        at->second = parse_format(name);
      } catch (const std::invalid_argument&) {  // a word that is no format
      }
    }
    return at->second;
  }
  /// The formats that words of this array's strings name: "fp16", "fp32-master".
  std::vector<FloatFormat> among(const Json& array) {
    std::vector<FloatFormat> formats;
    for (const Json& element : array) {
      if (!element.is_string()) continue;
      std::string words = element.get<std::string>();
      std::replace_if(
          words.begin(), words.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '_'; },
          ' ');
      std::istringstream each(words);
      for (std::string word; each >> word;)
        if (const auto format = find(word)) formats.push_back(*format);
    }
    return formats;
  }

 private:
  std::map<std::string, std::optional<FloatFormat>> found_;
};

bool belongs_to(const Json& word, const FloatFormat& format) {
  const std::uint64_t code = code_of(word);
  return code <= format.code_mask() && emulated(format, code) == word;
}

class TableCheck {
 public:
  TableCheck(const Json& report, Lines& errors) : errors_(errors) {
    for (const NamedFormat& row : catalogue()) anywhere_.push_back(row.format);
    for (const auto& [name, value] : report.at("config").items())
      if (value.is_array())
        for (const FloatFormat& format : names_.among(value)) anywhere_.push_back(format);
  }
  void check(const std::string& name, const Json& table) {
    const Json& rows = table.at("rows");
    if (name == "claims") errors_.push_back("/results/claims: a table of this name would hide the claims");
    std::set<std::string> columns;
    for (const Json& column : table.at("columns"))
      if (const auto word = column.at("name").get<std::string>(); !columns.insert(word).second)
        errors_.push_back(fmt::format("/results/{}/columns: {} is there twice", name, word));
    std::vector<bool> are_texts;  // by columns: there "inf" is a name
    for (std::size_t k = 0; k < table.at("columns").size(); ++k)
      are_texts.push_back(table.at("columns")[k].at("unit") == "" &&
                          std::none_of(rows.begin(), rows.end(),
                                       [k](const Json& row) { return k < row.size() && row[k].is_number(); }));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string where = fmt::format("/results/{}/rows/{}", name, i);
      if (rows[i].size() != table.at("columns").size())
        errors_.push_back(
            fmt::format("{}: {} cells for {} columns", where, rows[i].size(), table.at("columns").size()));
      check_row(rows[i], are_texts, where);
    }
  }

 private:
  void check_row(const Json& row, const std::vector<bool>& are_texts, const std::string& where) {
    std::optional<std::vector<FloatFormat>> formats;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i >= are_texts.size() || !are_texts[i]) check_number(row[i], fmt::format("{}/{}", where, i), errors_);
      if (!row[i].is_object()) continue;
      if (!formats) formats = names_.among(row);
      const auto& candidates = formats->empty() ? anywhere_ : *formats;
      if (std::none_of(candidates.begin(), candidates.end(),
                       [&](const FloatFormat& f) { return belongs_to(row[i], f); }))
        errors_.push_back(fmt::format("{}/{}: {} is not the value of {} in {}", where, i,
                                      value_text(row[i].at("value")), value_text(row[i].at("code")),
                                      formats->empty()       ? "any format"
                                      : formats->size() == 1 ? format_name(formats->front())
                                                             : "a format of this row"));
    }
  }

  Lines& errors_;
  FormatNames names_;
  std::vector<FloatFormat> anywhere_;  ///< where a row names no format
};

// Comparisons.

void check_witness(const Task& task, const Json& witness, const std::string& where, Lines& errors) {
  const auto same = [&](const Json& given, const Json& right) {
    if (given != right)
      errors.push_back(fmt::format("{}: {} should be {}", where, value_text(given), value_text(right)));
  };
  for (const Json& operand : witness.at("operands")) same(operand, code_word(task.from, code_of(operand)));
  for (const char* result : {"emulated", "device"})
    same(witness.at(result), result_word(task, code_of(witness.at(result))));
  if (witness.at("emulated") == witness.at("device")) errors.push_back(where + ": emulated and device do not differ");
  if (static_cast<int>(witness.at("operands").size()) != info(task.operation).arity)
    errors.push_back(
        fmt::format("{}: {} operands of {}", where, witness.at("operands").size(), info(task.operation).name));
}

void check_comparison(const Json& comparison, const std::string& where, Lines& errors) {
  if (!comparison.at("skipped").is_null()) return;
  const auto differing = comparison.at("differing").get<std::uint64_t>(),
             compared = comparison.at("compared").get<std::uint64_t>();
  const Json& witnesses = comparison.at("witnesses");
  std::uint64_t classified = 0;
  for (const auto& [name, count] : comparison.at("classes").items()) classified += count.get<std::uint64_t>();
  if (differing > compared || classified != differing || witnesses.size() > differing ||
      witnesses.empty() != (differing == 0))
    errors.push_back(where + ": compared, differing, classes and witnesses do not add up");
  if (differing == 0 && comparison.contains("farthest"))
    errors.push_back(where + ": nothing differs, but something is far");
  try {
    const Task task{parse_operation(comparison.at("operation").get<std::string>()),
                    parse_number_type(comparison.at("from").get<std::string>()),
                    parse_number_type(comparison.at("to").get<std::string>()),
                    {}};
    for (std::size_t i = 0; i < witnesses.size(); ++i)
      check_witness(task, witnesses[i], fmt::format("{}/witnesses/{}", where, i), errors);
  } catch (const std::invalid_argument& error) { errors.push_back(where + ": " + error.what()); }
}

// The rest.

/// What Comparison::fails() lets through.
bool tolerated(const Json& comparison) {
  return comparison.contains("approximate") &&
         is_approximation(comparison.at("classes").get<std::map<std::string, std::uint64_t>>(),
                          comparison.value("farthest", std::uint64_t{0}));
}

void check_status(const Json& report, Lines& errors) {
  bool failed = verdicts_of(report.at("claims"))[Verdict::fail] != 0;
  for (const Json& comparison : report.at("comparisons"))
    failed = failed ||
             (comparison.at("skipped").is_null() && comparison.at("differing") != 0 && !tolerated(comparison));
  if (report.at("status") != (failed ? "fail" : "pass"))
    errors.push_back(fmt::format("/status: claims and comparisons say {}", failed ? "fail" : "pass"));
}

/// Every format that was asked for is named in a row somewhere, if rows name formats at all. They may name more than
/// those.
void check_formats(const Config& config, const Json& results, Lines& errors) {
  FormatNames names;
  std::vector<FloatFormat> named;
  for (const auto& [name, table] : results.items())
    for (const Json& row : table.at("rows"))
      for (const FloatFormat& format : names.among(row))
        if (std::find(named.begin(), named.end(), format) == named.end()) named.push_back(format);
  if (named.empty()) return;
  for (const Parameter& parameter : config.parameters()) {
    if (parameter.type != ParameterType::formats) continue;
    for (const FormatChoice& choice : config.formats(parameter.name))
      if (std::find(named.begin(), named.end(), choice.format) == named.end())
        errors.push_back(
            fmt::format("/results: no row names {}, which /config/{} asks for", choice.name, parameter.name));
  }
}

/// A finding is what this version says of the tables.
void check_finding(const Json& report, const Experiment& experiment, Lines& errors) {
  if (!report.contains("finding")) return;
  const Json right = or_null(finding_of(experiment, report.at("results")));
  if (report.at("finding") != right)
    errors.push_back(fmt::format("/finding: {} should be {}", value_text(report.at("finding")), value_text(right)));
}

void check_config(const Json& report, std::span<const Experiment> known, Lines& errors) {
  const auto name = report.at("experiment").get<std::string>();
  Lines names;
  for (const Experiment& experiment : known) names.emplace_back(experiment.name);
  const auto experiment = std::find_if(known.begin(), known.end(), [&](const Experiment& e) { return e.name == name; });
  if (experiment == known.end()) {
    errors.push_back("/experiment: " + unknown_name("experiment", name, std::move(names)));
    return;
  }
  // What other versions had for parameters is theirs.
  if (report.at("environment").at("version") != program_version()) return;
  check_finding(report, *experiment, errors);
  const Json& given = report.at("config");
  Config config(experiment->parameters());
  const std::size_t before = errors.size();
  for (const auto& [parameter, value] : given.items()) {
    try {
      config.set(Json{{parameter, value}});
    } catch (const std::invalid_argument& error) { errors.push_back(std::string("/config: ") + error.what()); }
  }
  for (const Parameter& parameter : config.parameters())
    if (!given.contains(parameter.name))
      errors.push_back(fmt::format("/config: parameter '{}' is missing", parameter.name));
  if (errors.size() == before) check_formats(config, report.at("results"), errors);
}

}  // namespace

std::string_view report_schema() { return report_schema_text; }

std::vector<std::string> report_errors(const Json& report, std::span<const Experiment> known) {
  std::vector<std::string> errors = schema_errors(report);
  return errors.empty() ? contradictions(report, known) : errors;
}

Json read_report(const std::string& path, std::span<const Experiment> known) {
  Json report = read_json(path);
  if (const std::vector<std::string> errors = report_errors(report, known); !errors.empty())
    throw std::invalid_argument(fmt::format(
        "{}: {}{}", path, errors.front().starts_with(foreign) ? "" : "not a valid report: ", errors.front()));
  return report;
}

std::vector<std::string> contradictions(const Json& report, std::span<const Experiment> known) {
  Lines errors;
  check_config(report, known, errors);
  check_claims(report.at("claims"), errors);
  TableCheck tables(report, errors);
  for (const auto& [name, table] : report.at("results").items()) tables.check(name, table);
  for (std::size_t i = 0; i < report.at("comparisons").size(); ++i)
    check_comparison(report.at("comparisons")[i], fmt::format("/comparisons/{}", i), errors);
  check_status(report, errors);
  return errors;
}

}  // namespace halfulp
