#include <halfulp/experiments/data/images.hpp>

#include <halfulp/experiments/data/idx.hpp>
#include <halfulp/hardware/verify/digest.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>

namespace halfulp {
namespace {

/// The file of that name, packed or not.
std::optional<std::string> find(const std::string& folder, const std::string& name) {
  for (const char* ending : {".gz", ""}) {
    const std::string path = (std::filesystem::path(folder) / (name + ending)).string();
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) { throw std::invalid_argument(path + ": " + why); }

LabelledImages read_part(const std::string& images, const std::string& labels) {
  LabelledImages part;
  IdxArray pixels = read_idx(images, 3), classes = read_idx(labels, 1);
  if (pixels.values.empty())
    refuse(images,
           fmt::format("{} images of {} x {} pixels; accepted: at least one of each", pixels.shape[0], pixels.shape[1], pixels.shape[2]));
  if (classes.shape[0] != pixels.shape[0])
    refuse(labels, fmt::format("{} labels for the {} images of {}; accepted: one each", classes.shape[0], pixels.shape[0], images));
  const auto high = std::find_if(classes.values.begin(), classes.values.end(), [](std::uint8_t label) { return label >= image_classes; });
  if (high != classes.values.end())
    refuse(labels, fmt::format("label {} at byte {}; accepted: 0 to {}", *high, high - classes.values.begin() + 8, image_classes - 1));
  part.rows = pixels.shape[1];
  part.columns = pixels.shape[2];
  part.pixels = std::move(pixels.values);
  part.labels = std::move(classes.values);
  return part;
}

}  // namespace

void LabelledImages::image(std::size_t index, std::span<float> out) const {
  const std::uint8_t* const from = pixels.data() + index * rows * columns;
  for (std::size_t i = 0; i < rows * columns; ++i) out[i] = static_cast<float>(from[i]) / 255.0f;
}

std::variant<ImageSet, NotInstalled> load_images(const std::string& folder) {
  ImageSet set;
  set.folder = folder.empty() ? fashion_mnist_folder : folder;
  std::vector<std::string> paths;
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const auto path = find(set.folder, name);
    if (!path && folder.empty())
      return NotInstalled{
          fmt::format("Fashion-MNIST is not here ({}/{}.gz): apt install dataset-fashion-mnist, or name a folder with its four files",
                      set.folder, name)};
    if (!path)
      refuse(folder,
             fmt::format("no {0}.gz and no {0} in this folder; accepted: a folder with the four files of MNIST or Fashion-MNIST", name));
    paths.push_back(*path);
  }
  set.train = read_part(paths[0], paths[1]);
  set.test = read_part(paths[2], paths[3]);
  if (set.test.rows != set.train.rows || set.test.columns != set.train.columns)
    refuse(paths[2], fmt::format("images of {} x {} pixels; accepted: {} x {}, as in {}", set.test.rows, set.test.columns, set.train.rows,
                                 set.train.columns, paths[0]));
  std::vector<std::uint64_t> chunks;
  for (const auto* bytes : {&set.train.pixels, &set.train.labels, &set.test.pixels, &set.test.labels})
    chunks.push_back(verify::chunk_digest(std::as_bytes(std::span(*bytes))));
  set.digest = verify::digest(chunks);
  return set;
}

}  // namespace halfulp
