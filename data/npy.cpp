#include <halfulp/data/npy.hpp>

#include <halfulp/support/files.hpp>
#include <halfulp/formats/catalogue.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace halfulp {
namespace {

constexpr std::size_t longest_header = 65'536;  ///< NumPy itself writes a few hundred bytes at most
constexpr std::uint64_t most_bytes = std::numeric_limits<std::int64_t>::max();

struct NpyType {
  std::string_view descr;
  FloatFormat format;
};
constexpr std::array<NpyType, 3> npy_types{{{"<f2", fp16}, {"<f4", fp32}, {"<f8", fp64}}};

/// The header's text: a Python dictionary literal with the keys descr, fortran_order and shape.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  NpyHeader parse() {
    NpyHeader header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) {
        header.format = format();
        descr = true;
      } else if (key == "fortran_order" && !order) {
        header.fortran_order = truth();
        order = true;
      } else if (key == "shape" && !shape) {
        header.shape = tuple();
        shape = true;
      } else {
        refuse_file(name_, "the .npy header has an unexpected key '" + printable(key) + "'");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (peek() != '\0') malformed("text after the dictionary");
    if (!descr || !order || !shape) malformed("descr, fortran_order or shape is missing");
    header.count = product(header);
    return header;
  }

 private:
  [[noreturn]] void malformed(const std::string& what) { refuse_file(name_, "malformed .npy header: " + what); }

  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) malformed(std::string("expected '") + c + "' before '" + printable(text_.substr(at_)) + "'");
  }
  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"')
      malformed("expected a quoted word before '" + printable(text_.substr(at_)) + "'");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) malformed("a quote is not closed");
    const std::string word(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return word;
  }
  bool truth() {
    peek();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return word == "True";
      }
    malformed("fortran_order is neither True nor False");
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> values;
    expect('(');
    while (!accept(')')) {
      if (!std::isdigit(static_cast<unsigned char>(peek()))) malformed("shape is not a tuple of sizes");
      std::uint64_t value = 0;
      for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
        if (value > most_bytes / 10 - 1) refuse_file(name_, "the shape in the header is impossibly large");
        value = value * 10 + static_cast<std::uint64_t>(text_[at_] - '0');
      }
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote its long integers so: (3L,)
      values.push_back(value);
      if (!accept(',')) {
        expect(')');
        if (values.size() == 1) malformed("shape is not a tuple of sizes");  // Python: (3) is a number
        break;
      }
    }
    return values;
  }
  FloatFormat format() {
    constexpr std::string_view accepted =
        "; accepted: float16, float32 and float64 in little-endian order ('<f2', '<f4', '<f8')";
    if (peek() == '[') refuse_file(name_, "a structured dtype" + std::string(accepted));
    const std::string descr = string();
    for (const NpyType& type : npy_types)
      if (descr == type.descr) return type.format;
    if (descr.find('O') != std::string::npos)
      refuse_file(name_, "pickled Python objects (dtype '" + printable(descr) + "')" + std::string(accepted));
    if (descr.starts_with('>'))
      refuse_file(name_, "big-endian dtype '" + printable(descr) + "'" + std::string(accepted));
    refuse_file(name_, "dtype '" + printable(descr) + "'" + std::string(accepted));
  }
  std::uint64_t product(const NpyHeader& header) {
    if (std::find(header.shape.begin(), header.shape.end(), 0u) != header.shape.end()) return 0;
    std::uint64_t count = 1;
    const std::uint64_t most = most_bytes / static_cast<std::uint64_t>(header.format.storage_bytes());
    for (const std::uint64_t size : header.shape) {
      if (size > most / count) refuse_file(name_, "the shape in the header is impossibly large");
      count *= size;
    }
    return count;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
};

std::string take(std::istream& stream, std::size_t bytes, const std::string& name) {
  std::string text(bytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(bytes));
  if (static_cast<std::size_t>(stream.gcount()) != bytes)
    refuse_file(name, "truncated: the file ends within the .npy header");
  return text;
}

