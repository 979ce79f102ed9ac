// Files of matrix units: any JSON is refused in one line or gives a unit that reads itself back and can be computed.
#include "fuzz_json.hpp"

#include <halfulp/emulation/unit/unit.hpp>
#include <halfulp/hardware/unit_file.hpp>

using namespace halfulp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_json_bytes(data, size, [](const Json& json) {
    const MatrixUnit unit = unit_of_json(json, "fuzz.json");
    const std::string text = unit_to_json(unit).dump();
    demand(refusal(unit).empty(), "what was read can be computed");
    demand(unit_to_json(unit_of_json(unit_to_json(unit), "again.json")).dump() == text, "a unit reads itself back");
    return text;
  });
  return 0;
}
