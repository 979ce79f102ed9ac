// Reports: any JSON is refused, with a line for each problem, or every table of it can be shown.
#include "fuzz_json.hpp"

#include <halfulp/commands/tables.hpp>
#include <halfulp/report/schema.hpp>

using namespace halfulp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_json_bytes(data, size, [](const Json& json) {
    const auto errors = report_errors(json);
    for (const std::string& error : errors)
      demand(!error.empty() && error.find('\n') == error.npos, "a problem is one line");
    if (!errors.empty()) return std::string();
    std::string text;
    const Json tables = cli::tables_with_claims(json);
    for (const auto& [name, table] : tables.items()) text += cli::table_text(table) + cli::table_csv(table);
    return text;
  });
  return 0;
}