NpyHeader read_header(std::istream& stream, const std::string& name) {
  constexpr std::string_view magic = "\x93NUMPY";
  std::string start(magic.size(), '\0');
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  if (stream.gcount() == 0) refuse_file(name, "an empty file, not a .npy file");
  if (start != magic) {
    std::string more(256, '\0');  // in an archive, the name of its first file
    stream.read(more.data(), static_cast<std::streamsize>(more.size()));
    const bool zip = start.starts_with("PK"), of_torch = zip && more.find("data.pkl") != std::string::npos;
    refuse_file(name, of_torch ? "a file of PyTorch: save each tensor by numpy.save(file, tensor.float().numpy())"
                      : zip    ? "a .npz archive: extract one array of it as a .npy file"
                               : "not a .npy file (its first bytes are not \\x93NUMPY)");
  }
  const std::string version = take(stream, 2, name);
  const int major = static_cast<unsigned char>(version[0]), minor = static_cast<unsigned char>(version[1]);
  if (major < 1 || major > 3 || minor != 0)
    refuse_file(name, ".npy format version " + std::to_string(major) + "." + std::to_string(minor) +
                          "; accepted: 1.0, 2.0, 3.0");
  std::size_t length = 0;
  const std::string bytes = take(stream, major == 1 ? 2 : 4, name);
  for (std::size_t i = bytes.size(); i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  if (length > longest_header)
    refuse_file(name, "a .npy header of " + std::to_string(length) + " bytes; at most " +
                          std::to_string(longest_header) + " are accepted");
  const std::string text = take(stream, length, name);
  return HeaderParser(text, name).parse();
}

}  // namespace

NpyReader::NpyReader(const std::string& path) : NpyReader(open_input(path, "a .npy file"), path) {}

NpyReader::NpyReader(std::unique_ptr<std::istream> stream, std::string name)
    : stream_(std::move(stream)), name_(std::move(name)), header_(read_header(*stream_, name_)) {
  check_length();
}

/// Where the length can be known beforehand, a file that lies about it is refused before any work.
void NpyReader::check_length() {
  const auto data = stream_->tellg();
  if (data < 0) {
    stream_->clear();
    return;
  }
  stream_->seekg(0, std::ios::end);
  const auto end = stream_->tellg();
  stream_->clear();
  stream_->seekg(data);
  if (end < 0 || !*stream_) refuse_file(name_, "cannot be read");
  data_ = static_cast<std::uint64_t>(data);
  const auto present = static_cast<std::uint64_t>(end - data);
  const std::uint64_t promised = header_.count * static_cast<std::uint64_t>(header_.format.storage_bytes());
  if (present < promised)
    refuse_file(name_, "truncated: the header promises " + std::to_string(promised) +
                           " bytes of data, the file holds " + std::to_string(present));
  if (present > promised)
    refuse_file(name_, "trailing garbage: " + std::to_string(present - promised) + " bytes after the " +
                           std::to_string(promised) + " the header promises");
}

std::size_t NpyReader::read(std::span<std::uint64_t> codes) {
  const auto size = static_cast<std::size_t>(header_.format.storage_bytes());
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(codes.size(), header_.count - done_));
  if (wanted == 0) {
    // A pipe's length is only known here.
    if (!codes.empty() && stream_->peek() != std::istream::traits_type::eof())
      refuse_file(name_, "trailing garbage after the data");
    return 0;
  }
  std::vector<char> bytes(wanted * size);
  stream_->read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (static_cast<std::size_t>(stream_->gcount()) != bytes.size())
    refuse_file(name_, "truncated: the file ends within the data");
  for (std::size_t i = 0; i < wanted; ++i) {
    std::uint64_t code = 0;
    for (std::size_t b = size; b-- > 0;) code = code << 8 | static_cast<unsigned char>(bytes[i * size + b]);
    codes[i] = code;
  }
  done_ += wanted;
  return wanted;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string npy_start(std::string_view descr, std::span<const std::uint64_t> shape, std::size_t bytes) {
  std::string header = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': " + shape_text(shape) +
                       ", }";
  constexpr std::size_t before = 10;  // magic, version, length
  header.resize((before + header.size() + 1 + 63) / 64 * 64 - before - 1, ' ');
  header += '\n';
  std::string file;
  file.reserve(before + header.size() + bytes);
  file = "\x93NUMPY";
  for (const std::size_t byte : {std::size_t{1}, std::size_t{0}, header.size() & 255, header.size() >> 8})
    file += static_cast<char>(byte);
  return file.append(header);
}

std::string npy_bytes(std::string_view descr, std::span<const std::uint64_t> shape, std::string_view data) {
  return npy_start(descr, shape, data.size()).append(data);
}

void write_npy(const std::string& path, std::span<const std::uint64_t> shape, std::span<const float> values) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape) count *= size;
  if (count != values.size())
    throw std::logic_error(path + ": " + std::to_string(values.size()) + " values for a shape of " + shape_text(shape));
  write_file(path, npy_of<float>(shape, values));
}

}  // namespace halfulp
