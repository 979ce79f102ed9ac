// Images with labels: Fashion-MNIST of Debian's package, or a folder with the same four files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace halfulp {

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

/// {train,t10k}-{images-idx3,labels-idx1}-ubyte, each with or without .gz, from a folder; of no folder, Debian's. What is not
/// there is NotInstalled only if the user named no folder. Throws std::invalid_argument in one line: a file that is missing from the
/// user's folder, that read_idx refuses, images and labels of different number, labels from 10 on, sizes that differ, no images.
std::variant<ImageSet, NotInstalled> load_images(const std::string& folder = {});

}  // namespace halfulp
