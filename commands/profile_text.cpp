#include <halfulp/commands/profiles.hpp>

#include <halfulp/emulation/text.hpp>
#include <halfulp/commands/terminal.hpp>
#include <halfulp/report/report.hpp>

#include <fmt/format.h>

namespace halfulp::cli {
namespace {

std::string value_text(const FloatFormat& f, std::uint64_t code) {
  if (f.is_nan(code)) return f.sign(code) && f.magnitude(code) != 0 ? "-NaN" : "NaN";
  if (f.is_infinite(code)) return f.sign(code) ? "-Inf" : "Inf";
  if (!f.has_zero) return fmt::format("2^{}", f.exponent(code));
  const std::string exact = print_exact(f, code);
  return exact.size() <= 12 ? exact : print(f, code);
}

/// "0x7e 448", or "0x7e 448, 0xfe -448" where signs differ.
std::string by_sign(const FloatFormat& f, const BySign& codes) {
  const std::string positive = code_and_value(f, codes.positive);
  return codes.positive == codes.negative ? positive : positive + ", " + code_and_value(f, codes.negative);
}

std::string joined(const std::vector<FloatFormat>& formats) {
  std::string text;
  for (const FloatFormat& format : formats) text += (text.empty() ? "" : " ") + format_name(format);
  return text;
}

std::string_view payload_text(NanPayload payload) {
  switch (payload) {
    case NanPayload::dropped: return "";
    case NanPayload::quieted: return "; the leading bits of the payload are kept, and the NaN becomes quiet";
    case NanPayload::kept: return "; the leading bits of the payload are kept, and a signalling NaN stays signalling";
  }
  return "";
}

std::string_view name_of(NanPayload payload) {
  return payload == NanPayload::dropped ? "dropped" : payload == NanPayload::quieted ? "quieted" : "kept";
}

std::string_view evidence_text(CastEvidence evidence) {
  switch (evidence) {
    case CastEvidence::compared:
      return "compared with its answers: no difference (tests/peers/casts says on which inputs)";
    case CastEvidence::rederived:
      return "compared with its algorithm, which was written anew from the source: no difference (tests/peers/casts)";
    case CastEvidence::source_read: return "read in the source code; nothing was run";
    case CastEvidence::specification: return "read in the cited document; nothing was run";
  }
  return "";
}

std::string_view name_of(CastEvidence evidence) {
  switch (evidence) {
    case CastEvidence::compared: return "compared";
    case CastEvidence::rederived: return "rederived";
    case CastEvidence::source_read: return "source";
    case CastEvidence::specification: return "specification";
  }
  return "";
}

std::vector<std::string> exception_lines(const CastRule& rule) {
  std::vector<std::string> lines;
  for (const CastException& e : rule.exceptions)
    lines.push_back(fmt::format("magnitudes {} to {} (fp32 {}..{}) give {}", print(fp32, e.first), print(fp32, e.last),
                                print_code(fp32, e.first), print_code(fp32, e.last),
                                code_and_value(rule.to, e.result)));
  return lines;
}

std::string rule_text(const CastRule& rule) {
  const FloatFormat& to = rule.to;
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"called", std::string(rule.function)});
  rows.push_back({"rounding", std::string(name_of(rule.mode)) +
                                  (rule.through_fp32 ? ", from " + joined(source_formats(rule.through_fp32)) +
                                                           " by way of fp32 (rounded twice)" +
                                                           (rule.flush_fp32 ? ", tiny ones there to zero" : "")
                                                     : "")});
  rows.push_back({"overflow", by_sign(to, rule.overflow) + (rule.overflow_above != 0
                                                                ? fmt::format("; everything above {}, before rounding",
                                                                              print_exact(to, to.max_finite()))
                                                                : "")});
  rows.push_back({"Inf", by_sign(to, rule.infinity)});
  rows.push_back({"NaN", by_sign(to, rule.nan) + std::string(payload_text(rule.payload))});
  rows.push_back({"zero", by_sign(to, rule.zero) + (rule.flush_inputs ? "; subnormal operands are zeros" : "")});
  if (!to.is_signed)
    rows.push_back({"negative", rule.ignore_sign ? "as their magnitude" : code_and_value(to, rule.nan.negative)});
  for (const std::string& line : exception_lines(rule)) rows.push_back({"except", line});
  rows.push_back({"evidence", std::string(evidence_text(rule.evidence))});
  if (!rule.note.empty()) rows.push_back({"note", std::string(rule.note)});
  return fmt::format("{} to {}\n{}", joined(source_formats(rule.from)), format_name(to), aligned(rows, 2));
}

nlohmann::ordered_json pair_json(const FloatFormat& f, const BySign& codes) {
  return {{"positive", emulated(f, codes.positive)}, {"negative", emulated(f, codes.negative)}};
}

