#include <halfulp/data/images.hpp>

#include <halfulp/support/files.hpp>
#include <halfulp/support/work.hpp>

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>

namespace halfulp {
namespace {

std::size_t take(std::istream& stream, std::span<char> bytes) {
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return static_cast<std::size_t>(stream.gcount());
}

}  // namespace

struct UnpackingReader::Inflater {
  z_stream z{};
  std::array<char, 1 << 16> input;
  std::uint64_t taken = 0;  ///< bytes of the file so far
  bool ended = false;
};

UnpackingReader::UnpackingReader(std::unique_ptr<std::istream> stream, std::string name)
    : stream_(std::move(stream)), name_(std::move(name)) {
  start_.resize(2);
  start_.resize(take(*stream_, start_));
  if (start_ != "\x1f\x8b") return;
  auto inflater = std::make_unique<Inflater>();
  std::copy(start_.begin(), start_.end(), inflater->input.begin());
  inflater->z.next_in = reinterpret_cast<Bytef*>(inflater->input.data());
  inflater->z.avail_in = 2;
  inflater->taken = 2;
  start_.clear();
  constexpr int gzip_alone = 15 + 16;  // the largest window, and no other header than gzip's
  if (inflateInit2(&inflater->z, gzip_alone) != Z_OK) throw std::bad_alloc();
  inflater_ = std::move(inflater);
}

UnpackingReader::~UnpackingReader() {
  if (inflater_) inflateEnd(&inflater_->z);
}

std::size_t UnpackingReader::read(std::span<char> bytes) {
  if (!inflater_) {
    const std::size_t early = std::min(start_.size(), bytes.size());
    std::copy_n(start_.begin(), early, bytes.begin());
    start_.erase(0, early);
    const std::size_t count = early + take(*stream_, bytes.subspan(early));
    position_ += count;
    return count;
  }
  Inflater& in = *inflater_;
  std::size_t done = 0;
  while (done < bytes.size() && !in.ended) {
    if (in.z.avail_in == 0) {
      in.z.avail_in = static_cast<uInt>(take(*stream_, in.input));
      in.z.next_in = reinterpret_cast<Bytef*>(in.input.data());
      if (in.z.avail_in == 0)
        throw std::invalid_argument(
            fmt::format("{}: truncated: the gzip file ends at byte {}, within its data", name_, in.taken));
      in.taken += in.z.avail_in;
    }
    const auto room = static_cast<uInt>(std::min<std::size_t>(bytes.size() - done, 1u << 30));
    in.z.next_out = reinterpret_cast<Bytef*>(bytes.data() + done);
    in.z.avail_out = room;
    const int status = inflate(&in.z, Z_NO_FLUSH);
    done += room - in.z.avail_out;
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      throw std::invalid_argument(fmt::format("{}: corrupted gzip data before byte {}: {}", name_,
                                              in.taken - in.z.avail_in,
                                              in.z.msg ? in.z.msg : "it asks for a dictionary"));
    if (status != Z_STREAM_END) continue;
    in.ended = true;
    if (in.z.avail_in > 0 || stream_->peek() != std::istream::traits_type::eof())
      throw std::invalid_argument(
          fmt::format("{}: trailing garbage after the gzip data, from byte {} on", name_, in.taken - in.z.avail_in));
  }
  position_ += done;
  return done;
}

namespace {

constexpr std::uint64_t most_values = std::uint64_t{1} << 30;
constexpr std::size_t piece = std::size_t{1} << 20;

using Word = std::array<char, 4>;

Word word_of(UnpackingReader& reader, const std::string& name) {
  Word bytes{};
  if (reader.read(bytes) != bytes.size())
    refuse_file(name, fmt::format("truncated: the IDX header ends at byte {}", reader.position()));
  return bytes;
}

std::uint32_t big_endian(const Word& bytes) {
  std::uint32_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

}  // namespace

IdxArray read_idx(const std::string& path, int dimensions) {
  return read_idx(open_input(path, "an IDX file"), path, dimensions);
}

IdxArray read_idx(std::unique_ptr<std::istream> stream, const std::string& name, int dimensions) {
  UnpackingReader reader(std::move(stream), name);
  const Word magic = word_of(reader, name), accepted{0, 0, 8, static_cast<char>(dimensions)};
  if (magic != accepted)
    refuse_file(name,
                fmt::format("begins with {:08x}; accepted: {:08x}, an IDX file of unsigned bytes in {} dimension{}",
                            big_endian(magic), big_endian(accepted), dimensions, dimensions == 1 ? "" : "s"));
  IdxArray array;
  std::uint64_t promised = 1;
  std::string shape;
  for (int d = 0; d < dimensions; ++d) {
    array.shape.push_back(big_endian(word_of(reader, name)));
    shape += fmt::format("{}{}", d == 0 ? "" : " x ", array.shape.back());
    promised = std::min(promised, most_values + 1) * array.shape.back();  // what is too large need not be exact
  }
  if (promised > most_values)
    refuse_file(name, fmt::format("the IDX header, at byte 4, promises {} values; accepted: at most 2^30", shape));
  while (array.values.size() < promised) {
    stop_if_interrupted();
    const std::size_t before = array.values.size(),
                      wanted = static_cast<std::size_t>(std::min<std::uint64_t>(piece, promised - before));
    array.values.resize(before + wanted);
    const std::size_t count = reader.read({reinterpret_cast<char*>(array.values.data()) + before, wanted});
    if (count < wanted)
      refuse_file(name, fmt::format("truncated: {} values of the {} that the IDX header promises, it ends at byte {}",
                                    before + count, shape, reader.position()));
  }
  char more = 0;
  if (reader.read({&more, 1}) != 0)
    refuse_file(name, fmt::format("trailing garbage from byte {} on, after the {} values that the IDX header promises",
                                  reader.position() - 1, shape));
  return array;
}

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

LabelledImages read_part(const std::string& images, const std::string& labels) {
  LabelledImages part;
  IdxArray pixels = read_idx(images, 3), classes = read_idx(labels, 1);
  if (pixels.values.empty())
    refuse_file(images, fmt::format("{} images of {} x {} pixels; accepted: at least one of each", pixels.shape[0],
                                    pixels.shape[1], pixels.shape[2]));
  if (classes.shape[0] != pixels.shape[0])
    refuse_file(labels, fmt::format("{} labels for the {} images of {}; accepted: one each", classes.shape[0],
                                    pixels.shape[0], images));
  const auto high = std::find_if(classes.values.begin(), classes.values.end(),
                                 [](std::uint8_t label) { return label >= image_classes; });
  if (high != classes.values.end())
    refuse_file(labels, fmt::format("label {} at byte {}; accepted: 0 to {}", *high, high - classes.values.begin() + 8,
                                    image_classes - 1));
  part.rows = pixels.shape[1];
  part.columns = pixels.shape[2];
  part.pixels = std::move(pixels.values);
  part.labels = std::move(classes.values);
  return part;
}

}  // namespace

void LabelledImages::image(std::size_t index, std::span<float> out) const {
  const std::uint8_t* const from = pixels.data() + index * rows * columns;
  constexpr std::size_t together = 16;  // compilers vectorise loops of constant length
  std::size_t i = 0;
  for (; i + together <= rows * columns; i += together)
    for (std::size_t k = 0; k < together; ++k) out[i + k] = static_cast<float>(from[i + k]) / 255.0f;
  for (; i < rows * columns; ++i) out[i] = static_cast<float>(from[i]) / 255.0f;
}

namespace {

/// The folder, and its four files: images and labels to train with, and to test with.
struct ImageFiles {
  std::string folder;
  std::vector<std::string> paths;
};

std::variant<ImageFiles, NotInstalled> find_images(const std::string& folder) {
  ImageFiles files{folder.empty() ? fashion_mnist_folder : folder, {}};
  for (const char* name :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const auto path = find(files.folder, name);
    if (!path && folder.empty())
      return NotInstalled{
          fmt::format("Fashion-MNIST is not here ({}/{}.gz): apt install dataset-fashion-mnist, or name a folder with "
                      "its four files",
                      files.folder, name)};
    if (!path)
      refuse_file(
          folder,
          fmt::format(
              "no {0}.gz and no {0} in this folder; accepted: a folder with the four files of MNIST or Fashion-MNIST",
              name));
    files.paths.push_back(*path);
  }
  return files;
}

ImageSet read_images(const ImageFiles& files) {
  const std::vector<std::string>& paths = files.paths;
  ImageSet set;
  set.folder = files.folder;
  set.train = read_part(paths[0], paths[1]);
  set.test = read_part(paths[2], paths[3]);
  if (set.test.rows != set.train.rows || set.test.columns != set.train.columns)
    refuse_file(paths[2], fmt::format("images of {} x {} pixels; accepted: {} x {}, as in {}", set.test.rows,
                                      set.test.columns, set.train.rows, set.train.columns, paths[0]));
  std::vector<std::uint64_t> chunks;
  for (const auto* bytes : {&set.train.pixels, &set.train.labels, &set.test.pixels, &set.test.labels})
    chunks.push_back(verify::chunk_digest(std::as_bytes(std::span(*bytes))));
  set.digest = verify::digest(chunks);
  return set;
}

}  // namespace

std::variant<ImageSet, NotInstalled> load_images(const std::string& folder) {
  auto found = find_images(folder);
  if (auto* const missing = std::get_if<NotInstalled>(&found)) return *missing;
  return read_images(std::get<ImageFiles>(found));
}

std::variant<std::shared_ptr<const ImageSet>, NotInstalled> shared_images(const std::string& folder) {
  struct Stamp {
    std::string path;
    std::uintmax_t size;
    std::filesystem::file_time_type time;
    bool operator==(const Stamp&) const = default;
  };
  static std::mutex mutex;
  static std::vector<Stamp> kept;
  static std::shared_ptr<const ImageSet> set;
  auto found = find_images(folder);
  if (auto* const missing = std::get_if<NotInstalled>(&found)) return *missing;
  const auto& files = std::get<ImageFiles>(found);
  std::vector<Stamp> stamps;
  for (const std::string& path : files.paths) {
    std::error_code error;  // what cannot be read is refused below
    stamps.push_back({path, std::filesystem::file_size(path, error), std::filesystem::last_write_time(path, error)});
  }
  const std::lock_guard lock(mutex);
  if (!set || stamps != kept) {
    set.reset();
    set = std::make_shared<const ImageSet>(read_images(files));
    kept = std::move(stamps);
  }
  return set;
}

}  // namespace halfulp
