// Checkpoints: any bytes are refused in one line or give a checkpoint that is written as it was read.
#include "fuzz_target.hpp"

#include <halfulp/training/checkpoint.hpp>
#include <halfulp/support/files.hpp>

#include <stdexcept>
#include <string>

using namespace halfulp;
using training::Checkpoint;

/// One byte says whether the rest is the file, or the content of a frame with a correct checksum.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string file = data[0] % 2 ? framed({"halfulpC", 1, "", 8}, 0, rest) : rest;
  try {
    const Checkpoint checkpoint = Checkpoint::from_bytes(file, "fuzz.ckpt");
    const std::string bytes = checkpoint.bytes();
    demand(Checkpoint::from_bytes(bytes, "again").bytes() == bytes, "a checkpoint reads itself back");
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    demand(message.starts_with("fuzz.ckpt: ") && message.find('\n') == message.npos,
           "an error is one line that names the file");
  }
  return 0;
}