nlohmann::ordered_json rule_json(const CastRule& rule) {
  nlohmann::ordered_json json{{"to", format_name(rule.to)}, {"from", nlohmann::ordered_json::array()}};
  for (const FloatFormat& from : source_formats(rule.from)) json["from"].push_back(format_name(from));
  json["function"] = rule.function;
  json["rounding"] = name_of(rule.mode);
  json["through_fp32"] = nlohmann::ordered_json::array();
  for (const FloatFormat& from : source_formats(rule.through_fp32)) json["through_fp32"].push_back(format_name(from));
  json["overflow"] = pair_json(rule.to, rule.overflow);
  json["overflow_above"] = rule.overflow_above != 0 ? nlohmann::ordered_json(rule.overflow_above)
                                                    : nlohmann::ordered_json(nullptr);
  json["infinity"] = pair_json(rule.to, rule.infinity);
  json["nan"] = pair_json(rule.to, rule.nan);
  json["nan_payload"] = name_of(rule.payload);
  json["zero"] = pair_json(rule.to, rule.zero);
  json["flush_fp32"] = rule.flush_fp32;
  json["flush_inputs"] = rule.flush_inputs;
  json["ignore_sign"] = rule.ignore_sign;
  json["exceptions"] = nlohmann::ordered_json::array();
  for (const CastException& e : rule.exceptions)
    json["exceptions"].push_back({{"first_fp32_magnitude", print_code(fp32, e.first)},
                                  {"last_fp32_magnitude", print_code(fp32, e.last)},
                                  {"result", emulated(rule.to, e.result)}});
  json["evidence"] = name_of(rule.evidence);
  json["note"] = rule.note;
  return json;
}

std::string span_text(const FloatFormat& f, std::uint64_t first, std::uint64_t last, bool values) {
  const auto text = [&](std::uint64_t code) { return values ? value_text(f, code) : print_code(f, code); };
  return first == last || text(first) == text(last) ? text(first) : text(first) + ".." + text(last);
}

std::string results_text(const FloatFormat& f, std::uint64_t first, std::uint64_t last) {
  if (first == last) return code_and_value(f, first);
  return span_text(f, first, last, false) + " " + span_text(f, first, last, true);
}

}  // namespace

std::string code_and_value(const FloatFormat& f, std::uint64_t code) {
  return print_code(f, code) + " " + value_text(f, code);
}

std::string profiles_table() {
  std::vector<std::vector<std::string>> rows{{"profile", "what it is", "to"}};
  for (const Profile& profile : profiles()) {
    std::vector<FloatFormat> targets;
    for (const CastRule& rule : profile.rules)
      if (std::find(targets.begin(), targets.end(), rule.to) == targets.end()) targets.push_back(rule.to);
    rows.push_back({std::string(profile.name), std::string(profile.title), joined(targets)});
  }
  return aligned(rows, 0) +
         "\n`halfulp profiles NAME` shows the rules, from which formats they convert, and what they are known from;\n"
         "`halfulp diff-profiles A B --from fp32 --to e4m3` finds every input on which two differ.\n";
}

std::string profile_text(const Profile& profile) {
  std::vector<std::vector<std::string>> head{{"version", std::string(profile.version)},
                                             {"source", std::string(profile.citation)},
                                             {"not here", std::string(profile.elsewhere)}};
  std::string text = fmt::format("{}: {}\n\n{}", profile.name, profile.title, aligned(head, 2));
  for (const CastRule& rule : profile.rules) text += "\n" + rule_text(rule);
  return text;
}

std::string casts_text(const CastTable& table) {
  std::vector<std::vector<std::string>> rows{{fmt::format("{} to {}", format_name(table.from), format_name(table.to))}};
  for (const std::uint64_t operand : table.operands) rows.front().push_back(code_and_value(table.from, operand));
  for (const Profile& profile : profiles()) {
    const CastRule* rule = find_rule(profile, table.from, table.to);
    if (!rule) continue;
    rows.push_back({std::string(profile.name)});
    for (const std::uint64_t operand : table.operands)
      rows.back().push_back(code_and_value(table.to, apply(*rule, table.from, operand)));
  }
  return aligned(rows, 0);
}

nlohmann::ordered_json to_json(const CastTable& table) {
  nlohmann::ordered_json json{
      {"from", format_name(table.from)}, {"to", format_name(table.to)}, {"operands", nlohmann::ordered_json::array()}};
  for (const std::uint64_t operand : table.operands) json["operands"].push_back(emulated(table.from, operand));
  json["profiles"] = nlohmann::ordered_json::array();
  for (const Profile& profile : profiles()) {
    const CastRule* rule = find_rule(profile, table.from, table.to);
    if (!rule) continue;
    nlohmann::ordered_json results = nlohmann::ordered_json::array();
    for (const std::uint64_t operand : table.operands)
      results.push_back(emulated(table.to, apply(*rule, table.from, operand)));
    json["profiles"].push_back({{"profile", profile.name}, {"results", std::move(results)}});
  }
  return json;
}

