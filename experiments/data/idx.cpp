#include <halfulp/experiments/data/idx.hpp>

#include <halfulp/experiments/data/gzip.hpp>
#include <halfulp/experiments/data/open_input.hpp>
#include <halfulp/experiments/run/interrupt.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace halfulp {
namespace {

constexpr std::uint64_t most_values = std::uint64_t{1} << 30;
constexpr std::size_t piece = std::size_t{1} << 20;

[[noreturn]] void refuse(const std::string& name, const std::string& why) { throw std::invalid_argument(name + ": " + why); }

using Word = std::array<char, 4>;

Word word_of(UnpackingReader& reader, const std::string& name) {
  Word bytes{};
  if (reader.read(bytes) != bytes.size()) refuse(name, fmt::format("truncated: the IDX header ends at byte {}", reader.position()));
  return bytes;
}

std::uint32_t big_endian(const Word& bytes) {
  std::uint32_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

}  // namespace

IdxArray read_idx(const std::string& path, int dimensions) { return read_idx(open_input(path, "an IDX file"), path, dimensions); }

IdxArray read_idx(std::unique_ptr<std::istream> stream, const std::string& name, int dimensions) {
  UnpackingReader reader(std::move(stream), name);
  const Word magic = word_of(reader, name), accepted{0, 0, 8, static_cast<char>(dimensions)};
  if (magic != accepted)
    refuse(name, fmt::format("begins with {:08x}; accepted: {:08x}, an IDX file of unsigned bytes in {} dimension{}", big_endian(magic),
                             big_endian(accepted), dimensions, dimensions == 1 ? "" : "s"));
  IdxArray array;
  std::uint64_t promised = 1;
  std::string shape;
  for (int d = 0; d < dimensions; ++d) {
    array.shape.push_back(big_endian(word_of(reader, name)));
    shape += fmt::format("{}{}", d == 0 ? "" : " x ", array.shape.back());
    promised = std::min(promised, most_values + 1) * array.shape.back();  // what is too large need not be exact
  }
  if (promised > most_values) refuse(name, fmt::format("the IDX header, at byte 4, promises {} values; accepted: at most 2^30", shape));
  while (array.values.size() < promised) {
    stop_if_interrupted();
    const std::size_t before = array.values.size(), wanted = static_cast<std::size_t>(std::min<std::uint64_t>(piece, promised - before));
    array.values.resize(before + wanted);
    const std::size_t count = reader.read({reinterpret_cast<char*>(array.values.data()) + before, wanted});
    if (count < wanted)
      refuse(name, fmt::format("truncated: {} values of the {} that the IDX header promises, it ends at byte {}", before + count, shape,
                               reader.position()));
  }
  char more = 0;
  if (reader.read({&more, 1}) != 0)
    refuse(name,
           fmt::format("trailing garbage from byte {} on, after the {} values that the IDX header promises", reader.position() - 1, shape));
  return array;
}

}  // namespace halfulp
