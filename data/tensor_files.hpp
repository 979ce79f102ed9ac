// Named tensors in files: a checkpoint as a researcher has it, in one file or in many. Headers are read at once, values
// piece by piece.
#pragma once

#include <halfulp/emulation/rounding.hpp>
#include <halfulp/data/safetensors.hpp>
#include <halfulp/support/input_file.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace halfulp {

/// Numbers as floats, rounded by `mode`. What is rounded to odd, never to infinity, can be rounded again, to a format
/// of at most 22 bits of precision, as if it had not been (Boldo & Melquiond 2008). Precondition: as many floats.
void narrow_doubles(std::span<const double> numbers, RoundingMode mode, std::span<float> floats);

/// What a path holds:
///
/// - a .safetensors file;
/// - NAME.safetensors.index.json and the files that its "weight_map" names, beside it (Hugging Face's shards);
/// - a .npy file: one tensor, by the file's name;
/// - a folder with an index, with one .safetensors file, or else with .npy files.
///
/// Any number of threads may read at once.
class TensorFiles {
 public:
  /// Throws std::invalid_argument in one line that names the file, and the tensor if it is one: what
  /// read_safetensors_header and NpyReader refuse, a shard that is missing or does not hold what the index says, a
  /// tensor in two files; a PyTorch pickle or a GGUF file, with the line that converts it.
  explicit TensorFiles(const std::string& path);
  TensorFiles(const TensorFiles&) = delete;
  TensorFiles& operator=(const TensorFiles&) = delete;

  const std::string& path() const { return path_; }  ///< As it was given.
  /// In the order of files and of their bytes.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const std::vector<InputFile>& files() const { return files_; }
  /// Every file that was read, the index among them.
  std::vector<std::string> paths() const;
  /// Of the headers; of a member that several files have, the first.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The tensor of that name, or nullptr.
  const StoredTensor* find(std::string_view name) const;

  /// `values` = elements from `first` on, of a tensor whose type has a format: every other format's values are floats,
  /// and those of fp64 are rounded by `doubles`. Throws what InputFile::read throws.
  void read(const StoredTensor& tensor, std::uint64_t first, std::span<float> values,
            RoundingMode doubles = RoundingMode::nearest_even) const;
  /// The code words of a type of at most 16 bits, each in the low bits, from element `first` on.
  void read_codes(const StoredTensor& tensor, std::uint64_t first, std::span<std::uint16_t> codes) const;
  /// The bytes from `first` on.
  void read_bytes(const StoredTensor& tensor, std::uint64_t first, std::span<std::byte> bytes) const;
  /// Throws if a file changed since it was opened.
  void check_unchanged() const;

 private:
  void add_safetensors(const std::string& path);
  void add_npy(const std::string& path);
  void add_index(const std::string& path);
  void add_folder(const std::string& path);
  void add_file(const std::string& path);

  std::string path_, index_;
  std::vector<InputFile> files_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

}  // namespace halfulp
