// Configuration files: any bytes are refused in one line or give a configuration that survives writing and reading.
#include "fuzz_target.hpp"

#include <halfulp/report/config.hpp>
#include <halfulp/report/experiment.hpp>
#include <halfulp/support/json.hpp>

#include <stdexcept>
#include <string>

using namespace halfulp;

/// One byte chooses the experiment; the rest is the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const auto all = experiments();
  Config config(all[data[0] % all.size()].parameters());
  try {
    config.set(parse_json(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), "fuzz.json"));
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    demand(!message.empty() && message.find('\n') == message.npos, "an error is one line");
    return 0;
  }
  Config again(all[data[0] % all.size()].parameters());
  again.set(config.to_json());
  demand(again.to_json() == config.to_json(), "a configuration reads itself back");
  return 0;
}
