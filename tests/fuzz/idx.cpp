// IDX files, packed or not: any bytes are refused in one line or read to the end the header promises.
#include "fuzz_target.hpp"

#include <halfulp/data/images.hpp>

#include <sstream>
#include <stdexcept>
#include <string>

using namespace halfulp;

/// One byte chooses the dimensions; the rest is the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const int dimensions = data[0] % 2 ? 3 : 1;
  try {
    const IdxArray array = read_idx(
        std::make_unique<std::istringstream>(std::string(reinterpret_cast<const char*>(data) + 1, size - 1)),
        "fuzz.idx", dimensions);
    std::uint64_t count = 1;
    for (const std::uint32_t length : array.shape) count *= length;
    demand(array.shape.size() == static_cast<std::size_t>(dimensions) && count == array.values.size(),
           "as many values as the header promises");
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    demand(message.starts_with("fuzz.idx: ") && message.find('\n') == message.npos,
           "an error is one line that names the file");
  }
  return 0;
}
