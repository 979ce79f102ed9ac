// IDX files, as MNIST and its kin come in: bytes in one or three dimensions, plain or packed by gzip.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <vector>

namespace halfulp {

struct IdxArray {
  std::vector<std::uint32_t> shape;  ///< row-major, the last dimension fastest
  std::vector<std::uint8_t> values;
};

/// A file of unsigned bytes with that many dimensions (http://yann.lecun.com/exdb/mnist: two zero bytes, the type 08, the number of
/// dimensions, each size in four bytes, most significant first, then the values). Throws std::invalid_argument in one line: file,
/// what is wrong, at which byte (of what gzip unpacks to), what is accepted. Memory grows with the data that comes, not with what
/// the header promises; at most 1 GiB.
IdxArray read_idx(const std::string& path, int dimensions);
/// `name` is what errors call the stream.
IdxArray read_idx(std::unique_ptr<std::istream> stream, const std::string& name, int dimensions);

}  // namespace halfulp
