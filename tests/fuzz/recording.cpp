// Recordings: any manifest is refused in one line or means a recording that, written again, means the same.
#include "fuzz_target.hpp"

#include <halfulp/evidence/recording.hpp>

#include <stdexcept>
#include <string>

using namespace halfulp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const recording::Manifest manifest = recording::parse_manifest(
        std::string(reinterpret_cast<const char*>(data), size));
    const std::string text = recording::manifest_text(manifest);
    demand(recording::manifest_text(recording::parse_manifest(text)) == text, "a manifest reads itself back");
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    demand(!message.empty() && message.find('\n') == message.npos, "an error is one line");
  }
  return 0;
}
