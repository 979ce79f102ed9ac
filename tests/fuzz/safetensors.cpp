// Safetensors files: any bytes are refused in one line, or every tensor can be read to its end.
#include "fuzz_target.hpp"

#include <halfulp/data/tensor_files.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

using namespace halfulp;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int memory = ::memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(memory);
  demand(memory >= 0 && ::ftruncate(memory, 0) == 0, "a file in memory");
  demand(::pwrite(memory, data, size, 0) == static_cast<ssize_t>(size), "its bytes");
  try {
    const TensorFiles files(path);
    std::uint64_t bytes = 0;
    std::vector<std::byte> content;
    std::vector<float> values;
    for (const StoredTensor& tensor : files.tensors()) {
      demand(tensor.offset + tensor.bytes <= size, "a tensor lies in the file");
      bytes += tensor.bytes;
      content.resize(tensor.bytes);
      files.read_bytes(tensor, 0, content);
      if (!tensor.type->format) continue;
      values.resize(tensor.count);
      files.read(tensor, 0, values);
    }
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;) length = length << 8 | data[i];
    demand(8 + length + bytes == size, "every byte belongs to the header or to one tensor");
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    demand(!message.empty() && message.find('\n') == message.npos, "an error is one line");
  }
  return 0;
}
