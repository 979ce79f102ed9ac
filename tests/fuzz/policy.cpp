// Policies: any JSON is refused in one line or gives a policy that has an identity.
#include "fuzz_json.hpp"

#include <halfulp/training/policy.hpp>

using namespace halfulp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto identity = [&] {
    return read_json_bytes(
        data, size, [](const Json& json) { return training::parse_policy(json, "fuzz.json").identity().dump(); });
  };
  demand(identity() == identity(), "a policy is the same each time");
  return 0;
}