nlohmann::ordered_json to_json(const Profile& profile) {
  nlohmann::ordered_json json{{"name", profile.name},
                              {"title", profile.title},
                              {"version", profile.version},
                              {"source", profile.citation},
                              {"not_offered", profile.elsewhere}};
  json["rules"] = nlohmann::ordered_json::array();
  for (const CastRule& rule : profile.rules) json["rules"].push_back(rule_json(rule));
  return json;
}

std::string diff_text(const ProfileDiff& diff, std::size_t most) {
  const CastDifferences& answer = diff.answer;
  const FloatFormat &from = diff.question.from, &to = diff.question.a->to;
  std::string text = fmt::format("{} to {}, {}\n", format_name(from), format_name(to),
                                 answer.exhaustive ? fmt::format("all {} inputs", fmt::group_digits(answer.compared))
                                                   : fmt::format("a sample of {} inputs: boundaries, then random ones",
                                                                 fmt::group_digits(answer.compared)));
  std::vector<std::vector<std::string>> sides;
  for (const auto& [profile, rule] : {std::pair(diff.a, diff.question.a), std::pair(diff.b, diff.question.b)})
    sides.push_back({std::string(profile->name), std::string(rule->function), std::string(profile->version)});
  text += aligned(sides, 2);
  if (diff.question.any_nan) text += "  every NaN equals every other\n";
  if (answer.differing == 0) return text + "\nno difference\n";
  text += fmt::format("\ndiffer on {} inputs in {} range{}\n", fmt::group_digits(answer.differing),
                      fmt::group_digits(answer.ranges.size()), answer.ranges.size() == 1 ? "" : "s");
  const std::uint64_t witness = *answer.witness;
  text += fmt::format("smallest   {}: {} gives {}, {} gives {}\n\n", code_and_value(from, witness), diff.a->name,
                      code_and_value(to, apply(*diff.question.a, from, witness)), diff.b->name,
                      code_and_value(to, apply(*diff.question.b, from, witness)));
  std::vector<std::vector<std::string>> rows{
      {"inputs", "values", "count", std::string(diff.a->name), std::string(diff.b->name)}};
  for (const CastRange& range : answer.ranges) {
    if (rows.size() > most) break;
    rows.push_back({span_text(from, range.first, range.last, false), span_text(from, range.first, range.last, true),
                    fmt::format("{}", fmt::group_digits(range.count)), results_text(to, range.a_first, range.a_last),
                    results_text(to, range.b_first, range.b_last)});
  }
  text += aligned(rows, 2);
  if (answer.ranges.size() > most)
    text += fmt::format("  and {} more ranges (--all shows them)\n", fmt::group_digits(answer.ranges.size() - most));
  if (!answer.exhaustive)
    text += "\nThe ends of ranges are inputs of the sample; not every input between them was compared.\n";
  return text;
}

nlohmann::ordered_json to_json(const ProfileDiff& diff, std::size_t most) {
  const CastDifferences& answer = diff.answer;
  const FloatFormat &from = diff.question.from, &to = diff.question.a->to;
  nlohmann::ordered_json json{{"from", format_name(from)}, {"to", format_name(to)}};
  for (const auto& [key, profile, rule] :
       {std::tuple("a", diff.a, diff.question.a), std::tuple("b", diff.b, diff.question.b)})
    json[key] = {{"profile", profile->name}, {"function", rule->function}, {"version", profile->version}};
  json["any_nan"] = diff.question.any_nan;
  json["exhaustive"] = answer.exhaustive;
  json["compared"] = answer.compared;
  json["differing"] = answer.differing;
  json["witness"] = nullptr;
  if (answer.witness) {
    json["witness"] = emulated(from, *answer.witness);
    json["witness"]["a"] = emulated(to, apply(*diff.question.a, from, *answer.witness));
    json["witness"]["b"] = emulated(to, apply(*diff.question.b, from, *answer.witness));
  }
  json["ranges_found"] = answer.ranges.size();
  json["ranges"] = nlohmann::ordered_json::array();
  for (const CastRange& range : answer.ranges) {
    if (json["ranges"].size() == most) break;
    json["ranges"].push_back({{"first", emulated(from, range.first)},
                              {"last", emulated(from, range.last)},
                              {"count", range.count},
                              {"constant", range.constant},
                              {"a_first", emulated(to, range.a_first)},
                              {"a_last", emulated(to, range.a_last)},
                              {"b_first", emulated(to, range.b_first)},
                              {"b_last", emulated(to, range.b_last)}});
  }
  return json;
}

}  // namespace halfulp::cli
