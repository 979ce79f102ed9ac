#include <halfulp/experiments/data/open_input.hpp>

#include <halfulp/experiments/run/interruptible_stream.hpp>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace halfulp {

std::unique_ptr<std::istream> open_input(const std::string& path, const std::string& kind) {
  const auto refuse = [&](const std::string& why) { throw std::invalid_argument(path + ": " + why); };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) refuse("no such file");
  if (std::filesystem::is_directory(status)) refuse("a directory, not " + kind);
  if (!std::filesystem::is_regular_file(status)) return open_interruptible(path);
  auto stream = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*stream) refuse("cannot be read");
  return stream;
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 40)) out += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
  return out + (text.size() > 40 ? "..." : "");
}

}  // namespace halfulp
