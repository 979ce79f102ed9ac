// Bytes of a file, or what a gzip file (RFC 1952) unpacks to.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace halfulp {

/// Reads a stream; where it begins with 1f 8b, unpacks it by zlib. Memory does not depend on what the file claims.
/// Throws std::invalid_argument in one line that begins with `name`, says what is wrong, and at which byte of the file:
/// truncated or corrupted gzip (its CRC is checked at the end), bytes behind it.
class UnpackingReader {
 public:
  UnpackingReader(std::unique_ptr<std::istream> stream, std::string name);
  ~UnpackingReader();
  UnpackingReader(const UnpackingReader&) = delete;
  UnpackingReader& operator=(const UnpackingReader&) = delete;

  /// Fills `bytes` from the front; returns how many, fewer than wanted only at the end.
  std::size_t read(std::span<char> bytes);
  bool is_gzip() const { return inflater_ != nullptr; }
  /// Bytes that read() gave so far.
  std::uint64_t position() const { return position_; }

 private:
  struct Inflater;
  std::unique_ptr<std::istream> stream_;
  std::string name_;
  std::unique_ptr<Inflater> inflater_;  ///< nothing: the file as it is
  std::string start_;                   ///< of a file that is no gzip: bytes looked at, to be given yet
  std::uint64_t position_ = 0;
};

// IDX files, as MNIST and its kin come in: bytes in one or three dimensions, plain or packed by gzip.

struct IdxArray {
  std::vector<std::uint32_t> shape;  ///< row-major, the last dimension fastest
  std::vector<std::uint8_t> values;
};

/// A file of unsigned bytes with that many dimensions (http://yann.lecun.com/exdb/mnist: two zero bytes, the type 08,
/// the number of dimensions, each size in four bytes, most significant first, then the values). Throws
/// std::invalid_argument in one line: file, what is wrong, at which byte (of what gzip unpacks to), what is accepted.
/// Memory grows with the data that comes, not with what the header promises; at most 1 GiB.
IdxArray read_idx(const std::string& path, int dimensions);
/// `name` is what errors call the stream.
IdxArray read_idx(std::unique_ptr<std::istream> stream, const std::string& name, int dimensions);

// Images with labels: Fashion-MNIST of Debian's package, or a folder with the same four files.

struct LabelledImages {
  std::size_t rows = 0, columns = 0;
  std::vector<std::uint8_t> pixels;  ///< image after image, row after row; 0 to 255
  std::vector<std::uint8_t> labels;  ///< below image_classes
  std::size_t size() const { return labels.size(); }
  /// The pixels of one image, divided by 255 in fp32. `out` has rows * columns places.
  void image(std::size_t index, std::span<float> out) const;
};

inline constexpr int image_classes = 10;

struct ImageSet {
  LabelledImages train, test;
  std::string folder;
  std::string digest;  ///< of pixels and labels: verify::digest of the four arrays
};

/// A data set that is not installed, and how to get it: one line for a report's `skipped`.
struct NotInstalled {
  std::string reason;
};

/// Where Debian and Ubuntu have Fashion-MNIST (Xiao, Rasul, Vollgraf 2017), package dataset-fashion-mnist.
inline constexpr const char* fashion_mnist_folder = "/usr/share/datasets/fashion-mnist";

/// {train,t10k}-{images-idx3,labels-idx1}-ubyte, each with or without .gz, from a folder; of no folder, Debian's. What
/// is not there is NotInstalled only if the user named no folder. Throws std::invalid_argument in one line: a file that
/// is missing from the user's folder, that read_idx refuses, images and labels of different number, labels from 10 on,
/// sizes that differ, no images.
std::variant<ImageSet, NotInstalled> load_images(const std::string& folder = {});

/// The same, kept for the next call of this process (47 MiB of Fashion-MNIST, which take a third of a second to unpack)
/// until another folder is asked for, or a file's size or time has changed.
std::variant<std::shared_ptr<const ImageSet>, NotInstalled> shared_images(const std::string& folder = {});

}  // namespace halfulp
