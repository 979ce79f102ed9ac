// NumPy files: any bytes are refused in one line or read to the end the header promises.
#include "fuzz_target.hpp"

#include <halfulp/data/npy.hpp>

#include <array>
#include <sstream>
#include <stdexcept>
#include <string>

using namespace halfulp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    NpyReader reader(std::make_unique<std::istringstream>(std::string(reinterpret_cast<const char*>(data), size)),
                     "fuzz.npy");
    std::array<std::uint64_t, 61> codes;
    std::uint64_t count = 0;
    while (const std::size_t n = reader.read(codes)) {
      for (std::size_t i = 0; i < n; ++i)
        demand((codes[i] & ~reader.header().format.code_mask()) == 0, "code words fit the format");
      count += n;
    }
    demand(count == reader.header().count, "as many elements as the header promises");
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    demand(!message.empty() && message.find('\n') == message.npos, "an error is one line");
  }
  return 0;
}
