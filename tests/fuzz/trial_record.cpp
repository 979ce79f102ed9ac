// Records of trials: a file that is not whole, or not what its name says, is refused in one line.
#include "fuzz_target.hpp"

#include <halfulp/report/trial_store.hpp>
#include <halfulp/support/json.hpp>

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

using namespace halfulp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string path = std::string(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "/tmp") +
                                  "/halfulp-fuzz-" + std::to_string(getpid()) + ".trial";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  try {
    const Json record = TrialStore::read({"ones-1/2a3aeafe43ad93e5cc16df00ab8e180b", path});
    demand(record.is_object() && record.contains("record"), "what is read is a record");
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    demand(!message.empty() && message.find('\n') == message.npos, "an error is one line");
  }
  std::remove(path.c_str());
  return 0;
}
