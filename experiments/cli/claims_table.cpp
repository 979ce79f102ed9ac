#include <halfulp/experiments/cli/claims_table.hpp>

#include <string_view>
#include <utility>

namespace halfulp::cli {

Json claims_table(const Json& report, std::size_t most) {
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
  for (const Json& claim : report["claims"]) {
    Json row = Json::array();
    for (const auto& member : members) {
      const Json& value = claim[member.first];
      std::string text = value.is_structured() ? value.dump() : value.is_string() ? value.get<std::string>() : "";
      if (text.size() > most && member.first != std::string_view("id")) text = text.substr(0, most - 3) + "...";
      row.push_back(text.empty() ? value : Json(std::move(text)));
    }
    table["rows"].push_back(std::move(row));
  }
  return table;
}

}  // namespace halfulp::cli
