// JSON by name, for headers that only pass it on. Sources that look inside include support/json.hpp, which takes the
// compiler a second or more.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace halfulp {

using Json = nlohmann::ordered_json;

}  // namespace halfulp
