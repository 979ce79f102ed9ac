#include <halfulp/experiments/data/gzip.hpp>

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>
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
        throw std::invalid_argument(fmt::format("{}: truncated: the gzip file ends at byte {}, within its data", name_, in.taken));
      in.taken += in.z.avail_in;
    }
    const auto room = static_cast<uInt>(std::min<std::size_t>(bytes.size() - done, 1u << 30));
    in.z.next_out = reinterpret_cast<Bytef*>(bytes.data() + done);
    in.z.avail_out = room;
    const int status = inflate(&in.z, Z_NO_FLUSH);
    done += room - in.z.avail_out;
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      throw std::invalid_argument(fmt::format("{}: corrupted gzip data before byte {}: {}", name_, in.taken - in.z.avail_in,
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

}  // namespace halfulp
